"""The XPU kernels' GDN operations under their own names: argument orders, shapes and error cases as their registration and tests have them,
bits as `recoverssm.ops` has them, composed by hand."""

import inspect

import pytest
import recoverssm
import torch
from recoverssm import ops
from recoverssm.compat import xpu_ops

I32 = torch.int32

# Names and order of the public registration (vllm-xpu-kernels, csrc/xpu/torch_bindings.cpp; the RecoverSSM operation from its test).
PROJECTIONS = "z projected_states_qkvz projected_states_ba num_k_heads num_v_heads head_k_dim head_v_dim"
CONV = "conv_state conv_weights conv_bias activation"
COUNTS = "num_prefills num_decodes num_spec_decodes"
PLAIN = "has_initial_state non_spec_query_start_loc non_spec_token_indx non_spec_state_indices_tensor"
SPEC = "spec_query_start_loc spec_token_indx spec_state_indices_tensor num_accepted_tokens"
DELTA = "core_attn_out q k v b a num_v_heads head_v_dim A_log dt_bias ssm_state"
NAMES = {
    "causal_conv1d_spec": f"{PROJECTIONS} {CONV} {COUNTS} {SPEC} num_actual_tokens tp_size reorder_input",
    "causal_conv1d_non_spec": f"{PROJECTIONS} {CONV} {COUNTS} {PLAIN} num_actual_tokens tp_size reorder_input",
    "gated_delta_rule_spec": f"{DELTA} {COUNTS} {SPEC} num_actual_tokens tp_size",
    "gated_delta_rule_non_spec": f"{DELTA} {COUNTS} {PLAIN} num_actual_tokens tp_size",
    "gdn_attention": f"core_attn_out {PROJECTIONS} conv_state ssm_state conv_weights conv_bias activation A_log dt_bias"
    f" {COUNTS} {PLAIN} {SPEC} num_actual_tokens tp_size reorder_input",
    "gated_delta_rule_spec_recoverssm": f"{DELTA} replay_state num_spec_decodes spec_query_start_loc spec_token_indx"
    " spec_state_indices_tensor null_block_id num_actual_tokens tp_size",
}

WRITTEN = {
    "causal_conv1d_spec": {"z", "conv_state"},
    "causal_conv1d_non_spec": {"z", "conv_state"},
    "gated_delta_rule_spec": {"core_attn_out", "ssm_state"},
    "gated_delta_rule_non_spec": {"core_attn_out", "ssm_state"},
    "gdn_attention": {"core_attn_out", "z", "conv_state", "ssm_state"},
    "gated_delta_rule_spec_recoverssm": {"core_attn_out", "replay_state"},
}

TP, H, HV, K, V, W, S, BLOCKS, PAD = 2, 4, 8, 16, 8, 4, 3, 24, 2  # heads of the model; PAD rows behind the actual tokens
h, hv = H // TP, HV // TP
C = 2 * h * K + hv * V


