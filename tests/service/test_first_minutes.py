"""The first page of README as an analyst and an SQL user follow it, line by line, in processes and at a prompt in a terminal.

What it shows to who trains a model is run by `test_demo_command`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from tests.documents import blocks, text_of
from tests.service.commands import run
from tests.service.server_process import COMMAND, serving
from tests.service.terminal import Terminal, terminal

FLIGHTS = "time_hour,origin,carrier\n" + "".join(
    f"2013-{n % 12 + 1:02d}-05 10:00:00,{('EWR', 'JFK', 'LGA')[n // 12 % 3]},UA\n" for n in range(360)
)


def commands(section: str) -> list[list[str]]:
    """Return the arguments of each `uv run lance-flight` that a section of README shows, or has in its text."""
    text = text_of("README.md", section)
    lines = re.findall(r"^    (?:pip install uv && )?uv run lance-flight (.*)$", text, re.MULTILINE)
    lines += [" ".join(each.split()) for each in re.findall(r"`uv run lance-flight\s+([^`]*)`", text)]
    return [shlex.split(line, comments=True) for line in lines]


def environment(folder: Path, uri: str = "") -> dict[str, str]:
    """Return variables that name the server, in place of README's port."""
    return {**os.environ, "LANCE_FLIGHT_URI": uri, "XDG_STATE_HOME": str(folder), "TERM": "xterm", "PAGER": "cat"}


def shown(arguments: list[str], folder: Path, uri: str = "grpc://127.0.0.1:1") -> str:
    """Run a command to its end, and return what it prints."""
    ended = run(*arguments, environment=environment(folder, uri), folder=folder)
    assert (ended.returncode, ended.stderr) == (0, b""), arguments
    return ended.stdout.decode()


@contextmanager
def prompt(folder: Path, uri: str) -> Iterator[Terminal]:
    """Open the prompt, and leave it in the end."""
    with terminal([COMMAND, "sql"], environment(folder, uri), folder) as screen:
        screen.read_until("lance-flight>")
        yield screen
        screen.enter(r"\q")
        assert screen.end() == 0


def test_an_analyst_with_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "flights.csv").write_text(FLIGHTS)
    ingest, serve, sql, export, *rest = commands("Ten minutes with your own files")
    assert (ingest[:2], serve, sql) == (["ingest", "flights.csv"], ["serve", "ROOT"], ["sql"])
    assert [each[0] for each in [export, *rest]] == ["export", "--help"]
    assert "flights: 360 rows" in shown(ingest, tmp_path)
    assert "Suggested: " in shown([*ingest, "--suggest"], tmp_path)
    (typed,) = blocks("README.md", "text", "Ten minutes with your own files")
    expected = [r"JFK +120\b", r"JFK +█", r"partitions: 12 / 36", "flights.parquet written"]
    with serving(tmp_path / "ROOT") as server, prompt(tmp_path, server.uri) as screen:
        for line, result in zip(typed.splitlines(), expected, strict=True):
            screen.enter(line.removeprefix("lance-flight> "))
            screen.read_until(result)
    assert pq.read_metadata(tmp_path / "flights.parquet").num_rows == 360
    (tmp_path / "flights.parquet").unlink()
    shown(export, tmp_path)
    assert pq.read_metadata(tmp_path / "flights.parquet").num_rows == 360


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process that a failed test has left."""
    try:
        yield
    finally:
        process.kill()


def test_an_sql_user_of_the_demo(tmp_path: Path) -> None:
    demo, query, sql, explain, inspect, *rest = commands("Sixty seconds")
    assert (demo, sql, rest) == (["demo"], ["sql"], [])
    serve = [COMMAND, *demo, "--port", "0"]
    with (
        subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        ending(process),
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        said = ""
        while "Serving until Ctrl-C" not in said:
            said += (line := process.stdout.readline())
            assert line, said + process.stderr.read()
        assert re.search(r"The console shows the partitions in a browser: http://127\.0\.0\.1:\d+/\?token=", said)
        (uri,) = re.findall(r"^lance-flight demo: .* at (grpc://[\w.:]+)$", said, re.MULTILINE)
        assert 'sql_host_override="grpc://' in said
        assert "JFK     111279\n" in shown(query, tmp_path, uri)
        assert shown(explain, tmp_path, uri).startswith("partitions: 1 / 36  table flights")
        assert "EWR     ·· ··" in shown(inspect, tmp_path)
        with prompt(tmp_path, uri) as screen:
            screen.enter(r"\?")
            screen.read_until(r"\\watch")
            screen.enter("SELECT carrier, count(*) AS n")
            screen.read_until("…>")
            screen.enter("  FROM flights GROUP BY carrier ORDER BY n DESC LIMIT 1;")
            screen.read_until("UA +58665")
            screen.enter(
                "SELECT sum(a.value * b.value) FROM generate_series(1, 30000000) a, generate_series(1, 1000) b;"
            )
            screen.read_until("Ctrl-C cancels")
            screen.interrupt()
            screen.read_until("cancelled")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
