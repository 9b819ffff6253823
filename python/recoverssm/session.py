"""Sessions: blocks, requests, steps, prefixes and checkpoints for engines that have no bookkeeping of their own.

`Session` keeps them over the operations and computes nothing itself: its results are theirs, to the bit. No PyTorch needed: tensors are
torch's, numpy's (bfloat16 through ml_dtypes) or anything with DLPack, on the configuration's backend, with any strides the operations allow;
nothing is copied. The life of a request, steps, groups, prefixes, checkpoints: docs/sessions.md.

Errors are those of recoverssm.errors. After a refused call nothing has changed.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _native
from . import _session_abi as abi
from ._records import KdaRecords
from ._session_abi import call, integer, new
from ._session_types import (
    BlockTag,
    CheckpointInfo,
    Counters,
    GroupConfig,
    LayerConfig,
    LayerPool,
    LayerSizes,
    RequestInfo,
    Row,
    SessionConfig,
    SessionSizes,
    Traffic,
)
from ._views import array_of, tensor_struct
from .errors import BadState, InvalidArgument, Unsupported

KINDS = ("gdn", "kda", "short_conv")
LINE_KINDS = ("plain", "rolled", "anchored")
ROW_KINDS = ("prefill", "decode", "window")
PHASES = ("empty", "live", "dead")
BACKENDS = ("cpu", "cuda")

__all__ = [
    "BlockTag",
    "CheckpointInfo",
    "Counters",
    "GroupConfig",
    "KdaRecords",
    "LayerConfig",
    "LayerPool",
    "LayerSizes",
    "RequestInfo",
    "Row",
    "Session",
    "SessionConfig",
    "SessionSizes",
    "Traffic",
    "inspect_checkpoint",
    "prefix_hit",
    "read_checkpoint",
    "session_sizes",
    "write_checkpoint",
]


class _Config:
    """A configuration as the C ABI takes it, and what must outlive it."""

    def __init__(self, config: SessionConfig) -> None:
        self.kept: list[Any] = [config.stream]
        self.backend = config.backend
        backend = _native.word("session: backend", config.backend, BACKENDS)
        layers = (abi.LayerConfig * len(config.layers))()
        for place, layer in enumerate(config.layers):
            self._layer(layers[place], layer, f"session: layers[{place}].")
        groups = (abi.GroupConfig * len(config.groups))()
        for place, group in enumerate(config.groups):
            abi.initialise(groups[place])
            groups[place].blocks = integer(f"session: groups[{place}].blocks", group.blocks)
            if group.block_size is not None:
                groups[place].has_block_size = 1
                groups[place].block_size = integer(f"session: groups[{place}].block_size", group.block_size)
        self.kept += [layers, groups]
        self.struct = new(abi.SessionConfig)
        self.struct.layers, self.struct.layer_count = ctypes.addressof(layers), len(layers)
        self.struct.groups, self.struct.group_count = ctypes.addressof(groups), len(groups)
        for name in ("window_capacity", "null_block_id", "kept_boundaries"):
            setattr(self.struct, name, integer(f"session: {name}", getattr(config, name)))
        self.struct.line_kind = _native.word("session: line_kind", config.line_kind, LINE_KINDS)
        self.struct.lazy = bool(config.lazy)
        self.struct.backend = backend
        stream = getattr(config.stream, "cuda_stream", config.stream)
        self.stream = ctypes.c_void_p(None if stream is None else integer("session: stream", stream, 64, signed=False))
        self.struct.stream = self.stream.value

    def _layer(self, made: Any, layer: LayerConfig, where: str) -> None:
        abi.initialise(made)
        made.kind = _native.word(f"{where}kind", layer.kind, KINDS)
        for name in ("group", "H", "HV", "K", "V", "W", "channels", "dilation"):
            setattr(made, name, integer(f"{where}{name}", getattr(layer, name)))
        for name in ("activation", "state"):
            setattr(made, name, _native.word(f"{where}{name}", getattr(layer, name), _native.DTYPES))
        if layer.conv_activation not in (None, "silu"):
            raise InvalidArgument(f"{where}conv_activation: {layer.conv_activation!r}, expected None or 'silu'")
        made.conv_activation = int(layer.conv_activation == "silu")
        for name in ("lower_bound", "scale"):
            if getattr(layer, name) is not None:
                setattr(made, f"has_{name}", 1)
                setattr(made, name, getattr(layer, name))
        made.l2norm = bool(layer.l2norm)
        made.softplus_beta, made.softplus_threshold = layer.softplus_beta, layer.softplus_threshold
        for name in ("weight", "bias", "A_log", "dt_bias"):
            _set(made, name, f"{where}{name}", getattr(layer, name), self.kept, self.backend)

    def pools(self, pools: Sequence[LayerPool]) -> ctypes.Array:
        made = (abi.LayerPool * len(pools))()
        for place, pool in enumerate(pools):
            where = f"session: pools[{place}]."
            abi.initialise(made[place])
            for name in ("line", "state", "pending"):
                _set(made[place], name, f"{where}{name}", getattr(pool, name), self.kept, self.backend, written=True)
            if pool.records is not None:
                records = new(abi.Records)
                if hasattr(pool.records, "corrections"):
                    for name in ("corrections", "key_gate"):
                        _set(records, name, f"{where}records.{name}", getattr(pool.records, name), self.kept, self.backend, written=True)
                else:
                    _set(records, "packed", f"{where}records", pool.records, self.kept, self.backend, written=True)
                self.kept.append(records)
                made[place].records = ctypes.addressof(records)
        self.kept.append(made)
        return made


def _set(struct: Any, field_name: str, name: str, given: Any, kept: list[Any], backend: str, *, written: bool = False) -> None:
    tensor, owner = tensor_struct(name, given, written=written, device=backend)
    setattr(struct, field_name, tensor)
    kept.append(owner)


def _text(characters: bytes) -> str:
    return characters.decode(errors="replace")


def session_sizes(config: SessionConfig) -> SessionSizes:
    """What a configuration takes, in bytes. Tensors are not looked at. Raises InvalidArgument for one that no session accepts."""
    made, memory = _Config(config), new(abi.SessionMemory)
    layers, groups = (abi.LayerMemory * len(config.layers))(), (ctypes.c_int64 * len(config.groups))()
    call("session_sizes", ctypes.byref(made.struct), ctypes.byref(memory), layers, groups)
    of_layers = [LayerSizes(*(getattr(layer, name) for name in LayerSizes._fields)) for layer in layers]
    names = ("request", "pools", "checkpoint", "blocks_per_request")
    return SessionSizes(*(getattr(memory, name) for name in names), layers=of_layers, group_blocks=list(groups))


class _Handle:
    """The session of the C ABI and what it points to. Held by the Session until it is closed, and by the arrays of its pools."""

    def __init__(self, config: _Config, pools: Sequence[LayerPool] | None) -> None:
        self._as_parameter_, self._config = ctypes.c_void_p(), config
        self._destroy = _native.library.recoverssm_session_destroy
        self._destroy.restype = None
        given = None if pools is None else config.pools(pools)
        count = ctypes.c_size_t(0 if pools is None else len(pools))
        call("session_create", ctypes.byref(config.struct), given, count, ctypes.byref(self._as_parameter_))

    def __del__(self) -> None:
        self._destroy(self._as_parameter_)  # null where it could not be made


class Session:
    """Blocks, requests, steps, prefixes and checkpoints of one model (docs/sessions.md).

    Requests, steps and prefixes are integers, never 0 and never used again within a session: a stale one is refused (BadState).
    One call at a time: calls from several threads wait for each other. A forked child may go on with its copy. close(), or a with block, frees it.
    """

    def __init__(self, config: SessionConfig, pools: Sequence[LayerPool] | None = None, *, threads: int = 1) -> None:
        """Pools of its own, or the caller's, one a layer; their pending counts are set to 0. threads: workers of its operations, 0: one a core.

        backend "cuda": calls return before the device is done; export and restore wait. What the device finds wrong is raised by a later call.

        Raises InvalidArgument for a configuration or pools that no session accepts, Unsupported for a backend that does not run here.
        """
        self._threads, self._process = ctypes.c_int32(integer("session: threads", threads)), os.getpid()
        self._kinds = [layer.kind for layer in config.layers]
        self._lock, self._own_context = threading.Lock(), ctypes.c_void_p()
        made = _Config(config)
        self._backend, self._stream = made.backend, made.stream
        self._handle: _Handle | None = _Handle(made, pools)
        self._make_context()

    def close(self) -> None:
        """Frees the session, and its own pools where no array of them is left. A second time it does nothing; every other call is refused from
        then on."""
        with self._lock:
            self._handle = None
            if self._own_context and self._process == os.getpid():
                destroy = _native.library.recoverssm_context_destroy
                destroy.restype = None
                destroy(self._own_context)
                self._own_context.value = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self.close()

    @property
    def _context(self) -> ctypes.c_void_p:
        if self._process != os.getpid():
            # A forked child: the other context's threads are the parent's.
            self._own_context = ctypes.c_void_p()
            self._make_context()
            self._process = os.getpid()
        return self._own_context

    def _make_context(self) -> None:
        if self._backend == "cuda":
            call("context_create_cuda", self._stream, ctypes.byref(self._own_context))
        else:
            call("context_create", self._threads, ctypes.byref(self._own_context))

    def _call(self, name: str, *arguments: Any) -> _Handle:
        with self._lock:
            if self._handle is None:
                raise BadState(f"{name}: the session is closed")
            call(f"session_{name}", self._handle, *arguments)
            return self._handle

    def _number(self, name: str, *arguments: Any, kind: Any = ctypes.c_uint64) -> int:
        result = kind()
        self._call(name, *arguments, ctypes.byref(result))
        return result.value

    # ---- requests ----

    def admit(self, prefix: int | None = None) -> int:
        """A new request, empty, or one that continues from a held prefix. Returns it.

        A prefix that ends inside a block takes blocks: BadState where there are none free.
        """
        if prefix is None:
            return self._number("admit")
        return self._number("admit_prefix", _handle("admit", "prefix", prefix), self._context)

    def finish(self, request: int) -> None:
        """Frees everything of a request, at any time. Its row in an open step is dead; its blocks are free once that step is closed."""
        self._call("finish", _handle("finish", "request", request))

    def finish_and_hold(self, request: int) -> int:
        """finish, and the final state is kept, folded, as a prefix for a next turn. Returns the prefix."""
        return self._number("finish_and_hold", _handle("finish_and_hold", "request", request), self._context)

    def preempt(self, request: int) -> None:
        """Frees the state and keeps the request, empty. Then: prefill from the first token, or restore."""
        self._call("preempt", _handle("preempt", "request", request))

    def info(self, request: int) -> RequestInfo:
        """A request's token count, open step, phase and waiting tokens."""
        info = new(abi.RequestInfo)
        self._call("info", _handle("info", "request", request), ctypes.byref(info))
        return RequestInfo(info.tokens, info.open_step or None, PHASES[info.phase], info.waiting)

    def blocks(self, request: int) -> list[int]:
        """Per group the block of the running state, null_block_id where there is none."""
        return self._list("blocks", _handle("blocks", "request", request), kind=ctypes.c_int32)

    # ---- steps ----

    def fits(self, rows: Iterable[Row | tuple]) -> bool:
        """Whether open_step would find the blocks it needs."""
        made = _rows("fits", rows)
        return bool(self._number("fits", made, ctypes.c_size_t(len(made)), kind=ctypes.c_int32))

    def open_step(self, rows: Iterable[Row | tuple]) -> int:
        """Opens a step with rows of any mix and order, and takes the blocks it needs. Returns it.

        Raises BadState, having taken none, where blocks are missing, a request has a row in another open step, or num_computed is not the
        session's; InvalidArgument or OutOfRange for a row that cannot be.
        """
        made = _rows("open_step", rows)
        return self._number("open_step", made, ctypes.c_size_t(len(made)), self._context)

    def forward(
        self,
        step: int,
        layer: int,
        *,
        x: Any,
        a: Any = None,
        b: Any = None,
        out: Any = None,
        residual: Any = None,
        outer_residual: Any = None,
    ) -> None:
        """Runs a step's tokens through one layer; each layer once a step, in any order. Rows in step order, n >= the step's tokens.

        gdn, kda. x: [n, 2*H*K + HV*V] T, q | k | v before the convolution (W = 0: as they enter the rule). a: gdn [n, HV], kda
        [n, HV, K] T. b: [n, HV] T. Written: out [n, HV, V] T or float32.
        short_conv. x: [n, C] T. outer_residual: optional [n, C] T. Written: residual [n, C] T.

        Raises InvalidArgument for a tensor that does not fit or is not of this kind of layer, BadState for a layer that has run.
        """
        where, kept = f"forward: layers[{layer}].", []
        short = 0 <= integer("forward: layer", layer) < len(self._kinds) and self._kinds[layer] == "short_conv"
        given = {"x": x, "a": a, "b": b, "out": out, "residual": residual, "outer_residual": outer_residual}
        names = ("x", "residual", "outer_residual") if short else ("x", "a", "b", "out")
        for name, tensor in given.items():
            if name not in names and tensor is not None:
                raise InvalidArgument(f"{where}{name}: given, expected none for this kind of layer")
        inputs = new(abi.ShortConvInputs if short else abi.DeltaInputs)
        for name in names:
            _set(inputs, name, f"{where}{name}", given[name], kept, self._backend, written=name in ("out", "residual"))
        function = "forward_short_conv" if short else "forward_delta"
        self._call(function, _handle("forward", "step", step), ctypes.c_int32(layer), ctypes.byref(inputs), self._context)

    def commit(self, step: int, accepted: Mapping[int, int] | None = None) -> None:
        """Closes a step. accepted: kept tokens per request of every window with tokens, the first token included; clamped to 0..L.

        Raises BadState if a layer has not run or the step is closed, InvalidArgument if a window's count is missing.
        """
        items = list((accepted or {}).items())
        made = (abi.Accepted * len(items))()
        for place, (request, count) in enumerate(items):
            made[place].request = integer("commit: accepted: request", request, 64, signed=False)
            made[place].count = integer(f"commit: accepted[{request}]", count)
        self._call("commit", _handle("commit", "step", step), made, ctypes.c_size_t(len(made)), self._context)

    def abandon(self, step: int) -> None:
        """Closes a step without keeping anything. If no layer has run all is as before; docs/sessions.md says what dies otherwise."""
        self._call("abandon", _handle("abandon", "step", step))

    # ---- states ----

    def materialize(self, requests: Iterable[int]) -> None:
        """Lazy: folds the waiting records of these requests now. Eager: nothing to do."""
        listed = [integer("materialize: request", request, 64, signed=False) for request in requests]
        self._call("materialize", (ctypes.c_uint64 * len(listed))(*listed), ctypes.c_size_t(len(listed)), self._context)

    def exportable(self, request: int) -> list[int]:
        """Token counts whose state exists in every group, ascending. Empty without a state or with a row in an open step."""
        return self._list("exportable", _handle("exportable", "request", request), kind=ctypes.c_int64)

    def fork(self, request: int) -> int:
        """A second request with the same state and count. Folds first, takes blocks. Returns it."""
        return self._number("fork", _handle("fork", "request", request), self._context)

    def hold(self, request: int, tokens: int) -> int:
        """Keeps the state after `tokens` tokens, one of exportable, beyond the request's life. Returns the prefix."""
        return self._number("hold", _handle("hold", "request", request), _tokens("hold", tokens), self._context)

    def release(self, prefix: int) -> None:
        """Lets a prefix go."""
        self._call("release", _handle("release", "prefix", prefix))

    def prefix_tokens(self, prefix: int) -> int:
        """Tokens in a prefix's state."""
        return self._number("prefix_tokens", _handle("prefix_tokens", "prefix", prefix), kind=ctypes.c_int64)

    def export(self, request: int, tokens: int, tag: int = 0) -> bytes:
        """The state after `tokens` tokens, one of exportable, as bytes: a checkpoint. tag: the caller's, 64 bits, a hash of the text, say.

        Folds first. Every session with the same layers restores it, whatever its S, line kind, groups and block sizes.
        """
        size = ctypes.c_size_t()
        given = _handle("export", "request", request), _tokens("export", tokens), _handle("export", "tag", tag), self._context
        self._call("export_checkpoint", *given, None, ctypes.c_size_t(0), ctypes.byref(size))
        made = ctypes.create_string_buffer(size.value)
        self._call("export_checkpoint", *given, made, size, ctypes.byref(size))
        return made.raw[: size.value]

    def restore(self, request: int, checkpoint: bytes, tokens: int, tag: int = 0) -> None:
        """Gives an empty or dead request the state of a checkpoint.

        Raises InvalidArgument unless it is whole, undamaged, of these layers, and has this count and tag; BadState where blocks are missing
        or the request is live.
        """
        given = _handle("restore", "request", request), bytes(checkpoint), ctypes.c_size_t(len(checkpoint))
        self._call("restore", *given, _tokens("restore", tokens), _handle("restore", "tag", tag))

    # ---- looking ----

    def block_tag(self, group: int, block: int) -> BlockTag:
        """What a block holds. Raises OutOfRange for one that does not exist."""
        tag = new(abi.BlockTag)
        numbers = ctypes.c_int32(integer("block_tag: group", group)), ctypes.c_int32(integer("block_tag: block", block))
        self._call("block_tag", *numbers, ctypes.byref(tag))
        return BlockTag(tag.owner, tag.tokens, tag.step, tag.references, _text(tag.layout))

    def free_blocks(self, group: int = 0) -> int:
        """Free blocks of a group."""
        return self._number("free_blocks", ctypes.c_int32(integer("free_blocks: group", group)), kind=ctypes.c_int32)

    @property
    def requests(self) -> int:
        """Requests admitted and not finished."""
        return self._number("requests", kind=ctypes.c_int32)

    @property
    def open_steps(self) -> int:
        """Steps opened and not closed."""
        return self._number("open_steps", kind=ctypes.c_int32)

    @property
    def prefixes(self) -> int:
        """Prefixes held and not released."""
        return self._number("prefixes", kind=ctypes.c_int32)

    def pool(self, layer: int) -> LayerPool:
        """The memory of a layer, the session's own or the caller's, as numpy arrays (bfloat16 through ml_dtypes); None for what it has not.

        Nothing is copied: the arrays show what the next call changes, and writing them changes states. torch.from_dlpack(trace.Buffer(array))
        is the same memory as a tensor. It stays until the last array of it is gone, beyond close(). Raises OutOfRange for another layer,
        Unsupported on a device: give the session pools there, to look at them.
        """
        if self._backend != "cpu":
            raise Unsupported(f"session.pool: memory on {self._backend}, expected the CPU")
        pool, records = new(abi.LayerPool), new(abi.Records)
        owner = self._call("pool", ctypes.c_int32(integer("pool: layer", layer)), ctypes.byref(pool), ctypes.byref(records))
        arrays = {name: array_of(getattr(pool, name), owner) for name in ("line", "state", "pending")}
        packed, corrections, key_gate = (array_of(getattr(records, name), owner) for name in ("packed", "corrections", "key_gate"))
        return LayerPool(**arrays, records=packed if corrections is None else KdaRecords(corrections, key_gate))

    def counters(self) -> Counters:
        """What happened since the session was made. What this class refuses before it asks the session is not in it."""
        counts, traffic = new(abi.SessionCounts), new(abi.Counters)
        self._call("counters", ctypes.byref(counts), ctypes.byref(traffic))
        values = {name: getattr(counts, name) for name in Counters._fields if name != "traffic"}
        kinds = [_native.library.recoverssm_status_name(status).decode() for status in range(6)]
        values["refused_by_kind"] = {kind: count for kind, count in zip(kinds, counts.refused_by_kind, strict=True) if count}
        values |= {name: _text(values[name]) for name in ("per_group_reason", "last_refusal")}
        return Counters(**values, traffic=Traffic(*(getattr(traffic, name) for name in Traffic._fields)))

    def _list(self, name: str, *arguments: Any, kind: Any) -> list[int]:
        count = ctypes.c_size_t()
        self._call(name, *arguments, None, ctypes.c_size_t(0), ctypes.byref(count))
        room = (kind * count.value)()
        self._call(name, *arguments, room, count, ctypes.byref(count))
        return list(room)


