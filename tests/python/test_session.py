"""recoverssm.Session: its steps against the operations token by token, what it takes as tensors, and what it refuses."""

import gc
import os
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
import recoverssm
import torch
from recoverssm import GroupConfig, LayerConfig, LayerPool, Row, Session, SessionConfig, ops, session, session_sizes, trace

H, HV, K, V, W, S = 1, 2, 8, 6, 4, 4
C = 2 * H * K + HV * V
I32 = torch.int32


class Model:
    """A gdn layer with a convolution and a kda layer without, and their inputs for a text of tokens."""

    def __init__(self, seed: int, dtype: torch.dtype = torch.float32, tokens: int = 64) -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.weight, self.bias = self.normal(C, W, scale=0.5), self.normal(C)
        self.A_log = self.normal(HV, dtype=torch.float32)
        self.dt_bias = {"gdn": self.normal(HV, dtype=torch.float32), "kda": self.normal(HV, K, dtype=torch.float32)}
        self.x = {kind: self.normal(tokens, C) for kind in ("gdn", "kda")}
        self.a = {"gdn": self.normal(tokens, HV), "kda": self.normal(tokens, HV, K)}
        self.b = {kind: self.normal(tokens, HV) for kind in ("gdn", "kda")}

    def normal(self, *size: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> torch.Tensor:
        return torch.from_numpy(self.rng.normal(size=size) * scale).to(dtype or self.dtype)

    def config(self, blocks: int = 6, block_size: int | None = None, **more) -> SessionConfig:
        name = {torch.float32: "f32", torch.bfloat16: "bf16"}[self.dtype]
        common = dict(H=H, HV=HV, K=K, V=V, activation=name, A_log=self.A_log)
        gdn = LayerConfig(kind="gdn", W=W, weight=self.weight, bias=self.bias, dt_bias=self.dt_bias["gdn"], **common)
        kda = LayerConfig(kind="kda", group=1, dt_bias=self.dt_bias["kda"], **common)
        groups = [GroupConfig(blocks=blocks, block_size=block_size), GroupConfig(blocks=blocks, block_size=block_size)]
        return SessionConfig(layers=[gdn, kda], groups=groups, window_capacity=S, **more)

    def token_by_token(self, tokens: int) -> dict[str, list[torch.Tensor]]:
        """The outputs of both layers through recoverssm.ops, one plain row of one token at a time."""
        line, out = torch.zeros(2, W - 1, C, dtype=self.dtype), {"gdn": [], "kda": []}
        state = {kind: torch.zeros(2, HV, V, K) for kind in out}
        rows = dict(query_start_loc=torch.tensor([0, 1], dtype=I32), state_indices=torch.tensor([1], dtype=I32))
        for t in range(tokens):
            for kind in out:
                x = self.x[kind][t : t + 1].clone()
                if kind == "gdn":
                    ops.causal_conv1d(x=x, weight=self.weight, bias=self.bias, activation="silu", out=x, line=line, **rows)
                q, k, v = (part.reshape(1, -1, size) for part, size in zip(x.split([H * K, H * K, HV * V], 1), (K, K, V), strict=True))
                y = torch.empty(1, HV, V, dtype=self.dtype)
                ops.gated_delta_rule(
                    q=q, k=k, v=v, a=self.a[kind][t : t + 1], b=self.b[kind][t : t + 1], A_log=self.A_log, dt_bias=self.dt_bias[kind],
                    gate=kind, state=state[kind], out=y, **rows,
                )  # fmt: skip
                out[kind].append(y[0])
        return out

    def step(self, of: Session, rows: list[tuple[int, str, int, int]], accepted=None) -> dict[str, torch.Tensor]:
        """One step; rows: request, kind, first token, tokens. Its outputs."""
        step = of.open_step(Row(request, kind, tokens, start) for request, kind, start, tokens in rows)
        places = [start + i for _, _, start, tokens in rows for i in range(tokens)]
        outs = {kind: torch.full((len(places), HV, V), 7.0, dtype=self.dtype) for kind in ("gdn", "kda")}
        for layer, kind in enumerate(outs):
            of.forward(step, layer, x=self.x[kind][places], a=self.a[kind][places], b=self.b[kind][places], out=outs[kind])
        of.commit(step, accepted)
        return outs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"lazy": True}, {"line_kind": "rolled"}, {"block_size": 8, "blocks": 12}], ids=str)
