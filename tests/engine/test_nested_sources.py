"""Partition fields over fields inside structs: written, pruned, joined, evolved and verified as those over columns are."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.errors import InvalidInput

from tests.engine.database import Database
from tests.stock import stored_tables

PLACE = pa.struct([("city", pa.utf8()), ("spot", pa.struct([("x", pa.int64()), ("at", pa.timestamp("us"))]))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a", pa.int64()), ("ts", pa.timestamp("us"))])),
        ("place", PLACE),
        ("tags", pa.list_(PLACE)),
    ]
)
FIELDS = "s.a, year(s.ts), bucket(16, place.spot.x)"
ROWS = [
    (1, {"a": 1, "ts": dt.datetime(2024, 5, 1)}, {"city": "Rome", "spot": {"x": 7, "at": None}}),
    (2, {"a": 1, "ts": dt.datetime(2025, 5, 1)}, {"city": "Oslo", "spot": {"x": 8, "at": dt.datetime(2024, 1, 1)}}),
    (3, {"a": 2, "ts": dt.datetime(2025, 6, 1)}, {"city": "Rome", "spot": None}),
    (4, {"a": None, "ts": None}, None),
    (5, None, {"city": "Oslo", "spot": {"x": 7, "at": None}}),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("nested"))
    database.ingest("t", rows(), partition_by=FIELDS)
    return database


def rows(*more: tuple[Any, ...]) -> pa.Table:
    names = SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, (*row, None), strict=False)) for row in more or ROWS], schema=SCHEMA)


def ids(database: Database, where: str, table: str = "t") -> list[int]:
    return [number for (number,) in database.rows(f"SELECT id FROM {table} WHERE {where} ORDER BY id")]


def explained(database: Database, sql: str) -> str:
    return "\n".join(text for _, text in database.rows(f"EXPLAIN {sql}"))


def partitions(database: Database, table: str = "t") -> dict[tuple[Any, ...], list[int]]:
    """The ids of each partition, by its values, as stock Lance has them."""
    return {
        tuple(stored.values.values()): sorted(stored.dataset.to_table()["id"].to_pylist())
        for stored in stored_tables(database.root / table)
    }


def test_rows_lie_under_the_values_of_their_fields(database: Database) -> None:
    found = {values[:2]: mine for values, mine in partitions(database).items() if values[0] is not None}
    assert found == {(1, 2024): [1], (1, 2025): [2], (2, 2025): [3]}
    assert sorted(mine for values, mine in partitions(database).items() if values[0] is None) == [[4], [5]]
    assert {row[-1] for row in database.rows("VERIFY TABLE t")} == {None}
    assert database.rows("SELECT source_columns FROM t$specs ORDER BY position") == [
        (["s.a"],),
        (["s.ts"],),
        (["place.spot.x"],),
    ]


PRUNED = {
    "s.a = 1": ([1, 2], 2),
    "s['a'] = 1 AND id > 1": ([2], 2),
    "s.a IN (2, 3)": ([3], 1),
    "s.a > 1": ([3], 1),
    "s.a IS NULL": ([4, 5], 2),
    "s.a IS NOT NULL": ([1, 2, 3], 3),
    "s.a = 1 OR s.a = 2": ([1, 2, 3], 3),
    "date_part('year', s.ts) = 2024": ([1], 1),
    "s.ts >= TIMESTAMP '2025-01-01T00:00:00'": ([2, 3], 2),
    "s.a = 1 AND s.ts < TIMESTAMP '2025-01-01T00:00:00'": ([1], 1),
    "place.spot.x = 7 AND s.a = 1": ([1], 1),
    "place.spot.x = 7 AND s IS NULL": ([5], None),
    "s.a IS NOT DISTINCT FROM 2": ([3], 1),
    "s.a = 9": ([], 0),
    "place.city = 'Rome'": ([1, 3], 5),
}


@pytest.mark.parametrize("where", PRUNED)
def test_conditions_on_fields_prune(database: Database, where: str) -> None:
    expected, scanned = PRUNED[where]
    assert ids(database, where) == expected
    if scanned is not None:
        assert f"partitions: {scanned} / 5" in explained(database, f"SELECT id FROM t WHERE {where}")


@pytest.mark.parametrize("where", ["id = 2", "s.a.n = 2", "s.k = 2 AND s.a.word = 'two'"])
def test_structs_inside_structs_are_read_where_a_condition_holds(database: Database, where: str) -> None:
    # A number and a text, of which Lance reads the one before the condition and the other after it.
    rows = [{"id": n, "s": {"k": n, "a": {"n": n, "word": word}}} for n, word in enumerate(["zero", "one", "two"])]
    inner = pa.struct([("n", pa.int64()), ("word", pa.utf8())])
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("k", pa.int32()), ("a", inner)]))])
    database.run("DROP TABLE IF EXISTS within")
    database.ingest("within", pa.Table.from_pylist(rows, schema=schema), partition_by="bucket(2, id)")
    assert database.rows(f"SELECT s FROM within WHERE {where}") == [(rows[2]["s"],)]
    assert database.rows(f"SELECT s.a, id FROM within WHERE {where}") == [({"n": 2, "word": "two"}, 2)]


def test_the_reason_names_the_field(database: Database) -> None:
    assert "v1 has no partition field over place.city" in explained(
        database, "SELECT id FROM t WHERE place.city = 'Rome'"
    )


def test_joins_and_aggregates_run_by_partitions(database: Database) -> None:
    sql = "SELECT l.id, r.id FROM t l JOIN t r ON l.s.a = r.s.a ORDER BY 1, 2"
    assert database.rows(sql) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]
    assert "identity(s.a)" in explained(database, sql)
    sql = "SELECT s.a, count(*) FROM t GROUP BY s.a ORDER BY 1"
    assert database.rows(sql) == [(1, 2), (2, 1), (None, 2)]
    assert "identity(s.a)" in explained(database, sql)


def test_a_statement_of_create_says_paths(database: Database) -> None:
    database.run(
        'CREATE TABLE made (id BIGINT, s STRUCT<a BIGINT, "b c" STRUCT<d VARCHAR>>) PARTITIONED BY (s.a, s."b c".d AS deep)'
    )
    database.run("INSERT INTO made SELECT 1, named_struct('a', 5, 'b c', named_struct('d', 'x'))")
    assert partitions(database, "made") == {(5, "x"): [1]}
    assert ids(database, "s.\"b c\".d = 'x'", "made") == [1]
    database.run("CREATE TABLE copied PARTITIONED BY (s.a, month(s.ts)) AS SELECT id, s FROM t")
    assert {values[0]: mine for values, mine in partitions(database, "copied").items()} == {
        1: [1, 2],
        2: [3],
        None: [4, 5],
    }
    assert sorted(partitions(database, "copied").values()) == [[1, 2], [3], [4, 5]]
    described = "\n".join(map(str, database.rows("DESCRIBE copied")))
    assert "s_a: identity of s.a" in described
    assert "s_ts_month: month of s.ts" in described


def test_rows_change_partition_and_older_specs_are_rewritten(database: Database) -> None:
    database.ingest("moving", rows(), partition_by="s.a")
    database.run("UPDATE moving SET s = named_struct('a', 7, 'ts', s.ts) WHERE s.a = 2")
    assert partitions(database, "moving") == {(1,): [1, 2], (None,): [4, 5], (7,): [3], (2,): []}
    assert ids(database, "s.a = 7", "moving") == [3]
    database.run("DELETE FROM moving WHERE s.a = 1 AND id = 1")
    assert ids(database, "true", "moving") == [2, 3, 4, 5]
    database.run("ALTER TABLE moving SET PARTITIONED BY (year(s.ts))")
    database.run("INSERT INTO moving SELECT id + 10, s, place, tags FROM t WHERE id = 1")
    assert ids(database, "s.a = 1", "moving") == [2, 11]
    database.rows("ALTER TABLE moving REWRITE PARTITIONS")
    assert ids(database, "s.ts >= TIMESTAMP '2025-01-01T00:00:00'", "moving") == [2, 3]
    assert {
        stored.values["s_ts_year"]: stored.dataset.count_rows() for stored in stored_tables(database.root / "moving")
    } == {2024: 1, 2025: 2, None: 2}
    assert {row[-1] for row in database.rows("VERIFY TABLE moving")} == {None}


def test_names_may_change_and_fields_go(database: Database) -> None:
    database.ingest("evolving", rows(), partition_by=FIELDS)
    database.run("ALTER TABLE evolving RENAME COLUMN s.a TO b")
    database.run("ALTER TABLE evolving RENAME COLUMN s TO u")
    assert ids(database, "u.b = 1", "evolving") == [1, 2]
    assert "partitions: 2 / 5" in explained(database, "SELECT id FROM evolving WHERE u.b = 1")
    database.run(
        "INSERT INTO evolving SELECT id + 10, named_struct('b', s.a, 'ts', s.ts), place, tags FROM t WHERE s.a = 1"
    )
    assert partitions(database, "evolving").keys() == partitions(database).keys()
    assert {row[-1] for row in database.rows("VERIFY TABLE evolving")} == {None}
    assert "u.b" in str(database.rows("SELECT source_columns FROM evolving$specs"))
    database.run("ALTER TABLE evolving DROP COLUMN u.b")
    database.run("INSERT INTO evolving SELECT id + 20, named_struct('ts', s.ts), place, tags FROM t WHERE s.a = 2")
    assert ids(database, "u.ts >= TIMESTAMP '2025-01-01T00:00:00'", "evolving") == [2, 3, 12, 23]
    assert database.value("SELECT count(*) FROM evolving") == 8


def test_wider_fields_keep_their_partitions(database: Database) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32())]))])
    database.ingest(
        "wide", pa.Table.from_pylist([{"id": 1, "s": {"a": 3}}], schema=schema), partition_by="bucket(8, s.a)"
    )
    database.run("ALTER TABLE wide ALTER COLUMN s.a TYPE BIGINT")
    database.run("INSERT INTO wide SELECT 2, named_struct('a', 3)")
    assert list(partitions(database, "wide").values()) == [[1, 2]]
    assert ids(database, "s.a = 3", "wide") == [1, 2]


def test_parts_of_partitions_are_dropped_by_value(database: Database) -> None:
    database.ingest("dropping", rows(), partition_by="s.a, year(s.ts)")
    database.run("ALTER TABLE dropping DROP PARTITION (s_a = 1)")
    assert ids(database, "true", "dropping") == [3, 4, 5]


def test_an_append_says_the_same_fields(database: Database) -> None:
    database.ingest("appended", rows(), partition_by="s.a")
    assert database.ingest("appended", rows(), mode="append", partition_by="s.a") == len(ROWS)
    with pytest.raises(InvalidInput, match=r"partitioned by s\.a AS s_a; got s\.ts AS s_ts"):
        database.ingest("appended", rows(), mode="append", partition_by="s.ts")


def laid_out_by_another(database: Database, table: str, *, misplaced: bool) -> None:
    """A table by s.a as others write it, or as an older release did, which put all rows under NULL."""
    rows = "SELECT 1, named_struct('a', 5), CAST({} AS BIGINT) UNION ALL SELECT 2, named_struct('a', 6), CAST({} AS BIGINT)"
    database.run(f"CREATE TABLE {table} (id BIGINT, s STRUCT<a BIGINT>, n BIGINT) PARTITIONED BY (n)")
    database.run(f"INSERT INTO {table} " + rows.format(*(["NULL"] * 2 if misplaced else ["5", "6"])))
    place = f"{database.root}/{table}/__manifest"
    metadata = lance.dataset(place).metadata
    spec = json.loads(metadata["partition_spec_v1"])
    fields = {field["name"]: field for field in json.loads(metadata["schema"])["fields"]}
    (inside,) = fields["s"]["type"]["fields"]
    spec["fields"][0]["source_ids"] = [int(inside["metadata"]["lance:field_id"])]
    ours = {"lance_flight:derived_values": None} | ({} if misplaced else {"lance_flight:namespace_key": None})
    lance.dataset(place).update_metadata({"partition_spec_v1": json.dumps(spec), **ours})


def test_a_table_of_another_writer_gets_rows_under_their_values(database: Database) -> None:
    laid_out_by_another(database, "by_another", misplaced=False)
    assert ids(database, "s.a = 5", "by_another") == [1]
    assert "partitions: 1 / 2" in explained(database, "SELECT id FROM by_another WHERE s.a = 5")
    database.run("INSERT INTO by_another SELECT id + 10, s, n FROM by_another")
    assert partitions(database, "by_another") == {(5,): [1, 11], (6,): [2, 12]}
    assert {row[-1] for row in database.rows("VERIFY TABLE by_another")} == {None}


def test_rows_that_an_older_release_put_under_null_are_found_and_moved(database: Database) -> None:
    laid_out_by_another(database, "older", misplaced=True)
    assert partitions(database, "older") == {(None,): [1, 2]}
    assert ids(database, "s.a = 5", "older") == [1]
    ((_, count, _, misplaced, problem),) = database.rows("VERIFY TABLE older")
    assert (count, misplaced) == (2, 2)
    assert problem in {f"a row has n = {value}; expected None" for value in (5, 6)}
    database.rows("ALTER TABLE older REWRITE PARTITIONS")
    assert partitions(database, "older") == {(None,): [], (5,): [1], (6,): [2]}
    assert {row[-1] for row in database.rows("VERIFY TABLE older")} == {None}
    assert "partitions: 1 / 3" in explained(database, "SELECT id FROM older WHERE s.a = 5")
    assert ids(database, "s.a = 5", "older") == [1]
