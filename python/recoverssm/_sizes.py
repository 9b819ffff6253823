"""Memory per request and layer, and which rows of a step are windows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from . import _native
from .errors import InvalidArgument


class Sizes(NamedTuple):
    """Bytes, per request and layer."""

    state: int
    line_rolled: int  # (W-1 + S-1) * C
    line_anchored: int  # (W-1 + S) * C
    records: int
    page_rolled: int  # state + records + rolled line
    page_anchored: int  # state + records + anchored line
    snapshots: int  # S states + rolled line: what the same window takes without records


def sizes(
    *,
    H: int,
    HV: int,
    K: int,
    V: int,
    W: int = 0,
    S: int = 1,
    channels: int = 0,
    gate: str = "gdn",
    activation: str = "bf16",
    state: str = "f32",
) -> Sizes:
    """Bytes that one request takes in one layer.

    H, HV: query/key and value heads; K, V: their sizes; W: taps of the convolution, 0 for none; S: window capacity, 1 + drafts;
    channels: of the conv line, 0 for 2*H*K + HV*V; gate: "gdn" or "kda"; activation, state: dtypes, "f32", "bf16" or "f16".

    Raises InvalidArgument for a geometry that no operation accepts.
    """
    geometry, result = _native.GeometryStruct(), _native.SizesStruct()
    _native.library.recoverssm_geometry_init(geometry, ctypes.sizeof(geometry))
    _native.library.recoverssm_request_sizes_init(result, ctypes.sizeof(result))
    numbers = {"H": H, "HV": HV, "K": K, "V": V, "W": W, "S": S, "channels": channels}
    for name, value in numbers.items():
        if not -(2**31) <= value < 2**31:
            raise InvalidArgument(f"sizes: {name}: {value}, expected an integer of 32 bits")
        setattr(geometry, name, value)
    geometry.gate = _native.word("sizes: gate", gate, _native.GATES)
    geometry.activation = _native.word("sizes: activation", activation, _native.DTYPES)
    geometry.state = _native.word("sizes: state", state, _native.DTYPES)
    _native.check(_native.library.recoverssm_sizes(geometry, result))
    return Sizes(*(getattr(result, name) for name in Sizes._fields))


class WindowMap(NamedTuple):
    """rows: the request of each window, int32. identity: they are exactly requests 0..N-1, so no request_index is needed."""

    rows: np.ndarray
    identity: bool


def map_windows(draft_counts: Sequence[int], prefilling: Sequence[bool], lengths: Sequence[int]) -> WindowMap:
    """The window rows of a step, in request order.

    A request is a window if it has drafts (draft_counts >= 0; -1: none), or if it is not prefilling and runs at least one token
    (lengths, in tokens). All three have one entry a request.

    Raises InvalidArgument if their lengths differ, OutOfRange for a draft count below -1 or a negative length.
    """
    drafts = np.ascontiguousarray(draft_counts, np.int32)
    flags = np.ascontiguousarray(prefilling, np.bool_).view(np.uint8)
    tokens = np.ascontiguousarray(lengths, np.int32)
    if not drafts.shape == flags.shape == tokens.shape or drafts.ndim != 1:
        got = f"{drafts.shape}, {flags.shape}, {tokens.shape}"
        raise InvalidArgument(f"map_windows: lengths: {got}, expected one entry a request in all three")
    rows = np.empty(len(drafts), np.int32)
    count, identity = ctypes.c_size_t(), ctypes.c_int32()
    pointers = [array.ctypes.data for array in (drafts, flags, tokens)]
    _native.check(
        _native.library.recoverssm_map_windows(
            *pointers, len(drafts), rows.ctypes.data, ctypes.byref(count), ctypes.byref(identity)
        )
    )
    return WindowMap(rows[: count.value].copy(), bool(identity.value))
