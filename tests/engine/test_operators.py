"""What DataFusion reads in another way than PostgreSQL and DuckDB: it means what these say, or is refused."""

from __future__ import annotations

import pytest

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
