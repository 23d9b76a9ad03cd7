"""Builds of an index that are killed at every step: tables that were done keep their segments, and the next run does the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from lance_flight.catalog.bulk.pieces import PieceWork, Threads
from lance_flight.catalog.maintenance import indexing
from lance_flight.catalog.maintenance.indexing import IndexingReport, create_index
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables.indices import IndexRules
from lance_flight.engine.translation.evaluation import evaluate

from tests.engine.database import Database
from tests.faults.failpoints import Stopped, left_behind
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every step of every kind of index

ROWS, TABLES = 60, 3
KINDS = {"btree": "id", "inverted": "c", "ivf_flat": "v"}
TIMES = range(1, TABLES + 1)
STOPS: Mapping[Stopped, int] = {
    **{
        (point, number): number - 1
        for point in ("segment_built", "table_staged", "manifest_written")
        for number in TIMES
    },
    **{(point, number): number for point in ("committed", "evolved") for number in TIMES},
    ("data_written", 1): TABLES,
}
"""Where a build is killed, and how many tables are done by then."""


def build(place: Path, kind: str) -> IndexingReport:
    """Build an index of a kind."""
    rules = IndexRules(column=KINDS[kind], kind=kind, name="i", min_rows=0)
    return create_index(PartitionedNamespace.open(Store(str(place))), rules, PieceWork(run=Threads(1)))


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Mapping[Stopped, Path]]:
    """Builds an index with a commit for each table, and returns what a kill leaves at each failpoint."""

    @cache
    def built(kind: str) -> Mapping[Stopped, Path]:
        root = tmp_path_factory.mktemp("built") / "root"
        root.mkdir()
        database = Database(root)
        database.run("CREATE TABLE t (id INT, c VARCHAR, p BIGINT, v FLOAT[2]) PARTITIONED BY (p)")
        values = ", ".join(f"({n}, 'c{n % 7}', {n % TABLES}, [{n}, {n % 7}])" for n in range(ROWS))
        database.run(f"INSERT INTO t VALUES {values}")
        with pytest.MonkeyPatch.context() as patched, left_behind(root / "t", tmp_path_factory.mktemp(kind)) as copies:
            patched.setattr(indexing, "COMMIT_SECONDS", 0.0)
            build(root / "t", kind)
        return copies

    return built


def segments(place: Path) -> list[list[str]]:
    """The segments of each partition table at its pin, as stock Lance sees them."""
    return [
        [segment.uuid for index in table.dataset.describe_indices() for segment in index.segments]
        for table in stored_tables(place)
    ]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: f"{stop[0]} {stop[1]}")
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_build_goes_on_where_it_was(
    left: Callable[[str], Mapping[Stopped, Path]], kind: str, stop: Stopped
) -> None:
    place, done = left(kind)[stop], STOPS[stop]
    kept = [found for found in segments(place) if found]
    assert [len(found) for found in kept] == [1] * done
    report = build(place, kind)
    assert (report.tables, report.rows) == (TABLES - done, (TABLES - done) * ROWS // TABLES)
    namespace = PartitionedNamespace.open(Store(str(place)))
    after = segments(place)
    assert [len(found) for found in after] == [1] * TABLES
    assert [found for found in after if found in kept] == kept
    assert verify(namespace, evaluate).unsound == []
    found = vacuum(namespace, VacuumRules(retain_hours=0, transaction_hours=0, force=True).check())
    assert found.skipped == ()
    left = {path.parts[-2] for path in place.glob("*$dataset/_indices/*/*") if path.is_file()}
    assert left == {segment for each in after for segment in each}
    assert [len(each) for each in segments(place)] == [1] * TABLES
    assert verify(namespace, evaluate).unsound == []
