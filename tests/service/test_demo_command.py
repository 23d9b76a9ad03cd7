"""`lance-flight demo`: the first minute of a new user, in processes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import blocks
from tests.selection import IS_FULL
from tests.service.commands import run
from tests.service.forked import forked


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "root"


def demo(root: Path) -> str:
    """What the command prints that loads the tables of the demo, unless they are there."""
    return printed("demo", "--no-serve", "--root", str(root))


def printed(*arguments: str) -> str:
    ended = run(*arguments)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode()


@pytest.fixture(scope="module")
def first(root: Path) -> str:
    """What it prints the first time."""
    return demo(root)


def test_it_tells_the_story_and_leaves(first: str, root: Path) -> None:
    parts = (
        "flights: 336,776 rows in 36 partitions",
        "The partitions of flights",
        "JFK     ▇▇ ▇▇ ██",
        "One airport in one month",
        "partitions: 1 / 36  table flights",
        "used: origin = 'JFK'",
        "Next, without a server",
        f"--table yours --root {root}",
    )
    places = [first.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
    for said in ("Serving", "connect(", "adbc", "sql"):
        assert said not in first
    assert "flights: 336,776 rows, loaded before" in demo(root)


def test_its_next_line_prunes(first: str) -> None:
    (line,) = re.findall(r"lance-flight (inspect .*)", first)
    shown = printed(*shlex.split(line))
    assert shown.startswith("partitions: 12 / 36")
    assert "LGA     ·· ··" in shown


TORCH = os.environ.get("LANCE_FLIGHT_TORCH")
MODEL = blocks("README.md", "python", "Ten minutes with a model")


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.skipif(TORCH is None, reason="no PyTorch"))])
@pytest.mark.usefixtures("first")
def test_the_first_ten_minutes_with_a_model(root: Path, tmp_path: Path, count: int) -> None:
    program = tmp_path / "model.py"
    program.write_text("".join(MODEL[:count]).replace('"lance-flight-demo"', repr(str(root))))
    python = sys.executable if count == 1 or TORCH is None else TORCH
    ended = subprocess.run([python, program], capture_output=True, text=True, timeout=240, check=True)
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("<Dataset public.flights version ")
    assert lines[0].endswith(": distance, air_time> 109079")
    assert [line.split()[0] for line in lines[1:3]] == ["distance", "air_time"]
    assert lines[-1] == ("dtype: float64" if count == 1 else "429 miles an hour")


@pytest.mark.parametrize("line", [1, 6, 16] if IS_FULL else [6])
def test_an_interrupt_while_it_loads_ends_it_without_a_traceback(tmp_path: Path, line: int) -> None:
    command = ["demo", "--port", "0", "--root", str(tmp_path / "root")]
    with forked(command, log=tmp_path / "log", is_piped=True) as process:
        assert process.stdout is not None
        for _ in range(line):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert (tmp_path / "log").read_text() == ""
