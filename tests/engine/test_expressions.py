"""Custom partition expressions: what they compute, what is missing, and what breaks one of the spec's requirements."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.engine.sql.functions import check_expression, evaluate, result_type
from lance_flight.errors import LanceFlightError, SpecError, SqlError

MISSING = [
    pytest.param("col0", pa.int32(), None, id="the column itself"),
    pytest.param("coalesce(col0, 'none')", pa.utf8(), "none", id="text instead"),
    pytest.param("coalesce(col0, 7)", pa.int64(), 7, id="a number instead"),
    pytest.param("coalesce(col0, col1)", pa.int64(), 5, id="another column instead"),
    pytest.param("upper(left(col0, 1))", pa.utf8(), None, id="a function of text"),
    pytest.param("col0 % 3", pa.int64(), None, id="arithmetic"),
    pytest.param("NOT col0", pa.bool_(), None, id="logic"),
    pytest.param("col0 IS NULL", pa.bool_(), True, id="a test for NULL"),
    pytest.param("date_part('year', col0)", pa.int32(), None, id="a date part"),
    pytest.param("date_trunc('month', col0)", pa.timestamp("us"), None, id="a date cut off"),
    pytest.param("CAST(col0 AS DATE)", pa.date32(), None, id="a cast"),
    pytest.param("abs(murmur3(col0)) % 4", pa.int32(), None, id="a hash"),
    pytest.param("abs(murmur3_multi(col0, col1)) % 1000", pa.int32(), 6, id="a hash of several"),
    pytest.param("CASE WHEN col0 < 2 THEN 1 ELSE 0 END", pa.int64(), 0, id="a case"),
]


@pytest.mark.parametrize(("expression", "kind", "value"), MISSING)
def test_a_removed_column_counts_as_null(expression: str, kind: pa.DataType, value: Any) -> None:
    found = evaluate(expression, [pa.nulls(2), pa.array([5, 5])], kind)
    if expression.startswith("abs(murmur3_multi"):
        value = evaluate("abs(murmur3(col0)) % 1000", [pa.array([5])], kind)[0].as_py()
    assert (found.type, found.to_pylist()) == (kind, [value, value])


COMPUTED = [
    pytest.param("upper(col0)", pa.array(["a", None]), ["A", None], id="upper"),
    pytest.param("left(col0, 2)", pa.array(["abc", ""]), ["ab", ""], id="left"),
    pytest.param("EXTRACT(month FROM col0)", pa.array([date(2024, 2, 29)]), [2], id="extract"),
    pytest.param("col0 -- a comment", pa.array([1]), [1], id="a comment at the end"),
    pytest.param("'it''s ' || col0", pa.array(["x"]), ["it's x"], id="a quote"),
    pytest.param("(col0 + 1) * (col0 - 1)", pa.array([3]), [8], id="brackets"),
]


@pytest.mark.parametrize(("expression", "column", "expected"), COMPUTED)
def test_an_expression_is_computed_for_each_row(expression: str, column: pa.Array, expected: list[Any]) -> None:
    kind = result_type(expression, [column.type])
    assert evaluate(expression, [column], kind).to_pylist() == expected


def test_no_rows_give_no_values() -> None:
    assert evaluate("col0 % 3", [pa.array([], pa.int32())], pa.int64()).to_pylist() == []


NO_EXPRESSIONS = [
    pytest.param("col0 AS value FROM source --", id="a query around it"),
    pytest.param("col0) AS value FROM source --", id="a closing bracket"),
    pytest.param("col0) AS value FROM source LIMIT (1", id="brackets closed again"),
    pytest.param("col0, col0", id="two of them"),
    pytest.param("col0; DROP TABLE source", id="two statements"),
    pytest.param("", id="nothing"),
    pytest.param("col0 +", id="half of one"),
    pytest.param("nope(col0)", id="an unknown function"),
    pytest.param("'open", id="an open string"),
]


@pytest.mark.parametrize("expression", NO_EXPRESSIONS)
def test_what_is_not_one_expression_is_refused(expression: str) -> None:
    with pytest.raises(LanceFlightError):
        check_expression(expression, [pa.int64()], pa.int64())
    with pytest.raises(SqlError):
        evaluate(expression, [pa.array([1, 2])], pa.int64())


BREACHES = [
    pytest.param("now()", [pa.int64()], pa.int64(), ["'now'", "deterministic"], id="the time"),
    pytest.param("current_date", [pa.int64()], pa.date32(), ["'current_date'"], id="the date without brackets"),
    pytest.param("col0 + random()", [pa.int64()], pa.float64(), ["'random'"], id="chance"),
    pytest.param("uuid()", [pa.int64()], pa.utf8(), ["'uuid'"], id="a new name each time"),
    pytest.param("col1", [pa.int64()], pa.int64(), ["col1 is beyond", "there are 1"], id="a column beyond"),
    pytest.param("(SELECT 1)", [pa.int64()], pa.int64(), ["subquery"], id="a subquery"),
    pytest.param("sum(col0) OVER ()", [pa.int64()], pa.int64(), ["window"], id="a window"),
    pytest.param("sum(col0)", [pa.int64()], pa.int64(), ["aggregate"], id="an aggregate"),
    pytest.param("col0 % 3", [pa.int64()], pa.int32(), ["gives int64", "result_type is int32"], id="another type"),
    pytest.param("col0 / 2.0", [pa.int64()], pa.utf8(), ["gives double"], id="a far other type"),
    ("col0 + CAST(127 AS TINYINT)", [pa.int8()], pa.int8(), ["equal numbers", "int8"]),
    pytest.param("[col0]", [pa.int64()], pa.list_(pa.int64()), ["gives list", "number, text"], id="a list"),
    pytest.param("NULL", [pa.int64()], pa.null(), ["gives null"], id="nothing but NULL"),
    pytest.param("now() || col3", [pa.utf8()], pa.utf8(), ["'now'", "col3 is beyond"], id="two breaches at once"),
]


@pytest.mark.parametrize(("expression", "sources", "declared", "says"), BREACHES)
def test_an_expression_that_breaks_a_requirement_is_refused(
    expression: str, sources: list[pa.DataType], declared: pa.DataType, says: list[str]
) -> None:
    with pytest.raises(SpecError) as raised:
        check_expression(expression, sources, declared)
    assert [part for part in says if part not in str(raised.value)] == []


ALLOWED = [
    pytest.param("col0 % 3", [pa.int32()], pa.int64(), id="arithmetic"),
    pytest.param("upper('now ' || col0)", [pa.utf8()], pa.utf8(), id="a volatile word in a string"),
    pytest.param("date_part('month', col0)", [pa.timestamp("us")], pa.int32(), id="a date part"),
    pytest.param("abs(murmur3_multi(col0, col1)) % 8", [pa.int64(), pa.utf8()], pa.int64(), id="a hash"),
    pytest.param("coalesce(col0, col1)", [pa.utf8(), pa.utf8()], pa.utf8(), id="the first that is there"),
    pytest.param("col0 IS NULL", [pa.date32()], pa.bool_(), id="a test for NULL"),
]


@pytest.mark.parametrize(("expression", "sources", "declared"), ALLOWED)
def test_an_expression_that_meets_the_requirements_is_accepted(
    expression: str, sources: list[pa.DataType], declared: pa.DataType
) -> None:
    check_expression(expression, sources, declared)
    assert result_type(expression, sources) == declared
