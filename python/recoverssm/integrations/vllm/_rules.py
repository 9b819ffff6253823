"""Which configurations the plugin takes: one table, read by the layers, by the tests and by docs/vllm.md. Imports nothing of vLLM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

ARCHITECTURES = frozenset({
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip

# Version to platform. What has not run is refused unless RECOVERSSM_VLLM_UNTRIED=1 asks for it.
VERSIONS = {"0.32.0": "cpu", "0.33.0": "cuda"}
TRIED = frozenset({"0.32.0"})  # of these: scripts/vllm-test has passed
STATE_DTYPES = frozenset({"auto", "float32", "bfloat16", "float16"})
ACTIVATION_DTYPES = frozenset({"bfloat16", "float16", "float32"})


class Refused(ValueError):
    """A configuration that the plugin does not take, under RECOVERSSM_VLLM=1."""


@dataclass(frozen=True)
class Facts:
    """What the rules ask of a configuration."""

    version: str = "0.32.0"
    platform: str = "cpu"
    untried: bool = False  # RECOVERSSM_VLLM_UNTRIED
    architectures: tuple[str, ...] = ("Qwen3NextForCausalLM",)
    num_speculative_tokens: int = 1
    drafter_architectures: tuple[str, ...] = ()
    drafter_layer_types: tuple[str, ...] = ()
    drafter_pipeline: int = 1
    attention_cache: str = ""  # heads, their size and dtype: what a page of the KV cache is cut for
    drafter_attention_cache: str = ""
    pipeline_parallel: int = 1
    context_parallel: int = 1
    dual_batch: bool = False
    activation_dtype: str = "bfloat16"
    state_dtype: str = "float32"
    conv_dtype: str = "auto"
    stochastic_rounding: bool = False
    cache_mode: str = "none"
    replayssm: bool = False
    runner: int = 1
    kv_connector: str | None = None
    kv_offload: bool = False
    mamba_backend: str = "triton"
    lora: bool = False
    graphs: str = "none"  # none, piecewise, full, full_decode_only, full_and_piecewise
    eager: bool = True  # graphs are off because the user said so


class Rule(NamedTuple):
    name: str
    why: str
    against: Callable[[Facts], str | None]  # what is wrong, None if nothing


def version_reason(version: str) -> str | None:
    public = version.split("+")[0]
    if public in VERSIONS:
        return None
    return f"vLLM {public}: the plugin knows {', '.join(sorted(VERSIONS))}"


def _when(wrong: Callable[[Facts], Any], text: str) -> Callable[[Facts], str | None]:
    return lambda facts: text.format(facts=facts) if wrong(facts) else None


def _platform(facts: Facts) -> str | None:
    public = facts.version.split("+")[0]
    expected = VERSIONS.get(public)
    if expected is None:
        return version_reason(facts.version)
    if facts.platform != expected:
        return f"platform {facts.platform}: vLLM {public} is supported on {expected}"
    if public not in TRIED and not facts.untried:
        return f"vLLM {public} on {expected} has not run with this plugin yet; RECOVERSSM_VLLM_UNTRIED=1 takes it all the same"
    return None


def _architecture(facts: Facts) -> str | None:
    unknown = [name for name in facts.architectures if name not in ARCHITECTURES]
    if facts.architectures and not unknown:
        return None
    return f"architecture {', '.join(facts.architectures) or 'unknown'}: supported are {', '.join(sorted(ARCHITECTURES))}"


def _graphs(facts: Facts) -> str | None:
    """Uniform batches may be captured whole, mixed ones only in pieces; no graphs only where the user asked for none."""
    if facts.platform == "cpu":
        return None if facts.graphs == "none" else f"graph mode {facts.graphs} on a CPU"
    if facts.graphs == "none":
        return None if facts.eager else "graph mode none without enforce_eager: set full_decode_only, piecewise or full_and_piecewise"
    if facts.graphs == "full":
        return "graph mode full would capture mixed batches whole: set full_decode_only, piecewise or full_and_piecewise"
    return None


RULES = (
    Rule("version and platform", "layer names and metadata are private to a version", _platform),
    Rule("speculation", "without it there is one state a request anyway", _when(lambda f: f.num_speculative_tokens < 1, "no speculation")),
    Rule("architecture", "the layer of other models differs", _architecture),
    Rule("drafter", "its layers would need a commit of their own", _when(
        lambda f: "linear_attention" in f.drafter_layer_types,
        "the drafter ({facts.drafter_architectures[0]}) has linear attention layers of its own")),
    Rule("drafter's cache", "vLLM then lays pages of two shapes over one another, and texts are wrong", _when(
        lambda f: f.drafter_attention_cache not in ("", f.attention_cache),
        "the drafter's attention has {facts.drafter_attention_cache}, the target's {facts.attention_cache}")),
    Rule("drafter's pipeline", "counts would arrive at other ranks later", _when(
        lambda f: f.drafter_pipeline != 1, "the drafter has pipeline_parallel_size {facts.drafter_pipeline}")),
    Rule("pipeline parallel", "earlier ranks learn the counts steps later", _when(
        lambda f: f.pipeline_parallel != 1, "pipeline_parallel_size {facts.pipeline_parallel}: supported is 1")),
    Rule("context parallel", "states are not split over tokens", _when(
        lambda f: f.context_parallel != 1, "context parallel size {facts.context_parallel}: supported is 1")),
    Rule("dual batch", "a step would be two", _when(lambda f: f.dual_batch, "dual batch overlap or ubatch_size")),
    Rule("activations", "the operations' dtypes", _when(
        lambda f: f.activation_dtype not in ACTIVATION_DTYPES, "model dtype {facts.activation_dtype}")),
    Rule("state cache", "the operations' dtypes", _when(
        lambda f: f.state_dtype not in STATE_DTYPES, "mamba_ssm_cache_dtype {facts.state_dtype}: supported are float32, bfloat16, float16")),
    Rule("convolution cache", "lines have the activations' dtype", _when(
        lambda f: f.conv_dtype not in ("auto", f.activation_dtype), "mamba_cache_dtype {facts.conv_dtype}: supported is that of the model")),
    Rule("stochastic rounding", "states are rounded to nearest", _when(
        lambda f: f.stochastic_rounding, "stochastic rounding of the state cache")),
    Rule("cache mode", "align moves blocks before the forward in which a lazy commit happens", _when(
        lambda f: f.cache_mode != "none", "mamba_cache_mode {facts.cache_mode}: supported is none")),
    Rule("ReplaySSM", "another way to the same end", _when(lambda f: f.replayssm, "use_replayssm")),
    Rule("model runner", "it hands over the accepted counts", _when(
        lambda f: f.runner != (2 if f.platform == "cuda" else 1), "model runner V{facts.runner}")),
    Rule("KV connector", "it would carry states away before their commit", _when(lambda f: f.kv_connector, "KV connector {facts.kv_connector}")),
    Rule("KV offload", "the same", _when(lambda f: f.kv_offload, "KV cache offloading")),
    Rule("mamba backend", "its metadata is what the layer reads", _when(
        lambda f: f.mamba_backend != "triton", "mamba backend {facts.mamba_backend}: supported is triton")),
    Rule("LoRA", "it splits the projections", _when(lambda f: f.lora, "LoRA")),
    Rule("graph mode", "uniform batches whole, mixed ones in pieces, never silently none", _graphs),
)  # fmt: skip


def reasons_against(facts: Facts) -> list[str]:
    """What keeps the plugin from this configuration; empty if nothing."""
    return [reason for rule in RULES if (reason := rule.against(facts))]


def _attention_cache(model: Any) -> str:
    text = model.hf_text_config
    heads, size = getattr(text, "num_key_value_heads", None), getattr(text, "head_dim", None)
    if size is None and getattr(text, "hidden_size", None) and getattr(text, "num_attention_heads", None):
        size = text.hidden_size // text.num_attention_heads
    return f"{heads} key heads of {size}, {_word(model.dtype)}"


def facts_of(vllm_config: Any, *, platform: str, version: str) -> Facts:
    """The facts of a VllmConfig."""
    import os

    model, cache, parallel = vllm_config.model_config, vllm_config.cache_config, vllm_config.parallel_config
    speculative, transfer = vllm_config.speculative_config, vllm_config.kv_transfer_config
    mamba = getattr(vllm_config, "mamba_config", None)
    drafter = getattr(speculative, "draft_model_config", None)
    drafter_parallel = getattr(speculative, "draft_parallel_config", None)
    # n-gram and the like name the target as their drafter; a multi-token head shares the target's file and has its own architecture.
    separate = drafter is not None and drafter is not model and getattr(speculative, "method", None) == "draft_model"
    return Facts(
        version=version,
        platform=platform,
        untried=os.environ.get("RECOVERSSM_VLLM_UNTRIED", "") == "1",
        architectures=tuple(model.architectures or ()),
        num_speculative_tokens=int(getattr(speculative, "num_speculative_tokens", 0) or 0),
        drafter_architectures=tuple(drafter.architectures or ()) if separate else (),
        drafter_layer_types=tuple(getattr(drafter.hf_text_config, "layer_types", None) or ()) if separate else (),
        attention_cache=_attention_cache(model) if separate else "",
        drafter_attention_cache=_attention_cache(drafter) if separate else "",
        drafter_pipeline=getattr(drafter_parallel, "pipeline_parallel_size", 1) if separate else 1,
        pipeline_parallel=parallel.pipeline_parallel_size,
        context_parallel=getattr(parallel, "decode_context_parallel_size", 1) * getattr(parallel, "prefill_context_parallel_size", 1),
        dual_batch=bool(parallel.use_ubatching),  # enable_dbo, or a ubatch_size above 1
        activation_dtype=_word(model.dtype),
        state_dtype=_word(cache.mamba_ssm_cache_dtype),
        conv_dtype=_word(cache.mamba_cache_dtype),
        stochastic_rounding=bool(getattr(mamba, "enable_stochastic_rounding", False)),
        cache_mode=cache.mamba_cache_mode,
        replayssm=bool(getattr(cache, "use_replayssm", False)),
        runner=2 if vllm_config.use_v2_model_runner else 1,
        kv_connector=getattr(transfer, "kv_connector", None),
        kv_offload=getattr(cache, "kv_offloading_size", None) is not None,
        mamba_backend=_word(getattr(mamba, "backend", "triton")),
        lora=getattr(vllm_config, "lora_config", None) is not None,
        graphs=_word(vllm_config.compilation_config.cudagraph_mode),
        eager=bool(model.enforce_eager),
    )


def _word(value: Any) -> str:
    """The last word of a dtype or an enumeration's member: torch.bfloat16 -> bfloat16."""
    name = getattr(value, "name", None)
    return (name if isinstance(name, str) else str(value)).rpartition(".")[2].lower()
