"""What statements are told that cannot be run: a sentence about the SQL, where it is wrong and what to write, never the inside of a plan."""

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


NAMES = [
    pytest.param("SELECT * FROM hollow", ["'hollow'", "no table in it that can be read"], id="a directory alone"),
    pytest.param("SELECT * FROM planes", ["'planes'", "did you mean elsewhere.planes?"], id="another schema"),
    pytest.param("DROP TABLE planes", ["'planes'", "did you mean elsewhere.planes?"], id="another schema of DROP"),
    pytest.param('SELECT * FROM "SAID"', ["no table 'SAID'", "there is 'said'", "in quotes"], id="another case"),
    pytest.param("SELECT * FROM sayd", ["did you mean 'said'?"], id="a slip"),
    pytest.param("INSERT INTO hollow VALUES (1)", ["'hollow'", "no table in it that can be read"], id="INSERT"),
]


@pytest.mark.parametrize(("statement", "said"), NAMES)
def test_a_table_that_is_not_there_is_never_itself_suggested(tables: Database, statement: str, said: list[str]) -> None:
    answer = tables.refuses(statement)
    assert "[not_found]" in answer
    assert all(part in answer for part in said), answer


HABITS = [
    pytest.param("\\d", "DESCRIBE t", id="\\d"),
    pytest.param("\\d said", "DESCRIBE t", id="\\d of a table"),
    pytest.param("\\dt+", "SHOW TABLES", id="\\dt+"),
    pytest.param("\\l", "SHOW TABLES", id="\\l"),
    pytest.param("\\q", "close the connection", id="\\q"),
    pytest.param("\\?", "SHOW TABLES", id="\\?"),
    pytest.param("?", "SHOW TABLES", id="?"),
    pytest.param("help", "SHOW TABLES", id="help"),
    pytest.param("help;", "SHOW TABLES", id="help;"),
    pytest.param(".tables", "SHOW TABLES", id=".tables"),
    pytest.param(".schema said", "DESCRIBE t", id=".schema"),
    pytest.param(".quit", "close the connection", id=".quit"),
    pytest.param("COPY said FROM 'x.csv'", "adbc_ingest", id="COPY FROM"),
    pytest.param("COPY (SELECT 1) TO 'x.csv'", "adbc_ingest", id="COPY TO"),
    pytest.param("COPY said TO 'x.parquet'", "lance-flight export t -o FILE", id="COPY TO a file"),
    pytest.param("COPY said FROM 'x.csv'", "lance-flight ingest FILE --table t", id="COPY FROM a file"),
    pytest.param("LOAD DATA INFILE 'x' INTO TABLE said", "adbc_ingest", id="LOAD DATA"),
    pytest.param("SHOW DATABASES", "SHOW SCHEMAS", id="SHOW DATABASES"),
    pytest.param("DESCRIBE EXTENDED said", "DESCRIBE t", id="DESCRIBE EXTENDED"),
    pytest.param("DESC HISTORY said", "t$snapshots", id="DESCRIBE HISTORY"),
    pytest.param("PRAGMA table_info('said')", "DESCRIBE t", id="PRAGMA"),
    pytest.param("END", "autocommit", id="END"),
    pytest.param("ABORT", "ROLLBACK", id="ABORT"),
    pytest.param("GRANT SELECT ON said TO ann", "policies", id="GRANT"),
    pytest.param("OPTIMIZE said", "ALTER TABLE t COMPACT", id="OPTIMIZE"),
    pytest.param("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE OR REPLACE VIEW", id="CREATE MATERIALIZED VIEW"),
    pytest.param("CREATE DATABASE s", "CREATE SCHEMA s", id="CREATE DATABASE"),
    pytest.param("DROP DATABASE s", "DROP SCHEMA s", id="DROP DATABASE"),
    pytest.param("INSERT OR REPLACE INTO said VALUES (1)", "MERGE INTO", id="INSERT OR REPLACE"),
    pytest.param("REPLACE INTO said VALUES (1)", "MERGE INTO", id="REPLACE INTO"),
    pytest.param("PREPARE p AS SELECT 1", "bind", id="PREPARE"),
    pytest.param("TABLE said", "SELECT * FROM t", id="TABLE"),
    pytest.param("RENAME TABLE said TO other", "ALTER TABLE t RENAME TO u", id="RENAME TABLE"),
    pytest.param("REFRESH TABLE said", "newest version", id="REFRESH TABLE"),
]


@pytest.mark.parametrize(("statement", "said"), HABITS)
def test_statements_of_other_systems_are_told_what_to_write(tables: Database, statement: str, said: str) -> None:
    answer = tables.refuses(statement)
    assert "[invalid_sql]" in answer
    assert "begins no statement here: " in answer
    assert said in answer


def test_a_table_may_be_called_like_a_word_of_other_systems(database: Database) -> None:
    for name in ("history", "help", "extended", "copy", "schemas"):
        database.run(f"CREATE TABLE {name} (id INT)")
        assert database.rows(f"DESC {name}")
        assert database.rows(f"DESCRIBE public.{name}")
        database.run(f"DROP TABLE {name}")


FILES = {
    "read_parquet": "SELECT * FROM read_parquet('x.parquet')",
    "read_csv_auto": "SELECT * FROM read_csv_auto('x.csv')",
    "s3": "CREATE TABLE of_files AS SELECT * FROM s3('x')",
    "a file as a table": "SELECT * FROM 'x.parquet'",
    "a path as a table": 'SELECT * FROM "in/x.csv.gz"',
}


@pytest.mark.parametrize("statement", FILES.values(), ids=FILES)
def test_queries_of_files_are_told_how_files_come_in(tables: Database, statement: str) -> None:
    answer = tables.refuses(statement)
    assert "[not_found]" in answer or "[invalid_sql]" in answer
    assert "lance-flight ingest FILE --table t" in answer


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
