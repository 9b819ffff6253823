"""This library inside inference engines. `vllm`: a plugin, docs/vllm.md."""
