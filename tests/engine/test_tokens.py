"""Tokens of SQL, the positions of errors in what was sent, and the names of the items of a SELECT."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.sql.references import Cursor
from lance_flight.engine.sql.select_lists import with_distinct_names
from lance_flight.engine.sql.tokens import tokenize
from lance_flight.engine.statements.parsing import parse
from lance_flight.engine.translation.evaluation import check_condition, evaluate, session_config
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.engine.translation.rewriting import for_datafusion, with_sent_position
from lance_flight.errors import SqlError

# A text, how many parameters it has, and its value when each of them is 'P'.
VALUES = [
    pytest.param("?", 1, "P", id="a parameter"),
    pytest.param("'?'", 0, "?", id="a string"),
    pytest.param("'a''?'", 0, "a'?", id="a quote in a string"),
    pytest.param("'''?'''", 0, "'?'", id="quotes at its ends"),
    pytest.param(r"'\' || ?", 1, "\\P", id="a backslash escapes nothing"),
    pytest.param("'?' AS '?'", 0, "?", id="a string for a name"),
    pytest.param("'é?' || ?", 1, "é?P", id="letters of two bytes"),
    pytest.param("E'?'", 0, "?", id="an escaped string"),
    pytest.param(r"E'\'?'", 0, "'?", id="an escaped quote"),
    pytest.param(r"e'\\' || ?", 1, "\\P", id="an escaped backslash"),
    pytest.param("E'a''?'", 0, "a'?", id="a doubled quote in an escaped string"),
    pytest.param("$$?$$", 0, "?", id="dollars"),
    pytest.param("$$it's$$ || ?", 1, "it'sP", id="a quote between dollars"),
    pytest.param("$a$?$a$ || ?", 1, "?P", id="dollars with a tag"),
    pytest.param("$a$ ? $$ $b$ ? $a$", 0, " ? $$ $b$ ? ", id="dollars between dollars"),
    pytest.param("$1$?$1$", 0, "?", id="a tag that is a number"),
    pytest.param("concat($1,$2)", 2, "PP", id="two dollars that are none"),
    pytest.param("[$1,$2]", 2, ["P", "P"], id="two dollars in brackets"),
    pytest.param("$1::varchar", 1, "P", id="a numbered one cast"),
    pytest.param("?::varchar", 1, "P", id="a parameter cast"),
    pytest.param("?||'?'||?", 2, "P?P", id="no blanks"),
    pytest.param("[?,?]", 2, ["P", "P"], id="in brackets"),
    pytest.param("{'a':?}", 1, {"a": "P"}, id="in braces"),
    pytest.param("CASE WHEN?='P'THEN?ELSE'?'END", 2, "P", id="words beside it"),
    pytest.param("? -- ?", 1, "P", id="a comment at the end"),
    pytest.param("-- ?\n ?", 1, "P", id="a comment before"),
    pytest.param("/* ? */ ?", 1, "P", id="a comment in stars"),
    pytest.param("/* /* ? */ ? */ ?", 1, "P", id="a comment in a comment"),
    pytest.param("/* '*/ ?", 1, "P", id="a quote in a comment"),
    pytest.param("/*+ ? */ ?", 1, "P", id="a hint"),
    pytest.param("/**/ ?", 1, "P", id="an empty comment"),
    pytest.param("'/*' || ? || '*/'", 1, "/*P*/", id="a comment in a string"),
    pytest.param("'--' || ?", 1, "--P", id="dashes in a string"),
    pytest.param("X'00'", 0, b"\0", id="binary"),
    pytest.param("?\u00a0", 1, "P", id="a blank that is not ASCII"),
    pytest.param('1 AS "?"', 0, 1, id="a name"),
    pytest.param("1 AS `?`", 0, 1, id="a name in backticks"),
    pytest.param('1 AS "a""?"', 0, 1, id="a quote in a name"),
    pytest.param("1 AS a$1", 0, 1, id="a dollar in a name"),
    pytest.param("1 AS a$b$c", 0, 1, id="dollars in a name"),
    pytest.param("1 AS ä_1", 0, 1, id="a letter that is not ASCII"),
    pytest.param("CAST('2024-01-01' AS TIMESTAMP) = TIMESTAMP'2024-01-01'", 0, True, id="types"),
]


@pytest.mark.parametrize(("text", "count", "value"), VALUES)
def test_a_text_has_the_parameters_that_datafusion_finds(text: str, count: int, value: Any) -> None:
    sql = f"SELECT {text}"
    assert parameter_count(sql) == count
    context = SessionContext(session_config())
    frame = context.sql(for_datafusion(sql), param_values={str(n): pa.scalar("P") for n in range(1, count + 1)})
    assert [list(row.values()) for row in frame.to_pylist()] == [[value]]


ENDLESS = [
    pytest.param("SELECT 'a''", "quotes at character 8", id="a string"),
    pytest.param('SELECT "a', "quotes at character 8", id="a name"),
    pytest.param("SELECT `a", "quotes at character 8", id="a name in backticks"),
    pytest.param(r"SELECT E'a\'", "quotes at character 8", id="an escaped string"),
    pytest.param("SELECT $$a$", "quotes at character 8", id="dollars"),
    pytest.param("SELECT $a$ ? $b$", "quotes at character 8", id="dollars with a tag"),
    pytest.param("SELECT 1 /* /* */", "comment at character 10", id="a comment"),
    pytest.param("SELECT '" + "a''" * 100_000, "quotes at character 8", id="a long string"),
]


@pytest.mark.parametrize(("text", "says"), ENDLESS)
def test_what_has_no_end_is_refused_where_it_begins(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        tokenize(text)
    with pytest.raises(ValueError, match="TokenizerError"):
        SessionContext(session_config()).sql(text)


HALF_TYPES = [
    pytest.param("SELECT a::", "SELECT a::", id="no type"),
    pytest.param("SELECT CAST(a AS", "SELECT CAST(a AS", id="no type in a cast"),
    pytest.param("SELECT a::BINARY(", "SELECT a::BYTEA(", id="an open length"),
    pytest.param("SELECT a::TIMESTAMP(", "SELECT a::TIMESTAMP(", id="an open precision"),
    pytest.param("::", "::", id="nothing else"),
]


@pytest.mark.parametrize(("text", "written"), HALF_TYPES)
def test_half_a_type_is_left_to_datafusion(text: str, written: str) -> None:
    assert for_datafusion(text) == written


NAMES = [
    pytest.param("Abc", "abc", id="capitals"),
    pytest.param("ÄbC", "Äbc", id="capitals that are not ASCII"),
    pytest.param('"Abc"', "Abc", id="quoted"),
    pytest.param("`Abc`", "Abc", id="in backticks"),
    pytest.param('"a""b"', 'a"b', id="a quote"),
    pytest.param("date", "date", id="a word of SQL"),
    pytest.param("t$a@1", "t$a@1", id="signs"),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_a_name_is_folded_as_datafusion_folds_it(text: str, name: str) -> None:
    assert Cursor.over(text).name("a name") == name
    assert SessionContext(session_config()).sql(f"SELECT 1 AS {text}").schema().names == [name]


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


RENAMED = [
    pytest.param("SELECT 1, 1, 1", 'SELECT 1, 1 AS "column 2", 1 AS "column 3"', id="literals"),
    pytest.param("SELECT a, A, t.a FROM t", 'SELECT a, A AS "column 2", t.a AS "column 3" FROM t', id="a column"),
    pytest.param("SELECT a, a::INT FROM t", 'SELECT a, a::INT AS "column 2" FROM t', id="a cast"),
    pytest.param("SELECT f(a), f(CAST(a AS INT))", 'SELECT f(a), f(CAST(a AS INT)) AS "column 2"', id="a cast inside"),
    pytest.param("SELECT DISTINCT a, a", 'SELECT DISTINCT a, a AS "column 2"', id="distinct"),
    ("SELECT 1,1 UNION SELECT 2,2", 'SELECT 1,1 AS "column 2" UNION SELECT 2,2 AS "column 2"'),
    pytest.param("SELECT * FROM (SELECT 1, 1)", 'SELECT * FROM (SELECT 1, 1 AS "column 2")', id="inside"),
    pytest.param(
        "SELECT a IS DISTINCT FROM (b), a IS DISTINCT FROM (b) FROM t",
        'SELECT a IS DISTINCT FROM (b), a IS DISTINCT FROM (b) AS "column 2" FROM t',
        id="a FROM that ends no list",
    ),
]
LEFT = [
    pytest.param("SELECT 1, 2", id="different"),
    pytest.param("SELECT *, t.*, * FROM t", id="stars"),
    pytest.param("SELECT a AS x, a AS x FROM t", id="named"),
    pytest.param("SELECT a x, a x, a 'x', a \"x\" FROM t", id="named without AS"),
    pytest.param("SELECT ' , a', ' , b'", id="commas in strings"),
    pytest.param("SELECT f(1, 1), [1, 1]", id="arguments"),
    pytest.param('SELECT a, "A" FROM t', id="a quoted name"),
    pytest.param("VALUES (1, 1)", id="values"),
    pytest.param("SELECT", id="nothing"),
    pytest.param("SELECT .", id="a sign alone"),
    pytest.param("SELECT ::", id="a cast of nothing"),
]


@pytest.mark.parametrize(("text", "renamed"), RENAMED)
def test_what_repeats_is_named(text: str, renamed: str) -> None:
    assert with_distinct_names(text) == renamed


@pytest.mark.parametrize("text", LEFT)
def test_everything_else_stays_as_it_was_written(text: str) -> None:
    assert with_distinct_names(text) == text
