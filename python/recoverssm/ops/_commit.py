"""The operations around a step: plan, commit, materialize, align. Rules common to all of them: `recoverssm.ops`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from ..errors import InvalidArgument
from ._library import call
from ._types import CommitGroup, Layer, PlanGroup, group_columns, layer_columns

_PLAN_OUTPUTS = ("commit_len", "final_indices", "boundary_indices", "boundary_len")


def commit_plan(
    *,
    num_accepted: Tensor,
    query_start_loc: Tensor,
    state_indices: Tensor,
    window_capacity: int,
    commit_len: Tensor,
    final_indices: Tensor,
    boundary_indices: Tensor,
    boundary_len: Tensor,
    request_index: Tensor | None = None,
    block_table: Tensor | None = None,
    num_computed: Tensor | None = None,
    block_size: int | None = None,
    null_block_id: int = 0,
) -> None:
    """From accepted counts to what commit does with each window.

    num_accepted: [R] int32, kept tokens of the window, the first included. query_start_loc: [N+1], state_indices: [N] int32.
    request_index: [N] int32, the request of window i; None: i.
    block_table [R, width], num_computed [R] int32, block_size B >= S (tokens): given together (align mode) or not at all.
    Written, [N] int32 each: commit_len, final_indices, boundary_indices, boundary_len.
    """
    call("commit_plan", "default", {
        "num_accepted": num_accepted, "query_start_loc": query_start_loc, "state_indices": state_indices,
        "window_capacity": window_capacity, "commit_len": commit_len, "final_indices": final_indices,
        "boundary_indices": boundary_indices, "boundary_len": boundary_len, "request_index": request_index,
        "block_table": block_table, "num_computed": num_computed, "block_size": block_size, "null_block_id": null_block_id,
    })


def commit_plan_groups(
    *,
    num_accepted: Tensor,
    query_start_loc: Tensor,
    window_capacity: int,
    groups: Sequence[PlanGroup],
    request_index: Tensor | None = None,
    num_computed: Tensor | None = None,
    block_size: int | None = None,
    null_block_id: int = 0,
) -> None:
    """commit_plan for several cache groups that share counts, offsets, request mapping, num_computed and block size.

    A row must have the same commit_len in every group. Written: the four outputs of each group.
    """
    arguments = {
        "num_accepted": num_accepted, "query_start_loc": query_start_loc, "window_capacity": window_capacity,
        "request_index": request_index, "num_computed": num_computed, "block_size": block_size,
        "null_block_id": null_block_id,
    }
    groups = _sequence("commit_plan_groups", "groups", groups, PlanGroup)
    arguments.update(group_columns("commit_plan_groups", groups, ("state_indices", *_PLAN_OUTPUTS)))
    arguments["has_block_table"] = [group.block_table is not None for group in groups]
    arguments["block_table"] = [group.block_table for group in groups if group.block_table is not None]
    call("commit_plan_groups", "default", arguments)


def commit(*, groups: Sequence[CommitGroup], layers: Sequence[Layer], window_capacity: int, null_block_id: int = 0) -> None:
    """Replays accepted records into states and compacts conv lines: all layers of all groups.

    Written: the layers' state and line, and pending where given. A row's source, boundary and final block may coincide in any way; a
    block that a live row writes must not belong to another. In the lazy form at most pending records are committed.
    """
    groups = _sequence("commit", "groups", groups, CommitGroup)
    layers = _sequence("commit", "layers", layers, Layer)
    arguments = {**group_columns("commit", groups, ("state_indices", *_PLAN_OUTPUTS)), **layer_columns(layers)}
    if not groups and not layers:
        return  # no tensor, no device to choose a kernel by, and nothing to do
    call("commit", "default", {**arguments, "window_capacity": window_capacity, "null_block_id": null_block_id})


def materialize(*, blocks: Tensor, num_accepted: Tensor, layers: Sequence[Layer], null_block_id: int = 0) -> None:
    """Folds the waiting records of listed blocks into their states, for whoever needs a lazily committed state now.

    blocks: [M] int32, a live id at most once. num_accepted: [M] int32, kept tokens of the window whose records wait.
    Written: the layers' state, pending (required; becomes 0) and anchored lines. A rolled line is left alone: causal_conv1d reads it at
    num_accepted.
    """
    arguments = {"blocks": blocks, "num_accepted": num_accepted, "null_block_id": null_block_id}
    call("materialize", "default", {**arguments, **layer_columns(_sequence("materialize", "layers", layers, Layer))})


def align_move(*, from_: Tensor, to: Tensor, layers: Sequence[Layer], null_block_id: int = 0) -> None:
    """Before the forward: copies state and line history of row i from block from_[i] to block to[i], bit by bit.

    from_, to: [N] int32; equal or null ids do nothing. (The contract's name is `from`, a keyword of Python.)
    Written: the layers' state, line, and pending where given, 0 at the destination; records are not read.
    """
    arguments = {"from_": from_, "to": to, "null_block_id": null_block_id}
    call("align_move", "default", {**arguments, **layer_columns(_sequence("align_move", "layers", layers, Layer))})


def align_advance(
    *,
    commit_len: Tensor,
    state_indices: Tensor,
    num_computed: Tensor,
    block_size: int,
    running_column: Tensor,
    num_accepted: Tensor,
    request_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """After the commit: running_column[r] = (num_computed[r] + commit_len[i] - 1) / block_size and num_accepted[r] = 1 for live rows.

    commit_len, state_indices, request_index: [N]; num_computed: [R]; all int32. block_size in tokens.
    Read and written: running_column, num_accepted, [R] int32.
    """
    call("align_advance", "default", {
        "commit_len": commit_len, "state_indices": state_indices, "num_computed": num_computed, "block_size": block_size,
        "running_column": running_column, "num_accepted": num_accepted, "request_index": request_index,
        "null_block_id": null_block_id,
    })


def _sequence(operation: str, name: str, values: Iterable, kind: type) -> tuple:
    """The values as a tuple: they are gone through several times, which an iterator allows once."""
    if values is None:
        raise InvalidArgument(f"{operation}: {name}: missing, expected a list")
    if not isinstance(values, Iterable):
        raise InvalidArgument(f"{operation}: {name}: {type(values).__name__}, expected a list of {kind.__name__}")
    values = tuple(values)
    for place, value in enumerate(values):
        if not isinstance(value, kind):
            raise InvalidArgument(f"{operation}: {name}[{place}]: {type(value).__name__}, expected {kind.__name__}")
    return values
