"""The cache of one recurrent layer: one state a sequence, and records of the tokens that may still be cropped."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import LinearAttentionLayer

from .. import ops
from ._mixers import Geometry

# Room for so many tokens stays from window to window. A longer one is mostly the end of a prompt, and its room goes back at the crop.
_KEPT_ROOM = 16


@dataclass(frozen=True)
class LayerWeights:
    """What the recurrent part of a layer computes with."""

    geometry: Geometry
    gate: str  # "gdn" or "kda"
    conv_weight: Tensor  # [C, W]
    conv_bias: Tensor | None  # [C]
    A_log: Tensor  # [HV]
    dt_bias: Tensor  # [HV], kda: [HV, K]


class RecoverableLayer(LinearAttentionLayer):
    """A linear attention layer that can be cropped. Sequence i of the batch has block i of every pool.

    While the past is not recorded, tokens go through the plain operations into `state`. While it is (transformers asks for it with
    `activate_past_recording`), the last `max_window` tokens wait as records, `state` stands before them, and `crop` commits those that
    are kept. A forward that comes while tokens wait runs them again: a state and its records have no state of their waiting tokens.
    """

    def __init__(self, number_of_states: int = 1, max_window: int = 65):
        super().__init__(number_of_states=number_of_states)
        self.max_window = max_window
        self.waiting = 0  # tokens behind `state`
        self.weights: LayerWeights | None = None
        self.state: Tensor | None = None  # [batch, HV, V, K] float32
        self.line: Tensor | None = None  # [batch, W-1 + S, C] T, anchored: history, then the raw inputs of waiting tokens
        self.records: ops.Records | None = None  # of S tokens
        self.gates: tuple[Tensor, Tensor] | None = None  # a and b of waiting tokens, [batch, waiting, ...]

    # --- What a mixer calls ---

    def run(self, weights: LayerWeights, qkv: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Convolution and delta rule of the next tokens. qkv: [batch, L, C], a: [batch, L, ...], b: [batch, L, HV]; [batch, L, HV, V]."""
        self.weights = weights
        if self.state is None:
            self._allocate(qkv)
        if len(qkv) != len(self.state):
            raise ValueError(f"recoverssm: a batch of {len(qkv)}, but the cache holds {len(self.state)} sequences")
        self.has_previous_state[0] = True
        if not self.record_past:
            return self._plain(qkv, a, b)
        new = qkv.shape[1]
        if self.waiting:
            # Tokens that cannot be cropped any more leave the window for good; those that can run again with the new ones.
            leaving = min(self.waiting, max(0, self.waiting + new - self.max_window))
            first = weights.geometry.W - 1
            again = self.line[:, first + leaving : first + self.waiting].clone()
            a, b = (torch.cat([old[:, leaving:], more], 1) for old, more in zip(self.gates, (a, b), strict=True))
            self._commit(leaving)
            qkv = torch.cat([again, qkv], 1)
        ahead = max(0, qkv.shape[1] - self.max_window)
        parts = [self._plain(qkv[:, :ahead], a[:, :ahead], b[:, :ahead])] if ahead else []
        parts.append(self._window(qkv[:, ahead:], a[:, ahead:], b[:, ahead:]))
        return torch.cat(parts, 1)[:, -new:]

    # --- What transformers calls ---

    @property
    def is_croppable(self) -> bool:
        return True

    @property
    def is_compileable(self) -> bool:
        return False

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last -tokens_to_remove tokens (<= 0) and commits the others that wait."""
        if not self.record_past:
            raise RuntimeError("recoverssm: crop needs activate_past_recording before the forward whose tokens it removes")
        if not 0 <= -tokens_to_remove <= self.waiting:
            raise ValueError(
                f"recoverssm: crop({tokens_to_remove}), but {self.waiting} tokens can be removed; "
                "more are kept by a larger max_drafts of recoverssm.transformers.enable"
            )
        window = self.waiting
        self._commit(window + tokens_to_remove)
        if window > _KEPT_ROOM:
            self.records = None
            self.line = self.line[:, : self.weights.geometry.W - 1].clone()

    def reset(self) -> None:
        self.waiting, self.gates = 0, None
        self.has_previous_state[0] = False
        if self.state is not None:
            self.state.zero_()
            self.line.zero_()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._select(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.state is not None:
            self._select(torch.arange(len(self.state)).repeat_interleave(repeats))

    def offload(self) -> None:
        self._move("cpu")

    def prefetch(self) -> None:
        self._move(self.device)

    def update_conv_state(self, *args, **kwargs):
        raise RuntimeError("recoverssm: this cache belongs to a model with recoverssm.transformers.enable; start a new one after disable")

    update_recurrent_state = update_conv_state

    # --- How ---

    def _allocate(self, qkv: Tensor) -> None:
        _, HV, K, V, W = self.weights.geometry
        batch = len(qkv)
        self.device, self.dtype = qkv.device, qkv.dtype
        self.state = torch.zeros(batch, HV, V, K, dtype=torch.float32, device=self.device)
        self.line = torch.zeros(batch, W - 1, self.weights.geometry.channels, dtype=self.dtype, device=self.device)
        # What a reader of the cache expects to find: the state, in transformers' order of dimensions.
        self.recurrent_states[0] = self.state.transpose(-1, -2)
        self.conv_kernel_size[0] = W

    def _reserve(self, window: int) -> None:
        """Room for a window in line and records."""
        _, HV, K, V, W = self.weights.geometry
        batch, cols, channels = self.line.shape
        if cols < W - 1 + window:
            line = self.line.new_zeros(batch, W - 1 + window, channels)
            line[:, :cols] = self.line
            self.line = line
        room = 0 if self.records is None else (self.records[0] if self.weights.gate == "kda" else self.records).shape[2]
        if room < window:
            floats = {"dtype": torch.float32, "device": self.device}
            if self.weights.gate == "kda":
                self.records = ops.KdaRecords(
                    corrections=torch.empty(batch, HV, window, V, **floats),
                    key_gate=torch.empty(batch, HV, window, 2 * K, dtype=self.dtype, device=self.device),
                )
            else:
                self.records = torch.empty(batch, HV, window, V + K + 1, **floats)

    def _rows(self, tokens: int) -> dict:
        batch = len(self.state)
        return {
            "query_start_loc": torch.arange(0, (batch + 1) * tokens, tokens, dtype=torch.int32, device=self.device),
            "state_indices": torch.arange(batch, dtype=torch.int32, device=self.device),
            "null_block_id": -1,
        }

    def _plain(self, qkv: Tensor, a: Tensor, b: Tensor) -> Tensor:
        rows = self._rows(qkv.shape[1])
        mixed, inputs = self._inputs(qkv, a, b)
        ops.causal_conv1d(**mixed, line=self.line, line_kind="anchored", **rows)
        ops.gated_delta_rule(**inputs, state=self.state, **rows)
        return inputs["out"].unflatten(0, qkv.shape[:2])

    def _window(self, qkv: Tensor, a: Tensor, b: Tensor) -> Tensor:
        tokens = qkv.shape[1]
        self._reserve(tokens)
        rows = {**self._rows(tokens), "window_capacity": self._capacity()}
        mixed, inputs = self._inputs(qkv, a, b)
        ops.causal_conv1d_window(**mixed, line=self.line, line_kind="anchored", **rows)
        ops.gated_delta_rule_verify(**inputs, state=self.state, records=self.records, **rows)
        self.waiting, self.gates = tokens, (a, b)
        return inputs["out"].unflatten(0, qkv.shape[:2])

    def _capacity(self) -> int:
        return (self.records[0] if self.weights.gate == "kda" else self.records).shape[2]

    def _inputs(self, qkv: Tensor, a: Tensor, b: Tensor) -> tuple[dict, dict]:
        """Arguments of the convolution, and of the rule, which reads the convolution's output."""
        H, HV, K, V, _ = self.weights.geometry
        x = qkv.flatten(0, 1)
        mixed = torch.empty_like(x)
        conv = {"x": x, "out": mixed, "weight": self.weights.conv_weight, "bias": self.weights.conv_bias, "activation": "silu"}
        q, k, v = mixed.split([H * K, H * K, HV * V], dim=-1)
        rule = {
            "q": q.unflatten(-1, (H, K)),
            "k": k.unflatten(-1, (H, K)),
            "v": v.unflatten(-1, (HV, V)),
            "a": a.flatten(0, 1),
            "b": b.flatten(0, 1),
            "A_log": self.weights.A_log,
            "dt_bias": self.weights.dt_bias,
            "out": x.new_empty(len(x), HV, V),
            "gate": self.weights.gate,
        }
        return conv, rule

    def _commit(self, tokens: int) -> None:
        """The first `tokens` waiting tokens go into the state, the others are forgotten."""
        if tokens:
            batch = len(self.state)
            blocks = torch.arange(batch, dtype=torch.int32, device=self.device)
            no_block = torch.full_like(blocks, -1)
            group = ops.CommitGroup(blocks, torch.full_like(blocks, tokens), blocks, no_block, torch.zeros_like(blocks))
            layer = ops.Layer(
                line=self.line,
                line_kind="anchored",
                conv_taps=self.weights.geometry.W,
                state=self.state,
                records=self.records,
                gate=self.weights.gate,
                A_log=self.weights.A_log if self.weights.gate == "kda" else None,
                dt_bias=self.weights.dt_bias if self.weights.gate == "kda" else None,
            )
            ops.commit(groups=[group], layers=[layer], window_capacity=self._capacity(), null_block_id=-1)
        self.waiting, self.gates = 0, None

    def _select(self, indices: Tensor) -> None:
        self._each(lambda pool: pool.index_select(0, indices.to(pool.device)))

    def _move(self, device: torch.device | str) -> None:
        self._each(lambda pool: pool.to(device, non_blocking=True))

    def _each(self, change) -> None:
        """Replaces every pool by what `change` makes of it."""
        if self.state is None:
            return
        self.state, self.line = change(self.state), change(self.line)
        self.recurrent_states[0] = self.state.transpose(-1, -2)
        if self.records is not None:
            self.records = ops.KdaRecords(*map(change, self.records)) if self.weights.gate == "kda" else change(self.records)
        if self.gates is not None:
            self.gates = (change(self.gates[0]), change(self.gates[1]))
