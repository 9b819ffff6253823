"""The operations, sessions and transformers on a CUDA device, against the CPU to the bit. Without a device, or in a build without CUDA: what can be
seen there, the registration, fakes and refusals."""

import dataclasses
from typing import Any

import pytest
import recoverssm
import torch
from cases import CASES, Maker, Shape, lower, make, written
from recoverssm import ops
from recoverssm.ops._library import overloads
from torch._subclasses.fake_tensor import FakeTensorMode

MISSING = recoverssm.info().cuda_missing
HAS_DEVICE = torch.cuda.is_available()
reason = MISSING or ("" if HAS_DEVICE else "this PyTorch sees no CUDA device")
on_device = pytest.mark.skipif(bool(reason), reason=f"left out, nothing runs on CUDA: {reason}")


def moved(value: Any, device: str = "cuda", memo: dict[int, torch.Tensor] | None = None) -> Any:
    """The same arguments on a device: one tensor named twice stays one. Strides are kept."""
    memo = {} if memo is None else memo
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            there = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
            memo[id(value)] = there.copy_(value)
        return memo[id(value)]
    if isinstance(value, dict):
        return {name: moved(part, device, memo) for name, part in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(moved(part, device, memo) for part in value)
    if hasattr(value, "_fields"):
        return type(value)(*(moved(part, device, memo) for part in value))
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{f.name: moved(getattr(value, f.name), device, memo) for f in dataclasses.fields(value)})
    return value


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu().contiguous().view(torch.uint8)


def assert_same_bits(function: Any, cpu: dict[str, Any], cuda: dict[str, Any]) -> None:
    for key, want in written(function, cpu).items():
        assert torch.equal(bits(want), bits(written(function, cuda)[key])), key


# ---- everywhere ----


def test_every_overload_is_registered_for_cuda_and_the_cpu():
    for overload in overloads():
        for key in ("CPU", "CUDA"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key), (overload.name(), key)


