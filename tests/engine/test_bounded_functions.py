"""Functions that are computed here, or guarded, give what DataFusion's give, and refuse what is too large."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.sql.bounds import growth_of
from lance_flight.engine.sql.tokens import tokenize
from lance_flight.engine.translation.evaluation import compute, computed_type, plain_message, session_config
from lance_flight.engine.translation.rewriting import for_datafusion
from lance_flight.engine.translation.typed_calls import QUERIES_ONLY
from lance_flight.errors import LimitExceeded, SqlError

pytestmark = pytest.mark.slow  # every function against DataFusion's

ROWS = pa.record_batch(
    {
        "s": ["a", None, "bcd", ""],
        "n": pa.array([2, 3, None, -1], pa.int64()),
        "i": pa.array([1, 0, 2, 5], pa.int32()),
        "f": [1.5, 2.0, None, 0.0],
        "d": pa.array([0, 31, 59, None], pa.date32()),
        "l": [[1], None, [2, 3], []],
    }
)
SAME = [
    *("repeat(s, n)", "repeat('ab', 3)", "repeat('ab', -1)", "repeat(s, NULL)", "repeat(upper(s), i)"),
    *("array_repeat(s, n)", "array_repeat(f, 2)", "array_repeat(l, i)", "array_repeat(NULL, 2)", "list_repeat(1, i)"),
    *("array_repeat(array_repeat(s, 2), n)", "array_repeat(1, -1)", "array_repeat(d, 2)"),
    *("range(n)", "range(i)", "range(1, 5)", "range(1, 10, 3)", "range(5, 1, -2)", "range(1, 5, -1)", "range(n, 3)"),
    *("generate_series(1, n)", "generate_series(5)", "generate_series(5, 1, -2)", "generate_series(6, 1, -2)"),
    *("generate_series(1, 6, 2)", "range(NULL)", "range(1, NULL)"),
    *("range(d, DATE '1970-03-05', INTERVAL '1 day')", "generate_series(d, DATE '1970-06-30', INTERVAL '1 month')"),
    *("range(DATE '1970-01-05', d, INTERVAL '-1 day')", "generate_series(d, DATE '1972-02-29', INTERVAL '1 year')"),
    *("lpad(s, i)", "lpad('é', 3, 'xy')", "rpad(s, i, 'xy')", "array_resize(l, i)", "array_resize(l, i, 7)"),
    *("replace(s, 'b', s)", "replace(s, 'a', 'zz')", "regexp_replace(s, 'b', s)", "levenshtein(s, 'abc')"),
    *("levenshtein(s, s)", "concat_ws(s, 'a', 'b')", "array_to_string(l, s)"),
    *("strpos('ab', s)", "strpos(s, 'b')", "position(s IN 'xab')", "POSITION(upper(s) IN 'XAB')", "trim(s)"),
    *("trim(BOTH s FROM 'aabaa')", "trim(LEADING upper(s) FROM s)", "trim(s FROM s)"),
    *("ltrim('aab', s)", "rtrim(s, s)", "btrim('ab ' || s)", "trim('aba', s)"),
]


@pytest.mark.parametrize("expression", SAME)
def test_values_and_types_are_those_of_datafusion(expression: str) -> None:
    context = SessionContext(session_config())
    context.register_record_batches("source", [[ROWS]])
    frame = context.sql_with_options(for_datafusion(f"SELECT {expression} AS v FROM source"), QUERIES_ONLY)
    expected = frame.to_arrow_table().column("v").combine_chunks()
    kind = computed_type(expression, ROWS)
    assert kind == expected.type
    assert compute(expression, ROWS, kind).to_pylist() == expected.to_pylist()


EVEN = [
    pytest.param("range({}, {}, INTERVAL '12 hours')", 0, 24, [0, 12], id="up"),
    pytest.param("range({}, {}, INTERVAL '1 day 1 hour')", 0, 51, [0, 25, 50], id="up, past the end"),
    pytest.param("generate_series({}, {}, INTERVAL '12 hours')", 0, 24, [0, 12, 24], id="up, with the end"),
    pytest.param("generate_series({}, {}, INTERVAL '-1 day -12 hours')", 48, 0, [48, 12], id="down"),
    pytest.param("generate_series({}, {}, INTERVAL '-1 day')", 48, 0, [48, 24, 0], id="down, with the end"),
    pytest.param("generate_series({}, {}, INTERVAL '1 hour')", 3, 3, [3], id="one"),
    pytest.param("range({}, {}, INTERVAL '1 hour')", 3, 3, [], id="none"),
    pytest.param("generate_series({}, {}, INTERVAL '-1 hour')", 3, 5, [], id="away from the end"),
]


@pytest.mark.parametrize(("call", "start", "stop", "expected"), EVEN)
def test_moments_are_as_far_from_each_other_as_the_interval_says(
    call: str, start: int, stop: int, expected: list[int]
) -> None:
    zero = datetime(1970, 1, 1)
    bounds = [f"TIMESTAMP '{zero + timedelta(hours=hours)}'" for hours in (start, stop)]
    found = compute(call.format(*bounds), ROWS, computed_type(call.format(*bounds), ROWS))
    assert found.to_pylist() == [[zero + timedelta(hours=hours) for hours in expected]] * len(ROWS)


TOO_LARGE = [
    *("repeat('x', 2000000000)", "repeat(s, n * 1000000000)", "array_repeat(1, 2000000000)", "lpad('x', 2000000000)"),
    *(
        "range(0, 2000000000)",
        "generate_series(n, 1000000000)",
        "array_resize(l, 2000000000)",
        "rpad(s, n * 100000000)",
    ),
    *(
        "array_repeat(array_repeat(array_repeat(i, 5000), 5000), 5000)",
        "levenshtein(repeat('a', 60000), repeat(s, 60000))",
    ),
    *("generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2020-01-01', INTERVAL '1 microsecond')",),
    *("strpos(s, repeat('x', 1000000))", "position(repeat('x', 1000000) IN s)", "instr(s, repeat('x', 2000))"),
    *("ltrim(s, repeat('x', 2000))", "trim(BOTH repeat('x', 2000) FROM s)", "trim(repeat('x', 2000) FROM s)"),
    *("rtrim(s, repeat('x', 2000))", "btrim(s, repeat('x', 2000))", "trim(s, repeat('x', 2000))"),
    *("replace(repeat('x', 1000000), 'x', repeat('y', 1000000))", "regexp_replace('x', 'x', repeat('y', 100000))"),
]


@pytest.mark.parametrize("expression", TOO_LARGE)
def test_what_is_too_large_is_refused_before_it_is_made(expression: str) -> None:
    with pytest.raises(SqlError, match=r"expected at most") as raised:
        compute(expression, ROWS, pa.utf8())
    assert "LimitExceeded" not in str(raised.value)


WRONG = [
    ("repeat(12, 2)", "repeat takes a text and a number, got BIGINT, BIGINT"),
    ("array_repeat(1)", "array_repeat takes an element and a number"),
    ("range(1.5)", "range takes whole numbers"),
    ("range()", "range"),
    ("range(1, 5, 0)", "step can't be 0"),
    ("range(d, DATE '1970-03-05', INTERVAL '6 hours')", "a series of DATE has no such parts"),
    ("range(d, DATE '1970-03-05', INTERVAL '36 hours')", "write CAST(… AS TIMESTAMP)"),
    ("range(d, now(), INTERVAL '1 day')", "got DATE, TIMESTAMP"),
]


@pytest.mark.parametrize(("expression", "said"), WRONG)
def test_what_does_not_fit_is_named(expression: str, said: str) -> None:
    with pytest.raises(SqlError) as raised:
        compute(expression, ROWS, pa.list_(pa.int64()))
    assert said in plain_message(raised.value)
    assert "__" not in str(raised.value)


GROWING = [
    pytest.param("SELECT length(x) FROM " + "(SELECT x || x AS x FROM " * 40 + "(SELECT 'a' AS x)" + ")" * 40, id="||"),
    pytest.param("SELECT " + "replace(" * 12 + "'x'" + ", 'x', 'xxxxxxxxxx')" * 12, id="replace"),
    pytest.param(
        "WITH c0 AS (SELECT 'a' AS x)"
        + "".join(f", c{i} AS (SELECT concat(x, x) AS x FROM c{i - 1})" for i in range(1, 40))
        + " SELECT x FROM c39",
        id="WITH",
    ),
]
STEADY = [
    pytest.param("SELECT " + " || ".join(["a"] * 400) + " FROM t", id="a long concatenation"),
    "SELECT " + "replace(" * 30 + "s" + ", 'Street', 'St')" * 30 + " FROM t",
    "SELECT " + "regexp_replace(" * 8 + "s" + r", '[^a-z]+', ' ', 'g')" * 8 + " FROM t",
    pytest.param("SELECT array_repeat(array_repeat(0, 1000), 1000)", id="a list of lists"),
    pytest.param(
        "WITH c0 AS (SELECT a || b AS x FROM t)"
        + "".join(f", c{i} AS (SELECT a || b AS x FROM t)" for i in range(1, 40))
        + " SELECT * FROM c0, c1, c39",
        id="WITH queries beside each other",
    ),
]


@pytest.mark.parametrize("text", GROWING)
def test_what_doubles_again_and_again_is_refused(text: str) -> None:
    with pytest.raises(LimitExceeded, match="expected at most"):
        growth_of(text, tokenize(text))


@pytest.mark.parametrize("text", STEADY)
def test_what_does_not_is_taken(text: str) -> None:
    growth_of(text, tokenize(text))
