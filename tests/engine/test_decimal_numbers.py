"""Numbers beside decimals, and those with more digits than a double has, are decimals: computed, compared and stored digit by digit."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import duckdb
import pyarrow as pa
import pytest
from lance_flight.engine.sql import tokens
from lance_flight.engine.statements import insert

from tests.engine.database import Database

TABLE = "CREATE TABLE {} (id INT, p DECIMAL(10, 2), q DECIMAL(20, 2), w DECIMAL(38, 10), f DOUBLE, i BIGINT, g DOUBLE)"
ROWS = (
    "(1, 0.10, 12345678901234.12, 1.5, 0.1, 3, 0.1), (2, 0.30, 99999999999999.99, 9999999999999999.5, 0.3, 7, 0.30000000000000004),"
    " (3, 1.10, NULL, 2.25, 1e300, 9, 1e300), (4, NULL, -0.01, -0.5, -1e-20, NULL, 'NaN'), (5, 0.00, 0, 0, 1, 1, 1e-20)"
)


@pytest.fixture(scope="module")
def peer(database: Database) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the table that the database has."""
    with duckdb.connect() as connection:
        for run in (database.run, connection.execute):
            run(TABLE.format("t"))
            run(f"INSERT INTO t VALUES {ROWS}")
        yield connection


