"""Three operations through the C ABI with ctypes, the structs written from include/recoverssm/recoverssm.h: convolution, verify, commit."""

from __future__ import annotations

import ctypes

import torch
from recoverssm import ops
from recoverssm._native import check, library

SIZE, POINTER, INT, FLOAT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int32, ctypes.c_float
DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.int32: 4, torch.bool: 7}
GATES = {"gdn": 0, "kda": 1}
LINES = {"plain": 0, "rolled": 1, "anchored": 2}


class Tensor(ctypes.Structure):
    _fields_ = [("data", POINTER), ("dtype", INT), ("dims", INT)]
    _fields_ += [("shape", ctypes.c_int64 * 4), ("stride", ctypes.c_int64 * 4), ("reserved", ctypes.c_int64 * 2)]


def struct(name: str, fields: str) -> type[ctypes.Structure]:
    """fields: "type name name; ..." with t tensor, p pointer, z size, i int32, f float."""
    types = {"t": Tensor, "p": POINTER, "z": SIZE, "i": INT, "f": FLOAT}
    layout = [("struct_size", SIZE)]
    for group in fields.split(";"):
        kind, *names = group.split()
        layout += [(field, types[kind]) for field in names]
    return type(name, (ctypes.Structure,), {"_fields_": layout})


Rows = struct("rows", "t query_start_loc state_indices has_initial_state num_accepted token_index; i window_capacity null_block_id")
Inputs = struct(
    "rule_inputs",
    "t q k v a b A_log dt_bias; i gate l2norm has_lower_bound; f lower_bound; i has_scale; f scale softplus_beta softplus_threshold",
)
Records = struct("records", "t packed corrections key_gate")
Layer = struct(
    "layer",
    "t line state pending A_log dt_bias; p records; i group line_kind conv_taps gate has_lower_bound; f lower_bound; i l2norm;"
    "f softplus_beta softplus_threshold; i reserved",
)
Group = struct("commit_group", "t state_indices commit_len final_indices boundary_indices boundary_len")
Window = struct("causal_conv1d_window_params", "t x weight bias out line; p rows; i activation line_kind")
Verify = struct("gated_delta_rule_verify_params", "p inputs rows records; t state out pending")
Commit = struct("commit_params", "p groups; z group_count; p layers; z layer_count; i window_capacity null_block_id")
Launch = struct("launch", "p workspace; z workspace_bytes; p parallel_run parallel_self counters; i parallel_workers target")


def tensor(of: torch.Tensor | None) -> Tensor:
    if of is None:
        return Tensor(dims=-1)
    pad = (0,) * (4 - of.dim())
    return Tensor(of.data_ptr(), DTYPES[of.dtype], of.dim(), (*of.shape, *pad), (*of.stride(), *pad))


def make(kind: type[ctypes.Structure], **values) -> ctypes.Structure:
    made = kind()
    getattr(library, f"recoverssm_{kind.__name__}_init")(ctypes.byref(made), SIZE(ctypes.sizeof(made)))
    for name, value in values.items():
        if value is None or isinstance(value, torch.Tensor):
            value = tensor(value)
        elif isinstance(value, (ctypes.Structure, ctypes.Array)):
            value = ctypes.addressof(value)
        setattr(made, name, value)
    return made


def run(operation: str, params: ctypes.Structure) -> None:
    launch, needed = make(Launch), SIZE()
    prefix = f"recoverssm_{operation}"
    check(getattr(library, f"{prefix}_workspace_size")(ctypes.byref(params), ctypes.byref(launch), ctypes.byref(needed)))
    memory = ctypes.create_string_buffer(needed.value + 64)
    launch.workspace = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
    launch.workspace_bytes = needed.value
    check(getattr(library, f"{prefix}_run")(ctypes.byref(params), ctypes.byref(launch)))


def rows(call: dict) -> ctypes.Structure:
    names = ("query_start_loc", "state_indices", "num_accepted", "window_capacity")
    return make(Rows, **{name: call[name] for name in names if call.get(name) is not None})


def causal_conv1d_window(**call) -> None:
    tensors = {name: call[name] for name in ("x", "weight", "bias", "out", "line")}
    of_rows = rows(call)
    run("causal_conv1d_window", make(Window, **tensors, rows=of_rows, activation=1, line_kind=LINES[call["line_kind"]]))


def records(given: ops.Records) -> ctypes.Structure:
    if isinstance(given, ops.KdaRecords):
        return make(Records, corrections=given.corrections, key_gate=given.key_gate)
    return make(Records, packed=given)


def gated_delta_rule_verify(**call) -> None:
    names = ("q", "k", "v", "a", "b", "A_log", "dt_bias")
    parts = make(Inputs, **{name: call[name] for name in names}, gate=GATES[call["gate"]]), rows(call), records(call["records"])
    tensors = {name: call.get(name) for name in ("state", "out", "pending")}
    run("gated_delta_rule_verify", make(Verify, inputs=parts[0], rows=parts[1], records=parts[2], **tensors))


def commit(*, groups: list[ops.CommitGroup], layers: list[ops.Layer], window_capacity: int) -> None:
    of_records = [records(layer.records) for layer in layers]
    made = (Layer * len(layers))()
    for i, layer in enumerate(layers):
        names = ("line", "state", "pending", "A_log", "dt_bias", "group", "conv_taps")
        values = {name: getattr(layer, name) for name in names}
        made[i] = make(Layer, **values, records=of_records[i], line_kind=LINES[layer.line_kind], gate=GATES[layer.gate])
    grouped = (Group * len(groups))(*(make(Group, **vars(group)) for group in groups))
    counts = {"group_count": len(groups), "layer_count": len(layers)}
    run("commit", make(Commit, groups=grouped, layers=made, window_capacity=window_capacity, **counts))
