"""Zero and minus zero are one value wherever rows are compared, and so are all NaN; a zero is stored as it was written."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.database import Database


@pytest.fixture(scope="module")
def zeros(database: Database) -> Database:
    database.run("CREATE TABLE z (id BIGINT, d DOUBLE, r REAL) PARTITIONED BY (bucket(2, id))")
    database.run("INSERT INTO z VALUES (1, 0.0, 0.0), (3, 2.5, 2.5), (4, NULL, NULL)")
    database.run("INSERT INTO z SELECT 2, -0.0, -0.0")
    return database


@pytest.mark.parametrize("column", ["d", "r"])
def test_parameters_take_both_zeros(zeros: Database, column: str) -> None:
    for value in (0.0, -0.0):
        for marks, others in (("?, ?", [2.5]), ("?, ?, ?, ?, ?", [2.5, 4.5, 5.5, 6.5])):
            found = zeros.query(f"SELECT id FROM z WHERE {column} IN ({marks}) ORDER BY id", [value, *others])
            assert found["id"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("column", ["d", "r"])
def test_windows_take_both_zeros_for_one(zeros: Database, column: str) -> None:
    found = zeros.query(
        f"SELECT id, count(*) OVER (PARTITION BY {column}), rank() OVER (ORDER BY z.{column} NULLS LAST) AS place,"
        f" sum(1) OVER w AS peers FROM z WINDOW w AS (ORDER BY {column} DESC NULLS LAST) ORDER BY id"
    )
    assert [list(row.values()) for row in found.to_pylist()] == [[1, 2, 1, 3], [2, 2, 1, 3], [3, 1, 3, 1], [4, 1, 4, 4]]
    assert found.column_names[1] == f"count(*) OVER (PARTITION BY {column})"


@pytest.mark.parametrize("column", ["d", "r"])
def test_distinct_zeros_are_one(zeros: Database, column: str) -> None:
    found = zeros.rows(f"SELECT count(DISTINCT z.{column}) FILTER (WHERE id > 0), count(DISTINCT {column}) FROM z")
    assert found == [(2, 2)]


def test_the_sign_of_a_zero_is_kept(zeros: Database) -> None:
    found = zeros.query("SELECT d, r FROM z WHERE d = 0 ORDER BY id").to_pylist()
    assert [[math.copysign(1, value) for value in row.values()] for row in found] == [[1, 1], [-1, -1]]


def test_changes_take_both_zeros(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, d DOUBLE) PARTITIONED BY (bucket(2, id))")
    database.run(f"INSERT INTO {table} SELECT 1, -0.0 UNION ALL SELECT 2, 0.0 UNION ALL SELECT 3, 1.0")
    database.run(f"UPDATE {table} SET id = id + 10 WHERE d IN (0, 4, 5, 6, 7)")
    assert database.query(f"SELECT id FROM {table} ORDER BY id")["id"].to_pylist() == [3, 11, 12]
    database.run(f"DELETE FROM {table} WHERE d NOT IN (1, 4, 5, 6, 7)")
    assert database.query(f"SELECT id FROM {table}")["id"].to_pylist() == [3]


@pytest.mark.parametrize("column", ["d", "r"])
@pytest.mark.parametrize("zero", ["-{0}", "{0} * -1", "round({0} * -0.2e0)"])
def test_computed_zeros_are_one(zeros: Database, column: str, zero: str) -> None:
    zero = zero.format(column)
    for condition, expected in {
        f"{zero} IN (0, 7)": [1, 2],
        f"{zero} NOT IN (-0.0, 7)": [3],
        f"nullif({zero}, 0) IS NULL": [1, 2, 4],
        f"CASE {zero} WHEN 0 THEN true ELSE false END": [1, 2],
        f"id IN (SELECT id FROM (SELECT id, {zero} AS x FROM z) AS q WHERE x IN (0, 7))": [1, 2],
    }.items():
        assert zeros.query(f"SELECT id FROM z WHERE {condition} ORDER BY id")["id"].to_pylist() == expected, condition
    for source, key in (("z", zero), (f"(SELECT id, {zero} AS x FROM z) AS q", "x")):
        found = zeros.rows(
            f"SELECT id, count(*) OVER (PARTITION BY {key}), rank() OVER (ORDER BY {key} NULLS LAST) - rank() OVER w,"
            f" lag(id) OVER (PARTITION BY {key}, id > 9 ORDER BY id) FROM {source} WINDOW w AS (ORDER BY {key} NULLS LAST) ORDER BY id"
        )
        assert found == [(1, 2, 0, None), (2, 2, 0, 1), (3, 1, 0, None), (4, 1, 0, None)]
        assert zeros.rows(f"SELECT count(DISTINCT {key}), count(DISTINCT id) FROM {source}") == [(2, 4)]
    assert len(zeros.rows(f"SELECT {zero} AS x FROM z GROUP BY {zero}")) == 3


# Each is NaN in the rows 1, 2, 6 and 7, one of which was written as a NaN; 3 and 5 are numbers, and 4 is NULL.
NANS = (
    "{0}",
    "-{0}",
    "-(-{0} + id) * id",
    "{0} / id % 3",
    "1 + {0} * ln(-1) * 0e0 / 0",
    "ln(id - 99) + {0}",
    "0e0 * {0} / 0",
)
IS_NAN = (
    "{0} > 100",
    "{0} = double 'NaN'",
    "NOT {0} <= 100",
    "{0} IN (double 'NaN', 7.5)",
    "nullif({0}, double 'NaN') IS NULL AND d IS NOT NULL",
)


@pytest.fixture(scope="module")
def nans(database: Database) -> Database:
    database.run("CREATE TABLE n (id BIGINT, d DOUBLE, r REAL, s STRUCT<d DOUBLE>) PARTITIONED BY (bucket(2, id))")
    database.run("INSERT INTO n (id, d, r) SELECT 1, 0e0 / 0, CAST(0e0 / 0 AS REAL) UNION ALL SELECT 6, ln(-1), ln(-1)")
    database.run("INSERT INTO n (id, d, r) VALUES (2, 'NaN', 'NaN'), (3, 1.5, 1.5), (4, NULL, NULL), (5, -2, -2)")
    signed = np.array([-math.nan])
    database.ingest(
        "n", pa.table({"id": [7], "d": signed, "r": signed.astype(np.float32), "s": [{"d": -math.nan}]}), "append"
    )
    return database


@pytest.mark.sample(4)
@pytest.mark.parametrize("column", ["d", "r"])
@pytest.mark.parametrize("value", NANS)
def test_all_nan_are_one_value_beyond_the_others(nans: Database, value: str, column: str) -> None:
    value = value.format(column)
    found = {1, 2, 6, 7} if "/ 0" not in value else {1, 2, 3, 5, 6, 7}
    found |= {3, 5} if "ln(id" in value else set()
    others, count = 6 - len(found), len(found)
    for source, key in (("n", value), (f"(SELECT id, d, {value} AS x FROM n) AS q", "x")):
        for condition in IS_NAN:
            got = nans.rows(f"SELECT id FROM {source} WHERE {condition.format(f'({key})')}")
            assert {row for (row,) in got} == found, condition
        assert [row for (row,) in nans.rows(f"SELECT id FROM {source} ORDER BY {key} NULLS LAST, id")][others:] == [
            *sorted(found),
            4,
        ]
        assert sorted(nans.rows(f"SELECT count(*) FROM {source} GROUP BY {key}")) == [(1,)] * (1 + others) + [(count,)]
        assert len(nans.rows(f"SELECT DISTINCT {key} AS k FROM {source}")) == 2 + others
        assert len(nans.rows(f"SELECT {key} AS k FROM {source} UNION SELECT double 'NaN'")) == 2 + others
        highest, lowest, distinct = nans.rows(f"SELECT max({key}), min({key}), count(DISTINCT {key}) FROM {source}")[0]
        assert (math.isnan(highest), math.isnan(lowest), distinct) == (True, not others, 1 + others)
        peers = nans.rows(
            f"SELECT id, count(*) OVER (PARTITION BY {key}), rank() OVER (ORDER BY {key} DESC NULLS LAST) FROM {source}"
        )
        assert {(id_, *rest) for id_, *rest in peers if id_ in found} == {(id_, count, 1) for id_ in found}
        joined = nans.rows(f"SELECT count(*) FROM {source} JOIN (SELECT double 'NaN' AS y) AS o ON {key} = y")
        assert joined == [(count,)]


def test_a_nan_is_stored_without_its_sign(nans: Database) -> None:
    nans.run("UPDATE n SET s = named_struct('d', 0e0 / 0) WHERE id = 6")
    stored = nans.query("SELECT d, r, s['d'] AS s FROM n WHERE isnan(d) AND id <> 4").to_pylist()
    assert [math.copysign(1, each) for row in stored for each in row.values() if each is not None] == [1.0] * 10


def test_computed_nan_has_the_name_and_type_of_its_query(nans: Database) -> None:
    found = nans.query(
        "SELECT d / r, -r, id / 2, id % 2 = 1, sum(-d) FROM n WHERE -d > 1000 GROUP BY d / r, -r, id ORDER BY id LIMIT 1"
    )
    assert found.column_names == ["d / r", "-r", "id / 2", "id % 2 = 1", "sum(-d)"]
    assert list(map(str, found.schema.types)) == ["double", "float", "int64", "bool", "double"]


def test_views_and_changes_take_one_nan(database: Database, nans: Database, table: str) -> None:
    database.run(f"CREATE VIEW v{table} AS SELECT id, 0 * d / 0 AS q FROM n")
    assert len(database.rows(f"SELECT DISTINCT q FROM v{table}")) == 2
    database.run(f"CREATE VIEW u{table} AS SELECT 0 * d / 0, CAST(id AS VARCHAR(1)), -d, id + id FROM n")
    found = database.query(f"SELECT * FROM u{table} ")
    assert found.column_names == ["0 * d / 0", "CAST(id AS VARCHAR(1))", "-d", "id + id"]
    assert database.query(f"DESCRIBE u{table}")["column_name"].to_pylist() == found.column_names
    database.run(f"CREATE TABLE {table} PARTITIONED BY (bucket(2, id)) AS SELECT id, -d AS d FROM n")
    assert database.run(f"DELETE FROM {table} WHERE -d > 1000") == 4
    database.run(f"UPDATE {table} SET d = d * 0 / 0 WHERE d < 0")
    assert database.query(f"SELECT id FROM {table} WHERE d > 1000")["id"].to_pylist() == [3]