def test_prefill_decode_and_windows_are_the_operations_token_by_token(dtype, options):
    model = Model(1, dtype)
    expected = model.token_by_token(48)

    def check(outs, rows):
        place = 0
        for _, _, start, tokens in rows:
            for i in range(tokens):
                for kind, out in outs.items():
                    assert torch.equal(out[place], expected[kind][start + i]), (kind, start + i)
                place += 1

    with Session(model.config(**options)) as of:
        requests = [of.admit(), of.admit()]
        rows = [(requests[0], "prefill", 0, 7), (requests[1], "prefill", 0, 3)]
        check(model.step(of, rows), rows)
        counts = {requests[0]: 7, requests[1]: 3}
        rng = np.random.default_rng(2)
        for _ in range(9):
            lengths = {request: int(rng.integers(1, S + 1)) for request in requests}
            rows = [(request, "window", counts[request], lengths[request]) for request in requests]
            kept = {request: int(rng.integers(1, lengths[request] + 1)) for request in requests}
            if rng.integers(2):
                rows[0] = (requests[0], "decode", counts[requests[0]], 1)
                kept[requests[0]] = 1
            given = {request: kept[request] for request, kind, *_ in rows if kind == "window"}
            check(model.step(of, rows, given), rows)
            for request in requests:
                counts[request] += kept[request]
                assert of.info(request).tokens == counts[request]
        counters = of.counters()
        assert counters.steps_committed == 10 and counters.prefill_tokens == 10 and counters.refused_calls == 0
        assert counters.kept_tokens + counters.decode_tokens == sum(counts.values()) - 10


def test_the_life_of_a_request(tmp_path):
    model = Model(2)
    expected = model.token_by_token(32)
    with Session(model.config(block_size=4, blocks=16)) as of:
        first = of.admit()
        assert of.info(first) == session.RequestInfo(0, None, "empty", 0) and of.blocks(first) == [0, 0] and of.exportable(first) == []
        free = of.free_blocks(0)
        model.step(of, [(first, "prefill", 0, 8)])
        assert of.exportable(first) == [8] and of.free_blocks(0) < free
        tag = of.block_tag(0, of.blocks(first)[0])
        assert (tag.tokens, tag.references, tag.layout) == (8, 1, "gdn_f32") and tag.owner == first
        assert of.block_tag(1, of.blocks(first)[1]).layout == "kda_act"

        prefix, copy = of.hold(first, 8), of.fork(first)
        assert of.prefix_tokens(prefix) == 8 and of.prefixes == 1 and of.requests == 2
        saved = of.export(first, 8, tag=77)
        about = session.inspect_checkpoint(saved)
        assert (about.tokens, about.tag, about.bytes, about.layers) == (8, 77, len(saved), 2)
        session.write_checkpoint(tmp_path / "state", saved)
        assert session.read_checkpoint(tmp_path / "state") == saved
        of.preempt(first)
        assert of.info(first).phase == "empty"
        of.restore(first, saved, 8, 77)
        second = of.admit(prefix)
        of.release(prefix)
        # All four have the state after eight tokens.
        with Session(model.config(lazy=True, line_kind="rolled")) as other:
            moved = other.admit()
            other.restore(moved, saved, 8, 77)
            outs = model.step(other, [(moved, "window", 8, 3)], {moved: 2})
            assert other.info(moved).waiting == 2 and other.exportable(moved) == []
            other.materialize([moved])
            assert other.info(moved).waiting == 0 and other.exportable(moved) == [10]
        every = [outs] + [model.step(of, [(request, "window", 8, 3)], {request: 2}) for request in (first, copy, second)]
        for outs in every:
            for kind, out in outs.items():
                assert torch.equal(out, torch.stack(expected[kind][8:11]))

        step = of.open_step([(first, "window", 2)])
        assert of.info(first).open_step == step and of.open_steps == 1
        of.abandon(step)
        assert of.open_steps == 0 and of.info(first) == session.RequestInfo(10, None, "live", 0)
        kept = of.finish_and_hold(first)
        assert of.prefix_tokens(kept) == 10
        for request in (copy, second):
            of.finish(request)
        of.release(kept)
        assert of.requests == of.prefixes == 0 and of.free_blocks(0) == of.free_blocks(1) == free
    assert session.prefix_hit(12, [[4, 8, 12], [4, 8]]) == 8 and session.prefix_hit(12, []) == 12


