"""The operations have no gradient: nothing may act as if they had one, and autograd must see what they write."""

import pytest
import torch
from recoverssm import InvalidArgument, Unsupported, ops


def conv_arguments(**changed):
    arguments = {
        "x": torch.ones(4, 256),
        "weight": torch.ones(256, 4),
        "out": torch.zeros(4, 256),
        "line": torch.zeros(2, 3, 256),
        "query_start_loc": torch.tensor([0, 4], dtype=torch.int32),
        "state_indices": torch.tensor([1], dtype=torch.int32),
    }
    return {**arguments, **changed}


def plan_outputs():
    return {name: torch.full((1,), -77, dtype=torch.int32) for name in ("commit_len", "final_indices", "boundary_indices", "boundary_len")}


def plan_arguments(**changed):
    arguments = {
        "num_accepted": torch.tensor([3], dtype=torch.int32),
        "query_start_loc": torch.tensor([0, 4], dtype=torch.int32),
        "state_indices": torch.tensor([1], dtype=torch.int32),
        "window_capacity": 4,
    }
    return {**arguments, **changed}


@pytest.mark.parametrize("name", ["x", "weight", "out", "line"])
def test_a_tensor_that_requires_grad_is_refused(name):
    arguments = conv_arguments()
    arguments[name] = arguments[name].clone().requires_grad_()
    with pytest.raises(InvalidArgument, match=rf"causal_conv1d: {name}: requires grad"):
        ops.causal_conv1d(**arguments)
    assert not arguments["line"].any()
    with torch.no_grad():
        ops.causal_conv1d(**arguments)
    assert arguments["line"][1].all()


def test_a_layer_that_requires_grad_is_refused():
    layer = ops.Layer(line=torch.zeros(2, 7, 4, requires_grad=True), conv_taps=4)
    plan = {name: torch.ones(1, dtype=torch.int32) for name in plan_outputs()}
    group = ops.CommitGroup(state_indices=torch.ones(1, dtype=torch.int32), **plan)
    with pytest.raises(InvalidArgument, match=r"commit: line: requires grad"):
        ops.commit(groups=[group], layers=[layer], window_capacity=4)


def test_autograd_sees_what_was_written():
    x, h = torch.ones(4, 256), torch.nn.Parameter(torch.ones(256))
    loss = (x * h).sum()
    ops.causal_conv1d(**conv_arguments(x=x, out=x))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_inference_tensors_are_written_too():
    with torch.inference_mode():
        arguments = conv_arguments()
        ops.causal_conv1d(**arguments)
        assert arguments["out"][3, 0] == 4


def test_some_tensors_on_meta_are_refused():
    out = plan_outputs()
    with pytest.raises((Unsupported, RuntimeError), match="tensors on cpu, meta, expected one device"):
        ops.commit_plan(**plan_arguments(num_accepted=torch.tensor([3], dtype=torch.int32, device="meta")), **out)
    ops.commit_plan(**{name: value.to("meta") if isinstance(value, torch.Tensor) else value
                       for name, value in {**plan_arguments(), **out}.items()})


def test_lists_may_be_iterators():
    arguments = plan_arguments()
    out = plan_outputs()
    group = ops.PlanGroup(state_indices=arguments.pop("state_indices"), **out)
    ops.commit_plan_groups(**arguments, groups=(g for g in [group]))
    assert out["commit_len"].item() == 3
    line = torch.arange(14.0).reshape(1, 7, 2).repeat(2, 1, 1)
    ops.commit(
        groups=iter([ops.CommitGroup(state_indices=group.state_indices, **out)]),
        layers=iter([ops.Layer(line=line, line_kind="anchored", conv_taps=4)]),
        window_capacity=4,
    )
    assert torch.equal(line[1, :3], line[0, 3:6])


@pytest.mark.parametrize("layers, said", [(ops.Layer(), "Layer, expected a list of Layer"), ([None], r"layers\[0\]: NoneType"), ([{}], "dict")])
def test_lists_of_something_else_are_refused(layers, said):
    with pytest.raises(InvalidArgument, match=said):
        ops.commit(groups=[], layers=layers, window_capacity=4)


def test_a_negated_view_cannot_be_written_but_can_be_read():
    with pytest.raises(InvalidArgument, match="out: a negated or conjugated view"):
        ops.causal_conv1d(**conv_arguments(out=torch._neg_view(torch.zeros(4, 256))))
    arguments = conv_arguments(x=torch._neg_view(torch.ones(4, 256)))
    ops.causal_conv1d(**arguments)
    assert arguments["out"][3, 0] == -4
