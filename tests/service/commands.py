"""Runs of the command line."""

from __future__ import annotations

import subprocess

from tests.service.server_process import COMMAND


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run `lance-flight` to its end."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, timeout=60, check=False)
