"""torch.library.opcheck on every overload: schema, fakes, autograd registration, ahead-of-time dispatch with dynamic shapes."""

import pytest
import torch
from cases import CASES, lower, make, run, written
from recoverssm.ops._library import overloads


def test_every_overload_has_a_case():
    assert {overload.name().removeprefix("recoverssm::") for overload in overloads()} == {name.partition(" ")[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_opcheck(name):
    function, arguments = lower(*make(name))
    assert function.name() == "recoverssm::" + name.partition(" ")[0]
    torch.library.opcheck(function, (), arguments)


@pytest.mark.parametrize("name", CASES)
def test_returns_nothing_and_every_written_argument_is_required(name):
    function, arguments = lower(*make(name))
    assert str(function._schema).endswith("-> ()")
    for argument in function._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            assert not argument.has_default_value(), argument.name
    before = {key: tensor.clone() for key, tensor in written(function, arguments).items()}
    assert function(**arguments) is None
    changed = [key for key, tensor in written(function, arguments).items() if not torch.equal(tensor, before[key])]
    assert changed, "the call wrote nothing: the case tests nothing"


@pytest.mark.parametrize("name", CASES)
def test_wrapper_and_operation_give_the_same_bits(name):
    operation, arguments = make(name)
    run(operation, arguments)
    function, direct = lower(*make(name))
    function(**direct)
    _, wrapped = lower(operation, arguments)
    for key, tensor in written(function, direct).items():
        assert torch.equal(tensor.view(torch.uint8), written(function, wrapped)[key].view(torch.uint8)), key
