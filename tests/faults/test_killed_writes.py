"""Writes that are killed at every step: what was acknowledged is there once, the rest is whole or not there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from adbc_driver_manager import Error
from lance_flight.catalog.storage.staging_area import settle_abandoned
from lance_flight.faults import POINTS, VARIABLE

from tests.engine.database import Database
from tests.faults.aftermath import check, version_of
from tests.faults.conftest import Before
from tests.faults.failpoints import Stopped, left_behind
from tests.faults.writes import SOME_STOPS, STOPS, TIMES, WRITES, Stop, Write
from tests.selection import IS_FULL
from tests.service.server_process import serving, started

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dataclass(frozen=True)
class Run:
    """The version of a table before a write, its root afterwards, and what a kill on the way leaves of that."""

    version: int | None
    root: Path
    left: Mapping[Stopped, Path]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, before: Before) -> Callable[[Write], Run]:
    """Runs a write once, and keeps what it leaves."""

    @cache
    def ran(write: Write) -> Run:
        place = tmp_path_factory.mktemp(write.name)
        asked = before(write, place / "root")
        version = version_of(asked, "t")
        with left_behind(asked.root, place) as left:
            write.run(asked, "t")
        return Run(version, asked.root, left)

    return ran


def nothing_private_is_left(root: Path) -> bool:
    private = root / ".lance-flight"
    return not private.exists() or {path.name for path in private.iterdir()} <= {"ticket.key", "reserve"}


@pytest.mark.sample(40)
@pytest.mark.parametrize("stop", STOPS if IS_FULL else SOME_STOPS, ids=str)
@pytest.mark.parametrize("time", TIMES)
def test_a_write_is_there_whole_from_one_step_on_and_before_not_at_all(
    run: Callable[[Write], Run], tmp_path: Path, stop: Stop, time: str
) -> None:
    done = run(stop.write)
    # The check writes on, and the first time may be the last one, too.
    asked = Database(Path(shutil.copytree(done.left[stop.point, TIMES[time](stop)], tmp_path / "root")))
    settle_abandoned(asked.engine.root.store)
    check(asked, stop.write, "t", stop.then, done.version, is_done=stop.is_done)
    assert nothing_private_is_left(asked.root)


@pytest.mark.sample(16)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
def test_a_write_is_done_and_passes_its_failpoints(run: Callable[[Write], Run], write: Write) -> None:
    done = run(write)
    assert set(done.left) >= {(point, number + 1) for point, times in write.passes.items() for number in range(times)}
    check(Database(done.root), write, "t", write.then, done.version, is_done=True)


def test_every_failpoint_is_passed() -> None:
    assert {stop.point for stop in STOPS} == set(POINTS)


# What a server dies of by default: one write of each layer.
ONCE = {
    "ingest at all_staged",
    "insert at committed",
    "attach at table_linked",
    "compact at manifest_written",
    "create_index at segment_built",
    "vacuum at tables_trimmed",
}
KILLED = [(stop, 1 + n) for stop in STOPS for n in range(stop.times) if IS_FULL or (str(stop) in ONCE and n == 0)]


@pytest.mark.parametrize(("stop", "number"), KILLED, ids=[f"{stop}, {number}" for stop, number in KILLED])
def test_a_server_that_is_killed_leaves_the_same(tmp_path: Path, before: Before, stop: Stop, number: int) -> None:
    root = tmp_path / "root"
    version = version_of(before(stop.write, root), "t")
    with started(root, environment=os.environ | {VARIABLE: f"{stop.point}:{number}"}) as server:
        with pytest.raises(Error, match="Unavailable"):
            stop.write.run(server, "t")
        assert server.process.wait(60) == -signal.SIGKILL
    with serving(root) as server:
        check(server, stop.write, "t", stop.then, version, is_done=stop.is_done)
    assert nothing_private_is_left(root)
