"""Where things are, and how the tests run. scripts/python-test runs them."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

# Machines that run the tests are often busy with other things: one thread but where a test is about threads.
torch.set_num_threads(1)

hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.register_profile("random", deadline=None, max_examples=60)
hypothesis.settings.load_profile("random" if os.environ.get("RECOVERSSM_RANDOM") else "fixed")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


def pytest_terminal_summary(terminalreporter) -> None:
    """What tests measured and want to be read: record_property("found", text)."""
    reports = [report for group in ("passed", "failed") for report in terminalreporter.getreports(group)]
    for text in sorted(text for report in reports if report.when == "call" for key, text in report.user_properties if key == "found"):
        terminalreporter.write_line(text)
