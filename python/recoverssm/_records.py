"""Records of the kda gate, with and without PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple


class KdaRecords(NamedTuple):
    """Records of the kda gate, layout id "kda_act". Last strides 1, the other three free."""

    corrections: Any  # [blocks, HV, S, V] float32
    key_gate: Any  # [blocks, HV, S, 2K] T: raw key, raw gate input
