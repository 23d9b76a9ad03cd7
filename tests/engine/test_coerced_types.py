"""Queries whose branches have different types, and columns of types that CREATE TABLE has no name for: they answer as the named ones do."""

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


MOMENTS_OF_DAY = [dt.time(1, 2, 3), None, dt.time(12)]
# Family of types → values, the type that SQL has, and others of Arrow.
UNUSUAL: dict[str, tuple[list[Any], pa.DataType, list[pa.DataType]]] = {
    "c": (MOMENTS_OF_DAY, pa.time64("ns"), [pa.time64("us"), pa.time32("ms"), pa.time32("s")]),
    "y": ([b"aa", None, b"zz"], pa.binary(), [pa.large_binary(), pa.binary(2)]),
    "u": ([3, None, 100], pa.int64(), [pa.uint64(), pa.uint8()]),
    "l": ([[1, 2], None, [3, 4]], pa.list_(pa.int64()), [pa.list_(pa.int64(), 2), pa.large_list(pa.int64())]),
    "d": ([DAY, None, OTHER_DAY], pa.date32(), [pa.date64()]),
    "h": ([1.5, None, 2.5], pa.float32(), [pa.float16()]),
}
# Expressions over a column `c`, of which `first` is one of the type that SQL has.
OF_UNUSUAL = {
    "c": (
        *(
            "c = TIME '12:00:00'",
            "c < TIME '01:02:03.0000001'",
            "c IN (TIME '12:00:00', TIME '01:00:00')",
            "c = '12:00:00'",
        ),
        *(
            "c BETWEEN TIME '01:00:00' AND TIME '02:00:00'",
            "coalesce(c, TIME '12:00:00')",
            "greatest(c, first)",
            "c = first",
        ),
        *("CASE WHEN k = 1 THEN TIME '10:00:00' ELSE c END", "[c, TIME '12:00:00']", "nvl(c, TIME '00:00:00')"),
        *("rank() OVER (ORDER BY c)", "count(*) OVER (ORDER BY c DESC RANGE UNBOUNDED PRECEDING)", "nullif(c, first)"),
    ),
    "y": (
        *(
            "octet_length(c)",
            "coalesce(c, NULL)",
            "[c, NULL]",
            "nvl(NULL, c)",
            "bit_length(c)",
            "len(c)",
            "hex(c)",
            "sha1(c)",
            "coalesce(c, X'00')",
            "[c, X'00', first]",
        ),
        *(
            "c = first",
            "ifnull(c, X'ff')",
            "sum(k) OVER (ORDER BY c)",
            "encode(c)",
            "CASE WHEN k = 1 THEN X'00' ELSE c END",
        ),
    ),
    "u": (
        *(
            "c / 2",
            "7 / c",
            "c - 5",
            "c + c",
            "first - c",
            "c * c - c",
            "1::TINYINT UNSIGNED - c",
            "c / 2 = 1",
            "c / (k + 1)",
            "printf('%d', c)",
            "format('{}', c)",
        ),
        *("nvl(c, 5)", "sum(c) OVER () / 2", "c / 2::BIGINT UNSIGNED"),
    ),
    "l": ("list_sum(c)", "list_avg(c)", "list_max(c)", "c::VARCHAR", "array_to_string(c, ',')", "nvl(c, [7, 8])"),
    "d": ("c::VARCHAR", "concat(c, '!')", "nvl(c, DATE '2000-01-01')"),
    "h": ("c::INT", "nvl(c, 0.5)"),
}


@pytest.fixture(scope="module")
def unusual(tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("unusual"))
    columns: dict[str, pa.Array] = {"k": pa.array([0, 1, 2])}
    for name, (values, named, others) in UNUSUAL.items():
        columns |= {f"{name}{at}": pa.array(values, kind) for at, kind in enumerate([named, *others])}
    database.ingest("t", pa.table(columns))
    return database


