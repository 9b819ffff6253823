"""What the layers of this process have done."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class Counters:
    layers: int = 0  # layers built as ours
    stock_layers: int = 0  # GDN layers that stayed vLLM's: refused by a rule, or built without their constructor
    calls: int = 0  # layers run
    dummy_calls: int = 0  # layers run without metadata: profiling and warm-up
    plain_rows: int = 0  # prefills, and chunks of them
    window_rows: int = 0
    window_tokens: int = 0
    short_windows: int = 0  # windows of fewer tokens than there is room for
    fallbacks: int = 0  # calls of layers made without their constructor, which vLLM's code ran, and steps refused: records wait in a plain row


counters = Counters()


def reset_counters() -> None:
    for field in fields(counters):
        setattr(counters, field.name, 0)
