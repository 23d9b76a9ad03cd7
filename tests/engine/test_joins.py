"""Queries over several tables: plain and partitioned ones joined with each other, and what SQL offers beyond."""

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
        "SELECT o.id, c.name FROM {o} o JOIN {c} c ON o.customer = c.id ORDER BY o.id",
        [(1, "ann"), (2, "ann"), (3, "bob")],
        id="inner",
    ),
    pytest.param(
        "SELECT o.id, c.name FROM {o} o LEFT JOIN {c} c ON o.customer = c.id ORDER BY o.id",
        [(1, "ann"), (2, "ann"), (3, "bob"), (4, None), (5, None)],
        id="left",
    ),
    pytest.param(
        "SELECT o.id, c.name FROM {o} o RIGHT JOIN {c} c ON o.customer = c.id ORDER BY c.id, o.id",
        [(1, "ann"), (2, "ann"), (3, "bob"), (None, "cat")],
        id="right",
    ),
    pytest.param(
        "SELECT count(*), count(o.id), count(c.id) FROM {o} o FULL JOIN {c} c ON o.customer = c.id",
        [(6, 5, 4)],
        id="full",
    ),
    pytest.param(
        "SELECT id FROM {o} WHERE customer IN (SELECT id FROM {c} WHERE country = 'US') ORDER BY id",
        [(1,), (2,)],
        id="semi",
    ),
    pytest.param(
        "SELECT id FROM {o} o WHERE NOT EXISTS (SELECT 1 FROM {c} c WHERE c.id = o.customer) ORDER BY id",
        [(4,), (5,)],
        id="anti",
    ),
    pytest.param(
        "SELECT id FROM {o} WHERE customer NOT IN (SELECT id FROM {c}) ORDER BY id", [(5,)], id="not in, NULL beside it"
    ),
    pytest.param(
        "SELECT c.country, sum(o.amount) FROM {o} o JOIN {c} c ON o.customer = c.id WHERE o.d >= '2024-01-01'"
        " GROUP BY c.country ORDER BY c.country NULLS LAST",
        [("US", 7), (None, 11)],
        id="filtered and grouped",
    ),
    pytest.param("SELECT count(*) FROM {o} a, {o} b WHERE a.customer = b.customer", [(6,)], id="with itself"),
    pytest.param("SELECT count(*) FROM {o}, {c}", [(15,)], id="cross"),
    pytest.param(
        "SELECT name FROM {c} WHERE country IS NOT DISTINCT FROM NULL", [("bob",)], id="not distinct from NULL"
    ),
    pytest.param(
        "SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY id) FROM {o} WHERE customer = 10 ORDER BY id",
        [(1, 5), (2, 12)],
        id="window",
    ),
    pytest.param(
        "WITH big AS (SELECT * FROM {o} WHERE amount > 6) SELECT count(*), min(amount) FROM big", [(4, 7)], id="with"
    ),
    pytest.param(
        "SELECT id FROM {o} WHERE amount > 10 UNION SELECT id FROM {c} WHERE id < 20 ORDER BY id",
        [(3,), (4,), (5,), (10,)],
        id="union",
    ),
    pytest.param(
        "SELECT DISTINCT country FROM {c} ORDER BY country NULLS FIRST", [(None,), ("DE",), ("US",)], id="distinct"
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
