"""Prepared statements: parameters of every type in queries and updates, many rows at once, and rows of an INSERT that are taken as they are."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import QueryPlan
from lance_flight.engine.translation.parameters import row_of_parameters
from lance_flight.errors import LanceFlightError
from lance_flight.flight.actions import fit_values

from tests.engine.database import Database, Parameters, bound, bound_rows
from tests.stock import manifest, stored_by_value, stored_rows


class Prepared(Database):
    """A database whose values are cast to the types of the parameters that they are bound to, as the server does."""

    def plan(self, sql: str, parameters: Parameters = None) -> QueryPlan | int:
        return super().plan(sql, self._fitting(sql, parameters))

    def run(self, sql: str, parameters: Parameters = None) -> int:
        return super().run(sql, self._fitting(sql, parameters))

    def _fitting(self, sql: str, parameters: Parameters) -> pa.RecordBatch | None:
        values = bound(parameters)
        return values and fit_values(values, self.engine.describe(sql).parameters)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return Prepared(tmp_path_factory.mktemp("parameters") / "root")


VALUES = [
    pytest.param("BOOLEAN", True, id="boolean"),
    pytest.param("TINYINT", -128, id="tinyint"),
    pytest.param("BIGINT", -(2**63), id="bigint"),
    pytest.param("BIGINT UNSIGNED", 2**63 - 1, id="unsigned bigint"),
    pytest.param("REAL", 1.5, id="real"),
    pytest.param("DOUBLE", 0.1, id="double"),
    pytest.param("DOUBLE", math.inf, id="infinity"),
    pytest.param("DECIMAL(10, 2)", Decimal("-12.34"), id="decimal"),
    pytest.param("VARCHAR", 'it\'s "é" 日本 $1 ? --', id="text"),
    pytest.param("VARCHAR", "", id="empty text"),
    pytest.param("BYTEA", b"\x00\xff'", id="binary"),
    pytest.param("DATE", dt.date(1969, 12, 31), id="date"),
    pytest.param("TIMESTAMP", dt.datetime(1969, 12, 31, 23, 59, 59, 1), id="timestamp"),
    pytest.param("TIMESTAMP(9)", dt.datetime(2020, 1, 1), id="timestamp of nanoseconds"),
    pytest.param("TIMESTAMPTZ", dt.datetime(2020, 1, 1, tzinfo=dt.UTC), id="timestamp with a zone"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "value"), VALUES)
@pytest.mark.parametrize("partitioned", ["c", "part"], ids=["as partition value", "as plain column"])
def test_a_parameter_stores_and_finds_a_value(
    database: Database, table: str, partitioned: str, kind: str, value: Any
) -> None:
    database.run(f"CREATE TABLE {table} (c {kind}, part INT) PARTITIONED BY ({partitioned})")
    assert database.run(f"INSERT INTO {table} VALUES (?, ?)", (value, 1)) == 1
    assert database.run(f"INSERT INTO {table} VALUES (?, ?)", (None, 2)) == 1
    assert sorted(stored_rows(database.root / table)["c"].to_pylist(), key=lambda v: v is None) == [value, None]
    assert database.rows(f"SELECT c FROM {table} WHERE c = ?", (value,)) == [(value,)]
    assert database.rows(f"SELECT part FROM {table} WHERE c IN ($1) OR part = $2", (value, 3)) == [(1,)]
    assert database.rows(f"SELECT part FROM {table} WHERE c = ?", (None,)) == []


QUERIES = [
    pytest.param("SELECT id FROM {t} WHERE id = ?", (2,), [(2,)], id="question mark"),
    pytest.param("SELECT id FROM {t} WHERE id = $1", (2,), [(2,)], id="dollar"),
    pytest.param("SELECT id FROM {t} WHERE id > ? AND id < ?", (1, 3), [(2,)], id="question marks in order"),
    pytest.param("SELECT id FROM {t} WHERE id < $2 AND id > $1", (1, 3), [(2,)], id="dollars by number"),
    pytest.param("SELECT id FROM {t} WHERE id = $1 OR id + 1 = $1", (2,), [(1,), (2,)], id="one parameter twice"),
    pytest.param("SELECT id FROM {t} WHERE name LIKE ?", ("a%",), [(1,), (3,)], id="like"),
    pytest.param("SELECT id FROM {t} WHERE id BETWEEN ? AND ?", (2, 9), [(2,), (3,)], id="between"),
    pytest.param("SELECT id FROM {t} WHERE id IN (?, ?)", (1, 3), [(1,), (3,)], id="in"),
    pytest.param("SELECT id FROM {t} ORDER BY id LIMIT ?", (1,), [(1,)], id="limit"),
    pytest.param("SELECT id + ? FROM {t} WHERE id = 1", (10,), [(11,)], id="arithmetic"),
    pytest.param(
        "SELECT TIMESTAMP '2024-01-01' + ?, DATE '2024-01-01' + ?, id - ? FROM {t} WHERE id = 1",
        (dt.timedelta(days=1, hours=2), 3, 5),
        [(dt.datetime(2024, 1, 2, 2), dt.date(2024, 1, 4), -4)],
        id="beside operators",
    ),
    pytest.param(
        "SELECT id FROM {t} WHERE now() - ? < now() AND DATE '2024-01-05' - ? = 4 AND id = 2",
        (dt.timedelta(days=1), dt.date(2024, 1, 1)),
        [(2,)],
        id="spans of time",
    ),
    pytest.param(
        "SELECT id FROM {t} WHERE TIMESTAMP '2024-01-01' > ? - INTERVAL '1 day' AND id = 3",
        (dt.datetime(2024, 1, 1),),
        [(3,)],
        id="a moment before an operator",
    ),
    pytest.param(
        "SELECT -id AS id FROM {t} WHERE id > ? ORDER BY id * ? LIMIT ?", (1, -1, 1), [(-3,)], id="in a hidden key"
    ),
    pytest.param("SELECT ? || ?, count(*) FROM {t}", ("a", "b"), [("ab", 3)], id="two texts"),
    pytest.param("SELECT ? AS x, ? AS y", (7, "x"), [(7, "x")], id="without a table"),
    pytest.param("SELECT '?' AS x, id FROM {t} WHERE name = '$1' OR id = ?", (1,), [("?", 1)], id="marks in text"),
    pytest.param("SELECT count(*) FROM {t} WHERE murmur3(id) = murmur3(?)", (2,), [(1,)], id="inside a hash"),
]


@pytest.fixture(scope="module")
def people(database: Database) -> str:
    database.run("CREATE TABLE people (id BIGINT, name VARCHAR) PARTITIONED BY (bucket(4, id))")
    database.run("INSERT INTO people VALUES (1, 'ann'), (2, 'bob'), (3, 'ada')")
    return "people"


@pytest.mark.parametrize(("sql", "parameters", "expected"), QUERIES)
def test_parameters_stand_wherever_a_value_may(
    database: Database, people: str, sql: str, parameters: tuple[Any, ...], expected: list[tuple[Any, ...]]
) -> None:
    assert sorted(database.rows(sql.format(t=people), parameters)) == expected


def test_a_parameter_prunes_like_a_literal(database: Database, people: str) -> None:
    plan = database.rows(f"EXPLAIN SELECT * FROM {people} WHERE id = ?", (2,))
    assert [text.splitlines()[0][:17] for kind, text in plan if kind == "partitions"] == ["partitions: 1 / 2"]


def test_many_rows_of_parameters_are_one_commit(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, name VARCHAR) PARTITIONED BY (name)")
    version = manifest(database.root / table).version
    many = bound_rows([(n, f"p{n % 3}") for n in range(30)])
    assert database.run(f"INSERT INTO {table} VALUES (?, ?)", many) == 30
    assert manifest(database.root / table).version == version + 1
    assert stored_by_value(database.root / table, "id") == {
        f"p{part}": [{"id": n} for n in range(part, 30, 3)] for part in range(3)
    }


def test_many_rows_are_stored_all_or_not_at_all(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT NOT NULL) PARTITIONED BY (id)")
    many = bound_rows([(1,), (2,), (None,), (4,)])
    assert "NOT NULL" in database.refuses(f"INSERT INTO {table} VALUES (?)", many)
    assert database.value(f"SELECT count(*) FROM {table}") == 0
    assert stored_by_value(database.root / table) == {}


OUT_OF_PLACE = {
    "SELECT * FROM range(?)": "range and generate_series take literals in FROM; write (SELECT unnest(range(?)) AS n)",
    "SELECT unnest(?)": "unnest takes a list, and a parameter has no type of its own; write unnest(CAST(? AS BIGINT[]))",
    "SELECT now() AT TIME ZONE ?": "a parameter cannot stand there",
}


@pytest.mark.parametrize("sql", OUT_OF_PLACE)
def test_a_parameter_that_cannot_be_there_is_refused_with_what_to_write(database: Database, sql: str) -> None:
    with pytest.raises(LanceFlightError, match=re.escape(OUT_OF_PLACE[sql])):
        database.engine.describe(sql)


DESCRIBED = [
    ("SELECT id FROM people WHERE TIMESTAMP '2024-01-01' > now() - ?", [pa.month_day_nano_interval()]),
    pytest.param("SELECT * FROM people WHERE id = ?", [pa.int64()], id="compared with a column"),
    pytest.param("SELECT * FROM people WHERE name = $1 AND id > $2", [pa.utf8(), pa.int64()], id="two of them"),
    pytest.param("INSERT INTO people VALUES (?, ?)", [pa.int64(), pa.utf8()], id="values of an insert"),
    pytest.param("INSERT INTO people (name, id) VALUES (?, ?)", [pa.utf8(), pa.int64()], id="listed columns"),
    pytest.param("SELECT CAST(? AS BIGINT)", [pa.int64()], id="cast"),
    pytest.param("SELECT ?::DECIMAL(9, 2)", [pa.decimal128(9, 2)], id="double colon"),
    pytest.param("SELECT * FROM people LIMIT ? OFFSET ?", [pa.int64()] * 2, id="limit and offset"),
    pytest.param("SELECT coalesce(id, ?) FROM people", [pa.int64()], id="coalesce"),
    pytest.param("SELECT CASE WHEN id = ? THEN ? ELSE 0.5 END FROM people", [pa.int64(), pa.float64()], id="case"),
    pytest.param("SELECT substr(name, ?, ?) FROM people", [pa.int64()] * 2, id="arguments of a function"),
    pytest.param("SELECT id FROM people WHERE id BETWEEN ? AND ?", [pa.int64()] * 2, id="between"),
    pytest.param("SELECT id FROM people WHERE name LIKE ?", [pa.utf8()], id="like"),
    pytest.param("SELECT id FROM people WHERE id = -?", [pa.int64()], id="negative"),
    pytest.param("SELECT id FROM people WHERE ?", [pa.bool_()], id="condition"),
    pytest.param("SELECT id FROM people UNION ALL SELECT ?", [pa.int64()], id="union"),
    pytest.param("SELECT id FROM people GROUP BY id HAVING count(*) > ?", [pa.int64()], id="having"),
    pytest.param("SELECT id FROM people ORDER BY coalesce(id, ?)", [pa.int64()], id="order by"),
    pytest.param("SELECT sum(id) OVER (ORDER BY coalesce(name, ?)) FROM people", [pa.utf8()], id="order of a window"),
    ("SELECT p.id FROM people p JOIN people q ON p.id = coalesce(q.id, ?)", [pa.int64()]),
    ("SELECT id FROM people WHERE now() > ? - INTERVAL '1 day'", [pa.timestamp("us")]),
    pytest.param("SELECT ?, ? IS NULL", [pa.null()] * 2, id="nothing wanted"),
    pytest.param("SELECT TRY_CAST(? AS INT)", [pa.null()], id="a cast that may fail"),
    ("SELECT id FROM people WHERE id > (SELECT max(id) FROM people WHERE id < ?)", [pa.int64()]),
    ("SELECT id FROM people WHERE id = $1 AND CAST(id AS INT) = $1", [pa.int64()]),
    ("SELECT repeat(name, ?), lpad(name, ?) FROM people", [pa.null(), pa.int64()]),
    pytest.param("EXPLAIN SELECT * FROM people WHERE id = ?", [pa.int64()], id="explain"),
    pytest.param("SHOW PARTITIONS people WHERE rows > ?", [pa.int64()], id="show partitions"),
    pytest.param(
        "INSERT INTO people VALUES (?, 'a'), (1, ?), (1.5, 'b'), (?, 'c'), (4, 'd'), (5, ?), (-?, upper(?))",
        [pa.int64(), pa.utf8(), pa.int64(), pa.utf8(), pa.int64(), pa.string_view()],
        id="values beside literals of other types",
    ),
    pytest.param(
        "MERGE INTO people p USING (SELECT ? AS id, ? AS n) s ON p.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = s.n WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.n)",
        [pa.int64(), pa.utf8()],
        id="source of a merge",
    ),
    pytest.param("INSERT INTO people VALUES (?, NULL), (7, ?)", [pa.int64(), pa.utf8()], id="some values of an insert"),
    pytest.param("INSERT INTO people SELECT ?, name FROM people", [pa.int64()], id="insert of a query"),
    pytest.param("UPDATE people SET id = ? WHERE name = ?", [pa.int64(), pa.utf8()], id="update"),
    ("UPDATE people SET id = CASE WHEN name = ? THEN ? END", [pa.utf8(), pa.int64()]),
    pytest.param("DELETE FROM people WHERE id IN (?, ?)", [pa.int64()] * 2, id="delete"),
    pytest.param(
        "MERGE INTO people p USING (VALUES (?, ?)) AS s (k, n) ON p.id = s.k AND s.k > CAST(? AS INT)"
        " WHEN MATCHED THEN UPDATE SET name = ? WHEN NOT MATCHED THEN INSERT (id, name) VALUES (?, s.n)",
        [pa.int64(), pa.utf8(), pa.int32(), pa.utf8(), pa.int64()],
        id="merge",
    ),
    pytest.param("CREATE TABLE made AS SELECT id + ? AS x FROM people", [pa.int64()], id="create table as"),
    pytest.param("SELECT 1", [], id="none"),
]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(("sql", "kinds"), DESCRIBED)
def test_preparing_says_the_types_of_the_parameters(database: Database, sql: str, kinds: list[pa.DataType]) -> None:
    assert database.engine.describe(sql).parameters.types == kinds


MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3)
CAST_WHEN_BOUND = [
    pytest.param("SELECT CAST(? AS BIGINT)", "7", 7, id="text of a number"),
    pytest.param("SELECT arrow_typeof(coalesce(id, ?)) FROM people LIMIT 1", 7.0, "Int64", id="whole double"),
    pytest.param("SELECT count(*) FROM people WHERE id > ?", 1.5, 2, id="fraction, compared as it is"),
    pytest.param("SELECT count(*) FROM people WHERE id < ?", Decimal("2.5"), 2, id="decimal, compared as it is"),
    pytest.param("SELECT count(*) FROM people WHERE CAST(id AS INT) < ?", 2**40, 3, id="number beyond the type"),
    pytest.param("SELECT CAST(? AS DECIMAL(9, 2))", 12.5, Decimal("12.50"), id="double for a decimal"),
    pytest.param("SELECT CAST(? AS DATE)", "2024-02-29", MOMENT.date(), id="text of a date"),
    pytest.param("SELECT CAST(? AS DATE)", dt.datetime(2024, 2, 29), MOMENT.date(), id="midnight for a date"),
    pytest.param("SELECT CAST(? AS TIMESTAMP)", "2024-02-29 01:02:03", MOMENT, id="text of a time"),
    pytest.param("SELECT CAST(? AS TIMESTAMP)", "2024-02-29T01:02:03+01:00", MOMENT, id="text of a time with a zone"),
    pytest.param("SELECT CAST(? AS TIMESTAMP)", MOMENT.date(), dt.datetime(2024, 2, 29), id="date for a timestamp"),
    pytest.param("SELECT CAST(? AS BOOLEAN)", "true", True, id="text of a boolean"),
    pytest.param("SELECT TRY_CAST(? AS INT)", "seven", None, id="cast that may fail"),
    pytest.param("SELECT count(*) FROM people WHERE name <> ?", 7, 3, id="number for a text"),
    pytest.param("SELECT count(*) FROM people WHERE (id = 1) = ?", 1, 1, id="one for a boolean"),
    pytest.param("SELECT count(*) FROM people WHERE id = ?", True, 1, id="boolean for a number"),
    pytest.param("SELECT arrow_typeof(?)", 7, "Int64", id="nothing wanted, a number"),
    pytest.param("SELECT arrow_typeof(?)", "7", "Utf8", id="nothing wanted, a text"),
]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(("sql", "value", "expected"), CAST_WHEN_BOUND)
def test_a_bound_value_is_cast_where_it_stays_the_same(database: Database, sql: str, value: Any, expected: Any) -> None:
    assert database.value(sql, (value,)) == expected


def test_the_refusal_names_the_wrong_row_of_many(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, d DATE)")
    rows = pa.record_batch({"a": ["1", "2", "three"], "b": ["2024-02-29", None, "2024-03-01"]})
    assert "parameter $1 is 'three' (VARCHAR); expected INTEGER" in database.refuses(
        f"INSERT INTO {table} VALUES (?, ?)", rows
    )
    assert database.run(f"INSERT INTO {table} VALUES (?, ?)", rows.slice(0, 2)) == 2
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == [(1, MOMENT.date()), (2, None)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {t}_new (id INT)",
        "DROP TABLE {t}",
        "INSERT INTO {t} VALUES (1)",
        "CREATE TABLE {t}_new AS SELECT 1 AS x",
        "UPDATE {t} SET id = 2",
        "DELETE FROM {t}",
        "MERGE INTO {t} USING (SELECT 1 AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
        "INSERT OVERWRITE {t} VALUES (2)",
        "TRUNCATE {t}",
    ],
)
def test_preparing_runs_nothing(database: Database, table: str, statement: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    assert database.engine.describe(statement.format(t=table)).schema is None
    assert database.rows(f"SELECT id FROM {table}") == [(1,)]
    assert "not_found" in database.refuses(f"SELECT * FROM {table}_new")


def test_values_of_exact_arrow_types_come_in_a_batch(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (u BIGINT UNSIGNED, t TIME, ts TIMESTAMP(9)) PARTITIONED BY (u)")
    columns = {
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "t": pa.array([1, None], pa.time64("us")),
        "ts": pa.array([1, None], pa.timestamp("ns")),
    }
    database.run(f"INSERT INTO {table} VALUES ($1, $2, $3)", pa.record_batch(columns))
    stored = stored_rows(database.root / table).sort_by([("u", "descending")])
    assert stored["ts"].cast(pa.int64()).to_pylist() == [1, None]
    assert stored["t"].cast(pa.int64()).to_pylist() == [1000, None]
    found = database.rows(
        f"SELECT u FROM {table} WHERE u = ?", pa.record_batch({"u": pa.array([2**64 - 1], pa.uint64())})
    )
    assert found == [(2**64 - 1,)]


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_any_unit_compare(database: Database, table: str, kind: pa.DataType) -> None:
    times = [dt.time(1, 2, 3), dt.time(4, 5, 6)]
    database.ingest(table, pa.table({"t": pa.array(times, kind)}))
    for unit in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        bound = pa.record_batch({"p": pa.array(times[1:], unit)})
        assert database.rows(f"SELECT t FROM {table} WHERE t >= ?", bound) == [(times[1],)]
        assert database.rows(f"SELECT t FROM {table} WHERE ? > t", bound) == [(times[0],)]


BY_ROWS = {
    "a filter": ("SELECT name FROM people WHERE id = ?", [2, 7, 1], 2),
    "a row again": ("SELECT name FROM people WHERE id = ?", [1, 1, 1], 3),
    "an aggregate": ("SELECT count(*) FROM people WHERE id <= $1", [1, 2, 3], 3),
    "no table": ("SELECT $1 + 1", [5, 6], 2),
}


@pytest.mark.parametrize(("sql", "values", "rows"), BY_ROWS.values(), ids=BY_ROWS.keys())
@pytest.mark.usefixtures("people")
def test_a_query_answers_each_row_of_parameters_in_turn(
    database: Database, sql: str, values: list[int], rows: int
) -> None:
    together = database.rows(sql, pa.record_batch({"p": values}))
    one_by_one = [row for value in values for row in database.rows(sql, pa.record_batch({"p": [value]}))]
    assert together == one_by_one
    assert len(together) == rows


@pytest.mark.usefixtures("people")
def test_the_keys_of_one_row_prune_nothing_of_another(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, room VARCHAR) PARTITIONED BY (id)")
    database.run(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 'room {n}')" for n in range(1, 30)))
    sql = f"SELECT r.room FROM {table} r JOIN people p ON r.id = p.id WHERE p.name = $1"
    assert "dynamic pruning" in str(database.rows(f"EXPLAIN {sql}", ("ann",)))
    found = database.rows(sql, pa.record_batch({"p": ["ann", "bob", "ada"]}))
    assert found == [("room 1",), ("room 2",), ("room 3",)]


WRONG = [
    pytest.param("SELECT CAST(? AS BIGINT)", ("x",), "$1 is 'x' (VARCHAR); expected BIGINT", id="text for a number"),
    pytest.param(
        "SELECT id FROM people WHERE id = ?", ("1.5",), "$1 is '1.5' (VARCHAR); expected BIGINT", id="fraction"
    ),
    ("SELECT id FROM people LIMIT ?", ("all",), "$1 is 'all' (VARCHAR); expected BIGINT"),
    pytest.param("UPDATE people SET id = ?", ("x",), "$1 is 'x' (VARCHAR); expected BIGINT", id="text that is stored"),
    ("SELECT CAST(? AS DATE)", ("soon",), "$1 is 'soon' (VARCHAR); expected DATE"),
    ("SELECT now() > CAST(? AS TIMESTAMP)", (5,), "$1 is 5 (BIGINT); expected TIMESTAMP(6)"),
    pytest.param("SELECT id FROM people WHERE id = ?", (MOMENT,), "expected BIGINT", id="time for a number"),
    ("SELECT id FROM people WHERE (id = 1) = ?", (7,), "$1 is 7 (BIGINT); expected BOOLEAN"),
    pytest.param("SELECT CAST(? AS DATE)", (True,), "$1 is True (BOOLEAN); expected DATE", id="boolean for a date"),
    pytest.param("SELECT CAST(? AS BIGINT)", ("9" * 500,), f"'{'9' * 79}… (VARCHAR)", id="a long text"),
    pytest.param("SELECT * FROM people WHERE id = ?", None, "1 parameters, and 0 values", id="none for one"),
    ("SELECT * FROM people WHERE id = ? AND name = ?", (1,), "2 parameters, and 1 values"),
    pytest.param("SELECT * FROM people", (1,), "0 parameters, and 1 values", id="one for none"),
    pytest.param("INSERT INTO people VALUES (?, ?)", (1,), "2 parameters, and 1 values", id="one for two in an insert"),
    pytest.param("INSERT INTO people VALUES (?, ?)", None, "2 parameters, and 0 values", id="none for an insert"),
    pytest.param("INSERT INTO people VALUES (?, 'x')", ("y",), "'y'", id="a value that does not fit"),
    pytest.param(
        "EXPLAIN SELECT * FROM people WHERE id = ?",
        pa.record_batch({"p": [1, 2]}),
        "Explain takes one row of parameters, got 2",
        id="two rows for what is no query",
    ),
]


@pytest.mark.parametrize(("sql", "parameters", "says"), WRONG)
@pytest.mark.usefixtures("people")
def test_values_that_do_not_match_the_parameters_are_refused(
    database: Database, sql: str, parameters: Any, says: str
) -> None:
    message = database.refuses(sql, parameters)
    assert "[invalid_" in message
    assert says in message
    assert database.rows("SELECT count(*), sum(id) FROM people") == [(3, 6)]


COLUMNS = ("BOOLEAN", "TINYINT", "BIGINT", "REAL", "DOUBLE", "DECIMAL(9, 2)", "VARCHAR", "BYTEA", "DATE", "TIMESTAMP")
BOUND = [
    pytest.param(pa.array([True, None]), id="bool"),
    pytest.param(pa.array([7, None], pa.int8()), id="int8"),
    pytest.param(pa.array([300, -1], pa.int64()), id="int64"),
    pytest.param(pa.array([2**64 - 1], pa.uint64()), id="uint64"),
    pytest.param(pa.array([1.5, -2.5, None], pa.float64()), id="float64"),
    pytest.param(pa.array([float("nan"), float("inf")], pa.float32()), id="float32"),
    pytest.param(pa.array([Decimal("12.345"), None], pa.decimal128(5, 3)), id="decimal128"),
    pytest.param(pa.array([Decimal("1.5")], pa.decimal32(3, 1)), id="decimal32"),
    pytest.param(pa.array(["7", None]), id="text of a number"),
    pytest.param(pa.array(["x"], pa.large_utf8()), id="large text"),
    pytest.param(pa.array(["2024-02-29"], pa.string_view()), id="text of a date, as a view"),
    pytest.param(pa.array(["true", "true"]).dictionary_encode(), id="dictionary"),
    pytest.param(pa.array([b"\x00\xff", None]), id="binary"),
    pytest.param(pa.array([b"7"], pa.binary_view()), id="binary view"),
    pytest.param(pa.array([dt.date(2024, 2, 29)]), id="date32"),
    pytest.param(pa.array([dt.date(2024, 2, 29)], pa.date64()), id="date64"),
    pytest.param(pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4000)], pa.timestamp("ms")), id="timestamp"),
    pytest.param(pa.array([dt.datetime(2024, 2, 29, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")), id="zoned timestamp"),
    pytest.param(pa.array([dt.time(1, 2)], pa.time32("s")), id="time"),
    pytest.param(pa.array([None, None], pa.null()), id="null"),
    pytest.param(pa.array([[1, 2], None]), id="list"),
]


@pytest.mark.slow  # every value in every column
@pytest.mark.parametrize("values", BOUND)
@pytest.mark.parametrize("kind", COLUMNS)
def test_bound_rows_are_stored_as_those_of_a_query(engine: Engine, kind: str, values: pa.Array) -> None:
    rows = pa.record_batch({"v": values})
    assert stored_by(engine, kind, "VALUES (?)", rows) == stored_by(engine, kind, "SELECT ?", rows)


def stored_by(engine: Engine, kind: str, source: str, rows: pa.RecordBatch) -> list[object] | str:
    """What an INSERT stores in a column of a type, as text; the class of its error where it is refused."""
    engine.update(f"CREATE TABLE t (v {kind})")
    try:
        engine.update(f"INSERT INTO t {source}", rows)
    except LanceFlightError as exc:
        return type(exc).__name__
    else:
        return [str(value) for value in engine.query("SELECT v FROM t").column(0).to_pylist()]
    finally:
        engine.update("DROP TABLE t")


VALUES_OF_ROWS = [
    pytest.param("VALUES (?, ?)", [0, 1], id="question marks"),
    pytest.param("values ( $2 , $1 ) ;", [1, 0], id="numbers"),
    pytest.param("VALUES ($1, $1)", [0, 0], id="one twice"),
    pytest.param("/* a */ VALUES (?)", None, id="a comment"),
    pytest.param("VALUES (?), (?)", None, id="two rows"),
    pytest.param("VALUES (?, 1)", None, id="a literal"),
    pytest.param("VALUES (? + 1)", None, id="arithmetic"),
    pytest.param("VALUES (-?)", None, id="a sign"),
    pytest.param("VALUES ((?))", None, id="brackets"),
    pytest.param("VALUES (?) ORDER BY 1", None, id="a clause"),
    pytest.param("VALUES (?, ?", None, id="an open bracket"),
    pytest.param("VALUES ()", None, id="no value"),
    pytest.param("SELECT ?", None, id="a query"),
    pytest.param("", None, id="nothing"),
]


@pytest.mark.parametrize(("query", "places"), VALUES_OF_ROWS)
def test_a_row_of_parameters(query: str, places: list[int] | None) -> None:
    assert row_of_parameters(query) == places


def test_bound_rows_are_one_commit_in_their_order(engine: Engine) -> None:
    engine.update("CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR)")
    rows = pa.record_batch({"1": [f"row {n}" for n in range(5000)], "2": list(range(5000))})
    assert engine.update("INSERT INTO t (b, a) VALUES (?, ?)", rows) == 5000
    assert engine.query("SELECT b, a FROM t").to_pylist() == [{"b": f"row {n}", "a": n} for n in range(5000)]


def test_bound_rows_of_another_width_are_refused(engine: Engine) -> None:
    engine.update("CREATE TABLE t (a BIGINT, b VARCHAR)")
    with pytest.raises(LanceFlightError, match=r"INSERT INTO t has 1 values for 2 columns \(a, b\)"):
        engine.update("INSERT INTO t VALUES (?)", pa.record_batch({"1": [1]}))
