"""vLLM's RecoverSSM calls: argument names and error cases as vLLM has them, bits as `recoverssm.ops` has them."""

import inspect
from types import SimpleNamespace

import pytest
import recoverssm
import torch
from recoverssm import ops
from recoverssm.compat import vllm_ops

I32 = torch.int32
H, HV, K, V, S, W, BLOCKS = 2, 4, 16, 8, 4, 4, 40
LENGTHS = (4, 4, 3)


def i32(*values):
    return torch.tensor(values, dtype=I32)


def offsets_of(lengths):
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=I32)


def rows(blocks=(2, 5, 7), lengths=LENGTHS):
    return dict(query_start_loc=offsets_of(lengths), state_indices=i32(*blocks))


def gdn(blocks=(2, 5, 7), lengths=LENGTHS, seed=0):
    """Arguments of gdn_recoverssm_verify."""
    draw = torch.Generator().manual_seed(seed)
    normal = lambda *size: torch.randn(size, generator=draw)  # noqa: E731
    n = sum(lengths)
    return dict(
        A_log=normal(HV), a=normal(n, HV).bfloat16(), b=normal(n, HV).bfloat16(), dt_bias=normal(HV).bfloat16(),
        q=normal(1, n, H, K).bfloat16(), k=normal(1, n, H, K).bfloat16(), v=normal(1, n, HV, V).bfloat16(),
        checkpoint_state=normal(BLOCKS, HV, V, K), replay_cache=torch.zeros(BLOCKS, HV, S, V + K + 1), spec_query_len=S, **rows(blocks, lengths),
    )  # fmt: skip


def lines(channels=24, layers=1, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(BLOCKS, channels, W - 1 + S - 1, generator=draw).bfloat16() for _ in range(layers)]


def context(given, conv=None, **changed):
    arguments = dict(spec_query_len=S, max_num_reqs=8) | changed
    return vllm_ops.GDNRecoverSSMCommitContext.from_tensors(conv or lines(), [given["checkpoint_state"]], [given["replay_cache"]], **arguments)


# --- names ---------------------------------------------------------------------------------------------------------------------

