"""torch.compile(fullgraph=True): the same bits as eager (B32)."""

import pytest
import torch
from cases import CASES, Maker, Shape, lower, make, written
from recoverssm import ops
from test_views import paged

BACKENDS = ["aot_eager", "inductor"]
SHAPE = Shape()


def step(conv, rule, pools, group, S, W):
    """Convolution, verify and commit of two layers; the rule's inputs come from the convolution."""
    outs, layers = [], []
    for number, pool in enumerate(pools):
        x = conv["x"] * (number + 1)
        mixed = torch.empty_like(x)
        ops.causal_conv1d_window(**conv | {"x": x, "out": mixed}, line=pool["line"], line_kind="anchored", window_capacity=S)
        H, K = rule["q"].shape[1:]
        q, k, v = mixed.split([H * K, H * K, mixed.shape[1] - 2 * H * K], dim=1)
        inputs = {"q": q.unflatten(1, (H, K)), "k": k.unflatten(1, (H, K)), "v": v.unflatten(1, rule["v"].shape[1:])}
        out = torch.zeros_like(rule["out"])
        state, records = pool["state"], pool["records"]
        ops.gated_delta_rule_verify(**rule | inputs | {"out": out}, state=state, records=records, window_capacity=S)
        outs.append(out * 2)
        layers.append(ops.Layer(line=pool["line"], state=state, records=records, line_kind="anchored", conv_taps=W))
    ops.commit(groups=[group], layers=layers, window_capacity=S)
    # Read after the commit: the graph must keep its order.
    return outs, [pool["state"].amax(dim=(1, 2, 3)) for pool in pools]


def build(paged_memory: bool):
    """A step's arguments, and all memory that it may write."""
    maker = Maker(SHAPE, 8)
    conv, rule = maker.conv(), maker.rule()
    del rule["state"]
    group = maker.commit_group()
    memory, pools = [], []
    for number in range(2):
        page, views, _ = paged(maker)
        generator = torch.Generator().manual_seed(number)
        for view in views.values():
            view.copy_(torch.randn(view.shape, generator=generator))
        pools.append(views if paged_memory else {name: view.clone() for name, view in views.items()})
        memory += [page] if paged_memory else list(pools[-1].values())
    return (conv, rule, pools, group, SHAPE.S, SHAPE.W), memory


@pytest.mark.parametrize("paged_memory", [False, True], ids=["tensors", "views of a byte page"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_layers_fullgraph(backend, paged_memory):
    (eager, memory), (traced, traced_memory) = build(paged_memory), build(paged_memory)
    before = [tensor.clone() for tensor in memory]
    want = step(*eager)
    torch.compiler.reset()
    got = torch.compile(step, fullgraph=True, backend=backend)(*traced)
    for a, b in zip(want[0] + want[1], got[0] + got[1], strict=True):
        assert torch.equal(a, b)
    for old, a, b in zip(before, memory, traced_memory, strict=True):
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))  # of a page: the bytes between the views too
        assert not torch.equal(old, a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_page_viewed_inside_the_graph(backend):
    """One typed view of a whole byte page may also be made by the graph itself."""
    rule = Maker(SHAPE, 9).rule()
    shape = rule.pop("state").shape

    def run(page, out):
        state = page.view(torch.float32).unflatten(1, shape[1:])
        ops.gated_delta_rule(**rule | {"out": out}, state=state)
        return page.to(torch.int32).sum()

    results = []
    for compiled in (False, True):
        page, out = torch.zeros(shape[0], shape[1:].numel() * 4, dtype=torch.uint8), torch.zeros_like(rule["out"])
        torch.compiler.reset()
        total = (torch.compile(run, fullgraph=True, backend=backend) if compiled else run)(page, out)
        results.append((page, out, total))
    assert results[0][0].any()
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_every_overload_fullgraph(name):
    function, eager = lower(*make(name, 2))
    _, traced = lower(*make(name, 2))
    function(**eager)
    torch.compiler.reset()
    torch.compile(lambda arguments: function(**arguments), fullgraph=True, backend="aot_eager")(traced)
    for key, want in written(function, eager).items():
        assert torch.equal(want.view(torch.uint8), written(function, traced)[key].view(torch.uint8)), key
