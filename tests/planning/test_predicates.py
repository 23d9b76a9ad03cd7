"""Predicates read as SQL, negated as SQL does, and as DataFusion 55 really pushes them down for every type and operator."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.errors import Unsupported
from lance_flight.planning.arrow_expression import metadata_entries, predicate_from_arrow, to_arrow
from lance_flight.planning.predicates import (
    ALWAYS,
    NEVER,
    UNKNOWN,
    And,
    Column,
    Compare,
    Constant,
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
    like,
    negate,
    sql_literal,
)

from tests.planning.planning_oracle import pushed, truth

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
    assert str(negate(equal_or_both_null(A, pa.scalar(value=True)))) == "a IS NULL OR a != TRUE"


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


# Type, how SQL writes a literal of it, and the literal.
NAIVE, UTC = dt.datetime.fromisoformat("2025-12-10T10:00:00"), dt.datetime.fromisoformat("2025-12-10T10:00:00Z")
SCALARS: list[tuple[pa.DataType, str, Any]] = [
    *((kind, "3", 3) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, "3", 3) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float32(), "CAST(0.5 AS FLOAT)", 0.5),
    (pa.float64(), "0.5", 0.5),
    *((kind, "'it''s'", "it's") for kind in (pa.utf8(), pa.large_utf8(), pa.string_view())),
    *((kind, "X'6162'", b"ab") for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))),
    *((kind, "'1969-12-31'", dt.date(1969, 12, 31)) for kind in (pa.date32(), pa.date64())),
    *((pa.timestamp(unit), "'2025-12-10T10:00:00'", NAIVE) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit, "UTC"), "'2025-12-10T10:00:00Z'", UTC) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "America/New_York"), "'2025-12-10T05:00:00'", UTC),
    (pa.time32("s"), "'10:30:00'", dt.time(10, 30)),
    (pa.time64("us"), "'10:30:00'", dt.time(10, 30)),
    (pa.decimal128(10, 2), "1.50", Decimal("1.50")),
]


@pytest.mark.sample(62)
@pytest.mark.parametrize("op", list(Op), ids=lambda op: op.name)
@pytest.mark.parametrize(("kind", "sql", "value"), SCALARS, ids=[str(kind) for kind, _, _ in SCALARS])
def test_a_comparison_of_every_type(kind: pa.DataType, sql: str, value: Any, op: Op) -> None:
    (found,) = pushed(pa.schema({"x": kind}), f"x {op.value} {sql}")
    assert predicate_from_arrow(found) == Compare(Column("x"), op, pa.scalar(value, kind))


@pytest.mark.parametrize(("kind", "sql", "value"), SCALARS, ids=[str(kind) for kind, _, _ in SCALARS])
def test_is_null_of_every_type(kind: pa.DataType, sql: str, value: Any) -> None:
    for where, negated in (("x IS NULL", False), ("x IS NOT NULL", True)):
        (found,) = pushed(pa.schema({"x": kind}), where)
        assert predicate_from_arrow(found) == IsNull(Column("x"), negated)


MIXED = pa.schema({"i": pa.int8(), "s": pa.utf8(), "b": pa.bool_(), "d": pa.dictionary(pa.int32(), pa.utf8())})
PUSHED = [
    ("i IN (1, 2)", "i = 1 OR i = 2"),
    ("i NOT IN (1, 2)", "i != 1 AND i != 2"),
    ("i IN (1, 2, 3, 4, 5)", "i IN (1, 2, 3, 4, 5)"),
    ("i NOT IN (1, 2, 3, 4, 5)", "i NOT IN (1, 2, 3, 4, 5)"),
    ("s NOT IN ('a', 'b', 'c', 'd', 'e')", "s NOT IN ('a', 'b', 'c', 'd', 'e')"),
    ("i IN (1, NULL)", "i = 1 OR NULL"),
    ("NOT (i IN (1, NULL))", "i != 1 AND NULL"),
    ("i BETWEEN 1 AND 4", "i >= 1 AND i <= 4"),
    ("4 > i", "i < 4"),
    ("NOT (i = 1 AND s = 'a')", "i != 1 OR s != 'a'"),
    ("s = 'a' AND (i = 1 OR i = 2)", "s = 'a' AND (i = 1 OR i = 2)"),
    ("b", "b = TRUE"),
    ("NOT b", "b != TRUE"),
    ("b AND i = 1", "b = TRUE AND i = 1"),
    ("s LIKE 'a'", "s = 'a'"),
    ("d = 'a'", "d = 'a'"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "expected"), PUSHED, ids=[where for where, _ in PUSHED])
def test_what_is_pushed_down(where: str, expected: str) -> None:
    (found,) = pushed(MIXED, where)
    assert str(predicate_from_arrow(found)) == expected


@pytest.mark.parametrize("where", ["s LIKE 'a%'", "i + 1 = 2", "b IS TRUE", "i IS DISTINCT FROM 1", "i = 1.5"])
def test_what_is_not_pushed_down(where: str) -> None:
    assert pushed(MIXED, where) == [None]


def test_a_date_part_is_pushed_as_a_range() -> None:
    (found,) = pushed(pa.schema({"d": pa.date32()}), "date_part('year', d) = 2025")
    assert str(predicate_from_arrow(found)) == "d >= DATE '2025-01-01' AND d < DATE '2026-01-01'"


X = pc.field("x")
OPAQUE = [
    (X.cast(pa.int8()) == 3, "cast(x) = 3"),
    (pc.field("x", "y") == 3, "field of(x, y) = 3"),
    (pc.field("y") == X, "y = x"),
    (pc.is_nan(X), "is_nan(x)"),
    (X.is_null(nan_is_null=True), "is_null(x)"),
    (pc.add(X, 1) < 3, "add(x, 1) < 3"),
]


@pytest.mark.parametrize(("expression", "text"), OPAQUE, ids=[text for _, text in OPAQUE])
def test_anything_else_is_opaque(expression: pc.Expression, text: str) -> None:
    found = predicate_from_arrow(expression)
    assert isinstance(found, Opaque)
    assert found.text == text
    assert found.why


def test_an_expression_over_positions_cannot_be_read_and_says_so() -> None:
    found = predicate_from_arrow(pc.field(0) == 3)
    assert isinstance(found, Opaque)
    assert "cannot be read" in found.why


def test_an_opaque_part_leaves_the_others() -> None:
    assert str(predicate_from_arrow((X > 3) & pc.is_nan(pc.field("y")))) == "x > 3 AND is_nan(y)"


def test_constants() -> None:
    assert predicate_from_arrow(pc.scalar(pa.scalar(None, pa.bool_()))) == UNKNOWN
    assert predicate_from_arrow(pc.scalar(pa.scalar(False))) == NEVER
    assert predicate_from_arrow(pa.scalar(True)) == Constant(value=True)


def test_metadata_keeps_repeated_keys_in_order() -> None:
    schema = pa.schema([], metadata=pa.KeyValueMetadata([("k", "1"), ("l", ""), ("k", "2")]))
    assert metadata_entries(schema) == [(b"k", b"1"), (b"l", b""), (b"k", b"2")]
    assert metadata_entries(pa.schema([])) == []


C = Column("x")
PUSHED_ROWS = pa.table({"x": ["a", "ab", "b", None]})
KEPT: list[tuple[Predicate, list[str | None]]] = [
    (Compare(C, Op.EQ, pa.scalar("a")), ["a"]),
    (Compare(C, Op.NE, pa.scalar("a")), ["ab", "b"]),
    (Compare(C, Op.NE, pa.scalar(None, pa.utf8())), []),
    (In(C, pa.array(["a", None])), ["a"]),
    (In(C, pa.array(["a"]), negated=True), ["ab", "b"]),
    (In(C, pa.array(["a", None]), negated=True), []),
    (IsNull(C), [None]),
    (IsNull(C, negated=True), ["a", "ab", "b"]),
    (StartsWith(C, "a"), ["a", "ab"]),
    (StartsWith(C, "a", negated=True), ["b"]),
    (Or((IsNull(C), Compare(C, Op.EQ, pa.scalar("b")))), ["b", None]),
    (And((StartsWith(C, "a"), Compare(C, Op.GT, pa.scalar("a")))), ["ab"]),
    (UNKNOWN, []),
]


@pytest.mark.parametrize(("predicate", "kept"), KEPT, ids=[str(predicate) for predicate, _ in KEPT])
def test_a_predicate_as_an_arrow_filter_keeps_just_the_true_rows(predicate: Predicate, kept: list[str | None]) -> None:
    assert PUSHED_ROWS.filter(to_arrow(predicate))["x"].to_pylist() == kept


@pytest.mark.parametrize("predicate", [Opaque("f(x)", "why"), Compare(DatePart("year", "x"), Op.EQ, pa.scalar(1))])
def test_what_arrow_cannot_say_is_refused(predicate: Predicate) -> None:
    with pytest.raises(Unsupported):
        to_arrow(And((IsNull(C), predicate)))
