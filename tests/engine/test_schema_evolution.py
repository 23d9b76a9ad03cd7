"""ALTER TABLE … COLUMN: what clients see, what lies in the tables, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.errors import LanceFlightError

from tests.engine.database import Database
from tests.service.server_process import files
from tests.stock import manifest, stored_tables

pytestmark = pytest.mark.slow  # every change of columns, written on afterwards

INNER = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.utf8())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("p", pa.utf8()),
        pa.field("small", pa.int32()),
        pa.field("d", pa.decimal128(9, 2)),
        pa.field("s", INNER),
        pa.field("l", pa.list_(pa.field("item", INNER))),
        pa.field("m", pa.map_(pa.utf8(), pa.field("value", pa.int16()))),
    ]
)
IDS = {"id": 0, "p": 1, "small": 2, "d": 3, "s": 4, "l": 7, "m": 11}
NEXT_ID = 14
ONE, TWO = {"x": 1, "y": "a"}, {"x": 2, "y": None}
ROWS = [
    {"id": 1, "p": "a", "small": 10, "d": None, "s": ONE, "l": [ONE, TWO], "m": [("k", 1)]},
    {"id": 2, "p": "a", "small": None, "d": None, "s": None, "l": None, "m": None},
    {"id": 3, "p": "b", "small": 30, "d": None, "s": TWO, "l": [], "m": []},
]
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def template(database: Database) -> None:
    """A table with columns of every kind, and three rows in two partitions, which nobody changes."""
    database.ingest("evolving", pa.Table.from_pylist(ROWS, schema=COLUMNS), partition_by="p")


def made(database: Database, table: str) -> None:
    """A copy of it."""
    database.copy("evolving", table)


def alter(database: Database, table: str, change: str) -> None:
    """Change the table, and nothing else."""
    assert database.run(f"ALTER TABLE {table} {change}") == 0


def rows(database: Database, table: str) -> Rows:
    """All rows by their ids, as a client reads them."""
    found: Rows = database.query(f"SELECT * FROM {table}").to_pylist()
    return sorted(found, key=lambda row: str(row.get("id")))


def seen(database: Database, table: str) -> pa.Schema:
    """The columns as the catalog says them; the same as a query has."""
    found = database.engine.schema_of(TableName(PUBLIC, table)).remove_metadata()
    assert found.names == database.query(f"SELECT * FROM {table} LIMIT 0").schema.names
    return found


def next_id(database: Database, table: str) -> int:
    """The lowest id that no column has ever had, as the namespace's schema says it or implies it."""
    schema = json.loads(manifest(database.root / table).metadata["schema"])

    def ids(fields: Sequence[Any]) -> list[int]:
        mine = [int(field["metadata"]["lance:field_id"]) for field in fields if "metadata" in field]
        return mine + [number for field in fields for number in ids(field["type"].get("fields") or [])]

    stored = (schema.get("metadata") or {}).get("lance_flight:next_field_id", 0)
    return max(int(stored), max(ids(schema["fields"])) + 1)


def stock_schemas(database: Database, table: str) -> list[pa.Schema]:
    """What every partition table has for columns, at its pin."""
    return [stored.dataset.schema for stored in stored_tables(database.root / table)]


def ids_of(schema: pa.Schema) -> dict[str, int]:
    """The ids that a partition table keeps with its columns."""
    return {field.name: int(field.metadata[b"lance_flight:field_id"]) for field in schema}


def data_files(database: Database, table: str) -> set[str]:
    """The data files of the partition tables."""
    return {name for name in files(database.root / table) if "/data/" in name and not name.startswith("__manifest")}


def without(*names: str) -> Rows:
    return [{key: value for key, value in row.items() if key not in names} for row in ROWS]


def with_(name: str, *values: Any) -> Rows:
    return [{**row, name: value} for row, value in zip(ROWS, values, strict=True)]


def ordered(*names: str) -> Rows:
    return [{name: row[name] for name in names} for row in ROWS]


