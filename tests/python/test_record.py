"""Recording: what a run did is in files that the command and the PyTorch replay accept, whole ones only, within limits."""

import os
import signal
import subprocess
import sys
import threading
import time

import cases
import pytest
import recoverssm
import torch
from command import replay_by_command
from recoverssm import ops, trace
from recoverssm.trace.replay import replay


def check_all(folder, count: int) -> list[trace.Trace]:
    """Every file of a folder replays with the same bits, by PyTorch and, where it was built, by the command."""
    files = sorted(folder.iterdir())
    assert len(files) == count and all(path.name.endswith(".rst.safetensors") for path in files)
    recorded = [trace.read(path) for path in files]
    for one in recorded:
        report = replay(one)
        assert report["ok"] and report["calls"] == 1 and report["checks"] > 0, report
    replay_by_command(files)
    return recorded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_overload_is_recorded_and_replays(tmp_path, dtype):
    shape = cases.Shape(T=dtype, state=torch.float32 if dtype == torch.float32 else dtype)
    with recoverssm.record(tmp_path) as recorder:
        for name in cases.CASES:
            operation, arguments = cases.make(name, shape=shape)
            cases.run(operation, arguments)
    assert not recorder.skipped
    assert sorted(tmp_path.iterdir()) == recorder.files
    recorded = check_all(tmp_path, len(cases.CASES))
    assert {one.document["calls"][0]["op"] for one in recorded} == set(ops.OPERATIONS)
    # They say something: each wrote bits, and one changed bit of an expectation is found.
    for one in recorded:
        names = [e["tensor"] for e in one.document["calls"][0]["expect"] if "tensor" in e]
        assert names, one.name
        changed = one.tensors[names[0]].copy()
        changed.reshape(-1).view("u1")[0] ^= 1
        assert not replay(trace.Trace(one.document, one.tensors | {names[0]: changed}))["ok"]


def test_outside_of_it_nothing_is_recorded_and_the_results_are_the_same(tmp_path):
    def run(record: bool) -> dict[str, torch.Tensor]:
        operation, arguments = cases.make("gated_delta_rule_verify.lazy", seed=3)
        if record:
            with recoverssm.record(tmp_path):
                cases.run(operation, arguments)
        else:
            cases.run(operation, arguments)
        return {name: arguments[name] for name in ("out", "records", "state", "pending")}

    before, during, after = run(False), run(True), run(False)
    assert len(list(tmp_path.iterdir())) == 1
    for name, tensor in before.items():
        assert torch.equal(tensor, during[name]) and torch.equal(tensor, after[name]), name


def test_torch_ops_and_compiled_graphs(tmp_path):
    operation, arguments = cases.make("commit_plan")
    function, lowered = cases.lower(operation, arguments)
    with recoverssm.record(tmp_path):
        function(**lowered)
        torch.compile(lambda: cases.run(operation, arguments), fullgraph=True, backend="aot_eager")()
    check_all(tmp_path, 2)


def test_strides_gaps_and_pages_are_kept(tmp_path):
    """State, records and line in pages of one pool of bytes, two dtypes, and what lies between them."""
    maker = cases.Maker(cases.Shape(T=torch.bfloat16))
    call = {**maker.rule(), "records": None, "window_capacity": maker.shape.S}
    s = maker.shape
    size = s.HV * s.V * s.K * 4
    pool = torch.full((s.blocks, size + 4096), 0x5A, dtype=torch.uint8)
    call["state"] = ops.page_view(pool, offset=64, shape=(s.HV, s.V, s.K), dtype=torch.float32)
    call["state"].copy_(maker.states())
    call["records"] = ops.page_view(pool, offset=64 + size, shape=(s.HV, s.S, s.V + s.K + 1), dtype=torch.float32)
    call["q"] = maker.normal(s.tokens, 2, 3 * s.K)[:, :1, : s.K]
    with recoverssm.record(tmp_path):
        cases.run("gated_delta_rule_verify", call)
    (one,) = check_all(tmp_path, 1)
    arguments = one.document["calls"][0]["args"]
    assert arguments["q"]["strides"] == [6 * s.K, 3 * s.K, 1]
    assert arguments["state"]["buffer"] == arguments["records"]["buffer"]
    assert arguments["records"]["offset"] - arguments["state"]["offset"] == size // 4
    assert arguments["state"]["strides"][0] == (size + 4096) // 4
    gap = one.buffers()[arguments["state"]["buffer"]].array.view("u1")
    assert (gap[size + 3000 : size + 3100] == 0x5A).all()


