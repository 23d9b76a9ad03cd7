"""Conditions on computed values prune partitions, and select the rows that they select without partitions."""

from __future__ import annotations

import operator
import re
from datetime import datetime

import pytest

from tests.engine.database import Database

COLUMNS = "id BIGINT, s VARCHAR, k INT, ts TIMESTAMP, d DATE, tz TIMESTAMPTZ"
LAYOUTS = {
    "identities": "id, s, k, d",
    "expressions": "expr('lower(col0)', s) AS low, expr('col0 % 7', k) AS rest",
    "letters": "truncate(1, s), truncate(10, id)",
    "times": "year(ts), month(ts), day(ts)",
    "buckets": "bucket(8, id)",
    "months": "year(d), month(d)",
}
DAYS = ("1969-12-31", "1970-01-01", "2023-12-31", "2024-01-01", "2024-01-31", "2024-02-01", "2024-02-29", "2025-01-01")
ROWS = [
    *(
        f"({n}, '{s}', {n * 3 - 20}, '{day}T{n + 9:02d}:59:59.999999', '{day}', '{day}T23:30:00Z')"
        for n, (s, day) in enumerate(zip(("a", "A", "ab", "Ab", "b", "B", "é", "zz"), DAYS, strict=True))
    ),
    "(NULL, NULL, NULL, NULL, NULL, NULL)",
    "(9223372036854775807, '', 2147483647, '1700-01-01T00:00:00', '1700-01-01', '2024-06-30T23:59:59Z')",
    "(-9223372036854775808, 'c', -2147483648, '2024-01-01T00:00:00', '2024-01-01', '2024-07-01T00:00:00Z')",
]


@pytest.fixture(scope="module")
def tables(database: Database) -> Database:
    """The same rows in every layout, and in none."""
    database.run(f"CREATE TABLE plain ({COLUMNS})")
    database.run(f"INSERT INTO plain VALUES {', '.join(ROWS)}")
    for name, fields in LAYOUTS.items():
        database.run(f"CREATE TABLE {name} ({COLUMNS}) PARTITIONED BY ({fields})")
        database.run(f"INSERT INTO {name} VALUES {', '.join(ROWS)}")
    return database


def partitions(database: Database, table: str, condition: str) -> tuple[int, str]:
    """The partitions that a query with this condition reads, and the report about them."""
    rows = database.rows(f"EXPLAIN SELECT * FROM {table} WHERE {condition}")
    (report,) = [text for kind, text in rows if kind == "partitions"]
    return int(re.match(r"partitions: (\d+) /", report)[1]), report  # type: ignore[index]