FREE = [
    pytest.param("ADD COLUMN c VARCHAR", with_("c", None, None, None), id="add"),
    ("ADD COLUMN l.item.z INT", with_("l", [ONE | {"z": None}, TWO | {"z": None}], None, [])),
    pytest.param("DROP COLUMN small", without("small"), id="drop"),
    pytest.param("DROP COLUMN s.x", with_("s", {"y": "a"}, None, {"y": None}), id="drop inside a struct"),
    pytest.param("DROP COLUMN p", without("p"), id="drop what partitions"),
    ("RENAME COLUMN small TO c", [{("c" if k == "small" else k): v for k, v in row.items()} for row in ROWS]),
    ("RENAME COLUMN s.x TO z", with_("s", {"z": 1, "y": "a"}, None, {"z": 2, "y": None})),
    pytest.param("ALTER COLUMN id SET NOT NULL", ROWS, id="set not null"),
    pytest.param("ALTER COLUMN small SET DEFAULT 3, ALTER COLUMN small DROP DEFAULT", ROWS, id="set and drop default"),
    ("ALTER COLUMN d FIRST, ALTER COLUMN p AFTER m", ordered("d", "id", "small", "s", "l", "m", "p")),
    pytest.param("ALTER COLUMN s.y FIRST", ROWS, id="move inside a struct"),
    ("ADD COLUMN c INT, ALTER COLUMN c FIRST", [{"c": None, **row} for row in ROWS]),
]
WRITTEN = [
    pytest.param("ADD COLUMN c INT DEFAULT 7", with_("c", 7, 7, 7), id="default"),
    pytest.param("ADD COLUMN c INT NOT NULL DEFAULT -7", with_("c", -7, -7, -7), id="default, not null"),
    pytest.param("ADD COLUMN c BIGINT AS (id * 2 + coalesce(small, 0))", with_("c", 12, 4, 36), id="computed"),
    pytest.param("ADD COLUMN c VARCHAR NOT NULL AS (upper(p))", with_("c", "A", "A", "B"), id="computed, not null"),
    pytest.param("ALTER COLUMN small TYPE BIGINT", ROWS, id="widen"),
    pytest.param("ALTER COLUMN s.x TYPE BIGINT", ROWS, id="widen inside a struct"),
    pytest.param("ALTER COLUMN m.value TYPE INT", ROWS, id="widen the values of a map"),
]


def check(database: Database, table: str, expected: Rows) -> None:
    """Clients and stock Lance find these rows under these columns, and each column keeps its id."""
    assert rows(database, table) == expected
    names = list(expected[0])
    assert seen(database, table).names == names
    before = {name: number for name, number in IDS.items() if name in names}
    for schema in stock_schemas(database, table):
        assert schema.names == names
        found = ids_of(schema)
        assert before.items() <= found.items()
    stored = [row for t in stored_tables(database.root / table) for row in t.dataset.to_table().to_pylist()]
    assert sorted(stored, key=str) == sorted(expected, key=str)
    database.ingest(table, database.query(f"SELECT * FROM {table}"), "append")
    assert sorted(rows(database, table), key=str) == sorted(expected * 2, key=str)


@pytest.mark.parametrize(("change", "expected"), FREE)
def test_names_and_columns_without_values_cost_no_data(
    database: Database, table: str, change: str, expected: Rows
) -> None:
    made(database, table)
    before = data_files(database, table)
    alter(database, table, change)
    assert data_files(database, table) == before
    check(database, table, expected)


@pytest.mark.parametrize(("change", "expected"), WRITTEN)
def test_values_are_written_beside_those_that_stay(database: Database, table: str, change: str, expected: Rows) -> None:
    made(database, table)
    before = data_files(database, table)
    alter(database, table, change)
    assert len(data_files(database, table) - before) == len(before)
    check(database, table, expected)


def test_a_computed_column_that_is_not_null_has_none_in_files_of_one_row(database: Database, table: str) -> None:
    database.ingest(table, pa.Table.from_pylist(ROWS, schema=COLUMNS), partition_by="id")
    message = database.refuses(f"ALTER TABLE {table} ADD COLUMN c INT NOT NULL AS (small)")
    assert "column 'c' is NOT NULL and its expression gives NULL" in message
    assert rows(database, table) == ROWS


