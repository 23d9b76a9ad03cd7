"""The README, executed: its Python runs against a real server, its table of settings is the one in the code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lance_flight.config import settings

README = (Path(__file__).parent.parent / "README.md").read_text()
DOCUMENTED_URI = "grpc://127.0.0.1:32010"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A server over an empty root, and its URI."""
    root, ready = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("ready") / "uri"
    command = [sys.executable, "-m", "lance_flight.cli", "serve", str(root), "--port", "0", "--ready-file", str(ready)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield root, line.split()[-1]
        process.terminate()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_python_of_the_readme_runs_as_it_stands(
    served: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    root, uri = served
    names: dict[str, Any] = {"ROOT": str(root)}
    for block in blocks("python"):
        exec(compile(block.replace(DOCUMENTED_URI, uri), "README.md", "exec"), names)  # noqa: S102 - our own README
    printed = capsys.readouterr().out
    assert "3 rows stored" in printed
    assert "partitions: 1 / 3" in printed
    assert "partitions: 2 / 3" in printed


def test_the_readme_lists_every_setting_with_its_default_and_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", README, re.MULTILINE)
    documented = {name: (default.strip("`"), text) for name, default, text in rows}
    for setting in settings():
        default = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
        assert documented.get(setting.name) == (default, setting.metadata["help"])


def test_the_help_of_serve_lists_every_setting() -> None:
    command = [sys.executable, "-m", "lance_flight.cli", "serve", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for setting in settings():
        assert f"--{setting.name.replace('_', '-')} " in shown
