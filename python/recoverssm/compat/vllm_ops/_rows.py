"""Which rows of a batch are windows, in vLLM's terms."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._sizes import map_windows
from .._checks import Check


def recoverssm_spec_rows(
    is_prefilling_cpu: Tensor, query_start_loc_cpu: Tensor, num_decode_draft_tokens_cpu: Tensor, num_reqs: int
) -> tuple[Tensor, Tensor]:
    """(draft counts for the base builder, window rows in batch order) of the first num_reqs rows; what comes after them is padding.

    is_prefilling_cpu: [>= num_reqs] bool. query_start_loc_cpu: [>= num_reqs + 1]. num_decode_draft_tokens_cpu: [>= num_reqs] int32, -1 for none.
    A row is a window if it has drafts, or if it decodes at least one token. The counts are 1 for windows, -1 elsewhere, so that a builder
    which sends rows without drafts another way keeps them all. Rows are int64.
    """
    check = Check("recoverssm_spec_rows")
    for name, tensor, needed in (
        ("is_prefilling_cpu", is_prefilling_cpu, num_reqs),
        ("query_start_loc_cpu", query_start_loc_cpu, num_reqs + 1),
        ("num_decode_draft_tokens_cpu", num_decode_draft_tokens_cpu, num_reqs),
    ):
        right = tensor.dim() == 1 and tensor.shape[0] >= needed and tensor.device.type == "cpu"
        check.that(right, name, f"{list(tensor.shape)} on {tensor.device}", f"at least {needed} entries on the CPU")
    lengths = query_start_loc_cpu[: num_reqs + 1].diff()
    windows = map_windows(
        num_decode_draft_tokens_cpu[:num_reqs].tolist(), is_prefilling_cpu[:num_reqs].tolist(), lengths.tolist()
    )
    rows = torch.from_numpy(windows.rows).long()
    drafts = torch.full_like(num_decode_draft_tokens_cpu, -1)
    drafts[rows] = 1
    return drafts, rows


def recoverssm_request_indices(rows: Tensor, num_spec_decodes: int, device: torch.device) -> Tensor | None:
    """The plan's request mapping, int32 on the device; None where the windows are exactly rows 0..n-1.

    rows: what recoverssm_spec_rows found. num_spec_decodes: how many of them the builder made.
    """
    check = Check("recoverssm_request_indices")
    check.that(rows.numel() == num_spec_decodes, "rows", f"{rows.numel()} spec rows classified", f"{num_spec_decodes}, as the builder produced")
    if torch.equal(rows, torch.arange(num_spec_decodes, dtype=rows.dtype, device=rows.device)):
        return None
    return rows.to(device=device, dtype=torch.int32)
