"""Does a text that was generated with speculation agree with plain greedy decoding?"""

from __future__ import annotations

import inspect
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InvalidArgument


class Agreement(NamedTuple):
    """How a generated text compares with plain decoding along it. Positions count from the start of the sequence."""

    tokens: int  # generated tokens that were compared
    ties: list[int]  # positions whose token is not the plain run's best, but closer to it than the bound
    differences: list[int]  # positions whose token is further away
    largest_gap: float  # largest distance of a token's logit from the best one; 0.0: the text is the greedy one
    bound: float


@torch.no_grad()
def agreement(model: torch.nn.Module, sequence: Tensor, prompt_length: int, bound: float = 1e-3) -> Agreement:
    """Runs `sequence` through the model as plain decoding would, the prompt at once and then token by token.

    A matrix product over a window has other bits than one over a single token, so that two tokens of nearly equal logits may change
    places. Such a position is a tie; without one, the texts are the same. sequence: [1, n] ids, as `generate` returns them.
    """
    if sequence.ndim != 2 or sequence.shape[0] != 1:
        raise InvalidArgument(f"agreement: sequence: shape {list(sequence.shape)}, expected [1, n]")
    if not 0 < prompt_length < sequence.shape[1]:
        raise InvalidArgument(f"agreement: prompt_length: {prompt_length}, expected 1..{sequence.shape[1] - 1}")
    ids = sequence[:, :prompt_length]
    # The argument and the output have the same name, which transformers changed on the way from 5.17 to 5.24.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    past, ties, differences, largest = {}, [], [], 0.0
    for position in range(prompt_length, sequence.shape[1]):
        output = model(input_ids=ids, **past, use_cache=True)
        past = {name: output[name]}
        logits = output.logits[0, -1].float()
        ids = sequence[:, position : position + 1]
        gap = float(logits.max() - logits[ids.item()])
        largest = max(largest, gap)
        if gap >= bound:
            differences.append(position)
        elif logits.argmax() != ids.item():
            ties.append(position)
    return Agreement(sequence.shape[1] - prompt_length, ties, differences, largest, bound)
