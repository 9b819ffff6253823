"""A small real model, and what speculation does for it: python -m recoverssm.demo

`load("target")` is a byte-level hybrid of 4.9 M parameters (three gated delta rule layers and one of attention, Qwen3NextForCausalLM),
`load("draft")` its draft of 0.5 M (Qwen3ForCausalLM). Token id = byte; models/*/TOKENIZER.md says the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MODELS = Path(__file__).parent / "models"


def load(name: str, dtype: torch.dtype | None = None) -> torch.nn.Module:
    """The model "target" or "draft", without downloads. Its weights are bfloat16; dtype is what it computes in, None: float32."""
    import torch
    import transformers

    dtype = torch.float32 if dtype is None else dtype
    return transformers.AutoModelForCausalLM.from_pretrained(MODELS / f"hybrid-{name}", dtype=dtype, local_files_only=True).eval()


def encode(text: str) -> Tensor:
    """[1, n] ids."""
    import torch

    return torch.tensor([list(text.encode())])


def decode(ids: Tensor) -> str:
    """The text of [n] ids; ids that are no bytes (end of text) are left out."""
    return bytes(token for token in ids.tolist() if token < 256).decode("utf-8", "replace")
