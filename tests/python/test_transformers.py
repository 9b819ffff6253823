"""Stock `generate` with speculation: the texts of plain decoding, on the real small model and on random ones of every class."""

import gzip
import inspect
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5.17", reason="transformers 5.17 or later is not installed")

import hybrids
import recoverssm
import recoverssm.transformers as speculation
from recoverssm import demo
from recoverssm.demo._measure import measure
from recoverssm.transformers import RecoverableLayer, _enable

TOKENS = 32
BOUND = 1e-3  # of the logits' distance; they differ by some 1e-5 between a window and a single token
PROMPTS = [
    "git log shows the commit logs. git log --oneline shows ",
    "The open() system call opens the file specified by pathname. ",
    "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n",
    "Horse \\Horse\\ (h[^o]rs), n. A large animal of the genus ",
    "The return value is 0 on success. On error, -1 is returned, and errno is ",
    ">>> import math\n>>> math.sqrt(16)\n4.0\n>>> ",
    "To install a package on Debian, use apt-get install. To remove a package, use ",
    "1. one\n2. two\n3. three\n4. ",
    "The tree stands in the garden. The garden stands near the ",
    "SYNOPSIS\n       #include <stdio.h>\n\n       int printf(const char *format, ...);\n",
    "Return True if the string is empty, return False if the string is ",
    "git rebase --onto master next topic\n\ngit rebase --continue\n",
    "The kernel manages memory, processes, and ",
    "class Point:\n    def __init__(self, x, y):\n        self.x = x\n        self.y = ",
    "A B C D E F G A B C D E F G A B C ",
    "Caf\u00e9, na\u00efve, r\u00e9sum\u00e9: ",
    "If the file does not exist, it is created. If the file exists, it is ",
    "Light \\Light\\ (l[imac]t), a. Not heavy; having little weight; as, a light ",
    "q",
    "See also: read(2), write(2), open(2), close(2), ",
    "The following example shows how the module is used:\n\n",
    "for i in range(10):\n    print(i)\n",
]


@pytest.fixture(scope="module")
def model():
    return speculation.enable(demo.load("target"))


@pytest.fixture(scope="module")
def draft():
    return demo.load("draft")


@pytest.fixture(scope="module")
def texts(model):
    """Plain greedy texts of all prompts."""
    return [greedy(model, demo.encode(prompt)) for prompt in PROMPTS]


def greedy(model, ids, tokens=TOKENS, **way):
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, **way)


def cache_name(model) -> str:
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def assert_agrees(model, ids, prompt_length) -> int:
    """How many ties a text has; every other position must be the plain run's."""
    found = speculation.agreement(model, ids, prompt_length, BOUND)
    assert found.differences == [], found
    return len(found.ties)


@pytest.mark.parametrize("way", ["prompt lookup", "assistant"])
@pytest.mark.parametrize("drafts", range(1, 9))
def test_texts(model, draft, texts, drafts, way, record_property):
    draft.generation_config.num_assistant_tokens = drafts
    arguments = {"prompt_lookup_num_tokens": drafts} if way == "prompt lookup" else {"assistant_model": draft}
    runs, ties, same = [], 0, 0
    for prompt, text in zip(PROMPTS, texts, strict=True):
        run = measure(way, model, demo.encode(prompt), max_new_tokens=TOKENS, do_sample=False, **arguments)
        assert max(run.drafts) <= drafts and run.forwards <= run.tokens
        runs.append(run)
        if run.ids.equal(text):
            same += 1
        else:
            ties += assert_agrees(model, run.ids, run.prompt)
    tokens, forwards, accepted = (sum(each) for each in zip(*((run.tokens, run.forwards, sum(run.accepted)) for run in runs), strict=True))
    assert forwards < tokens and accepted > 0
    record_property(
        "found",
        f"{way}, {drafts} drafts: {same} of {len(runs)} texts the same, {ties} positions with two logits closer than {BOUND:g}; "
        f"{tokens} tokens, {forwards} forwards, {accepted} drafts accepted",
    )


