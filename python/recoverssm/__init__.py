"""Speculative decoding for gated delta rule layers, with exact recovery of the state.

Without PyTorch: `info`, `sizes`, `map_windows`, `Session` and its configuration (recoverssm.session), and
`recoverssm.trace` (recorded calls as numpy arrays and DLPack).
With PyTorch 2.10 or later: `recoverssm.ops`, which also registers torch.ops.recoverssm.*, and `record`. See docs/python.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _build, _native
from ._sizes import Sizes, WindowMap, map_windows, sizes
from .errors import BadState, DeviceError, Error, InvalidArgument, OutOfRange, Unsupported
from .session import GroupConfig, LayerConfig, LayerPool, Row, Session, SessionConfig, session_sizes

if TYPE_CHECKING:
    from . import ops, trace, transformers
    from .trace.record import record

__version__: str = _native.version()

__all__ = [
    "BadState",
    "DeviceError",
    "Error",
    "GroupConfig",
    "Info",
    "InvalidArgument",
    "LayerConfig",
    "LayerPool",
    "OutOfRange",
    "Row",
    "Session",
    "SessionConfig",
    "Sizes",
    "Unsupported",
    "WindowMap",
    "info",
    "map_windows",
    "ops",
    "record",
    "session_sizes",
    "sizes",
    "trace",
    "transformers",
]


class Info(NamedTuple):
    """What this build is and what this machine can run."""

    version: str
    targets: list[str]  # SIMD targets of the CPU backend that run here, widest first; all give the same bits
    torch: str  # the torch whose headers the operations were built with; "" if they were left out
    torch_missing: str  # why they were left out; "" if they were not
    cuda_missing: str  # why nothing runs on CUDA here: this build, the driver, the device; "" if something does


def info() -> Info:
    """What this build is and what this machine can run."""
    return Info(_native.version(), _native.targets(), _build.TORCH_VERSION, _build.TORCH_MISSING, _native.cuda_unavailable())


# recoverssm.ops imports torch, which takes seconds: only on first use.
def __getattr__(name: str) -> Any:
    if name in ("ops", "trace", "transformers"):
        return importlib.import_module(f"{__name__}.{name}")
    if name == "record":
        return importlib.import_module(f"{__name__}.trace.record").record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
