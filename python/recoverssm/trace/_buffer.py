"""Buffers of a trace as numpy arrays and through DLPack."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_DLPACK_BFLOAT = 4  # kDLBfloat


class _DLTensorHead(ctypes.Structure):
    """The start of a DLTensor, up to its dtype."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
    ]


class Buffer:
    """One buffer's memory. Whatever is made from it, by numpy or through DLPack, shares it and may write it.

    array: 1-D numpy array. torch.from_dlpack(buffer), and any other reader of DLPack, takes it as it is, bfloat16 too.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def view(self, offset: int, shape: list[int], strides: list[int]) -> np.ndarray:
        """A strided numpy view; offset and strides in elements."""
        size = self.array.itemsize
        base = self.array[offset:] if 0 not in shape else self.array[:0]
        return np.lib.stride_tricks.as_strided(base, shape, [stride * size for stride in strides])

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        if dl_device not in (None, (1, 0)):
            raise BufferError(f"a trace's buffer is on the CPU, not on device {dl_device}")
        array = self.array.copy() if copy else self.array
        if array.dtype != _BFLOAT16:
            return array.__dlpack__()
        # numpy exports none of ml_dtypes' types: it exports 16-bit integers, and the capsule is told what they are.
        capsule = array.view(np.uint16).__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        _DLTensorHead.from_address(pointer(capsule, b"dltensor")).dtype_code = _DLPACK_BFLOAT
        return capsule


def view(buffers: Mapping[str, Buffer], description: Mapping[str, Any]) -> np.ndarray:
    """The numpy view that a trace's {"buffer", "offset", "shape", "strides"} names."""
    return buffers[description["buffer"]].view(description["offset"], description["shape"], description["strides"])