def test_agreement_sees_another_token(model, texts):
    prompt = len(PROMPTS[0].encode())
    assert speculation.agreement(model, texts[0], prompt) == (TOKENS, [], [], 0.0, 1e-3)
    other = texts[0].clone()
    other[0, prompt + 5] += 1
    found = speculation.agreement(model, other, prompt)
    assert prompt + 5 in found.differences and found.largest_gap > found.bound
    loose = speculation.agreement(model, other, prompt, bound=1e9)
    assert prompt + 5 in loose.ties and loose.differences == []


@pytest.mark.parametrize("kind", hybrids.KINDS)
def test_classes(kind):
    """Each class against transformers' own operations, then with speculation, its draft model recurrent too."""
    model, draft = hybrids.build(kind, seed=0), hybrids.build(kind, seed=1)
    ids = torch.randint(2, 97, (2, 11), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        stock = model(ids).logits
        speculation.enable(model)
        own = model(ids).logits
    assert stock.std() > 0.1
    torch.testing.assert_close(own, stock, rtol=0, atol=1e-4)
    plain = greedy(model, ids[:1])
    speculation.enable(draft)
    for way in ({"prompt_lookup_num_tokens": 3}, {"assistant_model": draft}, {"assistant_model": model}):
        text = greedy(model, ids[:1], **way)
        assert text.shape == plain.shape
        assert_agrees(model, text, 11)


def test_recurrent_draft(model, texts):
    """The target as its own draft: nearly everything is accepted, and its cache is cropped as well."""
    twin = speculation.enable(demo.load("target"))
    twin.generation_config.num_assistant_tokens = 5
    twin.generation_config.assistant_confidence_threshold = 0.0
    for prompt, text in list(zip(PROMPTS, texts, strict=True))[:6]:
        run = measure("twin", model, demo.encode(prompt), max_new_tokens=TOKENS, do_sample=False, assistant_model=twin)
        assert run.ids.equal(text) or assert_agrees(model, run.ids, run.prompt)
        assert run.acceptance > 0.9 and run.forwards <= TOKENS // 3


@torch.no_grad()
def test_recurrent_part_is_bitwise_the_plain_one(model, draft, monkeypatch):
    """Every token a layer kept in a speculative run, through a fresh layer one by one: the same outputs, the same state."""
    kept = {}  # layer -> [qkv, a, b, out] of a token each
    run, crop = RecoverableLayer.run, RecoverableLayer.crop

    def recorded_run(self, weights, qkv, a, b):
        out = run(self, weights, qkv, a, b)
        kept.setdefault(self, []).extend(zip(*(part.clone().split(1, 1) for part in (qkv, a, b, out)), strict=True))
        return out

    def recorded_crop(self, tokens_to_remove):
        crop(self, tokens_to_remove)
        if tokens_to_remove:
            del kept[self][tokens_to_remove:]

    monkeypatch.setattr(RecoverableLayer, "run", recorded_run)
    monkeypatch.setattr(RecoverableLayer, "crop", recorded_crop)
    draft.generation_config.num_assistant_tokens = 6
    for way in ({"prompt_lookup_num_tokens": 6}, {"assistant_model": draft}):
        kept.clear()
        ids = demo.encode(PROMPTS[0])
        text = greedy(model, ids, **way)
        assert len(kept) == 3
        for layer, tokens in kept.items():
            assert len(tokens) == text.shape[1] - 1
            fresh = RecoverableLayer()
            for qkv, a, b, out in tokens:
                assert run(fresh, layer.weights, qkv, a, b).equal(out)
            assert fresh.state.equal(layer.state)


def test_memory(model):
    """A layer of the cache takes what `recoverssm.sizes` says: one state, a line and the records of one window."""
    cache = transformers.DynamicCache(config=model.config)
    greedy(model, demo.encode(PROMPTS[0]), **{cache_name(model): cache}, prompt_lookup_num_tokens=4)
    config = model.config
    heads = {"H": config.linear_num_key_heads, "HV": config.linear_num_value_heads}
    widths = {"K": config.linear_key_head_dim, "V": config.linear_value_head_dim, "W": config.linear_conv_kernel_dim}
    expected = recoverssm.sizes(**heads, **widths, S=5, activation="f32")
    layers = [layer for layer in cache.layers if isinstance(layer, RecoverableLayer)]
    assert len(layers) == 3
    for layer in layers:
        tensors = (layer.state, layer.line, layer.records)
        assert [tensor.untyped_storage().nbytes() for tensor in tensors] == [expected.state, expected.line_anchored, expected.records]
        assert layer.recurrent_states[0].data_ptr() == layer.state.data_ptr()


def test_turns(model, draft):
    """Three turns on one cache, speculative, with another draft source, and plain."""
    draft.generation_config.num_assistant_tokens = 4
    cache = transformers.DynamicCache(config=model.config)
    ids = demo.encode(PROMPTS[0])
    for way in ({"prompt_lookup_num_tokens": 4}, {"assistant_model": draft}, {}):
        text = greedy(model, ids, **{cache_name(model): cache}, **way)
        assert cache.get_seq_length() == text.shape[1] - 1
        assert_agrees(model, text, ids.shape[1])
        ids = torch.cat([text, demo.encode(" Then use git ")], 1)


def test_long_prompt(model):
    """A prompt much longer than what is recorded of it."""
    ids = demo.encode("The file is opened and the file is closed. " * 12)
    speculation.enable(model, max_drafts=8)
    try:
        assert_agrees(model, greedy(model, ids, prompt_lookup_num_tokens=8), ids.shape[1])
    finally:
        speculation.enable(model)


def padded(prompts):
    rows = [list(prompt.encode()) for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[256] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def test_batch(model):
    """Plain decoding of a batch with padding, as transformers' own operations do it; speculation is for one sequence there."""
    ids, mask = padded(PROMPTS[:4])
    own = model.generate(ids, attention_mask=mask, max_new_tokens=16, do_sample=False)
    beams = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False, num_beams=3)
    speculation.disable(model)
    try:
        stock = model.generate(ids, attention_mask=mask, max_new_tokens=16, do_sample=False)
        stock_beams = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False, num_beams=3)
    finally:
        speculation.enable(model)
    assert own.equal(stock)
    assert beams.equal(stock_beams)
    with pytest.raises(ValueError, match="batch_size = 1"):
        model.generate(ids, attention_mask=mask, max_new_tokens=4, prompt_lookup_num_tokens=2)


