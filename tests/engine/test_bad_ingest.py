"""Ingests that must be refused: each wrong column named, and nothing stored."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.service.server_process import files

COLUMNS = "id BIGINT NOT NULL, part INT, price DECIMAL(6, 2), name VARCHAR, d DATE, ratio REAL, n SMALLINT UNSIGNED"
LAYOUTS = {
    "plain": "",
    "by value": " PARTITIONED BY (part)",
    "by bucket": " PARTITIONED BY (bucket(4, id), year(d))",
}


@pytest.fixture(scope="module", params=LAYOUTS)
def target(request: pytest.FixtureRequest, database: Database) -> str:
    """A table of each layout that all tests try to spoil."""
    table = f"by_{list(LAYOUTS).index(request.param)}"
    database.run(f"CREATE TABLE {table} ({COLUMNS}){LAYOUTS[request.param]}")
    database.run(f"INSERT INTO {table} (id, part) VALUES (1, 1)")
    return table


def rows(**columns: Any) -> pa.Table:
    """Three rows with an id and these columns beside it."""
    return pa.table({"id": [10, 11, 12], **columns})


UNFIT = [
    pytest.param(rows(extra=[1, 2, 3]), ["invalid_schema", "'extra' is not in the table"], id="an extra column"),
    pytest.param(
        pa.table({"part": [1], "x": [1], "name": [5], "d": ["2020-01-01"]}),
        ["invalid_schema", "'id' (int64 NOT NULL) is missing", "'x'", "'name' is int64", "'d' is string", "date32"],
        id="every problem at once",
    ),
    pytest.param(pa.table({"part": [1]}), ["invalid_schema", "'id'", "NOT NULL", "missing"], id="no NOT NULL column"),
    pytest.param(
        pa.table([pa.array([1]), pa.array([2])], names=["id", "id"]),
        ["invalid_schema", "'id' stands 2 times"],
        id="twice",
    ),
    pytest.param(rows(part=["1", "2", "3"]), ["invalid_schema", "'part' is string", "int32"], id="text for a number"),
    pytest.param(rows(name=[1, 2, 3]), ["invalid_schema", "'name' is int64", "string"], id="a number for text"),
    pytest.param(rows(part=[[1], [2], [3]]), ["invalid_schema", "'part' is list"], id="a list for a number"),
    pytest.param(
        rows(d=pa.array([b"a", b"b", b"c"])),
        ["invalid_schema", "'d' is binary", "date32"],
        id="binary for a date",
    ),
    pytest.param(
        pa.table({"id": [10, None, 12]}),
        ["invalid_data", "'id' is NOT NULL and has NULL in row 2 of a batch of 3"],
        id="NULL in a NOT NULL column",
    ),
    pytest.param(
        pa.concat_tables([pa.table({"id": [10, 11]}), pa.table({"id": pa.array([None], pa.int64())})]),
        ["invalid_data", "row 1 of a batch of 1"],
        id="NULL in a later batch",
    ),
    pytest.param(
        rows(part=[1, 2**40, 3]), ["invalid_data", "'part'", "int32", str(2**40)], id="an integer out of range"
    ),
    pytest.param(rows(part=[1.0, 2.5, 3.0]), ["invalid_data", "'part'", "int32", "2.5"], id="a fraction"),
    pytest.param(rows(part=[1.0, float("nan"), 3.0]), ["invalid_data", "'part'", "nan"], id="not a number"),
    pytest.param(rows(n=[1, -2, 3]), ["invalid_data", "'n'", "uint16", "-2"], id="a negative for an unsigned"),
    pytest.param(
        rows(price=[Decimal("1.00"), Decimal("1.005"), None]),
        ["invalid_data", "'price'", "decimal128(6, 2)"],
        id="a digit more",
    ),
    pytest.param(rows(price=[1.0, 1.005, 2.0]), ["invalid_data", "'price'", "1.005"], id="a double that no decimal is"),
    pytest.param(rows(price=[1, 100_000, 2]), ["invalid_data", "'price'", "decimal128(6, 2)"], id="too many digits"),
    pytest.param(
        rows(ratio=[0.5, 0.1, 1.0]), ["invalid_data", "'ratio'", "0.1", "float"], id="a double that no float is"
    ),
    pytest.param(rows(ratio=[0.5, 1e300, 1.0]), ["invalid_data", "'ratio'", "1e+300"], id="a double out of range"),
    pytest.param(
        rows(d=[dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 10), None]),
        ["invalid_data", "'d'", "date32", "2020"],
        id="a time of day in a date",
    ),
    pytest.param(
        rows(name=pa.array([b"\xff", b"a", b"b"])), ["invalid_", "'name'", "binary"], id="bytes that are no text"
    ),
]


@pytest.mark.parametrize(("data", "says"), UNFIT)
def test_rows_that_do_not_fit_are_refused_by_column_and_nothing_is_stored(
    database: Database, target: str, data: pa.Table, says: list[str]
) -> None:
    before = files(database.root)
    message = database.refuses_ingest(target, data, "append")
    assert [part for part in says if part not in message] == []
    assert files(database.root) == before
    assert database.rows(f"SELECT id FROM {target}") == [(1,)]


def test_one_bad_value_late_in_a_stream_undoes_all_of_it(database: Database, target: str) -> None:
    before = files(database.root)
    batches = [pa.record_batch({"id": [n], "part": pa.array([n % 7], pa.int64())}) for n in range(2000)]
    batches.append(pa.record_batch({"id": [1], "part": pa.array([2**40], pa.int64())}))
    late = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert "'part'" in database.refuses_ingest(target, late, "append")
    assert files(database.root) == before
    assert database.value(f"SELECT count(*) FROM {target}") == 1


def test_a_replacement_that_fails_leaves_the_old_table(database: Database, target: str) -> None:
    before = files(database.root)
    for partition_by in (None, "id", "nonsense(id)", "missing"):
        spoilt = pa.table({"id": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
        database.refuses_ingest(target, spoilt, "replace", partition_by=partition_by)
    assert files(database.root) == before
    assert database.rows(f"SELECT id FROM {target}") == [(1,)]


SPECS = [
    pytest.param("part,", ["invalid_sql"], id="a comma too many"),
    pytest.param("week(part)", ["invalid_sql", "'week'", "bucket"], id="an unknown transform"),
    pytest.param("part) AS SELECT 1 --", ["invalid_sql"], id="more than fields"),
    pytest.param(
        "nope, year(part), bucket(0, id)", ["invalid_spec", "'nope'", "'part_year'", "'id_bucket'"], id="all wrong"
    ),
    pytest.param("expr('now()', id)", ["invalid_spec", "now"], id="an expression that is not stable"),
    pytest.param("tags", ["invalid_spec", "'tags'", "list"], id="a list"),
]


@pytest.mark.parametrize(("partition_by", "says"), SPECS)
def test_a_partitioning_that_cannot_be_is_refused(
    database: Database, table: str, partition_by: str, says: list[str]
) -> None:
    before = files(database.root)
    data = pa.table({"id": [1], "part": [1], "tags": [[1]]})
    message = database.refuses_ingest(table, data, partition_by=partition_by)
    assert [part for part in says if part not in message] == []
    assert files(database.root) == before


APPENDED = "part, bucket(4, id) AS b, year(d), expr('upper(col0)', name) AS up"
THE_SAME = [
    pytest.param(APPENDED, id="the same"),
    pytest.param(APPENDED.replace(" AS b", "").replace(" AS up", ""), id="the same without names"),
    pytest.param(
        "identity(part) AS part, BUCKET(4, ID), year(d) AS d_year, expr($$upper(col0)$$, name)", id="otherwise said"
    ),
    pytest.param(None, id="nothing"),
]
OTHERS = [
    pytest.param("part", "got part AS part", id="fewer"),
    pytest.param(APPENDED.replace("bucket(4", "bucket(8"), "bucket(8, id) AS b", id="another number"),
    pytest.param(APPENDED.replace("year", "month"), "month(d) AS d_month", id="another transform"),
    pytest.param(APPENDED.replace("upper", "lower"), "expr('lower(col0)', name) AS up", id="another expression"),
    pytest.param(APPENDED.replace(" AS b", " AS c"), "bucket(4, id) AS c", id="another field id"),
    pytest.param("year(d), " + APPENDED.replace("year(d), ", ""), "got year(d) AS d_year, part", id="another order"),
]


@pytest.mark.parametrize("mode", ["append", "create_append"])
@pytest.mark.parametrize("partition_by", THE_SAME)
def test_an_append_may_repeat_the_partitioning(
    database: Database, table: str, partition_by: str | None, mode: str
) -> None:
    database.run(f"CREATE TABLE {table} ({COLUMNS}) PARTITIONED BY ({APPENDED})")
    assert database.ingest(table, rows(), mode, partition_by=partition_by) == 3
    assert database.value(f"SELECT count(*) FROM {table}") == 3


@pytest.mark.parametrize("mode", ["append", "create_append"])
@pytest.mark.parametrize(("partition_by", "says"), OTHERS)
def test_an_append_may_not_ask_for_another_partitioning(
    database: Database, table: str, partition_by: str, says: str, mode: str
) -> None:
    database.run(f"CREATE TABLE {table} ({COLUMNS}) PARTITIONED BY ({APPENDED})")
    before = files(database.root)
    message = database.refuses_ingest(table, rows(), mode, partition_by=partition_by)
    has = "partitioned by part AS part, bucket(4, id) AS b, year(d) AS d_year, expr('upper(col0)', name) AS up"
    assert [part for part in ("[invalid_spec]", repr(table), has, says) if part not in message] == []
    assert files(database.root) == before


def test_an_append_to_a_plain_table_may_not_partition_it(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT)")
    assert "not partitioned" in database.refuses_ingest(table, rows(), "append", partition_by="id")
    assert database.value(f"SELECT count(*) FROM {table}") == 0


UNSTORABLE = [
    pytest.param(pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "month_day_nano_interval", id="interval"),
    pytest.param(pa.array([[(1, 2, 3)]], pa.list_(pa.month_day_nano_interval())), "list", id="list of intervals"),
]


@pytest.mark.parametrize(("column", "says"), UNSTORABLE)
@pytest.mark.parametrize("partition_by", [None, "id"])
def test_a_type_that_cannot_be_stored_is_named(
    database: Database, table: str, partition_by: str | None, column: pa.Array, says: str
) -> None:
    before = files(database.root)
    message = database.refuses_ingest(table, pa.table({"id": [1], "c": column}), partition_by=partition_by)
    assert [part for part in ("invalid_schema", "'c'", says) if part not in message] == []
    assert files(database.root) == before
