"""python -m recoverssm.trace."""

import cases
import pytest
import recoverssm
from conftest import ROOT
from recoverssm import trace
from recoverssm.trace.__main__ import main

GOLDEN = sorted((ROOT / "traces").rglob("*.rst.safetensors"))


def recorded(folder, *calls):
    """The trace files of some calls."""
    with recoverssm.record(folder) as recorder:
        for operation, arguments in calls:
            cases.run(operation, arguments)
    assert len(recorder.files) == len(calls)
    return recorder.files


def test_inspect(tmp_path, capsys):
    (file,) = recorded(tmp_path, cases.make("gated_delta_rule_verify.lazy"))
    assert main(["inspect", str(file)]) == 0
    text = capsys.readouterr().out
    calls = trace.read(file).document["calls"]
    assert "gated_delta_rule_verify" in text and "window rows: 4, lengths [2 3 0 1]" in text and "accepted [" in text
    for name in calls[0]["args"]:
        if calls[0]["args"][name] is not None:
            assert name in text, name


@pytest.mark.parametrize("path", GOLDEN[::7], ids=lambda path: path.name)
def test_inspect_any_trace(path, capsys):
    assert main(["inspect", str(path)]) == 0
    assert trace.read(path).name in capsys.readouterr().out


def test_files_that_are_none(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"no file")
    assert main(["inspect", str(tmp_path / "x")]) == 2
    assert main(["inspect", str(tmp_path / "y")]) == 2
    assert capsys.readouterr().err.count("recoverssm.trace: ") == 2
