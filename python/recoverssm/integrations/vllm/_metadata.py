"""From vLLM's GDN metadata to rows of this library. Imports nothing of vLLM."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ... import ops


class Rows(NamedTuple):
    tokens: int
    plain: ops.AttentionPlain | None
    windows: ops.AttentionWindows | None
    window_tokens: int


# What is read of vLLM's GDNAttentionMetadata; tests hold it against the real class.
FIELDS = (
    "num_actual_tokens",
    "num_prefills",
    "num_decodes",
    "num_spec_decodes",
    "num_spec_decode_tokens",
    "has_initial_state",
    "spec_query_start_loc",
    "non_spec_query_start_loc",
    "spec_state_indices_tensor",
    "non_spec_state_indices_tensor",
    "spec_token_indx",
    "non_spec_token_indx",
    "num_accepted_tokens",
)


def rows_of(m: Any, window_capacity: int) -> Rows:
    """m: GDNAttentionMetadata. Rows behind the real ones are padding; a request's block is the first of its table."""
    windows = plain = None
    index = None
    if m.num_spec_decodes > 0:
        count = m.num_spec_decodes
        mixed = m.num_prefills + m.num_decodes > 0
        index = _int32(m.spec_token_indx) if mixed else None
        windows = ops.AttentionWindows(
            mode="verify", query_start_loc=_int32(m.spec_query_start_loc[: count + 1]),
            state_indices=_int32(m.spec_state_indices_tensor[:count, 0]), window_capacity=window_capacity,
            num_accepted=_int32(m.num_accepted_tokens[:count]), token_index=index,
        )  # fmt: skip
    if m.num_prefills + m.num_decodes > 0:
        # Beside windows all other rows are here, empty ones too; alone the rows that run stand first.
        count = m.non_spec_query_start_loc.shape[0] - 1 if windows is not None else m.num_prefills + m.num_decodes
        plain = ops.AttentionPlain(
            query_start_loc=_int32(m.non_spec_query_start_loc[: count + 1]), state_indices=_int32(m.non_spec_state_indices_tensor[:count]),
            has_initial_state=None if m.has_initial_state is None else m.has_initial_state[:count],
            token_index=_int32(m.non_spec_token_indx) if windows is not None else None,
        )  # fmt: skip
    return Rows(m.num_actual_tokens, plain, windows, m.num_spec_decode_tokens if windows is not None else 0)


def _int32(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.int32 else tensor.to(torch.int32)
