"""Tensors are taken as they are: strided index and data views, pools as typed views of a byte page; bits as with packed copies."""

import pytest
import recoverssm
import torch
from cases import CASES, Maker, Shape, lower, make, run, written
from recoverssm import ops

GUARD = 0x5A


def spread(tensor: torch.Tensor, dims: tuple[int, ...], storages: list[torch.Tensor]) -> torch.Tensor:
    """The same values with gaps: between elements along `dims`, a storage offset, guard bytes all around."""
    sizes = [size * 2 + 1 if dim in dims else size for dim, size in enumerate(tensor.shape)]
    count = 5
    for size in sizes:
        count *= max(size, 1)
    storage = torch.full((count * tensor.element_size() + 32 * tensor.element_size(),), GUARD, dtype=torch.uint8)
    storages.append(storage)
    typed = storage.view(tensor.dtype) if tensor.dtype != torch.bool else torch.zeros(count + 32, dtype=torch.bool)
    strides, step = [0] * tensor.dim(), 1
    for dim in reversed(range(tensor.dim())):
        strides[dim] = step * 2 if dim in dims else step
        step *= sizes[dim]
    view = typed.as_strided(tensor.shape, strides, 3)
    view.copy_(tensor)
    return view


def spread_argument(name: str, tensor: torch.Tensor, storages: list[torch.Tensor]) -> torch.Tensor:
    """Gaps wherever the contract leaves strides free: between blocks, tokens, indices; any dimension of a line."""
    if name.startswith("line") or name == "weight":
        return spread(tensor, tuple(range(tensor.dim())), storages)
    if name.startswith("state[") or name == "state":
        return spread(tensor, (0,), storages)
    if tensor.dim() <= 2 and tensor.dtype in (torch.int32, torch.bool):
        return spread(tensor, tuple(range(tensor.dim())), storages)
    return spread(tensor, (0,) if tensor.dim() > 1 else (), storages)