def _handle(call_name: str, name: str, value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(integer(f"{call_name}: {name}", value, 64, signed=False))


def _tokens(call_name: str, value: int) -> ctypes.c_int64:
    return ctypes.c_int64(integer(f"{call_name}: tokens", value, 64))


def _rows(call_name: str, rows: Iterable[Row | tuple]) -> ctypes.Array:
    listed = [Row(*row) for row in rows]
    made = (abi.StepRow * len(listed))()
    for place, row in enumerate(listed):
        where = f"{call_name}: rows[{place}]."
        made[place].request = integer(f"{where}request", row.request, 64, signed=False)
        made[place].kind = _native.word(f"{where}kind", row.kind, ROW_KINDS)
        made[place].tokens = integer(f"{where}tokens", row.tokens)
        if row.num_computed is not None:
            made[place].has_num_computed = 1
            made[place].num_computed = integer(f"{where}num_computed", row.num_computed, 64)
    return made


def prefix_hit(attention_tokens: int, groups: Sequence[Sequence[int]]) -> int:
    """The longest prefix, in tokens, that attention and every group have: at most attention_tokens, and in each group's list of token counts
    that have a real state. 0 if there is none."""
    lists = [(ctypes.c_int64 * len(group))(*(integer("prefix_hit: tokens", count, 64) for count in group)) for group in groups]
    pointers = (ctypes.c_void_p * len(lists))(*(ctypes.addressof(one) for one in lists))
    counts, tokens = (ctypes.c_size_t * len(lists))(*map(len, lists)), ctypes.c_int64()
    call("prefix_hit", _tokens("prefix_hit", attention_tokens), pointers, counts, ctypes.c_size_t(len(lists)), ctypes.byref(tokens))
    return tokens.value


def inspect_checkpoint(checkpoint: bytes) -> CheckpointInfo:
    """What a checkpoint says of itself. Raises InvalidArgument for bytes that are none, whole and undamaged, Unsupported for another version."""
    info = new(abi.CheckpointInfo)
    call("checkpoint_inspect", bytes(checkpoint), ctypes.c_size_t(len(checkpoint)), ctypes.byref(info))
    return CheckpointInfo(*(getattr(info, name) for name in CheckpointInfo._fields[:-1]), layout=_text(info.layout))


def write_checkpoint(path: str | os.PathLike[str], checkpoint: bytes) -> None:
    """Writes a file that is at every moment what it was before or the whole checkpoint. Raises DeviceError with the system's reason."""
    call("checkpoint_write", os.fsencode(path), bytes(checkpoint), ctypes.c_size_t(len(checkpoint)))


def read_checkpoint(path: str | os.PathLike[str]) -> bytes:
    """Reads a file of write_checkpoint. Raises InvalidArgument if it is no whole checkpoint, DeviceError with the system's reason."""
    size = ctypes.c_size_t()
    call("checkpoint_read", os.fsencode(path), None, ctypes.c_size_t(0), ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    call("checkpoint_read", os.fsencode(path), made, size, ctypes.byref(size))
    return made.raw[: size.value]
