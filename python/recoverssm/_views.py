"""Memory of others as the C ABI takes it: torch tensors, numpy arrays, anything with DLPack; and the C ABI's as numpy arrays. Strided views
as they are; nothing is copied."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from . import _native
from .errors import InvalidArgument, Unsupported

MOST_DIMS = 4


class TensorStruct(ctypes.Structure):
    """recoverssm_tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MOST_DIMS),
        ("stride", ctypes.c_int64 * MOST_DIMS),
        ("reserved", ctypes.c_int64 * 2),
    ]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_TORCH = {
    "torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float64": "f64",
    "torch.int32": "i32", "torch.int64": "i64", "torch.uint8": "u8", "torch.bool": "boolean",
}  # fmt: skip
_NUMPY = {
    "float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64",
    "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "boolean",
}  # fmt: skip
# By DLPack's type code and bits.
_DLPACK = {
    (2, 32): "f32", (4, 16): "bf16", (2, 16): "f16", (2, 64): "f64", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8", (6, 8): "boolean",
}  # fmt: skip


# DLPack's numbers of devices.
_DEVICES = {"cpu": 1, "cuda": 2}


def tensor_struct(name: str, given: Any, *, written: bool = False, device: str = "cpu") -> tuple[TensorStruct, Any]:
    """The struct of a tensor, and what must stay alive while it is used. None is an absent tensor.

    Raises InvalidArgument for what is no tensor, has a dtype that the C ABI does not know, more than four dimensions, strides that are no
    whole elements, or is read-only where it shall be written; Unsupported for another kind of device.
    """
    if given is None:
        return TensorStruct(dims=-1), None
    if type(given).__module__.partition(".")[0] == "torch" and hasattr(given, "data_ptr"):
        if given.device.type != device:
            raise Unsupported(f"{name}: on {given.device}, expected {_shown(device)}")
        return _struct(name, given.data_ptr(), _TORCH.get(str(given.dtype)), given.dtype, given.shape, given.stride()), given
    if isinstance(given, np.ndarray):
        if device != "cpu":
            raise Unsupported(f"{name}: a numpy array, expected a tensor on {device}")
        if written and not given.flags.writeable:
            raise InvalidArgument(f"{name}: a read-only array, expected one to write")
        strides = [stride / given.itemsize for stride in given.strides]
        if given.dtype.byteorder == ">" or any(stride != int(stride) for stride in strides):
            raise InvalidArgument(f"{name}: dtype {given.dtype}, strides {given.strides} bytes, expected whole elements in native order")
        return _struct(name, given.ctypes.data, _NUMPY.get(given.dtype.name), given.dtype, given.shape, [int(s) for s in strides]), given
    if hasattr(given, "__dlpack__"):
        return _from_dlpack(name, given, device)
    raise InvalidArgument(f"{name}: {type(given).__name__}, expected a tensor: of torch, of numpy, or with DLPack")


def _shown(device: str) -> str:
    return "the CPU" if device == "cpu" else device


def _from_dlpack(name: str, given: Any, device: str) -> tuple[TensorStruct, Any]:
    if given.__dlpack_device__()[0] != _DEVICES[device]:
        raise Unsupported(f"{name}: on DLPack device {given.__dlpack_device__()}, expected {_shown(device)}")
    # On a device the caller has the session's stream in order with its own (stream -1: the producer need not wait for one).
    capsule = given.__dlpack__() if device == "cpu" else given.__dlpack__(stream=-1)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    shape = tensor.shape[: tensor.ndim]
    if tensor.strides:
        strides = tensor.strides[: tensor.ndim]
    else:
        strides = [int(np.prod(shape[place + 1 :])) for place in range(len(shape))]
    dtype = _DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    shown = f"of DLPack code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
    # The capsule owns the memory: it is not taken over, and frees it when it goes.
    return _struct(name, (tensor.data or 0) + tensor.byte_offset, dtype, shown, shape, strides), (capsule, given)


def _struct(name: str, address: int, dtype: str | None, shown: Any, shape: Any, strides: Any) -> TensorStruct:
    if dtype is None:
        raise InvalidArgument(f"{name}: dtype {shown}, expected one of {', '.join(_native.DTYPES)}")
    if len(shape) > MOST_DIMS:
        raise InvalidArgument(f"{name}: {len(shape)} dimensions, expected at most {MOST_DIMS}")
    pad = (0,) * (MOST_DIMS - len(shape))
    made = TensorStruct(address, _native.DTYPES.index(dtype), len(shape), (*shape, *pad), (*strides, *pad))
    return made


class _Memory:
    """numpy's array interface of a tensor of the C ABI. Its arrays keep it, and so `owner`, alive."""

    def __init__(self, tensor: TensorStruct, dtype: np.dtype, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": np.dtype(f"u{dtype.itemsize}").str,
            "data": (tensor.data or 0, False),
            "shape": tuple(tensor.shape[: tensor.dims]),
            "strides": tuple(stride * dtype.itemsize for stride in tensor.stride[: tensor.dims]),
        }


def array_of(tensor: TensorStruct, owner: Any) -> np.ndarray | None:
    """The memory of a tensor of the C ABI as a numpy array, bfloat16 through ml_dtypes, that keeps `owner` alive. None if it is absent."""
    if tensor.dims < 0 or (tensor.dims == 0 and not tensor.data):
        return None
    name = next(name for name, word in _NUMPY.items() if word == _native.DTYPES[tensor.dtype])
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    return np.asarray(_Memory(tensor, dtype, owner)).view(dtype)
