"""Spec versions and changed columns: each prunes by its own rules, together they answer as one table, and `t$specs` has their history."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.commits import writer
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.definitions import parse_partition_by, partition_spec

from tests.catalog.by_hand import DATA, METADATA, lay_out
from tests.engine.database import open_engine
from tests.engine.evolved_events import EVENTS, VERSIONS, events, evolved
from tests.engine.evolving import add_spec
from tests.stock import manifest, stored_tables


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return evolved(tmp_path_factory.mktemp("root"), EVENTS, VERSIONS)


def report(engine: Engine, where: str) -> dict[str, str]:
    """What EXPLAIN says of each spec version: `kept / total`."""
    plan = engine.query(f"EXPLAIN SELECT * FROM t WHERE {where}")
    (text,) = [text for kind, text in zip(*plan.to_pydict().values(), strict=True) if kind == "partitions"]
    return dict(re.findall(r"^  (v\d+): (\d+ / \d+)", text, re.MULTILINE))


PRUNED = [
    pytest.param("true", {"v1": "4 / 4", "v2": "3 / 3", "v3": "3 / 3"}, 19, id="everything"),
    pytest.param("event_date = '2025-12-10'", {"v1": "1 / 4", "v2": "2 / 3", "v3": "3 / 3"}, 6, id="a date"),
    ("event_date = '2025-12-10' AND country = 'US'", {"v1": "1 / 4", "v2": "0 / 3", "v3": "3 / 3"}, 2),
    pytest.param("country = 'US'", {"v1": "4 / 4", "v2": "1 / 3", "v3": "3 / 3"}, 8, id="a country"),
    pytest.param("event_date IS NULL", {"v1": "1 / 4", "v2": "0 / 3", "v3": "3 / 3"}, 1, id="no date"),
    pytest.param("country IS NULL", {"v1": "4 / 4", "v2": "1 / 3", "v3": "3 / 3"}, 2, id="no country"),
    pytest.param("id = 21", {"v1": "4 / 4", "v2": "3 / 3", "v3": "1 / 3"}, 1, id="an id"),
    pytest.param("event_date < '2025-01-01'", {"v1": "1 / 4", "v2": "1 / 3", "v3": "3 / 3"}, 6, id="a range"),
    ("date_part('year', event_date) = 2024 AND id = 22", {"v1": "1 / 4", "v2": "1 / 3", "v3": "1 / 3"}, 0),
]


@pytest.mark.parametrize(("where", "kept", "count"), PRUNED)
def test_each_version_is_pruned_by_its_own_spec(engine: Engine, where: str, kept: dict[str, str], count: int) -> None:
    assert report(engine, where) == kept
    assert engine.query(f"SELECT id FROM t WHERE {where}").num_rows == count


def test_the_metadata_tables_show_all_versions(engine: Engine) -> None:
    specs = engine.query("SELECT spec_id, field_id FROM t$specs ORDER BY spec_id, position").to_pylist()
    assert [(row["spec_id"], row["field_id"]) for row in specs] == [
        (1, "event_date"),
        (2, "event_date_year"),
        (2, "country"),
        (3, "id_bucket"),
    ]
    found = engine.query("SELECT * FROM t$partitions")
    assert found.schema.names[:5] == ["spec_id", "event_date", "event_date_year", "country", "id_bucket"]
    assert engine.query("SELECT sum(rows) AS n FROM t$partitions WHERE spec_id = 2")["n"].to_pylist() == [6]


def test_versions_whose_numbers_begin_alike_are_told_apart(tmp_path: Path) -> None:
    engine = evolved(tmp_path, EVENTS, [("country", events((1, None, "US")))])
    namespace = engine.root.table(TableName("public", "t"))
    assert isinstance(namespace, PartitionedNamespace)
    for number in (10, 11):
        definitions = parse_partition_by("bucket(2, id)")
        add_spec(tmp_path / "t", partition_spec(namespace.snapshot().schema, definitions, number=number))
        namespace.append([events((number, None, "US"))], evaluate)
    assert sorted(engine.query("SELECT id FROM t")["id"].to_pylist()) == [1, 10, 11]
    assert report(engine, "country = 'DE'") == {"v1": "0 / 1", "v10": "1 / 1", "v11": "1 / 1"}
    found = engine.query("SELECT spec_id, id_bucket FROM t$partitions ORDER BY spec_id").to_pylist()
    assert [row["spec_id"] for row in found] == [1, 10, 11]


NAME = TableName("public", "t")
CHANGES = [
    pytest.param("SELECT 1", id="none"),
    pytest.param("ALTER TABLE t ADD COLUMN extra DOUBLE", id="added"),
    pytest.param("ALTER TABLE t ADD COLUMN extra DOUBLE AS (id / 2)", id="computed"),
    pytest.param("ALTER TABLE t RENAME COLUMN s.x TO y", id="renamed inside"),
    pytest.param("ALTER TABLE t DROP COLUMN n", id="dropped"),
    pytest.param("ALTER TABLE t ALTER COLUMN n TYPE BIGINT", id="widened"),
    pytest.param("ALTER TABLE t ALTER COLUMN n DROP NOT NULL", id="nullable"),
    pytest.param("ALTER TABLE t ALTER COLUMN id SET NOT NULL", id="not null"),
]


@pytest.mark.slow  # every change of columns
@pytest.mark.parametrize("change", CHANGES)
def test_many_batches_become_one_file_in_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    engine = open_engine(tmp_path)
    engine.update("CREATE TABLE t (id BIGINT, p VARCHAR, n INT NOT NULL, s STRUCT<x INT>) PARTITIONED BY (p)")
    engine.update("INSERT INTO t VALUES (1, 'a', 1, named_struct('x', 1)), (2, 'b', 2, NULL)")
    if change.startswith("ALTER"):
        engine.update(change)
    before = engine.query("SELECT * FROM t")
    files = {t.object_id: len(t.dataset.get_fragments()) for t in stored_tables(tmp_path / "t")}
    monkeypatch.setattr(writer, "CHUNK_ROWS", before.num_rows)
    reader = pa.RecordBatchReader.from_batches(before.schema, before.to_batches() * 5)
    assert engine.ingest(NAME, reader, create_missing=False, existing=IfExists.APPEND) == 5 * before.num_rows
    after = {t.object_id: len(t.dataset.get_fragments()) for t in stored_tables(tmp_path / "t")}
    assert after == {object_id: count + 1 for object_id, count in files.items()}
    expected = sorted(map(str, before.to_pylist() * 6))
    assert sorted(map(str, engine.query("SELECT * FROM t").to_pylist())) == expected


def test_a_struct_stays_null_where_its_fields_are_not(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.update("CREATE TABLE t (id BIGINT, s STRUCT<x INT, y STRUCT<u INT, v VARCHAR>>) PARTITIONED BY (id)")
    engine.update("INSERT INTO t VALUES (1, NULL), (2, named_struct('x', 2, 'y', named_struct('u', 1, 'v', 'w')))")
    before = engine.query("SELECT * FROM t ORDER BY id").to_pylist()
    engine.update("ALTER TABLE t ALTER COLUMN s.x SET NOT NULL")
    assert engine.query("SELECT * FROM t ORDER BY id").to_pylist() == before
    engine.update("INSERT INTO t SELECT id + 2, s FROM t")
    assert engine.query("SELECT s FROM t WHERE id > 2 ORDER BY id").to_pylist() == [{"s": row["s"]} for row in before]


PROPERTIES = json.loads((DATA / "appendix_e_properties.json").read_text())


@pytest.fixture
def by_hand(tmp_path: Path) -> Engine:
    """The appendices' namespace, as `events`."""
    lay_out(tmp_path / "events")
    return open_engine(tmp_path, target_partitions=1)


