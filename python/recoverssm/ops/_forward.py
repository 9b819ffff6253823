"""The operations that run a layer's tokens. Rules common to all of them: `recoverssm.ops`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InvalidArgument
from ._library import call
from ._types import AttentionPlain, AttentionWindows, KdaRecords, Records, gdn_records, record_arguments


def split_projections(
    *,
    qkvz: Tensor,
    ba: Tensor,
    layout: str,
    num_k_heads: int,
    num_v_heads: int,
    head_k_dim: int,
    head_v_dim: int,
    mixed_qkv: Tensor,
    z: Tensor,
    b: Tensor,
    a: Tensor,
    token_index: Tensor | None = None,
) -> None:
    """Splits packed projection rows into the tensors that the other operations take. Moves bits.

    qkvz: [n, 2*H*K + 2*HV*V] T. ba: [n, 2*HV] T.
    layout: "interleaved" (per q/k head [q K, k K, v r*V, z r*V] and [b r, a r], r = HV/H) or "flat" ([q, k, v, z] and [b, a]).
    num_k_heads, num_v_heads, head_k_dim, head_v_dim: H, HV, K, V.
    Written: mixed_qkv [m, C] T with C = 2*H*K + HV*V, channels q, k, v; b, a [m, HV] T; at local rows.
    Written at global rows: z [n, HV, V] T.
    token_index: [tokens] int32, the row of qkvz, ba and z of each token. None: all n rows.
    """
    call("split_projections", "default", {
        "qkvz": qkvz, "ba": ba, "layout": layout, "num_k_heads": num_k_heads, "num_v_heads": num_v_heads,
        "head_k_dim": head_k_dim, "head_v_dim": head_v_dim, "mixed_qkv": mixed_qkv, "z": z, "b": b, "a": a,
        "token_index": token_index,
    })


def causal_conv1d(
    *,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    line: Tensor,
    query_start_loc: Tensor,
    state_indices: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    has_initial_state: Tensor | None = None,
    num_accepted: Tensor | None = None,
    line_kind: str = "rolled",
    token_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """Causal convolution of plain rows: prefill of any length, or decode of one token.

    x: [n, C] T. weight: [C, W] T or float32, W = 2..8. bias: [C] T or float32. activation: None or "silu".
    Written: out [n, C] T, x itself or disjoint from it; line [blocks, cols, C] T, any strides, cols >= W-1: afterwards its positions
    0..W-2 hold the last inputs.
    query_start_loc: [N+1], state_indices: [N] int32, has_initial_state: [N] bool, False starts from zeros.
    num_accepted: [N] int32: the line's last window was never compacted; history is read at max(n-1, 0) of a "rolled" line, at max(n, 0)
    of an "anchored" one, and stands at 0 afterwards.
    token_index: [tokens] int32, the row of x and out of each token.
    """
    _convolution("causal_conv1d", {
        "x": x, "weight": weight, "out": out, "line": line, "query_start_loc": query_start_loc,
        "state_indices": state_indices, "bias": bias, "activation": activation, "has_initial_state": has_initial_state,
        "num_accepted": num_accepted, "line_kind": line_kind, "token_index": token_index, "null_block_id": null_block_id,
    })


def causal_conv1d_window(
    *,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    line: Tensor,
    line_kind: str,
    window_capacity: int,
    query_start_loc: Tensor,
    state_indices: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    num_accepted: Tensor | None = None,
    token_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """Causal convolution of windows of 0..S tokens (window_capacity S).

    Tensors as in causal_conv1d; written: out, line. line_kind "rolled": cols >= W-1 + S-1, the window moves the history and cannot be undone.
    "anchored": cols >= W-1 + S, the history stays in front and the window can be repeated.
    num_accepted: [N] int32, kept tokens of the window before. None: ones for rolled, zeros for anchored lines.
    """
    _convolution("causal_conv1d_window", {
        "x": x, "weight": weight, "out": out, "line": line, "line_kind": line_kind, "window_capacity": window_capacity,
        "query_start_loc": query_start_loc, "state_indices": state_indices, "bias": bias, "activation": activation,
        "num_accepted": num_accepted, "token_index": token_index, "null_block_id": null_block_id,
    })


def _convolution(operation: str, arguments: dict) -> None:
    x, out = arguments["x"], arguments["out"]
    if x is not None and out is not None and _same_view(x, out):
        del arguments["out"]
        call(operation, "inplace", arguments)
    else:
        call(operation, "default", arguments)


def _same_view(x: Tensor, out: Tensor) -> bool:
    if out is x:
        return True
    if torch.compiler.is_compiling() or not isinstance(x, Tensor) or not isinstance(out, Tensor):
        return False  # a traced tensor has no address: there, one tensor is one object
    same = x.device == out.device and x.dtype == out.dtype and x.shape == out.shape and x.stride() == out.stride()
    return same and x.device.type == "cpu" and x.data_ptr() == out.data_ptr()


def gated_delta_rule(
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    out: Tensor,
    query_start_loc: Tensor,
    state_indices: Tensor,
    has_initial_state: Tensor | None = None,
    pending: Tensor | None = None,
    num_accepted: Tensor | None = None,
    records: Records | None = None,
    gate: str = "gdn",
    lower_bound: float | None = None,
    scale: float | None = None,
    l2norm: bool = True,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    token_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """The gated delta rule over plain rows; the final state goes to the row's block.

    q, k: [n, H, K] T, K <= 256. v: [n, HV, V] T, HV a multiple of H. b: [n, HV] T.
    a: gdn [n, HV], kda [n, HV, K], T. A_log: [HV]; dt_bias: gdn [HV], kda [HV, K]; T or float32 each.
    Written: state [blocks, HV, V, K] float32, bfloat16 or float16, a block contiguous; out [m, HV, V] T or float32.
    query_start_loc: [N+1], state_indices: [N] int32. has_initial_state: [N] bool, False starts from a zero state.
    pending, num_accepted, records: the lazy form, given together. min(num_accepted, pending) waiting records are folded into a row's
    state first; every row leaves pending 0 (written).
    lower_bound: kda only, < 0, the bounded gate. scale: of the query, None for 1/sqrt(K).
    token_index: [tokens] int32, the row of out of each token.
    """
    arguments = {
        "q": q, "k": k, "v": v, "a": a, "b": b, "A_log": A_log, "dt_bias": dt_bias, "state": state, "out": out,
        "query_start_loc": query_start_loc, "state_indices": state_indices, "has_initial_state": has_initial_state,
        "pending": pending, "num_accepted": num_accepted, **record_arguments(records), "gate": gate, "lower_bound": lower_bound,
        "scale": scale, "l2norm": l2norm, "softplus_beta": softplus_beta, "softplus_threshold": softplus_threshold,
        "token_index": token_index, "null_block_id": null_block_id,
    }
    call("gated_delta_rule", "default" if pending is None else "lazy", arguments)


def gated_delta_rule_snapshots(
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    out: Tensor,
    query_start_loc: Tensor,
    state_indices: Tensor,
    num_accepted: Tensor,
    gate: str = "gdn",
    lower_bound: float | None = None,
    scale: float | None = None,
    l2norm: bool = True,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    token_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """The gated delta rule over windows, with a state a token.

    Inputs as in gated_delta_rule. state_indices: [N, S] int32. num_accepted: [N] int32.
    A row starts from the block in column max(num_accepted-1, 0); the state after token t goes to the block in column t (state,
    written), unless that id is null.
    """
    call("gated_delta_rule_snapshots", "default", {
        "q": q, "k": k, "v": v, "a": a, "b": b, "A_log": A_log, "dt_bias": dt_bias, "state": state, "out": out,
        "query_start_loc": query_start_loc, "state_indices": state_indices, "num_accepted": num_accepted, "gate": gate,
        "lower_bound": lower_bound, "scale": scale, "l2norm": l2norm, "softplus_beta": softplus_beta,
        "softplus_threshold": softplus_threshold, "token_index": token_index, "null_block_id": null_block_id,
    })


def gated_delta_rule_verify(
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    out: Tensor,
    records: Records,
    query_start_loc: Tensor,
    state_indices: Tensor,
    window_capacity: int,
    pending: Tensor | None = None,
    num_accepted: Tensor | None = None,
    gate: str = "gdn",
    lower_bound: float | None = None,
    scale: float | None = None,
    l2norm: bool = True,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    token_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """The gated delta rule over windows of 0..S tokens (window_capacity S), with records in place of states.

    Inputs as in gated_delta_rule. The state is read, and written only in the lazy form.
    Written: out [m, HV, V]; records of positions t < L: gdn [blocks, HV, S, V+K+1] float32, kda a KdaRecords.
    Lazy form, with pending [blocks] int32 (written) and num_accepted [N] int32, the kept tokens of the window before: min(num_accepted,
    pending) records are folded into the state first, the window's records replace them, pending becomes L.
    """
    arguments = {
        "q": q, "k": k, "v": v, "a": a, "b": b, "A_log": A_log, "dt_bias": dt_bias, "state": state, "out": out,
        **record_arguments(records), "query_start_loc": query_start_loc, "state_indices": state_indices,
        "window_capacity": window_capacity, "pending": pending, "num_accepted": num_accepted, "gate": gate,
        "lower_bound": lower_bound, "scale": scale, "l2norm": l2norm, "softplus_beta": softplus_beta,
        "softplus_threshold": softplus_threshold, "token_index": token_index, "null_block_id": null_block_id,
    }
    kda = isinstance(records, KdaRecords)
    overload = ("kda_lazy" if kda else "lazy") if pending is not None else ("kda" if kda else "default")
    call("gated_delta_rule_verify", overload, arguments)


def short_conv(
    *,
    x: Tensor,
    weight: Tensor,
    dilation: int,
    residual: Tensor,
    line: Tensor,
    line_kind: str,
    window_capacity: int,
    query_start_loc: Tensor,
    state_indices: Tensor,
    outer_residual: Tensor | None = None,
    has_initial_state: Tensor | None = None,
    num_accepted: Tensor | None = None,
    token_index: Tensor | None = None,
    null_block_id: int = 0,
) -> None:
    """Dilated depthwise convolution with residuals.

    x: [n, C] T. weight: [C, Kc] T or float32. History N = (Kc-1)*dilation. outer_residual: [m, C] T.
    Written: residual [m, C] T (without outer_residual: only written); line [blocks, cols, C] T, cols >= N for line_kind "plain",
    N + S-1 "rolled", N + S "anchored".
    has_initial_state [N] bool: plain lines only. num_accepted [N] int32: the other two only.
    token_index: [tokens] int32, the row of x and the residuals of each token.
    """
    call("short_conv", "default", {
        "x": x, "weight": weight, "dilation": dilation, "residual": residual, "line": line, "line_kind": line_kind,
        "window_capacity": window_capacity, "query_start_loc": query_start_loc, "state_indices": state_indices,
        "outer_residual": outer_residual, "has_initial_state": has_initial_state, "num_accepted": num_accepted,
        "token_index": token_index, "null_block_id": null_block_id,
    })


def gdn_attention(
    *,
    qkvz: Tensor,
    ba: Tensor,
    layout: str,
    num_k_heads: int,
    num_v_heads: int,
    head_k_dim: int,
    head_v_dim: int,
    weight: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    line: Tensor,
    line_kind: str,
    state: Tensor,
    out: Tensor,
    z: Tensor,
    plain: AttentionPlain | None = None,
    windows: AttentionWindows | None = None,
    bias: Tensor | None = None,
    activation: str | None = None,
    scale: float | None = None,
    l2norm: bool = True,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    null_block_id: int = 0,
) -> None:
    """One gdn layer of a mixed step: split_projections, convolution and delta rule for plain rows and windows, either may be None.

    Bit for bit the chain of single calls. Shapes as there; written at global rows: out [m, HV, V], z [n, HV, V], for the tokens of all
    rows. Also written: line, state, the windows' records and pending, the plain rows' pending.
    """
    arguments = {
        "qkvz": qkvz, "ba": ba, "layout": layout, "num_k_heads": num_k_heads, "num_v_heads": num_v_heads,
        "head_k_dim": head_k_dim, "head_v_dim": head_v_dim, "weight": weight, "A_log": A_log, "dt_bias": dt_bias,
        "line": line, "line_kind": line_kind, "state": state, "out": out, "z": z,
        "bias": bias, "activation": activation, "scale": scale, "l2norm": l2norm, "softplus_beta": softplus_beta,
        "softplus_threshold": softplus_threshold, "null_block_id": null_block_id,
        "plain_takes_records": False, "plain_takes_pending": False,
    }
    op = "gdn_attention"
    records = pending = None
    if windows is not None:
        _parts_required(op, "windows", windows, ("mode", "query_start_loc", "window_capacity"))
        records, pending = gdn_records(op, "windows.records", windows.records), windows.pending
        if pending is not None and records is None:
            raise InvalidArgument(f"{op}: windows.pending: given, expected none without windows.records")
        arguments.update(
            window_mode=windows.mode,
            window_query_start_loc=windows.query_start_loc,
            window_state_indices=windows.state_indices,
            window_num_accepted=windows.num_accepted,
            window_capacity=windows.window_capacity,
            window_records=records,
            window_pending=pending,
            window_token_index=windows.token_index,
        )
    plain_pending = None
    if plain is not None:
        _parts_required(op, "plain", plain, ("query_start_loc", "state_indices"))
        plain_pending, plain_records = plain.pending, gdn_records(op, "plain.records", plain.records)
        # One tensor that both parts name is passed once.
        takes_records = plain_records is not None and records is not None and _same_view(records, plain_records)
        takes_pending = plain_pending is not None and pending is not None
        if takes_pending and not _same_view(pending, plain_pending):
            raise InvalidArgument(f"{op}: plain.pending: another tensor than windows.pending, expected the same one, or none")
        plain_pending = None if takes_pending else plain_pending
        arguments.update(
            plain_query_start_loc=plain.query_start_loc,
            plain_state_indices=plain.state_indices,
            plain_has_initial_state=plain.has_initial_state,
            plain_num_accepted=plain.num_accepted,
            plain_pending=plain_pending,
            plain_records=None if takes_records else plain_records,
            plain_takes_records=takes_records,
            plain_takes_pending=takes_pending,
            plain_token_index=plain.token_index,
        )
    call(op, _ATTENTION_OVERLOADS[records is not None, pending is not None, plain_pending is not None], arguments)


# By what a call writes beside line, state, out and z: the windows' records, their pending, the plain rows' own pending.
_ATTENTION_OVERLOADS = {
    (False, False, False): "default",
    (True, False, False): "verify",
    (True, True, False): "lazy",
    (False, False, True): "plain_lazy",
    (True, False, True): "plain_lazy_verify",
}


def _parts_required(op: str, part: str, rows: AttentionPlain | AttentionWindows, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(rows, name) is None:
            raise InvalidArgument(f"{op}: {part}.{name}: missing, expected a value")