def test_refused_calls_are_recorded_with_their_error(tmp_path):
    operation, arguments = cases.make("commit_plan")
    with recoverssm.record(tmp_path), pytest.raises(recoverssm.InvalidArgument):
        cases.run(operation, arguments | {"state_indices": arguments["state_indices"].long()})
    (one,) = check_all(tmp_path, 1)
    assert one.document["calls"][0]["error"]["kind"] == "invalid_argument"


def test_empty_rows(tmp_path):
    with recoverssm.record(tmp_path) as recorder:
        for name in ("gated_delta_rule", "causal_conv1d", "split_projections"):
            cases.run(*cases.make(name, shape=cases.Shape(lengths=(0, 0))))
    assert not recorder.skipped
    replay_by_command(recorder.files)
    assert all(replay(path)["ok"] for path in recorder.files)


def test_limits(tmp_path):
    def run(recorder):
        with recorder:
            for seed in range(5):
                cases.run(*cases.make("align_advance", seed))
        return recorder

    few = run(recoverssm.record(tmp_path / "few", limit=2))
    assert len(few.files) == 2 and few.skipped == {"limit of calls": 3}
    check_all(tmp_path / "few", 2)
    size = few.bytes // 2
    small = run(recoverssm.record(tmp_path / "small", max_bytes=3 * size + size // 2))
    assert 1 <= len(small.files) < 5 and sum(path.stat().st_size for path in small.files) == small.bytes <= small.max_bytes
    assert small.skipped["limit of bytes"] == 5 - len(small.files)
    with pytest.raises(recoverssm.InvalidArgument, match="limit"):
        recoverssm.record(tmp_path, limit=-1)


def test_start_and_stop_and_two_at_once(tmp_path):
    one, two = recoverssm.record(tmp_path / "one"), recoverssm.record(tmp_path / "two")
    with pytest.raises(recoverssm.BadState, match="stop"):
        one.stop()
    one.start()
    with pytest.raises(recoverssm.BadState, match="start"):
        one.start()
    cases.run(*cases.make("align_advance"))
    with two:
        cases.run(*cases.make("align_advance", 1))
    one.stop()
    cases.run(*cases.make("align_advance", 2))
    assert len(one.files) == 2 and len(two.files) == 1


def test_threads(tmp_path):
    def run(seed):
        for i in range(5):
            cases.run(*cases.make("gated_delta_rule", 10 * seed + i))

    with recoverssm.record(tmp_path):
        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check_all(tmp_path, 20)


def test_a_full_disk_stops_the_recording_and_not_the_run(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recoverssm.trace.record.write_whole", full)
    operation, arguments = cases.make("align_advance")
    with recoverssm.record(tmp_path) as recorder, pytest.warns(RuntimeWarning, match="No space left"):
        cases.run(operation, arguments)
    assert not recorder.files and not list(tmp_path.iterdir())
    assert (arguments["running_column"] != -7).any()


LOOP = """
import cases
from recoverssm import ops
while True:
    cases.run(*cases.make("gated_delta_rule", shape=cases.Shape(blocks=2000)))
"""


def test_environment_and_a_kill(tmp_path):
    """A process that is killed in the middle leaves whole traces, and at most a partial file that nobody takes for one."""
    environment = os.environ | {"RECOVERSSM_RECORD": str(tmp_path), "RECOVERSSM_RECORD_LIMIT": "1000"}
    process = subprocess.Popen([sys.executable, "-c", LOOP], env=environment, cwd=os.path.dirname(cases.__file__))
    try:
        until = time.monotonic() + 120
        while len(list(tmp_path.glob("*.rst.safetensors"))) < 5:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    files = sorted(tmp_path.glob("*.rst.safetensors"))
    assert all(replay(path)["ok"] for path in files)
    replay_by_command(files)
    rest = set(tmp_path.iterdir()) - set(files)
    assert len(rest) <= 1 and all(path.name.endswith(".partial") for path in rest)


def test_environment_with_a_bad_limit(tmp_path):
    environment = os.environ | {"RECOVERSSM_RECORD": str(tmp_path), "RECOVERSSM_RECORD_LIMIT": "many"}
    result = subprocess.run([sys.executable, "-c", "import recoverssm.ops"], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode != 0 and "RECOVERSSM_RECORD_LIMIT" in result.stderr
