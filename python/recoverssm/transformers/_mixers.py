"""What this package has to know of each model: where a recurrent layer keeps its projections and parameters.

A mixer is the token mixer of one recurrent layer, a module of transformers. Only names of weights are used here, which a checkpoint fixes,
so a release of transformers can change its modeling code without breaking this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import ops


class Projected(NamedTuple):
    """A layer's tokens after its projections; T is the model's dtype."""

    qkv: Tensor  # [n, C] T, before the convolution; channels q, k, v
    a: Tensor  # [n, HV] T, kda: [n, HV, K]
    b: Tensor  # [n, HV] T
    z: Tensor  # [n, HV, V] T, gate of the output


class Geometry(NamedTuple):
    H: int
    HV: int
    K: int
    V: int
    W: int

    @property
    def channels(self) -> int:
        return 2 * self.H * self.K + self.HV * self.V


@dataclass(frozen=True)
class Mixer:
    """How to run one class of mixers. Every function takes the module first."""

    gate: str  # "gdn" or "kda"
    weights: tuple[str, ...]  # attributes that must be there
    geometry: Callable[[nn.Module], Geometry]
    project: Callable[[nn.Module, Tensor], Projected]  # of [n, hidden]
    gates: Callable[[nn.Module], tuple[Tensor, Tensor]]  # A_log [HV], dt_bias [HV] or [HV, K]
    finish: Callable[[nn.Module, Tensor, Tensor], Tensor]  # of out and z, [n, HV, V] each, to [n, hidden]


def _gdn_geometry(module: nn.Module) -> Geometry:
    return Geometry(module.num_k_heads, module.num_v_heads, module.head_k_dim, module.head_v_dim, module.conv_kernel_size)


def _gdn_gates(module: nn.Module) -> tuple[Tensor, Tensor]:
    return module.A_log, module.dt_bias


def _gdn_finish(module: nn.Module, out: Tensor, z: Tensor) -> Tensor:
    width = out.shape[-1]
    return module.out_proj(module.norm(out.reshape(-1, width), z.reshape(-1, width)).reshape(len(out), -1))


def _packed_project(module: nn.Module, hidden: Tensor) -> Projected:
    H, HV, K, V, _ = geometry = _gdn_geometry(module)
    qkvz, ba = module.in_proj_qkvz(hidden), module.in_proj_ba(hidden)
    rows = len(hidden)
    parts = Projected(
        qkv=qkvz.new_empty(rows, geometry.channels),
        a=ba.new_empty(rows, HV),
        b=ba.new_empty(rows, HV),
        z=qkvz.new_empty(rows, HV, V),
    )
    ops.split_projections(
        qkvz=qkvz,
        ba=ba,
        layout="interleaved",
        num_k_heads=H,
        num_v_heads=HV,
        head_k_dim=K,
        head_v_dim=V,
        mixed_qkv=parts.qkv,
        z=parts.z,
        b=parts.b,
        a=parts.a,
    )
    return parts


def _single_project(module: nn.Module, hidden: Tensor) -> Projected:
    z = module.in_proj_z(hidden).view(len(hidden), module.num_v_heads, module.head_v_dim)
    return Projected(module.in_proj_qkv(hidden), module.in_proj_a(hidden), module.in_proj_b(hidden), z)


def _kda_geometry(module: nn.Module) -> Geometry:
    heads, width = module.num_heads, module.head_dim
    return Geometry(heads, heads, width, width, module.conv_kernel_size)


def _kda_project(module: nn.Module, hidden: Tensor) -> Projected:
    heads = (len(hidden), module.num_heads, module.head_dim)
    qkv = torch.cat([module.q_proj(hidden), module.k_proj(hidden), module.v_proj(hidden)], dim=-1)
    a = module.forget_gate.f_b_proj(module.forget_gate.f_a_proj(hidden)).view(heads)
    z = module.g_b_proj(module.g_a_proj(hidden)).view(heads)
    return Projected(qkv, a, module.b_proj(hidden), z)


def _kda_gates(module: nn.Module) -> tuple[Tensor, Tensor]:
    gate = module.forget_gate
    return gate.A_log.view(-1), gate.dt_bias.view(module.num_heads, module.head_dim)


def _kda_finish(module: nn.Module, out: Tensor, z: Tensor) -> Tensor:
    return module.o_proj(module.o_norm(out, z).reshape(len(out), -1))


_GDN_WEIGHTS = ("A_log", "dt_bias", "conv1d", "norm", "out_proj")
_SINGLE = Mixer(
    gate="gdn",
    weights=(*_GDN_WEIGHTS, "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b"),
    geometry=_gdn_geometry,
    project=_single_project,
    gates=_gdn_gates,
    finish=_gdn_finish,
)

# By the name of the module's class.
MIXERS: dict[str, Mixer] = {
    "Qwen3NextGatedDeltaNet": Mixer(
        gate="gdn",
        weights=(*_GDN_WEIGHTS, "in_proj_qkvz", "in_proj_ba"),
        geometry=_gdn_geometry,
        project=_packed_project,
        gates=_gdn_gates,
        finish=_gdn_finish,
    ),
    "Qwen3_5GatedDeltaNet": _SINGLE,
    "Qwen3_5MoeGatedDeltaNet": _SINGLE,
    "KimiLinearDeltaAttention": Mixer(
        gate="kda",
        weights=("conv1d", "forget_gate", "q_proj", "k_proj", "v_proj", "b_proj", "g_a_proj", "g_b_proj", "o_norm", "o_proj"),
        geometry=_kda_geometry,
        project=_kda_project,
        gates=_kda_gates,
        finish=_kda_finish,
    ),
}