def test_padding_and_fits():
    model = Model(3)
    with Session(model.config(blocks=2)) as of:
        one, two = of.admit(), of.admit()
        assert of.fits([(one, "prefill", 3)]) and not of.fits([(one, "prefill", 3), (two, "prefill", 3)])
        outs = model.step(of, [(0, "decode", 0, 1), (one, "prefill", 0, 3)])
        assert not outs["gdn"][0].any() and outs["gdn"][1].any()


def test_a_short_convolution():
    rng = np.random.default_rng(4)
    weight = rng.normal(size=(8, 3)).astype(np.float32)
    layer = LayerConfig(kind="short_conv", channels=8, W=3, dilation=2, activation="f32", weight=weight)
    with Session(SessionConfig(layers=[layer], groups=[GroupConfig(blocks=3)], window_capacity=S)) as of:
        request, x = of.admit(), rng.normal(size=(10, 8)).astype(np.float32)
        got = np.zeros((10, 8), np.float32)
        for start, kind, length in ((0, "prefill", 5), (5, "window", 4), (7, "decode", 1), (8, "window", 2)):
            residual = np.zeros((length, 8), np.float32)
            step = of.open_step([(request, kind, length, start)])
            of.forward(step, 0, x=x[start : start + length], residual=residual)
            of.commit(step, {request: 2} if kind == "window" else None)
            got[start : start + length] = residual
    line, want = torch.zeros(2, 4, 8), torch.zeros(10, 8)
    ops.short_conv(
        x=torch.from_numpy(x), weight=torch.from_numpy(weight), dilation=2, residual=want, line=line, line_kind="plain", window_capacity=1,
        query_start_loc=torch.tensor([0, 10], dtype=I32), state_indices=torch.tensor([1], dtype=I32),
        has_initial_state=torch.tensor([False]),
    )  # fmt: skip
    assert (got == want.numpy()).all()


class OnlyDlpack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", ["torch", "numpy", "dlpack", "buffer", "strided"])
def test_tensors_of_every_kind(form, dtype):
    """The same bits from torch, numpy, DLPack, a trace's buffer, and strided views: weights, inputs, outputs and pools."""
    model = Model(5, dtype)
    expected = model.token_by_token(6)

    def numpy_of(tensor):
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()

    def convert(tensor):
        if form == "numpy":
            return numpy_of(tensor)
        if form == "dlpack":
            return OnlyDlpack(tensor)
        if form == "buffer" and tensor.dim() == 1:
            return trace.Buffer(numpy_of(tensor))
        return tensor

    def strided(tensor):
        if form != "strided":
            return convert(tensor)
        wide = torch.full((2 * tensor.shape[0], *tensor.shape[1:]), 9.0, dtype=tensor.dtype)
        wide[::2] = tensor
        return wide[::2]

    config = model.config(lazy=True)
    for layer in config.layers:
        for name in ("weight", "bias", "A_log", "dt_bias"):
            if getattr(layer, name) is not None:
                setattr(layer, name, convert(getattr(layer, name)))
    blocks = 6
    state = [torch.full((blocks, HV, V, K), 5.0) for _ in range(2)]
    pending = [torch.full((blocks,), 3, dtype=I32) for _ in range(2)]
    kda = ops.KdaRecords(convert(torch.zeros(blocks, HV, S, V)), convert(torch.zeros(blocks, HV, S, 2 * K, dtype=dtype)))
    pools = [
        LayerPool(line=convert(torch.zeros(blocks, W - 1 + S, C, dtype=dtype)), state=convert(state[0]),
                  records=convert(torch.zeros(blocks, HV, S, V + K + 1)), pending=convert(pending[0])),
        LayerPool(state=convert(state[1]), records=kda, pending=convert(pending[1])),
    ]  # fmt: skip
    with Session(config, pools) as of:
        del config, pools, kda
        gc.collect()
        assert not pending[0].any()
        request = of.admit()
        step = of.open_step([(request, "prefill", 6)])
        for layer, kind in enumerate(("gdn", "kda")):
            out = torch.full((6, HV, V), 7.0, dtype=dtype)
            given = {"x": model.x[kind][:6], "a": model.a[kind][:6], "b": model.b[kind][:6]}
            of.forward(step, layer, **{name: strided(tensor) for name, tensor in given.items()}, out=convert(out))
            assert torch.equal(out, torch.stack(expected[kind]))
        of.commit(step)
        assert (state[0][of.blocks(request)[0]] != 5).all()


