"""Queries whose branches have different types: rows, schemas and stored values have the common one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.database import Database

DAY, OTHER_DAY = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
MORNING, NOON = dt.datetime(2024, 5, 6, 7, 8, 9), dt.datetime(2024, 5, 6, 12, 30, 0, 250)
ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "d": pa.array([DAY, OTHER_DAY]),
        "ts": pa.array([MORNING, NOON], pa.timestamp("us")),
        "f": pa.array([1.5, 2.25]),
        "r": pa.array([0.5, 0.25], pa.float32()),
        "price": pa.array([Decimal("3.10"), Decimal("4.25")], pa.decimal128(10, 2)),
        "name": ["a", "b"],
    }
)
FIRST_DAY = dt.datetime(2024, 1, 1)
NUMBERS: list[Any] = [1.0, 2.5]

QUERIES: dict[str, tuple[str, list[Any]]] = {
    "union of numbers": ("SELECT 1 AS x UNION ALL SELECT 2.5", NUMBERS),
    "union of distinct numbers": ("SELECT 1 AS x UNION SELECT 2.5", NUMBERS),
    "union of NULL": ("SELECT NULL AS x UNION ALL SELECT 2.5", [2.5, None]),
    "union of dates and times": (
        "SELECT d AS x FROM t WHERE id = 1 UNION ALL SELECT ts FROM t",
        [FIRST_DAY, MORNING, NOON],
    ),
    "union of times and dates": (
        "SELECT ts AS x FROM t UNION ALL SELECT d FROM t WHERE id = 1",
        [FIRST_DAY, MORNING, NOON],
    ),
    "union of three": ("SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 2.5", [1.0, 2.0, 2.5]),
    "CASE of dates and times": ("SELECT CASE WHEN id = 1 THEN d ELSE ts END AS x FROM t", [FIRST_DAY, NOON]),
    "CASE of numbers": ("SELECT CASE WHEN id = 1 THEN 0 ELSE f END AS x FROM t", [0.0, 2.25]),
    "CASE of decimals": (
        "SELECT CASE WHEN id = 1 THEN 0 ELSE price END AS x FROM t",
        [Decimal("0.00"), Decimal("4.25")],
    ),
    "CASE of REAL and DOUBLE": ("SELECT CASE WHEN id = 1 THEN r ELSE 0.1 END AS x FROM t", [0.1, 0.5]),
    "aggregate of CASE": ("SELECT sum(CASE WHEN id = 1 THEN 0 ELSE f END) AS x FROM t", [2.25]),
    "aggregate of a union": ("SELECT max(x) AS x FROM (SELECT 1 AS x UNION ALL SELECT 2.5)", [2.5]),
    "WITH": ("WITH c AS (SELECT 1 AS x UNION ALL SELECT 2.5) SELECT x FROM c WHERE x < 9", NUMBERS),
    "subquery": ("SELECT x FROM (SELECT 1 AS x UNION ALL SELECT 2.5) WHERE x > 1", [2.5]),
    "scalar subquery": ("SELECT (SELECT max(x) FROM (SELECT 1 AS x UNION ALL SELECT 2.5)) AS x", [2.5]),
    "window": ("SELECT max(x) OVER () AS x FROM (SELECT 1 AS x UNION ALL SELECT 2.5)", [2.5, 2.5]),
    "EXCEPT": ("SELECT 1 AS x UNION ALL SELECT 2.5 EXCEPT SELECT 1", [2.5]),
    "within a list": ("SELECT make_array(1, 2.5) AS x", [[1.0, 2.5]]),
    "coalesce": ("SELECT coalesce(NULL, id, f) AS x FROM t", [1.0, 2.0]),
    "a view": ("SELECT x FROM mixed", NUMBERS),
    "a view of CASE": ("SELECT x FROM moments", [FIRST_DAY, NOON]),
}


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("coerced"))
    database.ingest("t", ROWS, partition_by="name" if request.param == "partitioned" else None)
    database.run("CREATE VIEW mixed AS SELECT 1 AS x UNION ALL SELECT 2.5")
    database.run("CREATE VIEW moments AS SELECT CASE WHEN id = 1 THEN d ELSE ts END AS x FROM t")
    return database


def in_order(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is None, value))


@pytest.mark.parametrize(("sql", "expected"), QUERIES.values(), ids=QUERIES)
def test_rows_and_schema_have_the_common_type(mixed: Database, sql: str, expected: list[Any]) -> None:
    found = mixed.query(sql)
    assert in_order(found["x"].to_pylist()) == expected
    assert mixed.engine.describe(sql).schema == found.schema


@pytest.mark.parametrize(("sql", "expected"), QUERIES.values(), ids=QUERIES)
def test_a_new_table_has_the_common_type(mixed: Database, sql: str, expected: list[Any]) -> None:
    mixed.run(f"CREATE OR REPLACE TABLE made AS {sql}")
    assert in_order(mixed.query("SELECT x FROM made")["x"].to_pylist()) == expected


CHANGES: dict[str, tuple[str, str, list[Any]]] = {
    "times": ("UPDATE {t} SET ts = CASE WHEN id = 1 THEN d ELSE ts END", "ts", [FIRST_DAY, NOON]),
    "decimals": (
        "UPDATE {t} SET price = CASE WHEN id = 1 THEN 0 ELSE price END",
        "price",
        [Decimal("0.00"), Decimal("4.25")],
    ),
    "doubles": ("UPDATE {t} SET f = CASE WHEN id = 1 THEN r ELSE 0.1 END", "f", [0.1, 0.5]),
    "insert": ("INSERT INTO {t} (f) SELECT 1 UNION ALL SELECT 2.75", "f", [1.0, 1.5, 2.25, 2.75]),
    "merge": (
        """MERGE INTO {t} AS u USING (SELECT 1 AS id, 1 AS f UNION ALL SELECT 9, 2.75) s ON u.id = s.id
           WHEN MATCHED THEN UPDATE SET f = s.f WHEN NOT MATCHED THEN INSERT (id, f) VALUES (s.id, s.f)""",
        "f",
        [1.0, 2.25, 2.75],
    ),
}


@pytest.fixture(params=[None, "name"], ids=["plain", "partitioned"])
def changed(request: pytest.FixtureRequest, database: Database, table: str) -> str:
    """A table whose rows a test changes."""
    database.ingest(table, ROWS, partition_by=request.param)
    return table


@pytest.mark.parametrize(("sql", "column", "expected"), CHANGES.values(), ids=CHANGES)
def test_changes_store_the_common_type(
    database: Database, changed: str, sql: str, column: str, expected: list[Any]
) -> None:
    database.run(sql.format(t=changed))
    assert sorted(database.query(f"SELECT {column} FROM {changed}")[column].to_pylist()) == expected


def test_a_recursive_query_of_one_type_runs(database: Database) -> None:
    sql = "WITH RECURSIVE c(n, x) AS (SELECT 1, 1.0 UNION ALL SELECT n + 1, x + 0.5 FROM c WHERE n < ?) SELECT x FROM c"
    assert database.rows(sql, [3]) == [(1.0,), (1.5,), (2.0,)]
