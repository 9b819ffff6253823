"""This library's operations under the names and shapes of other projects.

`vllm_ops`: vLLM's RecoverSSM calls. `xpu_ops`: the GDN operations of the vLLM XPU kernels. Both are thin: they check and rename, and
the bits are those of `recoverssm.ops`. docs/vllm.md has the tables of names.
"""
