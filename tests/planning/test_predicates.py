"""Predicates read as SQL, and their negation is SQL's."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest
from lance_flight.planning.predicates import (
    ALWAYS,
    NEVER,
    UNKNOWN,
    And,
    Column,
    Compare,
    DatePart,
    In,
    IsNull,
    Op,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    after_prefix,
    all_of,
    any_of,
    conjuncts,
    equal_or_both_null,
    is_true,
    like,
    negate,
    sql_literal,
)

from tests.planning.planning_oracle import truth

A, B = Column("a"), Column("b")
SMALL = Compare(A, Op.LT, pa.scalar(3))

SHOWN = [
    (Compare(A, Op.EQ, pa.scalar("it's")), "a = 'it''s'"),
    (Compare(Column("Größe"), Op.GE, pa.scalar(Decimal("1.50"))), '"Größe" >= 1.50'),
    (Compare(DatePart("year", "a"), Op.NE, pa.scalar(2025)), "date_part('year', a) != 2025"),
    (In(A, pa.array([1, None])), "a IN (1, NULL)"),
    (In(A, pa.array(range(10)), negated=True), "a NOT IN (0, 1, 2, 3, 4, 5, 6, 7, … 2 more)"),
    (IsNull(A), "a IS NULL"),
    (IsNull(A, negated=True), "a IS NOT NULL"),
    (StartsWith(A, "50%_"), r"a LIKE '50\%\_%'"),
    (And((SMALL, Or((SMALL, IsNull(B))))), "a < 3 AND (a < 3 OR b IS NULL)"),
    (Or((SMALL, And((SMALL, IsNull(B))))), "a < 3 OR (a < 3 AND b IS NULL)"),
    (negate(Opaque("f(a) = 1", "why")), "NOT (f(a) = 1)"),
    (UNKNOWN, "NULL"),
]

LITERALS = [
    (pa.scalar(True), "TRUE"),
    (pa.scalar(b"a\xff"), "X'61ff'"),
    (pa.scalar(None, pa.int8()), "NULL"),
    (pa.scalar(dt.date(1969, 12, 31)), "DATE '1969-12-31'"),
    (pa.scalar(dt.time(10, 30)), "TIME '10:30:00.000000'"),
    (pa.scalar(-1, pa.int64()).cast(pa.timestamp("ns")), "TIMESTAMP '1969-12-31T23:59:59.999999999'"),
    (pa.scalar(0, pa.int64()).cast(pa.timestamp("s", "America/New_York")), "TIMESTAMP '1970-01-01T00:00:00Z'"),
]

LIKES = [
    ("ab%", StartsWith(A, "ab")),
    ("ab%%", StartsWith(A, "ab")),
    ("%", StartsWith(A, "")),
    ("ab", Compare(A, Op.EQ, pa.scalar("ab"))),
    ("a_b%", None),
    ("a%b", None),
    ("%b", None),
    (r"a\%%", None),
]


@pytest.mark.parametrize(("predicate", "sql"), SHOWN, ids=[sql for _, sql in SHOWN])
def test_a_predicate_reads_as_sql(predicate: Predicate, sql: str) -> None:
    assert str(predicate) == sql


@pytest.mark.parametrize(("value", "sql"), LITERALS, ids=[sql for _, sql in LITERALS])
def test_a_literal_reads_as_sql(value: pa.Scalar, sql: str) -> None:
    assert sql_literal(value) == sql


@pytest.mark.parametrize(("pattern", "predicate"), LIKES, ids=[pattern for pattern, _ in LIKES])
def test_like_is_a_prefix_an_equality_or_opaque(pattern: str, predicate: Predicate | None) -> None:
    found = like(A, pattern)
    assert found == predicate or (predicate is None and isinstance(found, Opaque))


VALUES = [None, 1, 2, 3]
ROWS = pa.table({"a": [a for a, _ in product(VALUES, VALUES)], "b": [b for _, b in product(VALUES, VALUES)]})
NEGATED = [
    ("a < 3", SMALL),
    ("a IN (1, 2)", In(A, pa.array([1, 2]))),
    ("a = 1 AND b != 2", And((Compare(A, Op.EQ, pa.scalar(1)), Compare(B, Op.NE, pa.scalar(2))))),
    ("a >= 2 OR b IS NULL", Or((Compare(A, Op.GE, pa.scalar(2)), IsNull(B)))),
    ("a IS NOT DISTINCT FROM 1", equal_or_both_null(A, pa.scalar(1))),
    ("a IS NOT DISTINCT FROM NULL", equal_or_both_null(A, pa.scalar(None, pa.int64()))),
]


@pytest.mark.parametrize(("sql", "predicate"), NEGATED, ids=[sql for sql, _ in NEGATED])
def test_a_negation_is_true_of_the_rows_that_sql_says(sql: str, predicate: Predicate) -> None:
    (wanted,) = truth(ROWS, [f"NOT ({sql})"])
    (found,) = truth(ROWS, [str(negate(predicate))])
    assert [value is True for value in found.to_pylist()] == [value is True for value in wanted.to_pylist()]


def test_the_negation_of_is_true_holds_for_null() -> None:
    assert str(negate(is_true(A))) == "a IS NULL OR a != TRUE"


def test_null_stays_null_when_negated() -> None:
    assert (negate(UNKNOWN), negate(ALWAYS), negate(NEVER)) == (UNKNOWN, NEVER, ALWAYS)


def test_joining_flattens_and_forgets_what_says_nothing() -> None:
    assert all_of([ALWAYS, And((SMALL, IsNull(B)))]) == And((SMALL, IsNull(B)))
    assert any_of([NEVER, SMALL]) == SMALL
    assert (all_of([]), any_of([])) == (ALWAYS, NEVER)
    assert conjuncts(And((SMALL, And((SMALL, ALWAYS))))) == (SMALL, SMALL)


@pytest.mark.parametrize(
    ("prefix", "following"),
    [("a", "b"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("\U0010ffff", None), ("", None)],
)
def test_the_first_text_after_a_prefix(prefix: str, following: str | None) -> None:
    assert after_prefix(prefix) == following
