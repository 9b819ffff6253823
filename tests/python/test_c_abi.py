"""The same bits through PyTorch and through the C ABI: another library file, another way to describe a call."""

import c_abi
import pytest
import recoverssm
import torch
from cases import Shape, lower, make, run, written

NAMES = [
    "causal_conv1d_window",
    "causal_conv1d_window.inplace",
    "gated_delta_rule_verify",
    "gated_delta_rule_verify.kda",
    "gated_delta_rule_verify.lazy",
    "gated_delta_rule_verify.kda_lazy",
    "commit",
]


@pytest.mark.parametrize("T", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("state", [torch.float32, torch.bfloat16], ids=lambda dtype: f"state {dtype}")
@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name, T, state):
    shape = Shape(T=T, state=state, H=2, HV=4, K=36, V=20, S=4, lengths=(4, 1, 0, 3))
    operation, by_torch = make(name, 11, shape)
    _, by_c = make(name, 11, shape)
    run(operation, by_torch)
    getattr(c_abi, operation)(**by_c)
    function, got = lower(operation, by_torch)
    wants = written(function, lower(operation, by_c)[1])
    for key, want in wants.items():
        assert torch.equal(written(function, got)[key].view(torch.uint8), want.view(torch.uint8)), key


def test_same_message():
    operation, arguments = make("causal_conv1d_window")
    arguments["state_indices"] = torch.tensor([1, 1, 2, 99], dtype=torch.int32)
    with pytest.raises(recoverssm.OutOfRange) as by_torch:
        run(operation, arguments)
    with pytest.raises(recoverssm.OutOfRange) as by_c:
        c_abi.causal_conv1d_window(**arguments)
    assert str(by_torch.value) == str(by_c.value)