class Step:
    """Projections, pools and rows of a mixed step: tokens of plain rows and of windows are shuffled."""

    def __init__(self, plain=(5, 1, 0, 3), windows=(3, 1, 2), seed=0, dtype=torch.bfloat16, null_plain=None):
        draw = torch.Generator().manual_seed(seed)
        normal = lambda *size: torch.randn(size, generator=draw)  # noqa: E731
        self.plain, self.windows, tokens = plain, windows, sum(plain) + sum(windows)
        self.tokens = tokens
        order = torch.randperm(tokens, generator=draw).to(I32)
        ids = (torch.randperm(BLOCKS - 1, generator=draw) + 1).to(I32)
        offsets = lambda lengths: torch.tensor([0, *torch.tensor(lengths, dtype=torch.long).cumsum(0).tolist()], dtype=I32)  # noqa: E731
        self.plain_offsets, self.spec_offsets = offsets(plain), offsets(windows)
        self.plain_tokens, self.spec_tokens = order[: sum(plain)].contiguous(), order[sum(plain) :].contiguous()
        self.plain_ids = ids[: len(plain)].clone()
        if null_plain is not None:
            self.plain_ids[null_plain] = 0
        self.table = ids[len(plain) : len(plain) + len(windows) * S].reshape(len(windows), S).contiguous()
        self.has_initial_state = torch.arange(len(plain)) % 2 == 0
        self.accepted = (torch.arange(len(windows), dtype=I32) % S) + 1
        self.qkvz = normal(tokens + PAD, 2 * h * K + 2 * hv * V).to(dtype)
        self.ba = normal(tokens + PAD, 2 * hv).to(dtype)
        self.line = normal(BLOCKS, W - 1 + S - 1, C).to(dtype)
        self.state = normal(BLOCKS, hv, V, K)
        self.weights, self.bias = (normal(C, W) * 0.5).to(dtype), normal(C).to(dtype)
        self.A_log, self.dt_bias = normal(hv), normal(hv).to(dtype)
        self.out, self.z = (torch.full((tokens + PAD, hv, V), 7.0, dtype=dtype) for _ in range(2))

    def copy(self):
        other = object.__new__(Step)
        other.__dict__ = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in vars(self).items()}
        return other

    def projections(self, reorder):
        return dict(z=self.z, projected_states_qkvz=self.qkvz, projected_states_ba=self.ba, num_k_heads=H, num_v_heads=HV, head_k_dim=K,
                    head_v_dim=V, num_actual_tokens=self.tokens, tp_size=TP, reorder_input=reorder)  # fmt: skip

    def conv(self):
        return dict(conv_state=self.line, conv_weights=self.weights, conv_bias=self.bias, activation="silu")

    def counts(self, only=None):
        plain = 0 if only == "spec" else len(self.plain)
        return dict(num_prefills=min(plain, 2), num_decodes=plain - min(plain, 2), num_spec_decodes=0 if only == "plain" else len(self.windows))

    def plain_rows(self):
        return dict(has_initial_state=self.has_initial_state, non_spec_query_start_loc=self.plain_offsets, non_spec_token_indx=self.plain_tokens,
                    non_spec_state_indices_tensor=self.plain_ids)  # fmt: skip

    def spec_rows(self):
        return dict(spec_query_start_loc=self.spec_offsets, spec_token_indx=self.spec_tokens, spec_state_indices_tensor=self.table,
                    num_accepted_tokens=self.accepted)  # fmt: skip

    def delta(self):
        return dict(core_attn_out=self.out, num_v_heads=HV, head_v_dim=V, A_log=self.A_log, dt_bias=self.dt_bias, ssm_state=self.state,
                    num_actual_tokens=self.tokens, tp_size=TP)  # fmt: skip

    def split(self, tokens):
        """Some q, k, v, b, a."""
        draw = torch.Generator().manual_seed(8)
        shapes = dict(q=(h, K), k=(h, K), v=(hv, V), b=(hv,), a=(hv,))
        return {name: torch.randn(tokens, *shape, generator=draw).to(self.qkvz.dtype) for name, shape in shapes.items()}

    def attention(self, reorder, only=None):
        none = dict.fromkeys((PLAIN + " " + SPEC).split())
        rows = ({} if only == "spec" else self.plain_rows()) | ({} if only == "plain" else self.spec_rows())
        return self.projections(reorder) | self.conv() | self.counts(only) | self.delta() | none | rows

    def written(self):
        return {name: getattr(self, name) for name in ("line", "state", "out", "z")}


def assert_same(one, other):
    for name, tensor in one.written().items():
        assert torch.equal(tensor, other.written()[name]), name


def native_chain(step, reorder, part):
    """split_projections, convolution, delta rule by hand for one part."""
    plain = part == "plain"
    index, offsets = (step.plain_tokens, step.plain_offsets) if plain else (step.spec_tokens, step.spec_offsets)
    n = step.tokens
    mixed = step.qkvz.new_empty(index.shape[0], C)
    b, a = (step.ba.new_empty(index.shape[0], hv) for _ in range(2))
    ops.split_projections(
        qkvz=step.qkvz[:n], ba=step.ba[:n], layout="flat" if reorder else "interleaved", num_k_heads=h, num_v_heads=hv, head_k_dim=K,
        head_v_dim=V, mixed_qkv=mixed, z=step.z[:n], b=b, a=a, token_index=index,
    )  # fmt: skip
    conv = dict(x=mixed, out=mixed, weight=step.weights, bias=step.bias, activation="silu", line=step.line, query_start_loc=offsets)
    if plain:
        ops.causal_conv1d(**conv, state_indices=step.plain_ids, has_initial_state=step.has_initial_state)
    else:
        ops.causal_conv1d_window(**conv, line_kind="rolled", window_capacity=S, state_indices=step.table[:, 0], num_accepted=step.accepted)
    q, k, v = mixed.split([h * K, h * K, hv * V], 1)
    rule = dict(q=q.unflatten(1, (h, K)), k=k.unflatten(1, (h, K)), v=v.unflatten(1, (hv, V)), a=a, b=b, A_log=step.A_log,
                dt_bias=step.dt_bias, state=step.state, out=step.out[:n], query_start_loc=offsets, token_index=index)  # fmt: skip
    if plain:
        ops.gated_delta_rule(**rule, state_indices=step.plain_ids, has_initial_state=step.has_initial_state)
    else:
        ops.gated_delta_rule_snapshots(**rule, state_indices=step.table, num_accepted=step.accepted)
    return [*(rule[name] for name in "qkvba"),]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_and_order(name):
    assert list(inspect.signature(getattr(xpu_ops, name)).parameters) == NAMES[name].split()


