"""enable and disable: what is put into a model, and taken out again."""

from __future__ import annotations

from types import MethodType

import torch
from torch import Tensor, nn

from .. import _native
from ..errors import InvalidArgument, Unsupported

try:
    import transformers
except ImportError as error:
    raise ImportError("recoverssm.transformers needs transformers 5.17 or later, which is not installed") from error

MINIMUM = (5, 17)


def _check_version() -> None:
    numbers = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    if numbers < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        raise ImportError(f"recoverssm.transformers needs transformers {needed} or later, this is {transformers.__version__}")


_check_version()

from transformers.cache_utils import LinearAttentionLayer  # noqa: E402

from ._layer import LayerWeights, RecoverableLayer  # noqa: E402
from ._mixers import MIXERS, Mixer  # noqa: E402

# Instance attributes that enable adds, to the layers and to the model. Nothing outside the model's own instances is changed.
_MARK = "_recoverssm"
_ADDED = (_MARK, "forward", "prepare_inputs_for_generation", "_is_stateful")


def enable(model: nn.Module, *, max_drafts: int = 64) -> nn.Module:
    """Lets stock `model.generate` speculate (prompt_lookup_num_tokens, assistant_model). Returns the model.

    Instances of the model's recurrent layers get a `forward` that runs on `recoverssm.ops`; the model says that it is not stateful, and
    `generate` with drafts feeds only what a given cache has not seen. Classes and modules of transformers stay as they are. A cache that
    such a model fills can be cropped.

    max_drafts: most drafts of one step. The last 1 + max_drafts tokens of an input are recorded; a generation with more drafts a step
    fails at the first step that rejects more than that.

    Raises Unsupported for a model without such layers, or with layers, dtypes, devices or hooks that this cannot run.
    """
    if not isinstance(model, transformers.PreTrainedModel):
        raise InvalidArgument(f"enable: model: {type(model).__name__}, expected a model of transformers (PreTrainedModel)")
    if not isinstance(max_drafts, int) or max_drafts < 1:
        raise InvalidArgument(f"enable: max_drafts: {max_drafts!r}, expected a whole number, at least 1")
    found = [(module, MIXERS[type(module).__name__]) for module in model.modules() if type(module).__name__ in MIXERS]
    if not found:
        supported = ", ".join(MIXERS)
        raise Unsupported(f"enable: {type(model).__name__} has no layers that this version knows, which are {supported}")
    for module, mixer in found:
        _check(module, mixer)
    can_generate = hasattr(model, "prepare_inputs_for_generation")
    if "prepare_inputs_for_generation" in vars(model) and not is_enabled(model):
        raise Unsupported(f"enable: {type(model).__name__}: something else has replaced its prepare_inputs_for_generation")
    disable(model)
    for module, _ in found:
        setattr(module, _MARK, max_drafts)
        module.forward = MethodType(_forward, module)
    setattr(model, _MARK, max_drafts)
    model._is_stateful = False
    if can_generate:
        model.prepare_inputs_for_generation = MethodType(_prepare_inputs, model)
    return model


def disable(model: nn.Module) -> nn.Module:
    """Takes back what `enable` put into a model; does nothing where there is nothing. Returns the model.

    model: the one `enable` was given; of a part of it only that part is taken back, and the rest cannot speculate any more. Caches that the
    model filled while it was enabled cannot be used any more and say so.
    """
    if not isinstance(model, nn.Module):
        raise InvalidArgument(f"disable: model: {type(model).__name__}, expected a model of transformers")
    for module in model.modules():
        if _MARK in vars(module):
            for name in _ADDED:
                vars(module).pop(name, None)
    return model


def is_enabled(model: nn.Module) -> bool:
    """Whether `enable` was called for this model."""
    return _MARK in vars(model)


