"""Captures against transformers' own PyTorch functions: convolution and delta rule of every row, recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from ._buffer import Buffer, view
from ._file import Trace
from ._repack import pack, part_sizes
from ._summary import rows_of
from .replay import execute

import torch  # isort: skip

try:
    from transformers.models.kimi_linear.modeling_kimi_linear import recurrent_kimi_delta_attention
    from transformers.models.qwen3_next.modeling_qwen3_next import causal_conv1d_update, torch_recurrent_gated_delta_rule
except ImportError as error:
    raise ImportError(f"recoverssm.trace diff needs transformers 5.24 or later with PyTorch: {error}") from error

_RULES = ("gated_delta_rule", "gated_delta_rule_verify")
_CONVOLUTIONS = ("causal_conv1d", "causal_conv1d_window")


@dataclass
class Class:
    """Rows of one kind and length. worst: largest |got - want|; far: rows with an element beyond the tolerance; accepted: of the rows that
    name a count, of commit_plan's, and what a commit keeps of the window that the captures before it have in that block."""

    rows: int = 0
    worst: float = 0.0
    far: int = 0
    accepted: list[int] = field(default_factory=list)


@dataclass
class Summary:
    """classes: by kind ("plain", "window") and length in tokens. left_out: why calls were not recomputed, and how many."""

    classes: dict[tuple[str, int], Class] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    last_window: dict[int, int] = field(default_factory=dict)  # block -> tokens of its last verified window

    @property
    def ok(self) -> bool:
        """Nothing was too far, and something was recomputed."""
        return not any(one.far for one in self.classes.values()) and any(one.rows for one in self.classes.values())

    def text(self) -> str:
        lines = [f"{'rows':8} {'length':>6} {'number':>6} {'worst':>10} {'far':>5}  accepted"]
        for (kind, length), one in sorted(self.classes.items()):
            accepted = f"{min(one.accepted)}..{max(one.accepted)}" if one.accepted else "-"
            lines.append(f"{kind:8} {length:6} {one.rows:6} {one.worst:10.3g} {one.far:5}  {accepted}")
        return "\n".join(lines + [f"left out: {count} x {reason}" for reason, count in self.left_out.items()])


def diff(traces: Iterable[Trace], *, atol: float = 2e-2, rtol: float = 2e-2) -> Summary:
    """Recomputes rows of causal_conv1d, gated_delta_rule, their window forms (verify) and gdn_attention, and compares the outputs, of plain
    rows of a rule the final state too: |got - want| <= atol + rtol * |want|. Captures of one call each, in the order of the run."""
    summary = Summary()
    for trace in traces:
        for call in trace.document["calls"]:
            _call(summary, trace, call, atol, rtol)
    return summary


def _call(summary: Summary, trace: Trace, call: dict[str, Any], atol: float, rtol: float) -> None:
    op, before = call["op"], trace.buffers()
    if call.get("error"):
        summary.left_out["refused calls"] += 1
        return
    if len(trace.document["calls"]) != 1:
        raise InvalidArgument(f"diff: {trace.name}: {len(trace.document['calls'])} calls, expected a capture of one")
    parts = list(rows_of(call, before))
    if op in ("commit_plan", "commit_plan_groups"):
        for rows in parts:
            for i, length in enumerate(rows.lengths if rows.accepted is not None else ()):
                _class(summary, rows.kind, length).accepted.append(int(rows.accepted[i]))
        return
    if op == "commit":
        for group in call["args"]["groups"]:
            blocks, kept = view(before, group["state_indices"]), view(before, group["commit_len"])
            for block, count in zip(blocks.tolist(), kept.tolist(), strict=True):
                if block in summary.last_window:
                    _class(summary, "window", summary.last_window[block]).accepted.append(count)
    reason = _not_recomputed(op, call["args"])
    if reason is not None:
        summary.left_out[reason] += 1
        return
    after = execute(trace)
    for rows in parts:
        windows = rows.kind == "window"
        args = {**call["args"], **(call["args"]["windows" if windows else "plain"] if op == "gdn_attention" else {})}
        null = args.get("null_block_id") or 0
        layer = _Layer(op, args, before, after)
        for i, length in enumerate(rows.lengths):
            if length == 0 or rows.blocks[i] <= null:
                continue
            one = _class(summary, rows.kind, length)
            one.rows += 1
            if windows and op != "causal_conv1d_window":
                summary.last_window[int(rows.blocks[i])] = int(length)
            if rows.accepted is not None:
                one.accepted.append(int(rows.accepted[i]))
            far = False
            for got, want in layer.row(i, int(rows.blocks[i]), windows):
                error = (got.double() - want.double()).abs()
                one.worst = max(one.worst, float(error.max()))
                far |= not bool((error <= atol + rtol * want.double().abs()).all())
            one.far += far


def _class(summary: Summary, kind: str, length: int) -> Class:
    return summary.classes.setdefault((kind, int(length)), Class())


