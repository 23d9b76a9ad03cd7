"""Queries over several tables, plain and partitioned ones, that the random queries of `test_partition_wise` never say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.database import Database

LAYOUTS = {
    "both plain": ("", ""),
    "left partitioned": (" PARTITIONED BY (bucket(3, customer))", ""),
    "right partitioned": ("", " PARTITIONED BY (country)"),
    "both, differently": (" PARTITIONED BY (year(d))", " PARTITIONED BY (country)"),
    "both, by the same key": (" PARTITIONED BY (bucket(4, customer))", " PARTITIONED BY (bucket(2, id))"),
}

ORDERS = [
    (1, 10, "2023-01-01", 5),
    (2, 10, "2024-01-01", 7),
    (3, 20, "2024-06-01", 11),
    (4, None, None, 13),
    (5, 99, "2024-01-01", 17),
]
CUSTOMERS = [(10, "ann", "US"), (20, "bob", None), (30, "cat", "DE")]

QUERIES = [
    pytest.param(
        "SELECT id FROM {o} WHERE customer NOT IN (SELECT id FROM {c}) ORDER BY id", [(5,)], id="not in, NULL beside it"
    ),
    pytest.param("SELECT count(*) FROM {o}, {c}", [(15,)], id="cross"),
    pytest.param(
        "SELECT name FROM {c} WHERE country IS NOT DISTINCT FROM NULL", [("bob",)], id="not distinct from NULL"
    ),
    pytest.param(
        "WITH big AS (SELECT * FROM {o} WHERE amount > 6) SELECT count(*), min(amount) FROM big", [(4, 7)], id="with"
    ),
    pytest.param(
        "SELECT id FROM {o} WHERE amount > 10 UNION SELECT id FROM {c} WHERE id < 20 ORDER BY id",
        [(3,), (4,), (5,), (10,)],
        id="union",
    ),
    pytest.param("SELECT id FROM {o} ORDER BY amount DESC LIMIT 2 OFFSET 1", [(4,), (3,)], id="limit and offset"),
    pytest.param("SELECT (SELECT max(amount) FROM {o}) - amount FROM {o} WHERE id = 1", [(12,)], id="scalar subquery"),
    pytest.param("VALUES (1, 'a'), (2, NULL)", [(1, "a"), (2, None)], id="values"),
    pytest.param("(SELECT id FROM {c} WHERE id = 10)", [(10,)], id="a query in brackets"),
]


def literals(rows: list[tuple[Any, ...]]) -> str:
    """Rows as VALUES."""
    return ", ".join("(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")" for row in rows)


@pytest.fixture(scope="module", params=LAYOUTS.values(), ids=LAYOUTS.keys())
def shop(request: pytest.FixtureRequest, database: Database) -> dict[str, str]:
    """Orders and customers in one of the layouts: their table names."""
    orders, customers = request.param
    number = list(LAYOUTS.values()).index(request.param)
    names = {"o": f"orders{number}", "c": f"customers{number}"}
    database.run(f"CREATE TABLE {names['o']} (id INT, customer INT, d DATE, amount INT){orders}")
    database.run(f"CREATE TABLE {names['c']} (id INT, name VARCHAR, country VARCHAR){customers}")
    database.run(f"INSERT INTO {names['o']} VALUES {literals(ORDERS)}")
    database.run(f"INSERT INTO {names['c']} VALUES {literals(CUSTOMERS)}")
    return names


@pytest.mark.parametrize(("sql", "expected"), QUERIES)
def test_a_query_has_the_same_answer_however_its_tables_are_laid_out(
    database: Database, shop: dict[str, str], sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert database.rows(sql.format(**shop)) == expected
