"""Commit of GDN layers and of PLE short convolutions, one group at a time or several in one call."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ... import ops
from .._checks import Check

_PLAN = ("commit_len", "final_indices", "boundary_indices", "boundary_len")


@dataclass(frozen=True, eq=False)
class CommitStep:
    """What a commit needs to know of one KV-cache group's windows in one step: the arguments of commit but the accepted counts."""

    state_indices: Tensor  # [N] int32, the source blocks
    query_start_loc: Tensor  # [N+1] int32
    request_indices: Tensor | None = None  # [>= N] int32, rows of the batch; None: 0..N-1
    block_table: Tensor | None = None  # align: [requests, columns] int32
    num_computed_tokens: Tensor | None = None  # align: [requests] int32
    mamba_block_size: int | None = None  # align: tokens a block

    def detached(self) -> CommitStep:
        """A copy with index data of its own, which later steps do not change."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.clone() for name, value in tensors.items() if isinstance(value, Tensor)})


class CommitContext:
    """Layers of one KV-cache group, and memory for a plan of up to max_num_reqs windows."""

    operation = "commit"

    def __init__(self, layers: Sequence[ops.Layer], spec_query_len: int, max_num_reqs: int, device: torch.device) -> None:
        self.layers = tuple(layers)
        self.spec_query_len = spec_query_len
        self.plan = {name: torch.empty(max_num_reqs, dtype=torch.int32, device=device) for name in _PLAN}

    def commit(
        self,
        num_accepted_tokens: Tensor,
        state_indices: Tensor,
        query_start_loc: Tensor,
        request_indices: Tensor | None = None,
        block_table: Tensor | None = None,
        num_computed_tokens: Tensor | None = None,
        mamba_block_size: int | None = None,
    ) -> None:
        """Folds the accepted tokens into every layer's checkpoint and moves its convolution window to the front.

        num_accepted_tokens: [requests] int32, indexed by row of the batch. state_indices: [N] int32, any stride. request_indices: [>= N] int32.
        block_table, num_computed_tokens, mamba_block_size: align mode, all or none; then the state at a block boundary is written too.
        """
        step = CommitStep(state_indices, query_start_loc, request_indices, block_table, num_computed_tokens, mamba_block_size)
        self.commit_step(num_accepted_tokens, step)

    def commit_step(self, num_accepted_tokens: Tensor, step: CommitStep) -> None:
        self.check_step(num_accepted_tokens, step)
        if step.state_indices.shape[0] == 0:
            return
        plan = self.plan_of(step)
        ops.commit_plan(**_plan_arguments(num_accepted_tokens, step), state_indices=step.state_indices, block_table=step.block_table,
                        window_capacity=self.spec_query_len, **plan)  # fmt: skip
        self.commit_planned(ops.CommitGroup(state_indices=step.state_indices, **plan))

    def commit_planned(self, group: ops.CommitGroup) -> None:
        ops.commit(groups=[group], layers=self.layers, window_capacity=self.spec_query_len)

    def plan_of(self, step: CommitStep) -> dict[str, Tensor]:
        return {name: tensor[: step.state_indices.shape[0]] for name, tensor in self.plan.items()}

    def check_step(self, num_accepted_tokens: Tensor, step: CommitStep) -> None:
        check = Check(self.operation)
        ids, table = step.state_indices, step.block_table
        check.that(ids.dim() == 1, "state_indices", f"{ids.dim()} dimensions", "one-dimensional")
        rows, most = ids.shape[0], self.plan["commit_len"].shape[0]
        check.that(rows <= most, "state_indices", f"{rows} rows", f"at most {most}: the commit batch exceeds its plan capacity")
        check.shape("query_start_loc", step.query_start_loc, (rows + 1,), "commit metadata is incompatible")
        mapped = step.request_indices is not None
        right = not mapped or (step.request_indices.dim() == 1 and step.request_indices.shape[0] >= rows)
        check.that(right, "request_indices", "shorter than the rows", f"{rows} entries: the request mapping is too short")
        counts = list(num_accepted_tokens.shape)
        check.that(
            len(counts) == 1 and (mapped or counts[0] >= rows), "num_accepted_tokens", f"shape {counts}",
            f"at least [{rows}]: the accepted-token counts are too short",
        )  # fmt: skip
        align = {"block_table": table, "num_computed_tokens": step.num_computed_tokens, "mamba_block_size": step.mamba_block_size}
        given = [name for name, value in align.items() if value is not None]
        check.that(len(given) in (0, 3), "block_table", f"given: {', '.join(given)}", f"{', '.join(align)} or none: align metadata is incomplete")
        block = step.mamba_block_size
        check.that(
            block is None or block >= self.spec_query_len, "mamba_block_size", block,
            f"at least {self.spec_query_len}: the align block size must cover one speculative window",
        )  # fmt: skip
        check.that(table is None or table.dim() == 2, "block_table", table is not None and list(table.shape), "a two-dimensional block table")
        check.same_device([
            ("layers", _memory(self.layers[0])),
            ("num_accepted_tokens", num_accepted_tokens), ("state_indices", ids), ("query_start_loc", step.query_start_loc),
            ("request_indices", step.request_indices), ("block_table", table), ("num_computed_tokens", step.num_computed_tokens),
        ])  # fmt: skip


class GDNRecoverSSMCommitContext(CommitContext):
    """The commit of all GDN layers that share a block table."""

    operation = "GDNRecoverSSMCommitContext.commit"

    @classmethod
    def from_tensors(
        cls,
        conv_states: Sequence[Tensor],
        checkpoints: Sequence[Tensor],
        replays: Sequence[Tensor],
        *,
        spec_query_len: int,
        max_num_reqs: int,
        conv_dim_first: bool = True,
    ) -> GDNRecoverSSMCommitContext:
        """One entry a layer, all layers alike.

        conv_states: [blocks, channels, window], or [blocks, window, channels] without conv_dim_first; window = taps - 1 + spec_query_len - 1.
        checkpoints: [blocks, HV, V, K]. replays: [blocks, HV, spec_query_len, V+K+1] float32.
        """
        check = Check("GDNRecoverSSMCommitContext.from_tensors")
        check.that(len(checkpoints) > 0, "checkpoints", "none", "at least one layer")
        lengths = [len(conv_states), len(checkpoints), len(replays)]
        check.that(len(set(lengths)) == 1, "conv_states", f"{lengths} layers", "as many as checkpoints and replays: the lists differ")
        reference = checkpoints[0]
        check.that(reference.dim() == 4, "checkpoints", f"{reference.dim()} dimensions", "four-dimensional")
        blocks, HV, V, K = reference.shape
        check_alike(check, "checkpoints", checkpoints, reference.device)
        for replay in replays:
            check.shape("replays", replay, (blocks, HV, spec_query_len, V + K + 1), "matching float32 replay buffers")
        check.that(replays[0].dtype == torch.float32, "replays", replays[0].dtype, "torch.float32")
        check_alike(check, "replays", replays, reference.device)
        lines, taps = conv_lines(check, conv_states, spec_query_len, conv_dim_first, reference.device, blocks)
        layers = [
            ops.Layer(line=line, line_kind="rolled", conv_taps=taps, state=state, records=replay)
            for line, state, replay in zip(lines, checkpoints, replays, strict=True)
        ]
        return cls(layers, spec_query_len, max_num_reqs, reference.device)

    @classmethod
    def create(
        cls, layers: Sequence[Any], *, spec_query_len: int, max_num_reqs: int, conv_dim_first: bool | None = None
    ) -> GDNRecoverSSMCommitContext:
        """layers: each with kv_cache = (convolution state, checkpoint, replay). conv_dim_first None: as vLLM, if it is here, lays it out."""
        check = Check("GDNRecoverSSMCommitContext.create")
        for layer in layers:
            check.that(len(layer.kv_cache) == 3, "layers", f"pages of {len(layer.kv_cache)} tensors", "conv, state and replay")
        conv_states, checkpoints, replays = zip(*(layer.kv_cache for layer in layers), strict=True) if layers else ((), (), ())
        return cls.from_tensors(
            conv_states, checkpoints, replays, spec_query_len=spec_query_len, max_num_reqs=max_num_reqs,
            conv_dim_first=conv_layout(check, conv_dim_first),
        )  # fmt: skip

    def commit(
        self,
        num_accepted_tokens: Tensor,
        state_indices: Tensor,
        query_start_loc: Tensor,
        request_indices: Tensor | None = None,
        block_table: Tensor | None = None,
        num_computed_tokens: Tensor | None = None,
        mamba_block_size: int | None = None,
        *,
        commit_conv: bool = True,
    ) -> None:
        """As CommitContext.commit. commit_conv False leaves the convolution windows alone."""
        step = CommitStep(state_indices, query_start_loc, request_indices, block_table, num_computed_tokens, mamba_block_size)
        context = self
        if not commit_conv:
            context = copy(self)
            context.layers = tuple(replace(layer, line=None, conv_taps=0) for layer in self.layers)
        context.commit_step(num_accepted_tokens, step)


class PleConvCommit(CommitContext):
    """The commit of PLE short convolutions: the plan, and the lines moved to the front; no state."""

    operation = "PleConvCommit.commit"

    def __init__(self, conv_states: Sequence[Tensor], spec_query_len: int, max_num_reqs: int, conv_dim_first: bool | None = None) -> None:
        """conv_states: one [blocks, channels, window] a layer (conv_dim_first), window = history + spec_query_len - 1."""
        check = Check("PleConvCommit")
        check.that(len(conv_states) > 0, "conv_states", "none", "at least one layer")
        first, blocks = conv_states[0], conv_states[0].shape[0]
        lines, taps = conv_lines(check, conv_states, spec_query_len, conv_layout(check, conv_dim_first), first.device, blocks)
        layers = [ops.Layer(line=line, line_kind="rolled", conv_taps=taps) for line in lines]
        super().__init__(layers, spec_query_len, max_num_reqs, first.device)


def commit_groups(groups: Sequence[tuple[CommitContext, CommitStep]], num_accepted_tokens: Tensor) -> bool:
    """Commits the windows of several KV-cache groups, in one plan and one commit where they accept it. Returns whether they did.

    Accepted: all groups have the same window capacity, offsets, request mapping and numbers of computed tokens (on the CPU by value, on a
    device the same memory), the same block size, and all or none are in align mode. Else, and for KDA, whose records are by row, each
    group is planned and committed for itself, in order. All groups are checked before the first is touched.
    """
    for context, step in groups:
        context.check_step(num_accepted_tokens, step)
    if all(step.state_indices.shape[0] == 0 for _, step in groups):
        return True
    if not _accepted(groups):
        for context, step in groups:
            context.commit_step(num_accepted_tokens, step)
        return False
    first_context, first = groups[0]
    plans = [context.plan_of(step) for context, step in groups]
    ops.commit_plan_groups(
        **_plan_arguments(num_accepted_tokens, first), window_capacity=first_context.spec_query_len,
        groups=[
            ops.PlanGroup(state_indices=step.state_indices, block_table=step.block_table, **plan)
            for (_, step), plan in zip(groups, plans, strict=True)
        ],
    )  # fmt: skip
    ops.commit(
        groups=[ops.CommitGroup(state_indices=step.state_indices, **plan) for (_, step), plan in zip(groups, plans, strict=True)],
        layers=[replace(layer, group=place) for place, (context, _) in enumerate(groups) for layer in context.layers],
        window_capacity=first_context.spec_query_len,
    )
    return True


def _accepted(groups: Sequence[tuple[CommitContext, CommitStep]]) -> bool:
    first_context, first = groups[0]
    return all(
        context.spec_query_len == first_context.spec_query_len
        and type(context).commit_planned is CommitContext.commit_planned
        and (step.block_table is None) == (first.block_table is None)
        and step.mamba_block_size == first.mamba_block_size
        and all(_same(getattr(step, name), getattr(first, name)) for name in ("query_start_loc", "request_indices", "num_computed_tokens"))
        for context, step in groups
    )


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one is other:
        return one is other
    if one.device.type == "cpu" and other.device.type == "cpu":
        return torch.equal(one, other)
    return one.device == other.device and one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def _plan_arguments(num_accepted_tokens: Tensor, step: CommitStep) -> dict[str, Any]:
    rows = step.state_indices.shape[0]
    return {
        "num_accepted": num_accepted_tokens,
        "query_start_loc": step.query_start_loc,
        "request_index": step.request_indices if step.request_indices is None else step.request_indices[:rows],
        "num_computed": step.num_computed_tokens,
        "block_size": step.mamba_block_size,
    }


def _memory(layer: ops.Layer) -> Tensor:
    return layer.state if layer.state is not None else layer.line


def check_alike(check: Check, argument: str, tensors: Sequence[Tensor], device: torch.device) -> None:
    """All layers have one layout: shape, dtype, inner strides, device."""
    first = tensors[0]
    for place, tensor in enumerate(tensors):
        right = tensor.shape == first.shape and tensor.dtype == first.dtype and tensor.stride()[1:] == first.stride()[1:] and tensor.device == device
        shown = f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
        check.that(right, f"{argument}[{place}]", shown, f"{first.dtype} {list(first.shape)} on {device}: layers need matching layouts")


def conv_layout(check: Check, conv_dim_first: bool | None) -> bool:
    if conv_dim_first is not None:
        return conv_dim_first
    try:
        from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first
    except ImportError:
        check.that(False, "conv_dim_first", "None, and no vLLM to ask", "True for [blocks, channels, window], False for [blocks, window, channels]")
    return is_conv_state_dim_first()


def conv_lines(
    check: Check, conv_states: Sequence[Tensor], spec_query_len: int, conv_dim_first: bool, device: torch.device, blocks: int
) -> tuple[list[Tensor], int]:
    """Convolution states as lines [blocks, positions, channels], and the taps they are made for."""
    first = conv_states[0]
    right = first.dim() == 3 and first.shape[0] == blocks
    check.that(right, "conv_states", f"shape {list(first.shape)}", f"[{blocks}, dim, window], with the checkpoint's block count")
    check_alike(check, "conv_states", conv_states, device)
    lines = [state.transpose(1, 2) if conv_dim_first else state for state in conv_states]
    history = lines[0].shape[1] - spec_query_len + 1
    expected = f"more than {spec_query_len - 1}: the conv state is shorter than its window"
    check.that(history > 0, "conv_states", f"{lines[0].shape[1]} positions", expected)
    return lines, history + 1