def test_a_default_that_changes_is_for_later_rows_alone(database: Database, table: str) -> None:
    made(database, table)
    alter(database, table, "ADD COLUMN c INT DEFAULT 1")
    for number, change in enumerate(("SET DEFAULT 2", "DROP DEFAULT", "SET DEFAULT 3", "SET DEFAULT NULL"), start=4):
        alter(database, table, f"ALTER COLUMN c {change}")
        database.run(f"INSERT INTO {table} (id, p) VALUES ({number}, 'a')")
    assert [row["c"] for row in rows(database, table)] == [1, 1, 1, 2, None, 3, None]
    for change, message in {
        "s.x SET DEFAULT 1": "can have no default",
        "small SET DEFAULT random()": "'random'",
        "m.value FIRST": "expected a struct",
        "id AFTER nothing": "no column 'nothing'",
    }.items():
        assert message in database.refuses(f"ALTER TABLE {table} ALTER COLUMN {change}")


def test_not_null_is_held_from_then_on(database: Database, table: str) -> None:
    made(database, table)
    alter(database, table, "ALTER COLUMN id SET NOT NULL")
    assert "NOT NULL" in database.refuses(f"INSERT INTO {table} (p) VALUES ('a')")
    assert "NOT NULL" in database.refuses(f"UPDATE {table} SET id = NULL")
    with pytest.raises(Exception, match="NOT NULL"):
        database.ingest(table, pa.table({"p": ["a"]}), "append")
    assert rows(database, table) == ROWS
    alter(database, table, "ALTER COLUMN id DROP NOT NULL")
    database.run(f"INSERT INTO {table} (p) VALUES ('a')")
    assert database.value(f"SELECT count(*) FROM {table} WHERE id IS NULL") == 1


def test_not_null_inside_a_struct_is_held_where_the_struct_is_there(database: Database, table: str) -> None:
    made(database, table)
    alter(database, table, "ALTER COLUMN s.x SET NOT NULL")
    columns = pa.schema([COLUMNS.field(name) for name in ("id", "p", "s")])
    for place in ("a", "new"):
        good = [{"id": 4, "p": place, "s": None}, {"id": 5, "p": place, "s": {"x": 5, "y": None}}]
        database.ingest(table, pa.Table.from_pylist(good, schema=columns), "append")
        bad = [{"id": 6, "p": place, "s": {"x": None, "y": "b"}}]
        with pytest.raises(Exception, match=r"'s'.*non-nullable field 'x'"):
            database.ingest(table, pa.Table.from_pylist(bad, schema=columns), "append")
    assert database.value(f"SELECT count(*) FROM {table}") == len(ROWS) + 4


def test_an_id_is_never_given_again(database: Database, table: str) -> None:
    made(database, table)
    assert next_id(database, table) == NEXT_ID
    for _ in range(3):
        alter(database, table, "ADD COLUMN c INT DEFAULT 1")
        alter(database, table, "DROP COLUMN c")
    assert next_id(database, table) == NEXT_ID + 3
    alter(database, table, "ADD COLUMN c INT")
    assert {ids_of(schema)["c"] for schema in stock_schemas(database, table)} == {NEXT_ID + 3}
    assert database.rows(f"SELECT DISTINCT c FROM {table}") == [(None,)]
    alter(database, table, f"ROLLBACK TO {manifest(database.root / table).version - 2}")
    assert next_id(database, table) == NEXT_ID + 4


