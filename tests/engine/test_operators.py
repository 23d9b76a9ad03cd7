"""What DataFusion reads or answers in another way than PostgreSQL and DuckDB: operators, sums beyond BIGINT, columns of one name."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.compat import checked_arithmetic
from lance_flight.engine.translation.evaluation import session_config
from lance_flight.engine.translation.rewriting import for_datafusion

from tests.engine.database import Database
from tests.selection import IS_FULL

# Text, pattern with its escape → what PostgreSQL answers.
SIMILAR = {
    ("abc", "'abc'"): True,
    ("abc", "'a'"): False,
    ("abc", "'ab'"): False,
    ("abc", "'%(b|d)%'"): True,
    ("abc", "'(b|c)%'"): False,
    ("abc", "'a_c'"): True,
    ("abc", "'a.c'"): False,
    ("a.c", "'a.c'"): True,
    ("a\nc", "'a%c'"): True,
    ("abbc", "'ab+c'"): True,
    ("abbc", "'ab{3}c'"): False,
    ("a%c", "'a!%c' ESCAPE '!'"): True,
    ("abc", "'a!%c' ESCAPE '!'"): False,
    ("a_c", r"'a\_c'"): True,
    ("axc", "'a[xy]c'"): True,
    ("azc", "'a[^xy]c'"): True,
    ("a^c", "'a^c'"): True,
    ("it's", "'it''s'"): True,
}


@pytest.mark.parametrize("negated", ["", "NOT "])
@pytest.mark.parametrize(("text", "pattern"), SIMILAR)
def test_similar_to_matches_the_whole_text(database: Database, text: str, pattern: str, negated: str) -> None:
    found = database.value(f"SELECT ? {negated}SIMILAR TO {pattern}", [text])
    assert found is (SIMILAR[text, pattern] ^ bool(negated))


# Text, pattern with its escape → what PostgreSQL answers.
LIKE = {
    ("5%", "'5!%' ESCAPE '!'"): True,
    ("5x", "'5!%' ESCAPE '!'"): False,
    ("5!", "'5!!' ESCAPE '!'"): True,
    ("a_b", "'a!_%' ESCAPE '!'"): True,
    ("axb", "'a!_%' ESCAPE '!'"): False,
    ("axb", "'!a_!b' ESCAPE '!'"): True,
    (r"a\b", r"'a\_' ESCAPE '!'"): True,
    (r"a\%", r"'a\%' ESCAPE ''"): True,
    ("a%", r"'a\%' ESCAPE ''"): False,
    ("a%", r"'a\%' ESCAPE '\'"): True,
    ("it's 5%", "'it''s _!%' ESCAPE '!'"): True,
}


@pytest.mark.parametrize("operator", ["LIKE", "NOT LIKE", "ILIKE"])
@pytest.mark.parametrize(("text", "pattern"), LIKE)
def test_like_takes_any_escape_character(database: Database, text: str, pattern: str, operator: str) -> None:
    found = database.value(f"SELECT ? {operator} {pattern}", [text])
    assert found is (LIKE[text, pattern] ^ operator.startswith("NOT"))


A, B = "(SELECT 1 AS k, 2 AS x) AS a", "(SELECT 3 AS k, 4 AS y) AS b"
CUT = {
    "'abcdef'::varchar(3)": "abc",
    "CAST('abcdef' AS VARCHAR(3))": "abc",
    "TRY_CAST('abcdef' AS CHAR(2))": "ab",
    "CAST(12345 AS VARCHAR(3))": "123",
    "12345::bigint::varchar(2)": "12",
    "upper('abc' || 'def')::varchar(4)": "ABCD",
    "('abc' || 'def')::varchar(4) || '!'": "abcd!",
    "'x' || 'abcdef'::varchar(3)": "xabc",
    "t.s::varchar(2)": "éa",
    "t.l[1]::varchar(1)": "ü",
    "CAST(CAST('abcdef' AS VARCHAR(3)) AS VARCHAR(2))": "ab",
    "CAST('abcdef' AS VARCHAR(3))::varchar(2)": "ab",
    "'ab'::varchar(3)": "ab",
    "'abc'::varchar": "abc",
    "CAST(NULL AS VARCHAR(3))": None,
    "?::varchar(3)": "par",
}


@pytest.mark.parametrize(("expression", "expected"), CUT.items())
def test_a_cast_to_a_text_of_a_length_cuts(database: Database, expression: str, expected: str | None) -> None:
    sql = f"SELECT {expression} AS x FROM (SELECT 'éab' AS s, ['üb'] AS l) AS t"
    assert database.value(sql, ["parameter"] if "?" in sql else None) == expected


# Pattern → what PostgreSQL answers for 2024-05-06 07:08:09.25; text in double quotes is as it is.
PATTERNS = {
    "YYYY-MM": "2024-05",
    "YYYY-MM-DD HH24:MI:SS": "2024-05-06 07:08:09",
    "yyyymmdd": "20240506",
    'YYYY-MM-DD"T"HH24:MI:SS.US': "2024-05-06T07:08:09.250000",
    "HH12:MI AM": "07:08 AM",
    "SS.MS": "09.250",
    "Dy DD Mon YY": "Mon 06 May 24",
    "FMMonth DDD": "May 127",
    "FMDay": "Monday",
    "IYYY-IW-ID": "2024-19-1",
    "%Y/%m": "2024/05",
    "--": "--",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_to_char_takes_patterns_of_postgresql(database: Database, pattern: str) -> None:
    moment = "TIMESTAMP '2024-05-06 07:08:09.25'"
    assert database.value(f"SELECT to_char({moment}, '{pattern}')") == PATTERNS[pattern]


@pytest.fixture(scope="module")
def days(database: Database) -> Database:
    database.run("CREATE TABLE days (d DATE, ts TIMESTAMP)")
    database.run("INSERT INTO days VALUES (DATE '2024-01-31', '2024-01-31 05:00:00')")
    return database


def test_a_date_takes_days_and_a_time_takes_hours(days: Database) -> None:
    for value, expected in {
        "d + INTERVAL '1 month'": "2024-02-29",
        "d + INTERVAL '48' DAY - INTERVAL '1 year'": "2023-03-19",
        "CAST(d AS TIMESTAMP) + INTERVAL '12 hours'": "2024-01-31 12:00:00",
        "ts + INTERVAL '90 minutes'": "2024-01-31 06:30:00",
        "date_trunc('month', d) + INTERVAL '1 hour'": "2024-01-01 01:00:00",
    }.items():
        assert str(days.value(f"SELECT {value} FROM days")) == expected, value


def test_columns_are_called_as_their_casts_and_patterns_are_written(database: Database, table: str) -> None:
    query = (
        "SELECT left(s, 2), upper(s::varchar(3)), CAST(s || 'x' AS CHAR(2)), TRY_CAST(s AS VARCHAR(1)),"
        " to_char(ts, 'YYYY-MM'), to_char(ts, '%Y') FROM (SELECT 'abcdef' AS s, TIMESTAMP '2024-05-06' AS ts) AS q"
    )
    names = ["left(s, 2)", "upper(s::varchar(3))", "CAST(s || 'x' AS CHAR(2))", "TRY_CAST(s AS VARCHAR(1))"]
    names += ["to_char(ts, 'YYYY-MM')", "to_char(ts, '%Y')"]
    found = database.query(query)
    assert [list(row.items()) for row in found.to_pylist()] == [
        list(zip(names, ["ab", "ABC", "ab", "a", "2024-05", "2024"], strict=True))
    ]
    assert database.engine.describe(query).schema.names == names
    database.run(f"CREATE TABLE {table} AS SELECT 'abc'::varchar(2), 1 + 1")
    assert database.query(f"SELECT * FROM {table}").schema.names == ["'abc'::varchar(2)", "1 + 1"]
    assert database.query(f"EXPLAIN {query}").num_rows > 0


IS, IS_NOT = "IS DISTINCT FROM", "IS NOT DISTINCT FROM"
BRACKETED = [
    pytest.param("1 IS DISTINCT FROM 2 AND true", "(1 IS DISTINCT FROM 2) AND true", id="AND"),
    pytest.param("1 IS NOT DISTINCT FROM 2 OR true", "(1 IS NOT DISTINCT FROM 2) OR true", id="OR"),
    pytest.param("NOT p IS DISTINCT FROM q AND p", "NOT (p IS DISTINCT FROM q) AND p", id="NOT"),
    pytest.param("q OR a + 1 IS DISTINCT FROM -b AND p", "q OR (a + 1 IS DISTINCT FROM -b) AND p", id="arithmetic"),
    pytest.param("a = b IS DISTINCT FROM a < b AND p", "(a = b IS DISTINCT FROM a < b) AND p", id="comparisons"),
    pytest.param(
        "p AND a BETWEEN 1 AND 2 IS DISTINCT FROM b BETWEEN 1 AND 2 AND q",
        "p AND (a BETWEEN 1 AND 2 IS DISTINCT FROM b BETWEEN 1 AND 2) AND q",
        id="BETWEEN",
    ),
    pytest.param("a NOT IN (1) IS DISTINCT FROM p AND q", "(a NOT IN (1) IS DISTINCT FROM p) AND q", id="NOT IN"),
    pytest.param("a IS NULL IS DISTINCT FROM p AND q", "(a IS NULL IS DISTINCT FROM p) AND q", id="IS NULL before"),
    pytest.param("a IS DISTINCT FROM b IS TRUE", "(a IS DISTINCT FROM b) IS TRUE", id="IS after"),
    ("p IS DISTINCT FROM q IS DISTINCT FROM p AND q", "((p IS DISTINCT FROM q) IS DISTINCT FROM p) AND q"),
    ("a IS DISTINCT FROM 1 AND b IS DISTINCT FROM 2 AND p", "(a IS DISTINCT FROM 1) AND (b IS DISTINCT FROM 2) AND p"),
    pytest.param(
        "CASE WHEN a IS DISTINCT FROM b AND p THEN 1 END IS DISTINCT FROM 1 AND q",
        "(CASE WHEN (a IS DISTINCT FROM b) AND p THEN 1 END IS DISTINCT FROM 1) AND q",
        id="CASE",
    ),
    pytest.param("(a IS DISTINCT FROM b AND p) OR q", "((a IS DISTINCT FROM b) AND p) OR q", id="in brackets"),
    pytest.param(
        "array_any_match([a], x -> x IS DISTINCT FROM b AND p)",
        "array_any_match([a], lambda x : (x IS DISTINCT FROM b) AND p)",
        id="in a lambda",
    ),
    pytest.param(
        "TIMESTAMP '2026-01-01' IS DISTINCT FROM a::TIMESTAMP AND p",
        "(TIMESTAMP(6) '2026-01-01' IS DISTINCT FROM a::TIMESTAMP(6)) AND p",
        id="types",
    ),
]
LEFT = [
    pytest.param("SELECT a IS DISTINCT FROM b AS x FROM t WHERE p AND q", id="an alias"),
    pytest.param("SELECT a IS DISTINCT FROM b x FROM t WHERE p AND q", id="an alias without AS"),
    pytest.param("SELECT * FROM t JOIN t AS u ON t.a IS DISTINCT FROM u.a JOIN t AS v ON p AND q", id="a join"),
    pytest.param("SELECT a IS DISTINCT FROM b, p AND q FROM t", id="a list"),
    pytest.param("SELECT DISTINCT a FROM t WHERE p AND q", id="DISTINCT"),
]


@pytest.mark.parametrize(("expression", "bracketed"), BRACKETED)
def test_the_comparison_ends_where_something_looser_begins(expression: str, bracketed: str) -> None:
    assert for_datafusion(f"SELECT {expression} FROM t") == f"SELECT {bracketed} FROM t"


@pytest.mark.parametrize("text", LEFT)
def test_what_nothing_looser_follows_is_left_alone(text: str) -> None:
    assert for_datafusion(text) == text


def expression(chosen: random.Random, depth: int = 0) -> tuple[str, str, int]:
    """A condition as one would write it, the same in all its brackets, and how tightly its last operator binds."""
    kind = (
        chosen.choice(["OR", "AND", "NOT", IS, IS_NOT, "=", "p", "q", "p", "NULL"])
        if depth < 4
        else chosen.choice("pq")
    )
    if kind in {"p", "q", "NULL"}:
        return kind, kind, 9
    binds = {"OR": 1, "AND": 2, "NOT": 3, IS: 4, IS_NOT: 4, "=": 5}[kind]
    left, right = expression(chosen, depth + 1), expression(chosen, depth + 1)
    written = [f"({text})" if tight < binds + (binds > 3) else text for text, _, tight in (left, right)]
    if kind == "NOT":
        return f"NOT {written[0]}", f"(NOT {left[1]})", binds
    return f"{written[0]} {kind} {written[1]}", f"({left[1]} {kind} {right[1]})", binds


def test_random_conditions_mean_what_their_brackets_say() -> None:
    chosen = random.Random(7)  # noqa: S311 - a fixed sample
    context = SessionContext(session_config())
    values = [True, False, None]
    rows = [{"p": p, "q": q} for p in values for q in values]
    context.register_record_batches(
        "t", [[pa.RecordBatch.from_pylist(rows, pa.schema({"p": pa.bool_(), "q": pa.bool_()}))]]
    )
    for _ in range(3000 if IS_FULL else 150):
        written, bracketed, _ = expression(chosen)
        query = "SELECT CAST({} AS BOOLEAN) AS x FROM t"
        found = context.sql(for_datafusion(query.format(written))).to_pydict()
        assert found == context.sql(query.format(bracketed)).to_pydict(), written


CONCATENATED = {
    "'a' || 5 % 3": "a2",
    "'1' || 2 * 3 || 4 - 1": "163",
    "2 + 3 || 'a' = '5a' AND 'b' || 'c' = 'bc'": True,
    "'x' || -1 || '*' || (3 - 2)": "x-1*1",
    "'a' || CASE WHEN true THEN 1 + 1 ELSE 2 END": "a2",
}


@pytest.mark.parametrize("expression", CONCATENATED)
def test_sums_and_products_bind_closer_than_concatenation(database: Database, expression: str) -> None:
    assert database.value(f"SELECT {expression}") == CONCATENATED[expression]


MOST = 2**63 - 1


@pytest.fixture(scope="module")
def wide(database: Database) -> Database:
    database.run(
        "CREATE TABLE wide (k BIGINT, i BIGINT, n INT, f DOUBLE, m DECIMAL(9, 2), d DATE, ts TIMESTAMP) PARTITIONED BY (k)"
    )
    database.run(
        f"INSERT INTO wide VALUES (1, {MOST}, 2147483647, 1.5, 2.50, DATE '2024-01-01', '2024-01-01 00:00:00'),"
        " (2, 5, 3, 2.0, 1.00, DATE '2024-01-02', '2024-01-02 00:00:00'), (3, -2, NULL, NULL, NULL, NULL, NULL)"
    )
    return database


def test_more_operators_than_are_checked_are_refused(wide: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_arithmetic, "MOST_OPERATORS", 20)
    many = " + ".join(["f"] * 22)
    assert wide.rows(f"SELECT {many} FROM wide WHERE k = 2") == [(44.0,)]
    assert "22 operators" in wide.refuses(f"SELECT i + 1, {many} FROM wide")


def test_sums_keep_their_types_and_names(wide: Database) -> None:
    found = wide.query(
        "SELECT sum(i), sum(n), sum(f), sum(m), i + n FROM wide WHERE k = 2 GROUP BY i + n ORDER BY i + n"
    )
    assert [str(kind) for kind in found.schema.types] == ["int64", "int64", "double", "decimal128(19, 2)", "int64"]
    assert found.column_names == ["sum(i)", "sum(n)", "sum(f)", "sum(m)", "i + n"]
    assert [float(value) for value in found.to_pylist()[0].values()] == [5, 3, 2, 1, 8]
    assert wide.value(f"SELECT sum(i) FROM (SELECT i - {MOST} AS i FROM wide WHERE k = 1) AS q") == 0
    assert wide.value("SELECT CAST(sum(CAST(i AS DECIMAL(38, 0))) AS VARCHAR) FROM wide WHERE k < 3") == str(MOST + 5)


def test_a_condition_with_arithmetic_prunes(wide: Database) -> None:
    plan = wide.query("EXPLAIN SELECT i FROM wide WHERE k + 1 = 3")["plan"].to_pylist()
    assert any("partitions: 1 / 3" in line for line in plan), plan


def test_a_condition_without_rows_is_planned_beside_a_check(wide: Database) -> None:
    assert wide.rows("SELECT i + 3 FROM wide WHERE NULL AND f >= f ORDER BY i") == []


# Query → the names and the values of its only row.
REPEATED = {
    "SELECT a, a FROM {t}": (["a", "a"], [1, 1]),
    "SELECT a, b, a, a FROM {t} ORDER BY a": (["a", "b", "a", "a"], [1, "x", 1, 1]),
    "SELECT *, a FROM {t}": (["a", "b", "a"], [1, "x", 1]),
    "SELECT b, * FROM {t}": (["b", "a", "b"], ["x", 1, "x"]),
    "SELECT count(*), count(*) FROM {t}": (["count(*)", "count(*)"], [1, 1]),
    "SELECT * FROM (SELECT 1, 1, a FROM {t}) AS q": (["1", "1_1", "a"], [1, 1, 1]),
    "WITH w(n, m) AS (SELECT 1, 1) SELECT n, m FROM w": (["n", "m"], [1, 1]),
    "SELECT 1 AS x, 2 AS x": (["x", "x"], [1, 2]),
    'SELECT 1 x, 2 "x", 3 AS X': (["x", "x", "x"], [1, 2, 3]),
    "SELECT {t}.a, a, sum(a) s, sum(a) s FROM {t} GROUP BY a": (["a", "a", "s", "s"], [1, 1, 1, 1]),
    "WITH w AS (SELECT a FROM {t}) SELECT a, a FROM w": (["a", "a"], [1, 1]),
    "SELECT a, a FROM {t} UNION SELECT 1, 1": (["a", "a"], [1, 1]),
    "SELECT DISTINCT a, a FROM {t} LIMIT 1": (["a", "a"], [1, 1]),
    "SELECT CAST(a AS INT), CAST(a AS SMALLINT), a + 1, a::INT FROM {t}": (
        ["CAST(a AS INT)", "CAST(a AS SMALLINT)", "a + 1", "a::INT"],
        [1, 1, 2, 1],
    ),
    "SELECT CAST('1.005' AS DECIMAL(10, 2)), CAST(1.005 AS DECIMAL(10, 2))": (
        ["CAST('1.005' AS DECIMAL(10, 2))", "CAST(1.005 AS DECIMAL(10, 2))"],
        [Decimal("1.01")] * 2,
    ),
    "SELECT 1.0 = 1, 1e0 = 1": (["1.0 = 1", "1e0 = 1"], [True, True]),
    "SELECT ?::BIGINT AS p, ?::BIGINT AS p": (["p", "p"], [7, 8]),
}


@pytest.mark.parametrize("sql", REPEATED)
def test_columns_of_one_name_are_all_there(database: Database, table: str, sql: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS a, 'x' AS b")
    text = sql.format(t=table)
    found = database.query(text, [7, 8] if "?" in sql else None)
    names, values = REPEATED[sql]
    assert found.schema.names == [name.format(t=table) for name in names]
    assert [column.to_pylist() for column in found.columns] == [[value] for value in values]
    described = database.engine.describe(text).schema
    assert (described.names, described.types) == (found.schema.names, found.schema.types)


NEGATIVES = {
    "-i": 2**31,
    "-s": 2**15,
    "-(-i)": -(2**31),
    "- -b": -(2**63) + 1,
    "k - -i": 1 - 2**31,
    "-i * -k": -(2**31),
    "2 * -(i + k)": 2**32 - 2,
    "-i::BIGINT": 2**31,
    "-f - -i": -1.5 - 2**31,
    "-d": Decimal("-2.50"),
    "i=-i": False,
    "-(2.5)::INT": -3,
    "- /* of */ i": 2**31,
    "-0.5 + d + i * k": Decimal("-2147483646.00"),
    "array_length([1, 2, 3][-2:])": 2,
    "[1, 2, 3][-k:3]": [3],
    "-percentile_cont(0.5) WITHIN GROUP (ORDER BY f) + sum(i)": -1.5 - 2**31,
    "sum(-i)": 2**31,
    "CASE WHEN -k < 0 THEN -i END": 2**31,
    "array_length(list_transform([b], x -> -x))": 1,
}
"""Negatives of the least values of their types, and of others beside them."""


def test_the_negative_of_an_integer_is_never_the_integer_itself(database: Database, table: str) -> None:
    database.run(
        f"CREATE TABLE {table} AS SELECT CAST(-2147483648 AS INT) AS i, CAST(-32768 AS SMALLINT) AS s, -9223372036854775807 AS b, 1.5 AS f,"
        " CAST(2.5 AS DECIMAL(5, 2)) AS d, CAST(1 AS INT) AS k"
    )
    assert {text: database.value(f"SELECT {text} FROM {table}") for text in NEGATIVES} == NEGATIVES
    # Partitions are left out by a negative as by the column.
    database.run(f"CREATE TABLE {table}_p PARTITIONED BY (k) AS SELECT value % 3 AS k FROM range(9)")
    (report,) = (
        row[1] for row in database.rows(f"EXPLAIN SELECT k FROM {table}_p WHERE -k = -1") if row[0] == "partitions"
    )
    assert "partitions: 1 / 3" in report


LISTS_OF_NULLS = [
    (f"{one}::INT[]", f"{other}::INT[]")
    for one, other in [("NULL", "[]"), ("[]", "NULL"), ("NULL", "[NULL]"), ("NULL", "[1]"), ("[1]", "NULL")]
]


@pytest.mark.parametrize(
    "function", ["array_has_all({}, {})", "array_has_any({}, {})", "{} @> {}", "{} <@ {}", "{} && {}"]
)
def test_what_is_asked_of_a_list_that_is_null_is_null(database: Database, function: str) -> None:
    asked = ", ".join(function.format(*lists) for lists in LISTS_OF_NULLS)
    assert database.rows(f"SELECT {asked}") == [(None,) * len(LISTS_OF_NULLS)]