@pytest.mark.parametrize("name", CASES)
def test_fake_tensors_on_cuda(name):
    """What torch.compile traces with: no device is needed, and nothing is returned."""
    function, arguments = lower(*make(name))
    with FakeTensorMode() as mode:
        fake = moved(arguments, memo={id(t): mode.from_tensor(t).to("cuda") for t in tensors_of(arguments)})
        assert function(**fake) is None


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def test_fake_tensors_on_several_devices_are_refused():
    function, arguments = lower(*make("commit_plan"))
    with FakeTensorMode() as mode:
        fake = {name: mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
        fake["num_accepted"] = fake["num_accepted"].to("cuda")
        with pytest.raises(Exception, match=r"commit_plan.*: tensors on cpu, cuda:0, expected one device"):
            function(**fake)


def test_check_device_is_for_cuda():
    with pytest.raises(recoverssm.Unsupported, match="check_device: cpu, expected a CUDA device"):
        ops.check_device("cpu")


@pytest.mark.skipif(not MISSING, reason="left out: CUDA runs here")
def test_without_cuda_everything_says_so():
    assert "CUDA" in MISSING
    layer = recoverssm.LayerConfig(H=1, HV=1, K=8, V=8)
    config = recoverssm.SessionConfig(layers=[layer], groups=[recoverssm.GroupConfig(blocks=2)], backend="cuda")
    with pytest.raises(recoverssm.Unsupported, match="session: backend: cuda"):
        recoverssm.Session(config)


@pytest.mark.skipif(not (MISSING and HAS_DEVICE), reason="left out: it takes a device and a build without CUDA")
def test_cuda_tensors_in_a_build_without_cuda():
    operation, arguments = make("commit_plan")
    with pytest.raises(recoverssm.Unsupported, match="commit_plan: this build has no CUDA backend"):
        getattr(ops, operation)(**moved(arguments))


def test_a_session_wants_tensors_of_its_backend():
    config = recoverssm.SessionConfig(layers=[], groups=[], backend="metal")
    with pytest.raises(recoverssm.InvalidArgument, match="session: backend: 'metal', expected one of cpu, cuda"):
        recoverssm.session_sizes(config)
    layer = recoverssm.LayerConfig(H=1, HV=1, K=8, V=8, A_log=torch.zeros(1))
    config = recoverssm.SessionConfig(layers=[layer], groups=[recoverssm.GroupConfig(blocks=2)], backend="cuda")
    with pytest.raises(recoverssm.Unsupported, match=r"session: layers\[0\].A_log: on cpu, expected cuda"):
        recoverssm.Session(config)


# ---- on a device ----


@on_device
@pytest.mark.parametrize("T", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_the_cpu(name, T):
    for seed in range(3):
        function, cpu = lower(*make(name, seed, Shape(T=T, state=T)))
        cuda = moved(cpu)
        function(**cpu)
        function(**cuda)
        ops.check_device()
        assert_same_bits(function, cpu, cuda)


@on_device
@pytest.mark.parametrize("name", CASES)
def test_opcheck_on_cuda(name):
    function, arguments = lower(*make(name))
    torch.library.opcheck(function, (), moved(arguments))


@on_device
def test_the_current_stream_is_used():
    """A copy that comes late on the same stream must still be seen: the operation waits for its turn there, and nowhere else."""
    function, cpu = lower(*make("gated_delta_rule"))
    cuda = moved(cpu)
    q, stream = cuda["q"].clone(), torch.cuda.Stream()
    cuda["q"].zero_()
    torch.cuda.synchronize()
    function(**cpu)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        cuda["q"].copy_(q)
        function(**cuda)
    stream.synchronize()
    assert_same_bits(function, cpu, cuda)


@on_device
@pytest.mark.parametrize("name", ["causal_conv1d_window", "gated_delta_rule_verify", "commit", "gdn_attention.verify"])
def test_a_captured_graph_replays(name):
    function, cpu = lower(*make(name, 1))
    cuda, fresh = moved(cpu), moved(cpu)
    function(**moved(cpu))  # the first call on a device allocates the flag
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(**cuda)
    originals = tensors_of(fresh)
    for _ in range(2):
        for tensor, original in zip(tensors_of(cuda), originals, strict=True):
            tensor.copy_(original)
        graph.replay()
    torch.cuda.synchronize()
    function(**cpu)
    assert_same_bits(function, cpu, cuda)


@on_device
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled(mode):
    function, cpu = lower(*make("gated_delta_rule_verify", 3))
    cuda = moved(cpu)
    torch.compiler.reset()
    compiled = torch.compile(lambda arguments: function(**arguments), fullgraph=True, mode=mode)
    function(**cpu)
    compiled(cuda)
    torch.cuda.synchronize()
    assert_same_bits(function, cpu, cuda)


@on_device
def test_tensors_on_several_devices_are_refused():
    operation, arguments = make("gated_delta_rule")
    there = moved(arguments)
    for name, wrong, said in (("k", arguments["k"], "k: a tensor on cpu, expected cuda:0, where q is"),
                              ("state_indices", arguments["state_indices"], "state_indices: a tensor on cpu, expected cuda:0, where q is")):
        with pytest.raises(recoverssm.Unsupported, match=f"gated_delta_rule: {said}"):
            getattr(ops, operation)(**there | {name: wrong})


@on_device
def test_findings_are_raised_by_check_device():
    operation, arguments = make("gated_delta_rule")
    there = moved(arguments)
    ops.check_device()
    there["state_indices"][1] = 10_000
    getattr(ops, operation)(**there)
    with pytest.raises(recoverssm.OutOfRange, match="gated_delta_rule: layer 0, row 1: out of range, found by the device"):
        ops.check_device()
    ops.check_device()  # once is enough


@on_device
def test_nothing_is_allocated_but_by_torch():
    function, arguments = lower(*make("gdn_attention.verify"))
    there = moved(arguments)
    function(**there)
    torch.cuda.synchronize()
    before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    for _ in range(20):
        function(**there)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.mem_get_info()[0] == free


@on_device
@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_a_session_gives_the_bits_of_the_cpu(lazy):
    maker = Maker(Shape(lengths=(9,)), 4)
    s = maker.shape
    weights = {"weight": maker.normal(s.C, s.W, scale=0.5), "A_log": maker.normal(s.HV), "dt_bias": maker.normal(s.HV)}
    x, a, b = maker.normal(24, s.C), maker.normal(24, s.HV), maker.normal(24, s.HV)
    results = []
    for backend in ("cpu", "cuda"):
        there = (lambda tensor: tensor.cuda()) if backend == "cuda" else (lambda tensor: tensor)
        layer = recoverssm.LayerConfig(H=s.H, HV=s.HV, K=s.K, V=s.V, W=s.W, activation="f32", **{k: there(v) for k, v in weights.items()})
        stream = torch.cuda.current_stream() if backend == "cuda" else None
        config = recoverssm.SessionConfig(
            layers=[layer], groups=[recoverssm.GroupConfig(blocks=9, block_size=4)], window_capacity=3, lazy=lazy, backend=backend, stream=stream
        )
        with recoverssm.Session(config) as session:
            request, at, outs = session.admit(), 0, []
            for kind, tokens, kept in (("prefill", 5, 5), ("window", 3, 2), ("window", 3, 3), ("decode", 1, 1), ("window", 2, 1)):
                step = session.open_step([(request, kind, tokens)])
                part = slice(at, at + tokens)
                out = there(torch.zeros(tokens, s.HV, s.V))
                session.forward(step, 0, x=there(x[part].clone()), a=there(a[part].clone()), b=there(b[part].clone()), out=out)
                session.commit(step, {request: kept} if kind == "window" else None)
                outs.append(out.cpu())
                at += kept
            twin = session.fork(request)
            saved = session.export(twin, at, tag=3)
            session.preempt(request)
            session.restore(request, saved, at, tag=3)
            results.append((outs, saved, session.export(request, at, tag=3)))
            if backend == "cuda":
                with pytest.raises(recoverssm.Unsupported, match=r"session\.pool: memory on cuda"):
                    session.pool(0)
    for cpu, cuda in zip(results[0][0], results[1][0], strict=True):
        assert torch.equal(cpu, cuda)
    assert results[0][1:] == results[1][1:]


@on_device
def test_transformers_speculate_on_cuda():
    pytest.importorskip("transformers", reason="left out: transformers is not installed")
    from hybrids import build
    from recoverssm import transformers as speculation

    model = speculation.enable(build("Qwen3NextForCausalLM").cuda())
    ids = torch.tensor([[5, 9, 5, 9, 5, 9, 7, 5, 9]], device="cuda")
    found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, prompt_lookup_num_tokens=3)
    ops.check_device()
    assert found.shape[1] == ids.shape[1] + 24
    agreement = speculation.agreement(model, found, ids.shape[1])
    assert agreement.differences == [], agreement
