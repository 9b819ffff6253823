"""Errors in the form of the operations' own, raised before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ..errors import InvalidArgument


class Check:
    """Says what is wrong with an argument of one operation."""

    def __init__(self, operation: str) -> None:
        self.operation = operation

    def that(self, right: bool, argument: str, got: Any, expected: str) -> None:
        if not right:
            raise InvalidArgument(f"{self.operation}: {argument}: {got}, expected {expected}")

    def shape(self, argument: str, tensor: Tensor, shape: tuple[int, ...], words: str = "") -> None:
        """words: what callers of the original look for in the message."""
        self.that(tuple(tensor.shape) == shape, argument, f"shape {list(tensor.shape)}", f"{list(shape)}{words and ': ' + words}")

    def same_device(self, tensors: Iterable[tuple[str, Tensor | None]]) -> None:
        first = None
        for argument, tensor in tensors:
            if tensor is None:
                continue
            first = tensor.device if first is None else first
            self.that(tensor.device == first, argument, f"on {tensor.device}", f"{first}: all inputs must be on the same device")
