"""Verify of GDN layers."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import ops
from .._checks import Check


def gdn_recoverssm_verify(
    A_log: Tensor,
    a: Tensor,
    b: Tensor,
    dt_bias: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    checkpoint_state: Tensor,
    replay_cache: Tensor,
    query_start_loc: Tensor,
    state_indices: Tensor,
    spec_query_len: int,
    scale: float | None = None,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    use_qk_l2norm_in_kernel: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Runs windows off their checkpoints, which stay as they are, and writes their records. Returns out.

    q, k: [1, T, H, K]; v: [1, T, HV, V]; a, b: [T, HV] or [1, T, HV]; A_log, dt_bias: [HV]; heads contiguous, token strides free.
    checkpoint_state: [blocks, HV, V, K]; replay_cache: [blocks, HV, spec_query_len, V+K+1] float32: correction, key, decay.
    query_start_loc: [N+1], state_indices: [N] int32. out: [1, T, HV, V], made if None. Blocks <= 0 are null rows: outputs 0, nothing else.
    """
    check = Check("gdn_recoverssm_verify")
    check.that(q.dim() == 4 and q.shape[0] == 1, "q", f"shape {list(q.shape)}", "[1, tokens, heads, dim]")
    _, tokens, H, K = q.shape
    check.shape("k", k, tuple(q.shape), "that of q")
    check.that(v.dim() == 4 and tuple(v.shape[:2]) == (1, tokens), "v", f"shape {list(v.shape)}", f"[1, {tokens}, value heads, dim]")
    HV, V = v.shape[2:]
    check.that(H > 0 and HV >= H and HV % H == 0, "v", f"{HV} value heads", f"a positive multiple of the {H} q/k heads")
    for name, tensor in (("a", a), ("b", b)):
        check.that(tensor.numel() == tokens * HV, name, f"shape {list(tensor.shape)}", f"[{tokens}, {HV}]: gate or beta shape is incompatible")
    check.shape("A_log", A_log, (HV,))
    check.shape("dt_bias", dt_bias, (HV,))
    blocks = check_windows(check, checkpoint_state, (HV, V, K), query_start_loc, state_indices, tokens, spec_query_len)
    check.shape("replay_cache", replay_cache, (blocks, HV, spec_query_len, V + K + 1), "the replay buffer")
    check.that(replay_cache.dtype == torch.float32, "replay_cache", replay_cache.dtype, "torch.float32: the replay buffer")
    check.same_device([
        ("q", q), ("k", k), ("v", v), ("a", a), ("b", b), ("A_log", A_log), ("dt_bias", dt_bias), ("checkpoint_state", checkpoint_state),
        ("replay_cache", replay_cache), ("query_start_loc", query_start_loc), ("state_indices", state_indices), ("out", out),
    ])  # fmt: skip
    if out is None:
        out = torch.empty(1, tokens, HV, V, dtype=v.dtype, device=v.device)
    check.shape("out", out, (1, tokens, HV, V), "output shape or layout is incompatible")
    ops.gated_delta_rule_verify(
        q=q[0], k=k[0], v=v[0], a=a.view(tokens, HV), b=b.view(tokens, HV), A_log=A_log, dt_bias=dt_bias, state=checkpoint_state,
        out=out[0], records=replay_cache, query_start_loc=query_start_loc, state_indices=state_indices, window_capacity=spec_query_len,
        scale=scale, l2norm=use_qk_l2norm_in_kernel, softplus_beta=softplus_beta, softplus_threshold=softplus_threshold,
    )  # fmt: skip
    return out


def check_windows(
    check: Check, state: Tensor, inner: tuple[int, ...], query_start_loc: Tensor, state_indices: Tensor, tokens: int, spec_query_len: int
) -> int:
    """What verify of both gates asks of checkpoints and rows. Returns the number of blocks."""
    check.that(state.dim() == 4, "checkpoint_state", f"{state.dim()} dimensions", "four-dimensional")
    check.shape("checkpoint_state", state, (state.shape[0], *inner), "checkpoint shape is incompatible")
    check.that(state_indices.dim() == 1, "state_indices", f"{state_indices.dim()} dimensions", "one-dimensional")
    rows = state_indices.shape[0]
    check.shape("query_start_loc", query_start_loc, (rows + 1,), "query metadata is incompatible")
    check.that(
        tokens <= rows * spec_query_len, "q", f"{tokens} tokens",
        f"at most {rows} windows of {spec_query_len}: the input exceeds its activation capacity",
    )  # fmt: skip
    return state.shape[0]
