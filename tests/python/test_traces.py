"""Every bundled trace replayed through the PyTorch operations by the trace's own rules; more of them where RECOVERSSM_TRACES says."""

import os
from pathlib import Path

import pytest
from conftest import ROOT
from recoverssm import ops, trace
from recoverssm.trace.replay import replay

FOLDERS = [ROOT / "traces"]
if extra := os.environ.get("RECOVERSSM_TRACES"):
    FOLDERS.append(Path(extra))
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.rst.safetensors"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name.removesuffix('.rst.safetensors')}")
def test_replay(path):
    recorded = trace.read(path)
    report = replay(recorded)
    assert report["ok"], report["failed"][:3]
    if report["skipped"]:
        pytest.skip(report["skipped"])
    assert report["calls"] == len(recorded.document["calls"])
    assert report["checks"] > 0


def test_the_traces_call_every_operation():
    """Those that test_replay does not skip."""
    called: set[str] = set()
    for document in (trace.read(path).document for path in FILES):
        if "cpu" in document.get("backends", ["cpu"]) and document.get("mode", "any") in ("any", "exact"):
            called.update(call["op"] for call in document["calls"])
    assert called == set(ops.OPERATIONS)


def test_a_changed_bit_is_found():
    """The replay itself can fail: one bit of an expected tensor, of a state, and an error that does not come."""
    recorded = trace.read(ROOT / "traces/golden/rule.kda.rst.safetensors")
    assert replay(recorded)["ok"]
    expectations = [e for call in recorded.document["calls"] for e in call.get("expect") or []] + recorded.document["finally"]
    name = next(e["tensor"] for e in expectations if e.get("match") == "bits")
    changed = recorded.tensors[name].copy()
    bytes_of = changed.reshape(-1).view("u1")
    bytes_of[0] ^= 1
    report = replay(trace.Trace(recorded.document, recorded.tensors | {name: changed}))
    assert not report["ok"] and "(1 of" in report["failed"][0]["detail"]

    recorded.document["calls"][0]["error"] = {"kind": "bad_state", "mentions": []}
    report = replay(recorded)
    assert "succeeded, expected bad_state" in report["failed"][0]["detail"]
