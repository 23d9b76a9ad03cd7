"""Aggregates over frames of windows that move on: each is that of the rows of its frame alone, as in DuckDB."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.functions.frame_aggregates import ARGUMENTS, Frames, _Evaluator, range_frames
from lance_flight.errors import Cancelled

from tests.engine.database import Database

TABLE = (
    "CREATE TABLE w (k BIGINT, g VARCHAR, i INT, n DECIMAL(12, 2), x DOUBLE, y REAL, ts TIMESTAMP, d DATE)",
    """
    INSERT INTO w
    SELECT k, CASE WHEN k % 3 = 0 THEN 'a' ELSE 'b' END, nullif(k % 7, 3), k * 1.25,
        CASE k WHEN 5 THEN 1e20 WHEN 9 THEN 'nan'::DOUBLE WHEN 15 THEN 'inf'::DOUBLE WHEN 21 THEN 1e308 WHEN 22 THEN 1e308
            WHEN 8 THEN NULL ELSE k * 0.5 END,
        k * 0.25, TIMESTAMP '2024-01-01' + INTERVAL '1 hour' * (k * k), DATE '2024-01-01' + CAST(k * k AS INT)
    FROM range(40) r(k)
    """,
)
MADE = {
    "rows before": "sum(x) OVER (ORDER BY k ROWS 2 PRECEDING)",
    "rows around": "avg(x) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "rows behind": "sum(x) OVER (ORDER BY k ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)",
    "rows long before": "sum(x) OVER (ORDER BY k ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING)",
    "all rows from here": "sum(x) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "a filter": "sum(x) FILTER (WHERE i > 2) OVER (PARTITION BY g ORDER BY k DESC ROWS 2 PRECEDING)",
    "a REAL": "avg(y) OVER (ORDER BY k ROWS 3 PRECEDING)",
    "a mean of integers": "avg(i) OVER (ORDER BY k ROWS 2 PRECEDING)",
    "an exact sum": "sum(i) OVER (ORDER BY k ROWS 2 PRECEDING)",
    "a sum of decimals": "sum(n) OVER (ORDER BY k ROWS 2 PRECEDING)",
    "no order": "sum(x) OVER (PARTITION BY k ROWS BETWEEN CURRENT ROW AND CURRENT ROW)",
    "a window with a name": "sum(x) OVER v",
    "numbers": "sum(x) OVER (ORDER BY k RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "numbers with peers and NULL": "avg(y) OVER (PARTITION BY g ORDER BY i RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "numbers from above": "avg(y) OVER (ORDER BY i DESC RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "numbers, NULL first": "sum(y) OVER (ORDER BY i NULLS FIRST RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "moments": "sum(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)",
    "moments, months": "sum(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW)",
    "days": "sum(y) OVER (ORDER BY d RANGE BETWEEN INTERVAL '7 days' PRECEDING AND INTERVAL '2 days' FOLLOWING)",
    "peers": "avg(x) OVER (PARTITION BY g ORDER BY i GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "decimal keys": "sum(y) OVER (ORDER BY n RANGE BETWEEN 2.5 PRECEDING AND CURRENT ROW)",
    "a deviation": "stddev_pop(CASE WHEN k < 9 THEN x END) OVER (ORDER BY k ROWS 2 PRECEDING)",
    "a variance": "var_samp(y) OVER (ORDER BY k ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)",
    "truths": "CAST(bool_and(k % 5 < 3) OVER (ORDER BY k ROWS 2 PRECEDING) AS INT)",
    "truths of some": "CAST(bool_or(i > 4) FILTER (WHERE k > 3) OVER (ORDER BY k ROWS 1 PRECEDING) AS INT)",
    "any value": "any_value(i) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
    "any value of some": "any_value(i) FILTER (WHERE k % 2 = 1) OVER (PARTITION BY g ORDER BY k ROWS 1 PRECEDING)",
    "exclusive or": "bit_xor(i) OVER (ORDER BY i RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "a covariance": "covar_pop(y, k) OVER (ORDER BY k ROWS 4 PRECEDING)",
}


@pytest.fixture(scope="module")
def frames(database: Database) -> Database:
    for statement in TABLE:
        database.run(statement)
    return database


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in TABLE:
            connection.execute(statement)
        yield connection


def plain(value: object) -> object:
    """A number with the digits that two ways of adding have in common."""
    if value is None or not math.isfinite(value):
        return str(value)
    return float(f"{float(value):.12g}")


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_an_aggregate_is_that_of_its_frame(frames: Database, duck: duckdb.DuckDBPyConnection, made: str) -> None:
    sql = f"SELECT {made} AS made FROM w WINDOW v AS (PARTITION BY g ORDER BY k ROWS 3 PRECEDING) ORDER BY k"
    expected = [plain(value) for (value,) in duck.execute(sql).fetchall()]
    assert [plain(value) for (value,) in frames.rows(sql)] == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, sum(x) OVER v AS a, sum(i) OVER v AS b, sum(n) OVER v AS c FROM w WINDOW v AS (ORDER BY k ROWS 2 PRECEDING) ORDER BY k",
        "SELECT k FROM w QUALIFY sum(y) OVER (ORDER BY k ROWS 1 PRECEDING) > 5 ORDER BY k",
        "SELECT k, z FROM (SELECT k, y - avg(y) OVER (ORDER BY k ROWS 2 PRECEDING) AS z FROM w) q WHERE z > 0.2 ORDER BY k",
        "SELECT g, sum(sum(y)) OVER (ORDER BY g ROWS 1 PRECEDING) AS s FROM w GROUP BY g ORDER BY g",
        "SELECT k, (SELECT max(s) FROM (SELECT sum(x) OVER (ORDER BY k ROWS 1 PRECEDING) AS s FROM w WHERE k < 9 AND k > 5)) AS z FROM w ORDER BY k LIMIT 2",
        "SELECT sum(x) OVER (ORDER BY k ROWS 1 PRECEDING) AS s FROM w WHERE k > 99",
    ],
)
def test_other_values_stand_beside_it(frames: Database, duck: duckdb.DuckDBPyConnection, sql: str) -> None:
    answer = frames.query(sql)
    expected = duck.execute(sql).fetchall()
    assert [[plain(value) if isinstance(value, float) else value for value in row] for row in frames.rows(sql)] == [
        [plain(value) if isinstance(value, float) else value for value in row] for row in expected
    ]
    if "AS b" in sql:
        assert [str(kind) for kind in answer.schema.types] == ["int64", "double", "int64", "decimal128(22, 2)"]


def test_a_view_and_a_parameter_have_it_too(frames: Database) -> None:
    frames.run("CREATE VIEW moving AS SELECT k, sum(x) OVER (ORDER BY k ROWS 1 PRECEDING) AS s FROM w")
    assert frames.rows("SELECT s FROM moving WHERE k IN (6, 7) ORDER BY k") == [(1e20,), (6.5,)]
    assert frames.query("SELECT s FROM moving WHERE k = ?", [7]).to_pylist() == [{"s": 6.5}]


NUMBERS = st.one_of(
    st.none(), st.integers(-9, 9).map(float), st.sampled_from([math.nan, math.inf, -math.inf, 1e20, -1e20])
)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40),
    st.integers(-6, 6),
    st.integers(0, 7),
    st.sampled_from(sorted(ARGUMENTS)),
)
def test_frames_of_rows_have_what_each_frame_has(
    values: list[tuple[float | None, float | None]], first: int, more: int, word: str
) -> None:
    """One call for all frames answers as a call for each."""
    columns = [pa.array(column, pa.float64()) for column in zip(*values, strict=True)][: ARGUMENTS[word]]
    given_rows = [pa.array([number] * len(values), pa.int64()) for number in (first, first + more)]
    found = _Evaluator(word, Frames.ROWS, lambda: None).evaluate_all([*columns, *given_rows], len(values))
    alone = _Evaluator(word, Frames.FOUND, lambda: None)
    for row, value in enumerate(found):
        begin = min(max(row + first, 0), len(values))
        end = max(min(row + first + more + 1, len(values)), begin)
        expected = alone.evaluate(columns, (begin, end)).as_py()
        assert (
            value.as_py() == pytest.approx(expected, nan_ok=True, rel=1e-9, abs=1e-6)
            if expected is not None
            else value.as_py() is None
        )


def test_keys_at_the_ends_of_bigint_have_frames() -> None:
    key = pa.array([-(2**63), -(2**63) + 2, 0, 2**63 - 2, 2**63 - 1])
    begin, end = range_frames(key, -3, 3, 1)
    assert (begin.tolist(), end.tolist()) == ([0, 0, 2, 3, 3], [2, 2, 3, 5, 5])


def test_frames_that_datafusion_finds_end_with_their_statement() -> None:
    ended = threading.Event()

    def check() -> None:
        ended.set()
        raise Cancelled("enough")

    evaluator, column = _Evaluator("sum", Frames.FOUND, check), pa.array(np.ones(4))
    with pytest.raises(Cancelled, match="enough"):
        deque((evaluator.evaluate([column], (0, 2)) for _ in range(5000)), maxlen=0)
    assert ended.is_set()
