"""KDA layers, whose records vLLM keeps by row of the step and not by block.

The operations find a state and its records by the same block id. So each row is a call of its own here: verify on a pool of one block, commit
with the row's records shown under every block id. Nothing is copied, and the bits are those of the operations. The ids are read on
the host, which a device's cannot be: CPU only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ... import ops
from ...errors import OutOfRange
from .._checks import Check
from ._commit import CommitContext, check_alike, conv_layout, conv_lines
from ._gdn import check_windows


@dataclass(frozen=True, eq=False)
class KDARecoverSSMRecords:
    """One layer's records, row i of a step at index i: correction [rows, H, S, V] float32, key_gate [rows, H, S, 2K], raw key and raw gate."""

    correction: Tensor
    key_gate: Tensor

    @classmethod
    def allocate(
        cls, max_num_reqs: int, num_heads: int, spec_query_len: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> KDARecoverSSMRecords:
        """dtype: of the activations. K = V = head_dim."""
        shape = (max_num_reqs, num_heads, spec_query_len)
        return cls(
            torch.empty(*shape, head_dim, dtype=torch.float32, device=device), torch.empty(*shape, 2 * head_dim, dtype=dtype, device=device)
        )

    def row(self, i: int, blocks: int = 1) -> ops.KdaRecords:
        """Row i, shown under every one of so many block ids."""
        one = (self.correction[i : i + 1], self.key_gate[i : i + 1])
        return ops.KdaRecords(*(tensor.expand(blocks, *tensor.shape[1:]) for tensor in one))


def kda_recoverssm_verify(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    raw_g: Tensor,
    raw_beta: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    lower_bound: float | None,
    checkpoint_state: Tensor,
    records: KDARecoverSSMRecords,
    query_start_loc: Tensor,
    state_indices: Tensor,
    spec_query_len: int,
    out: Tensor | None = None,
) -> Tensor:
    """Runs windows off their checkpoints, which stay as they are; row i's records go to row i of records. Returns out.

    q, k, raw_g: [1, T, H, K]; v: [1, T, H, V]; raw_beta: [1, T, H]; A_log: [H]; dt_bias: H*K elements; heads contiguous.
    lower_bound: of the bounded gate, or None. checkpoint_state: [blocks, H, V, K]. query_start_loc: [N+1], state_indices: [N] int32.
    """
    check = Check("kda_recoverssm_verify")
    check.that(q.dim() == 4 and q.shape[0] == 1, "q", f"shape {list(q.shape)}", "[1, tokens, heads, dim]")
    _, tokens, H, K = q.shape
    V = v.shape[-1]
    check.shape("k", k, tuple(q.shape), "q, k, and v shapes are incompatible")
    check.shape("v", v, (1, tokens, H, V), "q, k, and v shapes are incompatible")
    check.shape("raw_g", raw_g, tuple(q.shape), "gate or beta shape is incompatible")
    check.shape("raw_beta", raw_beta, (1, tokens, H), "gate or beta shape is incompatible")
    check.shape("A_log", A_log, (H,), "gate parameters are incompatible")
    check.that(dt_bias.numel() == H * K, "dt_bias", f"{dt_bias.numel()} elements", f"{H * K}: gate parameters are incompatible")
    check_windows(check, checkpoint_state, (H, V, K), query_start_loc, state_indices, tokens, spec_query_len)
    rows = state_indices.shape[0]
    for name, tensor, width in (("records.correction", records.correction, V), ("records.key_gate", records.key_gate, 2 * K)):
        right = tensor.dim() == 4 and tensor.shape[0] >= rows and tuple(tensor.shape[1:]) == (H, spec_query_len, width)
        check.that(right, name, f"shape {list(tensor.shape)}", f"[>= {rows}, {H}, {spec_query_len}, {width}]")
    if out is None:
        out = torch.empty_like(v)
    check.shape("out", out, tuple(v.shape), "output shape is incompatible")
    check.same_device([
        ("q", q), ("k", k), ("v", v), ("raw_g", raw_g), ("raw_beta", raw_beta), ("A_log", A_log), ("dt_bias", dt_bias),
        ("checkpoint_state", checkpoint_state), ("records.correction", records.correction), ("records.key_gate", records.key_gate),
        ("query_start_loc", query_start_loc), ("state_indices", state_indices), ("out", out),
    ])  # fmt: skip
    blocks = _row_blocks("kda_recoverssm_verify", query_start_loc, state_indices, checkpoint_state.shape[0], tokens, spec_query_len)
    one = torch.zeros(1, dtype=torch.int32)
    for i, block in enumerate(blocks):
        if block is None:
            out[0, query_start_loc[i] : query_start_loc[i + 1]] = 0
            continue
        ops.gated_delta_rule_verify(
            q=q[0], k=k[0], v=v[0], a=raw_g[0], b=raw_beta[0], A_log=A_log, dt_bias=dt_bias.view(H, K), gate="kda", lower_bound=lower_bound,
            state=checkpoint_state[block : block + 1], out=out[0], records=records.row(i), query_start_loc=query_start_loc[i : i + 2],
            state_indices=one, window_capacity=spec_query_len, null_block_id=-1,
        )  # fmt: skip
    return out


def _row_blocks(
    operation: str, query_start_loc: Tensor, state_indices: Tensor, blocks: int, tokens: int, spec_query_len: int
) -> list[int | None]:
    """The block of each row, None for null rows, with what the one call of all rows would check."""
    offsets, ids = query_start_loc.tolist(), state_indices.tolist()
    owners: dict[int, int] = {}
    found: list[int | None] = []
    for i, block in enumerate(ids):
        length = offsets[i + 1] - offsets[i]
        if offsets[i] < 0 or length < 0 or offsets[i + 1] > tokens:
            raise OutOfRange(f"{operation}: query_start_loc: row {i} has {offsets[i]}..{offsets[i + 1]}, expected rising offsets up to {tokens}")
        if block <= 0 or length == 0:
            found.append(None)
            continue
        if length > spec_query_len:
            raise OutOfRange(f"{operation}: query_start_loc: row {i} has {length} tokens, expected at most spec_query_len = {spec_query_len}")
        if block >= blocks:
            raise OutOfRange(f"{operation}: state_indices: row {i} has {block}, expected a block below {blocks}")
        if block in owners:
            raise OutOfRange(f"{operation}: state_indices: rows {owners[block]} and {i} share block {block}, expected a block of their own")
        owners[block] = i
        found.append(block)
    return found


class KDARecoverSSMCommitContext(CommitContext):
    """The commit of all KDA layers that share a block table; row i of a commit has the records of row i of the step."""

    operation = "KDARecoverSSMCommitContext.commit"

    def __init__(self, layers: Sequence[ops.Layer], records: Sequence[KDARecoverSSMRecords], spec_query_len: int, max_num_reqs: int) -> None:
        super().__init__(layers, spec_query_len, max_num_reqs, layers[0].state.device)
        self.records = tuple(records)

    @classmethod
    def create(
        cls, layers: Sequence[Any], *, spec_query_len: int, max_num_reqs: int, backend: str = "triton", conv_dim_first: bool | None = None
    ) -> KDARecoverSSMCommitContext:
        """layers: each with kv_cache = (convolution state, checkpoint, ...), recoverssm_records, A_log, dt_bias, gate_lower_bound.

        backend is vLLM's choice between kernels of its own and changes nothing here. conv_dim_first None: as vLLM, if it is here, lays it out.
        """
        check = Check("KDARecoverSSMCommitContext.create")
        check.that(len(layers) > 0, "layers", "none", "at least one layer")
        check.that(backend in ("cute", "triton"), "backend", repr(backend), "cute or triton")
        bounds = {layer.gate_lower_bound for layer in layers}
        check.that(len(bounds) == 1, "layers", f"gate bounds {sorted(map(str, bounds))}", "matching gate bounds")
        checkpoints = [layer.kv_cache[1] for layer in layers]
        first = checkpoints[0]
        check.that(first.dim() == 4, "layers", f"a checkpoint of {first.dim()} dimensions", "four-dimensional")
        blocks, H, _, K = first.shape
        check_alike(check, "checkpoints", checkpoints, first.device)
        for layer in layers:
            check.shape("A_log", layer.A_log, (H,), "A_log shape is incompatible")
            check.that(layer.dt_bias.numel() == H * K, "dt_bias", f"{layer.dt_bias.numel()} elements", f"{H * K}: dt_bias shape is incompatible")
        convs = [layer.kv_cache[0] for layer in layers]
        lines, taps = conv_lines(check, convs, spec_query_len, conv_layout(check, conv_dim_first), first.device, blocks)
        made = [
            ops.Layer(
                line=line, line_kind="rolled", conv_taps=taps, state=state, gate="kda", A_log=layer.A_log, dt_bias=layer.dt_bias.view(H, K),
                lower_bound=layer.gate_lower_bound, records=layer.recoverssm_records.row(0, blocks),
            )
            for layer, line, state in zip(layers, lines, checkpoints, strict=True)
        ]  # fmt: skip
        return cls(made, [layer.recoverssm_records for layer in layers], spec_query_len, max_num_reqs)

    def commit_planned(self, group: ops.CommitGroup) -> None:
        blocks = self.layers[0].state.shape[0]
        arrays = {name: getattr(group, name) for name in ("state_indices", "commit_len", "final_indices", "boundary_indices", "boundary_len")}
        # What the one commit of all rows would refuse, before the first row is written: shared blocks, and blocks that are none.
        ops.commit(groups=[group], layers=[], window_capacity=self.spec_query_len)
        live = arrays["commit_len"] > 0
        for name in ("state_indices", "final_indices", "boundary_indices"):
            for block in arrays[name][live].tolist():
                if block >= blocks:
                    raise OutOfRange(f"{self.operation}: {name}: block {block}, expected one below {blocks}")
        for i in range(group.state_indices.shape[0]):
            layers = [replace(layer, records=records.row(i, blocks)) for layer, records in zip(self.layers, self.records, strict=True)]
            row = ops.CommitGroup(**{name: tensor[i : i + 1] for name, tensor in arrays.items()})
            ops.commit(groups=[row], layers=layers, window_capacity=self.spec_query_len)
