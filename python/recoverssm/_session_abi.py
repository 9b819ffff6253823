"""include/recoverssm/session.h through ctypes: its structs and functions."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _native
from ._views import TensorStruct
from .errors import InvalidArgument

_TYPES = {
    "t": TensorStruct,
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "i": ctypes.c_int32,
    "u": ctypes.c_uint32,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "f": ctypes.c_float,
}


def _struct(name: str, fields: str, *, sized: bool = True, more: tuple[tuple[str, Any], ...] = ()) -> type[ctypes.Structure]:
    """fields: "type name name; ...", as _TYPES has the types."""
    layout: list[tuple[str, Any]] = [("struct_size", ctypes.c_size_t)] if sized else []
    for group in fields.split(";"):
        kind, *names = group.split()
        layout += [(field, _TYPES[kind]) for field in names]
    return type(name, (ctypes.Structure,), {"_fields_": [*layout, *more]})


LayerConfig = _struct(
    "layer_config",
    "t weight bias A_log dt_bias; i kind group H HV K V W channels dilation activation state conv_activation has_lower_bound;"
    "f lower_bound; i has_scale; f scale; i l2norm; f softplus_beta softplus_threshold; i reserved",
)
GroupConfig = _struct("group_config", "i blocks has_block_size block_size reserved")
SessionConfig = _struct(
    "session_config",
    "p layers; z layer_count; p groups; z group_count; i window_capacity line_kind lazy null_block_id kept_boundaries backend; p stream",
)
Records = _struct("records", "t packed corrections key_gate")
LayerPool = _struct("layer_pool", "t line state pending; p records")
SessionMemory = _struct("session_memory", "q request pools checkpoint; i blocks_per_request reserved")
LayerMemory = _struct("layer_memory", "q state line records pending r0 r1 r2 r3", sized=False)
StepRow = _struct("step_row", "Q request; q num_computed; i has_num_computed kind tokens reserved", sized=False)
Accepted = _struct("accepted", "Q request; i count reserved", sized=False)
DeltaInputs = _struct("delta_inputs", "t x a b out")
ShortConvInputs = _struct("short_conv_inputs", "t x residual outer_residual")
RequestInfo = _struct("request_info", "q tokens; Q open_step; i phase waiting")
BlockTag = _struct("block_tag", "Q owner; q tokens; Q step; i references reserved", more=(("layout", ctypes.c_char * 64),))
SessionCounts = _struct(
    "session_counts",
    "q steps_opened steps_committed steps_abandoned prefill_rows decode_rows window_rows prefill_tokens decode_tokens verified_tokens"
    " kept_tokens library_calls grouped_calls per_group_calls folded_rows moved_rows dead_rows refused_calls",
    more=(
        ("refused_by_kind", ctypes.c_int64 * 6),
        ("per_group_reason", ctypes.c_char * 256),
        ("last_refusal", ctypes.c_char * 256),
    ),
)
Counters = _struct(
    "counters", "q rows tokens state_read state_written record_read record_written line_read line_written activation_read activation_written"
)
CheckpointInfo = _struct("checkpoint_info", "q tokens; Q tag owner step; q bytes; u version; i layers", more=(("layout", ctypes.c_char * 64),))


def new(kind: type[ctypes.Structure]) -> Any:
    """A struct with its defaults."""
    made = kind()
    initialise(made)
    return made


def initialise(made: ctypes.Structure) -> None:
    function = getattr(_native.library, f"recoverssm_{type(made).__name__}_init")
    function.restype = None
    function(ctypes.byref(made), ctypes.c_size_t(ctypes.sizeof(made)))


def call(name: str, *arguments: Any) -> None:
    """recoverssm_NAME. Every argument is a ctypes object. Raises the error of its status."""
    function = getattr(_native.library, f"recoverssm_{name}")
    function.restype = ctypes.c_int
    _native.check(function(*arguments))


def integer(name: str, value: Any, bits: int = 32, *, signed: bool = True) -> int:
    """ctypes would cut a number that is too large. Raises InvalidArgument for it, and for what is no integer."""
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        raise InvalidArgument(f"{name}: {value!r}, expected an integer") from None
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= number < high:
        raise InvalidArgument(f"{name}: {number}, expected {'an' if signed else 'an unsigned'} integer of {bits} bits")
    return number
