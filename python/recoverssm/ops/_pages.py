"""Typed tensors over pools of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InvalidArgument, OutOfRange


def page_view(pool: Tensor, *, offset: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """One typed tensor in every page of a pool: [pages, *shape] of dtype, sharing the pool's memory.

    pool: [pages, bytes] uint8, a page contiguous. offset: bytes from a page's start, a multiple of the dtype's size, as the page stride
    must be. shape: of what lies in one page, contiguous there.

    Make views with this, before torch.compile, wherever several of them (state, records, line) share pages and are written. What
    pool.view(dtype) gives is a view that torch.compile cannot tell apart from its neighbours or join with them: written views of one
    page then lose each other's writes or are refused (docs/python.md).

    Raises InvalidArgument for a pool that is none or an offset that is not aligned, OutOfRange for a view that leaves the page.
    """
    size = dtype.itemsize
    if pool.dtype != torch.uint8 or pool.dim() != 2 or pool.stride(1) != 1:
        raise InvalidArgument(f"page_view: pool: {pool.dtype} {list(pool.shape)}, expected uint8 [pages, bytes], a page contiguous")
    start = pool.storage_offset() + offset
    if start % size or pool.stride(0) % size:
        raise InvalidArgument(f"page_view: offset: {start} in pages {pool.stride(0)} bytes apart, expected multiples of {size}")
    strides, elements = [], 1
    for length in reversed(shape):
        strides.insert(0, elements)
        elements *= length
    if offset < 0 or offset + elements * size > pool.shape[1]:
        raise OutOfRange(f"page_view: shape: ends at byte {offset + elements * size}, expected at most {pool.shape[1]}")
    view = torch.empty(0, dtype=dtype, device=pool.device)
    return view.set_(pool.untyped_storage(), start // size, (pool.shape[0], *shape), (pool.stride(0) // size, *strides))
