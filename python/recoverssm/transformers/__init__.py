"""Speculative generation with Hugging Face transformers for models with gated delta rule layers.

    recoverssm.transformers.enable(model)
    model.generate(**inputs, prompt_lookup_num_tokens=4)       # or assistant_model=draft

`enable` lets stock `generate` speculate with Qwen3-Next, Qwen3.5 and Kimi-Linear models, `disable` takes everything back. The recurrent
part of every such layer runs on this library's operations, with and without speculation. See docs/transformers.md.
"""

from ._enable import disable, enable, is_enabled
from ._layer import RecoverableLayer
from ._text import Agreement, agreement

__all__ = ["Agreement", "RecoverableLayer", "agreement", "disable", "enable", "is_enabled"]
