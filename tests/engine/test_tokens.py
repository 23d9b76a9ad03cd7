"""Where strings, comments and names end: for every text as for DataFusion, which is asked what it makes of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.functions import session_config
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.engine.sql.rewriting import for_datafusion
from lance_flight.engine.sql.tokens import tokenize
from lance_flight.errors import SqlError

# A text, how many parameters it has, and its value when each of them is 'P'.
VALUES = [
    pytest.param("?", 1, "P", id="a parameter"),
    pytest.param("'?'", 0, "?", id="a string"),
    pytest.param("'a''?'", 0, "a'?", id="a quote in a string"),
    pytest.param("'''?'''", 0, "'?'", id="quotes at its ends"),
    pytest.param(r"'\' || ?", 1, "\\P", id="a backslash escapes nothing"),
    pytest.param("'?' '?'", 0, "?", id="a string for a name"),
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
