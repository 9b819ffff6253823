"""The vLLM plugin as far as it can be seen without vLLM: configuration rules, the switch, and rows from vLLM's metadata. scripts/vllm-test has
the rest."""

import logging
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from recoverssm.integrations import vllm as plugin
from recoverssm.integrations.vllm import _metadata, _rules

I32 = torch.int32
GOOD = _rules.Facts(num_speculative_tokens=3)
CUDA = replace(GOOD, version="0.33.0", platform="cuda", untried=True, runner=2, graphs="full_and_piecewise", eager=False)

# Rule, facts that break it and nothing else, words of the reason.
BROKEN = [
    ("version and platform", replace(GOOD, version="0.31.1"), ["0.31.1", "0.32.0", "0.33.0"]),
    ("version and platform", replace(GOOD, platform="xpu"), ["xpu", "cpu"]),
    ("version and platform", replace(CUDA, untried=False), ["0.33.0", "RECOVERSSM_VLLM_UNTRIED=1"]),
    ("version and platform", replace(CUDA, platform="cpu", runner=1, graphs="none"), ["cpu", "cuda"]),
    ("speculation", replace(GOOD, num_speculative_tokens=0), ["no speculation"]),
    ("architecture", replace(GOOD, architectures=("OlmoHybridForCausalLM",)), ["OlmoHybridForCausalLM", "Qwen3NextForCausalLM"]),
    ("architecture", replace(GOOD, architectures=()), ["unknown"]),
    ("drafter", replace(GOOD, drafter_architectures=("Qwen3NextForCausalLM",), drafter_layer_types=("linear_attention",)), ["drafter", "Qwen3Next"]),
    ("drafter's cache", replace(GOOD, attention_cache="2 key heads of 64, bfloat16", drafter_attention_cache="2 key heads of 32, bfloat16"),
     ["2 key heads of 32", "2 key heads of 64"]),
    ("drafter's pipeline", replace(GOOD, drafter_pipeline=2), ["drafter", "2"]),
    ("pipeline parallel", replace(GOOD, pipeline_parallel=2), ["pipeline_parallel_size 2"]),
    ("context parallel", replace(GOOD, context_parallel=2), ["context parallel", "2"]),
    ("dual batch", replace(GOOD, dual_batch=True), ["dual batch"]),
    ("activations", replace(GOOD, activation_dtype="float64"), ["float64"]),
    ("state cache", replace(GOOD, state_dtype="float8_e4m3fn"), ["mamba_ssm_cache_dtype", "float8_e4m3fn"]),
    ("convolution cache", replace(GOOD, conv_dtype="float32"), ["mamba_cache_dtype", "float32"]),
    ("stochastic rounding", replace(GOOD, stochastic_rounding=True), ["stochastic rounding"]),
    ("cache mode", replace(GOOD, cache_mode="align"), ["align", "none"]),
    ("cache mode", replace(GOOD, cache_mode="all"), ["all", "none"]),
    ("ReplaySSM", replace(GOOD, replayssm=True), ["use_replayssm"]),
    ("model runner", replace(GOOD, runner=2), ["V2"]),
    ("model runner", replace(CUDA, runner=1), ["V1"]),
    ("KV connector", replace(GOOD, kv_connector="NixlConnector"), ["NixlConnector"]),
    ("KV offload", replace(GOOD, kv_offload=True), ["offloading"]),
    ("mamba backend", replace(GOOD, mamba_backend="flashinfer"), ["flashinfer", "triton"]),
    ("LoRA", replace(GOOD, lora=True), ["LoRA"]),
    ("graph mode", replace(CUDA, graphs="none"), ["enforce_eager"]),
    ("graph mode", replace(CUDA, graphs="full"), ["full", "full_decode_only"]),
    ("graph mode", replace(GOOD, graphs="piecewise"), ["piecewise", "CPU"]),
]


