"""vLLM's GDN layer with the operations of this library: every row of every step of a layer of ours runs here, none in vLLM's kernels.

A request has one block. Its page holds the convolution line, the state, the records of the last window and their number ("pending"). A step's
windows first fold what the step before left (lazy commit, by vLLM's accepted counts), then run off the state and leave their records.
So nothing has to happen after sampling, and a row's state is right whenever its pending count is 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import vllm
from torch import Tensor
from vllm.compilation.breakable_cudagraph import eager_break_during_capture
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn import QwenGatedDeltaNetAttention
from vllm.model_executor.layers.mamba.mamba_utils import is_conv_state_dim_first
from vllm.platforms import current_platform
from vllm.utils.torch_utils import LayerNameType, _encode_layer_name, _resolve_layer_name, direct_register_custom_op

from ... import ops
from ...errors import BadState
from ._counters import counters
from ._drafter import MARK, give_drafters_their_group
from ._metadata import Rows, rows_of

_OPERATION = "recoverssm_gdn_attention"


class RecoverSSMGatedDeltaNetAttention(QwenGatedDeltaNetAttention):
    """The layer. Where `recoverssm` is not True everything is vLLM's."""

    recoverssm: bool | None = None  # None: made without its constructor

    def __init__(self, config: Any, vllm_config: Any, *arguments: Any, **named: Any) -> None:
        from . import decide

        super().__init__(config, vllm_config, *arguments, **named)
        self.recoverssm = decide(vllm_config, platform=current_platform.device_type, version=vllm.__version__)
        if not self.recoverssm:
            counters.stock_layers += 1
            return
        counters.layers += 1
        setattr(vllm_config.cache_config, MARK, True)
        _extend_model_class(vllm_config)
        _split_graphs(vllm_config.compilation_config)

    def get_state_shape(self) -> tuple[tuple[int, ...], ...]:
        shapes = super().get_state_shape()
        return _with_records(shapes, self.num_spec) if self.recoverssm else shapes

    def get_state_dtype(self) -> tuple[torch.dtype, ...]:
        dtypes = super().get_state_dtype()
        return _with_record_dtypes(dtypes) if self.recoverssm else dtypes

    def get_kv_cache_spec(self, vllm_config: Any) -> Any:
        spec = super().get_kv_cache_spec(vllm_config)
        return replace(spec, num_speculative_blocks=0) if self.recoverssm and spec is not None else spec

    def forward_cpu(self, hidden_states: Tensor) -> Tensor:
        if not self.recoverssm:
            self._count_stock()
            return super().forward_cpu(hidden_states)
        return self._forward(hidden_states)

    def forward_cuda(self, hidden_states: Tensor) -> Tensor:
        if not self.recoverssm:
            self._count_stock()
            return super().forward_cuda(hidden_states)
        return self._forward(hidden_states)

    def _count_stock(self) -> None:
        """A layer that a rule refused was counted when it was built; one made without its constructor is seen here alone."""
        if self.recoverssm is None:
            counters.fallbacks += 1

    def _forward(self, hidden_states: Tensor) -> Tensor:
        qkvz, _ = self.in_proj_qkvz(hidden_states)
        ba, _ = self.in_proj_ba(hidden_states)
        tokens, heads = hidden_states.shape[0], self.num_v_heads // self.tp_size
        out = hidden_states.new_zeros(tokens, heads, self.head_v_dim)
        z = torch.zeros_like(out)
        getattr(torch.ops.vllm, _OPERATION)(qkvz, ba, out, z, _encode_layer_name(self.prefix))
        return self._output_projection(out, z)

    def run(self, rows: Rows, qkvz: Tensor, ba: Tensor, out: Tensor, z: Tensor) -> None:
        """One step of this layer. out, z: written for the tokens of all rows."""
        line, state, records, pending = self.kv_cache
        pending = pending[:, 0]
        n = rows.tokens
        _check_plain(rows, pending, self.prefix)
        ones = None if rows.plain is None else torch.ones_like(rows.plain.state_indices)
        plain, windows = rows.plain, rows.windows
        if plain is not None:
            plain = replace(plain, num_accepted=ones, **({"pending": pending, "records": records} if windows is None else {}))
        if windows is not None:
            windows = replace(windows, records=records, pending=pending)
        ops.gdn_attention(
            qkvz=qkvz[:n], ba=ba[:n], layout=self.qkvz_layout, num_k_heads=self.num_k_heads // self.tp_size,
            num_v_heads=self.num_v_heads // self.tp_size, head_k_dim=self.head_k_dim, head_v_dim=self.head_v_dim, weight=_conv_weight(self),
            bias=self.conv1d.bias, activation="silu" if self.activation in ("silu", "swish") else self.activation, A_log=self.A_log,
            dt_bias=self.dt_bias, line=line.transpose(1, 2) if is_conv_state_dim_first() else line, line_kind="rolled", state=state,
            out=out[:n], z=z[:n], plain=plain, windows=windows,
        )  # fmt: skip
        counters.plain_rows += 0 if plain is None else plain.state_indices.shape[0]
        if windows is not None:
            counters.window_rows += windows.state_indices.shape[0]
            counters.window_tokens += rows.window_tokens
            counters.short_windows += rows.window_tokens < windows.state_indices.shape[0] * windows.window_capacity


