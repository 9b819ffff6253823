"""What recoverssm.session takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(kw_only=True, eq=False)
class LayerConfig:
    """One layer. Sizes need no tensor, a session needs A_log and dt_bias of kda layers, forward needs all. T is `activation`."""

    kind: str = "gdn"  # "gdn", "kda" or "short_conv"
    group: int = 0  # index into the groups
    H: int = 0  # query/key heads; gdn, kda
    HV: int = 0  # value heads, a multiple of H
    K: int = 0  # elements of a query/key head
    V: int = 0  # elements of a value head
    W: int = 0  # taps of the convolution; gdn, kda: 0 for none
    channels: int = 0  # short_conv: C; gdn, kda: 0, it is 2*H*K + HV*V
    dilation: int = 1  # short_conv
    activation: str = "bf16"  # T: "f32", "bf16" or "f16"
    state: str = "f32"  # the state's dtype
    conv_activation: str | None = "silu"  # or None
    lower_bound: float | None = None  # kda, < 0: the bounded gate
    scale: float | None = None  # of the query; None: 1/sqrt(K)
    l2norm: bool = True
    softplus_beta: float = 1.0
    softplus_threshold: float = 20.0
    weight: Any = None  # [C, W] T or float32
    bias: Any = None  # optional [C] T or float32; gdn, kda
    A_log: Any = None  # [HV] T or float32; gdn, kda
    dt_bias: Any = None  # gdn [HV], kda [HV, K]; T or float32


@dataclass(kw_only=True)
class GroupConfig:
    """Layers that share block ids."""

    blocks: int  # of the pool, ids 0..blocks-1; those <= null_block_id are never handed out
    block_size: int | None = None  # align mode: B >= S tokens a block of the prefix cache. In all groups or in none


@dataclass(kw_only=True)
class SessionConfig:
    """A model's layers and how its requests are kept."""

    layers: Sequence[LayerConfig]
    groups: Sequence[GroupConfig]
    window_capacity: int = 1  # S = 1 + the most drafts, tokens
    line_kind: str = "anchored"  # "anchored": a window can be undone; "rolled": one position shorter
    lazy: bool = False  # commit only records counts, the next step folds
    null_block_id: int = 0
    kept_boundaries: int = 1  # align mode: prefix boundaries a request keeps behind its running block
    backend: str = "cpu"  # or "cuda": pools and all tensors are memory of the device that is current for all of the session's calls
    stream: Any = None  # cuda: a torch.cuda.Stream or a cudaStream_t as an integer, which outlives the session. None: the default stream


@dataclass(kw_only=True, eq=False)
class LayerPool:
    """The memory of one layer, as the operations take it; pools may be interleaved."""

    line: Any = None  # [blocks, cols, C] T; W > 0
    state: Any = None  # [blocks, HV, V, K]; gdn, kda
    records: Any = None  # gdn [blocks, HV, S, V+K+1] float32; kda: has .corrections and .key_gate, as KdaRecords
    pending: Any = None  # [blocks] int32; lazy


class Row(NamedTuple):
    """One row of a step. Its tokens follow those of the row before it, in every tensor of the forward."""

    request: int  # 0: padding, a row of no request; its outputs are 0
    kind: str  # "prefill": a chunk of a prompt; "decode": one token, kept; "window": the last sampled token, then drafts, 0..S tokens
    tokens: int
    num_computed: int | None = None  # the caller's own count of tokens before this row: another than the session's is refused


class LayerSizes(NamedTuple):
    """Bytes of one layer in one block."""

    state: int
    line: int
    records: int
    pending: int


class SessionSizes(NamedTuple):
    """Memory, in bytes but for blocks_per_request."""

    request: int  # of one request, at most, over all groups
    pools: int  # all blocks of all groups
    checkpoint: int  # an exported request
    blocks_per_request: int  # at most, in every group
    layers: list[LayerSizes]
    group_blocks: list[int]  # bytes of one block of each group


class RequestInfo(NamedTuple):
    """tokens: committed, waiting ones included. open_step: None if it has no row in one. phase: "empty", "live" or "dead". waiting: lazy,
    kept tokens whose records wait."""

    tokens: int
    open_step: int | None
    phase: str
    waiting: int


class BlockTag(NamedTuple):
    """What a block holds. owner, step: who wrote it last, 0: nobody, none. tokens: in its state; -1: being written, or scratch.
    references: requests and prefixes that hold it. layout: record layouts of the group's layers."""

    owner: int
    tokens: int
    step: int
    references: int
    layout: str


class Traffic(NamedTuple):
    """Bytes that operations had to read and write, every element once for each time; rows and tokens are counts."""

    rows: int
    tokens: int
    state_read: int
    state_written: int
    record_read: int
    record_written: int
    line_read: int
    line_written: int
    activation_read: int
    activation_written: int

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self[2:])


class Counters(NamedTuple):
    """What happened since the session was made; rows and tokens of committed steps. refused_by_kind: by the error's kind. traffic: of all
    operations run."""

    steps_opened: int
    steps_committed: int
    steps_abandoned: int
    prefill_rows: int
    decode_rows: int
    window_rows: int
    prefill_tokens: int
    decode_tokens: int
    verified_tokens: int
    kept_tokens: int
    library_calls: int
    grouped_calls: int
    per_group_calls: int
    folded_rows: int
    moved_rows: int
    dead_rows: int
    refused_calls: int
    refused_by_kind: dict[str, int]
    per_group_reason: str
    last_refusal: str
    traffic: Traffic


class CheckpointInfo(NamedTuple):
    """tokens: in the state. tag: the caller's. owner, step: in the session that exported it. bytes: its size. layout: record layouts."""

    tokens: int
    tag: int
    owner: int
    step: int
    bytes: int
    version: int
    layers: int
    layout: str