EXACT = [
    *(
        "p + 0.01",
        "0.01 + p",
        "p - 0.1",
        "p * 1.1",
        "p * 0.1",
        "-p + 0.1",
        "p % 0.2",
        "abs(p - 0.3)",
        "q + 0.01",
        "q * 1.07",
    ),
    *(
        "(p + 0.01) * 1.1",
        "p * (0.1 + 0.2)",
        "round(p * 1.5, 1)",
        "coalesce(p, 0.01)",
        "nullif(p, 0.1)",
        "greatest(p, 0.2)",
    ),
    *("CASE WHEN id = 1 THEN p ELSE 0.01 END", "CASE id WHEN 1 THEN 0.5 ELSE p END", "p * i * 0.5", "w + 0.0000000001"),
    *("sum(p) OVER (ORDER BY id) * 0.1", "sum(p * 0.1) OVER (ORDER BY id)", "(SELECT max(p) FROM t) * 0.5"),
]
CONDITIONS = [
    *(
        f"{column} {sign} {number}"
        for column in ("p", "q")
        for sign in ("=", "<>", "<", ">=")
        for number in ("0.30", "-0.01", "0.105")
    ),
    *(
        "q = 12345678901234.12",
        "q <= 12345678901234.11",
        "p IN (0.1, 0.3)",
        "p NOT IN (0.1, 0.3, 0.5)",
        "q IN (12345678901234.12, 1.5)",
    ),
    *(
        "p BETWEEN 0.1 AND 0.3",
        "p NOT BETWEEN 0.105 AND 0.3",
        "p + 0.2 = 0.3",
        "p * 1.1 = 0.33",
        "0.1 + 0.2 = p",
        "p = q * 0.5",
    ),
    *(
        "p IS DISTINCT FROM 0.1",
        "CASE WHEN p > 0.1 THEN p ELSE 0.3 END = 0.3",
        "p > 0.1 AND f > 0.1",
        "p = 0.1 AND f = 0.1",
    ),
    *("p IN (" + ", ".join(f"{number / 10}" for number in range(60)) + ")",),
]
DOUBLES = ["f + 0.1", "f * 1.5", "p * f * 0.5", "p / 3.0", "sqrt(2.0)", "p::DOUBLE * 1.1", "i / 2.0"]
STATEMENTS = [
    "SELECT p * 1.1 AS y, count(*) FROM t GROUP BY p * 1.1",
    "SELECT p * 1.1 AS y, sum(f * 1.1) > 0.1 FROM t GROUP BY p * 1.1",
    "SELECT y > 0.33, y * 1.5 FROM (SELECT p * 1.1 AS y FROM t)",
    "WITH a AS (SELECT p + 0.01 AS y FROM t), b AS (SELECT y * 1.1 AS z FROM a) SELECT z + 0.5 FROM b",
    "SELECT sum(p * 1.1), sum(CASE WHEN id = 1 THEN p ELSE 0.0 END), max(p + 0.01), min(p) FILTER (WHERE p > 0.1) FROM t",
    "SELECT a.id FROM t a JOIN t b ON a.p = b.p + 0.2",
    "SELECT p FROM t UNION ALL SELECT 0.05",
    "SELECT id FROM t GROUP BY id, p HAVING sum(p) * 0.1 = 0.03",
    "SELECT id FROM t WHERE p - p < 1e-20",
    "SELECT id FROM t WHERE q > 1.5e1 AND f <> 1e300",
    "SELECT id FROM t WHERE p > (SELECT min(p) FROM t) * 2.5",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t x WHERE x.p + 0.2 = 0.3)",
    "SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE p + 0.2 = 0.3)",
    "SELECT id FROM t WHERE id NOT IN (SELECT id FROM t WHERE p * 1.1 = 0.33)",
    "SELECT id FROM t WHERE (SELECT count(*) FROM t x WHERE x.p + 0.2 = 0.3) = 1",
    "SELECT id, (SELECT sum(p * 1.1) FROM t) FROM t",
    "SELECT id, (SELECT max(x.p) + 0.2 FROM t x WHERE x.id = t.id) FROM t",
    "SELECT id FROM t WHERE (SELECT max(x.p) + 0.2 FROM t x WHERE x.id = t.id) = 0.3",
    "SELECT p + (SELECT 0.01) FROM t",
    "SELECT id FROM t WHERE (SELECT max(p::DOUBLE) FROM t) * 1.1 > p",
    "SELECT id FROM t WHERE id = id GROUP BY id HAVING sum(p) > (50 / 100.0) * max(f)",
    "SELECT CASE WHEN p > g THEN 1 END, count(*) FROM t WHERE p <> g OR id > 0 GROUP BY CASE WHEN p > g THEN 1 END",
    "SELECT id FROM t WHERE p NOT IN (g, 0) ORDER BY p = g NULLS FIRST, id",
]
# Conditions and values where decimals meet doubles, with 1e300, NaN and values near zero among these.
MEETINGS = [
    *(f"p {sign} g" for sign in ("=", "<>", "<", ">=")),
    *(
        "p IN (g, 5)",
        "g IN (p, 0.1)",
        "p BETWEEN g AND g",
        "g NOT BETWEEN p AND p + 1",
        "nullif(g, p) IS NULL",
        "p - p = g * 0",
    ),
    *(
        "p IS DISTINCT FROM g OR p = g",
        "CASE g WHEN p THEN 1 ELSE 2 END = 1",
        "p < (SELECT max(g) FROM t)",
        "q > g AND NOT p > g",
    ),
    *(
        "id IN (SELECT a.id FROM t a JOIN t b ON a.p = b.g)",
        "greatest(p, g) = g",
        "coalesce(g, p) >= p",
        "w < g",
        "g < 9.5",
        "g = 0.3",
    ),
]
VALUES = [
    "coalesce(p, g)",
    "CASE WHEN id = 1 THEN p ELSE g END",
    "least(p, g, 3)",
    "max(CASE WHEN p > g THEN p ELSE g END) OVER ()",
]
UNITED = ["SELECT p FROM t UNION ALL SELECT g FROM t", "SELECT id FROM t WHERE g IN (SELECT p FROM t)"]
"""What would compare DECIMAL(30, 15), and says what to write."""


@pytest.mark.parametrize("expression", EXACT)
def test_a_number_beside_a_decimal_is_one(database: Database, peer: duckdb.DuckDBPyConnection, expression: str) -> None:
    found = database.rows(f"SELECT {expression} FROM t ORDER BY id")
    assert found == peer.execute(f"SELECT {expression} FROM t ORDER BY id").fetchall()
    assert {type(value) for (value,) in found if value is not None} == {Decimal}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_number_is_compared_digit_by_digit(
    database: Database, peer: duckdb.DuckDBPyConnection, condition: str
) -> None:
    sql = f"SELECT id FROM t WHERE {condition} ORDER BY id"
    assert database.rows(sql) == peer.execute(sql).fetchall()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_numbers_of_whole_statements(database: Database, peer: duckdb.DuckDBPyConnection, statement: str) -> None:
    found, expected = database.rows(statement), peer.execute(statement).fetchall()
    assert sorted(map(str, found)) == sorted(map(str, expected))