@pytest.mark.parametrize("facts", [GOOD, CUDA, replace(CUDA, graphs="none", eager=True), replace(CUDA, graphs="full_decode_only"),
                                   replace(GOOD, version="0.32.0+cpu"), replace(GOOD, drafter_layer_types=("full_attention",))])  # fmt: skip
def test_taken(facts):
    assert plugin.reasons_against(facts) == []


@pytest.mark.parametrize(("name", "facts", "words"), BROKEN)
def test_each_rule_refuses(name, facts, words):
    broken = [rule.name for rule in plugin.RULES if rule.against(facts)]
    assert broken == [name]
    (reason,) = plugin.reasons_against(facts)
    assert all(word in reason for word in words), reason


def test_every_rule_has_a_case_and_a_line_in_the_document(root):
    names = [rule.name for rule in plugin.RULES]
    assert len(set(names)) == len(names) and set(names) == {name for name, _, _ in BROKEN}
    table = re.findall(r"^\| ([^|]+) \|", (root / "docs/vllm.md").read_text(), re.MULTILINE)
    assert [name for name in names if name not in table] == []


# --- the switch ------------------------------------------------------------------------------------------------------------------


def config(**changed):
    """A stand-in for VllmConfig with what facts_of reads."""
    facts = dict(
        model_config=SimpleNamespace(architectures=["Qwen3NextForCausalLM"], dtype=torch.bfloat16, enforce_eager=True,
                                     hf_text_config=SimpleNamespace(num_key_value_heads=2, head_dim=64)),
        cache_config=SimpleNamespace(mamba_ssm_cache_dtype="float32", mamba_cache_dtype="auto", mamba_cache_mode="none", use_replayssm=False,
                                     kv_offloading_size=None),
        parallel_config=SimpleNamespace(pipeline_parallel_size=1, decode_context_parallel_size=1, use_ubatching=False),
        speculative_config=SimpleNamespace(num_speculative_tokens=3, method="ngram", draft_model_config=None, draft_parallel_config=None),
        kv_transfer_config=None, mamba_config=SimpleNamespace(enable_stochastic_rounding=False, backend=SimpleNamespace(name="TRITON")),
        compilation_config=SimpleNamespace(cudagraph_mode=SimpleNamespace(name="NONE")), use_v2_model_runner=False, lora_config=None,
    )  # fmt: skip
    return SimpleNamespace(**facts | changed)


HYBRID = SimpleNamespace(architectures=["Qwen3NextForCausalLM"], dtype=torch.bfloat16, hf_text_config=SimpleNamespace(
    layer_types=["linear_attention"], num_key_value_heads=1, head_dim=None, hidden_size=128, num_attention_heads=4))  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_untried(monkeypatch):
    monkeypatch.delenv("RECOVERSSM_VLLM_UNTRIED", raising=False)


def test_what_has_not_run_is_taken_on_request_only(monkeypatch):
    facts = lambda: plugin.facts_of(config(use_v2_model_runner=True), platform="cuda", version="0.33.0")  # noqa: E731
    (reason,) = plugin.reasons_against(facts())
    assert "RECOVERSSM_VLLM_UNTRIED=1" in reason
    monkeypatch.setenv("RECOVERSSM_VLLM_UNTRIED", "1")
    assert plugin.reasons_against(facts()) == []


def test_facts_of_a_configuration():
    facts = plugin.facts_of(config(), platform="cpu", version="0.32.0")
    assert facts == GOOD and plugin.reasons_against(facts) == []
    changed = config(
        speculative_config=SimpleNamespace(num_speculative_tokens=2, method="draft_model", draft_model_config=HYBRID,
                                           draft_parallel_config=SimpleNamespace(pipeline_parallel_size=2)),
        kv_transfer_config=SimpleNamespace(kv_connector="NixlConnector"),
        parallel_config=SimpleNamespace(pipeline_parallel_size=2, decode_context_parallel_size=2, use_ubatching=True),
    )  # fmt: skip
    broken = {rule.name for rule in plugin.RULES if rule.against(plugin.facts_of(changed, platform="cpu", version="0.32.0"))}
    assert plugin.facts_of(changed, platform="cpu", version="0.32.0").drafter_attention_cache == "1 key heads of 32, bfloat16"
    assert broken == {"drafter", "drafter's cache", "drafter's pipeline", "pipeline parallel", "context parallel", "dual batch", "KV connector"}
    none = plugin.facts_of(config(speculative_config=None), platform="cpu", version="0.32.0")
    assert none.num_speculative_tokens == 0


