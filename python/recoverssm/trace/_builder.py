"""A trace from arrays: every array a dense buffer, the same array the same buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._file import DTYPES, Trace

NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Builder:
    """Buffers from arrays, calls whose arguments hold arrays in the places of views."""

    def __init__(self, name: str, source: str) -> None:
        self.document: dict[str, Any] = {"name": name, "source": source, "buffers": {}, "calls": [], "finally": []}
        self.tensors: dict[str, np.ndarray] = {}
        self._views: dict[int, tuple[np.ndarray, dict[str, Any]]] = {}

    def call(self, identity: str, op: str, args: dict[str, Any]) -> None:
        self.document["calls"].append({"id": identity, "op": op, "args": self._document(args, identity), "expect": [], "error": None})

    def view(self, array: np.ndarray) -> dict[str, Any]:
        """The view of an array that is an argument of some call."""
        return dict(self._views[id(array)][1])

    def expect(self, array: np.ndarray, first: int, wanted: np.ndarray) -> dict[str, Any]:
        """At the end, entries first .. of an array's first dimension have these bits. Returns the view."""
        view = self.view(array)
        view["offset"] += first * view["strides"][0]
        view["shape"] = [len(wanted), *view["shape"][1:]]
        name = f"expected{len(self.document['finally'])}"
        self.tensors[name] = np.ascontiguousarray(wanted)
        self.document["finally"].append({"view": view, "tensor": name, "match": "bits"})
        return view

    def trace(self) -> Trace:
        return Trace(self.document, self.tensors)

    def _document(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {name: self._document(part, f"{path}.{name}") for name, part in value.items()}
        if isinstance(value, list):
            return [self._document(part, f"{path}{place}") for place, part in enumerate(value)]
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in self._views:
            dense = np.ascontiguousarray(value).reshape(-1)
            self.tensors[f"{path}.init"] = dense
            self.document["buffers"][path] = {"dtype": NAMES[value.dtype], "elements": dense.size, "init": f"{path}.init"}
            strides = [int(np.prod(value.shape[place + 1 :])) for place in range(value.ndim)]
            self._views[id(value)] = value, {"buffer": path, "offset": 0, "shape": list(value.shape), "strides": strides}
        return dict(self._views[id(value)][1])


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Shape, dtype and every bit."""
    return one.shape == other.shape and one.dtype == other.dtype and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
