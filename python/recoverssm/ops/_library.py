"""Loads the operations into PyTorch and calls one: the one place where PyTorch's errors become this library's."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from .. import _build, _native
from ..errors import BY_KIND, InvalidArgument, Unsupported

try:
    import torch
except ImportError as error:
    raise ImportError("recoverssm.ops needs PyTorch 2.10 or later, which is not installed") from error

_LIBRARY = Path(__file__).parent.parent / "librecoverssm_torch.so"
if not _LIBRARY.exists():
    raise ImportError(
        f"this recoverssm was installed without its PyTorch operations: {_build.TORCH_MISSING}; "
        "install it where torch is: pip install --no-build-isolation ."
    )
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 10):
    raise ImportError(f"recoverssm.ops needs PyTorch 2.10 or later, this is {torch.__version__}")

torch.ops.load_library(str(_LIBRARY))
_take_flag = ctypes.CDLL(str(_LIBRARY)).recoverssm_torch_take_flag
_take_flag.restype, _take_flag.argtypes = None, [ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)]

OPERATIONS = (
    "split_projections",
    "causal_conv1d",
    "causal_conv1d_window",
    "gated_delta_rule",
    "gated_delta_rule_snapshots",
    "gated_delta_rule_verify",
    "commit_plan",
    "commit_plan_groups",
    "commit",
    "materialize",
    "align_move",
    "align_advance",
    "short_conv",
    "gdn_attention",
)


def overloads() -> list[Any]:
    """Every overload of every operation."""
    packets = [getattr(torch.ops.recoverssm, name) for name in OPERATIONS]
    return [getattr(packet, overload) for packet in packets for overload in packet.overloads()]


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _register_fakes() -> None:
    # Nothing is returned and shapes never change, so there is nothing to compute: what a call writes is in its schema. A call with tensors on
    # several devices is refused here as it would be by a kernel; with some on meta and some not it would do nothing without a word.
    for overload in overloads():

        def fake(*args: Any, _name: str = overload.name(), **kwargs: Any) -> None:
            devices = {str(tensor.device) for tensor in _tensors((*args, *kwargs.values()))}
            if len(devices) > 1:
                raise Unsupported(f"{_name.partition('::')[2]}: tensors on {', '.join(sorted(devices))}, expected one device")

        torch.library.register_fake(overload.name())(fake)


_register_fakes()


@cache
def _find(operation: str, overload: str) -> tuple[Any, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The overload, the names it takes, those of them that cannot be None, and those it writes."""
    function = getattr(getattr(torch.ops.recoverssm, operation), overload)
    arguments = function._schema.arguments
    names = tuple(argument.name for argument in arguments)
    needed = tuple(argument.name for argument in arguments if argument.type.kind() != "OptionalType")
    written = tuple(argument.name for argument in arguments if argument.alias_info is not None and argument.alias_info.is_write)
    return function, names, needed, written


def _refuse_gradients(operation: str, arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if any(tensor.requires_grad for tensor in _tensors([value])):
            raise InvalidArgument(f"{operation}: {name}: requires grad, expected one that does not: there is no gradient (torch.no_grad())")


_MESSAGE = re.compile(r"\[recoverssm\.(\w+)\] (.*)", re.DOTALL)


def call(operation: str, overload: str, arguments: dict[str, Any]) -> None:
    """Calls torch.ops.recoverssm.OPERATION.OVERLOAD. A name that the overload does not take must be None.

    In a compiled graph nothing is translated: the graph holds the operation alone, and its errors are RuntimeErrors whose text starts
    with "[recoverssm.KIND]". Nor are tensors that require grad refused there.
    """
    if torch.compiler.is_compiling():
        given = {name: value for name, value in arguments.items() if value is not None}
        getattr(getattr(torch.ops.recoverssm, operation), overload)(**given)
        return
    function, names, needed, written = _find(operation, overload)
    for name in needed:
        if arguments.get(name) is None:
            raise InvalidArgument(f"{operation}: {name}: missing, expected a value")
    given = {name: value for name, value in arguments.items() if value is not None or name in names}
    if torch.is_grad_enabled():
        _refuse_gradients(operation, given)
    for name in written:
        # PyTorch hands a copy of such a view to an operation and expects the result back from it.
        if any(tensor.is_neg() or tensor.is_conj() for tensor in _tensors([given.get(name)])):
            raise InvalidArgument(f"{operation}: {name}: a negated or conjugated view, expected one that can be written (resolve_neg())")
    try:
        function(**given)
        # Autograd learns that these were written, as it does of PyTorch's own in-place operations.
        torch.autograd.graph.increment_version(
            [tensor for tensor in _tensors(given.get(name) for name in written) if not tensor.is_inference()]
        )
    except NotImplementedError as error:
        raise Unsupported(f"{operation}: {_first_line(error)}") from error
    except RuntimeError as error:
        match = _MESSAGE.search(str(error))
        if match is None:
            if "expected a value of type" in str(error).lower():
                raise InvalidArgument(f"{operation}: {_first_line(error)}") from error
            raise
        raise BY_KIND[match[1]](match[2]) from None
    except TypeError as error:
        raise InvalidArgument(f"{operation}: {_first_line(error)}") from error


def check_device(device: torch.device | str | int | None = None) -> None:
    """Waits for a CUDA device (None: the current one), and raises what operations on it have found wrong in index contents since the last time.

    The host sees no index contents before a launch. A kernel that meets a wrong one follows it nowhere: the row becomes a null row, or nothing of
    it is written. Of several findings the first is kept. An error of the device itself is PyTorch's.

    Raises OutOfRange, InvalidArgument or BadState, as the CPU would have before the call.
    """
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device("cuda" if device is None else device)
    if found.type != "cuda":
        raise Unsupported(f"check_device: {found}, expected a CUDA device: other calls raise what they find")
    torch.cuda.synchronize(found)
    finding = (ctypes.c_int32 * 4)()
    _take_flag(torch.cuda.current_device() if found.index is None else found.index, finding)
    if code := finding[0]:
        name = _native.library.recoverssm_operation_name(finding[1]).decode()
        kind = _native.library.recoverssm_status_name(code).decode()
        raise BY_KIND[kind](f"{name}: layer {finding[2]}, row {finding[3]}: {kind.replace('_', ' ')}, found by the device in index contents")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
