"""The recoverssm command, where one was built: RECOVERSSM_COMMAND, or build/*/src/recoverssm, the newest."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path

from conftest import ROOT


def command() -> Path | None:
    if given := os.environ.get("RECOVERSSM_COMMAND"):
        return Path(given)
    built = [path for path in ROOT.glob("build/*/src/recoverssm") if os.access(path, os.X_OK)]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def replay_by_command(files: Sequence[Path], calls: int = 1) -> None:
    """`recoverssm replay` accepts them all. Warns, which pytest lists at the end, where there is no command."""
    program = command()
    if program is None:
        warnings.warn("not replayed by the command: no recoverssm under build/*/src, no RECOVERSSM_COMMAND", stacklevel=2)
        return
    result = subprocess.run([program, "replay", *files, "--json", "-"], capture_output=True, text=True, check=False)
    report = json.loads(result.stdout)
    assert result.returncode == 0 and report["ok"], [one for one in report["traces"] if not one["ok"]][:2]
    assert len(report["traces"]) == len(files) and all(one["skipped"] is None and one["calls"] == calls for one in report["traces"])
