"""Replays traces through recoverssm.ops, with the comparison rules of docs/traces.md. Needs PyTorch.

The reports are those of `recoverssm replay --json`.
"""

from __future__ import annotations

import time
from os import PathLike
from typing import Any

import numpy as np

from .. import ops  # before torch: it says what is missing
from ..errors import Error
from ._buffer import Buffer, view
from ._file import DTYPES, Malformed, Trace, read

import torch  # isort: skip

_LISTS = {"layers": ops.Layer, ("commit", "groups"): ops.CommitGroup, ("commit_plan_groups", "groups"): ops.PlanGroup}
_PARTS = {"plain": ops.AttentionPlain, "windows": ops.AttentionWindows}
# Arguments whose null means their default; a null of any other is passed on, as None.
_DEFAULTED = {"null_block_id", "l2norm", "softplus_beta", "softplus_threshold"}
_DEFAULTED_OF = {"causal_conv1d": {"line_kind"}}
_DEFAULTED_OF_LAYERS = {"softplus_beta", "softplus_threshold"}


class _Buffers:
    """A trace's buffers, as numpy arrays and as tensors over the same memory."""

    def __init__(self, trace: Trace) -> None:
        self.buffers = trace.buffers()
        self.tensors = {name: torch.from_dlpack(buffer) for name, buffer in self.buffers.items()}

    def tensor(self, description: dict[str, Any]) -> torch.Tensor:
        base = self.tensors[description["buffer"]]
        return base.as_strided(description["shape"], description["strides"], description["offset"])

    def copy(self) -> dict[str, Buffer]:
        return {name: Buffer(buffer.array.copy()) for name, buffer in self.buffers.items()}

    def restore(self, saved: dict[str, Buffer]) -> None:
        for name, buffer in self.buffers.items():
            buffer.array.view(np.uint8)[:] = saved[name].array.view(np.uint8)

    def same(self, saved: dict[str, Buffer]) -> bool:
        pairs = ((buffer.array.view(np.uint8), saved[name].array.view(np.uint8)) for name, buffer in self.buffers.items())
        return all(np.array_equal(now, before) for now, before in pairs)


def replay(trace: Trace | str | PathLike[str], *, backend: str = "cpu", mode: str = "exact") -> dict[str, Any]:
    """Runs a trace. Raises Malformed for a document that is no trace.

    Returns {"name", "ok", "skipped": reason or None, "calls", "checks", "failed": [{"call", "check", "detail"}], "max_error",
    "seconds"}.
    """
    if not isinstance(trace, Trace):
        trace = read(trace)
    document = trace.document
    report: dict[str, Any] = {"name": trace.name, "ok": True, "skipped": None, "calls": 0, "checks": 0}
    report |= {"failed": [], "max_error": 0.0, "seconds": 0.0}
    if backend not in document.get("backends", [backend]):
        return report | {"skipped": f"not for backend {backend}"}
    if document.get("mode", "any") not in ("any", mode):
        return report | {"skipped": f"mode {document['mode']}, not {mode}"}

    start = time.perf_counter()
    run = _Run(trace, report)
    for call in document["calls"]:
        run.call(call)
    run.check("finally", document.get("finally") or [])
    report["ok"] = not report["failed"]
    report["seconds"] = time.perf_counter() - start
    return report


