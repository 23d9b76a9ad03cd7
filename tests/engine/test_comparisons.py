"""IS [NOT] DISTINCT FROM among other operators: its operands are what binds tighter, as PostgreSQL reads it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.engine.sql.functions import session_config
from lance_flight.engine.sql.rewriting import for_datafusion

from tests.engine.database import Database
from tests.selection import IS_FULL

IS, IS_NOT = "IS DISTINCT FROM", "IS NOT DISTINCT FROM"
BRACKETED = [
    pytest.param("1 IS DISTINCT FROM 2 AND true", "(1 IS DISTINCT FROM 2) AND true", id="AND"),
    pytest.param("1 IS NOT DISTINCT FROM 2 OR true", "(1 IS NOT DISTINCT FROM 2) OR true", id="OR"),
    pytest.param("NOT p IS DISTINCT FROM q AND p", "NOT (p IS DISTINCT FROM q) AND p", id="NOT"),
    pytest.param("q OR a + 1 IS DISTINCT FROM -b AND p", "q OR (a + 1 IS DISTINCT FROM -b) AND p", id="arithmetic"),
    pytest.param("a = b IS DISTINCT FROM a < b AND p", "(a = b IS DISTINCT FROM a < b) AND p", id="comparisons"),
    pytest.param(
        "p AND a BETWEEN 1 AND 2 IS DISTINCT FROM b BETWEEN 1 AND 2 AND q",
        "p AND (a BETWEEN 1 AND 2 IS DISTINCT FROM b BETWEEN 1 AND 2) AND q",
        id="BETWEEN",
    ),
    pytest.param("a NOT IN (1) IS DISTINCT FROM p AND q", "(a NOT IN (1) IS DISTINCT FROM p) AND q", id="NOT IN"),
    pytest.param("a IS NULL IS DISTINCT FROM p AND q", "(a IS NULL IS DISTINCT FROM p) AND q", id="IS NULL before"),
    pytest.param("a IS DISTINCT FROM b IS TRUE", "(a IS DISTINCT FROM b) IS TRUE", id="IS after"),
    ("p IS DISTINCT FROM q IS DISTINCT FROM p AND q", "((p IS DISTINCT FROM q) IS DISTINCT FROM p) AND q"),
    ("a IS DISTINCT FROM 1 AND b IS DISTINCT FROM 2 AND p", "(a IS DISTINCT FROM 1) AND (b IS DISTINCT FROM 2) AND p"),
    pytest.param(
        "CASE WHEN a IS DISTINCT FROM b AND p THEN 1 END IS DISTINCT FROM 1 AND q",
        "(CASE WHEN (a IS DISTINCT FROM b) AND p THEN 1 END IS DISTINCT FROM 1) AND q",
        id="CASE",
    ),
    pytest.param("(a IS DISTINCT FROM b AND p) OR q", "((a IS DISTINCT FROM b) AND p) OR q", id="in brackets"),
    pytest.param(
        "array_any_match([a], x -> x IS DISTINCT FROM b AND p)",
        "array_any_match([a], x -> (x IS DISTINCT FROM b) AND p)",
        id="in a lambda",
    ),
    pytest.param(
        "TIMESTAMP '2026-01-01' IS DISTINCT FROM a::TIMESTAMP AND p",
        "(TIMESTAMP(6) '2026-01-01' IS DISTINCT FROM a::TIMESTAMP(6)) AND p",
        id="types",
    ),
]
LEFT = [
    pytest.param("SELECT a IS DISTINCT FROM b AS x FROM t WHERE p AND q", id="an alias"),
    pytest.param("SELECT a IS DISTINCT FROM b x FROM t WHERE p AND q", id="an alias without AS"),
    pytest.param("SELECT * FROM t JOIN t AS u ON t.a IS DISTINCT FROM u.a JOIN t AS v ON p AND q", id="a join"),
    pytest.param("SELECT a IS DISTINCT FROM b, p AND q FROM t", id="a list"),
    pytest.param("SELECT DISTINCT a FROM t WHERE p AND q", id="DISTINCT"),
]


@pytest.mark.parametrize(("expression", "bracketed"), BRACKETED)
def test_the_comparison_ends_where_something_looser_begins(expression: str, bracketed: str) -> None:
    assert for_datafusion(f"SELECT {expression} FROM t") == f"SELECT {bracketed} FROM t"


@pytest.mark.parametrize("text", LEFT)
def test_what_nothing_looser_follows_is_left_alone(text: str) -> None:
    assert for_datafusion(text) == text


def expression(chosen: random.Random, depth: int = 0) -> tuple[str, str, int]:
    """A condition as one would write it, the same in all its brackets, and how tightly its last operator binds."""
    kind = (
        chosen.choice(["OR", "AND", "NOT", IS, IS_NOT, "=", "p", "q", "p", "NULL"])
        if depth < 4
        else chosen.choice("pq")
    )
    if kind in {"p", "q", "NULL"}:
        return kind, kind, 9
    binds = {"OR": 1, "AND": 2, "NOT": 3, IS: 4, IS_NOT: 4, "=": 5}[kind]
    left, right = expression(chosen, depth + 1), expression(chosen, depth + 1)
    written = [f"({text})" if tight < binds + (binds > 3) else text for text, _, tight in (left, right)]
    if kind == "NOT":
        return f"NOT {written[0]}", f"(NOT {left[1]})", binds
    return f"{written[0]} {kind} {written[1]}", f"({left[1]} {kind} {right[1]})", binds


def test_random_conditions_mean_what_their_brackets_say() -> None:
    chosen = random.Random(7)  # noqa: S311 - a fixed sample
    context = SessionContext(session_config())
    values = [True, False, None]
    rows = [{"p": p, "q": q} for p in values for q in values]
    context.register_record_batches(
        "t", [[pa.RecordBatch.from_pylist(rows, pa.schema({"p": pa.bool_(), "q": pa.bool_()}))]]
    )
    for _ in range(3000 if IS_FULL else 150):
        written, bracketed, _ = expression(chosen)
        query = "SELECT CAST({} AS BOOLEAN) AS x FROM t"
        found = context.sql(for_datafusion(query.format(written))).to_pydict()
        assert found == context.sql(query.format(bracketed)).to_pydict(), written


CONCATENATED = {
    "'a' || 5 % 3": "a2",
    "'1' || 2 * 3 || 4 - 1": "163",
    "2 + 3 || 'a' = '5a' AND 'b' || 'c' = 'bc'": True,
    "'x' || -1 || '*' || (3 - 2)": "x-1*1",
    "'a' || CASE WHEN true THEN 1 + 1 ELSE 2 END": "a2",
}


@pytest.mark.parametrize("expression", CONCATENATED)
def test_sums_and_products_bind_closer_than_concatenation(database: Database, expression: str) -> None:
    assert database.value(f"SELECT {expression}") == CONCATENATED[expression]
