"""Random but right calls of every operation, as keyword arguments of recoverssm.ops. One place for opcheck, errors, compile and threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from recoverssm import ops

I32 = torch.int32


@dataclass(frozen=True)
class Shape:
    """H, HV, K, V, W taps, S capacity; T: activations' dtype, state: the states'; lengths of the rows."""

    H: int = 1
    HV: int = 2
    K: int = 8
    V: int = 6
    W: int = 4
    S: int = 3
    T: torch.dtype = torch.float32
    state: torch.dtype = torch.float32
    gate: str = "gdn"
    lengths: tuple[int, ...] = (2, 3, 0, 1)
    blocks: int = 24

    @property
    def C(self) -> int:
        return 2 * self.H * self.K + self.HV * self.V

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


class Maker:
    """Tensors of one shape from one seed."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(seed)
        # Live rows have blocks of their own; block 0 is the null block.
        self.ids = self.rng.permutation(np.arange(1, shape.blocks))[: shape.rows]

    def normal(self, *size: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> torch.Tensor:
        values = torch.from_numpy(self.rng.normal(size=size) * scale)
        return torch.empty(size, dtype=dtype or self.shape.T).copy_(values)  # torch's own strides, also where nothing is in it

    def rows(self) -> dict[str, torch.Tensor]:
        offsets = np.concatenate([[0], np.cumsum(self.shape.lengths)])
        return {
            "query_start_loc": torch.tensor(offsets, dtype=I32),
            "state_indices": torch.tensor(self.ids, dtype=I32),
        }

    def counts(self, low: int = 0, high: int | None = None) -> torch.Tensor:
        return torch.tensor(self.rng.integers(low, (self.shape.S if high is None else high) + 1, self.shape.rows), dtype=I32)

    def flags(self) -> torch.Tensor:
        return torch.tensor(self.rng.integers(0, 2, self.shape.rows), dtype=torch.bool)

    def line(self, cols: int) -> torch.Tensor:
        return self.normal(self.shape.blocks, cols, self.shape.C)

    def conv(self, inplace: bool = False) -> dict[str, Any]:
        s = self.shape
        x = self.normal(s.tokens, s.C)
        return {
            "x": x,
            "weight": self.normal(s.C, s.W, scale=0.5),
            "bias": self.normal(s.C, dtype=torch.float32),
            "activation": "silu",
            "out": x if inplace else torch.full_like(x, 7.0),
            **self.rows(),
        }

    def gates(self) -> dict[str, Any]:
        s = self.shape
        kda = s.gate == "kda"
        return {
            "A_log": self.normal(s.HV, dtype=torch.float32, scale=0.5),
            "dt_bias": self.normal(*((s.HV, s.K) if kda else (s.HV,)), dtype=torch.float32),
        }

    def rule(self) -> dict[str, Any]:
        s = self.shape
        kda = s.gate == "kda"
        return {
            "q": self.normal(s.tokens, s.H, s.K),
            "k": self.normal(s.tokens, s.H, s.K),
            "v": self.normal(s.tokens, s.HV, s.V),
            "a": self.normal(*((s.tokens, s.HV, s.K) if kda else (s.tokens, s.HV))),
            "b": self.normal(s.tokens, s.HV),
            **self.gates(),
            "gate": s.gate,
            "state": self.states(),
            "out": torch.full((s.tokens, s.HV, s.V), 7.0),
            **self.rows(),
        }

    def states(self) -> torch.Tensor:
        s = self.shape
        return self.normal(s.blocks, s.HV, s.V, s.K, dtype=s.state)

    def records(self) -> ops.Records:
        """Waiting records of small size, so that folding them keeps states small."""
        s = self.shape
        if s.gate == "kda":
            corrections = self.normal(s.blocks, s.HV, s.S, s.V, dtype=torch.float32, scale=0.1)
            return ops.KdaRecords(corrections, self.normal(s.blocks, s.HV, s.S, 2 * s.K))
        packed = self.normal(s.blocks, s.HV, s.S, s.V + s.K + 1, dtype=torch.float32, scale=0.1)
        packed[..., -1] = 0.9
        return packed

    def pending(self) -> torch.Tensor:
        return torch.tensor(self.rng.integers(0, self.shape.S + 1, self.shape.blocks), dtype=I32)

    def layer(self, *, line: bool = True, lazy: bool = False, group: int = 0, kind: str = "anchored") -> ops.Layer:
        s = self.shape
        gates = self.gates() if s.gate == "kda" else {}
        return ops.Layer(
            group=group,
            line=self.line(s.W - 1 + s.S) if line else None,
            line_kind=kind,
            conv_taps=s.W,
            state=self.states(),
            records=self.records(),
            pending=self.pending() if lazy else None,
            gate=s.gate,
            **gates,
        )

    def plan_outputs(self) -> dict[str, torch.Tensor]:
        names = ("commit_len", "final_indices", "boundary_indices", "boundary_len")
        return {name: torch.full((self.shape.rows,), -7, dtype=I32) for name in names}

    def aligned(self, block_size: int = 4) -> dict[str, Any]:
        """A block table with blocks of its own for every request."""
        s = self.shape
        table = np.arange(1, 1 + s.rows * 6).reshape(s.rows, 6)
        return {
            "block_table": torch.tensor(table, dtype=I32),
            "num_computed": torch.tensor(self.rng.integers(0, 9, s.rows), dtype=I32),
            "block_size": max(block_size, s.S),
        }

    def commit_group(self) -> ops.CommitGroup:
        s = self.shape
        lengths = torch.tensor([int(self.rng.integers(0, n + 1)) for n in s.lengths], dtype=I32)
        free = torch.tensor(np.setdiff1d(np.arange(1, s.blocks), self.ids)[: s.rows], dtype=I32)
        rows = self.rows()["state_indices"]
        boundary = torch.where(lengths > 0, free, 0).to(I32)
        return ops.CommitGroup(
            state_indices=rows,
            commit_len=lengths,
            final_indices=torch.where(lengths > 0, rows, 0).to(I32),
            boundary_indices=boundary,
            boundary_len=torch.where(boundary > 0, 1, 0).to(I32),
        )

    def attention(self, plain: ops.AttentionPlain | None, windows: ops.AttentionWindows | None, tokens: int) -> dict[str, Any]:
        s = self.shape
        return {
            "qkvz": self.normal(tokens, 2 * s.H * s.K + 2 * s.HV * s.V),
            "ba": self.normal(tokens, 2 * s.HV),
            "layout": "flat",
            "num_k_heads": s.H,
            "num_v_heads": s.HV,
            "head_k_dim": s.K,
            "head_v_dim": s.V,
            "weight": self.normal(s.C, s.W, scale=0.5),
            "activation": "silu",
            **self.gates(),
            "line": self.line(s.W - 1 + s.S),
            "line_kind": "anchored",
            "state": self.states(),
            "out": torch.full((tokens, s.HV, s.V), 7.0),
            "z": torch.full((tokens, s.HV, s.V), 7.0, dtype=s.T),
            "plain": plain,
            "windows": windows,
        }


def _attention(maker: Maker, *, plain: str = "", windows: str = "") -> dict[str, Any]:
    """plain: "", "eager" or "lazy"; windows: "", "snapshots", "verify" or "lazy"."""
    s = maker.shape
    per_part = s.tokens
    ids = torch.tensor(maker.rng.permutation(np.arange(1, s.blocks)), dtype=I32)
    offsets = maker.rows()["query_start_loc"]
    where = torch.tensor(maker.rng.permutation(per_part * (bool(plain) + bool(windows))), dtype=I32)
    part, window = None, None
    if plain:
        part = ops.AttentionPlain(
            query_start_loc=offsets,
            state_indices=ids[: s.rows],
            has_initial_state=maker.flags(),
            num_accepted=maker.counts() if plain == "lazy" else None,
            pending=maker.pending() if plain == "lazy" else None,
            records=maker.records() if plain == "lazy" else None,
            token_index=where[:per_part],
        )
    if windows:
        table = ids[s.rows : 2 * s.rows]
        if windows == "snapshots":
            table = ids[s.rows : s.rows + s.rows * s.S].reshape(s.rows, s.S)
        window = ops.AttentionWindows(
            mode="snapshots" if windows == "snapshots" else "verify",
            query_start_loc=offsets,
            state_indices=table,
            window_capacity=s.S,
            num_accepted=maker.counts(1) if windows in ("snapshots", "lazy") else None,
            records=None if windows == "snapshots" else maker.records(),
            pending=maker.pending() if windows == "lazy" else None,
            token_index=where[-per_part:],
        )
        if part is not None and windows == "lazy" and plain == "lazy":
            part = replace(part, pending=window.pending, records=window.records)
        elif part is not None and windows == "lazy":
            part = replace(part, num_accepted=maker.counts())
        elif part is not None and plain == "lazy" and window.records is not None:
            part = replace(part, records=window.records)
    return maker.attention(part, window, per_part * (bool(plain) + bool(windows)))


def _verify(maker: Maker, lazy: bool) -> dict[str, Any]:
    extra = {"pending": maker.pending(), "num_accepted": maker.counts()} if lazy else {}
    return {**maker.rule(), "records": maker.records(), "window_capacity": maker.shape.S, **extra}


def _lazy_rule(maker: Maker) -> dict[str, Any]:
    extra = {"pending": maker.pending(), "num_accepted": maker.counts(), "records": maker.records()}
    return {**maker.rule(), "has_initial_state": maker.flags(), **extra}


def _snapshots(maker: Maker) -> dict[str, Any]:
    s = maker.shape
    table = torch.tensor(1 + np.arange(s.rows * s.S).reshape(s.rows, s.S), dtype=I32)
    call = {**maker.rule(), "num_accepted": maker.counts(1), "state_indices": table}
    call["state"] = maker.normal(s.rows * s.S + 1, s.HV, s.V, s.K, dtype=s.state)
    return call


def _window(maker: Maker, inplace: bool = False, kind: str = "anchored") -> dict[str, Any]:
    s = maker.shape
    return {
        **maker.conv(inplace),
        "line": maker.line(s.W - 1 + s.S),
        "line_kind": kind,
        "window_capacity": s.S,
        "num_accepted": maker.counts(),
    }


def _plain_conv(maker: Maker, inplace: bool = False) -> dict[str, Any]:
    return {**maker.conv(inplace), "line": maker.line(maker.shape.W), "has_initial_state": maker.flags()}


def _split(maker: Maker) -> dict[str, Any]:
    s = maker.shape
    n, written = s.tokens, dict(dtype=s.T)
    return {
        "qkvz": maker.normal(n, 2 * s.H * s.K + 2 * s.HV * s.V),
        "ba": maker.normal(n, 2 * s.HV),
        "layout": "interleaved",
        "num_k_heads": s.H,
        "num_v_heads": s.HV,
        "head_k_dim": s.K,
        "head_v_dim": s.V,
        "mixed_qkv": torch.zeros(n, s.C, **written),
        "z": torch.zeros(n, s.HV, s.V, **written),
        "b": torch.zeros(n, s.HV, **written),
        "a": torch.zeros(n, s.HV, **written),
        "token_index": torch.tensor(maker.rng.permutation(n), dtype=I32),
    }


def _short_conv(maker: Maker) -> dict[str, Any]:
    s = maker.shape
    return {
        "x": maker.normal(s.tokens, s.C),
        "weight": maker.normal(s.C, 3),
        "dilation": 2,
        "residual": torch.full((s.tokens, s.C), 7.0, dtype=s.T),
        "outer_residual": maker.normal(s.tokens, s.C),
        "line": maker.line(4 + s.S),
        "line_kind": "anchored",
        "window_capacity": s.S,
        "num_accepted": maker.counts(),
        **maker.rows(),
    }


def _plan(maker: Maker) -> dict[str, Any]:
    rows = maker.rows()
    return {"num_accepted": maker.counts(), **rows, "window_capacity": maker.shape.S, **maker.aligned(), **maker.plan_outputs()}


def _plan_groups(maker: Maker) -> dict[str, Any]:
    rows, aligned = maker.rows(), maker.aligned()
    table = aligned.pop("block_table")
    groups = [
        ops.PlanGroup(state_indices=rows["state_indices"], block_table=table + shift, **maker.plan_outputs()) for shift in (0, 30)
    ]
    shared = {"num_accepted": maker.counts(), "query_start_loc": rows["query_start_loc"], "window_capacity": maker.shape.S}
    return {**shared, **aligned, "groups": groups}


def _commit(maker: Maker) -> dict[str, Any]:
    kda = Maker(replace(maker.shape, gate="kda"), 1)
    groups = [maker.commit_group(), maker.commit_group()]
    layers = [maker.layer(), kda.layer(group=1, line=False), maker.layer(lazy=True, group=1, kind="rolled")]
    layers[2].pending.fill_(maker.shape.S)
    return {"groups": groups, "layers": layers, "window_capacity": maker.shape.S}


def _materialize(maker: Maker) -> dict[str, Any]:
    kda = Maker(replace(maker.shape, gate="kda"), 1)
    rows = maker.rows()["state_indices"]
    return {"blocks": rows, "num_accepted": maker.counts(), "layers": [maker.layer(lazy=True), kda.layer(lazy=True, line=False)]}


def _align_move(maker: Maker) -> dict[str, Any]:
    layers = [maker.layer(), maker.layer(lazy=True)]
    layers[1].pending.zero_()
    to = torch.tensor(np.setdiff1d(np.arange(1, maker.shape.blocks), maker.ids)[: maker.shape.rows], dtype=I32)
    return {"from_": maker.rows()["state_indices"], "to": to, "layers": layers}


def _align_advance(maker: Maker) -> dict[str, Any]:
    s = maker.shape
    group = maker.commit_group()
    return {
        "commit_len": group.commit_len,
        "state_indices": group.state_indices,
        "num_computed": torch.tensor(maker.rng.integers(0, 30, s.rows), dtype=I32),
        "block_size": 4,
        "running_column": torch.full((s.rows,), -7, dtype=I32),
        "num_accepted": maker.counts(),
    }


def _kda(maker: Maker, seed: int = 5) -> Maker:
    return Maker(replace(maker.shape, gate="kda"), seed)


# Overload -> its operation and a call of it.
CASES = {
    "split_projections": _split,
    "causal_conv1d": _plain_conv,
    "causal_conv1d.inplace": lambda maker: _plain_conv(maker, True),
    "causal_conv1d_window": _window,
    "causal_conv1d_window.inplace": lambda maker: _window(maker, True, "rolled"),
    "gated_delta_rule": lambda maker: {**maker.rule(), "has_initial_state": maker.flags()},
    "gated_delta_rule.lazy": _lazy_rule,
    "gated_delta_rule_snapshots": _snapshots,
    "gated_delta_rule_verify": lambda maker: _verify(maker, False),
    "gated_delta_rule_verify.lazy": lambda maker: _verify(maker, True),
    "gated_delta_rule_verify.kda": lambda maker: _verify(_kda(maker), False),
    "gated_delta_rule_verify.kda_lazy": lambda maker: _verify(_kda(maker), True),
    "commit_plan": _plan,
    "commit_plan_groups": _plan_groups,
    "commit": _commit,
    "materialize": _materialize,
    "align_move": _align_move,
    "align_advance": _align_advance,
    "short_conv": _short_conv,
    "gdn_attention": lambda maker: _attention(maker, plain="eager", windows="snapshots"),
    "gdn_attention (plain rows only)": lambda maker: _attention(maker, plain="eager"),
    "gdn_attention.verify (windows only)": lambda maker: _attention(maker, windows="verify"),
    "gdn_attention.verify": lambda maker: _attention(maker, plain="eager", windows="verify"),
    "gdn_attention.lazy": lambda maker: _attention(maker, plain="eager", windows="lazy"),
    "gdn_attention.plain_lazy": lambda maker: _attention(maker, plain="lazy"),
    "gdn_attention.plain_lazy_verify": lambda maker: _attention(maker, plain="lazy", windows="verify"),
    "gdn_attention.lazy (both parts name them)": lambda maker: _attention(maker, plain="lazy", windows="lazy"),
}


def make(name: str, seed: int = 0, shape: Shape | None = None) -> tuple[str, dict[str, Any]]:
    """The operation of an overload and keyword arguments that recoverssm.ops turns into a call of it."""
    return name.partition(" ")[0].partition(".")[0], CASES[name](Maker(shape or Shape(), seed))


def run(operation: str, arguments: dict[str, Any]) -> None:
    getattr(ops, operation)(**arguments)


def lower(operation: str, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The overload that recoverssm.ops would call, and what it would pass."""
    seen: list[tuple[Any, dict[str, Any]]] = []

    def keep(operation: str, overload: str, arguments: dict[str, Any]) -> None:
        function = getattr(getattr(torch.ops.recoverssm, operation), overload)
        names = {argument.name for argument in function._schema.arguments}
        seen.append((function, {name: value for name, value in arguments.items() if name in names}))

    with mock.patch("recoverssm.ops._forward.call", keep), mock.patch("recoverssm.ops._commit.call", keep):
        run(operation, arguments)
    return seen[0]


def written(function: Any, arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors that a call's schema declares as written, by name."""
    found: dict[str, torch.Tensor] = {}
    for argument in function._schema.arguments:
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = arguments[argument.name]
        values = value if isinstance(value, list) else [value]
        found |= {f"{argument.name}[{i}]": tensor for i, tensor in enumerate(values)}
    return found