def _not_recomputed(op: str, args: dict[str, Any]) -> str | None:
    if op not in (*_RULES, *_CONVOLUTIONS, "gdn_attention"):
        return f"{op}: transformers has no such function"
    if args.get("lower_bound") is not None:
        return f"{op}: transformers has no bounded gate"
    parts = [part for part in (args.get("plain"), args.get("windows")) if part] or [args]
    if any(part.get("pending") for part in parts):
        return f"{op}: records wait in its blocks (lazy)"
    if any(part.get("mode") == "snapshots" for part in parts):
        return f"{op}: snapshots"
    return None


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array).astype(np.float32))


class _Layer:
    """One call's rows through transformers' functions, in float32."""

    def __init__(self, op: str, args: dict[str, Any], before: dict[str, Buffer], after: dict[str, Buffer]) -> None:
        self.op, self.args, self.before, self.after = op, args, before, after
        self.offsets = view(before, args["query_start_loc"])
        self.index = view(before, args["token_index"]) if args.get("token_index") else None
        if op == "gdn_attention":
            self.parts = {}
            for name, sizes in part_sizes(args).items():
                rows = view(before, args[name])
                flat = pack(rows, sizes, args["num_k_heads"], "flat") if args["layout"] == "interleaved" else rows
                self.parts[name] = np.split(flat, np.cumsum(sizes)[:-1], 1)

    def get(self, name: str, *, after: bool = False) -> np.ndarray | None:
        return view(self.after if after else self.before, self.args[name]) if self.args.get(name) else None

    def row(self, i: int, block: int, windows: bool) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs of what the operation gave and what transformers gives."""
        local = np.arange(self.offsets[i], self.offsets[i + 1])
        everywhere = local if self.index is None else self.index[local]
        if self.op in _CONVOLUTIONS:
            yield _tensor(self.get("out", after=True)[everywhere]), self._convolved(i, block, self.get("x")[everywhere])
            return
        if self.op == "gdn_attention":
            q, k, v, _ = self.parts["qkvz"]
            packed = self._convolved(i, block, np.concatenate([q, k, v], 1)[everywhere])
            heads = [(self.args["num_k_heads"], self.args["head_k_dim"])] * 2 + [(self.args["num_v_heads"], self.args["head_v_dim"])]
            pieces = packed.split([h * size for h, size in heads], 1)
            q, k, v = (piece.reshape(-1, *head) for piece, head in zip(pieces, heads, strict=True))
            b, a = (_tensor(part[everywhere]) for part in self.parts["ba"])
        else:
            q, k, v, a, b = (_tensor(self.get(name)[local]) for name in "qkvab")
        out, final = self._rule(i, block, q, k, v, a, b)
        yield _tensor(self.get("out", after=True)[everywhere]), out
        if not windows:
            yield _tensor(self.get("state", after=True)[block]), final

    def _starts_from_zero(self, i: int) -> bool:
        given = self.get("has_initial_state")
        return given is not None and not given[i]

    def _convolved(self, i: int, block: int, x: np.ndarray) -> torch.Tensor:
        weight, bias, accepted = _tensor(self.get("weight")), self.get("bias"), self.get("num_accepted")
        start = 0 if accepted is None else max(int(accepted[i]) - (self.args.get("line_kind") != "anchored"), 0)
        history = _tensor(self.get("line")[block, start : start + weight.shape[1] - 1])
        if self._starts_from_zero(i):
            history.zero_()
        columns = _tensor(x).T[None], history.T[None].contiguous()
        return causal_conv1d_update(*columns, weight, None if bias is None else _tensor(bias), self.args.get("activation"))[0].T

    def _rule(self, i: int, block: int, *tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v, a, b = (token[None] for token in tokens)
        args = self.args
        kda = args.get("gate") == "kda"
        A_log, dt_bias = _tensor(self.get("A_log")), _tensor(self.get("dt_bias"))
        beta, threshold = args.get("softplus_beta"), args.get("softplus_threshold")
        soft = torch.nn.functional.softplus(a + dt_bias, 1.0 if beta is None else beta, 20.0 if threshold is None else threshold)
        g = -A_log.exp().reshape(-1, *[1] * kda) * soft
        # transformers scales queries by 1/sqrt(K); outputs are linear in them.
        factor = 1.0 if args.get("scale") is None else args["scale"] * q.shape[-1] ** 0.5
        norm = args.get("l2norm") is not False
        state = _tensor(self.get("state")[block]).transpose(1, 2)[None].contiguous()
        if self._starts_from_zero(i):
            state.zero_()
        function = recurrent_kimi_delta_attention if kda else torch_recurrent_gated_delta_rule
        if kda and q.shape[2] != v.shape[2]:
            q, k = (part.repeat_interleave(v.shape[2] // part.shape[2], 2) for part in (q, k))
        out, final = function(q, k, v, g=g, beta=b.sigmoid(), initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=norm)
        return out[0] * factor, final[0].transpose(1, 2)