@pytest.mark.parametrize("way", ["prompt lookup", "assistant"])
def test_sampling(model, draft, way):
    draft.generation_config.num_assistant_tokens = 4
    arguments = {"prompt_lookup_num_tokens": 4} if way == "prompt lookup" else {"assistant_model": draft}
    ids = demo.encode(PROMPTS[0])
    texts = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        texts.append(model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=True, top_k=20, **arguments))
    assert texts[0].equal(texts[1]) and not texts[0].equal(texts[2])
    assert all(text.shape[1] > ids.shape[1] for text in texts)


def test_disable_restores_everything():
    model = demo.load("target")
    modeling = sys.modules[type(model).__module__]
    classes = {type(module) for module in model.modules()}
    before = {
        "instances": [dict(vars(module)) for module in model.modules()],
        "classes": {kind: dict(vars(kind)) for kind in classes},
        "modeling": dict(vars(modeling)),
        "caches": dict(vars(sys.modules["transformers.cache_utils"])),
    }
    ids = demo.encode(PROMPTS[0])
    with torch.no_grad():
        logits = model(ids).logits
    text = greedy(model, ids)
    assert not speculation.is_enabled(model)
    assert speculation.enable(model) is model and speculation.enable(model, max_drafts=3) is model
    assert speculation.is_enabled(model) and not model._is_stateful
    greedy(model, ids, prompt_lookup_num_tokens=3)
    assert speculation.disable(model) is model and speculation.disable(model) is model
    after = [dict(vars(module)) for module in model.modules()]
    for old, new in zip(before["instances"], after, strict=True):
        assert old.keys() == new.keys() and all(old[name] is new[name] for name in old)
    for kind, attributes in before["classes"].items():
        assert all(vars(kind)[name] is value for name, value in attributes.items())
    assert all(vars(modeling)[name] is value for name, value in before["modeling"].items())
    assert all(vars(sys.modules["transformers.cache_utils"])[name] is value for name, value in before["caches"].items())
    assert model._is_stateful
    with torch.no_grad():
        assert model(ids).logits.equal(logits)
    assert greedy(model, ids).equal(text)
    with pytest.raises(ValueError, match="stateful"):
        greedy(model, ids, prompt_lookup_num_tokens=3)