@pytest.mark.sample(14)
@pytest.mark.parametrize(
    ("table", "condition", "read"),
    [
        pytest.param("expressions", "lower(s) = 'a'", 2, id="the stored expression"),
        pytest.param("expressions", "lower(s) IN ('a', 'zz')", 3, id="the stored expression in a list"),
        pytest.param("expressions", "lower(s) LIKE 'a%'", 4, id="the stored expression by a prefix"),
        pytest.param("expressions", "upper(lower(s)) = 'B'", 2, id="a function of the stored expression"),
        pytest.param("expressions", "lower(s) IS NULL", 1, id="the stored expression that is null"),
        pytest.param("expressions", "k % 7 = 3", 0, id="a remainder that no row has"),
        pytest.param("expressions", "k % 7 = -3", 1, id="a negative remainder"),
        pytest.param("letters", "left(s, 1) = 'a'", 1, id="a prefix of the truncation's width"),
        pytest.param("letters", "substr(s, 1, 1) = 'a'", 1, id="a substring"),
        pytest.param("letters", "substring(s from 1 for 1) IN ('b', 'c')", 2, id="substrings"),
        pytest.param("letters", "left(s, 2) = 'ab'", 1, id="a longer prefix"),
        pytest.param("letters", "left(s, 1) = 'ab'", 0, id="a prefix that is too long"),
        pytest.param("letters", "id + 1 = 6 AND id < 100 AND id > -100", 6, id="a sum under a truncation"),
        pytest.param("buckets", "id + 1 = 6 AND id < 100 AND id > -100", 1, id="a sum under buckets"),
        pytest.param("buckets", "1 - id = -4 AND id < 100 AND id > -100", 1, id="a difference"),
        pytest.param("buckets", "id = 5.0", 1, id="a float that is an integer"),
        pytest.param("buckets", "id = 5.5", 0, id="a float that is none"),
        pytest.param("buckets", "-id = -5 AND id < 100 AND id > -100", 1, id="a negation"),
        pytest.param("identities", "id % 3 = 1", 4, id="a remainder of an identity"),
        pytest.param("identities", "lower(s) = 'a'", 2, id="a function of an identity"),
        pytest.param("identities", "s LIKE '%b'", 3, id="a pattern"),
        pytest.param("identities", "s LIKE 'a%b'", 1, id="a pattern with a beginning"),
        pytest.param("letters", "s LIKE 'a%b'", 1, id="a pattern with a beginning under a truncation"),
        pytest.param("identities", "s ILIKE 'A%'", 4, id="a pattern in any case"),
        pytest.param("identities", "coalesce(d, DATE '2025-01-01') = '2025-01-01'", 2, id="coalesce"),
        pytest.param("identities", "s || d = 'a1969-12-31'", 1, id="two columns"),
        pytest.param("identities", "lower(s) = 'a' OR k + 1 = -10", 3, id="alternatives"),
        pytest.param("identities", "NOT lower(s) = 'a'", 8, id="a negation, which NULL does not fulfil"),
        pytest.param("identities", "CAST(id AS VARCHAR) || s = '0a'", 1, id="a cast to text"),
        pytest.param("times", "date_trunc('month', ts) = '2024-01-01'", 2, id="a month"),
        pytest.param("times", "date_trunc('month', ts) >= TIMESTAMP '2024-01-02T00:00:00'", 3, id="after a month"),
        pytest.param("times", "date_trunc('quarter', ts) = '2024-01-01'", 4, id="a quarter"),
        pytest.param("times", "date_bin(INTERVAL '1 day', ts) = '2024-01-31'", 1, id="date_bin"),
        pytest.param("times", "CAST(ts AS DATE) = '2024-02-29'", 1, id="the date of a timestamp"),
        pytest.param("times", "ts::date >= DATE '2024-02-29'", 2, id="dates from one on"),
        pytest.param("times", "ts::date BETWEEN '2024-01-31' AND '2024-02-01'", 2, id="dates between two"),
        pytest.param("times", "ts::date IN ('2024-01-31', '1969-12-31')", 2, id="some dates"),
        pytest.param("times", "ts - INTERVAL '1 day' >= TIMESTAMP '2024-02-28T00:00:00'", 2, id="an earlier moment"),
        pytest.param("times", "ts::date = '2024-01-01' AND extract(hour FROM ts) = 12", 1, id="with an hour"),
        pytest.param("months", "date_trunc('month', d) = DATE '2024-01-01'", 1, id="the month of a date"),
        ("months", "extract(year FROM d) * 100 + extract(month FROM d) = 202401", 1),
    ],
)
def test_a_condition_prunes_and_selects_the_same_rows(tables: Database, table: str, condition: str, read: int) -> None:
    found, report = partitions(tables, table, condition)
    assert found == read, report
    expected = tables.rows(f"SELECT * FROM plain WHERE {condition} ORDER BY id")
    assert tables.rows(f"SELECT * FROM {table} WHERE {condition} ORDER BY id") == expected
    assert tables.rows(f"SELECT count(*) FROM {table} WHERE {condition}") == [(len(expected),)]


@pytest.mark.parametrize(
    ("table", "condition", "why"),
    [
        pytest.param("letters", "lower(s) = 'a'", "no partition field that keeps s", id="no identity"),
        pytest.param("buckets", "id % 3 = 1", "no partition field that keeps id", id="buckets"),
        pytest.param("identities", "repeat(s, 2) = 'aa'", "it cannot be computed", id="a function that makes much"),
        pytest.param("identities", "10 / (k + 20) = 1", "it cannot be computed", id="a division by zero"),
    ],
)
def test_a_condition_that_does_not_prune_says_why(tables: Database, table: str, condition: str, why: str) -> None:
    found, report = partitions(tables, table, condition)
    assert found == tables.value(f"SELECT count(*) FROM {table}$partitions")
    assert why in report


