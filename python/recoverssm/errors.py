"""The errors of the contract as classes. Nothing has been written when one is raised."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of this library. The text names operation, argument, what was got and what was expected.

    kind: the contract's word for it, the same as in C++, C and in traces.
    """

    kind: str = "error"


class InvalidArgument(Error, ValueError):
    """Shape, stride, dtype, missing or surplus argument."""

    kind = "invalid_argument"


class OutOfRange(Error, IndexError):
    """An index, offset or count."""

    kind = "out_of_range"


class Unsupported(Error, NotImplementedError):
    """This operation, dtype or shape on this backend or device."""

    kind = "unsupported"


class BadState(Error, RuntimeError):
    """The call does not fit what happened before it."""

    kind = "bad_state"


class DeviceError(Error, RuntimeError):
    """The device, its driver or the system failed; on the CPU: no memory."""

    kind = "device_error"


BY_KIND: dict[str, type[Error]] = {
    error.kind: error for error in (InvalidArgument, OutOfRange, Unsupported, BadState, DeviceError)
}
