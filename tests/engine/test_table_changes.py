"""`table_changes`: the rows that came and went between two points of a table's history."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.engine.tagged_tables import PLACES, stock
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every statement in both kinds of tables

COLUMNS = "_change, _snapshot, id, name"


def newest(database: Database, table: str, partitioned_by: str) -> int:
    return int(stock(database, table, partitioned_by).version)


def changed(database: Database, table: str, partitioned_by: str, *statements: str) -> list[int]:
    """A table with the rows 1 to 4, changed by each of some statements; the versions before and after each."""
    database.run(f"CREATE TABLE {table} (id INT NOT NULL, name VARCHAR){partitioned_by}")
    database.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL)")
    versions = [newest(database, table, partitioned_by)]
    for statement in statements:
        database.run(statement.format(t=table))
        versions.append(newest(database, table, partitioned_by))
    return versions


def changes(database: Database, table: str, first: Any, last: Any, where: str = "true") -> list[tuple[Any, ...]]:
    sql = f"SELECT {COLUMNS} FROM table_changes('{table}', {first}, {last}) WHERE {where}"
    return sorted(database.rows(sql), key=str)


STATEMENTS = [
    pytest.param("INSERT INTO {t} VALUES (5, 'a'), (6, 'new')", ["insert 5 a", "insert 6 new"], id="insert"),
    pytest.param("DELETE FROM {t} WHERE id = 2", ["delete 2 a"], id="delete some"),
    pytest.param("DELETE FROM {t} WHERE name IS NULL", ["delete 4 None"], id="delete a partition"),
    pytest.param("DELETE FROM {t} WHERE id < 0", [], id="delete none"),
    pytest.param("UPDATE {t} SET id = 20 WHERE id = 2", ["delete 2 a", "insert 20 a"], id="update"),
    pytest.param("UPDATE {t} SET name = 'b' WHERE id = 2", ["delete 2 a", "insert 2 b"], id="update that moves a row"),
    pytest.param("TRUNCATE TABLE {t}", ["delete 1 a", "delete 2 a", "delete 3 b", "delete 4 None"], id="truncate"),
]


@PLACES
@pytest.mark.parametrize(("statement", "expected"), STATEMENTS)
def test_each_statement_is_told_by_the_rows_that_it_moved(
    database: Database, table: str, partitioned_by: str, statement: str, expected: list[str]
) -> None:
    before, after = changed(database, table, partitioned_by.replace("id", "name"), statement)
    found = changes(database, table, before, after)
    assert [f"{change} {number} {name}" for change, _, number, name in found] == expected
    assert {version for _, version, _, _ in found} <= {after}
    assert changes(database, table, after, after) == []


@PLACES
def test_a_range_tells_each_snapshot_by_itself(database: Database, table: str, partitioned_by: str) -> None:
    first, second, third, fourth = changed(
        database,
        table,
        partitioned_by.replace("id", "name"),
        "INSERT INTO {t} VALUES (5, 'a')",
        "DELETE FROM {t} WHERE id = 5",
        "UPDATE {t} SET name = 'moved' WHERE id < 3",
    )
    assert changes(database, table, first, third) == [("delete", third, 5, "a"), ("insert", second, 5, "a")]
    assert changes(database, table, second, third) == [("delete", third, 5, "a")]
    all_of_it = changes(database, table, first, fourth)
    rows = database.rows(f"SELECT id, name FROM {table}@{first}")
    for change, _, number, name in sorted(all_of_it, key=lambda row: row[1]):
        (rows.append if change == "insert" else rows.remove)((number, name))
    assert sorted(rows, key=str) == sorted(database.rows(f"SELECT id, name FROM {table}"), key=str)


def test_a_rollback_is_told_by_what_it_took_and_brought_back(database: Database, table: str) -> None:
    place = " PARTITIONED BY (name)"
    first, *_, before = changed(
        database, table, place, "INSERT INTO {t} VALUES (5, 'a'), (6, 'new')", "DELETE FROM {t} WHERE id = 1"
    )
    database.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    after = newest(database, table, place)
    assert changes(database, table, before, after) == [
        ("delete", after, 5, "a"),
        ("delete", after, 6, "new"),
        ("insert", after, 1, "a"),
    ]


@PLACES
def test_the_ends_are_versions_tags_or_times(database: Database, table: str, partitioned_by: str) -> None:
    first, second, _ = changed(
        database, table, partitioned_by, "INSERT INTO {t} VALUES (5, 'a')", "INSERT INTO {t} VALUES (6, 'a')"
    )
    database.run(f"ALTER TABLE {table} CREATE TAG begun AS OF {first}")
    moment = next(v["timestamp"] for v in stock(database, table, partitioned_by).versions() if v["version"] == second)
    expected = [("insert", second, 5, "a")]
    at = moment.astimezone().isoformat()
    for start in (first, f"'{first}'", "'begun'"):
        for end in (second, f"'{at}'", f"TIMESTAMP '{at}'"):
            assert changes(database, table, start, end) == expected


def test_columns_partition_and_types_are_told(database: Database, table: str) -> None:
    first, last = changed(database, table, " PARTITIONED BY (name)", "INSERT INTO {t} VALUES (5, 'a')")
    found = database.query(f"SELECT * FROM table_changes('{table}', {first}, {last})")
    assert found.schema == pa.schema(
        [
            pa.field("_change", pa.utf8(), nullable=False),
            ("_partition", pa.utf8()),
            pa.field("_snapshot", pa.int64(), nullable=False),
            ("id", pa.int32()),
            ("name", pa.utf8()),
        ]
    )
    (object_id,) = [t.object_id for t in stored_tables(database.root / table) if t.values["name"] == "a"]
    assert found.to_pylist() == [
        {"_change": "insert", "_partition": object_id, "_snapshot": last, "id": 5, "name": "a"}
    ]


@PLACES
def test_changes_are_filtered_joined_and_counted_like_a_table(
    database: Database, table: str, partitioned_by: str
) -> None:
    first, _, last = changed(
        database, table, partitioned_by, "DELETE FROM {t} WHERE id IN (1, 3)", "INSERT INTO {t} VALUES (1, 'z')"
    )
    call = f"table_changes('public.{table}', {first}, {last})"
    assert database.value(f"SELECT count(*) FROM {call}") == 3
    assert database.rows(f"SELECT name FROM {call} WHERE _change = 'delete' AND id > 1") == [("b",)]
    assert database.rows(
        f"SELECT d.name, i.name FROM {call} d JOIN {call} i ON d.id = i.id AND d._snapshot < i._snapshot"
    ) == [("a", "z")]
    assert database.rows(f"SELECT _change, count(*) FROM {call} GROUP BY _change ORDER BY 1") == [
        ("delete", 2),
        ("insert", 1),
    ]
    assert database.rows(f"SELECT c.id FROM {call} c JOIN {table} t ON c.id = t.id AND c.name = t.name") == [(1,)]


def test_a_plain_table_that_was_compacted_has_not_changed(database: Database, table: str) -> None:
    first, before = changed(database, table, "", "INSERT INTO {t} VALUES (5, 'a')")
    dataset = lance.dataset(str(database.root / f"{table}.lance"))
    dataset.optimize.compact_files()
    assert changes(database, table, before, int(dataset.latest_version)) == []
    assert changes(database, table, first, int(dataset.latest_version)) == [("insert", before, 5, "a")]


@PLACES
def test_floats_compare_as_they_do_in_a_table(database: Database, table: str, partitioned_by: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, x DOUBLE){partitioned_by}")
    first = newest(database, table, partitioned_by)
    database.run(f"INSERT INTO {table} VALUES (1, 1.0), (2, 'NaN'), (3, NULL)")
    last = newest(database, table, partitioned_by)
    for where in ("x > 0", "x = 'NaN'::DOUBLE", "x <> 1", "x IS NULL"):
        found = database.rows(f"SELECT id FROM table_changes('{table}', {first}, {last}) WHERE {where} ORDER BY id")
        assert found == database.rows(f"SELECT id FROM {table} WHERE {where} ORDER BY id")
