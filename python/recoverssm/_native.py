"""The C ABI (include/recoverssm/recoverssm.h) through ctypes: what needs no tensors."""

from __future__ import annotations

import ctypes
from pathlib import Path

from . import errors

LIBRARY = Path(__file__).parent / "librecoverssm.so"

DTYPES = ("f32", "bf16", "f16", "f64", "i32", "i64", "u8", "boolean")
GATES = ("gdn", "kda")


class GeometryStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_int32) for name in ("H", "HV", "K", "V", "W", "channels", "S", "gate", "activation", "state")
    ]


class SizesStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_int64)
        for name in ("state", "line_rolled", "line_anchored", "records", "page_rolled", "page_anchored", "snapshots")
    ]


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    for name in ("version", "last_error"):
        getattr(library, f"recoverssm_{name}").restype = ctypes.c_char_p
    for name in ("status_name", "target_name", "record_layout_id", "operation_name"):
        function = getattr(library, f"recoverssm_{name}")
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_int32]
    library.recoverssm_available_targets.argtypes = [
        ctypes.POINTER(ctypes.c_int32),
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_size_t),
    ]
    for name, struct in (("geometry", GeometryStruct), ("request_sizes", SizesStruct)):
        function = getattr(library, f"recoverssm_{name}_init")
        function.restype = None
        function.argtypes = [ctypes.POINTER(struct), ctypes.c_size_t]
    library.recoverssm_sizes.argtypes = [ctypes.POINTER(GeometryStruct), ctypes.POINTER(SizesStruct)]
    library.recoverssm_map_windows.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_int32),
    ]
    return library


library = _load()


def check(status: int) -> None:
    """Raises the error of a status that is not 0, with the library's text."""
    if status == 0:
        return
    kind = library.recoverssm_status_name(status).decode()
    text = library.recoverssm_last_error().decode()
    raise errors.BY_KIND.get(kind, errors.DeviceError)(text)


def version() -> str:
    return library.recoverssm_version().decode()


def targets() -> list[str]:
    count = ctypes.c_size_t()
    check(library.recoverssm_available_targets(None, 0, ctypes.byref(count)))
    numbers = (ctypes.c_int32 * count.value)()
    check(library.recoverssm_available_targets(numbers, count.value, ctypes.byref(count)))
    return [library.recoverssm_target_name(number).decode() for number in numbers]


def cuda_unavailable() -> str:
    """Why nothing runs on CUDA here: no such backend in this build, no driver, no device. Empty: something does."""
    return "" if library.recoverssm_cuda_available() == 0 else library.recoverssm_last_error().decode().removeprefix("cuda: ")


def word(name: str, given: str, words: tuple[str, ...]) -> int:
    """The number of a word in the C ABI."""
    if given not in words:
        raise errors.InvalidArgument(f"{name}: {given!r}, expected one of {', '.join(words)}")
    return words.index(given)