def test_pools_are_the_sessions_memory():
    """What one session computed, written into another's blocks: its next window goes on from there."""
    model, other = Model(11), Model(12)
    expected = model.token_by_token(9)
    with Session(model.config()) as one, Session(model.config()) as two:
        requests = one.admit(), two.admit()
        model.step(one, [(requests[0], "prefill", 0, 6)])
        other.step(two, [(requests[1], "prefill", 0, 6)])
        for layer in range(2):
            block = one.blocks(requests[0])[layer], two.blocks(requests[1])[layer]
            source, target = one.pool(layer), two.pool(layer)
            assert source.state.shape == (6, HV, V, K) and (source.state[block[0]] != target.state[block[1]]).any()
            target.state[block[1]] = source.state[block[0]]
            if layer == 0:
                target.line[block[1]] = source.line[block[0]]
        outs = model.step(two, [(requests[1], "window", 6, 3)], {requests[1]: 2})
        for kind, out in outs.items():
            assert torch.equal(out, torch.stack(expected[kind][6:9]))


def test_what_a_pool_has():
    model = Model(13, torch.bfloat16)
    states = [torch.zeros(6, HV, V, K) for _ in range(2)]
    kda = session.KdaRecords(torch.zeros(6, HV, S, V), torch.zeros(6, HV, S, 2 * K, dtype=torch.bfloat16))
    pools = [LayerPool(line=torch.zeros(6, W - 1 + S, C, dtype=torch.bfloat16), state=states[0], records=torch.zeros(6, HV, S, V + K + 1),
                       pending=torch.zeros(6, dtype=I32)),
             LayerPool(state=states[1], records=kda, pending=torch.zeros(6, dtype=I32))]  # fmt: skip
    with Session(model.config(lazy=True)) as own, Session(model.config(lazy=True), pools) as given:
        for of in (own, given):
            request = of.admit()
            model.step(of, [(request, "prefill", 0, 5)])
            model.step(of, [(request, "window", 5, 4)], {request: 3})
            gdn, kda = of.pool(0), of.pool(1)
            assert gdn.line.dtype == kda.records.key_gate.dtype == ml_dtypes.bfloat16
            assert gdn.line.shape == (6, W - 1 + S, C) and kda.line is None
            assert gdn.records.shape == (6, HV, S, V + K + 1) and gdn.records.dtype == np.float32
            assert [part.shape for part in kda.records] == [(6, HV, S, V), (6, HV, S, 2 * K)]
            for layer, pool in enumerate((gdn, kda)):
                assert pool.pending[of.blocks(request)[layer]] == 4  # records of the window's tokens
            tensor = torch.from_dlpack(trace.Buffer(gdn.line))
            assert tensor.dtype == torch.bfloat16 and tensor.data_ptr() == gdn.line.ctypes.data and tensor.stride()[-1] == 1
        assert given.pool(1).state.ctypes.data == states[1].data_ptr()
        expect(recoverssm.OutOfRange, ["layer", "2"], of.pool, 2)
        expect(recoverssm.InvalidArgument, ["layer"], of.pool, "0")
    layer = LayerConfig(kind="short_conv", channels=8, W=3, activation="f32", weight=np.ones((8, 3), np.float32))
    with Session(SessionConfig(layers=[layer], groups=[GroupConfig(blocks=3)])) as of:
        pool = of.pool(0)
        assert pool.line.shape[0] == 3 and pool.state is None and pool.records is None and pool.pending is None


