"""Small models with random weights, one of each supported class. The real one is recoverssm.demo's."""

import torch
import transformers

TEXT = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
KIMI = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "linear_num_heads": 4,
    "linear_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": None,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
# Class of the model, class of its configuration, arguments.
KINDS = {
    "Qwen3NextForCausalLM": ("Qwen3NextConfig", {**TEXT, **EXPERTS}),
    "Qwen3_5ForCausalLM": ("Qwen3_5TextConfig", TEXT),
    "Qwen3_5MoeForCausalLM": ("Qwen3_5MoeTextConfig", {**TEXT, **EXPERTS}),
    "KimiLinearForCausalLM": ("KimiLinearConfig", KIMI),
}


def build(kind: str, seed: int = 0) -> torch.nn.Module:
    """A model in float32, with weights large enough that its texts do not repeat one token."""
    config, arguments = KINDS[kind]
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(getattr(transformers, config)(**arguments)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2 and "conv1d" not in name and "A_log" not in name:
                weight.mul_(4)
            if name.endswith("forget_gate.dt_bias"):
                weight.normal_()
            if name.endswith("forget_gate.A_log"):
                weight.uniform_(0.01, 4).log_()
    return model
