"""The benchmarks start: nothing else imports them, so what moves in the service would leave them behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # processes of each benchmark

PROJECT = Path(__file__).parents[1]


MODULES = (
    "",
    ".console",
    ".durability",
    ".maintenance",
    ".peers",
    ".replicas_model",
    ".requests",
    ".spark_peers",
    ".tpc",
)


@pytest.mark.parametrize("module", [f"benchmarks{name}" for name in MODULES])
def test_a_command_of_the_benchmarks_starts(module: str) -> None:
    command = [sys.executable, "-m", module, "--help"]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert f"python -m {module}" in run.stdout
