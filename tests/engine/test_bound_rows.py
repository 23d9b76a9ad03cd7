"""INSERT of VALUES (?, …), whose rows are taken from the parameters as they are, against the same rows planned as a query."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.sql.parameters import row_of_parameters
from lance_flight.errors import LanceFlightError

pytestmark = pytest.mark.slow  # every value in every column

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


@pytest.mark.parametrize("values", BOUND)
@pytest.mark.parametrize("kind", COLUMNS)
def test_bound_rows_are_stored_as_those_of_a_query(engine: Engine, kind: str, values: pa.Array) -> None:
    rows = pa.record_batch({"v": values})
    assert stored(engine, kind, "VALUES (?)", rows) == stored(engine, kind, "SELECT ?", rows)


def stored(engine: Engine, kind: str, source: str, rows: pa.RecordBatch) -> list[object] | str:
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


QUERIES = [
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


@pytest.mark.parametrize(("query", "places"), QUERIES)
def test_a_row_of_parameters(query: str, places: list[int] | None) -> None:
    assert row_of_parameters(query) == places


def test_bound_rows_are_one_commit_in_their_order(engine: Engine) -> None:
    engine.update("CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR)")
    rows = pa.record_batch({"1": [f"row {n}" for n in range(5000)], "2": list(range(5000))})
    assert engine.update("INSERT INTO t (b, a) VALUES (?, ?)", rows) == 5000
    assert engine.query("SELECT b, a FROM t").to_pylist() == [{"b": f"row {n}", "a": n} for n in range(5000)]
