"""A trace as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._buffer import view
from ._file import Trace
from ._summary import rows_of, scalars, views


def inspect(trace: Trace) -> str:
    """Name, buffers, and of each call its arguments, rows and expectations. Values are those before the first call."""
    document, buffers = trace.document, trace.buffers()
    lines = [document["name"]]
    lines += [f"  {name}: {document[name]}" for name in ("description", "source", "geometry", "mode", "backends") if document.get(name)]
    total = sum(buffer.array.nbytes for buffer in buffers.values())
    lines.append(f"  {len(buffers)} buffers, {total} bytes; {len(document['calls'])} calls")
    for name, about in document["buffers"].items():
        init = about["init"] if isinstance(about["init"], dict) else "tensor " + about["init"]
        lines.append(f"  buffer {name}: {about['dtype']} [{about['elements']}], {init}")
    for call in document["calls"]:
        lines += _call(call, document, buffers)
    if document.get("finally"):
        lines.append(f"  finally: {_expectations(document['finally'])}")
    return "\n".join(lines)


def _call(call: dict[str, Any], document: dict[str, Any], buffers: dict[str, Any]) -> Iterator[str]:
    yield f"  call {call['id']}: {call['op']}"
    for rows in rows_of(call, buffers):
        accepted = "" if rows.accepted is None else f", accepted {_numbers(rows.accepted)}"
        yield f"    {rows.kind} rows: {len(rows.lengths)}, lengths {_numbers(rows.lengths)}, blocks {_numbers(rows.blocks)}{accepted}"
    for name, about in views(call["args"]):
        dtype = document["buffers"][about["buffer"]]["dtype"]
        text = f"    {name}: {dtype} {about['shape']}, strides {about['strides']}, {about['buffer']}+{about['offset']}"
        yield f"{text}, {_contents(view(buffers, about))}"
    if settings := ", ".join(f"{name} {value}" for name, value in scalars(call["args"])):
        yield f"    {settings}"
    if call.get("error"):
        yield f"    refused: {call['error']['kind']}"
    yield f"    expect: {_expectations(call.get('expect') or [])}"


def _numbers(values: np.ndarray, most: int = 12) -> str:
    shown = " ".join(str(value) for value in values[:most])
    return f"[{shown}{' ...' if len(values) > most else ''}]"


def _contents(values: np.ndarray) -> str:
    if not values.size:
        return "empty"
    if values.dtype == bool or values.dtype.kind in "iu":
        return _numbers(values.reshape(-1), 8) if values.size <= 8 else f"{values.min()} .. {values.max()}"
    with np.errstate(invalid="ignore"):  # signalling NaN
        numbers = values.astype(np.float64)
    finite = np.isfinite(numbers)
    rest = "" if finite.all() else f", {int((~finite).sum())} not finite"
    return f"{numbers[finite].min():.4g} .. {numbers[finite].max():.4g}{rest}" if finite.any() else "nothing finite"


def _expectations(expectations: list[dict[str, Any]]) -> str:
    kinds: Counter[str] = Counter()
    for one in expectations:
        kind = next((name for name in ("tensor", "same_as", "unchanged_since", "fill", "finite", "flag") if name in one), "?")
        if kind == "tensor":
            kind = "bits" if one["match"] == "bits" else "tolerance"
        kinds[kind] += 1
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"
