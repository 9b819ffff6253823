"""What several operations take: records, layers, groups, and the parts of gdn_attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .._records import KdaRecords
from ..errors import InvalidArgument

# gdn, layout id "gdn_f32": one tensor [blocks, HV, S, V+K+1] float32: correction (V), normalised key (K), decay (1). Last stride 1.
Records = Tensor | KdaRecords


def record_arguments(records: Records | None) -> dict[str, Tensor | None]:
    """The schema's three names for records."""
    if isinstance(records, KdaRecords):
        return {"corrections": records.corrections, "key_gate": records.key_gate}
    return {"records": records}


def gdn_records(operation: str, name: str, records: Records | None) -> Tensor | None:
    """Records of an operation that knows the gdn gate only."""
    if isinstance(records, KdaRecords):
        raise InvalidArgument(f"{operation}: {name}: records of kda, expected one tensor, those of gdn")
    return records


@dataclass(eq=False)
class Layer:
    """One layer of commit, materialize or align_move: a state with records, a conv line, or both.

    A layer of short_conv has neither state nor records, and conv_taps = (Kc-1)*dilation + 1.
    """

    group: int = 0  # index into commit's groups; ignored by materialize and align_move
    line: Tensor | None = None  # [blocks, cols, C] T, any strides
    line_kind: str = "rolled"  # "plain" (short_conv), "rolled" or "anchored"
    conv_taps: int = 0  # W; history is W-1 positions
    state: Tensor | None = None  # [blocks, HV, V, K] float32, bfloat16 or float16; a block contiguous, block stride free
    records: Records | None = None  # present with state
    pending: Tensor | None = None  # [blocks] int32: records that wait in a block (lazy form)
    gate: str = "gdn"  # "gdn" or "kda"
    A_log: Tensor | None = None  # kda: [HV]
    dt_bias: Tensor | None = None  # kda: [HV, K]
    lower_bound: float | None = None  # kda, < 0
    l2norm: bool = True
    softplus_beta: float = 1.0
    softplus_threshold: float = 20.0


# What a layer may have, in the order of LayerPart in bindings/torch/commit.h: the bit of a part is its place here.
_PARTS = ("line", "state", "pending", "records", "corrections", "key_gate", "A_log", "dt_bias", "lower_bound")
_SCALARS = ("group", "line_kind", "conv_taps", "gate", "l2norm", "softplus_beta", "softplus_threshold")


def layer_columns(layers: Sequence[Layer]) -> dict[str, list[Any]]:
    """A list of layers as the columns of the schema: lists that hold what there is, and which layer has what."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_PARTS, *_SCALARS, "layer_parts")}
    for layer in layers:
        records = record_arguments(layer.records)
        bits = 0
        for place, name in enumerate(_PARTS):
            part = records.get(name) if name in ("records", "corrections", "key_gate") else getattr(layer, name)
            if part is not None:
                bits |= 1 << place
                columns[name].append(part)
        columns["layer_parts"].append(bits)
        for name in _SCALARS:
            columns[name].append(getattr(layer, name))
    return columns


@dataclass(eq=False)
class PlanGroup:
    """One cache group of commit_plan_groups; what it writes is [N] int32 each."""

    state_indices: Tensor  # [N] int32
    commit_len: Tensor
    final_indices: Tensor
    boundary_indices: Tensor
    boundary_len: Tensor
    block_table: Tensor | None = None  # [R, width] int32; in all groups or in none


@dataclass(eq=False)
class CommitGroup:
    """A plan's arrays for one cache group, [N] int32 each, any stride."""

    state_indices: Tensor  # source block
    commit_len: Tensor
    final_indices: Tensor
    boundary_indices: Tensor
    boundary_len: Tensor


def group_columns(operation: str, groups: Sequence[Any], names: Sequence[str]) -> dict[str, list[Tensor]]:
    """A list of groups as one list a field."""
    for place, group in enumerate(groups):
        for name in names:
            if getattr(group, name) is None:
                raise InvalidArgument(f"{operation}: groups[{place}].{name}: missing, expected a tensor [N] of i32")
    return {name: [getattr(group, name) for group in groups] for name in names}


@dataclass(eq=False)
class AttentionPlain:
    """Plain rows of gdn_attention."""

    query_start_loc: Tensor  # [N+1] int32
    state_indices: Tensor  # [N] int32
    has_initial_state: Tensor | None = None  # [N] bool
    num_accepted: Tensor | None = None  # [N] int32
    pending: Tensor | None = None  # [blocks] int32; None, with records None too: the windows'
    records: Tensor | None = None  # [blocks, HV, S, V+K+1] float32, read
    token_index: Tensor | None = None  # [tokens] int32


@dataclass(eq=False)
class AttentionWindows:
    """Windows of gdn_attention."""

    mode: str  # "snapshots" or "verify"
    query_start_loc: Tensor  # [N+1] int32
    state_indices: Tensor  # verify: [N], snapshots: [N, S] int32
    window_capacity: int  # S
    num_accepted: Tensor | None = None  # [N] int32; snapshots: required, verify: with pending
    records: Tensor | None = None  # verify: [blocks, HV, S, V+K+1] float32, written
    pending: Tensor | None = None  # verify: [blocks] int32, the lazy form
    token_index: Tensor | None = None  # [tokens] int32
