"""From what an overload of torch.ops.recoverssm takes to the arguments of a trace: the columns of layers, groups and parts put together."""

from __future__ import annotations

from typing import Any

from .. import ops  # noqa: F401  (before torch: it says what is missing)

import torch  # isort: skip

# LayerPart of bindings/torch/commit.h: the bit of a part is its place here.
_PARTS = ("line", "state", "pending", "records", "corrections", "key_gate", "A_log", "dt_bias", "lower_bound")
_LAYER_SCALARS = ("group", "line_kind", "conv_taps", "gate", "l2norm", "softplus_beta", "softplus_threshold")
_LAYER_LISTS = ("commit", "materialize", "align_move")
_PLAN = ("commit_len", "final_indices", "boundary_indices", "boundary_len")
_PLAIN = ("query_start_loc", "state_indices", "has_initial_state", "num_accepted", "pending", "records", "token_index")
_WINDOWS = ("mode", "query_start_loc", "state_indices", "num_accepted", "window_capacity", "records", "pending", "token_index")
# Arguments of the operation that only some of its overloads have.
_ABSENT = {
    "gated_delta_rule": ("pending", "num_accepted", "records"),
    "gated_delta_rule_verify": ("pending", "num_accepted"),
}


def bound(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every argument of the schema by name, with its default where PyTorch left it out."""
    given = dict(zip((argument.name for argument in overload._schema.arguments), args, strict=False)) | kwargs
    for argument in overload._schema.arguments:
        if argument.name not in given:
            given[argument.name] = argument.default_value
    return given


def operation_of(overload: Any) -> str:
    """Its operation: "commit" of recoverssm::commit."""
    return overload._schema.name.partition("::")[2]


def trace_arguments(overload: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments as docs/traces.md names them; tensors stay tensors.

    Raises ValueError for columns that do not fit together: such a call is refused by the operation and is no call of a trace.
    """
    operation = operation_of(overload)
    arguments = dict(given)
    if operation in ("causal_conv1d", "causal_conv1d_window"):
        arguments.setdefault("out", arguments["x"])
    elif operation in _ABSENT:
        _join_records(arguments)
        arguments = dict.fromkeys(_ABSENT[operation]) | arguments
    elif operation in _LAYER_LISTS:
        arguments = _with_layers(arguments)
        if operation == "align_move":
            arguments["from"] = arguments.pop("from_")
    if operation == "commit":
        arguments["groups"] = _rows(arguments, ("state_indices", *_PLAN))
    elif operation == "commit_plan_groups":
        tables, has = list(arguments.pop("block_table")), arguments.pop("has_block_table")
        groups = _rows(arguments, ("state_indices", *_PLAN))
        for group, there in zip(groups, has, strict=True):
            group["block_table"] = tables.pop(0) if there else None
        arguments["groups"] = groups
    elif operation == "gdn_attention":
        arguments = _with_parts(arguments)
    return arguments


def _join_records(arguments: dict[str, Any]) -> None:
    corrections, key_gate = arguments.pop("corrections", None), arguments.pop("key_gate", None)
    if corrections is not None or key_gate is not None:
        arguments["records"] = {"corrections": corrections, "key_gate": key_gate}


def _rows(arguments: dict[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    columns = [arguments.pop(name) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _with_layers(arguments: dict[str, Any]) -> dict[str, Any]:
    columns = {name: list(arguments.pop(name)) for name in (*_PARTS, *_LAYER_SCALARS)}
    layers = []
    for place, bits in enumerate(arguments.pop("layer_parts")):
        try:
            layer = {name: columns[name].pop(0) if bits >> bit & 1 else None for bit, name in enumerate(_PARTS)}
            layer |= {name: columns[name][place] for name in _LAYER_SCALARS}
        except IndexError:
            raise ValueError("columns of layers that do not fit together") from None
        _join_records(layer)
        layers.append(layer)
    return {**arguments, "layers": layers}


def _with_parts(arguments: dict[str, Any]) -> dict[str, Any]:
    plain = {name: arguments.pop(f"plain_{name}", None) for name in _PLAIN}
    windows = {name: arguments.pop("window_capacity" if name == "window_capacity" else f"window_{name}", None) for name in _WINDOWS}
    takes = {name: arguments.pop(f"plain_takes_{name}") for name in ("records", "pending")}
    for name, shared in takes.items():
        if shared:
            plain[name] = windows[name]
    arguments["plain"] = plain if plain["query_start_loc"] is not None else None
    arguments["windows"] = windows if windows["mode"] is not None else None
    return arguments


def leaves(value: Any, path: str = "") -> list[tuple[str, torch.Tensor]]:
    """Every tensor in arguments, with where it stands: "q", "layers0.state"."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, dict):
        return [leaf for name, part in value.items() for leaf in leaves(part, f"{path}.{name}" if path else name)]
    if isinstance(value, (list, tuple)):
        return [leaf for place, part in enumerate(value) for leaf in leaves(part, f"{path}{place}")]
    return []


def written_tensors(overload: Any, given: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that the schema declares as written."""
    found: list[torch.Tensor] = []
    for argument in overload._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given[argument.name]
            found += value if isinstance(value, (list, tuple)) else [value]
    return found
