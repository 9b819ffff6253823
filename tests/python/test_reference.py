"""Every operation against the float64 reference (reference.py), random shapes, dtypes, lengths, null rows."""

from __future__ import annotations

import numpy as np
import reference
import torch
from cases import I32, Maker, Shape
from hypothesis import given
from hypothesis import strategies as st
from recoverssm import ops
from reference import wide

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@st.composite
def makers(draw, gates=("gdn", "kda")):
    H, S, rows = draw(st.integers(1, 2)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    shape = Shape(
        H=H,
        HV=H * draw(st.integers(1, 3)),
        K=draw(st.integers(1, 40)),
        V=draw(st.integers(1, 20)),
        W=draw(st.integers(2, 5)),
        S=S,
        T=draw(st.sampled_from(list(TOLERANCE))),
        gate=draw(st.sampled_from(gates)),
        lengths=tuple(draw(st.lists(st.integers(0, S), min_size=rows, max_size=rows))),
    )
    maker = Maker(shape, draw(st.integers(0, 2**32 - 1)))
    nulls = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    maker.ids = np.where(np.array(nulls) & (maker.rng.random(rows) < 0.5), 0, maker.ids)
    return maker


def close(got: torch.Tensor, want: np.ndarray, tolerance: float, what: str = "") -> None:
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(wide(got), want, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def rows_of(maker: Maker):
    """(row, its tokens, its block) of each row with tokens."""
    start = 0
    for i, length in enumerate(maker.shape.lengths):
        if length:
            yield i, slice(start, start + length), int(maker.ids[i])
        start += length


@given(makers(), st.booleans(), st.booleans())
def test_causal_conv1d(maker, inplace, activated):
    s, tolerance = maker.shape, TOLERANCE[maker.shape.T]
    call = maker.conv(inplace) | {"activation": "silu" if activated else None}
    call |= {"line": maker.line(s.W + 1), "has_initial_state": maker.flags()}
    x, line = wide(call["x"]), wide(call["line"])
    ops.causal_conv1d(**call)
    want, after = np.zeros_like(x), line.copy()
    for i, tokens, block in rows_of(maker):
        if block == 0:
            continue
        history = line[block, : s.W - 1] * bool(call["has_initial_state"][i])
        want[tokens] = reference.convolve(history, x[tokens], wide(call["weight"]), wide(call["bias"]), call["activation"])
        after[block, : s.W - 1] = np.concatenate([history, x[tokens]])[-(s.W - 1) :]
    close(call["out"], want, tolerance)
    assert np.array_equal(wide(call["line"]), after)


@given(makers(), st.sampled_from(["rolled", "anchored"]), st.booleans())
def test_causal_conv1d_window(maker, kind, counted):
    s = maker.shape
    call = maker.conv() | {"line_kind": kind, "window_capacity": s.S}
    call |= {"line": maker.line(2 * s.S + s.W), "num_accepted": maker.counts() if counted else None}
    x, line = wide(call["x"]), wide(call["line"])
    ops.causal_conv1d_window(**call)
    want, after = np.zeros_like(x), line.copy()
    for i, tokens, block in rows_of(maker):
        if block == 0:
            continue
        count = int(call["num_accepted"][i]) if counted else int(kind == "rolled")
        start = max(count - 1, 0) if kind == "rolled" else count
        history = line[block, start : start + s.W - 1]
        want[tokens] = reference.convolve(history, x[tokens], wide(call["weight"]), wide(call["bias"]), "silu")
        # Rolled lines have dropped the oldest entry; anchored ones keep it in front.
        new = np.concatenate([history[kind == "rolled" :], x[tokens]])
        after[block, : len(new)] = new
    close(call["out"], want, TOLERANCE[s.T])
    assert np.array_equal(wide(call["line"]), after)


def rule_call(maker: Maker, bounded: bool, scale: float | None) -> dict:
    bound = -2.5 if bounded and maker.shape.gate == "kda" else None
    return maker.rule() | {"lower_bound": bound, "scale": scale}


@given(makers(), st.booleans(), st.sampled_from([None, 0.25]))
def test_gated_delta_rule(maker, bounded, scale):
    call = rule_call(maker, bounded, scale) | {"has_initial_state": maker.flags()}
    before, after = wide(call["state"]), wide(call["state"]).copy()
    want = np.zeros(call["out"].shape)
    ops.gated_delta_rule(**call)
    for i, tokens, block in rows_of(maker):
        if block:
            want[tokens], states = reference.delta_rule(call, tokens, before[block] * bool(call["has_initial_state"][i]))
            after[block] = states[-1]
    close(call["out"], want, 1e-4, "out")
    close(call["state"], after, 1e-4, "state")


@given(makers())
def test_gated_delta_rule_snapshots(maker):
    s = maker.shape
    call = rule_call(maker, False, None) | {"num_accepted": maker.counts()}
    blocks = s.rows * s.S + 2
    table = maker.rng.permutation(np.arange(1, blocks))[: s.rows * s.S].reshape(s.rows, s.S)
    call |= {"state_indices": torch.tensor(table, dtype=I32), "state": maker.normal(blocks, s.HV, s.V, s.K, dtype=torch.float32)}
    before, after = wide(call["state"]), wide(call["state"]).copy()
    want = np.zeros(call["out"].shape)
    ops.gated_delta_rule_snapshots(**call)
    for i, tokens, _ in rows_of(maker):
        start = before[table[i, max(int(call["num_accepted"][i]) - 1, 0)]]
        want[tokens], states = reference.delta_rule(call, tokens, start)
        for t, state in enumerate(states):
            after[table[i, t]] = state
    close(call["out"], want, 1e-4, "out")
    close(call["state"], after, 1e-4, "state")


def new_records(maker: Maker) -> ops.Records:
    records = maker.records()
    for tensor in records if isinstance(records, ops.KdaRecords) else [records]:
        tensor.fill_(float("nan"))  # what nobody wrote must not matter
    return records


def kda_parameters(maker: Maker, call: dict) -> dict:
    gates = {"A_log": call["A_log"], "dt_bias": call["dt_bias"], "lower_bound": call["lower_bound"]}
    return gates if maker.shape.gate == "kda" else {}


def step(maker: Maker, bounded: bool):
    """A verify, its plan in align mode, and what the states must be after the commit."""
    s = maker.shape
    call = rule_call(maker, bounded, None) | {"records": new_records(maker), "window_capacity": s.S}
    counts = maker.counts()
    plan = maker.plan_outputs()
    rows = {name: call[name] for name in ("query_start_loc", "state_indices")}
    ops.commit_plan(num_accepted=counts, window_capacity=s.S, **rows, **plan)
    before, after = wide(call["state"]), wide(call["state"]).copy()
    want = np.zeros(call["out"].shape)
    for i, tokens, block in rows_of(maker):
        if block:
            want[tokens], states = reference.delta_rule(call, tokens, before[block])
            kept = min(int(counts[i]), s.lengths[i])
            after[block] = states[kept - 1] if kept else before[block]
    return call, counts, plan, want, before, after


@given(makers(), st.booleans())
def test_verify_then_commit(maker, bounded):
    s = maker.shape
    call, _, plan, want, before, after = step(maker, bounded)
    line = maker.line(s.W - 1 + s.S)
    lines = wide(line)
    ops.gated_delta_rule_verify(**call)
    close(call["out"], want, 1e-4, "out")
    assert np.array_equal(wide(call["state"]), before)  # verify never writes it
    group = ops.CommitGroup(state_indices=call["state_indices"], **plan)
    layer = ops.Layer(state=call["state"], records=call["records"], gate=s.gate, **kda_parameters(maker, call))
    layer.line, layer.line_kind, layer.conv_taps = line, "anchored", s.W
    ops.commit(groups=[group], layers=[layer], window_capacity=s.S)
    close(call["state"], after, 1e-4, "state")
    for i, _, block in rows_of(maker):
        if block and (kept := int(plan["commit_len"][i])):
            lines[block, : s.W - 1] = lines[block, kept : kept + s.W - 1].copy()
    assert np.array_equal(wide(line), lines)


@given(makers(), st.booleans(), st.sampled_from(["verify", "rule", "materialize"]))
def test_lazy_forms(maker, bounded, form):
    """verify, then counts arrive with the next call: the next verify, a plain row, or materialize folds the records."""
    s = maker.shape
    call, counts, _, want, before, after = step(maker, bounded)
    pending = torch.zeros(s.blocks, dtype=I32)
    zero = torch.zeros_like(counts)
    ops.gated_delta_rule_verify(**call, pending=pending, num_accepted=zero)
    close(call["out"], want, 1e-4, "out")
    assert np.array_equal(wide(call["state"]), before)
    waits = np.zeros(s.blocks)
    for i, _, block in rows_of(maker):
        waits[block] = s.lengths[i] if block else 0
    assert pending.tolist() == waits.tolist()
    if form == "materialize":
        layer = ops.Layer(state=call["state"], records=call["records"], pending=pending, gate=s.gate)
        for name, value in kda_parameters(maker, call).items():
            setattr(layer, name, value)
        live = torch.tensor([block for _, _, block in rows_of(maker) if block], dtype=I32)
        of_live = torch.tensor([int(counts[i]) for i, _, block in rows_of(maker) if block], dtype=I32)
        ops.materialize(blocks=live, num_accepted=of_live, layers=[layer])
        close(call["state"], after, 1e-4, "state")
        assert not pending.any()
        return
    second = maker.rule() | kda_parameters(maker, call) | {"state": call["state"], "gate": s.gate}
    second |= {"A_log": call["A_log"], "dt_bias": call["dt_bias"], "lower_bound": call["lower_bound"]}
    lazy = {"pending": pending, "num_accepted": counts, "records": call["records"]}
    if form == "verify":
        ops.gated_delta_rule_verify(**second, **lazy, window_capacity=s.S)
    else:
        ops.gated_delta_rule(**second, **lazy)
        assert not pending.any()
    wanted = np.zeros(second["out"].shape)
    for _, tokens, block in rows_of(maker):
        if block:
            wanted[tokens], states = reference.delta_rule(second, tokens, after[block])
            after[block] = states[-1] if form == "rule" else after[block]
    close(second["out"], wanted, 1e-4, "out")
    close(second["state"], after, 1e-4, "state")


@given(makers(), st.booleans(), st.integers(1, 9))
def test_commit_plan(maker, aligned, block_size):
    s = maker.shape
    align = maker.aligned(block_size) if aligned else {}
    counts, rows, plan = maker.counts(high=s.S + 2), maker.rows(), maker.plan_outputs()
    ops.commit_plan(num_accepted=counts, **rows, window_capacity=s.S, **align, **plan)
    given = {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in align.items()}
    want = reference.plan(counts.tolist(), s.lengths, maker.ids.tolist(), s.S, **given)
    got = np.stack([plan[name].numpy() for name in ("commit_len", "final_indices", "boundary_indices")], 1)
    assert np.array_equal(got, want[:, :3])
    crossed = want[:, 2] > 0
    assert np.array_equal(plan["boundary_len"].numpy()[crossed], want[crossed, 3])
    # In one group it is the same plan.
    group = ops.PlanGroup(state_indices=rows["state_indices"], block_table=align.pop("block_table", None), **maker.plan_outputs())
    ops.commit_plan_groups(num_accepted=counts, query_start_loc=rows["query_start_loc"], window_capacity=s.S, groups=[group], **align)
    for name, tensor in plan.items():
        assert torch.equal(getattr(group, name), tensor), name


@given(makers(), st.sampled_from(["flat", "interleaved"]), st.booleans())
def test_split_projections(maker, layout, indexed):
    s = maker.shape
    n = s.tokens + 2
    qkvz, ba = maker.normal(n, 2 * s.H * s.K + 2 * s.HV * s.V), maker.normal(n, 2 * s.HV)
    where = torch.tensor(maker.rng.permutation(n)[: s.tokens], dtype=I32) if indexed else None
    out = {"mixed_qkv": torch.zeros(n, s.C), "z": torch.zeros(n, s.HV, s.V), "b": torch.zeros(n, s.HV), "a": torch.zeros(n, s.HV)}
    out = {name: tensor.to(s.T) for name, tensor in out.items()}
    sizes = {"num_k_heads": s.H, "num_v_heads": s.HV, "head_k_dim": s.K, "head_v_dim": s.V}
    ops.split_projections(qkvz=qkvz, ba=ba, layout=layout, **sizes, **out, token_index=where)
    mixed, z, b, a = reference.split(wide(qkvz), wide(ba), layout, s.H, s.HV, s.K, s.V)
    rows = np.arange(n) if where is None else where.numpy()
    for name, want in (("mixed_qkv", mixed), ("b", b), ("a", a)):
        assert np.array_equal(wide(out[name])[: len(rows)], want[rows]), name
    assert np.array_equal(wide(out["z"])[rows], z[rows])


@given(makers(), st.sampled_from(["plain", "rolled", "anchored"]), st.booleans(), st.integers(1, 3))
def test_short_conv(maker, kind, outer, dilation):
    s = maker.shape
    history = (s.W - 1) * dilation
    call = {"x": maker.normal(s.tokens, s.C), "weight": maker.normal(s.C, s.W, scale=0.5), "dilation": dilation, "line_kind": kind}
    call |= {"line": maker.line(history + s.S), "window_capacity": s.S, "residual": maker.normal(s.tokens, s.C), **maker.rows()}
    call |= {"outer_residual": maker.normal(s.tokens, s.C) if outer else None}
    call |= {"has_initial_state": maker.flags()} if kind == "plain" else {"num_accepted": maker.counts()}
    x, line, residual = wide(call["x"]), wide(call["line"]), wide(call["residual"])
    ops.short_conv(**call)

    def rounded(values):
        return wide(torch.from_numpy(values).to(s.T))

    want, after = np.zeros_like(x), line.copy()
    for i, tokens, block in rows_of(maker):
        if block == 0:
            continue
        if kind == "plain":
            old = line[block, :history] * bool(call["has_initial_state"][i])
        else:
            count = int(call["num_accepted"][i])
            start = max(count - 1, 0) if kind == "rolled" else count
            old = line[block, start : start + history]
        y = reference.short_conv(old, x[tokens], wide(call["weight"]), dilation, rounded)
        want[tokens] = wide(call["outer_residual"])[tokens] + rounded(residual[tokens] + y) if outer else y
        if kind == "plain":
            new = np.concatenate([old, x[tokens]])[-history:]
        else:
            new = np.concatenate([old[kind == "rolled" :], x[tokens]])
        after[block, : len(new)] = new
    close(call["residual"], want, TOLERANCE[s.T])
    assert np.array_equal(wide(call["line"]), after)


@given(makers())
def test_align_move_and_advance(maker):
    s = maker.shape
    layers = [maker.layer(), maker.layer(lazy=True)]
    layers[1].pending.zero_()
    targets = np.setdiff1d(np.arange(1, s.blocks), maker.ids)[: s.rows]
    to = np.where(maker.rng.random(s.rows) < 0.3, maker.ids, targets)
    before = [(wide(layer.state), wide(layer.line)) for layer in layers]
    ops.align_move(from_=maker.rows()["state_indices"], to=torch.tensor(to, dtype=I32), layers=layers)
    for layer, (state, line) in zip(layers, before, strict=True):
        for source, target in zip(maker.ids, to, strict=True):
            if source > 0 and target > 0:
                state[target], line[target, : s.W - 1] = state[source], line[source, : s.W - 1]
        assert np.array_equal(wide(layer.state), state) and np.array_equal(wide(layer.line), line)

    computed, kept = maker.rng.integers(0, 50, s.rows), maker.rng.integers(0, s.S + 1, s.rows)
    columns, counts = torch.full((s.rows,), -7, dtype=I32), maker.counts()
    want_columns, want_counts = columns.tolist(), counts.tolist()
    arrays = {"commit_len": kept, "state_indices": maker.ids, "num_computed": computed}
    ops.align_advance(
        **{name: torch.tensor(value, dtype=I32) for name, value in arrays.items()},
        block_size=4,
        running_column=columns,
        num_accepted=counts,
    )
    for r in range(s.rows):
        if kept[r] and maker.ids[r] > 0:
            want_columns[r], want_counts[r] = (computed[r] + kept[r] - 1) // 4, 1
    assert columns.tolist() == want_columns and counts.tolist() == want_counts


@given(makers(gates=("gdn",)), st.sampled_from(["flat", "interleaved"]))
def test_gdn_attention(maker, layout):
    """A mixed step: plain rows, then the same number of windows with records."""
    s = maker.shape
    ids = maker.rng.permutation(np.arange(1, s.blocks))[: 2 * s.rows].reshape(2, s.rows)
    offsets = maker.rows()["query_start_loc"]
    where = maker.rng.permutation(2 * s.tokens).reshape(2, s.tokens)
    index = [torch.tensor(part, dtype=I32) for part in where]
    block = [torch.tensor(part, dtype=I32) for part in ids]
    flags = maker.flags()
    plain = ops.AttentionPlain(query_start_loc=offsets, state_indices=block[0], has_initial_state=flags, token_index=index[0])
    windows = ops.AttentionWindows("verify", offsets, block[1], s.S, records=new_records(maker), token_index=index[1])
    call = maker.attention(plain, windows, 2 * s.tokens) | {"layout": layout, "activation": None}
    line, state = wide(call["line"]), wide(call["state"])
    ops.gdn_attention(**call)
    mixed, z, b, a = reference.split(wide(call["qkvz"]), wide(call["ba"]), layout, s.H, s.HV, s.K, s.V)
    out = np.zeros(call["out"].shape)
    after = state.copy()
    for part in range(2):
        maker.ids = ids[part]
        for i, tokens, target in rows_of(maker):
            fresh = part == 0 and not flags[i]
            here = where[part][tokens]
            y = reference.convolve(line[target, : s.W - 1] * (not fresh), mixed[here], wide(call["weight"]), None, None)
            y = wide(torch.from_numpy(y).to(s.T))
            q, k, v = np.split(y, np.cumsum([s.H * s.K, s.H * s.K]), 1)
            inputs = {"q": q.reshape(-1, s.H, s.K), "k": k.reshape(-1, s.H, s.K), "v": v.reshape(-1, s.HV, s.V), "a": a[here], "b": b[here]}
            inputs |= {name: wide(call[name]) for name in ("A_log", "dt_bias")}
            out[here], states = reference.delta_rule(inputs, slice(None), state[target] * (not fresh))
            after[target] = states[-1] if part == 0 else after[target]
    # A convolution output may be rounded to the other neighbour where float64 and fp32 differ: then a key moves by one unit in the last place.
    tolerance = max(2e-4, 4 * TOLERANCE[s.T] if s.T != torch.float32 else 0)
    close(call["out"], out, tolerance, "out")
    close(call["state"], after, tolerance, "state")
    written = np.concatenate(list(where)) if s.tokens else np.zeros(0, int)
    assert np.array_equal(wide(call["z"])[written], z[written])