def test_arrays_of_a_pool_keep_its_memory():
    model = Model(14)
    of = Session(model.config())
    request = of.admit()
    model.step(of, [(request, "prefill", 0, 4)])
    handle = weakref.ref(of._handle)
    state = of.pool(0).state[of.blocks(request)[0]]
    before = state.copy()
    of.close()
    expect(recoverssm.BadState, ["closed"], of.pool, 0)
    gc.collect()
    assert handle() is not None and state.any() and (state == before).all()
    del state
    gc.collect()
    assert handle() is None


def test_traffic():
    """Bytes of a decode, and of a window whose records a commit reads, as the sizes have them."""
    model = Model(15)
    state, records = HV * V * K * 4, [HV * (V + K + 1) * 4, HV * (V * 4 + 2 * K * 4)]  # of a layer; of a token, gdn and kda
    with Session(model.config()) as of:
        request = of.admit()

        def step(*row, kept=None):
            before = of.counters().traffic
            model.step(of, [(request, *row)], kept)
            return session.Traffic(*(after - one for after, one in zip(of.counters().traffic, before, strict=True)))

        assert of.counters().traffic.total == 0
        prefill = step("prefill", 0, 5)
        assert prefill.state_read == 0 and prefill.state_written == 2 * state and prefill.record_written == 0
        decode = step("decode", 5, 1)
        assert decode.state_read == decode.state_written == 2 * state and decode.record_written == decode.record_read == 0
        window = step("window", 6, 3, kept={request: 2})
        assert window.state_read == 4 * state and window.state_written == 2 * state
        assert window.record_written == 3 * sum(records) and window.record_read == 2 * sum(records)
        assert window.total == sum(window[2:]) > 0 and window.line_read > 0 and window.activation_written > 0


def test_steps_without_tokens_take_empty_arrays():
    """numpy's and torch's empty arrays may have strides of 0."""
    model = Model(16)
    with Session(model.config()) as of:
        request = of.admit()
        model.step(of, [(request, "prefill", 0, 4)])
        step = of.open_step([(request, "window", 0)])
        sizes = {"gdn": {"a": HV}, "kda": {"a": (HV, K)}}
        for layer, kind in enumerate(sizes):
            given = {"x": np.empty((0, C), np.float32), "b": np.empty((0, HV), np.float32), "out": np.empty((0, HV, V), np.float32)}
            given["a"] = np.empty((0, *np.atleast_1d(sizes[kind]["a"])), np.float32)
            if layer == 0:
                given = {name: np.lib.stride_tricks.as_strided(array, strides=(0,) * array.ndim) for name, array in given.items()}
            else:
                given = {name: torch.from_numpy(array) for name, array in given.items()}
            of.forward(step, layer, **given)
        of.commit(step)
        assert of.info(request).tokens == 4


def test_sizes():
    model = Model(6)
    sizes = session_sizes(model.config(blocks=5))
    assert sizes.layers[0].state == HV * V * K * 4 and sizes.layers[1].line == 0 and sizes.blocks_per_request == 1
    assert sizes.pools == 5 * sum(sizes.group_blocks)
    assert sizes.group_blocks == [sum(layer) for layer in sizes.layers]
    with Session(model.config()) as of:
        request = of.admit()
        model.step(of, [(request, "prefill", 0, 4)])
        assert len(of.export(request, 4)) == sizes.checkpoint


def expect(error, words, function, *arguments, **named):
    with pytest.raises(error) as caught:
        function(*arguments, **named)
    assert all(word in str(caught.value) for word in words), caught.value


