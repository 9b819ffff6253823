"""The GDN operations of the vLLM XPU kernels under their own names and argument orders, on top of `recoverssm.ops`.

    from recoverssm.compat import xpu_ops
    xpu_ops.register()  # torch.ops._xpu_C.gdn_attention and the others now are these

num_k_heads and num_v_heads are the model's, tp_size divides them. Rows beyond num_actual_tokens are padding: not read, not written. What the
originals leave open follows the contract: one null rule (a block that is not above null_block_id, 0 unless set), inputs are
never written, windows may be shorter than their table, the intermediates have one layout in prefill and decode, no tensor need be contiguous.

Convolutions: conv_state [blocks, positions, channels], positions >= taps - 1, for windows + num_speculative_tokens; of a table [rows, S] they
touch column 0 only. reorder_input: False for rows packed by q/k head (Qwen3-Next), True for [q | k | v | z] and [b | a] (Qwen3.5).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import ops
from ..errors import BadState, Error
from ._checks import Check

_null_block_id = 0  # of the operations that have no argument for it; register() sets it


def causal_conv1d_non_spec(
    z: Tensor,
    projected_states_qkvz: Tensor,
    projected_states_ba: Tensor,
    num_k_heads: int,
    num_v_heads: int,
    head_k_dim: int,
    head_v_dim: int,
    conv_state: Tensor,
    conv_weights: Tensor,
    conv_bias: Tensor | None,
    activation: str,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    has_initial_state: Tensor | None,
    non_spec_query_start_loc: Tensor,
    non_spec_token_indx: Tensor | None,
    non_spec_state_indices_tensor: Tensor,
    num_actual_tokens: int,
    tp_size: int,
    reorder_input: bool,
) -> list[Tensor]:
    """Splits the projections of plain rows, writes z, runs the convolution. Returns [q, k, v, b, a], one entry a token, in the rows' order.

    z: [>= num_actual_tokens, HV, V], written for the rows' tokens. conv_state: written. non_spec_token_indx: [tokens] int32, None: all.
    """
    check = Check("causal_conv1d_non_spec")
    _check_plain(check, num_prefills + num_decodes, non_spec_query_start_loc, non_spec_state_indices_tensor, has_initial_state)
    split = _split(
        check, z, projected_states_qkvz, projected_states_ba, num_k_heads, num_v_heads, head_k_dim, head_v_dim, non_spec_token_indx,
        num_actual_tokens, tp_size, reorder_input,
    )  # fmt: skip
    ops.causal_conv1d(
        x=split.mixed, out=split.mixed, weight=conv_weights, bias=conv_bias, activation=_activation(check, activation), line=conv_state,
        query_start_loc=non_spec_query_start_loc, state_indices=non_spec_state_indices_tensor, has_initial_state=has_initial_state,
        null_block_id=_null_block_id,
    )  # fmt: skip
    return split.result()


def causal_conv1d_spec(
    z: Tensor,
    projected_states_qkvz: Tensor,
    projected_states_ba: Tensor,
    num_k_heads: int,
    num_v_heads: int,
    head_k_dim: int,
    head_v_dim: int,
    conv_state: Tensor,
    conv_weights: Tensor,
    conv_bias: Tensor | None,
    activation: str,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    spec_query_start_loc: Tensor,
    spec_token_indx: Tensor,
    spec_state_indices_tensor: Tensor,
    num_accepted_tokens: Tensor,
    num_actual_tokens: int,
    tp_size: int,
    reorder_input: bool,
) -> list[Tensor]:
    """The same for windows: spec_state_indices_tensor [rows, S], of which column 0 is used, num_accepted_tokens [rows] of the windows before."""
    check = Check("causal_conv1d_spec")
    window = _check_windows(check, num_spec_decodes, spec_query_start_loc, spec_token_indx, spec_state_indices_tensor, num_accepted_tokens)
    split = _split(
        check, z, projected_states_qkvz, projected_states_ba, num_k_heads, num_v_heads, head_k_dim, head_v_dim, spec_token_indx,
        num_actual_tokens, tp_size, reorder_input,
    )  # fmt: skip
    ops.causal_conv1d_window(
        x=split.mixed, out=split.mixed, weight=conv_weights, bias=conv_bias, activation=_activation(check, activation), line=conv_state,
        line_kind="rolled", window_capacity=window, query_start_loc=spec_query_start_loc, state_indices=spec_state_indices_tensor[:, 0],
        num_accepted=num_accepted_tokens, null_block_id=_null_block_id,
    )  # fmt: skip
    return split.result()


def gated_delta_rule_non_spec(
    core_attn_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    b: Tensor,
    a: Tensor,
    num_v_heads: int,
    head_v_dim: int,
    A_log: Tensor,
    dt_bias: Tensor,
    ssm_state: Tensor,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    has_initial_state: Tensor | None,
    non_spec_query_start_loc: Tensor,
    non_spec_token_indx: Tensor | None,
    non_spec_state_indices_tensor: Tensor,
    num_actual_tokens: int,
    tp_size: int,
) -> None:
    """The delta rule of plain rows on what causal_conv1d_non_spec returned. Written: core_attn_out at the rows' tokens, ssm_state."""
    check = Check("gated_delta_rule_non_spec")
    _check_plain(check, num_prefills + num_decodes, non_spec_query_start_loc, non_spec_state_indices_tensor, has_initial_state)
    ops.gated_delta_rule(
        q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias, state=ssm_state,
        out=_output(check, core_attn_out, num_v_heads, head_v_dim, num_actual_tokens, tp_size), query_start_loc=non_spec_query_start_loc,
        state_indices=non_spec_state_indices_tensor, has_initial_state=has_initial_state, token_index=non_spec_token_indx,
        null_block_id=_null_block_id,
    )  # fmt: skip


