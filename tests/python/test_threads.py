"""Threads: the same bits from any number of torch's threads, and from several Python threads at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cases import Shape, lower, make, written

# Enough work that a call asks for torch's threads.
BIG = Shape(H=4, HV=8, K=64, V=64, S=4, lengths=(4, 3, 4, 2), blocks=24)
NAMES = ["gated_delta_rule_verify", "gated_delta_rule", "causal_conv1d_window", "commit", "gdn_attention.lazy"]


@pytest.fixture(autouse=True)
def one_thread_afterwards():
    yield
    torch.set_num_threads(1)


def result(name: str, threads: int | None = None) -> dict[str, torch.Tensor]:
    function, arguments = lower(*make(name, 1, BIG))
    if threads is not None:
        torch.set_num_threads(threads)
    function(**arguments)
    return written(function, arguments)


def same(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(got[key].view(torch.uint8), want[key].view(torch.uint8)) for key in want)


@pytest.mark.parametrize("name", NAMES)
def test_bits_do_not_depend_on_torch_threads(name):
    want = result(name, 1)
    for threads in (2, 3, 7):
        assert same(result(name, threads), want), threads


def test_calls_from_several_threads():
    wants = {name: result(name) for name in NAMES}
    with ThreadPoolExecutor(4) as pool:
        for name, got in zip(NAMES * 4, pool.map(result, NAMES * 4), strict=True):
            assert same(got, wants[name]), name
