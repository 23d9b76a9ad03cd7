"""Writes that a kill stops at every step: what was acknowledged is there once, the rest is whole or not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from lance_flight.catalog.storage.staging_area import settle_abandoned
from lance_flight.faults import POINTS

from tests.engine.database import Database
from tests.faults.aftermath import check
from tests.faults.conftest import Before
from tests.faults.failpoints import Stopped, left_behind
from tests.faults.writes import EVERYWHERE, WRITES, Stop, Write, check_layout
from tests.selection import IS_FULL
from tests.stock import manifest

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
        version = version_of(asked.root / "t")
        with left_behind(asked.root, place) as left:
            write.run(asked, "t")
        return Run(version, asked.root, left)

    return ran


def version_of(table: Path) -> int | None:
    """The version of a partitioned table."""
    return int(manifest(table).version) if (table / "__manifest").exists() else None


@pytest.mark.parametrize("stop", EVERYWHERE, ids=lambda stop: stop.table)
def test_a_write_is_there_whole_from_one_step_on_and_before_not_at_all(run: Callable[[Write], Run], stop: Stop) -> None:
    done = run(stop.write)
    asked = Database(done.left[stop.point, stop.number])
    settle_abandoned(asked.engine.root.store)
    check_layout(asked, stop.write, "t", is_done=stop.write.is_visible_at(stop.point))
    check(asked, stop.write, "t", stop.then, done.version)
    private = asked.root / ".lance-flight"
    assert not private.exists() or list(private.iterdir()) == []


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
def test_a_write_passes_its_failpoints_and_is_done(run: Callable[[Write], Run], write: Write) -> None:
    done = run(write)
    assert set(done.left) >= set(write.stops())
    asked = Database(done.root)
    check_layout(asked, write, "t", is_done=True)
    check(asked, write, "t", write.then, done.version)


def test_every_failpoint_is_passed() -> None:
    assert {stop.point for stop in EVERYWHERE} == set(POINTS)


KILLED = EVERYWHERE if IS_FULL else [stop for stop in EVERYWHERE if stop.table == "insert_committed_1"]
