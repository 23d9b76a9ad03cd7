"""Positions in errors are those of the text that was sent, whatever was rewritten on the way."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight.engine.sql.functions import check_condition, evaluate
from lance_flight.engine.sql.positions import with_sent_position
from lance_flight.engine.statements.parsing import parse
from lance_flight.errors import SqlError

OURS = [
    pytest.param("DROP TABLE t ! ", "'!' at character 14", id="as it was written"),
    pytest.param("UPDATE t SET a = ?, b = ?, ! = 1", "'!' at character 28", id="after parameters"),
    pytest.param("EXPLAIN UPDATE t SET a = ?, ! = 1", "'!' at character 29", id="in EXPLAIN"),
    pytest.param("/* ? */ EXPLAIN\nDELETE FROM t WHERE a = ? ! ;", None, id="left to DataFusion"),
    pytest.param("CREATE TABLE t (a TIMESTAMP, ?)", "'?' at character 30", id="a parameter itself"),
]


@pytest.mark.parametrize(("statement", "position"), OURS)
def test_our_own_errors_name_the_character_that_was_sent(statement: str, position: str | None) -> None:
    if position is None:
        parse(statement)
        return
    with pytest.raises(SqlError) as raised:
        parse(statement)
    assert position in str(raised.value)


MOVED = [
    pytest.param("SELECT x y z", 12, "SELECT x y z", (1, 12), id="as it was written"),
    pytest.param("SELECT $1, $2 y z", 17, "SELECT ?, ? y z", (1, 15), id="parameters"),
    pytest.param("SELECT a::TIMESTAMP(6) y z", 26, "SELECT a::TIMESTAMP y z", (1, 23), id="a type"),
    pytest.param("SELECT b FROM t WHERE (a = = 1\n)", 28, "DELETE FROM t\nWHERE\n  a = = 1", (3, 7), id="a condition"),
    pytest.param("SELECT x, x, x y z FROM x, x", 18, "SELECT x, x, x y z FROM x, x", (1, 18), id="what repeats"),
    pytest.param("SELECT (a\n)", 10, "SELECT a", None, id="at the end"),
    pytest.param("SELECT TIMESTAMP(6) 'x'", 18, "SELECT TIMESTAMP 'x'", None, id="what was added"),
]


@pytest.mark.parametrize(("planned", "column", "sent", "expected"), MOVED)
def test_a_position_moves_to_where_its_token_was_sent(
    planned: str, column: int, sent: str, expected: tuple[int, int] | None
) -> None:
    message = with_sent_position(f"found: z at Line: 1, Column: {column}", planned, sent)
    assert message == "found: z" + ("" if expected is None else f" at line {expected[0]}, column {expected[1]}")


def test_errors_in_expressions_name_positions_of_the_expression() -> None:
    with pytest.raises(SqlError, match="at line 1, column 5"):
        check_condition("a = = 1", pa.schema({"a": pa.int64()}))
    with pytest.raises(SqlError, match="at line 1, column 6"):
        evaluate("col0 col1 + 1", [pa.array([1])], pa.int64())


def test_many_equal_tokens_are_looked_through_quickly() -> None:
    text = "SELECT " + "a , " * 50_000 + "a a"
    assert with_sent_position(f"x at Line: 1, Column: {len(text)}", text, text) == f"x at line 1, column {len(text)}"
