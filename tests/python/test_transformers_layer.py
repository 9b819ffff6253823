"""The recurrent part of a model: the same bits with and without speculation, whatever is appended, cropped and committed."""

import random

import pytest
import torch

pytest.importorskip("transformers", minversion="5.17", reason="transformers 5.17 or later is not installed")

from recoverssm.transformers import RecoverableLayer
from recoverssm.transformers._layer import LayerWeights
from recoverssm.transformers._mixers import Geometry

TOKENS = 60


def make(gate: str, dtype: torch.dtype, batch: int, seed: int):
    """Weights, and TOKENS tokens as a layer gets them."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape, dtype=dtype):
        return torch.randn(shape, generator=draw).to(dtype)

    geometry = Geometry(H=2, HV=2 if gate == "kda" else 4, K=32, V=16 if gate == "gdn" else 32, W=4)
    head = (geometry.HV, geometry.K) if gate == "kda" else (geometry.HV,)
    weights = LayerWeights(
        geometry=geometry,
        gate=gate,
        conv_weight=normal(geometry.channels, geometry.W),
        conv_bias=normal(geometry.channels) if gate == "gdn" else None,
        A_log=normal(geometry.HV, dtype=torch.float32),
        dt_bias=normal(*head, dtype=torch.float32),
    )
    tokens = (normal(batch, TOKENS, geometry.channels), normal(batch, TOKENS, *head), normal(batch, TOKENS, geometry.HV))
    return weights, tokens


def part(tokens, start: int, stop: int):
    return (tensor[:, start:stop] for tensor in tokens)


def plain(weights, tokens):
    """Token by token: all outputs, and the layer after each count of tokens."""
    layer, outs, after = RecoverableLayer(), [], []
    for t in range(TOKENS):
        outs.append(layer.run(weights, *part(tokens, t, t + 1)))
        after.append((layer.state.clone(), layer.line[:, : weights.geometry.W - 1].clone()))
    return torch.cat(outs, 1), after


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("gate", ["gdn", "kda"])
@pytest.mark.parametrize("max_window", [4, 9, 65])
def test_bits(gate, dtype, batch, max_window):
    weights, tokens = make(gate, dtype, batch, seed=7)
    expected, after = plain(weights, tokens)
    choose = random.Random(f"{gate}{batch}{max_window}")
    crops = 0
    for _ in range(8):
        layer = RecoverableLayer(max_window=max_window)
        layer.activate_past_recording()
        have = 0
        while have < TOKENS:
            # One to three forwards of one to seven tokens, as a target (one) or a recurrent draft model (many) runs them; a prompt first.
            for _ in range(choose.randint(1, 3)):
                new = min(TOKENS - have, choose.randint(1, 7) if have else choose.randint(1, 20))
                if new:
                    out = layer.run(weights, *part(tokens, have, have + new))
                    assert same_bits(out, expected[:, have : have + new])
                    have += new
            if choose.random() < 0.7:
                removed = choose.randint(0, min(layer.waiting, 5))
                layer.crop(-removed)
                have -= removed
                crops += 1
                assert layer.waiting == 0
                if have:
                    state, history = after[have - 1]
                    assert same_bits(layer.state, state)
                    assert same_bits(layer.line[:, : weights.geometry.W - 1], history)
                else:
                    assert not layer.state.any()
    assert crops > 20


def test_one_prefill_is_as_good_as_many_steps():
    weights, tokens = make("gdn", torch.float32, 2, seed=1)
    expected, after = plain(weights, tokens)
    layer = RecoverableLayer()
    assert same_bits(layer.run(weights, *tokens), expected)
    assert same_bits(layer.state, after[-1][0])
    assert same_bits(layer.recurrent_states[0].transpose(-1, -2), layer.state)  # what a reader of the cache finds


def test_long_recording_keeps_one_window():
    weights, tokens = make("gdn", torch.float32, 1, seed=2)
    layer = RecoverableLayer(max_window=5)
    layer.activate_past_recording()
    layer.run(weights, *part(tokens, 0, 40))
    assert layer.waiting == 5 and layer.records.shape[2] == 5
    for t in range(40, 50):
        layer.run(weights, *part(tokens, t, t + 1))
    assert layer.waiting == 5 and layer.records.shape[2] == 5
    with pytest.raises(ValueError, match=r"5 tokens can be removed.*max_drafts"):
        layer.crop(-6)
    layer.crop(-5)


def test_room_of_a_prompt_goes_back():
    weights, tokens = make("gdn", torch.float32, 1, seed=6)
    layer = RecoverableLayer()
    layer.activate_past_recording()
    layer.run(weights, *part(tokens, 0, 40))
    assert layer.records.shape[2] == 40 and layer.line.shape[1] == 43
    layer.crop(-2)
    assert layer.records is None and layer.line.shape[1] == 3
    for start, new in ((38, 4), (42, 2)):
        layer.run(weights, *part(tokens, start, start + new))
        layer.crop(0)
        assert layer.records.shape[2] == 4 and layer.line.shape[1] == 7


def test_crop_refuses():
    weights, tokens = make("gdn", torch.float32, 1, seed=3)
    layer = RecoverableLayer()
    layer.run(weights, *part(tokens, 0, 3))
    with pytest.raises(RuntimeError, match="activate_past_recording"):
        layer.crop(0)
    layer.activate_past_recording()
    layer.crop(0)
    for count in (1, -1):  # a length, as old callers gave it; a token that was never recorded
        with pytest.raises(ValueError, match="0 tokens can be removed"):
            layer.crop(count)
    with pytest.raises(ValueError, match="a batch of 2, but the cache holds 1"):
        layer.run(weights, *make("gdn", torch.float32, 2, seed=3)[1])


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("gate", ["gdn", "kda"])
def test_rows_of_a_batch_move(gate, waiting):
    weights, tokens = make(gate, torch.float32, 3, seed=4)
    order = torch.tensor([2, 0, 0])
    layers = []
    for change in (lambda layer: layer.reorder_cache(order), lambda layer: layer.batch_select_indices(order)):
        layer = RecoverableLayer()
        if waiting:
            layer.activate_past_recording()
        layer.run(weights, *part(tokens, 0, 6))
        change(layer)
        layers.append(layer)
    moved = [tensor[order] for tensor in tokens]
    fresh = RecoverableLayer()
    if waiting:
        fresh.activate_past_recording()
    fresh.run(weights, *part(moved, 0, 6))
    for start in (6, 9):  # the first of them beside waiting tokens, the second after a crop
        expected = fresh.run(weights, *part(moved, start, start + 3))
        outs = [layer.run(weights, *part(moved, start, start + 3)) for layer in layers]
        for layer, out in zip((fresh, *layers), (expected, *outs), strict=True):
            if waiting:
                layer.crop(-1)
            assert same_bits(out, expected)
            assert same_bits(layer.state, fresh.state)


def test_repeat_and_reset():
    weights, tokens = make("gdn", torch.float32, 1, seed=5)
    layer = RecoverableLayer()
    layer.run(weights, *part(tokens, 0, 4))
    layer.batch_repeat_interleave(2)
    twice = [tensor.repeat_interleave(2, 0) for tensor in tokens]
    out = layer.run(weights, *part(twice, 4, 8))
    assert same_bits(out[0], out[1])
    layer.reset()
    assert not layer.has_previous_state[0]
    assert same_bits(layer.run(weights, *part(twice, 0, 8))[0], plain(weights, tokens)[0][0, :8])
