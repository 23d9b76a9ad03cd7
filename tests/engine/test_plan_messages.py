"""What is said of statements that DataFusion refuses: a sentence about the SQL and what to write, never the inside of a plan."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_flight.engine.sql.foreign_functions import INSTEAD, function_advice
from lance_flight.engine.sql.plan_messages import plain_error, plain_message
from lance_flight.engine.sql.routines import routines
from lance_flight.errors import LanceFlightError, SqlError, Unsupported
from lance_flight.flight.status import flight_error

from tests.engine.database import Database
from tests.selection import IS_FULL

INSIDE = re.compile(
    r"[A-Z]\w+ ?\{|Span\(|Ident\(|Some\(|Expr::|<subquery>|outer_ref|__\w+|_table_number|\bU?Int\d+\b|Utf8|Float64|Date32"
    r"|bug in DataFusion|hysical|sqltorel|caused by|Optimizer rule|signature|Exact\(|coerced type|\bplan after\b"
)
"""What no client reads: names of Rust and of Arrow, names that rewriting makes, layers of DataFusion."""


@pytest.fixture(scope="module")
def odd(database: Database) -> Iterator[Database]:
    """Two tables with a column of each kind."""
    database.run(
        "CREATE TABLE t (id BIGINT, a BIGINT, b BIGINT, s VARCHAR, f DOUBLE, d DATE, ts TIMESTAMP, l BIGINT[], flag BOOLEAN,"
        " x DECIMAL(10,2))"
    )
    database.run(
        "INSERT INTO t VALUES"
        " (1, 1, 2, 'x', 1.5, DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00', [1,2,3], true, 1.25),"
        " (2, 3, 4, 'y', NULL, DATE '2024-02-01', TIMESTAMP '2024-02-01 01:00:00', [4], false, 2.50)"
    )
    database.run("CREATE TABLE u (k BIGINT, v BIGINT, p VARCHAR) PARTITIONED BY (p)")
    database.run("INSERT INTO u VALUES (1, 2, 'x'), (3, 4, 'y'), (1, 5, 'x')")
    yield database
    for name in ("t", "u"):
        database.run(f"DROP TABLE IF EXISTS {name}")


def said(database: Database, sql: str) -> str:
    """The error of a statement as a client reads it; nothing where it is answered."""
    try:
        database.rows(sql)
    except LanceFlightError as error:
        return str(flight_error(error))
    return ""


SENTENCES = {
    "a window in WHERE": ("SELECT a FROM t WHERE row_number() OVER () = 1", "a window function stands in"),
    "an aggregate in ON": ("SELECT 1 FROM t JOIN u ON sum(a) = 1", "an aggregate cannot stand here"),
    "an aggregate in SET": ("UPDATE t SET a = sum(b)", "an aggregate cannot stand in SET"),
    "an aggregate of one": ("SELECT sum(count(*)) FROM t", "an aggregate stands within an aggregate"),
    "no GROUP BY": ("SELECT a, b FROM t GROUP BY a", "column t.b stands in the SELECT list and not in GROUP BY"),
    "several rows": ("SELECT (SELECT k FROM u) FROM t", "gave more than one row; write an aggregate"),
    "several columns": ("SELECT (SELECT k, v FROM u) FROM t", "has several columns; expected one"),
    "an inequality outside": ("SELECT (SELECT count(*) FROM u WHERE k < t.id) FROM t", "in equalities alone"),
    "types of a function": ("SELECT upper(a) FROM t", "upper does not take (BIGINT); expected VARCHAR"),
    "types of lists": ("SELECT array_has(l, 'x') FROM t", "(BIGINT[], VARCHAR); expected (list, element)"),
    "too many arguments": ("SELECT upper('a', 'b')", "upper takes 1 argument, got 2"),
    "no arguments": ("SELECT sum() FROM t", "sum takes arguments, got none"),
    "a star": ("SELECT abs(*) FROM t", "* is no value here"),
    "a text for a number": ("SELECT coalesce(a, '') FROM t", "Cannot cast string '' to BIGINT"),
    "no common type": ("SELECT coalesce(1, DATE '2024-01-01')", "without a common one: BIGINT, DATE"),
    "types of a comparison": ("SELECT 1 FROM t WHERE l = 1", "the two sides of BIGINT[] = BIGINT"),
    "types of an operator": ("SELECT d + d FROM t", "DATE + DATE is not computed"),
    "types of UNION": ("SELECT l FROM t UNION SELECT a FROM t", "UNION joins BIGINT[] and BIGINT in column 'a'"),
    "a number as a condition": ("SELECT 1 FROM t WHERE a", "a condition is BIGINT"),
    "COLLATE": ("SELECT s COLLATE nocase FROM t", "COLLATE is not offered"),
    "RLIKE": ("SELECT s RLIKE 'x' FROM t", "write a ~ 'pattern'"),
    "DIV": ("SELECT a DIV b FROM t", "DIV is no operator here at line 1, column 10; write a / b"),
    "a literal": ("SELECT N'abc'", "write the text without N"),
    "two queries out": (
        "SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE k = t.id AND v IN (SELECT b FROM t AS t2 WHERE t2.id = t.id))",
        "two queries further out",
    ),
    "a slip of a table": ("SELECT q.flag FROM t", "Did you mean 't.flag'?"),
    "a slip": ("SELECT flagg FROM t", "Did you mean 't.flag'?"),
}


@pytest.mark.parametrize(("sql", "says"), SENTENCES.values(), ids=SENTENCES)
def test_a_known_error_is_a_sentence_that_says_what_to_write(odd: Database, sql: str, says: str) -> None:
    assert says in said(odd, sql)


def test_no_odd_statement_shows_the_inside_of_a_plan(odd: Database) -> None:
    statements = (Path(__file__).parent / "data/odd_statements.sql").read_text().splitlines()
    assert len(statements) > 300
    told = {sql: said(odd, sql) for sql in statements}
    assert {sql: text for sql, text in told.items() if INSIDE.search(text) or "[internal]" in text} == {}


ARGUMENTS = (
    *("", "NULL", "1", "'x'", "DATE '2024-01-01'", "[1]", "true", "1, 'x'", "'x', 1", "'x','y','z'", "1,2,3,4,5,6,7"),
    *("{'a':1}", "l, s", "t.id, d", "X'00'", "INTERVAL '1 day'", "ts, ts", "*"),
)


def test_no_call_of_a_function_shows_the_inside_of_a_plan(odd: Database) -> None:
    """Each function is called with arguments of wrong types and counts: one of them by default, all in full."""
    draw = random.Random(7)  # noqa: S311 - which calls are tried
    names = sorted({str(row["routine_name"]) for row in routines()})
    told = {}
    for name in names:
        for arguments in ARGUMENTS if IS_FULL else [draw.choice(ARGUMENTS)]:
            sql = f"EXPLAIN SELECT {name}({arguments}) FROM t"
            told[sql] = said(odd, sql)
    assert {sql: text for sql, text in told.items() if INSIDE.search(text) or "[internal]" in text} == {}


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_to_write_in_place_of_a_foreign_function_is_answered(odd: Database, name: str) -> None:
    columns = "a, b, s, ts, ts AS ts2, l AS list FROM t"
    first = re.split(r", (?:or|with|for) ", INSTEAD[name])[0]
    assert odd.rows(f"EXPLAIN SELECT {first} FROM (SELECT {columns}) {'GROUP BY s' if 'grouping' in first else ''}")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("month(ts)", "Invalid function 'month'; write date_part('month', ts)"),
        ("mod(a, b)", "write a % b"),
        ("len(s)", "write length(s)"),
        ("GROUP_CONCAT(s)", "write string_agg(s, ',')"),
        ("charindex('a', s)", "write strpos(s, 'a'), with the text first"),
        ("rank()", "write rank(…) OVER (ORDER BY …)"),
        ("lag(a)", "write lag(…) OVER (ORDER BY …)"),
    ],
)
def test_a_function_of_another_system_is_told_by_its_meaning(odd: Database, call: str, says: str) -> None:
    assert says in said(odd, f"SELECT {call} FROM t")


@pytest.mark.parametrize("name", ["nope", "soundex", "crc32", "sleep", "lagg", "to_jason"])
def test_no_function_of_another_meaning_is_suggested(odd: Database, name: str) -> None:
    assert said(odd, f"SELECT {name}(s) FROM t") == f"[42000] [invalid_sql] Invalid function '{name}'"
    assert function_advice(name) == ""


DUMPS = [
    'Internal error: no rule for Foo { expr: Column(Column { relation: Some(Bare { table: "t" }), name: "a" }) }',
    "Expr::InSubquery is not known here",
    "This feature is not implemented: Unsupported ast node in sqltorel: Whatever { a: 1 }",
    "Schema error: No column __common_expr_3 in the input",
    "Error during planning: cannot resolve outer_ref(t.a)",
]


@pytest.mark.parametrize("dump", DUMPS)
def test_an_unknown_inside_goes_to_the_log_and_a_reference_to_the_client(
    caplog: pytest.LogCaptureFixture, dump: str
) -> None:
    error = plain_error(RuntimeError(dump), SqlError)
    assert isinstance(error, Unsupported)
    found = re.search(r"under reference ([0-9a-f]{8})$", str(error))
    assert found is not None
    assert not INSIDE.search(str(error))
    assert len(str(error)) < 250
    assert found[1] in caplog.text
    assert dump in caplog.text
    assert plain_message(RuntimeError(dump)) != dump
