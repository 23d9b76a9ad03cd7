"""Versions of plain and partitioned tables: read by number, tag and time, named by tags, rolled back to, and what changed between them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import lance
import pyarrow as pa
import pytest

from tests.engine.database import Client, Database
from tests.engine.tagged_tables import PLACES, grown, stock
from tests.stock import manifest, stored_tables

pytestmark = pytest.mark.slow  # every way to name a version of both kinds of tables


@PLACES
def test_a_version_is_read_by_its_number(database: Database, table: str, partitioned_by: str) -> None:
    for rows, version in enumerate(grown(database, table, partitioned_by), 1):
        for name in (f"{table}@{version}", f'"{table}@{version}"', f'public."{table}@{version}"'):
            assert database.value(f"SELECT count(*) FROM {name}") == rows
            assert sorted(database.rows(f"SELECT id FROM {name}")) == [(n,) for n in range(rows)]


@PLACES
def test_a_version_is_read_by_a_time(database: Database, table: str, partitioned_by: str) -> None:
    versions = grown(database, table, partitioned_by)
    moments = {each["version"]: each["timestamp"] for each in stock(database, table, partitioned_by).versions()}
    for rows, version in enumerate(versions, 1):
        moment = moments[version].astimezone(dt.UTC)
        for text in (moment.isoformat(), moment.replace(tzinfo=None).isoformat(sep=" ")):
            assert database.value(f'SELECT count(*) FROM "{table}@{text}"') == rows
    for statement in (
        f'SELECT count(*) FROM "{table}@2999-01-01"',
        f"SELECT * FROM {table} AT (TIMESTAMP => '2999-01-01')",
        f"ALTER TABLE {table} ROLLBACK TO '2999-01-01'",
    ):
        assert "has no version of 2999-01-01T00:00:00+00:00 yet" in database.refuses(statement)


@PLACES
def test_a_version_is_read_by_a_tag(database: Database, table: str, partitioned_by: str) -> None:
    oldest, *_ = grown(database, table, partitioned_by)
    stock(database, table, partitioned_by).tags.create("first", oldest)
    for name in (f"{table}@first", f'"{table}@first"'):
        assert database.value(f"SELECT count(*) FROM {name}") == 1


@PLACES
def test_versions_of_one_table_stand_beside_each_other(database: Database, table: str, partitioned_by: str) -> None:
    first, _, last = grown(database, table, partitioned_by)
    new = f"SELECT a.id FROM {table} a LEFT JOIN {table}@{first} b ON a.id = b.id WHERE b.id IS NULL ORDER BY a.id"
    assert database.rows(new) == [(1,), (2,)]
    union = f"SELECT count(*) FROM (SELECT id FROM {table}@{first} UNION ALL SELECT id FROM {table}@{last})"
    assert database.value(union) == 4


def test_metadata_tables_travel_too(database: Database, table: str) -> None:
    for rows, version in enumerate(grown(database, table, " PARTITIONED BY (id)"), 1):
        assert database.value(f"SELECT count(*) FROM {table}@{version}$partitions") == rows
        assert database.value(f'SELECT sum(rows) FROM "{table}@{version}$partitions"') == rows
        assert database.value(f"SELECT count(*) FROM {table}@{version}$files") == rows


def test_a_statement_reads_one_snapshot_however_often_it_names_a_table(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT) PARTITIONED BY (id)")
    database.run(f"INSERT INTO {table} VALUES (1)")
    assert database.run(f"INSERT INTO {table} SELECT a.id + b.id FROM {table} a, {table} b") == 1
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]


CLAUSES = [
    pytest.param("{t} FOR VERSION AS OF {v}", id="FOR VERSION"),
    pytest.param("{t} FOR SYSTEM_VERSION AS OF {v} AS {t}", id="FOR SYSTEM_VERSION"),
    pytest.param("{t} VERSION AS OF {v}", id="VERSION"),
    pytest.param("{t} AT (VERSION => {v})", id="AT VERSION"),
    pytest.param("public.{t} AT (TAG => 'first') AS {t}", id="AT TAG"),
    pytest.param("\"{t}\" AT (TIMESTAMP => '{time}') {t}", id="AT TIMESTAMP"),
    pytest.param("public.{t} FOR VERSION AS OF 'first' {t}", id="FOR VERSION of a tag"),
    pytest.param("{t} FOR TAG first", id="FOR TAG"),
    pytest.param('{t} FOR TAG "first"', id="FOR TAG in quotes"),
    pytest.param("lance.public.{t} FOR TIMESTAMP AS OF '{time}'", id="FOR TIMESTAMP"),
    pytest.param("{t} FOR SYSTEM_TIME AS OF TIMESTAMP '{time}'", id="FOR SYSTEM_TIME"),
    pytest.param("\"{t}\" TIMESTAMP AS OF '{time}'", id="TIMESTAMP"),
]


@PLACES
@pytest.mark.parametrize("clause", CLAUSES)
def test_a_version_is_read_by_a_clause(database: Database, table: str, partitioned_by: str, clause: str) -> None:
    oldest, *_ = grown(database, table, partitioned_by)
    stored = stock(database, table, partitioned_by)
    stored.tags.create("first", oldest)
    (time,) = (each["timestamp"] for each in stored.versions() if each["version"] == oldest)
    old = clause.format(t=table, v=oldest, time=time.astimezone(dt.UTC).isoformat())
    for query, rows in {
        f"SELECT {table}.id FROM {old}": [(0,)],
        f"SELECT {table}.id FROM {old} WHERE id < 5 ORDER BY 1 LIMIT 2": [(0,)],
        f"SELECT b.id FROM {table} b LEFT JOIN {old} ON b.id = {table}.id WHERE {table}.id IS NULL": [(1,), (2,)],
        f"SELECT count(*) FROM {old}, {table} AS b": [(3,)],
        f"SELECT id FROM {table} WHERE id NOT IN (SELECT id FROM {old})": [(1,), (2,)],
        f"WITH {table} AS (SELECT id FROM {old}) SELECT id FROM {table}": [(0,)],
        f"SELECT id FROM {table} EXCEPT SELECT id FROM {old}": [(1,), (2,)],
        f"SELECT id FROM {table} WHERE id > (SELECT max(id) FROM {old})": [(1,), (2,)],
        f"SELECT b.id FROM {table} b JOIN {old} ON b.id >= {table}.id WHERE b.id < ?": [(0,), (1,)],
    }.items():
        assert sorted(database.rows(query, [2] if "?" in query else None)) == rows, query


def test_rows_come_back_from_a_version(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, n INT) PARTITIONED BY (id)")
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    version = manifest(database.root / table).version
    database.run(f"UPDATE {table} SET n = 0")
    assert database.run(f"DELETE FROM {table} WHERE id = 2") == 1
    assert database.run(f"INSERT INTO {table} SELECT * FROM {table} FOR VERSION AS OF {version} WHERE id = 2") == 1
    old = f"USING {table} FOR VERSION AS OF {version} AS old ON {table}.id = old.id AND old.id = 1"
    assert database.run(f"MERGE INTO {table} {old} WHEN MATCHED THEN UPDATE SET n = old.n") == 1
    assert sorted(database.rows(f"SELECT id, n FROM {table}")) == [(1, 1), (2, 2)]
    assert database.value(f"SELECT count(*) FROM {table}$partitions FOR VERSION AS OF {version}") == 2


# Tags


@PLACES
def test_a_tag_names_the_newest_version_or_the_one_it_is_given(
    database: Database, table: str, partitioned_by: str
) -> None:
    first, second, third = grown(database, table, partitioned_by)
    moment = next(v["timestamp"] for v in stock(database, table, partitioned_by).versions() if v["version"] == second)
    for statement in (
        f"ALTER TABLE {table} CREATE TAG newest",
        f"ALTER TABLE public.{table} CREATE TAG Oldest AS OF {first}",
        f"ALTER TABLE {table} CREATE TAG \"v1.0-RC\" AS OF '{moment.astimezone().isoformat()}'",
        f"ALTER TABLE {table} CREATE TAG again AS OF oldest",
        f"alter table {table} create tag 'quoted' as of 'v1.0-RC'",
    ):
        assert database.run(statement) == 0
    database.run(f"INSERT INTO {table} VALUES (3)")
    rows = {"newest": 3, "oldest": 1, '"v1.0-RC"': 2, "again": 1, "quoted": 2}
    for name, expected in rows.items():
        assert database.value(f'SELECT count(*) FROM "{table}@{name.strip(chr(34))}"') == expected
    named = {"again": first, "newest": third, "oldest": first, "quoted": second, "v1.0-RC": second}
    listed = [(name, version, None) for name, version in sorted(named.items())]
    assert database.rows(f"SELECT name, version, branch FROM {table}$tags ORDER BY name") == listed
    assert {name: tag["version"] for name, tag in stock(database, table, partitioned_by).tags.list().items()} == named


@PLACES
def test_a_tag_is_dropped_and_its_name_is_free_again(database: Database, table: str, partitioned_by: str) -> None:
    first, second, _ = grown(database, table, partitioned_by)
    database.run(f"ALTER TABLE {table} CREATE TAG x AS OF {first}")
    database.run(f"ALTER TABLE {table} DROP TAG x")
    assert "not_found" in database.refuses(f"SELECT * FROM {table}@x")
    assert database.rows(f"SELECT * FROM {table}$tags") == []
    database.run(f"ALTER TABLE {table} CREATE TAG x AS OF {second}")
    assert database.value(f"SELECT count(*) FROM {table}@x") == 2


# Rollbacks


POINTS = pytest.mark.parametrize("point", ["a version", "a tag", "a time"])


@PLACES
@POINTS
def test_a_table_is_rolled_back_to_any_point_and_written_on(
    database: Database, table: str, partitioned_by: str, point: str
) -> None:
    first, second, last = grown(database, table, partitioned_by)
    versions = stock(database, table, partitioned_by).versions()
    moment = next(v["timestamp"] for v in versions if v["version"] == second)
    database.run(f"ALTER TABLE {table} CREATE TAG good AS OF {second}")
    text = {"a version": f"{second}", "a tag": "good", "a time": f"'{moment.astimezone().isoformat()}'"}[point]
    assert database.run(f"ALTER TABLE {table} ROLLBACK TO {text}") == 0
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(0,), (1,)]
    assert int(stock(database, table, partitioned_by).version) == last + 1
    assert database.value(f"SELECT count(*) FROM {table}@{last}") == 3
    database.run(f"INSERT INTO {table} VALUES (2), (7)")
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(0,), (1,), (2,), (7,)]
    database.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    assert database.rows(f"SELECT id FROM {table}") == [(0,)]


@PLACES
def test_a_rollback_to_the_newest_version_makes_no_new_one(database: Database, table: str, partitioned_by: str) -> None:
    *_, last = grown(database, table, partitioned_by)
    database.run(f"ALTER TABLE {table} ROLLBACK TO {last}")
    assert int(stock(database, table, partitioned_by).version) == last


def test_the_history_says_so(database: Database, table: str) -> None:
    first, *_ = grown(database, table, " PARTITIONED BY (id)")
    database.run(f"ALTER TABLE {table} ROLLBACK TO {first}")
    newest = f"SELECT operation, tables_added, tables_changed, tables_removed FROM {table}$snapshots ORDER BY version DESC LIMIT 1"
    assert database.rows(newest) == [(f"rollback to {first}", 0, 0, 2)]


@pytest.mark.parametrize("kind", ["version", "tag", "time"])
def test_a_session_reads_at_a_snapshot_and_changes_what_is_newest(
    database: Database, client: Client, table: str, kind: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    database.run(f"ALTER TABLE {table} CREATE TAG before")
    newest = f"SELECT max(version), max(committed_at) FROM {table}$snapshots"
    ((version, at),) = database.rows(newest)
    database.run(f"DELETE FROM {table} WHERE id = 1")
    points = {"version": str(version), "tag": "before", "time": at.isoformat()}
    client.run(f"SET snapshot = '{points[kind]}'")
    assert sorted(client.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
    assert client.rows(f"SELECT count(*) FROM {table}$partitions") == [(2,)]
    client.run(f"UPDATE {table} SET id = id + (SELECT count(*) FROM {table}) WHERE id < 10")
    assert sorted(client.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
    client.run("SET snapshot = 'newest'")
    client.run("SET target_partitions = '1'")
    assert sorted(client.rows(f"SELECT id FROM {table}")) == [(4,)]


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
