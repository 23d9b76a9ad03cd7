"""The generated code is what the transcribed .proto files say."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from lance_flight.flight import protocol

PROTOCOL = Path(protocol.__file__).parent
SOURCES = PROTOCOL.parents[2]


@pytest.mark.parametrize("name", ["flight_sql", "flight_actions"])
def test_regenerating_by_the_command_in_the_header_changes_nothing(name: str, tmp_path: Path) -> None:
    source = PROTOCOL / f"{name}.proto"
    command = next(line for line in source.read_text().splitlines() if line.startswith("//   uv run python "))
    arguments = shlex.split(command.removeprefix("//   uv run python ").replace("=server", f"={tmp_path}"))
    subprocess.run([sys.executable, *arguments], cwd=SOURCES.parent, check=True)
    for suffix in ("_pb2.py", "_pb2.pyi"):
        fresh = tmp_path / "lance_flight" / "flight" / "protocol" / f"{name}{suffix}"
        assert fresh.read_bytes() == (PROTOCOL / f"{name}{suffix}").read_bytes()
