"""vLLM engines over the small real model, in this process: plain, with vLLM's own speculation, and with the plugin."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

# Before vLLM is imported: one process, a small cache, nothing fetched, no thread waits for another.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["RECOVERSSM_VLLM_UNTRIED"] = "1"
os.environ["RECOVERSSM_VLLM"] = "1"  # at the import, so that the layer is registered; plugin() switches

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "python/recoverssm/demo/models"
TARGET = ROOT / "build/vllm/target-with-head"
DRAFT = ROOT / "build/vllm/draft-of-one-layer"
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
    """The draft model's first layer as a model: vLLM wants all layers of a drafter in one cache group, and groups here have one layer each, as
    many as the target has layers of full attention."""
    import json

    from safetensors.torch import load_file, save_file

    if (DRAFT / "config.json").exists():
        return
    DRAFT.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor for name, tensor in load_file(MODELS / "hybrid-draft/model.safetensors").items() if "layers.1." not in name}
    save_file(weights, DRAFT / "model.safetensors", {"format": "pt"})
    config = json.loads((MODELS / "hybrid-draft/config.json").read_text())
    (DRAFT / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1, "layer_types": config["layer_types"][:1]}))


def prompt(ids: bytes) -> Any:
    from vllm.inputs import TokensPrompt

    return TokensPrompt(prompt_token_ids=list(ids))


def greedy(tokens: int, **named: Any) -> Any:
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, **named)


def scheduler(engine: Any) -> Any:
    return engine.llm_engine.engine_core.engine_core.scheduler


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
