"""What statements are told that cannot be run: a sentence about the SQL, where it is wrong and what to write, never the inside of a plan."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_flight.engine.functions.foreign_functions import function_advice
from lance_flight.engine.functions.function_table import advice
from lance_flight.engine.functions.routines import routines
from lance_flight.engine.translation.plan_messages import plain_error, plain_message
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


@pytest.mark.parametrize("name", sorted(advice()))
def test_what_to_write_in_place_of_a_foreign_function_is_answered(odd: Database, name: str) -> None:
    columns = "a, b, s, ts, ts AS ts2, l AS list FROM t"
    first = re.split(r", (?:or|with|for) ", advice()[name])[0]
    assert odd.rows(f"EXPLAIN SELECT {first} FROM (SELECT {columns}) {'GROUP BY s' if 'grouping' in first else ''}")


@pytest.mark.parametrize("condition", ["s -> s = '1'"])
def test_calls_that_stand_in_for_an_operator_are_answered(odd: Database, condition: str) -> None:
    text = said(odd, f"SELECT id FROM t WHERE {condition}")
    call = re.search(r"write (\w+\([^)]*\))", text)
    assert call is not None, text
    assert odd.rows(f"EXPLAIN SELECT {call[1]} FROM (SELECT s, l AS a, l AS b FROM t)")


@pytest.mark.parametrize("name", ["nope", "metaphone", "crc32", "sleep", "to_jason", "map_from_entries"])
def test_no_function_of_another_meaning_is_suggested(odd: Database, name: str) -> None:
    assert said(odd, f"SELECT {name}(s) FROM t") == f"[42000] [invalid_sql] Invalid function '{name}'"
    assert function_advice(name) == ""


@pytest.mark.parametrize(
    ("slip", "name"), [("lagg", "lag"), ("uper", "upper"), ("datedif", "datediff"), ("yearr", "year")]
)
def test_a_slip_of_the_keyboard_is_told(odd: Database, slip: str, name: str) -> None:
    told = f"[42000] [invalid_sql] Invalid function '{slip}'; did you mean {name}?"
    assert said(odd, f"SELECT {slip}(s) FROM t") == told


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


@pytest.fixture(scope="module")
def tables(database: Database) -> Iterator[Database]:
    """Tables of several schemas and cases, and directories that look like tables."""
    (database.root / "elsewhere").mkdir()
    (database.root / "hollow.lance" / "data").mkdir(parents=True)
    database.run("CREATE TABLE said (id BIGINT, at TIMESTAMP, p VARCHAR) PARTITIONED BY (p)")
    database.run("CREATE TABLE elsewhere.planes (id BIGINT)")
    yield database
    database.run("DROP TABLE said")
    database.run("DROP TABLE elsewhere.planes")


@pytest.mark.parametrize("statement", ["SELECT * FROM hollow", "INSERT INTO hollow VALUES (1)"])
def test_a_directory_that_looks_like_a_table_is_never_suggested(tables: Database, statement: str) -> None:
    assert "[not_found] no table 'hollow'" in tables.refuses(statement)
    assert "no table in it that can be read" in tables.refuses(statement)


def test_a_table_may_be_called_like_a_word_of_other_systems(database: Database) -> None:
    for name in ("history", "help", "extended", "copy", "schemas"):
        database.run(f"CREATE TABLE {name} (id INT)")
        assert database.rows(f"DESC {name}")
        assert database.rows(f"DESCRIBE public.{name}")
        database.run(f"DROP TABLE {name}")


POSITIONS = [
    pytest.param("SELECT id FROM said WHERE ) = 1", "line 1, column 27", id="a query"),
    pytest.param("  /* x */\n\n SELECT id\nFROM said WHERE ) = 1 ;", "line 4, column 17", id="lines"),
    pytest.param("SELECT at::TIMESTAMP, CAST(at AS DATETIME) FROM said WHERE ) = 1", "line 1, column 60", id="types"),
    pytest.param("SELECT ?, ?, ? FROM said WHERE ) = 1", "line 1, column 32", id="parameters"),
    pytest.param("SELECT murmur3(id), murmur3(p) FROM said WHERE ) = 1", "line 1, column 48", id="hashes"),
    pytest.param("SELECT id IS DISTINCT FROM 1 AND true FROM said WHERE ) = 1", "line 1, column 55", id="brackets"),
    pytest.param("SELECT p FROM said GROUP BY p WITH ROLLUP HAVING ) = 1", "line 1, column 50", id="ROLLUP"),
    pytest.param("EXPLAIN\nSELECT id FROM said WHERE ) = 1", "line 2, column 27", id="EXPLAIN"),
    pytest.param("CREATE TABLE x AS\nSELECT id FROM said WHERE id = = 1", "line 2, column 32", id="CREATE TABLE AS"),
    pytest.param("INSERT INTO said SELECT 1, 1, * FROM said WHERE id = = 1", "line 1, column 54", id="INSERT"),
    pytest.param("INSERT INTO said VALUES (?, ?, 'x'), (1, 2 3)", "line 1, column 44", id="VALUES"),
    pytest.param("DELETE FROM said AS s\nWHERE id = 1 AND p = = 'x'", "line 2, column 22", id="DELETE"),
    pytest.param("UPDATE said SET id = id + + * 2 WHERE p = 'x'", "line 1, column 29", id="UPDATE"),
    ("UPDATE said SET id = 2 WHERE at = TIMESTAMP '2026-01-01' AND p = = 'x'", "line 1, column 66"),
    ("MERGE INTO said USING (SELECT 1 AS id) AS s\nON said.id = = s.id WHEN MATCHED THEN DELETE", "line 2, column 14"),
    pytest.param("SHOW PARTITIONS said WHERE rows = = 1", "line 1, column 35", id="SHOW PARTITIONS"),
    pytest.param("SELECT id, at::TIMESTAMP FROM said\nPREWHERE id = 1", "line 2, column 1", id="a clause"),
    pytest.param("DELETE FROM said WHERE EXISTS (SELECT 1 FROM said\n FOR UPDATE)", "line 2, column 2", id="in DELETE"),
    pytest.param("UPDATE said SET id = ?, p = ?, ! = 1", "character 32", id="an error of ours"),
    pytest.param("EXPLAIN UPDATE said SET id = ?, ! = 1", "character 33", id="one in EXPLAIN"),
]


@pytest.mark.parametrize(("statement", "position"), POSITIONS)
def test_positions_are_those_of_the_text_that_was_sent(tables: Database, statement: str, position: str) -> None:
    answer = tables.refuses(statement, [None] * statement.count("?") or None)
    assert f"at {position}" in answer
    assert "Column: " not in answer


def test_a_type_that_is_none_has_no_position_of_a_text_that_nobody_sent(database: Database) -> None:
    answer = database.refuses("CREATE TABLE x (id INT, a BIGINT BIGINT)")
    assert "'BIGINT BIGINT' is not a type" in answer
    assert "Column: " not in answer
