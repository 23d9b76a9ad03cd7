"""`lance-flight demo`: the first minute of a new user, in processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import blocks
from tests.service.server_process import COMMAND


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "root"


def demo(root: Path) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "demo", "--no-serve", "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_it_tells_the_story_and_leaves(root: Path) -> None:
    ended = demo(root)
    assert (ended.returncode, ended.stderr) == (0, "")
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
    places = [ended.stdout.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
    for said in ("Serving", "connect(", "adbc", "sql"):
        assert said not in ended.stdout
    assert "flights: 336,776 rows, loaded before" in demo(root).stdout


def test_its_next_line_prunes(root: Path) -> None:
    (line,) = re.findall(r"lance-flight (inspect .*)", demo(root).stdout)
    arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', line)]
    ended = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("partitions: 12 / 36")
    assert "LGA     ·· ··" in ended.stdout


def test_while_it_serves_its_sql_line_answers_and_an_interrupt_ends_it(root: Path) -> None:
    command = [COMMAND, "demo", "--port", "0", "--root", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Serving until Ctrl-C" in line:
                break
        assert re.search(r"See the partitions in a browser: http://127\.0\.0\.1:\d+/\?token=", "".join(lines))
        (statement, uri) = re.findall(r'lance-flight sql "(.*)" --uri (\S+)', "".join(lines))[0]
        ended = subprocess.run(
            [COMMAND, "sql", statement, "--uri", uri], capture_output=True, text=True, timeout=60, check=True
        )
        assert len(ended.stdout.splitlines()) == 6
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, ""), said


TORCH = os.environ.get("LANCE_FLIGHT_TORCH")
MODEL = blocks("README.md", "python", "Ten minutes with a model")


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.skipif(TORCH is None, reason="no PyTorch"))])
def test_the_first_ten_minutes_with_a_model(root: Path, tmp_path: Path, count: int) -> None:
    assert demo(root).returncode == 0
    program = tmp_path / "model.py"
    program.write_text("".join(MODEL[:count]).replace('"lance-flight-demo"', repr(str(root))))
    python = sys.executable if count == 1 or TORCH is None else TORCH
    ended = subprocess.run([python, program], capture_output=True, text=True, timeout=240, check=True)
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("<Dataset public.flights version ")
    assert lines[0].endswith(": distance, air_time> 109079")
    assert [line.split()[0] for line in lines[1:3]] == ["distance", "air_time"]
    assert lines[-1] == ("dtype: float64" if count == 1 else "429 miles an hour")


@pytest.mark.parametrize("line", [1, 2, 3, 6, 16])
def test_an_interrupt_while_it_loads_ends_it_without_a_traceback(tmp_path: Path, line: int) -> None:
    command = [COMMAND, "demo", "--port", "0", "--root", str(tmp_path / "root")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(line):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, "")
