"""Captured projections in the other layout: flat to interleaved and back, and the same results from both."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidArgument
from ._buffer import view
from ._builder import NAMES, same_bits
from ._file import Trace
from ._summary import views
from .replay import execute

LAYOUTS = ("flat", "interleaved")


class Equal(NamedTuple):
    """What was compared, and whether it has the same bits."""

    name: str
    same: bool


def pack(rows: np.ndarray, sizes: tuple[int, ...], heads: int, layout: str) -> np.ndarray:
    """[n, sum(sizes)] rows of parts into `layout` from the other one. sizes: elements of a part, each a multiple of heads (H).

    flat: the parts one after another. interleaved: per q/k head, that head's share of every part.
    """
    n, shares = len(rows), [size // heads for size in sizes]
    if layout == "interleaved":
        parts = np.split(rows, np.cumsum(sizes)[:-1], 1)
        return np.concatenate([part.reshape(n, heads, share) for part, share in zip(parts, shares, strict=True)], 2).reshape(n, -1)
    parts = np.split(rows.reshape(n, heads, sum(shares)), np.cumsum(shares)[:-1], 2)
    return np.concatenate([part.reshape(n, -1) for part in parts], 1)


def part_sizes(args: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Elements of q, k, v, z and of b, a."""
    qk, v = args["num_k_heads"] * args["head_k_dim"], args["num_v_heads"] * args["head_v_dim"]
    return {"qkvz": (qk, qk, v, v), "ba": (args["num_v_heads"],) * 2}


def repack(trace: Trace) -> tuple[Trace, list[Equal]]:
    """The capture with its projections in the other layout, and what was compared: the projections packed there and back, and every
    argument after both runs, each on fresh pools. What the trace expects stays.

    Raises InvalidArgument for a trace without projections: of split_projections or gdn_attention.
    """
    other = Trace(copy.deepcopy(trace.document), dict(trace.tensors))
    before, equal = trace.buffers(), []
    projections = [call for call in other.document["calls"] if call["args"].get("layout") in LAYOUTS]
    if not projections:
        raise InvalidArgument(f"repack: {trace.name}: no call with projections, expected split_projections or gdn_attention")
    for call in projections:
        args = call["args"]
        layout, heads = args["layout"], args["num_k_heads"]
        target = LAYOUTS[1 - LAYOUTS.index(layout)]
        for name, sizes in part_sizes(args).items():
            rows = view(before, args[name]).copy()
            packed = pack(rows, sizes, heads, target)
            equal.append(Equal(f"{call['id']}: {name} there and back", same_bits(pack(packed, sizes, heads, layout), rows)))
            buffer = f"{call['id']}.{name}.{target}"
            other.tensors[f"{buffer}.init"] = packed.reshape(-1)
            other.document["buffers"][buffer] = {"dtype": NAMES[rows.dtype], "elements": rows.size, "init": f"{buffer}.init"}
            args[name] = {"buffer": buffer, "offset": 0, "shape": list(rows.shape), "strides": [rows.shape[1], 1]}
        args["layout"] = target
    one, two = execute(trace), execute(other)
    for call in trace.document["calls"]:
        for name, where in views(call["args"]):
            if name not in ("qkvz", "ba"):
                equal.append(Equal(f"{call['id']}: {name}", same_bits(view(one, where), view(two, where))))
    return other, equal
