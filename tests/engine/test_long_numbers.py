"""Numbers with more digits than a double has are stored and compared digit by digit."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tests.engine.database import Database

LONG, NEXT = "123456789012345678.12", "123456789012345678.13"
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


def test_every_digit_of_a_long_list_is_stored(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (x DECIMAL(20, 2))")
    database.run(f"INSERT INTO {table} VALUES {', '.join(['(1.5)', f'(-{LONG})'] * 50_000)}")
    assert sorted(database.rows(f"SELECT x, count(*) FROM {table} GROUP BY x")) == [
        (Decimal(f"-{LONG}"), 50_000),
        (Decimal("1.50"), 50_000),
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