@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("part", ["plain", "spec"])
def test_stages_are_the_chain(reorder, part):
    expected = Step()
    got = expected.copy()
    parts = native_chain(expected, reorder, part)
    word, rows = ("non_spec", got.plain_rows()) if part == "plain" else ("spec", got.spec_rows())
    counts = got.counts()
    made = getattr(xpu_ops, f"causal_conv1d_{word}")(**got.projections(reorder), **got.conv(), **counts, **rows)
    assert len(made) == 5
    for name, tensor, other in zip("qkvba", made, parts, strict=True):
        assert tensor.is_contiguous() and torch.equal(tensor, other), name
    memories = [tensor.untyped_storage().data_ptr() for tensor in made]
    assert len(set(memories)) == 5
    getattr(xpu_ops, f"gated_delta_rule_{word}")(**dict(zip("qkvba", made, strict=True)), **got.delta(), **counts, **rows)
    assert_same(got, expected)
    untouched = got.spec_tokens if part == "plain" else got.plain_tokens
    assert (got.z[untouched.long()] == 7).all() and (got.out[got.tokens :] == 7).all()


@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("only", [None, "plain", "spec"])
def test_gdn_attention_is_the_chain(reorder, only):
    expected = Step(seed=1, null_plain=1)
    got = expected.copy()
    for part in ("plain", "spec"):
        if only in (None, part):
            native_chain(expected, reorder, part)
    xpu_ops.gdn_attention(**got.attention(reorder, only))
    assert_same(got, expected)


def test_no_token_index_takes_all_tokens():
    """Without windows the rows' tokens are 0..num_actual_tokens-1; rows behind them are padding."""
    step = Step(plain=(4, 1, 2), windows=(), seed=2)
    step.plain_tokens = torch.arange(step.tokens, dtype=I32)
    given = step.copy()
    xpu_ops.gdn_attention(**given.attention(True, "plain"))
    step_args = step.attention(True, "plain") | {"non_spec_token_indx": None}
    xpu_ops.gdn_attention(**step_args)
    assert_same(step, given)
    assert (step.out[step.tokens :] == 7).all() and (step.z[step.tokens :] == 7).all()


