"""examples/python/live_recording.py: a live run of transformers is recorded, replays, merges and repacks with the same bits."""

import runpy
from pathlib import Path

import pytest
from command import replay_by_command

pytest.importorskip("transformers", minversion="5.17", reason="transformers 5.17 or later is not installed")


def test_a_live_run_is_recorded_merged_and_repacked(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(root / "examples/python/live_recording.py"))
    assert example["main"](tmp_path) == 0
    printed = capsys.readouterr().out
    assert "DIFFER" not in printed and "merge: 6 with the same bits" in printed and "replay of merged: 6 with" in printed
    runs, repacked = sorted((tmp_path / "run").iterdir()), sorted((tmp_path / "repacked").iterdir())
    assert len(runs) > 50 and len(repacked) > 10
    replay_by_command([*runs, *repacked])
    replay_by_command(sorted((tmp_path / "merged").iterdir()), calls=2)  # the plain rows' call and the windows'
