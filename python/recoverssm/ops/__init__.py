"""Every operation of the contract on PyTorch tensors (CPU, CUDA). Importing this registers torch.ops.recoverssm.* as well.

Common to all: T is the activations' dtype, float32, bfloat16 or float16. Index data is int32. Tensors are taken as they are, with their
strides; nothing is copied. Everything is passed by name. Nothing is returned: what an operation writes is said in its text, and must not
overlap anything else of the call. Row i owns tokens query_start_loc[i] .. query_start_loc[i+1]-1; a row whose block id is not above
null_block_id is a null row: its outputs become 0, nothing else is touched. A window has at most S tokens. None leaves an argument out.

Errors are those of `recoverssm.errors`, each raised before anything is written: InvalidArgument (shape, stride, dtype, missing or surplus
argument), OutOfRange (an index, offset or count), Unsupported (dtype, shape or device), BadState, DeviceError.

On CUDA an operation runs on the current stream of its tensors' device and returns before it is done; what kernels find wrong in index contents is
raised by `check_device`.

Threads: PyTorch's own, torch.set_num_threads. Bits do not depend on their number. No operation has a gradient.
The whole contract: docs/operations.md.
"""

import os

from ._library import OPERATIONS, check_device  # isort: skip  (first: it says what is missing)

from ._commit import align_advance, align_move, commit, commit_plan, commit_plan_groups, materialize
from ._forward import (
    causal_conv1d,
    causal_conv1d_window,
    gated_delta_rule,
    gated_delta_rule_snapshots,
    gated_delta_rule_verify,
    gdn_attention,
    short_conv,
    split_projections,
)
from ._pages import page_view
from ._types import AttentionPlain, AttentionWindows, CommitGroup, KdaRecords, Layer, PlanGroup, Records

__all__ = [
    "OPERATIONS",
    "AttentionPlain",
    "AttentionWindows",
    "CommitGroup",
    "KdaRecords",
    "Layer",
    "PlanGroup",
    "Records",
    "align_advance",
    "align_move",
    "causal_conv1d",
    "causal_conv1d_window",
    "check_device",
    "commit",
    "commit_plan",
    "commit_plan_groups",
    "gated_delta_rule",
    "gated_delta_rule_snapshots",
    "gated_delta_rule_verify",
    "gdn_attention",
    "materialize",
    "page_view",
    "short_conv",
    "split_projections",
]

if os.environ.get("RECOVERSSM_RECORD"):
    # The loop that this closes is harmless here, at the end: everything above is there.
    from ..trace.record import from_environment as _from_environment

    _from_environment()
