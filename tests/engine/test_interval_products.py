"""Products of intervals and numbers: what PostgreSQL answers, by Python's arithmetic of dates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest

from tests.engine.database import Database


@pytest.fixture(scope="module")
def moments(database: Database) -> Iterator[Database]:
    database.run("CREATE TABLE m (id BIGINT, a BIGINT, f DOUBLE, d DATE, ts TIMESTAMP)")
    database.run(
        "INSERT INTO m VALUES (1, 2, 1.5, DATE '2024-01-31', TIMESTAMP '2024-01-31 00:00:00'),"
        " (2, -1, 0.1, DATE '2024-03-01', TIMESTAMP '2024-03-01 12:00:00'), (3, NULL, NULL, DATE '2024-01-01', NULL)"
    )
    yield database
    database.run("DROP TABLE m")


def at(day: int, hour: int = 0, month: int = 1) -> datetime:
    return datetime(2024, month, day, hour)


FIRST = "TIMESTAMP '2024-01-01 00:00:00'"
LITERALS: dict[str, datetime] = {
    "INTERVAL '1 day' * 2": at(3),
    "2 * INTERVAL '1 day'": at(3),
    "INTERVAL '2' DAY * 3": at(7),
    "INTERVAL 2 DAY * 3": at(7),
    "INTERVAL '1 day' * -1 + INTERVAL '1 week'": at(7),
    "INTERVAL '1 day' / 2": at(1, 12),
    "INTERVAL '1 day' * 1.5": at(2, 12),
    "INTERVAL '1 month 2 days' * 2": at(5, month=3),
    "INTERVAL '1 month' * 0.5": at(16),
    "INTERVAL '1 year' / 12": at(1, month=2),
    "INTERVAL '12 hours' * (1 + 1)": at(2),
    "abs(-2) * INTERVAL '1 day'": at(3),
    "CAST('2' AS BIGINT) * INTERVAL '1 day'": at(3),
    "CASE WHEN true THEN 2 END * INTERVAL '1 day'": at(3),
}


@pytest.mark.parametrize("interval", LITERALS)
def test_a_product_of_literals(moments: Database, interval: str) -> None:
    assert moments.value(f"SELECT {FIRST} + {interval}") == LITERALS[interval]


COLUMNS: dict[str, list[Any]] = {
    "d + INTERVAL '1 day' * a": [date(2024, 2, 2), date(2024, 2, 29), None],
    "d + a * INTERVAL '1 day'": [date(2024, 2, 2), date(2024, 2, 29), None],
    "d - m.a * INTERVAL '1 month'": [date(2023, 11, 30), date(2024, 4, 1), None],
    "ts + INTERVAL '1' HOUR * a": [at(31, 2), at(1, 11, month=3), None],
    "ts + INTERVAL '1 hour 30 minutes' * a": [at(31, 3), datetime(2024, 3, 1, 10, 30), None],
    "ts + INTERVAL '10 days' * f": [at(15, month=2), at(2, 12, month=3), None],
    "ts + (a + 1) * INTERVAL '1 day'": [at(3, month=2), at(1, 12, month=3), None],
    "ts + -a * INTERVAL '1 day'": [at(29), at(2, 12, month=3), None],
}


@pytest.mark.parametrize("expression", COLUMNS)
def test_a_product_with_a_column(moments: Database, expression: str) -> None:
    assert [value for (value,) in moments.rows(f"SELECT {expression} FROM m ORDER BY id")] == COLUMNS[expression]


def test_rows_are_found_by_a_product_with_a_parameter(moments: Database) -> None:
    sql = "SELECT id FROM m WHERE ts < TIMESTAMP '2024-01-30 00:00:00' + ? * INTERVAL '1 day'"
    assert moments.rows(sql, [2]) == [(1,)]


REFUSED = {
    "SELECT d + INTERVAL '1 hour' * a FROM m": "write CAST(d AS TIMESTAMP) in place of d",
    "SELECT d + a * INTERVAL '30 minutes' FROM m": "write CAST(d AS TIMESTAMP) in place of d",
    "SELECT INTERVAL '1 day' / a FROM m": "write INTERVAL '1 day' * (a + 1)",
    "SELECT INTERVAL '1 day' / 0": "write INTERVAL '1 day' * (a + 1)",
    "SELECT INTERVAL '1 day' * 2 * a FROM m": "write INTERVAL '1 day' * (a + 1)",
    "SELECT a * 2 * INTERVAL '1 day' FROM m": "write INTERVAL '1 day' * (a + 1)",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_computed_is_refused(moments: Database, sql: str) -> None:
    assert REFUSED[sql] in moments.refuses(sql)
