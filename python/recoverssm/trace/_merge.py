"""Two captures of one layer, plain rows and windows, as one mixed batch: disjoint slots of common pools, each part with its own results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidArgument
from ._buffer import Buffer, view
from ._builder import Builder, same_bits
from ._file import Trace
from .replay import execute

_POOLS = ("line", "state", "records", "pending")
_GATES = ("A_log", "dt_bias", "gate", "lower_bound", "scale", "l2norm", "softplus_beta", "softplus_threshold")
_CONVOLUTION = ("weight", "bias", "activation", "line_kind")
_HEADS = ("num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim", "layout", "l2norm", "softplus_beta", "softplus_threshold", "scale")


class _Family(NamedTuple):
    """What two operations have in common. layer: must be equal. tokens: at global rows, so both parts share them."""

    layer: tuple[str, ...]
    tokens: tuple[str, ...]


_FAMILIES = {
    ("causal_conv1d", "causal_conv1d_window"): _Family((*_CONVOLUTION, "null_block_id"), ("x", "out")),
    ("gated_delta_rule", "gated_delta_rule_verify"): _Family((*_GATES, "null_block_id"), ("out",)),
    ("gdn_attention", "gdn_attention"): _Family(
        (*_CONVOLUTION, *_HEADS, "A_log", "dt_bias", "null_block_id"), ("qkvz", "ba", "out", "z")
    ),
}


class Check(NamedTuple):
    """One part's tensor in the merged run against that part's own run."""

    part: str
    name: str
    same: bool


class _Part:
    """One capture: its arguments as arrays before and after its own run."""

    def __init__(self, trace: Trace, kind: str) -> None:
        if len(trace.document["calls"]) != 1:
            raise InvalidArgument(f"merge: {trace.name}: {len(trace.document['calls'])} calls, expected one")
        self.name, self.kind, call = trace.name, kind, trace.document["calls"][0]
        self.op = call["op"]
        self.before, self.after = _arrays(call["args"], trace.buffers()), _arrays(call["args"], execute(trace))
        if self.op == "gdn_attention":
            other = "windows" if kind == "plain" else "plain"
            if self.before.get(other) is not None or self.before.get(self.part_name) is None:
                raise InvalidArgument(f"merge: {trace.name}: expected {self.part_name} rows alone")

    @property
    def part_name(self) -> str:
        return "plain" if self.kind == "plain" else "windows"

    def rows(self, after: bool = False) -> dict[str, Any]:
        """The arguments that name rows and what belongs to them."""
        values = self.after if after else self.before
        return values[self.part_name] if self.op == "gdn_attention" else values

    def pool(self, name: str, after: bool = False) -> Any:
        values = self.after if after else self.before
        found = values.get(name)
        return self.rows(after).get(name) if found is None else found

    @property
    def blocks(self) -> int:
        return len(self.pool("line" if self.op.startswith("causal") else "state"))

    @property
    def n(self) -> int:
        """Rows of the tensors at global rows."""
        return len(self.before["out"])

    def token_index(self) -> np.ndarray:
        given, offsets = self.rows().get("token_index"), self.rows()["query_start_loc"]
        return given if given is not None else np.arange(offsets[-1] if len(offsets) else 0, dtype=np.int32)


def _arrays(value: Any, buffers: dict[str, Buffer]) -> Any:
    if isinstance(value, dict):
        if "buffer" in value:
            return view(buffers, value).copy()
        return {name: _arrays(part, buffers) for name, part in value.items()}
    return value


def merge(plain: Trace, window: Trace) -> tuple[Trace, list[Check]]:
    """A capture of plain rows and one of windows of the same layer as one batch: gdn_attention and gdn_attention (one call), causal_conv1d
    and causal_conv1d_window, or gated_delta_rule and gated_delta_rule_verify (two calls on common pools).

    The windows' blocks and token rows come behind those of the plain rows. Returns the trace, which expects what each capture gives alone,
    and whether it did.

    Raises InvalidArgument for captures that are of other operations or another layer, or whose pools do not fit together.
    """
    parts = [_Part(plain, "plain"), _Part(window, "window")]
    one, two = parts
    family = _FAMILIES.get((one.op, two.op))
    if family is None:
        known = "; ".join(" and ".join(pair) for pair in _FAMILIES)
        raise InvalidArgument(f"merge: {one.op} and {two.op}, expected {known}")
    for name in family.layer:
        _same_layer(name, one.before.get(name), two.before.get(name))
    builder = Builder(f"{one.name} + {two.name}", "python -m recoverssm.trace merge")
    pools = {name: pool for name in _POOLS if (pool := _join_pool(name, one, two)) is not None}
    tokens = {name: _join(name, one.before[name], two.before[name]) for name in family.tokens}
    if one.op == "gdn_attention":
        args = {**one.before, **tokens, "line": pools["line"], "state": pools["state"]}
        args["plain"], args["windows"] = _rows(one, one, 0, pools), _rows(two, one, one.n, pools)
        if args["windows"].get("pending") is not None and args["plain"].get("num_accepted") is None:
            # The plain rows then name the windows' pending too: none waits in their blocks.
            args["plain"]["num_accepted"] = np.zeros(len(args["plain"]["state_indices"]), np.int32)
        builder.call("mixed", one.op, args)
    else:
        for part, first in ((one, 0), (two, one.n)):
            named = {name: pools[name] for name in _POOLS if part.before.get(name) is not None}
            builder.call(part.kind, part.op, {**_rows(part, one, first, {}), **tokens, **named})
    return builder.trace(), _check(builder, parts, pools, tokens)


def _same_layer(name: str, one: Any, two: Any) -> None:
    same = same_bits(one, two) if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) else type(one) is type(two) and one == two
    if not same:
        raise InvalidArgument(f"merge: {name}: other in the two captures, expected the same layer")


def _join(name: str, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    if one.dtype != two.dtype or one.shape[1:] != two.shape[1:]:
        shapes = f"{one.dtype} {list(one.shape)} and {two.dtype} {list(two.shape)}"
        raise InvalidArgument(f"merge: {name}: {shapes}, expected the same dtype and shape but for the first dimension")
    return np.concatenate([one, two])


def _join_pool(name: str, one: _Part, two: _Part) -> Any:
    """Zeros are the blocks of a part that has no such pool."""
    a, b = one.pool(name), two.pool(name)
    if isinstance(a, dict) or isinstance(b, dict):
        a, b = a or {}, b or {}
        return {key: _join_arrays(f"{name}.{key}", a.get(key), b.get(key), one.blocks, two.blocks) for key in ("corrections", "key_gate")}
    return _join_arrays(name, a, b, one.blocks, two.blocks)


def _join_arrays(name: str, a: Any, b: Any, blocks_a: int, blocks_b: int) -> Any:
    if a is None and b is None:
        return None
    a = np.zeros((blocks_a, *b.shape[1:]), b.dtype) if a is None else a
    b = np.zeros((blocks_b, *a.shape[1:]), a.dtype) if b is None else b
    return _join(name, a, b)


def _rows(part: _Part, first_part: _Part, first_token: int, pools: dict[str, Any]) -> dict[str, Any]:
    """A part's row arguments with the blocks and tokens of the merged batch."""
    rows = dict(part.rows())
    shift = 0 if part is first_part else first_part.blocks
    ids = rows["state_indices"]
    rows["state_indices"] = np.where(ids > (part.before.get("null_block_id") or 0), ids + shift, ids).astype(np.int32)
    rows["token_index"] = (part.token_index() + first_token).astype(np.int32)
    for name in ("records", "pending"):
        if name in pools and rows.get(name) is not None:
            rows[name] = pools[name]
    return rows


def _check(builder: Builder, parts: list[_Part], pools: dict[str, Any], tokens: dict[str, Any]) -> list[Check]:
    expected = []
    for part, block, token in ((parts[0], 0, 0), (parts[1], parts[0].blocks, parts[0].n)):
        for name, joined in [*pools.items(), *tokens.items()]:
            alone = part.pool(name, after=True)
            for key, array in joined.items() if isinstance(joined, dict) else [("", joined)]:
                wanted = alone.get(key) if isinstance(alone, dict) else alone
                if wanted is not None:
                    where = builder.expect(array, token if name in tokens else block, wanted)
                    expected.append((part.kind, f"{name}.{key}".rstrip("."), where, wanted))
    after = execute(builder.trace())
    return [Check(kind, name, same_bits(view(after, where), wanted)) for kind, name, where, wanted in expected]
