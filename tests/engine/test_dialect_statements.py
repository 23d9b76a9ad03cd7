"""Statements and functions that users of DuckDB, PostgreSQL, Snowflake and Spark type: each is answered right, or refused with what to write."""

from __future__ import annotations

import datetime as dt
import re
from ast import literal_eval
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.engine import function_cases
from tests.engine.database import Database
from tests.engine.dialect_statements import ALIKE, ANSWERED, CHANGES, REFUSED, TABLES


@pytest.fixture(scope="module")
def shop(database: Database) -> Database:
    for statement in TABLES:
        database.run(statement)
    return database


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same tables in DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in TABLES:
            connection.execute(statement)
        yield connection


def plain(value: Any) -> Any:
    """A value without what both systems say in their own ways: digits, moments as texts, maps as pairs, intervals as days."""
    match value:
        case float() | Decimal():
            return round(float(value), 9)
        case dt.datetime():
            return value.replace(tzinfo=None, fold=0).isoformat().removesuffix("T00:00:00")
        case dt.date() | dt.time():
            return value.isoformat()
        case dict():
            return [[plain(key), plain(each)] for key, each in value.items()]
        case list() | tuple() if type(value).__name__ != "MonthDayNano":
            return [plain(each) for each in value]
    if type(value).__name__ == "MonthDayNano":
        return dt.timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds // 1000)
    return value


def rows(found: list[tuple[Any, ...]], sql: str) -> list[Any]:
    """Rows to compare, in their order where the statement gives one."""
    listed = [plain(row) for row in found]
    return listed if "ORDER BY" in sql.rpartition(")")[2] else sorted(listed, key=repr)


@pytest.mark.parametrize("sql", ALIKE)
def test_a_statement_is_answered_as_by_duckdb(shop: Database, duck: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert rows(shop.rows(sql), sql) == rows(duck.execute(sql).fetchall(), sql)


@pytest.mark.parametrize("sql", ANSWERED)
def test_a_statement_of_other_systems_is_answered(shop: Database, sql: str) -> None:
    assert rows(shop.rows(sql), sql) == literal_eval(ANSWERED[sql][0])


@pytest.mark.parametrize("statement", CHANGES)
def test_a_change_leaves_what_other_systems_leave(tmp_path: Path, statement: str) -> None:
    before, query, left = CHANGES[statement]
    with Database(tmp_path / "root").client() as client:
        for each in filter(None, [*before.split("; "), statement]):
            client.run(each)
        assert rows(client.rows(query), query) == literal_eval(left)


@pytest.mark.parametrize("statement", REFUSED)
def test_a_statement_is_refused_with_what_to_write(shop: Database, statement: str) -> None:
    said = shop.refuses(statement)
    assert REFUSED[statement][0] in said
    assert re.search(r"write |leave it out|files are read|rights are given|COMMIT or ROLLBACK|DROP TABLE of", said), (
        said
    )


def test_the_list_is_as_long_as_was_promised() -> None:
    """At least 400 entries, 360 of which work."""
    cases = function_cases
    answered = {*cases.VALUES, *cases.QUERIES, *cases.OF_OTHERS, *cases.AGGREGATED, *ALIKE, *ANSWERED, *CHANGES}
    assert len(answered) >= 360
    assert len(answered | REFUSED.keys()) >= 400
    assert len(ALIKE) + len(ANSWERED) + len(CHANGES) >= 360, "also without the cases of functions"