def gated_delta_rule_spec(
    core_attn_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    b: Tensor,
    a: Tensor,
    num_v_heads: int,
    head_v_dim: int,
    A_log: Tensor,
    dt_bias: Tensor,
    ssm_state: Tensor,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    spec_query_start_loc: Tensor,
    spec_token_indx: Tensor,
    spec_state_indices_tensor: Tensor,
    num_accepted_tokens: Tensor,
    num_actual_tokens: int,
    tp_size: int,
) -> None:
    """The delta rule of windows, with a state a token: starts from column max(num_accepted - 1, 0), the state after token t goes to column t."""
    check = Check("gated_delta_rule_spec")
    _check_windows(check, num_spec_decodes, spec_query_start_loc, spec_token_indx, spec_state_indices_tensor, num_accepted_tokens)
    ops.gated_delta_rule_snapshots(
        q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias, state=ssm_state,
        out=_output(check, core_attn_out, num_v_heads, head_v_dim, num_actual_tokens, tp_size), query_start_loc=spec_query_start_loc,
        state_indices=spec_state_indices_tensor, num_accepted=num_accepted_tokens, token_index=spec_token_indx, null_block_id=_null_block_id,
    )  # fmt: skip


def gated_delta_rule_spec_recoverssm(
    core_attn_out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    b: Tensor,
    a: Tensor,
    num_v_heads: int,
    head_v_dim: int,
    A_log: Tensor,
    dt_bias: Tensor,
    ssm_state: Tensor,
    replay_state: Tensor,
    num_spec_decodes: int,
    spec_query_start_loc: Tensor,
    spec_token_indx: Tensor | None,
    spec_state_indices_tensor: Tensor,
    null_block_id: int,
    num_actual_tokens: int,
    tp_size: int,
) -> None:
    """The delta rule of windows, with records: one block a row, ssm_state is read only, replay_state [blocks, HV, S, V+K+1] float32 written."""
    check = Check("gated_delta_rule_spec_recoverssm")
    check.that(num_spec_decodes > 0, "num_spec_decodes", num_spec_decodes, "a number above 0")
    check.shape("spec_query_start_loc", spec_query_start_loc, (num_spec_decodes + 1,), "[num_spec_decodes + 1]")
    check.shape("spec_state_indices_tensor", spec_state_indices_tensor, (num_spec_decodes,), "[num_spec_decodes]")
    check.that(replay_state.dim() == 4, "replay_state", f"{replay_state.dim()} dimensions", "[blocks, HV, S, V+K+1]")
    ops.gated_delta_rule_verify(
        q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias, state=ssm_state, records=replay_state, window_capacity=replay_state.shape[2],
        out=_output(check, core_attn_out, num_v_heads, head_v_dim, num_actual_tokens, tp_size), query_start_loc=spec_query_start_loc,
        state_indices=spec_state_indices_tensor, token_index=spec_token_indx, null_block_id=null_block_id,
    )  # fmt: skip


