"""Runs of the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.service.forked import forked
from tests.service.server_process import COMMAND

PATIENCE = 240.0


def run(
    *arguments: str, given: bytes = b"", environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `lance-flight` to its end, in a forked process with more variables: see `run_command` for the command itself."""
    with TemporaryDirectory() as place:
        streams = {name: Path(place, name) for name in ("given", "out", "log")}
        streams["given"].write_bytes(given)
        with forked(arguments, environment={**os.environ, **(environment or {})}, folder=folder, **streams) as process:
            status = process.wait(PATIENCE)
        return subprocess.CompletedProcess(arguments, status, streams["out"].read_bytes(), streams["log"].read_bytes())


def run_command(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the installed `lance-flight` to its end."""
    return subprocess.run([COMMAND, *arguments], input=given, capture_output=True, timeout=PATIENCE, check=False)
