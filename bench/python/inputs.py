"""The inputs that all contenders start from, the float64 reference, and how many bytes a step must move."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

H, HV, K, V, W = 16, 48, 128, 128, 4
C = 2 * H * K + HV * V  # channels of the convolution
BLOCK = HV * V * K * 4  # bytes of a block's fp32 state


class Inputs:
    """bf16 activations, fp32 states. Rows one after another (token r*T+t), as the operations take them; by_row has them as [rows, T, ...]."""

    def __init__(self, rows: int, tokens: int, seed: int = 7) -> None:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator)

        self.rows, self.tokens, self.n = rows, tokens, rows * tokens
        self.raw = draw(self.n, C).bfloat16()  # q | k | v before the convolution
        self.history = draw(rows, W - 1, C).bfloat16()
        self.weight = (draw(C, W) * 0.5).bfloat16()
        self.q, self.k, self.v = split(draw(self.n, C).bfloat16())
        self.a, self.b = draw(self.n, HV).bfloat16(), draw(self.n, HV).bfloat16()
        self.A_log = torch.rand(HV, generator=generator) * 2
        self.dt_bias = draw(HV).bfloat16()
        self.state = draw(rows, HV, V, K) * 0.1

    def to(self, device: str) -> Inputs:
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.to(device))
        return self

    def by_row(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view(self.rows, self.tokens, *tensor.shape[1:])

    # Bytes: every element once. Weights and gates of a head are not counted.
    @property
    def state_bytes(self) -> int:
        return self.rows * BLOCK

    @property
    def activation_bytes(self) -> int:
        return self.n * 2 * (C + 2 * HV + HV * V)

    def record_bytes(self, tokens: int) -> int:
        return self.rows * tokens * HV * (V + K + 1) * 4

    @property
    def conv_bytes(self) -> int:
        """x, out, the history read and the window's inputs written."""
        return 2 * C * (2 * self.n + self.rows * (W - 1) + self.n)


def split(mixed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[n, C] as q [n, H, K], k [n, H, K], v [n, HV, V]; views."""
    q, k, v = mixed.split([H * K, H * K, HV * V], dim=1)
    return q.unflatten(1, (H, K)), k.unflatten(1, (H, K)), v.unflatten(1, (HV, V))


def rule_reference(x: Inputs, qkv: tuple[torch.Tensor, ...], state: torch.Tensor, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and states after `tokens` of the window's tokens, of the formula in double precision."""
    q, k, v, a, b = (t.double() for t in (*qkv, x.a, x.b))
    q = (q * torch.rsqrt((q * q).sum(-1, keepdim=True) + 1e-6) * K**-0.5).repeat_interleave(HV // H, 1)
    k = (k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)).repeat_interleave(HV // H, 1)
    decay = torch.exp(-x.A_log.double().exp() * F.softplus(a + x.dt_bias.double()))
    beta = b.sigmoid()
    h, out = state.double(), torch.zeros(x.n, HV, V, dtype=torch.float64, device=state.device)
    for t in range(tokens):
        i = torch.arange(x.rows, device=state.device) * x.tokens + t
        h = h * decay[i][..., None, None]
        c = (v[i] - torch.einsum("nhvk,nhk->nhv", h, k[i])) * beta[i][..., None]
        h = h + c[..., None] * k[i][:, :, None, :]
        out[i] = torch.einsum("nhvk,nhk->nhv", h, q[i])
    return out, h


def conv_reference(x: Inputs) -> torch.Tensor:
    """The convolution and silu of the window in double precision, [n, C]."""
    padded = torch.cat([x.history, x.by_row(x.raw)], 1).double()
    taps = torch.stack([padded[:, i : i + x.tokens] for i in range(W)], -1)
    return F.silu((taps * x.weight.double()).sum(-1)).reshape(x.n, C)


class Pool:
    """States of as many blocks as exceed the cache, one tensor; contenders of one layout share it and take turns with its blocks."""

    def __init__(self, x: Inputs, blocks: int, key_major: bool) -> None:
        start = x.state.transpose(2, 3) if key_major else x.state
        self.blocks = math.ceil(blocks / (x.rows * x.tokens)) * x.rows * x.tokens
        self.states = start.repeat(self.blocks // x.rows, 1, 1, 1).contiguous()
        self.next = 0

    def sets(self, size: int) -> int:
        return self.blocks // size

    def take(self, size: int) -> int:
        """The number of the set of `size` blocks that was used longest ago."""
        first = -(-self.next // size)
        if (first + 1) * size > self.blocks:
            first = 0
        self.next = (first + 1) * size
        return first
