"""What DataFusion reads in another way than PostgreSQL and DuckDB: it means what these say, or is refused."""

from __future__ import annotations

import pytest
from lance_flight.errors import Unsupported

from tests.engine.database import Database

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
REFUSED = {
    f"SELECT k FROM {A} RIGHT JOIN {B} USING (k)": "[unsupported] RIGHT JOIN … USING is not offered: write ON a.k = b.k",
    f"SELECT k FROM {A} FULL OUTER JOIN {B} USING (k)": "[unsupported] FULL JOIN … USING is not offered: write ON",
    f"SELECT k FROM {A} NATURAL RIGHT JOIN {B}": "[unsupported] RIGHT JOIN … USING is not offered",
    f"SELECT * FROM (SELECT k FROM {A} NATURAL FULL OUTER JOIN {B})": "[unsupported] FULL JOIN … USING is not offered",
    "SELECT 'a' SIMILAR TO p FROM (SELECT 'a' AS p)": "[unsupported] SIMILAR TO takes a pattern that is a literal",
    r"SELECT 'a' SIMILAR TO 'a\'": "ends with its escape character",
    "SELECT 'a' LIKE 'a!' ESCAPE '!'": "ends with its escape character",
    "SELECT 2 ^ 3": "[unsupported] ^ at character 10 is a power in some systems",
    "SELECT 1_000": "[unsupported] 1_000 at character 8 is no number; write its digits without _",
    "VALUES (1), (1) EXCEPT ALL VALUES (1)": "[unsupported] EXCEPT ALL is not offered: write EXCEPT",
    "SELECT 1 INTERSECT ALL SELECT 1": "[unsupported] INTERSECT ALL is not offered: write INTERSECT",
    "SELECT * FROM (SELECT 1 AS x EXCEPT ALL SELECT 2)": "[unsupported] EXCEPT ALL is not offered",
}


@pytest.mark.parametrize(("sql", "says"), REFUSED.items())
def test_what_would_answer_otherwise_is_refused(database: Database, sql: str, says: str) -> None:
    assert says in database.refuses(sql)


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


@pytest.mark.parametrize("pattern", ["Q", "Month", "MON", "YYYY year", "DAY", "J", "TZ", "WW"])
def test_to_char_refuses_other_patterns(database: Database, pattern: str) -> None:
    with pytest.raises(Unsupported, match="pattern"):
        database.value(f"SELECT to_char(TIMESTAMP '2024-05-06 07:08:09', '{pattern}')")


TIMES = [
    "SELECT d + INTERVAL '12 hours' FROM days",
    "SELECT d - INTERVAL '90 minutes' FROM days",
    "SELECT INTERVAL '1 day 2 hours' + d FROM days",
    "SELECT DATE '2024-01-01' + INTERVAL '12 hours'",
    "SELECT max(d + INTERVAL '1 second') FROM days",
    "SELECT 1 FROM days WHERE CAST(ts AS DATE) + INTERVAL '1' HOUR > ts",
    "SELECT 1 FROM days ORDER BY d + INTERVAL '3 hours'",
    "SELECT a.d FROM days AS a JOIN days AS b ON a.d + INTERVAL '1 hour' = b.ts",
    "SELECT 1 FROM days WHERE EXISTS (SELECT 1 FROM days AS u WHERE u.d + INTERVAL '1 hour' < days.ts)",
    "UPDATE days SET ts = d + INTERVAL '12 hours'",
]


@pytest.fixture(scope="module")
def days(database: Database) -> Database:
    database.run("CREATE TABLE days (d DATE, ts TIMESTAMP)")
    database.run("INSERT INTO days VALUES (DATE '2024-01-31', '2024-01-31 05:00:00')")
    return database


@pytest.mark.parametrize("statement", TIMES)
def test_a_date_takes_no_hours(days: Database, statement: str) -> None:
    with pytest.raises(Unsupported, match="AS TIMESTAMP"):
        days.run(statement) if statement.startswith("UPDATE") else days.query(statement)


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
    names = ["left(q.s,Int64(2))", "upper(q.s)", 'q.s || Utf8("x")', "q.s"]
    names += ['to_char(q.ts,Utf8("YYYY-MM"))', 'to_char(q.ts,Utf8("%Y"))']
    found = database.query(query)
    assert [list(row.items()) for row in found.to_pylist()] == [
        list(zip(names, ["ab", "ABC", "ab", "a", "2024-05", "2024"], strict=True))
    ]
    assert database.engine.describe(query).schema.names == names
    database.run(f"CREATE TABLE {table} AS SELECT 'abc'::varchar(2), 1 + 1")
    assert database.query(f"SELECT * FROM {table}").schema.names == ['Utf8("abc")', "Int64(1) + Int64(1)"]
    assert database.query(f"EXPLAIN {query}").num_rows > 0
