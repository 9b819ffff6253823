"""The names of vLLM that the plugin and the compat functions rest on, read from vLLM's own files: a wheel, or an installed package's folder.

    python names.py build/vllm/wheels/vllm-0.33.0-....whl     python names.py build/vllm/env/lib/python3.11/site-packages

Nothing of vLLM is imported, so a wheel for a GPU can be read anywhere. Exit status 1 if a name is missing or another.
"""

from __future__ import annotations

import ast
import inspect
import sys
import zipfile
from pathlib import Path

from recoverssm.compat import vllm_ops
from recoverssm.integrations.vllm import _metadata, _rules

failures: list[str] = []


class Source:
    def __init__(self, where: Path) -> None:
        self.archive = zipfile.ZipFile(where) if where.is_file() else None
        self.folder = where

    def tree(self, path: str) -> ast.Module:
        text = self.archive.read(path) if self.archive else (self.folder / path).read_bytes()
        return ast.parse(text)


def expect(right: bool, text: str) -> None:
    print(f"  {'ok' if right else 'WRONG'}: {text}")
    if not right:
        failures.append(text)


def find(tree: ast.AST, name: str) -> ast.AST | None:
    return next((node for node in ast.walk(tree) if getattr(node, "name", None) == name), None)


def fields(cls: ast.AST | None) -> set[str]:
    return {node.target.id for node in getattr(cls, "body", []) if isinstance(node, ast.AnnAssign)}


def methods(cls: ast.AST | None) -> set[str]:
    """Properties too."""
    return {node.name for node in getattr(cls, "body", []) if isinstance(node, ast.FunctionDef)}


def arguments(function: ast.AST | None) -> list[str]:
    given = function.args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)] if given else []


def attributes(*classes: ast.AST | None) -> set[str]:
    """What the classes' methods assign to self."""
    return {
        target.attr
        for cls in classes
        for node in ast.walk(cls)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    }


def check_layer(source: Source, forward: str) -> None:
    folder = "vllm/model_executor/layers/mamba/gdn/"
    layer = find(source.tree(folder + "qwen_gdn_linear_attn.py"), "QwenGatedDeltaNetAttention")
    base = find(source.tree(folder + "base.py"), "GatedDeltaNetAttention")
    for method, names in {
        "__init__": ["self", "config", "vllm_config"],
        forward: ["self", "hidden_states"],
        "_output_projection": ["self", "core_attn_out", "z"],
        "get_state_shape": ["self"],
    }.items():
        found = arguments(find(layer, method))
        expect(found[: len(names)] == names, f"QwenGatedDeltaNetAttention.{method}({', '.join(found)})")
    used = {"in_proj_qkvz", "in_proj_ba", "conv1d", "qkvz_layout", "num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim", "A_log", "dt_bias",
            "tp_size", "prefix", "num_spec", "activation", "_forward_method"}  # fmt: skip
    expect(not used - attributes(layer, base), f"attributes of the layer, missing: {sorted(used - attributes(layer, base)) or 'none'}")
    expect("get_state_dtype" in {getattr(node, "name", "") for node in base.body}, "GatedDeltaNetAttention.get_state_dtype")
    metadata = fields(find(source.tree("vllm/v1/attention/backends/gdn_attn.py"), "GDNAttentionMetadata"))
    expect(not set(_metadata.FIELDS) - metadata, f"GDNAttentionMetadata, missing: {sorted(set(_metadata.FIELDS) - metadata) or 'none'}")
    spec = fields(find(source.tree("vllm/v1/kv_cache_interface.py"), "MambaSpec"))
    expect({"shapes", "dtypes", "num_speculative_blocks", "mamba_cache_mode"} <= spec, "MambaSpec")
    found = arguments(find(source.tree("vllm/model_executor/layers/mamba/abstract.py"), "get_kv_cache_spec"))
    expect(found == ["self", "vllm_config"], f"MambaBase.get_kv_cache_spec({', '.join(found)})")
    pluggable = find(source.tree("vllm/model_executor/custom_op.py"), "PluggableLayer")
    expect("name" in arguments(find(pluggable, "register_oot")), "PluggableLayer.register_oot(name=)")
    utils = source.tree("vllm/utils/torch_utils.py")
    found = set(arguments(find(utils, "direct_register_custom_op")))
    expect({"op_name", "op_func", "mutates_args", "fake_impl"} <= found, "direct_register_custom_op")
    breaks = find(source.tree("vllm/compilation/breakable_cudagraph.py"), "eager_break_during_capture")
    expect(breaks is not None, "eager_break_during_capture")
    for name in ("_encode_layer_name", "_resolve_layer_name"):
        expect(find(utils, name) is not None, name)
    cache = fields(find(source.tree("vllm/config/cache.py"), "CacheConfig"))
    used = {"mamba_ssm_cache_dtype", "mamba_cache_dtype", "mamba_cache_mode", "use_replayssm", "kv_offloading_size"}
    expect(used <= cache, f"CacheConfig, missing: {sorted(used - cache) or 'none'}")
    # A rule that reads a name which is no longer there would refuse nothing.
    for path, name, used in (
        ("mamba", "MambaConfig", {"enable_stochastic_rounding", "backend"}),
        ("parallel", "ParallelConfig", {"pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size", "use_ubatching"}),
        ("speculative", "SpeculativeConfig", {"num_speculative_tokens", "method", "draft_model_config", "draft_parallel_config"}),
        ("kv_transfer", "KVTransferConfig", {"kv_connector"}),
        ("compilation", "CompilationConfig", {"cudagraph_mode", "splitting_ops"}),
        ("model", "ModelConfig", {"dtype", "enforce_eager", "hf_text_config", "architectures"}),
        ("vllm", "VllmConfig", {"model_config", "cache_config", "parallel_config", "speculative_config", "kv_transfer_config", "mamba_config",
                                "lora_config", "compilation_config", "use_v2_model_runner"}),
    ):  # fmt: skip
        config = find(source.tree(f"vllm/config/{path}.py"), name)
        missing = used - fields(config) - methods(config) - attributes(config)
        expect(not missing, f"{name}, missing: {sorted(missing) or 'none'}")
    models = {name for path in ("qwen3_next", "qwen3_5") for name in names_of(source.tree(f"vllm/model_executor/models/{path}.py"))}
    expect(models >= _rules.ARCHITECTURES, f"architectures, missing: {sorted(_rules.ARCHITECTURES - models) or 'none'}")
    for path in ("qwen3_next", "qwen3_5"):
        for method in ("get_mamba_state_shape_from_config", "get_mamba_state_dtype_from_config"):
            found = arguments(find(source.tree(f"vllm/model_executor/models/{path}.py"), method))
            expect(found == ["cls", "vllm_config"], f"{path}: {method}({', '.join(found)})")


