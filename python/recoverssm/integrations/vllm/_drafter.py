"""Draft models beside a target with GDN layers. vLLM 0.32 hands a draft model the block table and the slots of the first cache group; the first
group is that of the GDN layers, so a drafter would write its keys and values into their pages. Here it gets those of its own group."""

from __future__ import annotations

from copy import copy
from typing import Any

MARK = "_recoverssm"  # on a cache_config: the layers of this engine are ours, and their pages hold records
for_stock_layers = False  # tests and measurements: also where the layers are vLLM's


def give_drafters_their_group() -> None:
    """Wraps the model runner's making of attention metadata. Once in a process."""
    from vllm.v1.spec_decode.draft_model import DraftModelProposer
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    build = GPUModelRunner._build_attention_metadata

    def build_attention_metadata(self: Any, *arguments: Any, **named: Any) -> Any:
        layers, drafter = build(self, *arguments, **named)
        proposer = getattr(self, "drafter", None)
        wanted = for_stock_layers or getattr(self.cache_config, MARK, False)
        if drafter is None or not wanted or not isinstance(proposer, DraftModelProposer) or proposer.kv_cache_gid == 0:
            return layers, drafter
        group, drafter = proposer.kv_cache_gid, copy(drafter)
        rows, tokens = drafter.block_table_tensor.shape[0], drafter.slot_mapping.shape[0]
        drafter.block_table_tensor = self.input_batch.block_table[group].get_device_tensor(rows)
        drafter.slot_mapping = named["slot_mappings"][group][:tokens]
        return layers, drafter

    GPUModelRunner._build_attention_metadata = build_attention_metadata
