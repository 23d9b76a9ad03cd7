"""Rows without a fixed version: looked up when a statement reads them, once, and kept in its tickets."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import Corrupt

from tests.engine.database import open_engine
from tests.stock import manifest, stored_tables

ROWS = pa.table({"id": [1, 2, 3, 4], "part": [1, 2, 3, 4]})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four partitions, of which the first has a fixed version and the others have none."""
    place = tmp_path_factory.mktemp("floating")
    ingest.create(open_engine(place).root, TableName("public", "t"), ROWS.schema, TableProperties.by("part"), [ROWS])
    manifest(place / "t").update({"read_version": "NULL"}, where="partition_field_part > 1")
    return place


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the version of each directory was looked up."""
    counted: Counter[str] = Counter()
    resolve = partitions.resolve

    def counting(store: Store, pin: partitions.Pin) -> partitions.Version | partitions.BranchVersion:
        counted[store.name] += 1
        return resolve(store, pin)

    monkeypatch.setattr(partitions, "resolve", counting)
    return counted


def directories(place: Path) -> dict[int, str]:
    return {table.values["part"]: table.row["location"] for table in stored_tables(place)}


def ids(engine: Engine, sql: str, endpoints: int = 1) -> list[int]:
    """The ids that the tasks of a query return, each having travelled as bytes."""
    plan = engine.plan(sql, endpoints=endpoints)
    assert plan is not None
    return read(engine, [task.to_bytes() for task in plan.tasks])


def read(engine: Engine, tasks: list[bytes]) -> list[int]:
    return sorted(n for task in tasks for n in engine.run(Task.from_bytes(task)).read_all()["id"].to_pylist())


def test_a_table_that_is_not_there_fails_only_the_statements_that_read_it(engine: Engine, place: Path) -> None:
    gone = directories(place)[3]
    shutil.rmtree(place / gone)
    assert ids(engine, "SELECT id FROM t WHERE part = 2") == [2]
    assert ids(engine, "SELECT id FROM t WHERE part < 3", endpoints=4) == [1, 2]
    assert engine.query("SELECT part, rows FROM t$partitions ORDER BY part")["rows"].to_pylist() == [1, 1, None, 1]
    assert engine.query("SELECT field_id FROM t$specs")["field_id"].to_pylist() == ["part"]
    with pytest.raises(Corrupt, match=gone.replace("$", r"\$")):
        ids(engine, "SELECT id FROM t")


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT id FROM t WHERE part = 3", [3]),
        ("SELECT id FROM t WHERE part = 1", []),
        ("SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.part IN (2, 3) AND b.part IN (3, 4)", [2, 3, 4]),
        ("SELECT id FROM t UNION ALL SELECT id FROM t", [2, 3, 4]),
        ("SELECT id FROM t WHERE id > (SELECT min(id) FROM t WHERE part > 2)", [2, 3, 4]),
        ("EXPLAIN SELECT id FROM t WHERE part = 4", [4]),
    ],
)
@pytest.mark.parametrize("endpoints", [1, 3])
def test_each_row_that_is_read_is_looked_up_once(
    engine: Engine, resolved: Counter[str], sql: str, parts: list[int], endpoints: int
) -> None:
    expected = {directories(Path(engine.root.store.uri) / "t")[part]: 1 for part in parts}
    plan = engine.plan(sql, endpoints=endpoints)
    assert plan is not None
    assert resolved == expected
    for task in plan.tasks:
        engine.run(Task.from_bytes(task.to_bytes())).read_all()
    assert resolved == expected


@pytest.mark.parametrize("endpoints", [1, 4])
@pytest.mark.parametrize("sql", ["SELECT id FROM t", "SELECT id FROM t WHERE part >= 2", "SELECT max(id) AS id FROM t"])
def test_a_ticket_reads_the_versions_that_were_found_when_it_was_made(
    engine: Engine, place: Path, sql: str, endpoints: int
) -> None:
    before = ids(engine, sql)
    plan = engine.plan(sql, endpoints=endpoints)
    assert plan is not None
    tickets = [task.to_bytes() for task in plan.tasks]
    for part, directory in directories(place).items():
        lance.write_dataset(pa.table({"id": [10 * part], "part": [part]}), str(place / directory), mode="append")
    assert read(engine, tickets) == before
    assert read(engine, tickets) == before
    assert ids(engine, sql) != before