@pytest.mark.parametrize("T", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_strided_views_give_the_bits_of_packed_ones(name, T):
    shape = Shape(T=T)
    function, packed = lower(*make(name, 3, shape))
    _, strided = lower(*make(name, 3, shape))
    storages: list[torch.Tensor] = []
    for key, value in strided.items():
        if isinstance(value, torch.Tensor):
            strided[key] = spread_argument(key, value, storages)
        elif isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
            strided[key] = [spread_argument(f"{key}[{i}]", tensor, storages) for i, tensor in enumerate(value)]
    copies = [storage.clone() for storage in storages]
    function(**packed)
    function(**strided)
    wants, gots = written(function, packed), written(function, strided)
    for key, want in wants.items():
        assert torch.equal(want.view(torch.uint8), gots[key].contiguous().view(torch.uint8)), key
    # What lies between the elements was not touched.
    for key, got in gots.items():
        place = next(i for i, storage in enumerate(storages) if storage.data_ptr() == got.untyped_storage().data_ptr())
        inside = torch.zeros(storages[place].numel() // got.element_size(), dtype=torch.bool)
        inside.as_strided(got.shape, got.stride(), got.storage_offset()).fill_(True)
        outside = ~inside.repeat_interleave(got.element_size())
        assert torch.equal(copies[place][outside], storages[place][outside]), key


def page_layout(shape: Shape) -> tuple[int, dict]:
    """Bytes of a page, and where state, records and line of one layer lie in it, with bytes between them: name -> (dtype, shape, begin, end)."""
    s = shape
    parts = {
        "state": (torch.float32, (s.HV, s.V, s.K)),
        "records": (torch.float32, (s.HV, s.S, s.V + s.K + 1)),
        "line": (s.T, (s.W - 1 + s.S, s.C)),
    }
    layout, at = {}, 16
    for name, (dtype, sizes) in parts.items():
        end = at + torch.empty(sizes, dtype=dtype).nbytes
        layout[name] = (dtype, sizes, at, end)
        at = end + 16 + -end % 16
    return at, layout


def views_of(page: torch.Tensor, layout: dict) -> dict[str, torch.Tensor]:
    return {name: ops.page_view(page, offset=begin, shape=sizes, dtype=dtype) for name, (dtype, sizes, begin, _) in layout.items()}


def paged(maker: Maker):
    """State, records and line of one layer as typed views of one byte page a block (B32, B40), and where the bytes between them are."""
    size, layout = page_layout(maker.shape)
    pool = torch.full((maker.shape.blocks, size), GUARD, dtype=torch.uint8)
    views = views_of(pool, layout)
    assert all(view.untyped_storage().data_ptr() == pool.untyped_storage().data_ptr() for view in views.values())
    gaps = torch.ones(size, dtype=torch.bool)
    for _, _, begin, end in layout.values():
        gaps[begin:end] = False
    return pool, views, gaps


@pytest.mark.parametrize("T", [torch.float32, torch.bfloat16], ids=str)
def test_pools_as_views_of_a_byte_page(T):
    maker = Maker(Shape(T=T), 4)
    pool, views, gaps = paged(maker)
    dense = {name: torch.randn(view.shape, generator=torch.Generator().manual_seed(1)).to(view.dtype) for name, view in views.items()}
    for name, view in views.items():
        view.copy_(dense[name])
    conv, rule = maker.conv(), maker.rule()
    del rule["state"]
    group = maker.commit_group()
    outs = []
    for part in (dense, views):
        out = {"out": torch.full_like(conv["out"], 7)}, {"out": torch.full_like(rule["out"], 7)}
        ops.causal_conv1d_window(**conv | out[0], line=part["line"], line_kind="anchored", window_capacity=maker.shape.S)
        ops.gated_delta_rule_verify(**rule | out[1], state=part["state"], records=part["records"], window_capacity=maker.shape.S)
        layer = ops.Layer(line_kind="anchored", conv_taps=maker.shape.W, **part)
        ops.commit(groups=[group], layers=[layer], window_capacity=maker.shape.S)
        outs.append((out[0]["out"], out[1]["out"]))
    assert torch.equal(outs[0][0], outs[1][0]) and torch.equal(outs[0][1], outs[1][1])
    for name, view in views.items():
        assert torch.equal(view, dense[name]), name
    assert (pool[:, gaps] == GUARD).all()


def test_page_view_refuses_what_is_no_view():
    pool = torch.zeros(3, 64, dtype=torch.uint8)
    view = ops.page_view(pool[1:], offset=16, shape=(2, 3), dtype=torch.float32)
    view.fill_(1)
    assert view.shape == (2, 2, 3) and view.stride() == (16, 3, 1)
    assert (pool[1:, 16:40].reshape(2, 6, 4).view(torch.float32) == 1).all() and not pool[0].any()
    with pytest.raises(recoverssm.InvalidArgument, match="multiples of 4"):
        ops.page_view(pool, offset=2, shape=(2,), dtype=torch.float32)
    with pytest.raises(recoverssm.OutOfRange, match="at most 64"):
        ops.page_view(pool, offset=60, shape=(2,), dtype=torch.float32)
    with pytest.raises(recoverssm.InvalidArgument, match="uint8"):
        ops.page_view(pool.view(torch.int32), offset=0, shape=(2,), dtype=torch.float32)


def test_columns_of_a_block_table():
    """B15: index views are columns of wider tables."""
    operation, arguments = make("gated_delta_rule_verify", 6)
    _, other = make("gated_delta_rule_verify", 6)
    table = torch.full((arguments["state_indices"].shape[0], 4), 17, dtype=torch.int32)
    table[:, 0] = arguments["state_indices"]
    run(operation, arguments)
    run(operation, other | {"state_indices": table[:, 0]})
    for key in ("out", "records"):
        assert torch.equal(arguments[key], other[key]), key
