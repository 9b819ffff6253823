"""Records a live run: every call of torch.ops.recoverssm.* on the CPU becomes a trace file that `recoverssm replay` accepts.

Covered are recoverssm.ops, torch.ops.recoverssm.*, compiled graphs and C++ callers of PyTorch's dispatcher, in every thread: the kernels
are wrapped where the dispatcher finds them. Not covered: recoverssm.Session and the C and C++ APIs, which do not go through PyTorch.
"""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BadState, InvalidArgument, Unsupported
from ._capture import Capture, Unrecordable
from ._file import EXTENSION, Trace, write_whole

from ..ops._library import overloads  # isort: skip

import torch  # isort: skip

_KIND = re.compile(r"\[recoverssm\.(\w+)\] ")


class Recorder:
    """Writes calls to a folder, a trace a call. Made by `recoverssm.record`.

    files: what was written, in order. bytes: of all of them. skipped: why calls were left out, and how many.
    """

    def __init__(self, path: str | PathLike[str], limit: int = 200, *, max_bytes: int = 1 << 30) -> None:
        if limit < 0 or max_bytes < 0:
            raise InvalidArgument(f"record: limit, max_bytes: {limit}, {max_bytes}, expected 0 or more")
        self.path, self.limit, self.max_bytes = Path(path), limit, max_bytes
        self.files: list[Path] = []
        self.bytes = 0
        self.skipped: Counter[str] = Counter()
        self._label = ""

    def start(self) -> Recorder:
        """Records from now on. Raises BadState if it does already, OSError if there can be no such folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        _start(self)
        self._label = time.strftime("%Y%m%dT%H%M%S")
        return self

    def stop(self) -> None:
        """Every trace is already in its file. Raises BadState if it does not record."""
        _stop(self)

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        if self in _active:
            self.stop()

    @property
    def full(self) -> bool:
        """The limit of calls is reached: nothing is looked at any more."""
        return len(self.files) >= self.limit

    def _wants(self, capture: Capture) -> bool:
        if self.full:
            self.skipped["limit of calls"] += 1
        elif self.bytes + capture.bytes > self.max_bytes:
            self.skipped["limit of bytes"] += 1
        else:
            return True
        return False

    def _write(self, trace: Trace) -> None:
        # Unique among processes that share the folder and among runs; in order within a run.
        name = f"{self._label}-{os.getpid()}-{len(self.files) + 1:06d}-{trace.document['calls'][0]['op']}"
        path = self.path / f"{name}{EXTENSION}"
        trace.document["name"] = name
        data = trace.encode()
        if self.bytes + len(data) > self.max_bytes:
            self.skipped["limit of bytes"] += 1
            return
        write_whole(path, data)
        self.files.append(path)
        self.bytes += len(data)


def record(path: str | PathLike[str], limit: int = 200, *, max_bytes: int = 1 << 30) -> Recorder:
    """Records the calls of a live run into a folder, one trace file a call: `with recoverssm.record("calls"): ...`, or start() and stop().

    path: a folder, made if it is not there. limit: the most calls. max_bytes: the most bytes of all files together; a call that does not
    fit is left out, smaller ones after it are not. Recorder.skipped counts what was left out, and why.

    A trace holds the memory that the call's tensors span, gaps included, before the call, and every bit of it after the call. Each file
    appears whole or not at all, also if the process is killed. A call that the operation refused is recorded with its error. Recorded calls
    run one at a time and cost a copy of what they can read, of whole pools too: record short runs. A recorder that cannot write says so in a
    warning and stops; the run goes on.

    RECOVERSSM_RECORD=FOLDER records from the import of recoverssm.ops on, RECOVERSSM_RECORD_LIMIT and RECOVERSSM_RECORD_BYTES set the limits.
    """
    return Recorder(path, limit, max_bytes=max_bytes)


_active: list[Recorder] = []
_lock = threading.RLock()  # recorded calls run one at a time: nobody else writes while before and after are taken
_library: torch.library.Library | None = None


def _start(recorder: Recorder) -> None:
    global _library
    with _lock:
        if recorder in _active:
            raise BadState("record: start: it records already")
        if _library is None:
            if not hasattr(torch.library, "get_kernel"):
                raise Unsupported(f"record: torch {torch.__version__} has no torch.library.get_kernel")
            library = torch.library.Library("recoverssm", "IMPL")
            for overload in overloads():
                library.impl(overload.name(), _wrapper(overload), "CPU", with_keyset=True, allow_override=True)
            _library = library
        _active.append(recorder)


def _stop(recorder: Recorder) -> None:
    global _library
    with _lock:
        if recorder not in _active:
            raise BadState("record: stop: it does not record")
        _active.remove(recorder)
        if not _active and _library is not None:
            _library._destroy()  # the kernels themselves are back
            _library = None


def _wrapper(overload: Any) -> Any:
    kernel = torch.library.get_kernel(overload.name(), "CPU")

    def call(keys: Any, *args: Any, **kwargs: Any) -> Any:
        with _lock:
            capture = _prepare(overload, args, kwargs)
            if capture is None:
                return kernel.call_boxed(keys, *args, **kwargs)
            try:
                result = kernel.call_boxed(keys, *args, **kwargs)
            except RuntimeError as error:
                if kind := _KIND.search(str(error)):
                    _finish(capture, kind[1])
                raise
            _finish(capture, None)
            return result

    return call


def _prepare(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Capture | None:
    """None where no recorder wants this call."""
    recorders = list(_active)
    if all(recorder.full for recorder in recorders):
        for recorder in recorders:
            recorder.skipped["limit of calls"] += 1
        return None
    try:
        capture = Capture(overload, args, kwargs)
    except Unrecordable as error:
        for recorder in recorders:
            recorder.skipped[str(error)] += 1
        return None
    capture.recorders = [recorder for recorder in recorders if recorder._wants(capture)]
    if not capture.recorders:
        return None
    capture.keep()
    return capture


def _finish(capture: Capture, error: str | None) -> None:
    source = f"recoverssm {__version__}, torch {torch.__version__}"
    try:
        trace = capture.trace("", source, error)
    except Unrecordable as reason:
        for recorder in capture.recorders:
            recorder.skipped[str(reason)] += 1
        return
    for recorder in capture.recorders:
        try:
            recorder._write(trace)
        except OSError as reason:
            recorder.skipped[str(reason)] += 1
            warnings.warn(f"recoverssm.record: stopped: {reason}", RuntimeWarning, stacklevel=2)
            recorder.limit = len(recorder.files)


def from_environment() -> Recorder | None:
    """The recorder that RECOVERSSM_RECORD asks for, started."""
    folder = os.environ.get("RECOVERSSM_RECORD")
    if not folder:
        return None
    numbers = {"limit": ("RECOVERSSM_RECORD_LIMIT", 200), "max_bytes": ("RECOVERSSM_RECORD_BYTES", 1 << 30)}
    limits = {}
    for name, (variable, otherwise) in numbers.items():
        text = os.environ.get(variable, str(otherwise))
        if not text.isdigit():
            raise InvalidArgument(f"record: {variable}: {text!r}, expected a number")
        limits[name] = int(text)
    return Recorder(folder, **limits).start()

