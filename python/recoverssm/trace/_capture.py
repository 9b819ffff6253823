"""One call of live tensors as a trace: what it may read before the call, what it must give after it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ._arguments import bound, leaves, operation_of, trace_arguments, written_tensors
from ._file import DTYPES, Trace

import torch  # isort: skip

_DTYPES = {
    torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64",
    torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
# Changed elements closer to each other than this are one expectation: fewer, longer tensors.
_GAP = 256


class Unrecordable(Exception):
    """No trace can hold this call; the text says why."""


class _Memory:
    """The bytes that views of one dtype span together: one buffer of the trace."""

    def __init__(self, name: str, dtype: str, start: int, stop: int) -> None:
        self.name, self.dtype, self.start, self.stop = name, dtype, start, stop
        self.before = np.empty(0, np.uint8)

    @property
    def bytes(self) -> int:
        return self.stop - self.start

    def live(self) -> np.ndarray:
        """The memory itself, as bytes."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.bytes).from_address(self.start)) if self.bytes else np.empty(0, np.uint8)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and the one behind the last of a tensor that is not empty."""
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


class Capture:
    """Made before a call: looks at its arguments, copies nothing yet. `bytes` is what `keep` will copy."""

    def __init__(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = bound(overload, args, kwargs)
        self.operation = operation_of(overload)
        try:
            self.arguments = trace_arguments(overload, given)
        except ValueError as error:
            raise Unrecordable(str(error)) from error
        self.tensors = leaves(self.arguments)
        self.written = [tensor for tensor in written_tensors(overload, given) if tensor.numel()]
        for name, tensor in self.tensors:
            if tensor.dtype not in _DTYPES:
                raise Unrecordable(f"{name} is {tensor.dtype}, which traces do not have")
            if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_neg():
                raise Unrecordable(f"{name} is no plain tensor on the CPU")
        self.recorders: list[Any] = []
        self.memories = self._memories()
        self.bytes = sum(memory.bytes for memory in self.memories)

    def _memories(self) -> list[_Memory]:
        """Views of one dtype that overlap or interleave share a buffer, with the gaps between them; the others have one each."""
        spans = [(_DTYPES[tensor.dtype], *_span(tensor), name) for name, tensor in self.tensors if tensor.numel()]
        memories: list[_Memory] = []
        for dtype, start, stop, name in sorted(spans):
            last = memories[-1] if memories else None
            if last is not None and last.dtype == dtype and start < last.stop:
                last.stop = max(last.stop, stop)
                if (start - last.start) % DTYPES[dtype].itemsize:
                    raise Unrecordable(f"{name} and {last.name} overlap by parts of elements")
            else:
                memories.append(_Memory(name, dtype, start, stop))
        empty = sorted({_DTYPES[tensor.dtype] for _, tensor in self.tensors if not tensor.numel()})
        return memories + [_Memory(f"empty.{dtype}", dtype, 0, 0) for dtype in empty]

    def _view(self, tensor: torch.Tensor) -> dict[str, Any]:
        dtype, shape, strides = _DTYPES[tensor.dtype], list(tensor.shape), list(tensor.stride())
        if not tensor.numel():
            return {"buffer": f"empty.{dtype}", "offset": 0, "shape": shape, "strides": strides}
        memory = self._memory(tensor)
        return {
            "buffer": memory.name,
            "offset": (tensor.data_ptr() - memory.start) // tensor.element_size(),
            "shape": shape,
            "strides": strides,
        }

    def _memory(self, tensor: torch.Tensor) -> _Memory:
        start, dtype = tensor.data_ptr(), _DTYPES[tensor.dtype]
        return next(m for m in self.memories if m.dtype == dtype and m.start <= start < m.stop)

    def keep(self) -> None:
        """Copies what the call may read. Right before the call."""
        for memory in self.memories:
            memory.before = memory.live().copy()

    def trace(self, name: str, source: str, error: str | None = None) -> Trace:
        """Right after the call. error: the kind it was refused with."""
        call = {"id": "call", "op": self.operation, "args": self._document(self.arguments), "expect": [], "error": None}
        tensors: dict[str, np.ndarray] = {}
        buffers = {memory.name: self._buffer(memory, tensors) for memory in self.memories}
        if error is None:
            call["expect"] = self._expectations(tensors)
        else:
            call["error"] = {"kind": error, "mentions": []}
        return Trace({"name": name, "source": source, "buffers": buffers, "calls": [call], "finally": []}, tensors)

    def _document(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._view(value)
        if isinstance(value, dict):
            return {name: self._document(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._document(part) for part in value]
        if isinstance(value, float) and not np.isfinite(value):
            raise Unrecordable(f"a number that is {value}")
        return value

    def _buffer(self, memory: _Memory, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
        data = memory.before
        about: dict[str, Any] = {"dtype": memory.dtype, "elements": data.size // DTYPES[memory.dtype].itemsize}
        if memory.dtype != "BOOL" and (not data.size or (data == data[0]).all()):
            return about | {"init": {"bytes": int(data[0]) if data.size else 0}}
        tensors[f"{memory.name}.init"] = data.view(DTYPES[memory.dtype])
        return about | {"init": f"{memory.name}.init"}

    def _expectations(self, tensors: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """Every element of every buffer: bits where something was written, unchanged where not.

        A buffer's gaps may hold other views' memory, of another dtype: what the call wrote there is that buffer's matter.
        """
        expectations: list[dict[str, Any]] = []
        for memory in self.memories:
            if not memory.bytes:
                continue
            dtype = DTYPES[memory.dtype]
            before, after = memory.before.view(dtype), memory.before.view(dtype).copy()
            for tensor in self.written:
                if _DTYPES[tensor.dtype] == memory.dtype and self._memory(tensor) is memory:
                    view = self._view(tensor)
                    strides = [stride * dtype.itemsize for stride in view["strides"]]
                    of = [np.lib.stride_tricks.as_strided(a[view["offset"] :], view["shape"], strides) for a in (after, memory.live().view(dtype))]
                    of[0].view(f"u{dtype.itemsize}")[...] = of[1].view(f"u{dtype.itemsize}")
            bits = f"u{dtype.itemsize}"
            changed = np.flatnonzero(before.view(bits) != after.view(bits))
            place = 0
            for run in np.split(changed, np.flatnonzero(np.diff(changed) > _GAP) + 1) if changed.size else ():
                first, last = int(run[0]), int(run[-1]) + 1
                if place < first:
                    expectations.append(_unchanged(memory.name, place, first))
                name = f"{memory.name}.after{first}"
                tensors[name] = after[first:last]
                expectations.append({"view": _line(memory.name, first, last), "tensor": name, "match": "bits"})
                place = last
            if place < before.size:
                expectations.append(_unchanged(memory.name, place, before.size))
        return expectations


def _line(buffer: str, first: int, last: int) -> dict[str, Any]:
    return {"buffer": buffer, "offset": first, "shape": [last - first], "strides": [1]}


def _unchanged(buffer: str, first: int, last: int) -> dict[str, Any]:
    return {"view": _line(buffer, first, last), "unchanged_since": "start"}
