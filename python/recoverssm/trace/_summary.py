"""What a trace says about its calls: rows, their lengths and accepted counts. For inspect, plot and diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ._buffer import Buffer, view

# Operations whose rows are windows; those of gdn_attention are in parts.
WINDOW_OPERATIONS = ("causal_conv1d_window", "gated_delta_rule_snapshots", "gated_delta_rule_verify", "commit_plan", "commit_plan_groups")


class Rows(NamedTuple):
    """Rows of one kind of one call. lengths: tokens a row. blocks: a row's first block id. accepted: None if the call names none."""

    kind: str  # "plain" or "window"
    lengths: np.ndarray
    blocks: np.ndarray
    accepted: np.ndarray | None


def rows_of(call: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> Iterator[Rows]:
    """The rows of a call, as its arguments are now. Nothing for operations without rows."""
    op, args = call["op"], call["args"]
    if op == "gdn_attention":
        for kind, part in (("plain", args.get("plain")), ("window", args.get("windows"))):
            if part:
                yield _rows(kind, part, buffers)
    elif args.get("query_start_loc"):
        window = op in WINDOW_OPERATIONS or (op == "short_conv" and args.get("line_kind") != "plain")
        yield _rows("window" if window else "plain", args, buffers)


def _rows(kind: str, part: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> Rows:
    def values(name: str) -> np.ndarray | None:
        return view(buffers, part[name]).copy() if part.get(name) else None

    lengths = np.diff(values("query_start_loc"))
    blocks = values("state_indices") if "state_indices" in part else values_of_groups(part, buffers)
    if blocks is not None and blocks.ndim == 2:
        blocks = blocks[:, 0]
    accepted = values("num_accepted")
    index = values("request_index")
    if accepted is not None and index is not None:
        # A trace may hold indices that an earlier call has yet to write, or that the operation shall refuse.
        accepted = accepted[index] if index.size == 0 or (index.min() >= 0 and index.max() < len(accepted)) else None
    return Rows(kind, lengths, blocks if blocks is not None else np.zeros(0, np.int32), accepted)


def values_of_groups(part: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> np.ndarray | None:
    groups = part.get("groups") or []
    return view(buffers, groups[0]["state_indices"]).copy() if groups else None


def views(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every view in arguments, with its place: "windows.records", "layers[0].state"."""
    if isinstance(value, dict):
        if "buffer" in value:
            yield path, value
            return
        for name, part in value.items():
            yield from views(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from views(part, f"{path}[{place}]")


def scalars(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every argument that is no view and not None."""
    if isinstance(value, dict):
        if "buffer" in value:
            return
        for name, part in value.items():
            yield from scalars(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from scalars(part, f"{path}[{place}]")
    elif value is not None:
        yield path, value
