"""Builds of an index by processes that are killed at every step: tables that were done keep their segments, and the next run does the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.catalog.maintenance.indexing import create_index
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.manifests.indices import IndexRules
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.sql.functions import evaluate

from tests.catalog.killed_commits import killed
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # processes that are killed

ROWS, TABLES = 60, 3
KINDS = {"btree": "id", "inverted": "c", "ivf_flat": "v"}
SCRIPT = """
import sys
from lance_flight.catalog.bulk.pieces import Threads
from lance_flight.catalog.maintenance import indexing
from lance_flight.catalog.manifests.indices import IndexRules
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.store import Store

place, column, kind = sys.argv[1:]
indexing.COMMIT_SECONDS = 0.0
namespace = PartitionedNamespace.open(Store(place))
indexing.create_index(namespace, IndexRules(column=column, kind=kind, name="i", min_rows=0), run=Threads(1))
"""
STOPS = [
    *((f"segment_built:{number}", number - 1) for number in range(1, TABLES + 1)),
    *((f"table_staged:{number}", number - 1) for number in range(1, TABLES + 1)),
    *((f"manifest_written:{number}", number - 1) for number in range(1, TABLES + 1)),
    *((f"committed:{number}", number) for number in range(1, TABLES + 1)),
    *((f"evolved:{number}", number) for number in range(1, TABLES + 1)),
    ("data_written:1", TABLES),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=2)
    engine.update("CREATE TABLE t (id INT, c VARCHAR, p BIGINT, v FLOAT[2]) PARTITIONED BY (p)")
    values = ", ".join(f"({n}, 'c{n % 7}', {n % TABLES}, [{n}, {n % 7}])" for n in range(ROWS))
    engine.update(f"INSERT INTO t VALUES {values}")
    return tmp_path / "t"


def segments(place: Path) -> list[list[str]]:
    """The segments of each partition table at its pin, as stock Lance sees them."""
    return [
        [segment.uuid for index in table.dataset.describe_indices() for segment in index.segments]
        for table in stored_tables(place)
    ]


@pytest.mark.parametrize(("point", "done"), STOPS, ids=[point for point, _ in STOPS])
def test_a_killed_build_goes_on_where_it_was(place: Path, point: str, done: int) -> None:
    kind = list(KINDS)[len(point) % len(KINDS)]
    assert killed(SCRIPT, [str(place), KINDS[kind], kind], point)
    kept = [found for found in segments(place) if found]
    assert [len(found) for found in kept] == [1] * done
    namespace = PartitionedNamespace.open(Store(str(place)))
    report = create_index(namespace, IndexRules(column=KINDS[kind], kind=kind, name="i", min_rows=0))
    assert (report.tables, report.rows) == (TABLES - done, (TABLES - done) * ROWS // TABLES)
    after = segments(place)
    assert [len(found) for found in after] == [1] * TABLES
    assert [found for found in after if found in kept] == kept
    assert verify(namespace, evaluate).unsound == []
    found = vacuum(namespace, VacuumRules(retain_hours=0, transaction_hours=0, force=True).checked())
    assert found.skipped == ()
    left = {path.parts[-2] for path in place.glob("*$dataset/_indices/*/*") if path.is_file()}
    assert left == {segment for each in after for segment in each}
    assert [len(each) for each in segments(place)] == [1] * TABLES
    assert verify(namespace, evaluate).unsound == []
