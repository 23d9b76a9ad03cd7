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


def test_a_view_compares_moments_of_any_year(moments: Database) -> None:
    moments.run("CREATE OR REPLACE VIEW v AS SELECT id FROM t WHERE ts > '9999-12-31' OR ts = '2024-2-29 10:00'")
    assert moments.rows("SELECT id FROM v ORDER BY id") == [(3,), (4,)]


@pytest.mark.parametrize("text", ["garbage", "2024-02-30", "2024-13-01", "2024-01-01 25:00", "10:00"])
def test_what_is_no_moment_is_refused_by_its_text(moments: Database, text: str) -> None:
    assert f"Error parsing timestamp from '{text}'" in moments.refuses(f"SELECT id FROM t WHERE ts > '{text}'")


NANOSECONDS = {1: "1999-12-31 23:59:59", 2: "2024-02-29 10:00:00", 3: "2261-01-01 00:00:00"}


@pytest.fixture(scope="module", params=["", " PARTITIONED BY (year(ts))"], ids=["plain", "partitioned"])
def nanoseconds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("nanoseconds"))
    database.run(f"CREATE TABLE t (id BIGINT, ts TIMESTAMP(9)){request.param}")
    for row in NANOSECONDS.items():
        database.run("INSERT INTO t VALUES (?, ?)", row)
    return database


YEARS = {
    "extract(year FROM ts) < 3000": [1, 2, 3],
    "extract(year FROM ts) <= 2262": [1, 2, 3],
    "extract(year FROM ts) <= 2261": [1, 2, 3],
    "extract(year FROM ts) > 1": [1, 2, 3],
    "date_part('year', ts) >= 1000": [1, 2, 3],
    "1000 < extract(YEAR FROM ts)": [1, 2, 3],
    "extract(year FROM ts) > -1": [1, 2, 3],
    "extract(year FROM ts) <> 5000": [1, 2, 3],
    "extract(year FROM ts) = 2024": [2],
    "extract(year FROM ts) BETWEEN 1000 AND 2024": [1, 2],
    "extract(year FROM ts) BETWEEN 2000 AND 5000": [2, 3],
    "extract(year FROM ts) NOT BETWEEN 2000 AND 5000": [1],
    "extract(year FROM ts) IN (1000, 2024, 3000)": [2],
    "extract(year FROM ts) NOT IN (1000, 2024)": [1, 3],
    f"extract(year FROM ts) IN ({', '.join(map(str, range(2020, 2270)))})": [2, 3],
}


@pytest.mark.parametrize(("condition", "expected"), YEARS.items())
def test_a_year_is_compared_though_nanoseconds_do_not_reach_it(
    nanoseconds: Database, condition: str, expected: list[int]
) -> None:
    assert [number for (number,) in nanoseconds.rows(f"SELECT id FROM t WHERE {condition} ORDER BY id")] == expected


@pytest.mark.parametrize("year", [1000, 1999, 2024, 2261, 2262, 9999])
def test_a_bound_year_is_compared_though_nanoseconds_do_not_reach_it(nanoseconds: Database, year: int) -> None:
    found = nanoseconds.rows("SELECT id FROM t WHERE date_part('year', ts) < ? ORDER BY id", [year])
    assert [number for (number,) in found] == [number for number, text in NANOSECONDS.items() if int(text[:4]) < year]


def test_years_that_nanoseconds_reach_prune(nanoseconds: Database) -> None:
    lines = nanoseconds.query("EXPLAIN SELECT id FROM t WHERE extract(year FROM ts) = 2024")["plan"].to_pylist()
    is_partitioned = any("partitions:" in line for line in lines)
    assert is_partitioned == any("partitions: 1 / 3" in line for line in lines)
