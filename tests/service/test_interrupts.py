"""Ctrl-C at `ingest`, `export` and `sql`: status 130, nothing said, nothing left, whenever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.service.server_process import COMMAND, Server, serving

ROWS = (
    "SELECT a.value, CAST(a.value % 5 AS INT) AS site FROM generate_series(1, 30000000) a, generate_series(1, 1000) b"
)
SUM = "SELECT sum(a.value * b.value) FROM generate_series(1, 30000000) a, generate_series(1, 1000) b"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("interrupts") / "root") as server:
        yield server


def interrupted(
    command: Sequence[str], folder: Path, until: Callable[[subprocess.Popen[str]], bool], pipe: int | None = None
) -> tuple[int, str, str]:
    """Interrupt a command as soon as `until` is true; its status, and what it prints."""
    with subprocess.Popen(
        [COMMAND, *command], stdin=pipe, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        ends = time.monotonic() + 60
        while not until(process):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < ends
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    return process.returncode, said, errors


@pytest.mark.parametrize("where", ["root", "server"])
def test_an_interrupted_load_leaves_nothing(server: Server, tmp_path: Path, where: str) -> None:
    target = ["--root", "lake"] if where == "root" else ["--uri", server.uri]
    read, write = os.pipe()
    lines = b"id,site\n" + b"1,Oslo\n" * 9000
    sent = 0

    def is_loading(_: object) -> bool:
        nonlocal sent
        # More than the reader of a pipe and the writer of a table hold back.
        sent += os.write(write, lines if sent == 0 else lines[8:])
        return sent > 64 << 20

    command = ["ingest", "-", "--format", "csv", "--table", "cut", "--yes", *target]
    try:
        assert interrupted(command, tmp_path, is_loading, read) == (130, "", "")
    finally:
        os.close(read)
        os.close(write)
    if where == "server":
        assert server.rows("SHOW TABLES LIKE 'cut'") == []
    else:
        assert not list((tmp_path / "lake").glob("cut*"))


@pytest.mark.parametrize("by", [[], ["--by", "site"]], ids=["a file", "a directory"])
@pytest.mark.parametrize("where", ["root", "server"])
def test_an_interrupted_export_leaves_nothing(server: Server, tmp_path: Path, where: str, by: list[str]) -> None:
    (tmp_path / "lake").mkdir()
    target = ["--root", "lake"] if where == "root" else ["--uri", server.uri]
    command = ["export", ROWS, "-o", "out", "--format", "parquet", *by, *target]
    draft = tmp_path / "out.part"
    assert interrupted(command, tmp_path, lambda _: draft.exists()) == (130, "", "")
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]


LOADED = ("pyarrow", "libadbc_driver_flightsql")


@pytest.mark.parametrize("library", LOADED)
def test_an_interrupt_is_never_lost(server: Server, tmp_path: Path, library: str) -> None:
    def is_loaded(process: subprocess.Popen[str]) -> bool:
        return library in Path(f"/proc/{process.pid}/maps").read_text()

    # While the command is imported, and while its driver connects.
    assert interrupted(["sql", "--uri", server.uri, SUM], tmp_path, is_loaded) == (130, "", "")
