"""The vLLM plugin: GDN layers of speculating models keep one state a request, by verify with lazy commit. docs/vllm.md.

vLLM finds `register` through the entry-point group vllm.general_plugins and calls it in each of its processes. RECOVERSSM_VLLM switches:
unset or 0 off; auto: used where this vLLM and this model are supported, else one line says why not; 1: used, or the engine does not start.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from ._counters import counters, reset_counters
from ._rules import RULES, Facts, Refused, facts_of, reasons_against, version_reason

__all__ = ["RULES", "Facts", "Refused", "counters", "facts_of", "mode", "reasons_against", "register", "reset_counters"]

logger = logging.getLogger("vllm.recoverssm")


def mode() -> str:
    """What RECOVERSSM_VLLM says: "0", "auto" or "1"."""
    word = os.environ.get("RECOVERSSM_VLLM", "").strip() or "0"
    if word not in ("0", "auto", "1"):
        raise ValueError(f"RECOVERSSM_VLLM: {word!r}, expected 0, auto or 1")
    return word


def register() -> None:
    """The plugin's entry point. Off, it imports nothing."""
    if mode() == "0":
        return
    import vllm

    reason = version_reason(vllm.__version__)
    if reason:
        refuse([reason])
        return
    from ._layer import register_layer

    register_layer()


def decide(vllm_config: Any, *, platform: str, version: str) -> bool:
    """Whether the layers of this configuration are ours. Raises Refused under RECOVERSSM_VLLM=1 where they cannot be."""
    if mode() == "0":
        return False
    reasons = reasons_against(facts_of(vllm_config, platform=platform, version=version))
    if reasons:
        refuse(reasons)
        return False
    return True


_said: set[str] = set()


def refuse(reasons: list[str]) -> None:
    text = "; ".join(reasons)
    if mode() == "1":
        raise Refused(f"RECOVERSSM_VLLM=1: {text}")
    if text not in _said:
        _said.add(text)
        logger.warning("recoverssm is not used: %s", text)