@pytest.mark.parametrize("condition", MEETINGS)
def test_a_decimal_is_compared_with_a_double_as_one(
    database: Database, peer: duckdb.DuckDBPyConnection, condition: str
) -> None:
    sql = f"SELECT id FROM t WHERE {condition} ORDER BY id"
    assert database.rows(sql) == peer.execute(sql).fetchall()


def test_values_of_decimals_and_doubles_are_doubles(database: Database, peer: duckdb.DuckDBPyConnection) -> None:
    for value in VALUES:
        sql = f"SELECT {value} AS v FROM t ORDER BY id"
        assert str(database.rows(sql)) == str(peer.execute(sql).fetchall()), value
        assert database.query(sql).schema.types == [pa.float64()], value
    for statement in UNITED:
        assert "write CAST(… AS DOUBLE) around the DECIMAL" in database.refuses(statement)


@pytest.mark.parametrize("expression", DOUBLES)
def test_a_number_beside_a_double_is_one(database: Database, peer: duckdb.DuckDBPyConnection, expression: str) -> None:
    sql = f"SELECT {expression}, p FROM t WHERE id < 3 ORDER BY id"
    found = database.rows(sql)
    assert found == peer.execute(sql).fetchall()
    assert {type(value) for value, _ in found} == {float}


def written_numbers() -> list[str]:
    """Numbers of 13 to 18 digits, two of them behind the point, and some that lie between two hundredths."""
    chance = random.Random(3)  # noqa: S311 - numbers, no secret
    digits = [str(chance.randrange(10 ** (size - 1), 10**size)) for size in range(13, 19) for _ in range(40)]
    return [f"{each[:-2]}.{each[-2:]}" for each in digits] + ["2.675", "1.005", "0.125", "12345678901234.125"]


WAYS = {
    "INSERT INTO {t} VALUES {rows}": "({id}, {number}, 1)",
    "INSERT INTO {t} SELECT * FROM (VALUES {rows})": "({id}, {number}, 1)",
    "INSERT INTO {t} VALUES {rows} -- one by one": "({id}, {number}, 1 + 0)",
}


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_are_stored_as_they_are_written(database: Database, table: str, way: str, sign: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, p DECIMAL(20, 2), n INT)")
    numbers = [sign + each for each in written_numbers()]
    for part in (numbers, numbers[:40]):
        rows = ", ".join(WAYS[way].format(id=place, number=each) for place, each in enumerate(part))
        database.run(way.format(t=table, rows=rows))
        stored = database.rows(f"SELECT p FROM {table} ORDER BY id")
        assert stored == [(Decimal(each).quantize(Decimal("0.01"), ROUND_HALF_UP),) for each in part]
        database.run(f"TRUNCATE {table}")


@pytest.mark.parametrize("number", ["2.675", "1.005", "123456789012345.67", "1234567890123456.7", "-0.125"])
def test_a_change_stores_a_number_as_it_is_written(database: Database, table: str, number: str) -> None:
    expected = Decimal(number).quantize(Decimal("0.01"), ROUND_HALF_UP)
    database.run(f"CREATE TABLE {table} (id INT, p DECIMAL(20, 2))")
    database.run(f"INSERT INTO {table} VALUES (1, 0), (2, 0), (3, 1)")
    database.run(f"UPDATE {table} SET p = {number} WHERE id = 1")
    database.run(f"UPDATE {table} SET p = CASE WHEN id = 2 THEN {number} ELSE p * 1.1 END WHERE id > 1")
    assert database.rows(f"SELECT p FROM {table} ORDER BY id") == [(expected,), (expected,), (Decimal("1.10"),)]


