"""Custom partition expressions: what they compute, what breaks the spec's requirements, and those of others that nobody here can compute."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.engine.translation.evaluation import check_expression, evaluate, result_type
from lance_flight.errors import LanceFlightError, SpecError, SqlError

from tests.engine.database import Database
from tests.stock import stored_rows

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


FOREIGN = {
    "chance": ("CAST(random() * 3 AS BIGINT)", "'random' is not deterministic"),
    "chance_by_another_name": ("col0 + CAST(RAND() AS BIGINT)", "'rand' is not deterministic"),
    "clock": ("col0 % date_part('year', now())", "'now' is not deterministic"),
    "unknown": ("their_own(col0)", "Invalid function 'their_own'"),
}
"""By table: the expression that stands in the spec, and what is said of it."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    laid_out = Database(tmp_path_factory.mktemp("foreign"))
    for table, (expression, _) in FOREIGN.items():
        lay_out(laid_out, table, expression)
    return laid_out


def lay_out(database: Database, table: str, expression: str) -> None:
    """A table whose rows lie by id % 3, as an expression of another writer may have put them."""
    database.run(f"CREATE TABLE {table} (id BIGINT, v BIGINT) PARTITIONED BY (expr('col0 % 3', id) AS part)")
    database.run(f"INSERT INTO {table} SELECT value, value FROM generate_series(1, 9)")
    manifest = lance.dataset(f"{database.root}/{table}/__manifest")
    spec = json.loads(manifest.metadata["partition_spec_v1"])
    spec["fields"][0]["expression"] = expression
    manifest.update_metadata({"partition_spec_v1": json.dumps(spec)})


def explained(database: Database, sql: str) -> str:
    return "\n".join(text for _, text in database.rows(f"EXPLAIN {sql}"))


@pytest.mark.parametrize("table", FOREIGN)
def test_queries_find_every_row_and_say_why_nothing_was_pruned(database: Database, table: str) -> None:
    for number in range(1, 10):
        assert database.rows(f"SELECT v FROM {table} WHERE id = {number}") == [(number,)]
    said = explained(database, f"SELECT v FROM {table} WHERE id IN (1, 5)")
    assert "partitions: 3 / 3" in said
    assert FOREIGN[table][1] in said
    assert database.value(f"SELECT sum(v) FROM {table} WHERE id IN (1, 5) AND v > 0") == 6
    assert database.run(f"DELETE FROM {table} WHERE id = 77") == 0


@pytest.mark.parametrize("table", FOREIGN)
def test_joins_and_aggregates_are_not_run_by_such_a_field(database: Database, table: str) -> None:
    join = f"SELECT count(*) FROM {table} l JOIN {table} r ON l.id = r.id"
    assert database.value(join) == 9
    said = explained(database, join)
    assert "groups: none" in said
    assert FOREIGN[table][1] in said
    assert database.value(f"SELECT count(*) FROM (SELECT id FROM {table} GROUP BY id)") == 9


@pytest.mark.parametrize("table", FOREIGN)
@pytest.mark.parametrize("statement", ["INSERT INTO {} VALUES (10, 10)", "UPDATE {} SET v = 0 WHERE id = 1"])
def test_rows_are_not_written_and_the_field_is_named(database: Database, table: str, statement: str) -> None:
    before = stored_rows(database.root / table).num_rows
    said = database.refuses(statement.format(table))
    assert "partition field 'part'" in said
    assert FOREIGN[table][1] in said
    assert stored_rows(database.root / table).num_rows == before == 9
    assert database.value(f"SELECT sum(v) FROM {table}") == 45


@pytest.mark.parametrize("table", FOREIGN)
def test_verification_says_it_too(database: Database, table: str) -> None:
    problems = {row[-1] for row in database.rows(f"VERIFY TABLE {table}")}
    assert all(FOREIGN[table][1] in problem for problem in problems)


def test_names_of_functions_are_names_of_columns_all_the_same(database: Database) -> None:
    database.run('CREATE TABLE named (id BIGINT, "random" BIGINT, now BIGINT) PARTITIONED BY (id)')
    database.run("INSERT INTO named VALUES (1, 2, 3)")
    database.run("ALTER TABLE named ADD COLUMN total BIGINT AS (random + now)")
    assert database.rows("SELECT total FROM named") == [(5,)]