def gdn_attention(
    core_attn_out: Tensor,
    z: Tensor,
    projected_states_qkvz: Tensor,
    projected_states_ba: Tensor,
    num_k_heads: int,
    num_v_heads: int,
    head_k_dim: int,
    head_v_dim: int,
    conv_state: Tensor,
    ssm_state: Tensor,
    conv_weights: Tensor,
    conv_bias: Tensor | None,
    activation: str,
    A_log: Tensor,
    dt_bias: Tensor,
    num_prefills: int,
    num_decodes: int,
    num_spec_decodes: int,
    has_initial_state: Tensor | None,
    non_spec_query_start_loc: Tensor | None,
    non_spec_token_indx: Tensor | None,
    non_spec_state_indices_tensor: Tensor | None,
    spec_query_start_loc: Tensor | None,
    spec_token_indx: Tensor | None,
    spec_state_indices_tensor: Tensor | None,
    num_accepted_tokens: Tensor | None,
    num_actual_tokens: int,
    tp_size: int,
    reorder_input: bool,
) -> None:
    """One layer of a mixed step: the chains above for plain rows and for windows, bit for bit, either may be absent."""
    check = Check("gdn_attention")
    plain = windows = None
    rows = num_prefills + num_decodes
    if rows > 0:
        check.that(non_spec_query_start_loc is not None, "non_spec_query_start_loc", "None", f"[{rows + 1}]")
        check.that(non_spec_state_indices_tensor is not None, "non_spec_state_indices_tensor", "None", f"[{rows}]")
        _check_plain(check, rows, non_spec_query_start_loc, non_spec_state_indices_tensor, has_initial_state)
        plain = ops.AttentionPlain(
            query_start_loc=non_spec_query_start_loc, state_indices=non_spec_state_indices_tensor, has_initial_state=has_initial_state,
            token_index=non_spec_token_indx,
        )  # fmt: skip
    if num_spec_decodes > 0:
        named = {
            "spec_query_start_loc": spec_query_start_loc, "spec_token_indx": spec_token_indx,
            "spec_state_indices_tensor": spec_state_indices_tensor, "num_accepted_tokens": num_accepted_tokens,
        }  # fmt: skip
        for name, tensor in named.items():
            check.that(tensor is not None, name, "None", "a tensor beside num_spec_decodes > 0")
        window = _check_windows(check, num_spec_decodes, *named.values())
        windows = ops.AttentionWindows(
            mode="snapshots", query_start_loc=spec_query_start_loc, state_indices=spec_state_indices_tensor, window_capacity=window,
            num_accepted=num_accepted_tokens, token_index=spec_token_indx,
        )  # fmt: skip
    H, HV = _heads(check, num_k_heads, num_v_heads, tp_size)
    check.that(plain is not None or windows is not None, "num_prefills", "no rows at all", "num_prefills + num_decodes or num_spec_decodes > 0")
    _check_padded(check, {"z": z, "projected_states_qkvz": projected_states_qkvz, "projected_states_ba": projected_states_ba}, num_actual_tokens)
    ops.gdn_attention(
        qkvz=projected_states_qkvz[:num_actual_tokens], ba=projected_states_ba[:num_actual_tokens], layout=_layout(reorder_input),
        num_k_heads=H, num_v_heads=HV, head_k_dim=head_k_dim, head_v_dim=head_v_dim, weight=conv_weights, bias=conv_bias,
        activation=_activation(check, activation), A_log=A_log, dt_bias=dt_bias, line=conv_state, line_kind="rolled", state=ssm_state,
        out=_output(check, core_attn_out, num_v_heads, head_v_dim, num_actual_tokens, tp_size), z=z[:num_actual_tokens],
        plain=plain, windows=windows, null_block_id=_null_block_id,
    )  # fmt: skip