def part(name, **changed):
    """One part of the stand-in with other values."""
    return {name: SimpleNamespace(**vars(getattr(config(), name)) | changed)}


# Rule, and what of a VllmConfig breaks it and nothing else.
READ = [
    ("speculation", {"speculative_config": None}),
    ("architecture", part("model_config", architectures=["OlmoHybridForCausalLM"])),
    ("drafter", part("speculative_config", method="draft_model", draft_parallel_config=SimpleNamespace(pipeline_parallel_size=1), draft_model_config=(
        SimpleNamespace(architectures=["Qwen3NextForCausalLM"], dtype=torch.bfloat16, hf_text_config=SimpleNamespace(
            layer_types=["full_attention", "linear_attention"], num_key_value_heads=2, head_dim=64))))),
    ("drafter's cache", part("speculative_config", method="draft_model", draft_parallel_config=None, draft_model_config=(
        SimpleNamespace(architectures=["LlamaForCausalLM"], dtype=torch.float16, hf_text_config=SimpleNamespace(
            num_key_value_heads=2, head_dim=64))))),
    ("drafter's pipeline", part("speculative_config", method="draft_model", draft_parallel_config=SimpleNamespace(pipeline_parallel_size=2),
                                draft_model_config=SimpleNamespace(architectures=["LlamaForCausalLM"], dtype=torch.bfloat16,
                                                                   hf_text_config=SimpleNamespace(num_key_value_heads=2, head_dim=64)))),
    ("pipeline parallel", part("parallel_config", pipeline_parallel_size=2)),
    ("context parallel", part("parallel_config", decode_context_parallel_size=2)),
    ("context parallel", part("parallel_config", prefill_context_parallel_size=2)),
    ("dual batch", part("parallel_config", use_ubatching=True)),
    ("activations", part("model_config", dtype=torch.float64)),
    ("state cache", part("cache_config", mamba_ssm_cache_dtype="float8_e4m3fn")),
    ("convolution cache", part("cache_config", mamba_cache_dtype="float32")),
    ("stochastic rounding", part("mamba_config", enable_stochastic_rounding=True)),
    ("cache mode", part("cache_config", mamba_cache_mode="align")),
    ("ReplaySSM", part("cache_config", use_replayssm=True)),
    ("model runner", {"use_v2_model_runner": True}),
    ("KV connector", {"kv_transfer_config": SimpleNamespace(kv_connector="NixlConnector")}),
    ("KV offload", part("cache_config", kv_offloading_size=4.0)),
    ("mamba backend", part("mamba_config", backend=SimpleNamespace(name="FLASHINFER"))),
    ("LoRA", {"lora_config": object()}),
    ("graph mode", part("compilation_config", cudagraph_mode=SimpleNamespace(name="PIECEWISE"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed"), READ, ids=[name for name, _ in READ])
def test_each_rule_is_asked_of_the_configuration(name, changed):
    facts = plugin.facts_of(config(**changed), platform="cpu", version="0.32.0")
    assert [rule.name for rule in plugin.RULES if rule.against(facts)] == [name]


def test_the_configurations_break_every_rule_but_the_version():
    assert {rule.name for rule in plugin.RULES} - {name for name, _ in READ} == {"version and platform"}


def test_graphs_are_off_on_cuda_only_where_the_user_said_so():
    for eager, broken in ((True, []), (False, ["graph mode"])):
        given = config(use_v2_model_runner=True, **part("model_config", enforce_eager=eager))
        facts = replace(plugin.facts_of(given, platform="cuda", version="0.33.0"), untried=True)
        assert [rule.name for rule in plugin.RULES if rule.against(facts)] == broken


def test_off_auto_and_on(monkeypatch, caplog):
    decide = lambda given: plugin.decide(given, platform="cpu", version="0.32.0")  # noqa: E731
    bad = config(kv_transfer_config=SimpleNamespace(kv_connector="FirstConnector"))
    for word in ("", "0"):
        monkeypatch.setenv("RECOVERSSM_VLLM", word)
        assert decide(config()) is False
    monkeypatch.delenv("RECOVERSSM_VLLM")
    assert plugin.mode() == "0"
    monkeypatch.setenv("RECOVERSSM_VLLM", "auto")
    assert decide(config()) is True
    with caplog.at_level(logging.WARNING, "vllm.recoverssm"):
        assert decide(bad) is False and decide(bad) is False
    assert [record.getMessage() for record in caplog.records] == ["recoverssm is not used: KV connector FirstConnector"]
    monkeypatch.setenv("RECOVERSSM_VLLM", "1")
    assert decide(config()) is True
    with pytest.raises(plugin.Refused, match="RECOVERSSM_VLLM=1: KV connector FirstConnector"):
        decide(bad)
    monkeypatch.setenv("RECOVERSSM_VLLM", "yes")
    with pytest.raises(ValueError, match="'yes', expected 0, auto or 1"):
        plugin.mode()


def test_off_imports_neither_vllm_nor_torch():
    code = "import sys; from recoverssm.integrations.vllm import register; register(); assert not {'vllm', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**__import__("os").environ, "RECOVERSSM_VLLM": "0"})


def test_other_versions_are_refused_at_registration(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.40.0"))
    monkeypatch.setenv("RECOVERSSM_VLLM", "1")
    with pytest.raises(plugin.Refused, match=r"vLLM 0\.40\.0"):
        plugin.register()
    monkeypatch.setenv("RECOVERSSM_VLLM", "auto")
    plugin.register()


# --- draft models --------------------------------------------------------------------------------------------------------------


def test_a_draft_model_gets_the_pages_of_its_own_group(monkeypatch):
    """Rows and tokens as many as it was handed; the layers' metadata and what it was handed stay as they are."""
    from recoverssm.integrations.vllm import _drafter

    class DraftModelProposer:
        kv_cache_gid = 1

    class Runner:
        def __init__(self, marked, drafter):
            self.cache_config, self.drafter = SimpleNamespace(**{_drafter.MARK: True} if marked else {}), drafter
            tables = [torch.full((8, 3), group, dtype=I32) for group in range(2)]
            self.input_batch = SimpleNamespace(block_table=[SimpleNamespace(get_device_tensor=lambda n, t=table: t[:n]) for table in tables])
            self.first = SimpleNamespace(block_table_tensor=tables[0][:2], slot_mapping=torch.zeros(5), seq_lens="kept")

        def _build_attention_metadata(self, *, slot_mappings):
            return "layers", self.first

    monkeypatch.setitem(sys.modules, "vllm.v1.spec_decode.draft_model", SimpleNamespace(DraftModelProposer=DraftModelProposer))
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu_model_runner", SimpleNamespace(GPUModelRunner=Runner))
    _drafter.give_drafters_their_group()
    slots = {group: torch.full((9,), float(group)) for group in range(2)}

    def build(runner):
        layers, drafter = runner._build_attention_metadata(slot_mappings=slots)
        assert layers == "layers" and drafter.seq_lens == "kept"
        assert runner.first.block_table_tensor.tolist() == [[0] * 3] * 2 and runner.first.slot_mapping.tolist() == [0] * 5
        assert drafter.block_table_tensor.shape == (2, 3) and drafter.slot_mapping.shape == (5,)
        assert len({*drafter.block_table_tensor.flatten().tolist(), *drafter.slot_mapping.tolist()}) == 1
        return int(drafter.slot_mapping[0])

    assert build(Runner(True, DraftModelProposer())) == 1
    assert build(Runner(False, DraftModelProposer())) == 0 and build(Runner(True, object())) == 0
    monkeypatch.setattr(_drafter, "for_stock_layers", True)
    assert build(Runner(False, DraftModelProposer())) == 1


# --- rows ------------------------------------------------------------------------------------------------------------------------


def metadata(**given):
    counts = dict.fromkeys(("num_prefills", "num_decodes", "num_spec_decodes", "num_spec_decode_tokens"), 0)
    return SimpleNamespace(**dict.fromkeys(_metadata.FIELDS) | counts | given)


def i32(*values):
    return torch.tensor(values, dtype=I32)


def test_rows_of_windows_alone():
    """Padding behind the three windows; the table has one column."""
    rows = _metadata.rows_of(
        metadata(num_actual_tokens=6, num_spec_decodes=3, num_spec_decode_tokens=6, spec_query_start_loc=i32(0, 3, 4, 6, 6),
                 spec_state_indices_tensor=i32(5, 2, 9, 0)[:, None], num_accepted_tokens=i32(1, 2, 3, 1),
                 spec_token_indx=torch.arange(6)), 4)  # fmt: skip
    assert rows.plain is None and rows.tokens == 6 and rows.window_tokens == 6
    windows = rows.windows
    assert windows.query_start_loc.tolist() == [0, 3, 4, 6] and windows.state_indices.tolist() == [5, 2, 9]
    assert windows.num_accepted.tolist() == [1, 2, 3] and windows.token_index is None and windows.window_capacity == 4


def test_rows_of_a_mixed_step():
    """Tokens 0..2 and 5 are windows', 3 and 4 a chunk's; an empty row stands among the plain ones."""
    rows = _metadata.rows_of(
        metadata(num_actual_tokens=6, num_spec_decodes=2, num_spec_decode_tokens=4, num_prefills=1, spec_query_start_loc=i32(0, 3, 4),
                 non_spec_query_start_loc=i32(0, 2, 2), spec_state_indices_tensor=i32(5, 2)[:, None],
                 non_spec_state_indices_tensor=i32(7, 0),
                 has_initial_state=torch.tensor([True, False]), num_accepted_tokens=i32(1, 2), spec_token_indx=torch.tensor([0, 1, 2, 5]),
                 non_spec_token_indx=torch.tensor([3, 4])), 4)  # fmt: skip
    assert rows.windows.token_index.tolist() == [0, 1, 2, 5] and rows.windows.token_index.dtype == I32
    plain = rows.plain
    assert plain.query_start_loc.tolist() == [0, 2, 2] and plain.state_indices.tolist() == [7, 0]
    assert plain.token_index.tolist() == [3, 4] and plain.has_initial_state.tolist() == [True, False]


def test_rows_of_plain_rows_alone():
    """A decode, then a chunk, then padding; without prefills no flags."""
    given = dict(num_actual_tokens=5, num_decodes=1, num_prefills=1, non_spec_query_start_loc=i32(0, 1, 5, 5),
                 non_spec_state_indices_tensor=i32(3, 8, 0), has_initial_state=torch.tensor([True, False, False]))  # fmt: skip
    rows = _metadata.rows_of(metadata(**given), 4)
    assert rows.windows is None and rows.window_tokens == 0 and rows.plain.token_index is None
    assert rows.plain.query_start_loc.tolist() == [0, 1, 5] and rows.plain.state_indices.tolist() == [3, 8]
    assert rows.plain.has_initial_state.tolist() == [True, False]
    assert _metadata.rows_of(metadata(**given | {"num_prefills": 0, "has_initial_state": None}), 4).plain.has_initial_state is None