@pytest.mark.parametrize(("family", "expression"), [(name, each) for name in OF_UNUSUAL for each in OF_UNUSUAL[name]])
def test_types_that_sql_has_no_name_for_answer_as_those_that_it_has(
    unusual: Database, family: str, expression: str
) -> None:
    def answer(at: int) -> list[tuple[Any, ...]]:
        source = f"(SELECT k, {family}{at} AS c, {family}0 AS first FROM t) AS q"
        return unusual.rows(f"SELECT k, {expression} FROM {source} ORDER BY k")

    assert [answer(at) for at in range(1, len(UNUSUAL[family][2]) + 1)] == [answer(0)] * len(UNUSUAL[family][2])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        *((f"c{at}", "(TIME '10:00:00'), ('11:00:00')") for at in range(4)),
        *((f"y{at}", "('aa'::BLOB), ('bb')") for at in range(2)),
        *((f"d{at}", "(DATE '2024-01-01'), ('2024-01-02')") for at in range(2)),
    ],
)
def test_texts_beside_typed_values_are_stored_in_any_type(unusual: Database, column: str, values: str) -> None:
    kind = unusual.query(f"SELECT {column} FROM t").schema.field(0).type
    table = f"of_{column}"
    unusual.ingest(table, pa.table({column: pa.array([], kind)}))
    assert unusual.run(f"INSERT INTO {table} VALUES {values}") == 2
    found = unusual.query(f"SELECT {column} FROM {table} ORDER BY 1")
    assert found.schema.field(0).type == kind
    written = {"c": [dt.time(10), dt.time(11)], "y": [b"aa", b"bb"], "d": [DAY, OTHER_DAY]}
    assert found[column].to_pylist() == written[column[0]]


def test_a_written_time_prunes_by_columns_of_any_unit(unusual: Database) -> None:
    unusual.ingest(
        "timed", pa.table({"k": [1, 2], "c": pa.array([dt.time(1), dt.time(2)], pa.time64("us"))}), partition_by="c"
    )
    plan = str(unusual.query("EXPLAIN SELECT k FROM timed WHERE c = TIME '02:00:00'").to_pylist())
    assert "partitions: 1 / 2" in plan
    assert unusual.rows("SELECT k FROM timed WHERE c = TIME '02:00:00'") == [(2,)]


@pytest.mark.parametrize(
    "call",
    [
        "row_number() OVER (ORDER BY k)",
        "rank() OVER w",
        "ntile(2) OVER (ORDER BY k)",
        "array_length([1, k])",
        "cardinality([k])",
    ],
)
def test_numbers_of_rows_and_elements_are_bigint(unusual: Database, call: str) -> None:
    window = " WINDOW w AS (ORDER BY k)" * ("OVER w" in call)
    found = unusual.query(f"SELECT ({call}) AS n, ({call}) / 2 AS half FROM t{window}")
    assert found.schema.types == [pa.int64(), pa.int64()]
    assert [row["half"] for row in found.to_pylist()] == [row["n"] // 2 for row in found.to_pylist()]


def test_unsigned_numbers_do_not_wrap(unusual: Database) -> None:
    largest = 2**64 - 1
    unusual.ingest("large", pa.table({"u": pa.array([largest, 3], pa.uint64())}))
    found = unusual.rows(
        "SELECT u + u, 3::BIGINT UNSIGNED - u, u / 2, count(*) FROM large GROUP BY u, u + u ORDER BY u"
    )
    assert found == [(6, 0, 1, 1), (2 * largest, 3 - largest, largest // 2, 1)]
    assert unusual.value("SELECT sum(u) FROM large WHERE u > 3") == largest
    for value in ("sum(u)", "sum(u) OVER (ORDER BY u)", "sum(DISTINCT u)", "sum(u) FILTER (WHERE u > 0)"):
        assert f"{largest + 3} is out of range BIGINT UNSIGNED" in unusual.refuses(f"SELECT {value} FROM large")