def _check(module: nn.Module, mixer: Mixer) -> None:
    name = type(module).__name__
    version = transformers.__version__
    for attribute in mixer.weights:
        if not hasattr(module, attribute):
            raise Unsupported(f"enable: {name} of transformers {version} has no {attribute}, which this version of recoverssm expects")
    activation = getattr(module, "activation", None)
    if activation != "silu":
        raise Unsupported(f"enable: {name}: activation {activation!r}, expected 'silu'")
    if any(hasattr(part, "_hf_hook") for part in module.modules()):
        raise Unsupported(f"enable: {name}: has hooks of accelerate (device_map), expected a model on one device")
    if "forward" in vars(module) and _MARK not in vars(module):
        raise Unsupported(f"enable: {name}: something else has replaced its forward")
    dtype = module.conv1d.weight.dtype
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise Unsupported(f"enable: {name}: weights of {dtype}, expected float32, bfloat16 or float16")
    device = module.conv1d.weight.device.type
    if reason := _unavailable(device):
        raise Unsupported(f"enable: {name}: weights on {device}, where there are no operations: {reason}")


def _unavailable(device: str) -> str:
    """Why no operation runs on a kind of device; empty: they do."""
    if device == "cpu":
        return ""
    return _native.cuda_unavailable() if device == "cuda" else "they are for cpu and cuda"


def _prepare_inputs(self: nn.Module, input_ids: Tensor, *args, **kwargs) -> dict:
    """prepare_inputs_for_generation for a conversation's next turn: generate with drafts feeds a filled cache the whole text again
    (5.17 to 5.24), where plain generate feeds what is new."""
    cache = kwargs.get("cache", kwargs.get("past_key_values"))
    mask = kwargs.get("attention_mask")
    first = kwargs.get("is_first_iteration") and kwargs.get("next_sequence_length") is None
    if first and cache is not None and (mask is None or mask.shape[-1] == input_ids.shape[1]):
        seen = cache.get_seq_length()
        if 0 < seen < input_ids.shape[1]:
            kwargs["next_sequence_length"] = input_ids.shape[1] - seen
    return type(self).prepare_inputs_for_generation(self, input_ids, *args, **kwargs)


def _forward(
    self: nn.Module,
    hidden_states: Tensor,
    cache: transformers.Cache | None = None,
    attention_mask: Tensor | None = None,
    cache_params: transformers.Cache | None = None,
    **kwargs,
) -> Tensor:
    """What a mixer's forward is while it is enabled. hidden_states: [batch, L, hidden]."""
    if torch.is_grad_enabled() and (hidden_states.requires_grad or any(weight.requires_grad for weight in self.parameters())):
        raise RuntimeError("recoverssm: the operations have no gradient; use torch.no_grad(), or recoverssm.transformers.disable to train")
    if kwargs.get("cu_seq_lens_q") is not None or kwargs.get("seq_idx") is not None:
        raise Unsupported(f"{type(self).__name__}: packed sequences, expected one sequence a row")
    cache = cache if cache is not None else cache_params  # the argument's name in transformers 5.17
    if attention_mask is not None:
        hidden_states = hidden_states * attention_mask[:, :, None].to(hidden_states.dtype)
    mixer = MIXERS[type(self).__name__]
    batch, tokens = hidden_states.shape[:2]
    parts = mixer.project(self, hidden_states.flatten(0, 1))
    qkv, a, b = (part.unflatten(0, (batch, tokens)) for part in parts[:3])
    A_log, dt_bias = mixer.gates(self)
    conv = self.conv1d
    weights = LayerWeights(mixer.geometry(self), mixer.gate, conv.weight.squeeze(1), conv.bias, A_log, dt_bias)
    layer = RecoverableLayer() if cache is None else _cache_layer(cache, self.layer_idx, getattr(self, _MARK))
    out = layer.run(weights, qkv, a, b)
    return mixer.finish(self, out.flatten(0, 1), parts.z).unflatten(0, (batch, tokens))


def _cache_layer(cache: transformers.Cache, index: int, max_drafts: int) -> RecoverableLayer:
    """The cache's layer; a stock one that holds nothing yet is replaced, which makes every kind of cache work."""
    layer = cache.layers[index]
    if isinstance(layer, RecoverableLayer):
        return layer
    if type(layer) is not LinearAttentionLayer:
        raise Unsupported(f"recoverssm.transformers: a cache layer {type(layer).__name__}, expected LinearAttentionLayer")
    if any(layer.is_recurrent_states_initialized.values()) or any(layer.is_conv_states_initialized.values()):
        raise ValueError("recoverssm: this cache was filled before recoverssm.transformers.enable; start a new one")
    replacement = RecoverableLayer(layer.number_of_states, 1 + max_drafts)
    replacement.record_past = layer.record_past
    cache.layers[index] = replacement
    return replacement