def test_other_models_are_left_alone(model):
    """A stock model of the same class beside an enabled one."""
    stock = demo.load("target")
    with pytest.raises(ValueError, match="stateful"):
        greedy(stock, demo.encode("a"), prompt_lookup_num_tokens=3)
    assert greedy(stock, demo.encode(PROMPTS[1])).equal(greedy(model, demo.encode(PROMPTS[1])))


def test_refusals(model, draft, monkeypatch):
    ids = demo.encode(PROMPTS[0])
    with pytest.raises(recoverssm.Unsupported, match="Qwen3ForCausalLM has no layers that this version knows"):
        speculation.enable(draft)
    with pytest.raises(recoverssm.InvalidArgument, match="expected a model of transformers"):
        speculation.enable(torch.nn.Linear(1, 1))
    with pytest.raises(recoverssm.InvalidArgument, match="max_drafts: 0, expected a whole number, at least 1"):
        speculation.enable(model, max_drafts=0)
    with pytest.raises(RuntimeError, match="no gradient"):
        model(ids)

    other = hybrids.build("Qwen3NextForCausalLM")
    mixer = other.model.layers[0].linear_attn
    with monkeypatch.context() as patch:
        patch.setattr(mixer, "activation", "gelu")
        with pytest.raises(recoverssm.Unsupported, match="Qwen3NextGatedDeltaNet: activation 'gelu', expected 'silu'"):
            speculation.enable(other)
        patch.undo()
        patch.setattr(mixer, "forward", lambda *args, **kwargs: None)
        with pytest.raises(recoverssm.Unsupported, match="something else has replaced its forward"):
            speculation.enable(other)
        patch.undo()
        patch.setattr(mixer, "_hf_hook", None, raising=False)
        with pytest.raises(recoverssm.Unsupported, match="hooks of accelerate"):
            speculation.enable(other)
        patch.undo()
        patch.delattr(mixer, "in_proj_ba")
        with pytest.raises(recoverssm.Unsupported, match="has no in_proj_ba"):
            speculation.enable(other)
    assert not speculation.is_enabled(other) and all(hasattr(type(part), "forward") for part in other.modules())

    with monkeypatch.context() as patch:
        patch.setattr(transformers, "__version__", "5.16.2")
        with pytest.raises(ImportError, match=r"needs transformers 5\.17 or later, this is 5\.16\.2"):
            _enable._check_version()


def test_caches_do_not_cross(model):
    ids = demo.encode(PROMPTS[0])
    other = demo.load("target")
    with torch.no_grad():
        filled = other(ids, use_cache=True)
        speculation.enable(other)
        with pytest.raises(ValueError, match=r"filled before .*enable; start a new one"):
            other(ids[:, :1], **{cache_name(other): filled[cache_name(other)]})
        filled = other(ids, use_cache=True)
        speculation.disable(other)
        with pytest.raises(RuntimeError, match=r"belongs to a model with recoverssm\.transformers\.enable"):
            other(ids, **{cache_name(other): filled[cache_name(other)]})


TEXT = Path("/usr/share/doc/base-passwd/users-and-groups.txt.gz")


