"""One call of generate, measured."""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from torch import Tensor


class Run(NamedTuple):
    name: str
    ids: Tensor  # [1, n], the prompt included
    prompt: int  # its length
    seconds: float
    drafts: list[int]  # of each forward
    accepted: list[int]  # of each forward, 0..drafts

    @property
    def tokens(self) -> int:
        return self.ids.shape[1] - self.prompt

    @property
    def forwards(self) -> int:
        return len(self.accepted)

    @property
    def acceptance(self) -> float:
        return sum(self.accepted) / max(1, sum(self.drafts))


class _Streamer:
    """What generate hands its tokens to: once the prompt, then the tokens of each forward."""

    def __init__(self, progress):
        self.kept: list[int] = []
        self.progress = progress
        self.prompt_seen = False

    def put(self, value: Tensor) -> None:
        if self.prompt_seen:
            self.kept.append(value.numel())
            self.progress(value.numel())
        self.prompt_seen = True

    def end(self) -> None:
        pass


@torch.no_grad()
def measure(name: str, model: torch.nn.Module, ids: Tensor, progress=lambda tokens: None, **arguments) -> Run:
    """Runs model.generate(ids, **arguments) and counts its forwards, drafts and accepted drafts."""
    drafts: list[int] = []

    def count(module, args, kwargs):
        drafts.append(max(0, int(kwargs.get("logits_to_keep", 1)) - 1))

    streamer = _Streamer(progress)
    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    start = time.perf_counter()
    try:
        out = model.generate(ids, attention_mask=torch.ones_like(ids), streamer=streamer, **arguments)
    finally:
        hook.remove()
    return Run(name, out, ids.shape[1], time.perf_counter() - start, drafts, [kept - 1 for kept in streamer.kept])
