"""What ODBC, JDBC and BI tools write for themselves: escapes, TOP and FETCH, and the tables of their sessions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.engine.dialects import spellings
from lance_flight.flight import metadata

from tests.engine.database import Client, Database

NOON = "{ts '2024-02-29 12:30:45'}"
CALLS = [
    pytest.param("{fn UCASE('ab')}", "AB", id="ucase"),
    pytest.param("{fn LCASE('AB')}", "ab", id="lcase"),
    pytest.param("{fn LENGTH('añb')}", 3, id="length"),
    pytest.param("{fn CHAR(65)}", "A", id="char"),
    pytest.param("{fn CONCAT('a', {fn CONCAT('b', 'c')})}", "abc", id="concat"),
    pytest.param("{fn LEFT('abc', 2)}", "ab", id="left"),
    pytest.param("{fn RIGHT('abc', 2)}", "bc", id="right"),
    pytest.param("{fn SUBSTRING('abcd', 2, 2)}", "bc", id="substring"),
    pytest.param("{fn LOCATE('c', 'abc')}", 3, id="locate"),
    pytest.param("{fn LOCATE('c', 'cbc', 2)}", 3, id="locate from a place on"),
    pytest.param("{fn POSITION('c' IN 'abc')}", 3, id="position"),
    pytest.param("{fn REPLACE('abc', 'b', 'x')}", "axc", id="replace"),
    pytest.param("{fn REPEAT('ab', 2)}", "abab", id="repeat"),
    pytest.param("{fn SPACE(2)} || 'a'", "  a", id="space"),
    pytest.param("{fn INSERT('abcd', 2, 2, 'xyz')}", "axyzd", id="insert"),
    pytest.param("{fn LTRIM({fn RTRIM(' a ')})}", "a", id="trim"),
    pytest.param("{fn ABS(-2)}", 2, id="abs"),
    pytest.param("{fn CEILING(1.5)}", 2.0, id="ceiling"),
    pytest.param("{fn FLOOR(1.5)}", 1.0, id="floor"),
    pytest.param("{fn ROUND(1.25, 1)}", 1.3, id="round"),
    pytest.param("{fn TRUNCATE(1.29, 1)}", 1.2, id="truncate"),
    pytest.param("{fn MOD(7, 1 + 3)}", 3, id="mod"),
    pytest.param("{fn SIGN(-3)}", -1.0, id="sign"),
    pytest.param("{fn LOG({fn EXP(2)})}", 2.0, id="log"),
    pytest.param("{fn POWER(2, 3)}", 8, id="power"),
    pytest.param("{fn RAND()} < 1", True, id="rand"),
    pytest.param(f"{{fn YEAR({NOON})}}", 2024, id="year"),
    pytest.param(f"{{fn QUARTER({NOON})}}", 1, id="quarter"),
    pytest.param(f"{{fn MONTH({NOON})}}", 2, id="month"),
    pytest.param(f"{{fn WEEK({NOON})}}", 9, id="week"),
    pytest.param(f"{{fn DAYOFMONTH({NOON})}}", 29, id="dayofmonth"),
    pytest.param(f"{{fn DAYOFYEAR({NOON})}}", 60, id="dayofyear"),
    pytest.param(f"{{fn DAYOFWEEK({NOON})}}", 5, id="dayofweek"),
    pytest.param(f"{{fn HOUR({NOON})}}", 12, id="hour"),
    pytest.param(f"{{fn MINUTE({NOON})}}", 30, id="minute"),
    pytest.param(f"{{fn SECOND({NOON})}}", 45, id="second"),
    pytest.param(f"{{fn EXTRACT(YEAR FROM {NOON})}}", 2024, id="extract"),
    pytest.param("{fn CURDATE()} = current_date()", True, id="curdate"),
    pytest.param("{fn CURTIME()} = current_time()", True, id="curtime"),
    pytest.param("{fn NOW()} = now()", True, id="now"),
    (f"{{fn TIMESTAMPADD(SQL_TSI_DAY, 1, {NOON})}}", dt.datetime(2024, 3, 1, 12, 30, 45)),
    (f"{{fn TIMESTAMPADD(SQL_TSI_MONTH, -1, {NOON})}}", dt.datetime(2024, 1, 29, 12, 30, 45)),
    ("{fn TIMESTAMPADD(SQL_TSI_HOUR, 5, {d '2024-02-29'})}", dt.datetime(2024, 2, 29, 5)),
    pytest.param(f"{{fn TIMESTAMPDIFF(SQL_TSI_HOUR, {{d '2024-02-28'}}, {NOON})}}", 36, id="timestampdiff, hours"),
    pytest.param(f"{{fn TIMESTAMPDIFF(SQL_TSI_MONTH, {{d '2023-11-30'}}, {NOON})}}", 3, id="timestampdiff, months"),
    pytest.param(f"{{fn TIMESTAMPDIFF(SQL_TSI_YEAR, {{d '2022-12-31'}}, {NOON})}}", 2, id="timestampdiff, years"),
    pytest.param("{fn IFNULL(NULL, 'x')}", "x", id="ifnull"),
    pytest.param("{fn CONVERT('12', SQL_BIGINT)}", 12, id="convert"),
    pytest.param("{fn CONVERT('1.5', SQL_DECIMAL)}", Decimal("1.5"), id="convert to decimal"),
    pytest.param("{fn DATABASE()}", "lance", id="database"),
    pytest.param("{fn USER()}", "anonymous", id="user"),
    pytest.param("{d '2024-02-29'}", dt.date(2024, 2, 29), id="a date"),
    pytest.param("{t '01:02:03'}", dt.time(1, 2, 3), id="a time"),
    pytest.param("{ts '2024-02-29 01:02:03.5'}", dt.datetime(2024, 2, 29, 1, 2, 3, 500_000), id="a timestamp"),
    pytest.param("'a%b' LIKE 'a\\%%' {escape '\\'}", True, id="an escape"),
    pytest.param("'{fn UCASE(a)}'", "{fn UCASE(a)}", id="in a text"),
]


@pytest.mark.parametrize(("call", "value"), CALLS)
def test_an_escape_means_what_odbc_says(database: Database, call: str, value: Any) -> None:
    assert database.value(f"SELECT {call} AS x") == value


def test_every_function_that_is_listed_is_known(database: Database) -> None:
    tried = str(CALLS).upper()
    for words in (
        metadata.NUMERIC_FUNCTIONS,
        metadata.STRING_FUNCTIONS,
        metadata.SYSTEM_FUNCTIONS,
        metadata.DATETIME_FUNCTIONS,
    ):
        of_odbc = [word for word in words if word.upper() in spellings._FUNCTIONS]
        assert [
            word for word in of_odbc if f"{{FN {word.upper()}(" not in tried and not word.startswith("current")
        ] == []


@pytest.fixture(scope="module")
def sales(database: Database) -> Database:
    database.run("CREATE TABLE sales (id INT, region VARCHAR, day DATE) PARTITIONED BY (region)")
    database.run("INSERT INTO sales VALUES (1, 'n', '2024-01-01'), (2, 's', '2024-01-02'), (3, 'n', '2024-01-03')")
    database.run("CREATE TABLE regions AS SELECT 'n' AS code, 'North' AS name")
    return database


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        pytest.param("SELECT TOP 2 id FROM sales ORDER BY id DESC", [(3,), (2,)], id="TOP"),
        pytest.param("SELECT id FROM sales ORDER BY id FETCH FIRST 1 ROW ONLY", [(1,)], id="FETCH FIRST"),
        ("SELECT id FROM sales ORDER BY id OFFSET 1 ROWS FETCH NEXT 5 ROWS ONLY", [(2,), (3,)]),
        pytest.param(
            "SELECT s.id, r.name FROM {oj sales s LEFT OUTER JOIN regions r ON s.region = r.code} ORDER BY 1",
            [(1, "North"), (2, None), (3, "North")],
            id="an outer join",
        ),
        pytest.param("SELECT id FROM sales WHERE day >= {d '2024-01-03'}", [(3,)], id="a condition"),
        pytest.param("EXPLAIN SELECT id FROM sales WHERE {fn UCASE(region)} = 'S'", None, id="EXPLAIN"),
    ],
)
def test_a_query_of_another_dialect_is_answered(sales: Database, sql: str, rows: list[tuple[Any, ...]] | None) -> None:
    found = sales.rows(sql)
    if rows is None:
        assert any(text.startswith("partitions: 1 / 2") for _, text in found)
    else:
        assert found == rows


def test_counts_of_rows_are_parameters(sales: Database) -> None:
    assert sales.rows("SELECT id FROM sales ORDER BY id FETCH FIRST ? ROWS ONLY", [2]) == [(1,), (2,)]
    assert sales.rows("SELECT TOP (?) id FROM sales ORDER BY id", [1]) == [(1,)]
    assert sales.rows("SELECT {fn CONCAT(?, region)} FROM sales WHERE id = {fn ABS(?)}", ["x", -2]) == [("xs",)]


def test_changes_take_escapes(sales: Database) -> None:
    sales.run("CREATE TABLE changed (id INT, day DATE)")
    assert sales.run("INSERT INTO changed VALUES (1, {d '2024-01-01'}), ({fn ABS(-2)}, {d '2024-01-02'})") == 2
    assert sales.run("UPDATE changed SET day = {d '2025-01-01'} WHERE id = {fn MOD(5, 4)}") == 1
    assert sales.run("DELETE FROM changed WHERE {fn YEAR(day)} = 2024") == 1
    assert sales.rows("SELECT id, day FROM changed") == [(1, dt.date(2025, 1, 1))]
    assert sales.run("INSERT INTO changed SELECT TOP 1 id, day FROM sales ORDER BY id DESC") == 1
    assert sales.rows("SELECT id FROM changed ORDER BY id") == [(1,), (3,)]


@pytest.mark.parametrize(
    "create",
    [
        'CREATE LOCAL TEMPORARY TABLE "#Tableau_1" (id INT, name VARCHAR) ON COMMIT PRESERVE ROWS',
        pytest.param('CREATE TEMPORARY TABLE "#Tableau_1" (id INT, name VARCHAR)', id="TEMPORARY"),
    ],
)
def test_tables_of_a_tools_session_are_made_filled_and_dropped(database: Database, client: Client, create: str) -> None:
    client.run(create)
    client.run("INSERT INTO \"#Tableau_1\" VALUES (1, 'a')")
    client.ingest("#Tableau_1", pa.table({"id": pa.array([2], pa.int32()), "name": ["b"]}), "append")
    assert client.rows('SELECT TOP 5 "#Tableau_1"."id" AS "id" FROM "#Tableau_1" ORDER BY 1') == [(1,), (2,)]
    client.run('DROP TABLE "#Tableau_1"')
    assert "#Tableau_1" in client.refuses('SELECT * FROM "#Tableau_1"')
    assert "#Tableau_1" in database.refuses('SELECT * FROM "#Tableau_1"')


def test_a_select_into_makes_a_table(sales: Database) -> None:
    assert sales.run("SELECT id, region INTO copied FROM sales WHERE {fn UCASE(region)} = 'N'") == 2
    assert sales.rows("SELECT * FROM copied ORDER BY id") == [(1, "n"), (3, "n")]
    assert sales.run("SELECT TOP (?) id INTO public.first FROM sales ORDER BY id", [1]) == 1
    assert sales.rows("SELECT * FROM first") == [(1,)]
    assert "'copied' is there already" in sales.refuses("SELECT 1 AS id INTO copied FROM sales")
    assert "INTO is not offered" in sales.refuses("SELECT * FROM (SELECT id INTO inner_one FROM sales) x")


@pytest.mark.parametrize("into", ['"#Extract"', "TEMPORARY extract", "#extract"])
def test_a_select_into_a_temporary_table_is_for_its_session_alone(sales: Database, client: Client, into: str) -> None:
    table = into.removeprefix("TEMPORARY ")
    client.run(f"SELECT * INTO {into} FROM sales WHERE id > 1")
    assert client.value(f"SELECT count(*) FROM {table}") == 2
    assert "not_found" in sales.refuses(f"SELECT * FROM {table}")