COMMIT = "num_accepted_tokens state_indices query_start_loc request_indices block_table num_computed_tokens mamba_block_size"
NAMES = [
    (vllm_ops.gdn_recoverssm_verify, "A_log a b dt_bias q k v checkpoint_state replay_cache query_start_loc state_indices spec_query_len"
     " scale softplus_beta softplus_threshold use_qk_l2norm_in_kernel out"),
    (vllm_ops.kda_recoverssm_verify, "q k v raw_g raw_beta A_log dt_bias lower_bound checkpoint_state records query_start_loc state_indices"
     " spec_query_len out"),
    (vllm_ops.KDARecoverSSMRecords, "correction key_gate"),
    (vllm_ops.KDARecoverSSMRecords.allocate, "max_num_reqs num_heads spec_query_len head_dim dtype device"),
    (vllm_ops.GDNRecoverSSMCommitContext.from_tensors, "conv_states checkpoints replays spec_query_len max_num_reqs conv_dim_first"),
    (vllm_ops.GDNRecoverSSMCommitContext.create, "layers spec_query_len max_num_reqs conv_dim_first"),
    (vllm_ops.KDARecoverSSMCommitContext.create, "layers spec_query_len max_num_reqs backend conv_dim_first"),
    (vllm_ops.GDNRecoverSSMCommitContext.commit, f"self {COMMIT} commit_conv"),
    (vllm_ops.KDARecoverSSMCommitContext.commit, f"self {COMMIT}"),
    (vllm_ops.PleConvCommit, "conv_states spec_query_len max_num_reqs conv_dim_first"),
    (vllm_ops.PleConvCommit.commit, f"self {COMMIT}"),
    (vllm_ops.recoverssm_spec_rows, "is_prefilling_cpu query_start_loc_cpu num_decode_draft_tokens_cpu num_reqs"),
    (vllm_ops.recoverssm_request_indices, "rows num_spec_decodes device"),
    (vllm_ops.RecoverSSMState.record_step, "self attn_metadata attn_groups for_capture"),
    (vllm_ops.commit_groups, "groups num_accepted_tokens"),
    (vllm_ops.RecoverSSMState.detach_step, "self"),
    (vllm_ops.RecoverSSMState.abandon_step, "self step"),
    (vllm_ops.RecoverSSMState.commit_step, "self num_sampled idx_mapping state_indices num_accepted_tokens step"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "names"), NAMES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_names_and_order(function, names):
    assert list(inspect.signature(function).parameters) == names.split()


# --- verify --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_out", [False, True])
def test_verify_is_the_operation(given_out):
    given = gdn(blocks=(2, 0, 7))
    before, expected = given["checkpoint_state"].clone(), torch.zeros_like(given["replay_cache"])
    out = torch.empty(11, HV, V, dtype=torch.bfloat16)
    ops.gated_delta_rule_verify(
        **{name: given[name][0] for name in "qkv"}, **{name: given[name] for name in ("a", "b", "A_log", "dt_bias")}, out=out,
        state=given["checkpoint_state"], records=expected, window_capacity=S, **rows((2, 0, 7)),
    )  # fmt: skip
    buffer = torch.full((14, HV, V), 7.0, dtype=torch.bfloat16)
    got = vllm_ops.gdn_recoverssm_verify(**given, out=buffer[None, :11] if given_out else None)
    assert got.shape == (1, 11, HV, V) and torch.equal(got[0], out)
    assert torch.equal(given["replay_cache"], expected) and torch.equal(given["checkpoint_state"], before)
    if given_out:
        assert got.data_ptr() == buffer.data_ptr() and (buffer[11:] == 7).all()


@pytest.mark.parametrize("changed", [{"scale": 0.75}, {"softplus_beta": 2.0}, {"softplus_threshold": 0.25}, {"use_qk_l2norm_in_kernel": False}])
def test_verify_hands_its_numbers_on(changed):
    given, expected = gdn(), torch.zeros(BLOCKS, HV, S, V + K + 1)
    default = vllm_ops.gdn_recoverssm_verify(**given)
    out = torch.empty(11, HV, V, dtype=torch.bfloat16)
    ops.gated_delta_rule_verify(
        **{name: given[name][0] for name in "qkv"}, **{name: given[name] for name in ("a", "b", "A_log", "dt_bias")}, out=out,
        state=given["checkpoint_state"], records=expected, window_capacity=S, **rows(),
        **{{"use_qk_l2norm_in_kernel": "l2norm"}.get(name, name): value for name, value in changed.items()},
    )  # fmt: skip
    got = vllm_ops.gdn_recoverssm_verify(**given, **changed)
    assert torch.equal(got[0], out) and torch.equal(given["replay_cache"], expected) and not torch.equal(got, default)


def test_verify_on_views_of_the_packed_convolution():
    given = gdn()
    packed = torch.cat([given[name].reshape(11, -1) for name in "qkv"] + [torch.zeros(11, 5, dtype=torch.bfloat16)], dim=1)
    parts = packed.split([H * K, H * K, HV * V, 5], 1)
    views = {name: part.unflatten(1, (-1, size))[None] for name, part, size in zip("qkv", parts, (K, K, V), strict=False)}
    expected = vllm_ops.gdn_recoverssm_verify(**given)
    records = given["replay_cache"].clone()
    given["replay_cache"].zero_()
    got = vllm_ops.gdn_recoverssm_verify(**given | views | {"a": given["a"][None], "b": given["b"][None]})
    assert torch.equal(got, expected) and torch.equal(given["replay_cache"], records)


VERIFY_WRONG = [
    (lambda g: {"query_start_loc": g["query_start_loc"][:-1]}, "query metadata"),
    (lambda g: {"state_indices": g["state_indices"][:2], "query_start_loc": g["query_start_loc"][:3]}, "activation capacity"),
    (lambda g: {"v": g["v"][:, :, :1], "a": g["a"][:, :1], "b": g["b"][:, :1]}, "positive multiple"),
    (lambda g: {"A_log": torch.zeros(HV + 1)}, "A_log"),
    (lambda g: {"dt_bias": torch.zeros(HV + 1)}, "dt_bias"),
    (lambda g: {"out": torch.empty(1, 11, HV, V + 1, dtype=torch.bfloat16)}, "output shape"),
    (lambda g: {"replay_cache": torch.zeros(BLOCKS, HV, S, V + K)}, "replay buffer"),
    (lambda g: {"replay_cache": g["replay_cache"].bfloat16()}, "replay buffer"),
    (lambda g: {"A_log": g["A_log"].to("meta")}, "same device"),
    (lambda g: {"q": g["q"][0]}, r"\[1, tokens, heads, dim\]"),
    (lambda g: {"k": g["k"][:, :-1]}, "that of q"),
    (lambda g: {"a": g["a"][:-1]}, "gate or beta"),
    (lambda g: {"checkpoint_state": g["checkpoint_state"][:, :, :-1]}, "checkpoint shape"),
    (lambda g: {"checkpoint_state": g["checkpoint_state"][0]}, "four-dimensional"),
    (lambda g: {"state_indices": g["state_indices"][:, None]}, "one-dimensional"),
    (lambda g: {"state_indices": g["state_indices"].long()}, "i64"),
]


@pytest.mark.parametrize(("change", "words"), VERIFY_WRONG, ids=[words for _, words in VERIFY_WRONG])
def test_verify_refuses(change, words):
    given = gdn()
    with pytest.raises(ValueError, match=words) as raised:
        vllm_ops.gdn_recoverssm_verify(**given | change(given))
    assert isinstance(raised.value, recoverssm.InvalidArgument) and (given["replay_cache"] == 0).all()


def test_verify_refuses_contents():
    given = gdn(blocks=(2, 5, BLOCKS))
    with pytest.raises(recoverssm.OutOfRange, match="state_indices"):
        vllm_ops.gdn_recoverssm_verify(**given)


# --- commit --------------------------------------------------------------------------------------------------------------------


def native_commit(layers, num_accepted, source, offsets, **plan_arguments):
    plan = {name: torch.empty(source.shape[0], dtype=I32) for name in ("commit_len", "final_indices", "boundary_indices", "boundary_len")}
    ops.commit_plan(num_accepted=num_accepted, query_start_loc=offsets, state_indices=source, window_capacity=S, **plan, **plan_arguments)
    ops.commit(groups=[ops.CommitGroup(state_indices=source, **plan)], layers=layers, window_capacity=S)
    return plan


@pytest.mark.parametrize("accepted", [(1, 1, 1), (4, 2, 3), (9, 0, -1)])
@pytest.mark.parametrize("conv_dim_first", [True, False])
def test_commit_is_the_operations(accepted, conv_dim_first):
    given = gdn()
    vllm_ops.gdn_recoverssm_verify(**given)
    conv = lines()
    expected = given["checkpoint_state"].clone()
    line = conv[0].transpose(1, 2).clone()
    layer = ops.Layer(line=line, conv_taps=W, state=expected, records=given["replay_cache"])
    native_commit([layer], i32(*accepted), given["state_indices"], given["query_start_loc"])
    shown = conv if conv_dim_first else [conv[0].transpose(1, 2).contiguous()]
    committed = context(given, shown, conv_dim_first=conv_dim_first)
    committed.commit(i32(*accepted), given["state_indices"], given["query_start_loc"])
    assert torch.equal(given["checkpoint_state"], expected)
    assert torch.equal(shown[0].transpose(1, 2) if conv_dim_first else shown[0], line)


def test_commit_without_convolution():
    given = gdn()
    vllm_ops.gdn_recoverssm_verify(**given)
    conv = lines()
    before, states = conv[0].clone(), given["checkpoint_state"].clone()
    context(given, conv).commit(i32(2, 2, 2), given["state_indices"], given["query_start_loc"], commit_conv=False)
    assert torch.equal(conv[0], before) and not torch.equal(given["checkpoint_state"], states)


def test_commit_maps_requests_in_align_mode():
    """Windows 0, 2, 3 of a batch of five: counts, table and computed tokens by row of the batch, garbage in the other rows."""
    lengths, size = (4, 1, 2), 8
    table = torch.arange(1, 31, dtype=I32).reshape(5, 6)
    computed, requests = i32(5, 0, 16, 9, 0), i32(0, 2, 3)
    source = torch.stack([table[r, int(computed[r]) // size] for r in requests.tolist()])
    given = gdn(blocks=source.tolist(), lengths=lengths)
    vllm_ops.gdn_recoverssm_verify(**given)
    accepted = i32(3, 9, 1, 2, 9)
    expected, conv = given["checkpoint_state"].clone(), lines()
    line = conv[0].transpose(1, 2).clone()
    layer = ops.Layer(line=line, conv_taps=W, state=expected, records=given["replay_cache"])
    align = dict(block_table=table, num_computed=computed, block_size=size)
    plan = native_commit([layer], accepted, source, given["query_start_loc"], request_index=requests, **align)
    assert plan["commit_len"].tolist() == [3, 1, 2] and plan["boundary_indices"].tolist() == [1, 0, 0]
    context(given, conv).commit(accepted, source, given["query_start_loc"], requests, table, computed, size)
    assert torch.equal(given["checkpoint_state"], expected) and torch.equal(conv[0].transpose(1, 2), line)


@pytest.mark.parametrize(
    ("computed", "accepted", "size"), [(3, 2, 4), (2, 3, 4), (0, 4, 4), (6, 4, 4), (1, 1, 4), (5, 4, 8), (7, 4, 8), (4, 4, 8)]
)
def test_align_boundary_and_final_states(computed, accepted, size):
    """States at the boundary and at the end are those of one-token steps."""
    table = torch.arange(2, 8, dtype=I32).reshape(1, 6)
    source = int(table[0, computed // size])
    given = gdn(blocks=(source,), lengths=(4,))
    vllm_ops.gdn_recoverssm_verify(**given)
    state, states = given["checkpoint_state"][source : source + 1].clone(), []
    for t in range(accepted):
        token = {name: given[name][0, t : t + 1] for name in "qkv"} | {name: given[name][t : t + 1] for name in "ab"}
        ops.gated_delta_rule(**token, A_log=given["A_log"], dt_bias=given["dt_bias"], state=state, out=torch.empty(1, HV, V),
                             query_start_loc=i32(0, 1), state_indices=i32(0), null_block_id=-1)  # fmt: skip
        states.append(state[0].clone())
    context(given).commit(i32(accepted), i32(source), given["query_start_loc"], None, table, i32(computed), size)
    final = int(table[0, (computed + accepted - 1) // size])
    assert torch.equal(given["checkpoint_state"][final], states[-1])
    boundary = (computed // size + 1) * size
    if computed + accepted >= boundary:
        assert torch.equal(given["checkpoint_state"][int(table[0, boundary // size - 1])], states[boundary - computed - 1])


COMMIT_WRONG = [
    ({"block_table": torch.zeros(3, 4, dtype=I32), "mamba_block_size": 16}, "align metadata is incomplete"),
    ({"query_start_loc": i32(0, 4, 8)}, "commit metadata"),
    ({"request_indices": i32(0, 0)}, "request mapping"),
    ({"num_accepted_tokens": i32(1, 1)}, "accepted-token counts"),
    ({"state_indices": i32(*range(1, 10)), "query_start_loc": i32(*range(10)), "num_accepted_tokens": i32(*[1] * 9)}, "plan capacity"),
    ({"state_indices": i32(2, 5, 7)[:, None]}, "one-dimensional"),
    ({"block_table": i32(1, 2), "num_computed_tokens": i32(0, 0, 0), "mamba_block_size": 16}, "two-dimensional"),
    ({"block_table": torch.ones(3, 4, dtype=I32), "num_computed_tokens": i32(0, 0, 0), "mamba_block_size": 3}, "speculative window"),
    ({"num_accepted_tokens": i32(1, 1, 1).to("meta")}, "same device"),
]


@pytest.mark.parametrize(("change", "words"), COMMIT_WRONG, ids=[words for _, words in COMMIT_WRONG])
def test_commit_refuses(change, words):
    given = gdn()
    states = given["checkpoint_state"].clone()
    with pytest.raises(ValueError, match=words):
        context(given).commit(**{"num_accepted_tokens": i32(1, 1, 1), **rows()} | change)
    assert torch.equal(given["checkpoint_state"], states)


def test_contexts_refuse():
    given = gdn()
    make, state, replay, (conv,) = vllm_ops.GDNRecoverSSMCommitContext.from_tensors, given["checkpoint_state"], given["replay_cache"], lines()
    sizes = dict(spec_query_len=S, max_num_reqs=8)
    for arguments, words in [
        (([], [], []), "at least one layer"),
        (([conv], [state, state.clone()], [replay]), "differ"),
        (([conv[:5]], [state], [replay]), "block count"),
        (([conv], [state], [replay[:, :, :, :-1]]), "replay"),
        (([conv] * 2, [state, state.bfloat16()], [replay] * 2), "matching"),
        (([conv[:, :, :3]], [state], [replay]), "shorter than its window"),
    ]:
        with pytest.raises(ValueError, match=words):
            make(*arguments, **sizes)
    page = SimpleNamespace(kv_cache=(conv, state))
    with pytest.raises(ValueError, match="conv, state and replay"):
        vllm_ops.GDNRecoverSSMCommitContext.create([page], conv_dim_first=True, **sizes)
    layer = SimpleNamespace(kv_cache=(conv, state, replay))
    vllm_ops.GDNRecoverSSMCommitContext.create([layer], conv_dim_first=True, **sizes).commit(i32(1, 1, 1), **rows())


# --- rows ----------------------------------------------------------------------------------------------------------------------


def test_spec_rows_of_a_mixed_batch():
    """0: three drafts, 1: prefill, 2: decode without drafts, 3: one draft, 4: no tokens, 5 and 6: padding."""
    prefilling = torch.tensor([False, True, False, False, False, False, False])
    drafts, found = vllm_ops.recoverssm_spec_rows(prefilling, i32(0, 4, 104, 105, 107, 107), i32(3, -1, -1, 1, -1, 2, 0), num_reqs=5)
    assert found.tolist() == [0, 2, 3] and drafts.tolist() == [1, -1, 1, 1, -1, -1, -1]
    device = torch.device("cpu")
    mapping = vllm_ops.recoverssm_request_indices(found, 3, device)
    assert mapping.tolist() == [0, 2, 3] and mapping.dtype == I32
    assert vllm_ops.recoverssm_request_indices(torch.tensor([0, 1, 2]), 3, device) is None
    with pytest.raises(ValueError, match="spec rows classified"):
        vllm_ops.recoverssm_request_indices(found, 2, device)
    with pytest.raises(ValueError, match="query_start_loc_cpu"):
        vllm_ops.recoverssm_spec_rows(prefilling, i32(0, 4), i32(3, -1), num_reqs=2)


# --- groups --------------------------------------------------------------------------------------------------------------------


def groups_of(seed, align=False):
    """Two groups of two and one layers, blocks of their own, the same windows; in align mode tables of their own."""
    made = []
    for place, (blocks, layers) in enumerate([((2, 5, 7), 2), ((3, 1, 9), 1)]):
        step = vllm_ops.CommitStep(i32(*blocks), offsets_of(LENGTHS))
        if align:
            computed, table = i32(5, 2, 14), torch.arange(1, 19, dtype=I32).reshape(3, 6) + 18 * place
            blocks = tuple(int(table[row, int(computed[row]) // 8]) for row in range(3))
            step = vllm_ops.CommitStep(i32(*blocks), offsets_of(LENGTHS), None, table, computed, 8)
        given = [gdn(blocks, seed=seed + 10 * place + layer) for layer in range(layers)]
        for one in given:
            vllm_ops.gdn_recoverssm_verify(**one)
        committed = vllm_ops.GDNRecoverSSMCommitContext.from_tensors(
            lines(layers=layers, seed=seed + place), [one["checkpoint_state"] for one in given], [one["replay_cache"] for one in given],
            spec_query_len=S, max_num_reqs=8,
        )  # fmt: skip
        made.append((committed, step))
    return made


def memory(groups):
    return [tensor for context, _ in groups for layer in context.layers for tensor in (layer.state, layer.line)]


def test_grouped_commit_is_one_commit_a_group():
    accepted, one, each = i32(4, 1, 2), groups_of(0), groups_of(0)
    assert vllm_ops.commit_groups(one, accepted) is True
    for context_, step in each:
        context_.commit(accepted, step.state_indices, step.query_start_loc)
    assert all(torch.equal(a, b) for a, b in zip(memory(one), memory(each), strict=True))


def test_grouped_commit_in_align_mode_uses_each_groups_table():
    """Window 0 ends on a boundary's far side, window 2 on it: three states a group are written at blocks of its own table."""
    accepted, one, each = i32(4, 1, 2), groups_of(0, align=True), groups_of(0, align=True)
    before = [tensor.clone() for tensor in memory(one)]
    assert vllm_ops.commit_groups(one, accepted) is True
    for context_, step in each:
        context_.commit_step(accepted, step)
    assert all(torch.equal(a, b) for a, b in zip(memory(one), memory(each), strict=True))
    changed = [(now != then).flatten(1).any(1).nonzero().flatten().tolist() for now, then in zip(memory(one), before, strict=True)]
    # By layer states and line: 1 and 2 of window 0 (boundary and end), 7 of window 1, 14 of window 2 (end, which is the boundary).
    assert changed[0] == changed[2] == [1, 2, 7, 14] and changed[4] == [block + 18 for block in changed[0]]
    elsewhere = [one[0], (one[1][0], vllm_ops.CommitStep(**vars(one[1][1]) | {"num_computed_tokens": i32(5, 2, 13)}))]
    assert vllm_ops.commit_groups(elsewhere, i32(1, 1, 1)) is False


@pytest.mark.parametrize("other", [{"request_indices": i32(0, 1, 2)}, {"query_start_loc": i32(0, 4, 8, 10)}])
def test_groups_that_differ_are_committed_one_by_one(other):
    accepted, one, each = i32(4, 1, 2), groups_of(1), groups_of(1)
    changed = [one[0], (one[1][0], vllm_ops.CommitStep(**vars(one[1][1]) | other))]
    assert vllm_ops.commit_groups(changed, accepted) is False
    each[0][0].commit_step(accepted, each[0][1])
    each[1][0].commit_step(accepted, changed[1][1])
    assert all(torch.equal(a, b) for a, b in zip(memory(one), memory(each), strict=True))


def test_grouped_commit_checks_all_before_the_first():
    groups = groups_of(2)
    before = [tensor.clone() for tensor in memory(groups)]
    wrong = vllm_ops.CommitStep(i32(3, 1), offsets_of(LENGTHS))
    with pytest.raises(ValueError, match="commit metadata"):
        vllm_ops.commit_groups([groups[0], (groups[1][0], wrong)], i32(4, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(memory(groups), before, strict=True))


# --- KDA -----------------------------------------------------------------------------------------------------------------------


def kda(blocks=(2, 0, 7), lengths=LENGTHS, seed=0, bound=None):
    draw = torch.Generator().manual_seed(seed)
    normal = lambda *size: torch.randn(size, generator=draw)  # noqa: E731
    n = sum(lengths)
    records = vllm_ops.KDARecoverSSMRecords.allocate(6, HV, S, K, torch.bfloat16, torch.device("cpu"))
    records.correction.fill_(float("nan")), records.key_gate.fill_(float("nan"))
    return dict(
        **{name: normal(1, n, HV, K).bfloat16() for name in ("q", "k", "v", "raw_g")}, raw_beta=normal(1, n, HV).bfloat16(), A_log=normal(HV),
        dt_bias=normal(HV * K), lower_bound=bound, checkpoint_state=normal(BLOCKS, HV, K, K), records=records, spec_query_len=S,
        **rows(blocks, lengths),
    )  # fmt: skip


def kda_context(given, conv):
    layer = SimpleNamespace(
        kv_cache=(conv, given["checkpoint_state"]), recoverssm_records=given["records"], A_log=given["A_log"], dt_bias=given["dt_bias"],
        gate_lower_bound=given["lower_bound"],
    )  # fmt: skip
    return vllm_ops.KDARecoverSSMCommitContext.create([layer], spec_query_len=S, max_num_reqs=8, conv_dim_first=True)


@pytest.mark.parametrize("bound", [None, -5.0])
def test_kda_verify_and_commit_are_the_operations(bound):
    """Records by row of the step here, by block there; row 1 is null."""
    given = kda(bound=bound)
    before = given["checkpoint_state"].clone()
    pool = ops.KdaRecords(torch.zeros(BLOCKS, HV, S, K), torch.zeros(BLOCKS, HV, S, 2 * K, dtype=torch.bfloat16))
    out = torch.empty(11, HV, K, dtype=torch.bfloat16)
    gates = dict(A_log=given["A_log"], dt_bias=given["dt_bias"].view(HV, K), lower_bound=bound, gate="kda")
    ops.gated_delta_rule_verify(
        **{name: given[name][0] for name in "qkv"}, a=given["raw_g"][0], b=given["raw_beta"][0], state=before, out=out, records=pool,
        window_capacity=S, **gates, **rows((2, 0, 7)),
    )  # fmt: skip
    got = vllm_ops.kda_recoverssm_verify(**given)
    assert torch.equal(got[0], out) and (got[0, 4:8] == 0).all() and torch.equal(given["checkpoint_state"], before)
    records = given["records"]
    for row, block, length in ((0, 2, 4), (2, 7, 3)):
        assert torch.equal(records.correction[row, :, :length], pool.corrections[block, :, :length])
        assert torch.equal(records.key_gate[row, :, :length], pool.key_gate[block, :, :length])
    assert records.correction[1].isnan().all() and records.correction[2, :, 3:].isnan().all()

    conv = lines()[0]
    line = conv.transpose(1, 2).clone()
    native_commit([ops.Layer(line=line, conv_taps=W, state=before, records=pool, **gates)], i32(3, 4, 1), given["state_indices"],
                  given["query_start_loc"])  # fmt: skip
    kda_context(given, conv).commit(i32(3, 4, 1), given["state_indices"], given["query_start_loc"])
    assert torch.equal(given["checkpoint_state"], before) and torch.equal(conv.transpose(1, 2), line)


def test_kda_commit_in_align_mode_writes_end_and_boundary():
    """Window 0 crosses the end of its block, window 1 stays in its own, window 2 keeps nothing."""
    table, computed, size = torch.arange(1, 19, dtype=I32).reshape(3, 6), i32(5, 2, 14), 8
    source = torch.stack([table[row, int(computed[row]) // size] for row in range(3)])
    given, conv = kda(blocks=source.tolist()), lines()[0]
    vllm_ops.kda_recoverssm_verify(**given)
    records, state, line = given["records"], given["checkpoint_state"].clone(), conv.transpose(1, 2).clone()
    pool = ops.KdaRecords(torch.zeros(BLOCKS, HV, S, K), torch.zeros(BLOCKS, HV, S, 2 * K, dtype=torch.bfloat16))
    pool.corrections[source.long()], pool.key_gate[source.long()] = records.correction[:3], records.key_gate[:3]
    layer = ops.Layer(line=line, conv_taps=W, state=state, records=pool, gate="kda", A_log=given["A_log"], dt_bias=given["dt_bias"].view(HV, K))
    plan = native_commit([layer], i32(4, 2, 0), source, given["query_start_loc"], block_table=table, num_computed=computed, block_size=size)
    assert plan["boundary_indices"].tolist() == [1, 0, 0] and plan["final_indices"].tolist()[:2] == [2, 7]
    kda_context(given, conv).commit(i32(4, 2, 0), source, given["query_start_loc"], None, table, computed, size)
    assert torch.equal(given["checkpoint_state"], state) and torch.equal(conv.transpose(1, 2), line)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda g: {"state_indices": i32(2, 2, 7)}, recoverssm.OutOfRange, "share block 2"),
        (lambda g: {"state_indices": i32(2, 0, BLOCKS)}, recoverssm.OutOfRange, "state_indices"),
        (lambda g: {"query_start_loc": i32(0, 6, 8, 11)}, recoverssm.OutOfRange, "spec_query_len"),
        (lambda g: {"query_start_loc": i32(0, 4, 3, 11)}, recoverssm.OutOfRange, "query_start_loc"),
        (lambda g: {"raw_g": g["raw_g"][..., :-1]}, recoverssm.InvalidArgument, "gate or beta"),
        (lambda g: {"dt_bias": g["dt_bias"][1:]}, recoverssm.InvalidArgument, "gate parameters"),
        (lambda g: {"out": torch.empty(1, 11, HV, K + 1)}, recoverssm.InvalidArgument, "output shape"),
        (lambda g: {"spec_query_len": 3}, recoverssm.InvalidArgument, "activation capacity"),
    ],
)
def test_kda_verify_refuses(change, error, words):
    given = kda(blocks=(2, 5, 7))
    with pytest.raises(error, match=words):
        vllm_ops.kda_recoverssm_verify(**given | change(given))
    assert given["records"].correction.isnan().all()


def test_kda_commit_refuses_a_shared_block_before_the_first_row():
    given = kda(blocks=(2, 5, 7))
    vllm_ops.kda_recoverssm_verify(**given)
    states, committed = given["checkpoint_state"].clone(), kda_context(given, lines()[0])
    with pytest.raises(recoverssm.OutOfRange, match="one live row"):
        committed.commit(i32(1, 1, 1), i32(2, 7, 7), given["query_start_loc"])
    assert torch.equal(given["checkpoint_state"], states)


# --- PLE -----------------------------------------------------------------------------------------------------------------------


def test_ple_commit_is_the_operation():
    conv = lines(layers=2, seed=4)
    expected = [one.transpose(1, 2).clone() for one in conv]
    native_commit([ops.Layer(line=line, conv_taps=W) for line in expected], i32(2, 4, 1), i32(2, 5, 7), offsets_of(LENGTHS))
    vllm_ops.PleConvCommit(conv, S, 8, conv_dim_first=True).commit(i32(2, 4, 1), i32(2, 5, 7), offsets_of(LENGTHS))
    assert all(torch.equal(one.transpose(1, 2), line) for one, line in zip(conv, expected, strict=True))
    table, computed = torch.arange(1, 19, dtype=I32).reshape(3, 6), i32(5, 2, 14)
    source = i32(1, 7, 14)
    native_commit([ops.Layer(line=line, conv_taps=W) for line in expected], i32(4, 2, 3), source, offsets_of(LENGTHS),
                  block_table=table, num_computed=computed, block_size=8)  # fmt: skip
    vllm_ops.PleConvCommit(conv, S, 8, conv_dim_first=True).commit(i32(4, 2, 3), source, offsets_of(LENGTHS), None, table, computed, 8)
    assert all(torch.equal(one.transpose(1, 2), line) for one, line in zip(conv, expected, strict=True))
    with pytest.raises(ValueError, match="at least one layer"):
        vllm_ops.PleConvCommit([], S, 8, conv_dim_first=True)


# --- steps ---------------------------------------------------------------------------------------------------------------------


def recorded(step, seed=0):
    given = gdn(step.state_indices.tolist(), seed=seed)
    vllm_ops.gdn_recoverssm_verify(**given)
    metadata = vllm_ops.RecoverSSMMetadata(context(given), step)
    state = vllm_ops.RecoverSSMState()
    state.record_step({"layer": metadata}, [[SimpleNamespace(layer_names=["layer"])]], for_capture=False)
    return given, state


def test_detached_step_has_index_data_of_its_own_and_freed_requests_keep_nothing():
    step = vllm_ops.CommitStep(i32(2, 5, 7), offsets_of(LENGTHS))
    given, state = recorded(step)
    expected, late = given["checkpoint_state"].clone(), state.detach_step()
    assert state.detach_step() is None
    layer = ops.Layer(state=expected, records=given["replay_cache"])
    native_commit([layer], i32(2, 0, 1), i32(2, 5, 7), offsets_of(LENGTHS))
    step.state_indices.fill_(-7), step.query_start_loc.fill_(-7)
    sampled = i32(2, 2, 1, 0)
    arguments = dict(state_indices=None, num_accepted_tokens=torch.ones(8, dtype=I32))
    state.commit_step(sampled, torch.tensor([4, -1, 6]), step=late, **arguments)
    assert torch.equal(given["checkpoint_state"], expected) and sampled.tolist() == [2, 2, 1, 0]
    with pytest.raises(recoverssm.BadState):
        state.commit_step(sampled, torch.tensor([4, -1, 6]), step=late, **arguments)
    assert torch.equal(given["checkpoint_state"], expected)


def test_deferred_commit_leaves_the_current_step_and_abandoned_ones_stay():
    given, state = recorded(vllm_ops.CommitStep(i32(2, 5, 7), offsets_of(LENGTHS)))
    states = given["checkpoint_state"].clone()
    late = state.detach_step()
    state.abandon_step(late)
    with pytest.raises(recoverssm.BadState):
        state.abandon_step(late)
    arguments = dict(state_indices=None, num_accepted_tokens=torch.ones(8, dtype=I32))
    state.record_step({}, [], for_capture=True)
    state.commit_step(i32(1, 1, 1), torch.tensor([0, 1, 2]), **arguments)
    given2, state = recorded(vllm_ops.CommitStep(i32(2, 5, 7), offsets_of(LENGTHS)))
    state.commit_step(0, torch.tensor([0, 1, 2]), **arguments)  # nothing was sampled
    state.commit_step(i32(1, 1, 1), torch.tensor([0, 1, 2]), **arguments)  # and the step is over
    assert torch.equal(given["checkpoint_state"], states) and torch.equal(given2["checkpoint_state"], states)


def test_align_bookkeeping_by_request_slot():
    table = torch.arange(1, 19, dtype=I32).reshape(3, 6)
    computed = i32(5, 2, 14)
    source = torch.stack([table[r, int(computed[r]) // 8] for r in range(3)])
    step = vllm_ops.CommitStep(source, offsets_of(LENGTHS), None, table, computed, 8)
    _, state = recorded(step)
    columns, counts = torch.full((8,), 77, dtype=I32), torch.full((8,), 9, dtype=I32)
    state.commit_step(i32(4, 0, 3), torch.tensor([6, 1, 3]), state_indices=columns, num_accepted_tokens=counts)
    assert columns.tolist() == [77, 77, 77, 2, 77, 77, 1, 77] and counts.tolist() == [9, 9, 9, 1, 9, 9, 1, 9]
    _, state = recorded(step)
    with pytest.raises(ValueError, match="running columns"):
        state.commit_step(i32(1, 1, 1), torch.tensor([6, 1, 3]), state_indices=None, num_accepted_tokens=counts)


# --- pages shared by groups ------------------------------------------------------------------------------------------------------


def hybrid_pages(second_blocks):
    """Two groups of one layer each in one raw tensor, as vLLM's hybrid cache lays them out: a page is a state, records and a line."""
    sizes = {"state": HV * V * K * 4, "records": HV * S * (V + K + 1) * 4, "line": 24 * (W - 1 + S - 1) * 2}
    pool = torch.zeros(BLOCKS, sum(sizes.values()) + 8, dtype=torch.uint8)
    state = ops.page_view(pool, offset=0, shape=(HV, V, K), dtype=torch.float32)
    records = ops.page_view(pool, offset=sizes["state"], shape=(HV, S, V + K + 1), dtype=torch.float32)
    line = ops.page_view(pool, offset=sizes["state"] + sizes["records"], shape=(24, W - 1 + S - 1), dtype=torch.bfloat16)
    draw = torch.Generator().manual_seed(9)
    state.copy_(torch.randn(state.shape, generator=draw)), line.copy_(torch.randn(line.shape, generator=draw))
    groups = []
    for place, blocks in enumerate([(2, 5, 7), second_blocks]):
        given = gdn(blocks, seed=place) | {"checkpoint_state": state, "replay_cache": records}
        vllm_ops.gdn_recoverssm_verify(**given)
        groups.append((context(given, [line]), vllm_ops.CommitStep(i32(*blocks), offsets_of(LENGTHS))))
    return pool, groups


def test_groups_in_the_same_pages_are_committed_in_one_call():
    (one, together), (each, apart) = hybrid_pages((3, 1, 9)), hybrid_pages((3, 1, 9))
    assert vllm_ops.commit_groups(together, i32(4, 1, 2)) is True
    for committed, step in apart:
        committed.commit_step(i32(4, 1, 2), step)
    assert torch.equal(one, each)


def test_groups_in_the_same_pages_do_not_share_blocks():
    pool, groups = hybrid_pages((3, 5, 9))
    before = pool.clone()
    with pytest.raises(recoverssm.OutOfRange, match=r"block 5.*same pages"):
        vllm_ops.commit_groups(groups, i32(4, 1, 2))
    assert torch.equal(pool, before)
