"""The step between forward and commit, as vLLM's model state keeps it: recorded, committed after sampling, or detached for later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ... import ops
from ...errors import BadState
from .._checks import Check
from ._commit import CommitContext, CommitStep


@dataclass(frozen=True, eq=False)
class RecoverSSMPostprocessMetadata:
    """What align bookkeeping needs of a committed group."""

    num_spec_decodes: int
    request_indices: Tensor | None
    block_table: Tensor
    num_computed_tokens: Tensor
    block_size: int
    commit_len: Tensor | None = None  # [num_spec_decodes]; beside vLLM's fields: which windows were live, and by how much
    state_indices: Tensor | None = None


@dataclass(eq=False)
class RecoverSSMMetadata:
    """One group's attention metadata as far as the commit is concerned. vLLM's own classes do as well: commit_recoverssm_state is all."""

    recoverssm_context: CommitContext
    recoverssm_commit: CommitStep | None

    def commit_recoverssm_state(self, num_accepted_tokens: Tensor) -> RecoverSSMPostprocessMetadata | None:
        step = self.recoverssm_commit
        if step is None:
            return None
        self.recoverssm_context.commit_step(num_accepted_tokens, step)
        if step.block_table is None:
            return None
        rows = step.state_indices.shape[0]
        return RecoverSSMPostprocessMetadata(
            rows, step.request_indices, step.block_table, step.num_computed_tokens, step.mamba_block_size,
            self.recoverssm_context.plan_of(step)["commit_len"], step.state_indices,
        )  # fmt: skip


class DetachedStep(tuple):
    """The groups of a step that is committed later. Committed or abandoned once."""

    done = False


class RecoverSSMState:
    """Holds a step's groups from the forward to the commit."""

    def __init__(self) -> None:
        self._step: tuple | None = None

    def record_step(self, attn_metadata: Mapping[str, Any], attn_groups: Iterable[Iterable[Any]], *, for_capture: bool) -> None:
        """Takes the groups that can be committed. Captures and dummy runs leave nothing to commit."""
        if for_capture:
            self._step = None
            return
        metadata = [attn_metadata[group.layer_names[0]] for groups in attn_groups for group in groups]
        self._step = tuple(one for one in metadata if hasattr(one, "commit_recoverssm_state"))

    def detach_step(self) -> DetachedStep | None:
        """The recorded step with index data of its own, for a commit after later steps were recorded (pipeline parallel). None without one."""
        step, self._step = self._step, None
        if step is None:
            return None
        return DetachedStep(_detached(metadata) for metadata in step)

    def abandon_step(self, step: DetachedStep) -> None:
        """A detached step that will not be committed."""
        _close(step)

    def commit_step(
        self,
        num_sampled: Tensor | int,
        idx_mapping: Tensor,
        *,
        state_indices: Tensor | None,
        num_accepted_tokens: Tensor,
        step: Sequence[Any] | None = None,
    ) -> None:
        """Commits the recorded step, or the one given, and in align mode advances running columns and counts.

        num_sampled: [>= rows] int32, kept tokens by row of the batch; a number means that nothing was sampled: nothing is committed.
        idx_mapping: [rows], the request slot of each row, -1 for a request freed since: its windows count as kept 0.
        state_indices: [slots] int32, running columns (align); num_accepted_tokens: [slots] int32. Both are written for live windows.
        """
        if step is None:
            step, self._step = self._step, None
        elif isinstance(step, DetachedStep):
            _close(step)
        if isinstance(num_sampled, int) or step is None:
            return
        kept = num_sampled.clone()  # the original may be a buffer that others read
        kept[: idx_mapping.shape[0]].masked_fill_(idx_mapping < 0, 0)
        for metadata in step:
            aligned = metadata.commit_recoverssm_state(kept)
            if aligned is not None:
                check = Check("RecoverSSMState.commit_step")
                check.that(state_indices is not None, "state_indices", "None", "the running columns of align mode")
                _advance(aligned, idx_mapping, state_indices, num_accepted_tokens)


def _detached(metadata: Any) -> Any:
    taken = copy(metadata)
    commit = metadata.recoverssm_commit
    if commit is None:
        return taken
    if isinstance(commit, CommitStep):
        taken.recoverssm_commit = commit.detached()
        return taken
    held = copy(commit)
    for name, value in vars(commit).items():
        if isinstance(value, Tensor):
            setattr(held, name, value.clone())
        elif name == "align" and value is not None:
            align = copy(value)
            for inner, tensor in vars(value).items():
                setattr(align, inner, tensor.clone() if isinstance(tensor, Tensor) else tensor)
            held.align = align
    taken.recoverssm_commit = held
    return taken


def _close(step: DetachedStep) -> None:
    if step.done:
        raise BadState("RecoverSSMState: step: committed or abandoned before, expected an open one")
    step.done = True


def _advance(aligned: RecoverSSMPostprocessMetadata, idx_mapping: Tensor, columns: Tensor, counts: Tensor) -> None:
    """Columns and counts are by request slot, the plan is by row of the batch: gathered, advanced, scattered."""
    slots = idx_mapping.long().clamp(min=0)
    running, accepted = columns[slots], counts[slots]
    requests = None if aligned.request_indices is None else aligned.request_indices[: aligned.num_spec_decodes]
    ops.align_advance(
        commit_len=aligned.commit_len, state_indices=aligned.state_indices, num_computed=aligned.num_computed_tokens, block_size=aligned.block_size,
        running_column=running, num_accepted=accepted, request_index=requests,
    )  # fmt: skip
    held = idx_mapping >= 0
    columns[slots[held]], counts[slots[held]] = running[held], accepted[held]