@pytest.fixture(scope="module")
def large(database: Database) -> str:
    database.run("CREATE TABLE large (c DECIMAL(4, 2), e DECIMAL(18, 2), a DECIMAL(38, 10), f DOUBLE, i INT)")
    database.run("INSERT INTO large VALUES (99.99, 9999999999999999.99, 9999999999999999999999999999.5, 2.5, 7)")
    return "large"


ROUNDED = {
    "ceil(c)": Decimal(100),
    "floor(-c)": Decimal(-100),
    "ceil(e)": Decimal(10000000000000000),
    "CEIL (c + 0.005)": Decimal(100),
    "ceil(ceil(c))": Decimal(100),
    "round(c)": Decimal(100),
    "floor(a)": Decimal(9999999999999999999999999999),
    "ceil(CAST(a AS DECIMAL(39, 10)))": Decimal(10000000000000000000000000000),
    "avg(a)": Decimal("9999999999999999999999999999.5"),
    "avg(CAST(a AS DECIMAL(46, 10)))": Decimal("9999999999999999999999999999.5"),
    "avg(CAST(i AS DECIMAL(38, 0)))": Decimal(7),
    "ceil(f)": 3.0,
    "floor(i)": 7,
}


@pytest.mark.parametrize(("expression", "expected"), ROUNDED.items())
def test_what_fits_does_not_overflow(database: Database, large: str, expression: str, expected: float) -> None:
    assert database.value(f"SELECT {expression} FROM {large}") == expected


def test_room_for_a_digit_is_in_no_name(database: Database, large: str) -> None:
    found = database.query(
        f"SELECT ceil(c), floor(c + 1), ceil(i) FROM {large} GROUP BY c, i, ceil(c) ORDER BY ceil(c)"
    )
    assert found.column_names == ["ceil(c)", "floor(c + 1)", "ceil(i)"]


def test_what_has_no_room_is_refused_with_what_to_write(database: Database, large: str) -> None:
    assert "write ceil(CAST(a AS DECIMAL(" in database.refuses(f"SELECT ceil(a) FROM {large}")


@pytest.fixture(scope="module")
def summed(database: Database) -> str:
    database.run("CREATE TABLE summed (id INT, k INT, a DECIMAL(38, 2), p DECIMAL(30, 2)) PARTITIONED BY (k)")
    number = "CAST(99999999999999999999999999999999999.55 AS DECIMAL(38, 2))"
    database.run(f"INSERT INTO summed SELECT value, value % 3, {number}, value + 0.5 FROM generate_series(1, 60)")
    database.run("CREATE VIEW sums AS SELECT k, sum(a) AS total FROM summed GROUP BY k")
    return "summed"


BEYOND = {
    "sum(a)": "SELECT sum(a) FROM summed",
    "sum(a), by partition": "SELECT k, sum(a) FROM summed GROUP BY k",
    "sum(-a)": "SELECT sum(-a) FROM summed",
    "sum(a) FILTER": "SELECT sum(a) FILTER (WHERE id > 9) FROM summed",
    "sum(a) OVER": "SELECT sum(a) OVER (ORDER BY id) FROM summed",
    "sum(DISTINCT a + id)": "SELECT sum(DISTINCT a + id) FROM summed",
    "sum of a view": "SELECT * FROM sums",
    "sum of a value": "SELECT id FROM summed s WHERE a < (SELECT sum(a) FROM summed t WHERE t.k = s.k)",
    "sum in ROLLUP": "SELECT k, sum(a) FROM summed GROUP BY ROLLUP (k)",
    "UPDATE": "UPDATE summed SET a = (SELECT sum(a) FROM summed) WHERE id = 1",
    "CREATE TABLE": "CREATE TABLE stored AS SELECT sum(a) AS s FROM summed",
}


@pytest.mark.parametrize("sql", BEYOND.values(), ids=BEYOND)
def test_a_sum_beyond_38_digits_is_refused(database: Database, summed: str, sql: str) -> None:
    assert re.search(
        r"\d\.\d\d is too l(?:ong for DECIMAL\(38, 2\); write CAST\(a|arge to store in a DECIMAL of precision 38)",
        database.refuses(sql),
    )
    assert database.value(f"SELECT count(*) FROM {summed} WHERE a > 99999999999999999999999999999999999") == 60


