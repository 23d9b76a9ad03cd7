"""Moments written as texts: any year, and any form that PostgreSQL reads, compared with columns of microseconds."""

from __future__ import annotations

import pytest

from tests.engine.database import Database

MOMENTS = {
    1: "0001-01-01 00:00:00",
    2: "1677-01-01 00:00:00",
    3: "2024-02-29 10:00:00",
    4: "9999-12-31 23:59:59.999999",
}


@pytest.fixture(scope="module", params=["", " PARTITIONED BY (bucket(2, id))"], ids=["plain", "partitioned"])
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("moments"))
    database.run(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP){request.param}")
    for row in MOMENTS.items():
        database.run("INSERT INTO t VALUES (?, ?)", row)
    return database


CONDITIONS = {
    "ts < '9999-12-31'": [1, 2, 3],
    "ts <= '9999-12-31 23:59:59.999999'": [1, 2, 3, 4],
    "ts > '0001-01-01'": [2, 3, 4],
    "'0001-01-01' < ts": [2, 3, 4],
    "ts >= '2024-02-29 10:00'": [3, 4],
    "ts = '2024-02-29T10:00'": [3],
    "ts = '2024-2-29 10:00'": [3],
    "ts >= '2024-1-1'": [3, 4],
    "ts BETWEEN '0001-01-01' AND '2024-02-29 10:00'": [1, 2, 3],
    "ts NOT BETWEEN '1677-01-01' AND '9999-12-31'": [1, 4],
    "ts IN ('2024-02-29 10:00', '9999-12-31 23:59:59.999999')": [3, 4],
    "ts NOT IN ('2024-02-29 10:00:00', '0001-01-01', '1999-01-01')": [2, 4],
    "CASE WHEN ts < '0002-01-01' THEN 1 ELSE 0 END = 1": [1],
    "ts = CAST('2024-02-29 10:00' AS TIMESTAMP)": [3],
}


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS.items())
def test_a_moment_is_compared_whatever_its_year_and_form(
    moments: Database, condition: str, expected: list[int]
) -> None:
    assert [number for (number,) in moments.rows(f"SELECT id FROM t WHERE {condition} ORDER BY id")] == expected


@pytest.mark.parametrize("text", ["garbage", "2024-02-30", "2024-13-01", "2024-01-01 25:00", "10:00"])
def test_what_is_no_moment_is_refused_by_its_text(moments: Database, text: str) -> None:
    assert f"Error parsing timestamp from '{text}'" in moments.refuses(f"SELECT id FROM t WHERE ts > '{text}'")
