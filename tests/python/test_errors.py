"""Errors by kind: class, kind, message of the contract, and nothing written."""

import pytest
import recoverssm
import torch
from cases import CASES, Shape, lower, make, run, written
from recoverssm import ops


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


# Overload, what is changed, the class, words of the message.
WRONG = [
    ("causal_conv1d", {"weight": torch.zeros(3, 4)}, recoverssm.InvalidArgument, ["weight", "expected"]),
    ("causal_conv1d", {"state_indices": i32(1, 2, 3, 99)}, recoverssm.OutOfRange, ["state_indices", "99"]),
    ("causal_conv1d", {"state_indices": i32(1, 1, 2, 3)}, recoverssm.OutOfRange, ["share block 1"]),
    ("causal_conv1d", {"query_start_loc": i32(0, 2, 1, 5, 6)}, recoverssm.OutOfRange, ["query_start_loc"]),
    ("causal_conv1d", {"line_kind": "round"}, recoverssm.InvalidArgument, ["line_kind", '"round"', "rolled or anchored"]),
    ("causal_conv1d", {"out": None}, recoverssm.InvalidArgument, ["out", "missing"]),
    ("causal_conv1d", {"x": "text"}, recoverssm.InvalidArgument, ["x"]),
    ("causal_conv1d", {"null_block_id": 2**40}, recoverssm.InvalidArgument, ["null_block_id", str(2**40)]),
    ("causal_conv1d", {"state_indices": torch.arange(1, 5)}, recoverssm.InvalidArgument, ["state_indices", "i64", "i32"]),
    ("causal_conv1d", {"bias": torch.zeros(28, dtype=torch.int8)}, recoverssm.InvalidArgument, ["bias", "dtype"]),
    ("causal_conv1d", {"line": torch.zeros(1, 1, 1, 1, 1)}, recoverssm.InvalidArgument, ["line", "5 dimensions"]),
    ("gated_delta_rule", {"lower_bound": -1.0}, recoverssm.InvalidArgument, ["lower_bound"]),
    ("gated_delta_rule", {"pending": torch.zeros(24, dtype=torch.int32)}, recoverssm.InvalidArgument, ["gated_delta_rule"]),
    ("gated_delta_rule.lazy", {"num_accepted": i32(9, 0, 0, 0)}, recoverssm.OutOfRange, ["num_accepted", "9"]),
    ("gated_delta_rule_verify", {"num_accepted": i32(0, 0, 0, 0)}, recoverssm.InvalidArgument, ["num_accepted"]),
    ("gated_delta_rule_verify", {"records": None}, recoverssm.InvalidArgument, ["records", "missing"]),
    ("gated_delta_rule_verify", {"gate": "kda"}, recoverssm.InvalidArgument, ["gated_delta_rule_verify"]),
    ("gated_delta_rule_verify.kda", {"gate": "gdn"}, recoverssm.InvalidArgument, ["gated_delta_rule_verify"]),
    ("gated_delta_rule_verify", {"window_capacity": 2}, recoverssm.InvalidArgument, ["records", "window_capacity"]),
    ("commit_plan", {"block_size": None}, recoverssm.InvalidArgument, ["block_size", "missing"]),
    ("commit_plan", {"num_computed": i32(-1, 0, 0, 0)}, recoverssm.OutOfRange, ["num_computed", "-1"]),
    ("align_advance", {"block_size": 0}, recoverssm.InvalidArgument, ["block_size"]),
    ("align_move", {"to": i32(1, 1, 2, 3)}, recoverssm.OutOfRange, ["align_move"]),
    ("split_projections", {"num_k_heads": 0}, recoverssm.InvalidArgument, ["num_k_heads"]),
]


@pytest.mark.parametrize(("name", "change", "error", "words"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_kind_message_and_nothing_written(name, change, error, words):
    operation, arguments = make(name)
    tensors = {key: value for key, value in arguments.items() if isinstance(value, torch.Tensor)}
    before = {key: tensor.clone() for key, tensor in tensors.items()}
    with pytest.raises(error) as raised:
        run(operation, arguments | change)
    assert raised.value.kind == error.kind
    assert str(raised.value).startswith(operation + ": ")
    for word in words:
        assert word in str(raised.value)
    for key, tensor in tensors.items():
        assert torch.equal(tensor, before[key]), key


def test_bad_state():
    operation, arguments = make("commit")
    layer = arguments["layers"][2]
    layer.pending.zero_()
    group = arguments["groups"][1]
    group.commit_len.fill_(1)
    group.boundary_indices.zero_()
    group.final_indices.copy_(torch.tensor([23, 22, 0, 21], dtype=torch.int32))
    arguments["groups"][0].commit_len.zero_()
    with pytest.raises(recoverssm.BadState, match="pending"):
        run(operation, arguments)


def test_unsupported_size():
    """K beyond 256: refused by the same rule as everywhere."""
    operation, arguments = make("gated_delta_rule", shape=Shape(K=264, V=2, HV=1))
    with pytest.raises((recoverssm.Unsupported, recoverssm.InvalidArgument), match="256"):
        run(operation, arguments)


def test_classes():
    assert issubclass(recoverssm.InvalidArgument, ValueError)
    assert issubclass(recoverssm.OutOfRange, IndexError)
    assert issubclass(recoverssm.Unsupported, NotImplementedError)
    assert issubclass(recoverssm.BadState, RuntimeError)
    for error in recoverssm.errors.BY_KIND.values():
        assert issubclass(error, recoverssm.Error)


def test_the_operation_itself_raises_runtime_error_with_the_kind():
    operation, arguments = make("causal_conv1d")
    function, direct = lower(operation, arguments | {"state_indices": i32(1, 1, 2, 3)})
    with pytest.raises(RuntimeError, match=r"^\[recoverssm\.out_of_range\] causal_conv1d: state_indices: "):
        function(**direct)


@pytest.mark.parametrize("name", [name for name in CASES if name.partition(" ")[0] in ("commit", "materialize", "align_move")])
def test_columns_that_do_not_fit(name):
    """Layers and groups given to torch.ops itself: columns of other lengths are refused, and nothing is read past an end."""
    function, arguments = lower(*make(name))
    before = {key: tensor.clone() for key, tensor in written(function, arguments).items()}
    for column in ("group", "line_kind", "conv_taps", "gate", "l2norm", "softplus_beta", "softplus_threshold", "layer_parts"):
        with pytest.raises(RuntimeError, match=r"invalid_argument\] \w+: layer_parts"):
            function(**arguments | {column: arguments[column][:-1]})
    for column in ("state", "records", "pending", "line", "corrections", "key_gate", "A_log", "dt_bias"):
        if arguments[column]:
            with pytest.raises(RuntimeError, match=r"invalid_argument\] \w+: layer_parts"):
                function(**arguments | {column: arguments[column][:-1]})
            with pytest.raises(RuntimeError, match=r"invalid_argument\] \w+: layer_parts"):
                function(**arguments | {column: arguments[column] * 2})
    for key, tensor in written(function, arguments).items():
        assert torch.equal(tensor, before[key]), key


def test_group_columns_that_do_not_fit():
    for name, column in (("commit", "final_indices"), ("commit_plan_groups", "commit_len"), ("commit_plan_groups", "block_table")):
        function, arguments = lower(*make(name))
        with pytest.raises(RuntimeError, match=r"invalid_argument\] \w+: (groups|has_block_table)"):
            function(**arguments | {column: arguments[column][:-1]})


def test_nothing_to_commit():
    ops.commit(groups=[], layers=[], window_capacity=1)
