"""Integers that leave BIGINT are an error, as PostgreSQL's and DuckDB's; all others are exact."""

from __future__ import annotations

import pytest
from lance_flight.errors import LanceFlightError

from tests.engine.database import Database

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


BEYOND = [
    "SELECT i + 1 FROM wide",
    "SELECT 1 + i FROM wide WHERE k = 1",
    "SELECT -2 - i FROM wide",
    "SELECT i * 2 FROM wide",
    "SELECT i * k + 1 FROM wide WHERE k < 3 AND i * n > 0",
    "SELECT sum(i) FROM wide WHERE k < 3",
    "SELECT sum(i) OVER (ORDER BY k) FROM wide",
    "SELECT sum(i) FILTER (WHERE k < 3) FROM wide",
    "SELECT sum(DISTINCT i + 0) FROM wide WHERE i > 0",
    "SELECT sum(i), count(DISTINCT n) FROM wide WHERE k < 3",
    f"SELECT {MOST} + 1",
    f"SELECT count(*) FROM (SELECT {MOST} * 2 AS x FROM wide) AS q WHERE x > 0",
    "SELECT k FROM wide WHERE i + 1 > 0",
    "SELECT count(*) FROM wide GROUP BY i + 1",
    "SELECT k FROM wide ORDER BY i * 2",
    "SELECT CASE WHEN k = 1 THEN i + 1 ELSE 0 END FROM wide",
    "SELECT x + 1 FROM (SELECT max(i) AS x FROM wide) AS q",
    "SELECT k FROM wide AS a WHERE EXISTS (SELECT 1 FROM wide AS b WHERE b.i + 1 = a.i)",
    "SELECT a.k FROM wide AS a JOIN wide AS b ON a.i + 1 = b.i",
    "UPDATE wide SET i = i + 1",
    "DELETE FROM wide WHERE i + 1 > 0",
    "INSERT INTO wide (k, i) SELECT k, i * 2 FROM wide",
]


@pytest.mark.parametrize("statement", BEYOND)
def test_what_is_beyond_bigint_is_an_error(wide: Database, statement: str) -> None:
    before = wide.rows("SELECT * FROM wide ORDER BY k")
    with pytest.raises(LanceFlightError, match="beyond BIGINT"):
        wide.query(statement) if statement.startswith("SELECT") else wide.run(statement)
    assert wide.rows("SELECT * FROM wide ORDER BY k") == before


def test_more_operators_than_are_checked_are_refused(wide: Database) -> None:
    many = " + ".join(["f"] * 250)
    assert wide.rows(f"SELECT {many}, {many}, {many} FROM wide WHERE k = 2") == [(500.0,) * 3]
    assert "748 operators" in wide.refuses(f"SELECT i + 1, {many}, {many}, {many} FROM wide")


def test_sums_keep_their_types_and_names(wide: Database) -> None:
    found = wide.query(
        "SELECT sum(i), sum(n), sum(f), sum(m), i + n FROM wide WHERE k = 2 GROUP BY i + n ORDER BY i + n"
    )
    assert [str(kind) for kind in found.schema.types] == ["int64", "int64", "double", "decimal128(19, 2)", "int64"]
    assert found.column_names == ["sum(wide.i)", "sum(wide.n)", "sum(wide.f)", "sum(wide.m)", "wide.i + wide.n"]
    assert [float(value) for value in found.to_pylist()[0].values()] == [5, 3, 2, 1, 8]
    assert wide.value(f"SELECT sum(i) FROM (SELECT i - {MOST} AS i FROM wide WHERE k = 1) AS q") == 0
    assert wide.value("SELECT CAST(sum(CAST(i AS DECIMAL(38, 0))) AS VARCHAR) FROM wide WHERE k < 3") == str(MOST + 5)


def test_a_condition_with_arithmetic_prunes(wide: Database) -> None:
    plan = wide.query("EXPLAIN SELECT i FROM wide WHERE k + 1 = 3")["plan"].to_pylist()
    assert any("partitions: 1 / 3" in line for line in plan), plan


def test_a_condition_without_rows_is_planned_beside_a_check(wide: Database) -> None:
    assert wide.rows("SELECT i + 3 FROM wide WHERE NULL AND f >= f ORDER BY i") == []
