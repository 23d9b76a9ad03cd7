"""Integers that leave BIGINT are an error, as PostgreSQL's and DuckDB's; all others are exact."""

from __future__ import annotations

import pytest
from lance_flight.engine.sql import checked_arithmetic

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
    assert found.column_names == ["sum(wide.i)", "sum(wide.n)", "sum(wide.f)", "sum(wide.m)", "wide.i + wide.n"]
    assert [float(value) for value in found.to_pylist()[0].values()] == [5, 3, 2, 1, 8]
    assert wide.value(f"SELECT sum(i) FROM (SELECT i - {MOST} AS i FROM wide WHERE k = 1) AS q") == 0
    assert wide.value("SELECT CAST(sum(CAST(i AS DECIMAL(38, 0))) AS VARCHAR) FROM wide WHERE k < 3") == str(MOST + 5)


def test_a_condition_with_arithmetic_prunes(wide: Database) -> None:
    plan = wide.query("EXPLAIN SELECT i FROM wide WHERE k + 1 = 3")["plan"].to_pylist()
    assert any("partitions: 1 / 3" in line for line in plan), plan


def test_a_condition_without_rows_is_planned_beside_a_check(wide: Database) -> None:
    assert wide.rows("SELECT i + 3 FROM wide WHERE NULL AND f >= f ORDER BY i") == []