def test_rows_whose_partition_column_is_gone_fall_into_the_null_partition(database: Database, table: str) -> None:
    made(database, table)
    alter(database, table, "DROP COLUMN p")
    database.run(f"INSERT INTO {table} (id, small) VALUES (4, 40), (5, 50)")
    values = {t.values["p"]: t.dataset.count_rows() for t in stored_tables(database.root / table)}
    assert values == {"a": 2, "b": 1, None: 2}
    assert "no column 'p'" in database.refuses(f"ALTER TABLE {table} SET PARTITIONED BY (p, id)")
    alter(database, table, "ADD COLUMN p INT DEFAULT 1")
    assert database.rows(f"SELECT id FROM {table} WHERE p = 1 ORDER BY id") == [(n,) for n in range(1, 6)]
    alter(database, table, "SET PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} (id) VALUES (6)")
    assert sorted(t.spec_id for t in stored_tables(database.root / table)) == [1, 1, 1, 2]
    assert database.value(f"SELECT count(*) FROM {table} WHERE p = 1") == 6


def test_changes_across_other_columns_are_told_in_the_newest_ones(database: Database, table: str) -> None:
    made(database, table)
    first = manifest(database.root / table).version
    database.run(f"DELETE FROM {table} WHERE id = 1")
    alter(database, table, "RENAME COLUMN small TO large")
    alter(database, table, "ALTER COLUMN large TYPE BIGINT")
    alter(database, table, "RENAME COLUMN s.x TO z")
    alter(database, table, "ALTER COLUMN l.item.x TYPE BIGINT")
    alter(database, table, "ADD COLUMN c INT DEFAULT 7")
    alter(database, table, "ADD COLUMN s.w INT")
    alter(database, table, "DROP COLUMN d")
    database.run(f"INSERT INTO {table} (id, p, large) VALUES (4, 'a', {2**40})")
    last = manifest(database.root / table).version
    changes = database.query(f"SELECT * FROM table_changes('{table}', {first}, {last})")
    assert changes.schema.names[3:] == seen(database, table).names
    found = {(row["_change"], row["id"]): row for row in changes.to_pylist()}
    assert sorted(found) == [("delete", 1), ("insert", 4)]
    gone = found["delete", 1]
    assert (gone["large"], gone["s"], gone["l"], gone["c"]) == (
        10,
        {"z": 1, "y": "a", "w": None},
        [ONE, TWO],
        None,
    )
    assert (found["insert", 4]["large"], found["insert", 4]["c"]) == (2**40, 7)


def test_columns_are_added_and_dropped_only_where_that_changes_something(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, s STRUCT<a INT>) PARTITIONED BY (bucket(2, id))")
    database.run(f"INSERT INTO {table} VALUES (1, {{'a': 2}})")
    for change, columns in {
        "ADD COLUMN IF NOT EXISTS x INT DEFAULT 5": ["id", "s", "x"],
        "ADD COLUMN IF NOT EXISTS x VARCHAR, ADD IF NOT EXISTS y INT, ADD COLUMN IF NOT EXISTS y DATE": [
            "id",
            "s",
            "x",
            "y",
        ],
        "DROP COLUMN IF EXISTS nope, DROP IF EXISTS y, DROP COLUMN IF EXISTS y": ["id", "s", "x"],
        "ADD COLUMN IF NOT EXISTS s.a INT, DROP COLUMN IF EXISTS s.nope": ["id", "s", "x"],
        "DROP COLUMN IF EXISTS x, ADD COLUMN IF NOT EXISTS x VARCHAR": ["id", "s", "x"],
    }.items():
        database.run(f"ALTER TABLE {table} {change}")
        assert database.query(f"SELECT * FROM {table}").column_names == columns
    assert database.rows(f"SELECT id, s.a, x FROM {table}") == [(1, 2, None)]
    commits = database.value(f"SELECT count(*) FROM {table}$snapshots")
    database.run(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS x INT, DROP COLUMN IF EXISTS nope")
    assert database.value(f"SELECT count(*) FROM {table}$snapshots") == commits
    for change in ("ADD COLUMN x INT", "ADD COLUMN IF NOT EXISTS z INT, ADD COLUMN x INT", "DROP COLUMN nope"):
        with pytest.raises(LanceFlightError, match=r"'x'|'nope'"):
            database.run(f"ALTER TABLE {table} {change}")
    assert database.query(f"SELECT * FROM {table}").column_names == ["id", "s", "x"]