@pytest.mark.parametrize("state", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("indexed", [False, True])
def test_recoverssm(state, indexed):
    lengths, ids = [3, 1, 2, 3], [5, 9, 0, 2]  # row 2 is null
    step = Step(plain=(), windows=lengths, seed=3)
    step.state = step.state.to(state)
    index = step.spec_tokens if indexed else None
    draw = torch.Generator().manual_seed(4)
    q, k = (torch.randn(step.tokens, h, K, generator=draw).bfloat16() for _ in range(2))
    v = torch.randn(step.tokens, hv, V, generator=draw).bfloat16()
    b, a = (torch.randn(step.tokens, hv, generator=draw).bfloat16() for _ in range(2))
    blocks = torch.tensor(ids, dtype=I32)
    records, expected = torch.zeros(2, BLOCKS, hv, S, V + K + 1)
    before, out = step.state.clone(), step.out.clone()
    ops.gated_delta_rule_verify(q=q, k=k, v=v, a=a, b=b, A_log=step.A_log, dt_bias=step.dt_bias, state=step.state, out=out[: step.tokens],
                                records=expected, query_start_loc=step.spec_offsets, state_indices=blocks, window_capacity=S,
                                token_index=index)  # fmt: skip
    xpu_ops.gated_delta_rule_spec_recoverssm(
        step.out, q, k, v, b, a, HV, V, A_log=step.A_log, dt_bias=step.dt_bias, ssm_state=step.state, replay_state=records,
        num_spec_decodes=4, spec_query_start_loc=step.spec_offsets, spec_token_indx=index, spec_state_indices_tensor=blocks, null_block_id=0,
        num_actual_tokens=step.tokens, tp_size=TP,
    )  # fmt: skip
    assert torch.equal(step.out, out) and torch.equal(records, expected) and torch.equal(step.state, before)
    rows = range(int(step.spec_offsets[2]), int(step.spec_offsets[3]))
    null = torch.tensor(rows) if index is None else index[list(rows)].long()
    assert (step.out[null] == 0).all() and (records[0] == 0).all() and (records[5, :, 3:] == 0).all()


# Operation, what is changed, words of the message; the original's checks (TORCH_CHECK) in their order.
WRONG = [
    ("causal_conv1d_spec", {"num_spec_decodes": 0}, "num_spec_decodes"),
    ("causal_conv1d_spec", {"spec_query_start_loc": torch.zeros(3, dtype=I32)}, "spec_query_start_loc"),
    ("causal_conv1d_spec", {"spec_query_start_loc": torch.tensor([0, 3, 4, 6])}, "i64"),
    ("causal_conv1d_spec", {"spec_token_indx": torch.zeros(0, dtype=I32)}, "spec_token_indx"),
    ("causal_conv1d_spec", {"spec_state_indices_tensor": torch.ones(3, dtype=I32)}, "num_speculative_tokens"),
    ("causal_conv1d_spec", {"spec_state_indices_tensor": torch.ones(2, 3, dtype=I32)}, "num_speculative_tokens"),
    ("causal_conv1d_spec", {"conv_state": torch.zeros(BLOCKS, W - 1 + S - 2, C, dtype=torch.bfloat16)}, "line"),
    ("causal_conv1d_spec", {"num_accepted_tokens": torch.ones(2, dtype=I32)}, "num_accepted_tokens"),
    ("causal_conv1d_spec", {"num_accepted_tokens": torch.full((3,), S + 1, dtype=I32)}, "num_accepted"),
    ("causal_conv1d_spec", {"z": torch.zeros(4, hv, V, dtype=torch.bfloat16)}, "num_actual_tokens"),
    ("causal_conv1d_spec", {"z": torch.zeros(40, hv + 1, V, dtype=torch.bfloat16)}, "z"),
    ("causal_conv1d_spec", {"projected_states_qkvz": torch.zeros(40, 3, dtype=torch.bfloat16)}, "qkvz"),
    ("causal_conv1d_spec", {"projected_states_ba": torch.zeros(40, 3, dtype=torch.bfloat16)}, "ba"),
    ("causal_conv1d_spec", {"activation": "relu"}, "activation"),
    ("causal_conv1d_non_spec", {"num_prefills": 0, "num_decodes": 0}, "num_prefills"),
    ("causal_conv1d_non_spec", {"has_initial_state": torch.ones(3, dtype=torch.bool)}, "has_initial_state"),
    ("causal_conv1d_non_spec", {"has_initial_state": torch.ones(4, dtype=I32)}, "has_initial_state"),
    ("causal_conv1d_non_spec", {"non_spec_query_start_loc": torch.zeros(4, dtype=I32)}, "non_spec_query_start_loc"),
    ("causal_conv1d_non_spec", {"non_spec_state_indices_tensor": torch.ones(3, dtype=I32)}, "non_spec_state_indices_tensor"),
    ("causal_conv1d_non_spec", {"non_spec_state_indices_tensor": torch.full((4,), BLOCKS, dtype=I32)}, "state_indices"),
    ("causal_conv1d_non_spec", {"conv_weights": torch.zeros(C, 9, dtype=torch.bfloat16)}, "weight"),
    ("causal_conv1d_non_spec", {"tp_size": 3}, "tp_size"),
    ("gdn_attention", {"num_accepted_tokens": None}, "num_accepted_tokens"),
    ("gdn_attention", {"spec_state_indices_tensor": None}, "spec_state_indices_tensor"),
    ("gdn_attention", {"core_attn_out": torch.zeros(40, hv, V + 1, dtype=torch.bfloat16)}, "core_attn_out"),
    ("gdn_attention", {"non_spec_query_start_loc": None}, "non_spec_query_start_loc"),
    ("gdn_attention", {"has_initial_state": torch.ones(3, dtype=torch.bool)}, "has_initial_state"),
    ("gdn_attention", {"num_prefills": 0, "num_decodes": 0, "num_spec_decodes": 0}, "num_prefills"),
    ("gated_delta_rule_non_spec", {"num_prefills": 0, "num_decodes": 0}, "num_prefills"),
    ("gated_delta_rule_non_spec", {"num_prefills": 1, "num_decodes": 1}, "num_prefills + num_decodes"),
    ("gated_delta_rule_non_spec", {"core_attn_out": torch.zeros(4, hv, V, dtype=torch.bfloat16)}, "num_actual_tokens"),
    ("gated_delta_rule_non_spec", {"tp_size": 3}, "tp_size"),
    ("gated_delta_rule_non_spec", {"non_spec_query_start_loc": torch.zeros(4, dtype=I32)}, "non_spec_query_start_loc"),
    ("gated_delta_rule_non_spec", {"non_spec_state_indices_tensor": torch.full((4,), BLOCKS, dtype=I32)}, "state_indices"),
    ("gated_delta_rule_non_spec", {"q": torch.zeros(9, h, K + 1, dtype=torch.bfloat16)}, f"K = {K + 1}"),
    ("gated_delta_rule_spec", {"num_spec_decodes": 0}, "num_spec_decodes"),
    ("gated_delta_rule_spec", {"spec_state_indices_tensor": torch.ones(3, dtype=I32)}, "num_speculative_tokens"),
    ("gated_delta_rule_spec", {"num_accepted_tokens": torch.ones(2, dtype=I32)}, "num_accepted_tokens"),
    ("gated_delta_rule_spec", {"num_accepted_tokens": torch.full((3,), S + 1, dtype=I32)}, "num_accepted"),
    ("gated_delta_rule_spec", {"core_attn_out": torch.zeros(40, hv + 1, V, dtype=torch.bfloat16)}, "core_attn_out"),
    ("gated_delta_rule_spec_recoverssm", {"num_spec_decodes": 0}, "num_spec_decodes"),
    ("gated_delta_rule_spec_recoverssm", {"spec_query_start_loc": torch.zeros(3, dtype=I32)}, "spec_query_start_loc"),
    ("gated_delta_rule_spec_recoverssm", {"spec_state_indices_tensor": torch.ones(3, S, dtype=I32)}, "spec_state_indices_tensor"),
    ("gated_delta_rule_spec_recoverssm", {"replay_state": torch.zeros(BLOCKS, hv, V + K + 1)}, "replay_state"),
    ("gated_delta_rule_spec_recoverssm", {"replay_state": torch.zeros(BLOCKS, hv, S - 1, V + K + 1)}, "query_start_loc"),
    ("gated_delta_rule_spec_recoverssm", {"replay_state": torch.zeros(BLOCKS, hv, S, V + K)}, "records"),
]


@pytest.mark.parametrize(("name", "change", "word"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_refused_and_nothing_written(name, change, word):
    step = Step()
    before = step.copy()
    plain = "non_spec" in name
    rows = step.plain_rows() if plain else step.spec_rows()
    if name == "gdn_attention":
        arguments = step.attention(True)
    elif name.startswith("causal"):
        arguments = step.projections(True) | step.conv() | step.counts() | rows
    else:
        arguments = step.delta() | step.split(sum(step.plain if plain else step.windows)) | step.counts() | rows
    if name.endswith("recoverssm"):
        arguments |= {"spec_state_indices_tensor": step.table[:, 0], "replay_state": torch.zeros(BLOCKS, hv, S, V + K + 1), "null_block_id": 0}
        arguments = {word: arguments[word] for word in NAMES[name].split()}
    with pytest.raises(recoverssm.Error) as raised:
        getattr(xpu_ops, name)(**arguments | change)
    assert word in str(raised.value)
    assert_same(step, before)


def test_registered_operations_are_these():
    """Code against torch.ops._xpu_C runs; block 0 can be a request's there; errors are RuntimeErrors."""
    xpu_ops.register()
    for name, names in NAMES.items():
        schema = getattr(torch.ops._xpu_C, name).default._schema
        assert [argument.name for argument in schema.arguments] == names.split()
        assert {argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write} == WRITTEN[name]
        assert len(schema.returns) == name.startswith("causal")
    expected, got = Step(seed=5), Step(seed=5)
    xpu_ops.gdn_attention(**expected.attention(False))
    arguments = got.attention(False)
    torch.ops._xpu_C.gdn_attention(*(arguments[name] for name in NAMES["gdn_attention"].split()))
    assert_same(got, expected)
    step = Step(plain=(2,), windows=(), seed=6)
    step.plain_ids.zero_()
    step.has_initial_state = torch.ones(1, dtype=torch.bool)
    moved = step.copy()
    moved.plain_ids.fill_(1)
    for name in ("line", "state"):
        getattr(moved, name)[1] = getattr(moved, name)[0]
    xpu_ops.register(null_block_id=-1)
    try:
        torch.ops._xpu_C.gdn_attention(**step.attention(True, "plain"))
    finally:
        xpu_ops.register()
    torch.ops._xpu_C.gdn_attention(**moved.attention(True, "plain"))
    assert torch.equal(step.out, moved.out) and torch.equal(step.state[0], moved.state[1])
    with pytest.raises(RuntimeError, match="out_of_range"):
        torch.ops._xpu_C.gdn_attention(**step.attention(True, "plain") | {"non_spec_state_indices_tensor": torch.tensor([99], dtype=I32)})
