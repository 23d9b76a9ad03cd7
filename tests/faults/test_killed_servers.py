"""Servers that die at every step of every write: what they acknowledged is there once, the rest is whole or not there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from adbc_driver_manager import Error
from lance_flight.faults import POINTS, VARIABLE

from tests.faults.aftermath import check
from tests.faults.writes import EVERYWHERE, WRITES, Stop, Write, check_layout, sample
from tests.service.server_process import Server, serving, started
from tests.stock import manifest

FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
STOPS = EVERYWHERE if FULL else sample(seed=51)
EXIT_BY_KILL = -signal.SIGKILL

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dataclass
class Killed:
    """How each server ended, which version each table had, and a server that was started after the last of them."""

    server: Server
    exits: dict[str, int]
    versions: dict[str, int]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """Every table written by a server that lived on, and then by one that died of it; now another one serves them."""
    root = tmp_path_factory.mktemp("killed") / "root"
    with serving(root) as server:
        for stop in STOPS:
            stop.write.set_up(server, stop.table)
    versions = {path.parent.name: int(manifest(path.parent).version) for path in root.glob("*/__manifest")}
    exits = {stop.table: how_it_ends(root, stop.write, stop.table, f"{stop.point}:{stop.number}") for stop in STOPS}
    with serving(root) as server:
        yield Killed(server, exits, versions)


def how_it_ends(root: Path, write: Write, table: str, fault: str) -> int:
    """Run a write on a server with a fault; the exit code of the server, 0 for one that still answers."""
    with started(root, environment=os.environ | {VARIABLE: fault}) as server:
        try:
            write.run(server, table)
        except Error as exc:
            if "Unavailable" not in str(exc):
                raise
            return server.process.wait(60)
        assert server.rows("SHOW TABLES")
        return 0


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.table)
def test_a_write_is_there_whole_from_one_step_on_and_before_not_at_all(killed: Killed, stop: Stop) -> None:
    assert killed.exits[stop.table] == EXIT_BY_KILL
    check_layout(killed.server, stop.write, stop.table, is_done=stop.write.is_visible_at(stop.point))
    check(killed.server, stop.write, stop.table, stop.then, killed.versions.get(stop.table))


def test_every_point_and_every_write_was_killed(killed: Killed) -> None:
    died = [stop for stop in STOPS if killed.exits[stop.table] == EXIT_BY_KILL]
    assert {stop.point for stop in died} == set(POINTS)
    assert {stop.write.name for stop in died} == {write.name for write in WRITES}


def test_nothing_private_is_left(killed: Killed) -> None:
    assert [path.name for path in (killed.server.root / ".lance-flight").iterdir()] == ["ticket.key"]
