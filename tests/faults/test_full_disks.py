"""Disks that are full at any step of any write: nothing of it is visible, and the same server answers on."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from adbc_driver_manager import Error
from lance_flight import faults
from lance_flight.cli.serving.service import build
from lance_flight.config import ServerConfig

from tests.faults.aftermath import check
from tests.faults.writes import EVERYWHERE, START, WRITES, Stop, Write, check_layout, sample
from tests.service.server_process import Server, serving
from tests.stock import manifest

FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
UNANSWERED = {"committed", "evolved"}
"""Where the write is done: that something fails behind it is the server's own affair."""

NOTHING_STAGED = {"rows_received", "file_written", "data_written", "rows_removed"}
CLEANED = {"ingest", "insert", "update", "move", "delete", "merge", "overwrite"}
"""Single statements: what one in a transaction has written waits for the roll-back."""


def in_one_process(stop: Stop) -> bool:
    """Whether nobody but the write itself comes by the point in this process."""
    return stop.write.name != "beaten" or stop.point == "files_moved"


CHOSEN = EVERYWHERE if FULL else list(dict.fromkeys(chain(sample(seed=51), sample(seed=124))))
STOPS = [stop for stop in CHOSEN if in_one_process(stop)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in this process, whose faults can be set."""
    root = tmp_path_factory.mktemp("full") / "root"
    with build(str(root), ServerConfig(port=0), create=True).server as running:
        client = Server(root, running.uri, None)  # type: ignore[arg-type]
        yield client
        client.close()


def data_files(place: Path) -> set[Path]:
    """The data files of a table's partitions, those of the manifest not among them."""
    return {path for path in place.glob("*/data/*") if "__manifest" not in path.parts}


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.table)
def test_a_write_that_finds_the_disk_full_leaves_nothing_to_be_seen(
    server: Server, monkeypatch: pytest.MonkeyPatch, stop: Stop
) -> None:
    stop.write.set_up(server, stop.table)
    place = server.root / stop.table
    version = int(manifest(place).version) if (place / "__manifest").exists() else None
    before = data_files(place)
    monkeypatch.setattr(faults, "_fault", faults._Fault(f"{stop.point}:{stop.number}:{faults.ERROR}"))
    if stop.point in UNANSWERED:
        stop.write.run(server, stop.table)
        then = stop.write.then
    else:
        with pytest.raises(Error, match=r"\[storage_full\] no space is left for the root: No space left on device"):
            stop.write.run(server, stop.table)
        then = stop.then
    assert faults._fault is not None
    assert faults._fault._left <= 0, "it came by"
    monkeypatch.setattr(faults, "_fault", None)
    if stop.point in NOTHING_STAGED and stop.write.name in CLEANED:
        assert data_files(place) - before == set(), "what was written is deleted again"
    check_layout(server, stop.write, stop.table, is_done=stop.write.is_visible_at(stop.point))
    check(server, stop.write, stop.table, then, version)
    private = {path.name for path in (server.root / ".lance-flight").iterdir()}
    assert private <= {"ticket.key"}, "what was made in a private place is gone"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server process whose files can be kept from growing."""
    with serving(tmp_path_factory.mktemp("limited") / "root") as running:
        yield running


LIMITS = (0, 64, 300, 400, 500, 600, 700, 900, 1200, 1600, 2000, 3000, 5000) if FULL else (0, 600, 2000, 5000)
CHANGES = [w for w in WRITES if w.visible_at == "committed" and w.name not in {"beaten", "rollback", "vacuum"}]


@pytest.mark.parametrize("write", CHANGES, ids=lambda write: write.name)
def test_a_server_whose_files_cannot_grow_stores_all_or_nothing_and_goes_on_when_they_can(
    limited: Server, write: Write
) -> None:
    """The system itself refuses here, wherever in Lance or in the server a file grows beyond the limit."""
    outcomes, said = [], []
    for limit in LIMITS:
        table = f"{write.name}_{limit}"
        write.set_up(limited, table)
        version = int(manifest(limited.root / table).version)
        try:
            grow_up_to(limited, limit)
            write.run(limited, table)
        except Error as error:
            said.append(str(error))
            outcomes.append(write.before)
            is_done = False
        else:
            outcomes.append(write.then)
            is_done = True
        finally:
            grow_up_to(limited, resource.RLIM_INFINITY)
        check_layout(limited, write, table, is_done=is_done)
        check(limited, write, table, outcomes[-1], version)
    assert [text for text in said if "[storage_full] no space is left for the root: " not in text] == []
    assert outcomes[0] == START
    assert outcomes[-1] == write.then


def test_a_spill_that_finds_the_disk_full_says_where(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    groups = "SELECT value % 400000 AS n, count(*), min(repeat('x', 100)) FROM range(800000) GROUP BY 1"
    counted = f"SELECT count(*) FROM ({groups})"
    with serving(
        tmp_path / "root", "--spill-directory", str(tmp_path / "spill"), "--memory-limit", str(24 << 20)
    ) as server:
        assert server.value(counted) == 400_000
        try:
            grow_up_to(server, 10_000)
            assert "[storage_full] no space is left for spill_directory: File too large" in server.refuses(counted)
        finally:
            grow_up_to(server, resource.RLIM_INFINITY)
        assert server.value(counted) == 400_000


def grow_up_to(server: Server, limit: int) -> None:
    """Let no file of a server process become larger, in bytes."""
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, hard))