class _Run:
    def __init__(self, trace: Trace, report: dict[str, Any]) -> None:
        self.trace, self.report, self.buffers = trace, report, _Buffers(trace)
        expectations = [*(trace.document.get("finally") or [])]
        for call in trace.document["calls"]:
            expectations += call.get("expect") or []
        self.kept_after = {expectation.get("unchanged_since") for expectation in expectations}
        self.history: dict[str, dict[str, Buffer]] = {"start": self.buffers.copy()}

    def fail(self, call: str, check: int | None, detail: str) -> None:
        self.report["failed"].append({"call": call, "check": check, "detail": detail})

    def call(self, call: dict[str, Any]) -> None:
        self.report["calls"] += 1
        op, expected = call["op"], call.get("error")
        if op not in ops.OPERATIONS:
            raise Malformed(f"call {call['id']}: unknown operation {op}")
        arguments = _arguments(op, call["args"], self.buffers)
        repeats = call.get("repeat") or 1
        before = self.buffers.copy() if expected or repeats > 1 else None
        try:
            getattr(ops, op)(**arguments)
        except TypeError as error:
            raise Malformed(f"call {call['id']}: {error}") from error
        except Error as error:
            if not expected:
                self.fail(call["id"], None, f"{error.kind}: {error}")
                return
            self._refused(call["id"], error, expected, before)
        else:
            if expected:
                self.report["checks"] += 1
                self.fail(call["id"], None, f"succeeded, expected {expected['kind']}")
            for number in range(1, repeats):
                first = self.buffers.copy()
                self.buffers.restore(before)
                getattr(ops, op)(**arguments)
                if not self.buffers.same(first):
                    self.fail(call["id"], None, f"other bits in run {number + 1} of the same call")
        if call["id"] in self.kept_after:
            self.history[call["id"]] = self.buffers.copy()
        self.check(call["id"], call.get("expect") or [])

    def _refused(self, name: str, error: Error, expected: dict[str, Any], before: dict[str, Buffer]) -> None:
        self.report["checks"] += 1
        kinds = expected["kind"] if isinstance(expected["kind"], list) else [expected["kind"]]
        if error.kind not in kinds:
            self.fail(name, None, f"{error.kind}, expected {' or '.join(kinds)}: {error}")
        elif missing := [word for word in expected.get("mentions") or [] if word not in str(error)]:
            self.fail(name, None, f"the message does not mention {', '.join(missing)}: {error}")
        elif not self.buffers.same(before):
            self.fail(name, None, "refused, but something was written")

    def check(self, name: str, expectations: list[dict[str, Any]]) -> None:
        for number, expectation in enumerate(expectations):
            if "flag" in expectation:
                continue  # of device backends
            self.report["checks"] += 1
            if detail := self._holds(expectation):
                self.fail(name, number, detail)

    def _holds(self, expectation: dict[str, Any]) -> str | None:
        got = view(self.buffers.buffers, expectation["view"])
        if "tensor" in expectation:
            want = self.trace.tensors[expectation["tensor"]]
            if want.dtype != got.dtype or want.shape != got.shape:
                raise Malformed(f"tensor {expectation['tensor']}: {want.dtype} {want.shape}, the view is {got.dtype} {got.shape}")
            if expectation["match"] == "bits":
                return _same_bits(got, want)
            return self._close(got, want, **expectation["match"])
        if "same_as" in expectation:
            return _same_bits(got, view(self.buffers.buffers, expectation["same_as"]))
        if "unchanged_since" in expectation:
            return _same_bits(got, view(self.history[expectation["unchanged_since"]], expectation["view"]))
        if "fill" in expectation:
            return _same_bits(got, np.full(got.shape, expectation["fill"]).astype(got.dtype))
        if "finite" in expectation:
            return None if got.dtype.kind in "iub" or np.isfinite(got.astype(np.float64)).all() else "not finite"
        raise Malformed(f"unknown expectation {sorted(expectation)}")

    def _close(self, got: np.ndarray, want: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> str | None:
        x, y = got.astype(np.float64), want.astype(np.float64)
        equal = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):
            error = np.where(equal, 0.0, np.abs(x - y))
            error[np.isnan(error)] = np.inf
            far = ~equal & ~(np.isfinite(error) & (error <= atol + rtol * np.abs(y)))
        if error.size:
            worst = self.report["max_error"]
            self.report["max_error"] = None if worst is None or np.isinf(error.max()) else max(worst, float(error.max()))
        return _difference(far, got, want)


def _same_bits(got: np.ndarray, want: np.ndarray) -> str | None:
    bits = np.dtype(f"u{got.dtype.itemsize}")
    return _difference(np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(want).view(bits), got, want)


def _difference(where: np.ndarray, got: np.ndarray, want: np.ndarray) -> str | None:
    if not where.any():
        return None
    index = tuple(int(i) for i in np.argwhere(where.reshape(got.shape))[0])
    return f"index {list(index)}: got {got[index]}, want {want[index]} ({int(where.sum())} of {got.size} elements)"


def _arguments(op: str, given: dict[str, Any], buffers: _Buffers) -> dict[str, Any]:
    defaulted = _DEFAULTED | _DEFAULTED_OF.get(op, set())
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        if value is None and name in defaulted:
            continue
        cls = _LISTS.get((op, name)) or _LISTS.get(name)
        if cls is not None and value is not None:
            arguments[name] = [_object(cls, item, buffers) for item in value]
        elif name in _PARTS and value is not None:
            arguments[name] = _object(_PARTS[name], value, buffers)
        else:
            arguments["from_" if name == "from" else name] = _value(value, buffers)
    return arguments


def _object(cls: type, given: dict[str, Any], buffers: _Buffers) -> Any:
    fields = {name: value for name, value in given.items() if value is not None or name not in _DEFAULTED_OF_LAYERS}
    return cls(**{name: _value(value, buffers) for name, value in fields.items()})


def _value(value: Any, buffers: _Buffers) -> Any:
    if not isinstance(value, dict):
        return value
    if "buffer" in value:
        if "dtype" in value and DTYPES[value["dtype"]] != buffers.buffers[value["buffer"]].array.dtype:
            raise Malformed(f"a view of {value['buffer']} names dtype {value['dtype']}")
        return buffers.tensor(value)
    return ops.KdaRecords(**{name: _value(part, buffers) for name, part in value.items()})


def execute(trace: Trace) -> dict[str, Buffer]:
    """Runs a trace's calls on fresh buffers and returns them, without a look at what it expects. Raises the error of a refused call."""
    buffers = _Buffers(trace)
    for call in trace.document["calls"]:
        getattr(ops, call["op"])(**_arguments(call["op"], call["args"], buffers))
    return buffers.buffers