@pytest.mark.parametrize(
    ("table", "condition", "read"),
    [
        pytest.param("identities", "d = (SELECT max(d) FROM identities)", 1, id="the last day of the same table"),
        pytest.param("identities", "d >= (SELECT max(d) FROM plain) - INTERVAL '310 days'", 2, id="the last days"),
        pytest.param("identities", "(SELECT min(k) FROM plain) = k", 1, id="the other way round"),
        pytest.param("times", "ts::date = (SELECT d FROM plain WHERE s = 'ab')", 1, id="of a computed value"),
        ("identities", "d BETWEEN (SELECT DATE '2024-01-31') AND (SELECT DATE '2024-02-01')", 2),
        pytest.param("buckets", "id = (SELECT max(id) FROM plain WHERE s = 'b') AND k < 0", 1, id="under buckets"),
    ],
)
def test_the_value_of_a_scalar_subquery_prunes(tables: Database, table: str, condition: str, read: int) -> None:
    rows = tables.rows(f"EXPLAIN ANALYZE SELECT * FROM {table} WHERE {condition}")
    reports = [text for kind, text in rows if kind == "partitions" and f"table {table}," in text]
    assert [report.split(" / ")[0] for report in reports] == [f"partitions: {read}"], rows
    assert any(kind == "dynamic pruning" and f": {read} of " in text for kind, text in rows)
    expected = tables.rows(f"SELECT * FROM plain WHERE {condition} ORDER BY id")
    assert tables.rows(f"SELECT * FROM {table} WHERE {condition} ORDER BY id") == expected


def test_a_subquery_of_no_row_is_null(tables: Database) -> None:
    assert tables.rows("SELECT * FROM identities WHERE d = (SELECT d FROM plain WHERE k = 12345)") == []


def test_a_subquery_of_several_rows_is_refused_as_without_pruning(tables: Database) -> None:
    assert "more than one row" in tables.refuses("SELECT * FROM identities WHERE d = (SELECT d FROM plain)")


def test_a_correlated_subquery_is_not_read_before(tables: Database) -> None:
    sql = "SELECT count(*) FROM identities i WHERE d = (SELECT max(d) FROM plain p WHERE p.s = i.s)"
    assert tables.rows(sql) == [(10,)]


COMPARISONS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MONTH_ENDS = [
    "2024-01-28",
    "2024-02-28",
    "2024-01-30 10:00:00",
    "2024-01-31 09:00:00",
    "2024-02-29",
    "2024-02-29 10:00:00",
    "2024-03-31",
]


@pytest.mark.parametrize("moved", ["ts + INTERVAL '1 month'", "ts - INTERVAL '1 month'", "last_day(ts)"])
def test_a_day_that_a_month_lacks_is_read_with_its_last(database: Database, moved: str) -> None:
    database.run("CREATE OR REPLACE TABLE ends (ts TIMESTAMP) PARTITIONED BY (ts)")
    rows = ", ".join(f"(TIMESTAMP '{each}')" for each in MONTH_ENDS)
    database.run(f"INSERT INTO ends VALUES {rows}")
    values = [(ts, datetime.fromisoformat(str(value))) for ts, value in database.rows(f"SELECT ts, {moved} FROM ends")]
    for sign, compare in COMPARISONS.items():
        for each in MONTH_ENDS:
            condition = f"{moved} {sign} TIMESTAMP '{each}'"
            kept = [ts for ts, value in values if compare(value, datetime.fromisoformat(each))]
            assert sorted(ts for (ts,) in database.rows(f"SELECT ts FROM ends WHERE {condition}")) == sorted(kept), (
                condition
            )
    assert partitions(database, "ends", f"{moved} < TIMESTAMP '{MONTH_ENDS[0]}'")[0] < len(MONTH_ENDS)