SUMS = {
    "sum(a) FILTER (WHERE id <= 5)": Decimal("499999999999999999999999999999999997.75"),
    "sum(DISTINCT a)": Decimal("99999999999999999999999999999999999.55"),
    "sum(p)": Decimal("1860.00"),
    "avg(p)": Decimal("31.000000"),
    "avg(a - 99999999999999999999999999999999990)": Decimal("9.550000"),
    "sum(CAST(a AS DECIMAL(60, 2)))": Decimal("5999999999999999999999999999999999973.00"),
}


@pytest.mark.parametrize(("expression", "expected"), SUMS.items())
def test_long_decimals_are_summed_exactly(database: Database, summed: str, expression: str, expected: Decimal) -> None:
    assert database.value(f"SELECT {expression} FROM {summed}") == expected


def test_room_for_all_rows_is_in_no_name(database: Database, summed: str) -> None:
    found = database.query(f"SELECT sum(p), avg(p) OVER () FROM {summed} GROUP BY p HAVING sum(p) > 3 ORDER BY sum(p)")
    assert found.column_names == ["sum(p)", "avg(p) OVER ()"]
    assert [kind.precision for kind in found.schema.types] == [38, 34]


LONG = "123456789012345678.12"
KINDS = {
    "DECIMAL(20, 2)": LONG,
    "DECIMAL(38, 0)": "12345678901234567890123456789012345678",
    "DECIMAL(38, 20)": "0.12345678901234567891",
    "DECIMAL(60, 10)": "12345678901234567890123456789012345678901234567890.5",
}


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(("kind", "number"), KINDS.items())
def test_every_digit_is_stored(database: Database, table: str, kind: str, number: str, sign: str) -> None:
    database.run(f"CREATE TABLE {table} (x {kind})")
    database.run(f"INSERT INTO {table} VALUES ({sign}{number}), (1)")
    database.run(f"INSERT INTO {table} SELECT {sign}{number}")
    database.run(f"UPDATE {table} SET x = {sign}{number} WHERE x = 1")
    assert database.rows(f"SELECT DISTINCT x FROM {table}") == [(Decimal(sign + number),)]


def test_every_digit_of_a_long_list_is_stored(database: Database, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tokens, insert):
        monkeypatch.setattr(module, "LONG", 1)
    monkeypatch.setattr(tokens, "PIECE", 100)
    database.run(f"CREATE TABLE {table} (x DECIMAL(20, 2))")
    database.run(f"INSERT INTO {table} VALUES {', '.join(['(1.5)', f'(-{LONG})'] * 50)}")
    assert sorted(database.rows(f"SELECT x, count(*) FROM {table} GROUP BY x")) == [
        (Decimal(f"-{LONG}"), 50),
        (Decimal("1.50"), 50),
    ]


def test_the_text_of_a_double_is_that_double(database: Database, table: str) -> None:
    values = [0.1 + 0.2, 1 / 3, 2 / 3 * 1e10, 5e-324, 1.7976931348623157e308, 123456789.12345679]
    database.ingest(table, pa.table({"x": values}))
    for value in values:
        assert database.value(f"SELECT count(*) FROM {table} WHERE x = {value!r}") == 1


TYPES = {
    "0.1": "double",
    "3.14159265358979": "double",
    "3.141592653589793": "double",
    "0.30000000000000004": "double",
    "0.34558418393135070": "double",
    "3.1415926535897932": "decimal128(17, 16)",
    "1234567890123456e0": "double",
    "18446744073709551615": "uint64",
    "18446744073709551616": "decimal128(20, 0)",
    "100000000000000000000": "double",
    "[0.345584183931350712345]": "list<item: double>",
    "1" * 77: "double",
}


@pytest.mark.parametrize(("number", "kind"), TYPES.items())
def test_a_number_is_a_decimal_where_a_double_has_too_few_digits(database: Database, number: str, kind: str) -> None:
    assert str(database.query(f"SELECT {number} AS x").schema.field("x").type) == kind