@pytest.mark.skipif(not TEXT.exists(), reason=f"{TEXT}, of the Debian package base-passwd, is not on this machine")
def test_bits_per_byte(model, record_property):
    """A text the model was not trained on, by this library's operations and by transformers' own."""
    version = subprocess.run(["dpkg-query", "-W", "base-passwd"], capture_output=True, text=True, check=True).stdout.split()[1]
    ids = torch.tensor([list(gzip.decompress(TEXT.read_bytes()))])

    def bits():
        total, count = 0.0, 0
        for part in ids.split(1024, dim=1):
            if part.shape[1] > 1:
                with torch.no_grad():
                    logits = model(part).logits[0, :-1].double()
                total += torch.nn.functional.cross_entropy(logits, part[0, 1:], reduction="sum").item()
                count += part.shape[1] - 1
        return total / count / math.log(2)

    own = bits()
    speculation.disable(model)
    try:
        stock = bits()
    finally:
        speculation.enable(model)
    record_property("found", f"base-passwd {version}, {TEXT.name}: {own:.7f} bits per byte, {stock:.7f} by transformers' operations")
    assert 1 < own < 4
    assert abs(own - stock) < 1e-5


def test_without_transformers():
    """What is missing is said, by the module and by the demo."""
    hide = "import sys; sys.modules['transformers'] = None; "
    for program, text in (
        ("import recoverssm.transformers", "needs transformers 5.17 or later, which is not installed"),
        ("import runpy; sys.argv = ['demo']; runpy.run_module('recoverssm.demo', run_name='__main__')", "recoverssm.demo: "),
    ):
        done = subprocess.run([sys.executable, "-c", hide + program], capture_output=True, text=True)
        assert done.returncode == 1 and text in done.stderr, done


def run_demo(*arguments):
    return subprocess.run([sys.executable, "-m", "recoverssm.demo", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_demo(tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    figure = tmp_path / f"figure.{suffix}"
    done = run_demo("--tokens", "24", "--drafts", "3", "--threads", "1", "--figure", str(figure))
    assert done.returncode == 0, done.stderr
    assert figure.read_bytes().startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")
    for line in ("plain ", "prompt lookup ", "assistant ", "one state and records", "a state a token"):
        assert line in done.stdout
    assert "other differences" not in done.stdout or " 0 other differences" in done.stdout


def test_demo_refuses():
    for arguments in (("--figure", "figure.gif"), ("--tokens", "0"), ("--drafts", "-1"), ("--prompt", "")):
        done = run_demo(*arguments)
        assert done.returncode == 2 and "expected" in done.stderr, done


def test_documentation(root):
    """The example of docs/transformers.md."""
    blocks = (root / "docs/transformers.md").read_text().split("```python\n")[1:]
    assert len(blocks) == 1
    exec(compile(blocks[0].split("```")[0], "docs/transformers.md", "exec"), {})


def test_a_layer_that_is_trained_in_part_is_refused():
    model = recoverssm.transformers.enable(demo.load("target"))
    model.requires_grad_(False)
    ids = demo.encode("git log ")
    model(input_ids=ids)  # nothing to learn: fine with gradients enabled
    layer = next(module for module in model.modules() if type(module).__name__ == "Qwen3NextGatedDeltaNet")
    layer.A_log.requires_grad_(True)
    with pytest.raises(RuntimeError, match="no gradient"):
        model(input_ids=ids)


def test_what_enable_and_its_helpers_refuse():
    model = demo.load("target")
    for wrong in (4.5, "4", None, 0):
        with pytest.raises(recoverssm.InvalidArgument, match="max_drafts"):
            recoverssm.transformers.enable(model, max_drafts=wrong)
    with pytest.raises(recoverssm.InvalidArgument, match="disable"):
        recoverssm.transformers.disable(None)
    with pytest.raises(recoverssm.Unsupported, match="float64"):
        recoverssm.transformers.enable(demo.load("target").double())
    with pytest.raises(recoverssm.Unsupported, match="weights on meta"):
        recoverssm.transformers.enable(demo.load("target").to("meta"))
    ids = demo.encode("git log ")
    for sequence, prompt in ((ids, 0), (ids, 99), (ids.repeat(2, 1), 2)):
        with pytest.raises(recoverssm.InvalidArgument, match="agreement"):
            recoverssm.transformers.agreement(model, sequence, prompt)