def test_refusals():
    model = Model(7)
    with Session(model.config()) as of:
        request = of.admit()
        model.step(of, [(request, "prefill", 0, 4)])
        before = of.info(request)
        expect(recoverssm.BadState, ["request"], of.finish, 99)
        expect(recoverssm.InvalidArgument, ["finish", "request"], of.finish, -1)
        expect(recoverssm.InvalidArgument, ["finish", "request"], of.finish, "1")
        expect(recoverssm.InvalidArgument, ["rows[0].kind", "draft"], of.open_step, [(request, "draft", 1)])
        expect(recoverssm.InvalidArgument, ["rows[0].tokens", "32 bits"], of.open_step, [(request, "window", 2**40)])
        expect(recoverssm.BadState, ["num_computed"], of.open_step, [(request, "window", 2, 5)])
        expect(recoverssm.Error, ["window"], of.open_step, [(request, "window", S + 1)])
        step = of.open_step([(request, "window", 3)])
        expect(recoverssm.BadState, ["commit"], of.commit, step, {request: 1})
        x, a, b = model.x["gdn"][:3], model.a["gdn"][:3], model.b["gdn"][:3]
        out = torch.empty(3, HV, V)
        expect(recoverssm.InvalidArgument, ["x"], of.forward, step, 0, x=x.double(), a=a, b=b, out=out)
        expect(recoverssm.InvalidArgument, ["x"], of.forward, step, 0, x=[1, 2], a=a, b=b, out=out)
        expect(recoverssm.InvalidArgument, ["residual"], of.forward, step, 0, x=x, a=a, b=b, out=out, residual=x)
        expect(recoverssm.InvalidArgument, ["out"], of.forward, step, 0, x=x, a=a, b=b)
        frozen = np.zeros((3, HV, V), np.float32)
        frozen.flags.writeable = False
        expect(recoverssm.InvalidArgument, ["out", "read-only"], of.forward, step, 0, x=x, a=a, b=b, out=frozen)
        expect(recoverssm.Unsupported, ["meta"], of.forward, step, 0, x=x.to("meta"), a=a, b=b, out=out)
        expect(recoverssm.Error, ["layer"], of.forward, step, 2, x=x, a=a, b=b, out=out)
        of.forward(step, 0, x=x, a=a, b=b, out=out)
        expect(recoverssm.BadState, ["layer"], of.forward, step, 0, x=x, a=a, b=b, out=out)
        of.abandon(step)
        expect(recoverssm.BadState, ["step"], of.commit, step, {})
        saved = of.export(request, 4)
        expect(recoverssm.Error, ["export"], of.export, request, 3)
        expect(recoverssm.BadState, ["restore"], of.restore, request, saved, 4)
        other = of.admit()
        expect(recoverssm.Error, ["bytes", "expected"], of.restore, other, saved[:-1], 4)
        expect(recoverssm.Error, ["tag"], of.restore, other, saved, 4, 5)
        expect(recoverssm.Error, ["tokens"], of.restore, other, saved, 3)
        expect(recoverssm.OutOfRange, ["block"], of.block_tag, 0, 99)
        assert of.info(request) == before
        counters = of.counters()
        assert counters.refused_by_kind["bad_state"] >= 5 and counters.last_refusal
    expect(recoverssm.BadState, ["closed"], of.admit)
    of.close()


def test_configurations_that_are_none():
    model = Model(8)
    config = model.config()
    config.layers[0].kind = "rnn"
    expect(recoverssm.InvalidArgument, ["layers[0].kind", "rnn"], Session, config)
    config = model.config()
    config.layers[1].HV = 3
    expect(recoverssm.InvalidArgument, ["layers[1]"], Session, config)
    config = model.config()
    config.layers[0].weight = model.weight.to("meta")
    expect(recoverssm.Unsupported, ["layers[0].weight"], Session, config)
    expect(recoverssm.InvalidArgument, ["pools"], Session, model.config(), [LayerPool()])
    expect(recoverssm.InvalidArgument, ["checkpoint"], session.inspect_checkpoint, b"x" * 80)
    expect(recoverssm.DeviceError, ["no such"], session.read_checkpoint, "no such")


def test_a_forked_child_goes_on_with_its_copy():
    model = Model(10)
    with Session(model.config(), threads=2) as of:
        request = of.admit()
        model.step(of, [(request, "prefill", 0, 4)])
        want = of.export(of.fork(request), 4)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if of.export(of.fork(request), 4)[56:-8] == want[56:-8] else 2
                of.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        model.step(of, [(request, "window", 4, 2)], {request: 1})


def test_threads_wait_for_each_other():
    with Session(Model(9).config(blocks=3)) as of:
        seen = []
        threads = [threading.Thread(target=lambda: seen.extend(of.admit() for _ in range(200))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 800 == of.requests