OPERATIONS: tuple[Callable[..., Any], ...] = (
    causal_conv1d_non_spec,
    causal_conv1d_spec,
    gated_delta_rule_non_spec,
    gated_delta_rule_spec,
    gated_delta_rule_spec_recoverssm,
    gdn_attention,
)
_WRITTEN = ("z", "conv_state", "core_attn_out", "ssm_state", "replay_state")
_READ = {gated_delta_rule_spec_recoverssm: ("ssm_state",)}  # of these names


class _Split(NamedTuple):
    """The split projections of one convolution stage."""

    mixed: Tensor  # [tokens, C], the convolution's input and output
    b: Tensor
    a: Tensor
    z: Tensor  # the caller's, for the tokens in use
    gate: Tensor  # what goes to z once the convolution has not refused the call
    token_indx: Tensor | None
    heads: tuple[tuple[int, int], ...]  # of q, k, v

    def result(self) -> list[Tensor]:
        if self.token_indx is None:
            self.z.copy_(self.gate)
        else:
            rows = self.token_indx.long()
            self.z[rows] = self.gate[rows]
        parts = self.mixed.split([heads * dim for heads, dim in self.heads], 1)
        # Tensors of their own: what an operation returns must not share memory.
        qkv = [part.unflatten(1, heads).clone(memory_format=torch.contiguous_format) for part, heads in zip(parts, self.heads, strict=True)]
        return [*qkv, self.b, self.a]


def _split(
    check: Check, z: Tensor, qkvz: Tensor, ba: Tensor, num_k_heads: int, num_v_heads: int, K: int, V: int, token_indx: Tensor | None,
    num_actual_tokens: int, tp_size: int, reorder_input: bool,
) -> _Split:  # fmt: skip
    H, HV = _heads(check, num_k_heads, num_v_heads, tp_size)
    _check_padded(check, {"z": z, "projected_states_qkvz": qkvz, "projected_states_ba": ba}, num_actual_tokens)
    check.shape("z", z, (z.shape[0], HV, V), "[tokens, num_v_heads / tp_size, head_v_dim]")
    tokens = num_actual_tokens if token_indx is None else token_indx.shape[0]
    check.that(tokens > 0, "token_indx", "no tokens", "at least one token")
    z = z[:num_actual_tokens]
    mixed = qkvz.new_empty(tokens, 2 * H * K + HV * V)
    b, a = (ba.new_empty(tokens, HV) for _ in range(2))
    gate = torch.empty_like(z)
    ops.split_projections(
        qkvz=qkvz[:num_actual_tokens], ba=ba[:num_actual_tokens], layout=_layout(reorder_input), num_k_heads=H, num_v_heads=HV, head_k_dim=K,
        head_v_dim=V, mixed_qkv=mixed, z=gate, b=b, a=a, token_index=token_indx,
    )  # fmt: skip
    return _Split(mixed, b, a, z, gate, token_indx, ((H, K), (H, K), (HV, V)))


def _check_plain(check: Check, rows: int, offsets: Tensor, ids: Tensor, has_initial_state: Tensor | None) -> None:
    """rows: num_prefills + num_decodes."""
    check.that(rows > 0, "num_prefills", f"{rows} rows with num_decodes", "num_prefills + num_decodes > 0")
    check.shape("non_spec_query_start_loc", offsets, (rows + 1,), "[num_prefills + num_decodes + 1]")
    check.shape("non_spec_state_indices_tensor", ids, (rows,), "[num_prefills + num_decodes]")
    if has_initial_state is not None:
        check.shape("has_initial_state", has_initial_state, (rows,), "[num_prefills + num_decodes]")


def _check_windows(check: Check, rows: int, offsets: Tensor, token_indx: Tensor, table: Tensor, num_accepted: Tensor) -> int:
    """Returns S, the width of the table."""
    check.that(rows > 0, "num_spec_decodes", rows, "a number above 0")
    check.shape("spec_query_start_loc", offsets, (rows + 1,), "[num_spec_decodes + 1]")
    right = table.dim() == 2 and table.shape[0] == rows and table.shape[1] > 0
    check.that(right, "spec_state_indices_tensor", f"shape {list(table.shape)}", f"[{rows}, num_speculative_tokens + 1]")
    check.shape("num_accepted_tokens", num_accepted, (rows,), "[num_spec_decodes]")
    check.that(token_indx.dim() == 1 and token_indx.shape[0] > 0, "spec_token_indx", f"shape {list(token_indx.shape)}", "[spec tokens]")
    return table.shape[1]


