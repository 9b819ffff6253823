"""Trace files: one safetensors file each."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from ..errors import InvalidArgument
from ._buffer import Buffer

# Names of dtypes in traces and in safetensors files.
DTYPES: dict[str, np.dtype] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

VERSION = "1"
EXTENSION = ".rst.safetensors"


class Malformed(InvalidArgument):
    """A file that is no trace."""


@dataclass
class Trace:
    """document: the JSON of docs/traces.md. tensors: initial contents and expected values, bits kept (bfloat16 through ml_dtypes)."""

    document: dict[str, Any]
    tensors: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.document["name"]

    def buffers(self) -> dict[str, Buffer]:
        """Fresh buffers with their initial contents."""
        return {name: Buffer(self._initial(name, about)) for name, about in self.document["buffers"].items()}

    def _initial(self, name: str, about: dict[str, Any]) -> np.ndarray:
        dtype, elements, init = DTYPES[about["dtype"]], about["elements"], about["init"]
        if isinstance(init, str):
            if init not in self.tensors:
                raise Malformed(f"buffer {name}: no tensor {init} in the file")
            tensor = self.tensors[init]
            if tensor.dtype != dtype or tensor.shape != (elements,):
                got = f"{_NAMES.get(tensor.dtype)} {list(tensor.shape)}"
                raise Malformed(f"buffer {name}: tensor {init} is {got}, expected {about['dtype']} [{elements}]")
            return tensor.copy()
        if "fill" in init:
            return np.full(elements, init["fill"]).astype(dtype)
        return np.full(elements * dtype.itemsize, init["bytes"], np.uint8).view(dtype)

    def write(self, path: str | PathLike[str]) -> None:
        """Writes the trace, extension .rst.safetensors: the whole file or none. Raises InvalidArgument for a dtype that traces do not have."""
        write_whole(path, self.encode())

    def encode(self) -> bytes:
        """The bytes of the file. Raises InvalidArgument for a dtype that traces do not have."""
        for name, tensor in self.tensors.items():
            if tensor.dtype not in _NAMES:
                raise InvalidArgument(f"trace: tensor {name}: {tensor.dtype}, expected one of {', '.join(DTYPES)}")
        dense = {name: np.ascontiguousarray(tensor).reshape(tensor.shape) for name, tensor in self.tensors.items()}
        metadata = {"recoverssm_trace": VERSION, "document": json.dumps(self.document, allow_nan=False)}
        return safetensors.numpy.save(dense, metadata)


def write_whole(path: str | PathLike[str], data: bytes) -> None:
    """Writes a file so that `path` is at every moment what it was before or whole: beside it, flushed to the disk, renamed."""
    path = Path(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.partial")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def read(path: str | PathLike[str]) -> Trace:
    """Reads a trace. Raises Malformed for a file that is none; safetensors' own error for one that is no safetensors file."""
    data = Path(path).read_bytes()
    tensors = {}
    for name, entry in safetensors.deserialize(data):
        if entry["dtype"] not in DTYPES:
            raise Malformed(f"{path}: tensor {name} has dtype {entry['dtype']}, expected one of {', '.join(DTYPES)}")
        array = np.frombuffer(entry["data"], DTYPES[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"])
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
    if metadata.get("recoverssm_trace") != VERSION:
        raise Malformed(f"{path}: recoverssm_trace is {metadata.get('recoverssm_trace')!r}, expected {VERSION!r}")
    try:
        document = json.loads(metadata["document"])
    except (KeyError, json.JSONDecodeError) as error:
        raise Malformed(f"{path}: no readable document: {error}") from error
    for name in ("name", "buffers", "calls"):
        if name not in document:
            raise Malformed(f"{path}: the document has no {name}")
    return Trace(document, tensors)
