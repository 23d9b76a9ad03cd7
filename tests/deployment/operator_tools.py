"""Programs of those who run servers: found on the machine, or a reason to skip where a developer has none; CI must have them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent
DOCKER = TOP / "docker"


def tool(name: str, install: str) -> str:
    """The path of a program; without it the test is skipped, and fails in CI, with the command that installs it."""
    found = shutil.which(name) or shutil.which(name, path=f"{Path.home()}/go/bin")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not installed: {install}")
    return found


def run(*command: str | Path, status: int = 0) -> str:
    """Everything that a command prints; it must end with this status."""
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