def _check_padded(check: Check, tensors: dict[str, Tensor], num_actual_tokens: int) -> None:
    for name, tensor in tensors.items():
        check.that(tensor.shape[0] >= num_actual_tokens, name, f"{tensor.shape[0]} rows", f"at least num_actual_tokens = {num_actual_tokens}")


def _heads(check: Check, num_k_heads: int, num_v_heads: int, tp_size: int) -> tuple[int, int]:
    right = tp_size > 0 and num_k_heads % tp_size == 0 and num_v_heads % tp_size == 0
    check.that(right, "tp_size", tp_size, f"a divisor of num_k_heads = {num_k_heads} and num_v_heads = {num_v_heads}")
    return num_k_heads // tp_size, num_v_heads // tp_size


def _output(check: Check, out: Tensor, num_v_heads: int, head_v_dim: int, num_actual_tokens: int, tp_size: int) -> Tensor:
    check.that(tp_size > 0 and num_v_heads % tp_size == 0, "tp_size", tp_size, f"a divisor of num_v_heads = {num_v_heads}")
    _check_padded(check, {"core_attn_out": out}, num_actual_tokens)
    check.shape("core_attn_out", out, (out.shape[0], num_v_heads // tp_size, head_v_dim), "[tokens, num_v_heads / tp_size, head_v_dim]")
    return out[:num_actual_tokens]


def _activation(check: Check, activation: str) -> str:
    check.that(activation in ("silu", "swish"), "activation", repr(activation), "silu or swish")
    return "silu"


def _layout(reorder_input: bool) -> str:
    return "flat" if reorder_input else "interleaved"


def schema_of(operation: Callable[..., Any]) -> str:
    """The schema under which register() defines an operation: names, order and which tensors are written."""
    words = {"Tensor": "Tensor", "Tensor | None": "Tensor?", "int": "int", "str": "str", "bool": "bool"}
    arguments, marks = [], iter("abcdefgh")
    written = set(_WRITTEN) - set(_READ.get(operation, ()))
    for name, parameter in inspect.signature(operation).parameters.items():
        word = words[parameter.annotation]
        arguments.append(f"{f'Tensor({next(marks)}!)' if name in written else word} {name}")
    returned = "Tensor[]" if inspect.signature(operation).return_annotation != "None" else "()"
    return f"{operation.__name__}({', '.join(arguments)}) -> {returned}"


_library: torch.library.Library | None = None


def register(namespace: str = "_xpu_C", *, null_block_id: int = 0) -> None:
    """Defines torch.ops.NAMESPACE.* for tensors on the CPU, so that code written against the kernels' operations calls these.

    null_block_id: the highest id that is no block, of the operations without such an argument. The XPU kernels' convolutions have -1 there:
    code that keeps a request in block 0 needs it. May be called again with another one. Errors of a registered operation are
    RuntimeErrors with the text of this library's, as they are there.

    Raises BadState where the namespace has one of the operations already: the kernels themselves are loaded.
    """
    global _library, _null_block_id
    if _library is None:
        taken = [operation.__name__ for operation in OPERATIONS if hasattr(getattr(torch.ops, namespace), operation.__name__)]
        if taken:
            raise BadState(f"xpu_ops.register: namespace: {namespace} has {', '.join(taken)}, expected none of the operations")
        library = torch.library.Library(namespace, "FRAGMENT")
        for operation in OPERATIONS:
            library.define(schema_of(operation))
            library.impl(operation.__name__, _with_runtime_errors(operation), "CPU")
        _library = library
    _null_block_id = null_block_id


def _with_runtime_errors(operation: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            with torch.no_grad():
                return operation(*arguments, **named)
        except Error as error:
            raise RuntimeError(f"[recoverssm.{error.kind}] {error}") from error

    return call
