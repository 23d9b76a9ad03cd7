"""INSERT: which columns get which values, how values become the column's type, and what is refused."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from lance_flight.errors import DataError, SqlError

from tests.engine.database import Database
from tests.stock import manifest, stored_by_value, stored_rows

COLUMNS = "id BIGINT NOT NULL, name VARCHAR, price DECIMAL(10, 2)"
PLACES = pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (name)"], ids=["plain", "partitioned"])

FORMS = [
    pytest.param("INTO {t} VALUES (1, 'a', 2)", [(1, "a", Decimal(2))], id="values in the order of the table"),
    pytest.param("INTO {t} (price, id) VALUES (2, 1)", [(1, None, Decimal(2))], id="listed columns, the rest NULL"),
    pytest.param("INTO {t} (name, price, id) SELECT 'x', 3, 4", [(4, "x", Decimal(3))], id="select"),
    pytest.param("INTO {t} SELECT 1, NULL, NULL AS price", [(1, None, None)], id="NULLs without a type"),
    pytest.param("INTO {t} (SELECT 1, 'a', 2)", [(1, "a", Decimal(2))], id="a query in brackets"),
    pytest.param("INTO {t} WITH q AS (SELECT 7 AS n) SELECT n, 'w', n AS m FROM q", [(7, "w", Decimal(7))], id="with"),
    ("INTO {t} VALUES (1, 'a', 1), (2, NULL, 2)", [(1, "a", Decimal(1)), (2, None, Decimal(2))]),
    pytest.param("INTO public.{t} VALUES (1, 'a', 1)", [(1, "a", Decimal(1))], id="with the schema"),
    pytest.param("INTO {t} SELECT 1, 'a', 1", [(1, "a", Decimal(1))], id="a value twice"),
    pytest.param("INTO {t} SELECT 1, NULL, NULL", [(1, None, None)], id="NULL twice"),
    pytest.param("INTO {t} (id, price) SELECT ?, ?", [(1, None, Decimal(1))], id="a parameter twice"),
    ("INTO {t} (id, price) SELECT DISTINCT n, n FROM (VALUES (1), (1)) q(n)", [(1, None, Decimal(1))]),
    ("INTO {t} SELECT n, CAST(q.n AS VARCHAR), N::INT FROM (SELECT 1 AS n) q ORDER BY n", [(1, "1", Decimal(1))]),
    ("INTO {t} (id, price) SELECT count(*), count(*) FROM (VALUES (1))", [(1, None, Decimal(1))]),
    ("INTO {t} (id, price) (SELECT 1, 1 UNION ALL SELECT 2, 2)", [(1, None, Decimal(1)), (2, None, Decimal(2))]),
    ("INTO {t} (id, price) WITH q AS (SELECT 1 AS n) SELECT n, n FROM q -- n", [(1, None, Decimal(1))]),
    pytest.param("INTO {t} (id, price) SELECT * FROM (SELECT 1, 1)", [(1, None, Decimal(1))], id="inside"),
    pytest.param(
        "INTO {t} (id, price) SELECT abs(CAST(1 IS DISTINCT FROM 2 AS INT)), abs(CAST(1 IS DISTINCT FROM 2 AS INT))",
        [(1, None, Decimal(1))],
        id="brackets and FROM",
    ),
    pytest.param("INTO {t} SELECT 1, 'a', 2 WHERE false", [], id="no rows"),
]


DEFAULTS = "id BIGINT DEFAULT 9, name VARCHAR DEFAULT 'it''s', day DATE DEFAULT '2024-02-29', at TIME DEFAULT '10:30', x DOUBLE DEFAULT 'NaN', price DECIMAL(10, 2) DEFAULT 1.5, open BOOLEAN DEFAULT true, tags VARCHAR[]"
NINE = (9, "it's", dt.date(2024, 2, 29), dt.time(10, 30), "nan", Decimal("1.50"), True, None)
CHOSEN = (1, "DEFAULT", dt.date(2025, 1, 1), dt.time(0), "2.5", Decimal(3), False, ["a"])
VALUES = ("1", "'DEFAULT'", "DATE '2025-01-01'", "TIME '00:00'", "2.5", "3", "false", "['a']")
OF_DEFAULTS = {
    "DEFAULT VALUES": NINE,
    "VALUES (default, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT)": NINE,
    **{
        f"VALUES ({', '.join((*VALUES[:place], 'DEFAULT', *VALUES[place + 1 :]))})": (
            *CHOSEN[:place],
            NINE[place],
            *CHOSEN[place + 1 :],
        )
        for place in range(len(VALUES))
    },
}
"""An INSERT of one row, and what is stored."""


@PLACES
def test_default_is_the_value_that_the_column_has_by_default(
    database: Database, table: str, partitioned_by: str
) -> None:
    database.run(f"CREATE TABLE {table} ({DEFAULTS}){partitioned_by}")
    row = "SELECT id, name, day, at, CAST(x AS VARCHAR), price, open, tags FROM"
    for form, expected in OF_DEFAULTS.items():
        database.run(f"TRUNCATE {table}")
        assert (form, database.run(f"INSERT INTO {table} {form}")) == (form, 1)
        assert (form, database.rows(f"{row} {table}")) == (form, [expected])
    # Beside rows whose values have types, or are texts.
    database.run(f"TRUNCATE {table}")
    texts = "1, 'DEFAULT', '2025-01-01', '00:00', '2.5', '3', 'false', ['a']"
    nothing = ", ".join(["DEFAULT"] * len(VALUES))
    database.run(f"INSERT INTO {table} VALUES ({', '.join(VALUES)}), ({nothing}), ({texts})")
    assert database.rows(f"{row} {table} ORDER BY id") == [CHOSEN, CHOSEN, NINE]
    # In what is set, too.
    settings = ", ".join(f"{name} = DEFAULT" for name in ("name", "day", "at", "x", "price", "open", "tags"))
    database.run(f"UPDATE {table} SET {settings} WHERE id = 1")
    assert database.rows(f"{row} {table} ORDER BY id") == [(1, *NINE[1:]), (1, *NINE[1:]), NINE]
    database.run(f"DELETE FROM {table} WHERE id = 1")
    conflict = "ON CONFLICT (id) DO UPDATE SET name = DEFAULT, price = excluded.price"
    database.run(f"INSERT INTO {table} (id, name, price) VALUES (9, 'new', 7), (8, DEFAULT, 2) {conflict}")
    assert database.rows(f"SELECT id, name, price FROM {table} ORDER BY id") == [(8, "it's", 2), (9, "it's", 7)]
    database.run(
        f"MERGE INTO {table} AS t USING (VALUES (8), (7)) AS s(id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id, DEFAULT)"
    )
    assert database.rows(f"SELECT id, price FROM {table} ORDER BY id") == [
        (7, Decimal("1.5")),
        (8, Decimal("1.5")),
        (9, 7),
    ]


def test_default_stands_alone_and_obeys_not_null(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, name VARCHAR DEFAULT 'x')")
    with pytest.raises(DataError, match="column 'id' is NOT NULL and has NULL"):
        database.run(f"INSERT INTO {table} DEFAULT VALUES")
    for form in ("VALUES (1, DEFAULT || 'y')", "VALUES (1, (DEFAULT))", "SELECT 1, DEFAULT"):
        with pytest.raises(SqlError, match="DEFAULT is a whole value"):
            database.run(f"INSERT INTO {table} {form}")
    assert database.rows(f"SELECT * FROM {table}") == []


@PLACES
@pytest.mark.parametrize(("form", "expected"), FORMS)
def test_an_insert_stores_its_rows_and_says_how_many(
    database: Database, table: str, partitioned_by: str, form: str, expected: list[tuple[Any, ...]]
) -> None:
    database.run(f"CREATE TABLE {table} ({COLUMNS}){partitioned_by}")
    parameters = [1] * form.count("?")
    assert database.run(f"INSERT {form.format(t=table)}", parameters or None) == len(expected)
    assert database.rows(f"SELECT id, name, price FROM {table} ORDER BY id") == expected


ASSIGNED = [
    pytest.param("REAL", "0.1", pytest.approx(0.1), id="a double is rounded to a real"),
    pytest.param("REAL", "16777217", 16777216.0, id="an integer is rounded to a real"),
    pytest.param("DOUBLE", "9007199254740993", 9007199254740992.0, id="an integer is rounded to a double"),
    pytest.param("DECIMAL(10, 2)", "5", Decimal("5.00"), id="an integer into a decimal"),
    pytest.param("DECIMAL(10, 2)", "12.345", Decimal("12.35"), id="a double is rounded to a decimal"),
    pytest.param("DECIMAL(10, 2)", "CAST('-1.005' AS DECIMAL(9, 3))", Decimal("-1.01"), id="a decimal is rounded"),
    pytest.param("DECIMAL(10, 2)", "'1.5'", Decimal("1.50"), id="text into a decimal"),
    pytest.param("INT", "' 42 '", 42, id="text into an integer"),
    pytest.param("INT", "3.0", 3, id="a whole double into an integer"),
    pytest.param("INT", "CAST(3.0 AS DECIMAL(3, 1))", 3, id="a whole decimal into an integer"),
    pytest.param(
        "BIGINT UNSIGNED",
        "CAST('18446744073709551615' AS DECIMAL(20, 0))",
        2**64 - 1,
        id="a long decimal into an integer",
    ),
    pytest.param("BOOLEAN", "'yes'", True, id="text into a boolean"),
    pytest.param("DATE", "'2020-02-29'", dt.date(2020, 2, 29), id="text into a date"),
    pytest.param("DATE", "TIMESTAMP '2020-02-29'", dt.date(2020, 2, 29), id="midnight into a date"),
    pytest.param("TIME", "'01:02'", dt.time(1, 2), id="text into a time"),
    ("TIMESTAMP", "'2020-01-01T00:00:00+01:00'", dt.datetime(2020, 1, 1)),
    ("TIMESTAMP", "'2020-1-5 9:30'", dt.datetime(2020, 1, 5, 9, 30)),
    ("TIMESTAMPTZ", "'2020-01-05 09:30+01'", dt.datetime(2020, 1, 5, 8, 30, tzinfo=dt.UTC)),
    ("TIMESTAMPTZ", "'2020-01-01 01:02:03'", dt.datetime(2020, 1, 1, 1, 2, 3, tzinfo=dt.UTC)),
    pytest.param("TIMESTAMP", "DATE '2020-01-01'", dt.datetime(2020, 1, 1), id="a date into a timestamp"),
    pytest.param("VARCHAR", "5", "5", id="a number into text"),
    pytest.param("BIGINT", "CAST(7 AS TINYINT)", 7, id="a narrow integer into a wide one"),
    pytest.param("TINYINT", "127", 127, id="a wide integer into a narrow one"),
    pytest.param("DOUBLE", "'NaN'", math.nan, id="not a number"),
]


UNREADABLE = {
    "TIME": ["'10'", "'1000'"],
    "TIMESTAMP": ["'10:00'", "'2024-01-05 10'"],
    "DATE": ["'soon'"],
    "INT": ["'1.5'", "'x'"],
}


def test_a_text_that_is_no_value_of_the_column_is_refused(database: Database, table: str) -> None:
    for kind, literals in UNREADABLE.items():
        database.run(f"CREATE OR REPLACE TABLE {table} (c {kind})")
        for literal in literals:
            with pytest.raises(DataError, match=r"column 'c' .* cannot be read from text"):
                database.run(f"INSERT INTO {table} VALUES ({literal})")
        assert database.rows(f"SELECT * FROM {table}") == []


def test_an_empty_list_within_a_struct_is_stored_beside_what_is_checked(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, c STRUCT(n INT, i STRUCT(l INT[], d DATE)))")
    database.run(f"INSERT INTO {table} SELECT 1, {{'n': 2, 'i': {{'l': [], 'd': DATE '2024-01-01'}}}}")
    assert database.rows(f"SELECT c FROM {table}") == [({"n": 2, "i": {"l": [], "d": dt.date(2024, 1, 1)}},)]
    for value in (
        "{'n': 1.5, 'i': {'l': [], 'd': NULL}}",
        "{'n': 1, 'i': {'l': [], 'd': TIMESTAMP '2024-01-01 10:00:00'}}",
    ):
        assert "without loss" in database.refuses(f"INSERT INTO {table} SELECT 2, {value}")
    assert database.value(f"SELECT count(*) FROM {table}") == 1


@pytest.mark.parametrize(("kind", "literal", "expected"), ASSIGNED)
def test_a_value_becomes_the_type_of_its_column(
    database: Database, table: str, kind: str, literal: str, expected: Any
) -> None:
    database.run(f"CREATE TABLE {table} (c {kind}, part INT) PARTITIONED BY (part)")
    database.run(f"INSERT INTO {table} VALUES ({literal}, 1)")
    (row,) = stored_rows(database.root / table).to_pylist()
    assert row["c"] == expected or (math.isnan(row["c"]) and math.isnan(expected))


def test_an_insert_from_its_own_table_reads_what_was_there_before(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT) PARTITIONED BY (bucket(4, id))")
    database.run(f"INSERT INTO {table} VALUES (1), (2)")
    assert database.run(f"INSERT INTO {table} SELECT id + 10 FROM {table}") == 2
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,), (11,), (12,)]


def test_each_insert_is_one_commit_over_all_partitions(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, part INT) PARTITIONED BY (part)")
    version = manifest(database.root / table).version
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 1)")
    assert manifest(database.root / table).version == version + 1
    database.run(f"INSERT INTO {table} VALUES (4, 2), (5, 3)")
    assert manifest(database.root / table).version == version + 2
    assert stored_by_value(database.root / table, "id") == {
        1: [{"id": 1}, {"id": 3}],
        2: [{"id": 2}, {"id": 4}],
        3: [{"id": 5}],
    }