def check_drafter(source: Source) -> None:
    """What _drafter.py wraps and reads."""
    runner = find(source.tree("vllm/v1/worker/gpu_model_runner.py"), "GPUModelRunner")
    found = arguments(find(runner, "_build_attention_metadata"))
    expect("slot_mappings" in found, "GPUModelRunner._build_attention_metadata(slot_mappings=)")
    expect({"drafter", "cache_config", "input_batch"} <= attributes(runner), "GPUModelRunner: drafter, cache_config, input_batch")
    proposer = find(source.tree("vllm/v1/spec_decode/llm_base_proposer.py"), "SpecDecodeBaseProposer")
    expect("kv_cache_gid" in attributes(proposer), "SpecDecodeBaseProposer.kv_cache_gid")
    expect(find(source.tree("vllm/v1/spec_decode/draft_model.py"), "DraftModelProposer") is not None, "DraftModelProposer")
    common = fields(find(source.tree("vllm/v1/attention/backend.py"), "CommonAttentionMetadata"))
    expect({"block_table_tensor", "slot_mapping"} <= common, "CommonAttentionMetadata: block_table_tensor, slot_mapping")


def names_of(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def check_kda(source: Source) -> None:
    """Kimi's RecoverSSM runs on the compat functions if vLLM's names are theirs."""
    kda = source.tree("vllm/models/kimi_k3/nvidia/ops/recoverssm.py")
    for name, ours in (
        ("kda_recoverssm_verify", vllm_ops.kda_recoverssm_verify),
        ("allocate", vllm_ops.KDARecoverSSMRecords.allocate.__func__),
        ("commit", vllm_ops.KDARecoverSSMCommitContext.commit),
    ):
        found, expected = arguments(find(kda, name)), list(inspect.signature(ours).parameters)
        expect(found == expected, f"{name}({', '.join(found)})")
    create = list(inspect.signature(vllm_ops.KDARecoverSSMCommitContext.create).parameters)
    found = arguments(find(find(kda, "KDARecoverSSMCommitContext"), "create"))
    expect(found[1:] == create[: len(found) - 1], f"KDARecoverSSMCommitContext.create({', '.join(found)})")
    expect(fields(find(kda, "KDARecoverSSMRecords")) == {"correction", "key_gate"}, "KDARecoverSSMRecords")
    metadata = source.tree("vllm/v1/attention/backends/recoverssm_metadata.py")
    wanted = {"num_spec_decodes", "request_indices", "block_table", "num_computed_tokens", "block_size"}
    expect(fields(find(metadata, "RecoverSSMPostprocessMetadata")) == wanted, "RecoverSSMPostprocessMetadata")
    state = find(source.tree("vllm/v1/worker/gpu/model_states/recoverssm.py"), "RecoverSSMState")
    for name in ("record_step", "commit_step"):
        found, ours = arguments(find(state, name)), list(inspect.signature(getattr(vllm_ops.RecoverSSMState, name)).parameters)
        expect(found == ours[: len(found)], f"RecoverSSMState.{name}({', '.join(found)})")


def main() -> int:
    where, forward = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "forward_cuda"
    print(f"{where.name}: the layer through {forward}")
    check_layer(Source(where), forward)
    if forward == "forward_cuda":  # Kimi's layers run on CUDA alone
        check_kda(Source(where))
    else:
        check_drafter(Source(where))
    print(f"{len(failures)} names are not as expected" if failures else "all names as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