def _check_plain(rows: Rows, pending: Tensor, layer: str) -> None:
    """A plain row that goes on from its state has nothing waiting: vLLM names no accepted count for it. On the CPU this is looked at."""
    if rows.plain is None or pending.device.type != "cpu":
        return
    ids = rows.plain.state_indices
    waits = (pending[ids.long().clamp(min=0)] > 0) & (ids > 0) & (rows.plain.query_start_loc.diff() > 0)
    if rows.plain.has_initial_state is not None:
        waits &= rows.plain.has_initial_state
    if bool(waits.any()):
        counters.fallbacks += 1
        raise BadState(f"recoverssm, layer {layer}: records wait in block {int(ids[waits][0])}, of a row that vLLM scheduled as no window")


def _conv_weight(layer: Any) -> Tensor:
    """[C, taps]. On some CPUs vLLM packs the weight in place and keeps a copy."""
    weight = getattr(layer.conv1d, "_cpu_unpacked_conv_weight", None)
    weight = layer.conv1d.weight if weight is None else weight
    return weight.view(weight.shape[0], weight.shape[-1])


@eager_break_during_capture
def _gdn_attention(qkvz: Tensor, ba: Tensor, out: Tensor, z: Tensor, layer_name: LayerNameType) -> None:
    context = get_forward_context()
    layer = context.no_compile_layers[_resolve_layer_name(layer_name)]
    counters.calls += 1
    if context.attn_metadata is None:
        counters.dummy_calls += 1
        return
    metadata = context.attn_metadata[layer.prefix]
    if metadata.num_actual_tokens == 0:
        return
    with torch.no_grad():
        layer.run(rows_of(metadata, layer.num_spec + 1), qkvz, ba, out, z)


def _gdn_attention_fake(qkvz: Tensor, ba: Tensor, out: Tensor, z: Tensor, layer_name: LayerNameType) -> None:
    return None


def _with_records(shapes: tuple[tuple[int, ...], ...], num_spec: int) -> tuple[tuple[int, ...], ...]:
    """A page's tensors: line, state, records [HV, S, V+K+1], pending [1]."""
    HV, V, K = shapes[1]
    return (*shapes[:2], (HV, num_spec + 1, V + K + 1), (1,))


def _with_record_dtypes(dtypes: tuple[torch.dtype, ...]) -> tuple[torch.dtype, ...]:
    return (*dtypes[:2], torch.float32, torch.int32)


def _extend_model_class(vllm_config: Any) -> None:
    """vLLM asks the model's class, and not its layers, for the shapes that it makes pages of."""
    from vllm.model_executor.models import ModelRegistry

    model = vllm_config.model_config
    cls, _ = ModelRegistry.resolve_model_cls(model.architectures, model)
    if cls.__dict__.get("_recoverssm_extended", False):
        return
    shapes_of, dtypes_of = cls.get_mamba_state_shape_from_config, cls.get_mamba_state_dtype_from_config

    def get_mamba_state_shape_from_config(cls: type, vllm_config: Any) -> Any:
        shapes = shapes_of(vllm_config)
        ours = getattr(vllm_config.cache_config, MARK, False)
        return _with_records(shapes, vllm_config.speculative_config.num_speculative_tokens) if ours else shapes

    def get_mamba_state_dtype_from_config(cls: type, vllm_config: Any) -> Any:
        dtypes = dtypes_of(vllm_config)
        return _with_record_dtypes(dtypes) if getattr(vllm_config.cache_config, MARK, False) else dtypes

    cls.get_mamba_state_shape_from_config = classmethod(get_mamba_state_shape_from_config)
    cls.get_mamba_state_dtype_from_config = classmethod(get_mamba_state_dtype_from_config)
    cls._recoverssm_extended = True


def _split_graphs(compilation: Any) -> None:
    """Piecewise graphs leave out vLLM's GDN operations by name; ours has rows of its step too, and a capture would keep those of its own."""
    name = f"vllm::{_OPERATION}"
    if compilation.splitting_ops and name not in compilation.splitting_ops:
        compilation.splitting_ops.append(name)


_registered = False


def register_layer() -> None:
    """Puts the layer in the place of vLLM's. vLLM may call a plugin more than once in a process."""
    global _registered
    if _registered:
        return
    _registered = True
    direct_register_custom_op(op_name=_OPERATION, op_func=_gdn_attention, mutates_args=["out", "z"], fake_impl=_gdn_attention_fake)
    if current_platform.device_type == "cpu":
        give_drafters_their_group()
    QwenGatedDeltaNetAttention.register_oot(RecoverSSMGatedDeltaNetAttention, name=QwenGatedDeltaNetAttention.__name__)