def test_each_spec_has_the_snapshot_that_brought_it(engine: Engine) -> None:
    place = Path(engine.root.store.uri) / "t"
    stock, tables = manifest(place), stored_tables(place)
    found = engine.query("SELECT DISTINCT spec_id, snapshot, is_current, tables, rows FROM t$specs ORDER BY spec_id")
    assert found.to_pylist() == [
        {
            "spec_id": number,
            "snapshot": next(
                v["version"]
                for v in stock.versions()
                if f"partition_spec_v{number}" in stock.checkout_version(v["version"]).metadata
            ),
            "is_current": number == 3,
            "tables": sum(table.spec_id == number for table in tables),
            "rows": sum(table.dataset.count_rows() for table in tables if table.spec_id == number),
        }
        for number in (1, 2, 3)
    ]


def test_the_moment_and_the_operation_are_those_of_the_snapshot(engine: Engine) -> None:
    differing = engine.query(
        "SELECT * FROM t$specs s JOIN t$snapshots v ON s.snapshot = v.version"
        " WHERE s.committed_at <> v.committed_at OR s.operation <> v.operation"
    )
    assert differing.num_rows == 0


def test_an_old_snapshot_knows_the_specs_of_its_time(engine: Engine) -> None:
    (second,) = set(engine.query("SELECT snapshot FROM t$specs WHERE spec_id = 2")["snapshot"].to_pylist())
    found = engine.query(f'SELECT DISTINCT spec_id, is_current FROM "t@{second}$specs" ORDER BY spec_id').to_pylist()
    assert [(row["spec_id"], row["is_current"]) for row in found] == [(1, False), (2, True)]


def properties(engine: Engine, statement: str) -> dict[str, Any]:
    """What DESCRIBE NAMESPACE returns."""
    return dict(zip(*engine.query(f"DESCRIBE NAMESPACE {statement}").to_pydict().values(), strict=True))


WAYS = {
    "dotted": lambda path: ".".join(["events", *path]),
    "with the schema": lambda path: ".".join(["public", "events", *path]),
    "quoted": lambda path: ".".join(["lance", "public", "events", *(f'"{name}"' for name in path)]),
    "as text": lambda path: f"events '{'$'.join(path)}'",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("described", PROPERTIES, ids=lambda described: "$".join(described["id"]))
def test_a_namespace_is_described_as_in_appendix_e(by_hand: Engine, described: dict[str, Any], way: str) -> None:
    assert {"properties": properties(by_hand, WAYS[way](described["id"]))} == described["response"]


def test_a_table_is_described_by_its_specs_and_its_schema(by_hand: Engine) -> None:
    found = properties(by_hand, "events")
    assert {name: json.loads(value) for name, value in found.items()} == METADATA


def test_a_table_called_namespace_is_described_as_a_table(by_hand: Engine) -> None:
    by_hand.update("CREATE TABLE namespace AS SELECT 1 AS x")
    assert by_hand.query("DESCRIBE namespace")["column_name"].to_pylist() == ["x"]
    assert by_hand.query("DESCRIBE TABLE namespace")["column_name"].to_pylist() == ["x"]
