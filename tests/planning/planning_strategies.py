"""Random schemas, rows, specs and predicates; every predicate as SQL and as a tree."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.model.transforms import TRANSFORMS, MultiBucket, Transform
from lance_flight.planning.predicates import (
    Column,
    Compare,
    Constant,
    DatePart,
    In,
    IsNull,
    Op,
    Predicate,
    StartsWith,
    all_of,
    any_of,
    equal_or_both_null,
    negate,
)

from tests.planning.planning_oracle import field, truth

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
MICROSECONDS = 1_000_000
SIZES = (1, 2, 3, 7, 10)
"""Counts of buckets and widths."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A column type for the tests: its values, and how SQL writes one of them."""

    type: pa.DataType
    values: tuple[Any, ...]
    sql: Callable[[Any], str]

    def scalar(self, value: Any) -> pa.Scalar:
        return self.array([value])[0]

    def array(self, values: list[Any]) -> pa.Array:
        if pa.types.is_timestamp(self.type):
            return pa.array(values, pa.int64()).view(self.type)
        if pa.types.is_float32(self.type):
            return pa.array([None if v is None else np.float32(v) for v in values], self.type)
        return pa.array(values, self.type)


def _cast(name: str) -> Callable[[Any], str]:
    return lambda value: f"arrow_cast({value}, '{name}')"


def _float(name: str) -> Callable[[float], str]:
    def sql(value: float) -> str:
        if np.isnan(value):
            return f"{'-' * bool(np.signbit(value))}arrow_cast('NaN', '{name}')"
        return f"arrow_cast('{value!r}', '{name}')"

    return sql


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_MOMENTS = (
    "1899-02-28T01:00:00",
    "1969-12-31T23:30:00",
    "1970-01-01T00:00:00",
    "2024-02-29T00:00:00",
    "2024-12-31T23:00:00",
    "2025-01-01T02:00:00",
    "2025-01-01T02:59:59",
    "2025-01-31T10:00:00",
    "2025-02-01T00:00:00",
    "2025-12-10T10:00:00",
    "2025-12-11T00:00:00",
    "2026-06-15T23:59:00",
)


def _instants(per_second: int) -> tuple[int, ...]:
    seconds = np.array(_MOMENTS, "datetime64[s]").astype(np.int64).tolist()
    return tuple(second * per_second + odd for second in seconds for odd in (0, 1))


_DATES = tuple(
    dt.date(*ymd)
    for ymd in [
        (1899, 12, 31),
        (1969, 12, 31),
        (1970, 1, 1),
        (2023, 12, 31),
        (2024, 2, 29),
        (2024, 3, 1),
        (2025, 1, 31),
        (2025, 12, 10),
        (2026, 2, 1),
    ]
)
_FLOATS = (float("nan"), NEGATIVE_NAN, 0.0, -0.0, 1.5, -3.0, 10.0, 12.5, -10.0, float("inf"), float("-inf"))
_TEXTS = ("", "a", "ab", "ab\x00", "abc", "abd", "b", "Z", "é", "éa", "日本", "\U0010ffff", "it's")
_BINARIES = (b"", b"a", b"ab", b"\x00", b"\xff", b"ab\x00")

KINDS = {
    "i8": Kind(pa.int8(), (-128, -25, -10, -3, -1, 0, 1, 2, 9, 10, 11, 127), str),
    "i": Kind(pa.int64(), (-(2**63), -25, -10, -3, -1, 0, 1, 2, 9, 10, 11, 300, 2**63 - 1), str),
    "u": Kind(pa.uint64(), (0, 1, 2, 9, 10, 11, 300, 2**64 - 1), _cast("UInt64")),
    "f": Kind(pa.float64(), _FLOATS, _float("Float64")),
    "f32": Kind(pa.float32(), _FLOATS, _float("Float32")),
    "dec": Kind(pa.decimal128(10, 2), tuple(Decimal(v) for v in ("-12.50", "-0.01", "0.00", "0.01", "9.99", "10.00", "12.34")), lambda v: f"arrow_cast('{v}', 'Decimal128(10, 2)')"),
    "s": Kind(pa.utf8(), _TEXTS, _text),
    "ls": Kind(pa.large_utf8(), _TEXTS, _text),
    "bin": Kind(pa.binary(), _BINARIES, lambda v: f"X'{v.hex()}'"),
    "b": Kind(pa.bool_(), (True, False), str),
    "d": Kind(pa.date32(), _DATES, lambda v: f"DATE '{v}'"),
    "ts": Kind(pa.timestamp("us"), _instants(MICROSECONDS), _cast("Timestamp(Microsecond, None)")),
    "tss": Kind(pa.timestamp("s"), _instants(1), _cast("Timestamp(Second, None)")),
    "tz": Kind(pa.timestamp("ns", "UTC"), _instants(1000 * MICROSECONDS), _cast('Timestamp(Nanosecond, Some("UTC"))')),
    "ny": Kind(pa.timestamp("us", "America/New_York"), _instants(MICROSECONDS), _cast('Timestamp(Microsecond, Some("America/New_York"))')),
    "apia": Kind(pa.timestamp("ms", "Pacific/Apia"), _instants(1000), _cast('Timestamp(Millisecond, Some("Pacific/Apia"))')),
    "fixed": Kind(pa.timestamp("us", "+05:45"), _instants(MICROSECONDS), _cast('Timestamp(Microsecond, Some("+05:45"))')),
}  # fmt: skip

_EXPRESSIONS = {
    "i": ("col0 % 3", pa.int64()),
    "i8": ("coalesce(col0, 1) / 5", pa.int64()),
    "s": ("upper(left(col0, 1))", pa.utf8()),
    "d": ("date_part('month', col0)", pa.int32()),
    "f": ("CASE WHEN col0 < 2 THEN 1 END", pa.int64()),
    "b": ("NOT col0", pa.bool_()),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A predicate twice: as SQL (leaves joined by AND, OR or NOT) and as a tree."""

    sql: str
    tree: Predicate
    join: str = ""
    parts: tuple[Statement, ...] = ()

    def leaves(self) -> list[str]:
        """The SQL of every leaf, from left to right."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self.sql]


@st.composite
def schemas(draw: st.DrawFn) -> NamespaceSchema:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    return NamespaceSchema.assign(pa.schema([(name, KINDS[name].type) for name in names]))


@st.composite
def rows_of(draw: st.DrawFn, schema: NamespaceSchema) -> pa.Table:
    size = draw(st.integers(1, 30))
    values = {
        name: KINDS[name].array(
            draw(st.lists(st.sampled_from([None, *KINDS[name].values]), min_size=size, max_size=size))
        )
        for name in schema.ids
    }
    return pa.table(values, schema=schema.plain)


def is_date(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def transforms_of(kind: pa.DataType) -> list[Transform]:
    """Every transform of the table that takes a column of a type, in a few sizes."""
    ways = [(made, size) for made in TRANSFORMS.values() for size in product(SIZES, repeat=len(made.parameters()))]
    return [rule for made, size in ways for rule in [made(*size)] if not list(rule.problems([kind]))]


def _rules(name: str, kind: pa.DataType) -> list[tuple[Any, pa.DataType]]:
    rules: list[tuple[Any, pa.DataType]] = [(rule, rule.result_type([kind])) for rule in transforms_of(kind)]
    if name in _EXPRESSIONS:
        sql, result = _EXPRESSIONS[name]
        rules.append((Expression(sql), result))
    return rules


@st.composite
def specs_of(draw: st.DrawFn, schema: NamespaceSchema) -> PartitionSpec:
    fields: dict[Any, PartitionField] = {}
    for _ in range(draw(st.integers(1, 3))):
        if len(schema.ids) > 1 and draw(st.integers(0, 3)) == 0:
            sources = draw(st.permutations(sorted(schema.ids.values())))[:2]
            made = field(f"f{len(fields)}", MultiBucket(5), *sources, result=pa.int32())
        else:
            name = draw(st.sampled_from(sorted(schema.ids)))
            rule, result = draw(st.sampled_from(_rules(name, KINDS[name].type)))
            made = field(f"f{len(fields)}", rule, schema.ids[name], result=result)
        fields.setdefault(made.derivation, made)
    return PartitionSpec(id=1, fields=tuple(fields.values()))


@st.composite
def statements(draw: st.DrawFn, schema: NamespaceSchema, depth: int = 2) -> Statement:
    """A predicate of a few leaves."""
    shape = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not", "and"])) if depth else "leaf"
    if shape == "leaf":
        return draw(leaves(schema))
    if shape == "not":
        inner = draw(statements(schema, depth - 1))
        return Statement(f"NOT ({inner.sql})", negate(inner.tree), "not", (inner,))
    parts = [draw(statements(schema, depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    joined = f" {shape.upper()} ".join(f"({part.sql})" for part in parts)
    join = all_of if shape == "and" else any_of
    return Statement(joined, join([part.tree for part in parts]), shape, tuple(parts))


@st.composite
def leaves(draw: st.DrawFn, schema: NamespaceSchema) -> Statement:
    name = draw(st.sampled_from(sorted(schema.ids)))
    kind = KINDS[name]
    makers = [_comparison, _comparison, _comparison, _membership, _nullness, _between, _distinct]
    makers += [_prefix] * (name in ("s", "ls")) + [_truth] * (name == "b")
    makers += [_date_part, _date_part] * (is_date(kind.type) and name != "ny")
    return draw(draw(st.sampled_from(makers))(name, kind))


_OPS = st.sampled_from(list(Op))


@st.composite
def _comparison(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    op, value = draw(_OPS), draw(st.sampled_from(kind.values))
    return Statement(f"{name} {op.value} {kind.sql(value)}", Compare(Column(name), op, kind.scalar(value)))


@st.composite
def _between(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    low, high = (draw(st.sampled_from(kind.values)) for _ in range(2))
    tree = all_of([Compare(Column(name), Op.GE, kind.scalar(low)), Compare(Column(name), Op.LE, kind.scalar(high))])
    return Statement(f"{name} BETWEEN {kind.sql(low)} AND {kind.sql(high)}", tree)


@st.composite
def _membership(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    values = draw(st.lists(st.sampled_from(kind.values), min_size=1, max_size=6))
    if draw(st.integers(0, 5)) == 0:
        values.append(None)
    negated = draw(st.booleans())
    inside = ", ".join("NULL" if value is None else kind.sql(value) for value in values)
    return Statement(f"{name} {'NOT ' * negated}IN ({inside})", In(Column(name), kind.array(values), negated))


@st.composite
def _nullness(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    negated = draw(st.booleans())
    return Statement(f"{name} IS {'NOT ' * negated}NULL", IsNull(Column(name), negated))


@st.composite
def _distinct(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    value = draw(st.sampled_from(kind.values))
    tree = equal_or_both_null(Column(name), kind.scalar(value))
    if draw(st.booleans()):
        return Statement(f"{name} IS DISTINCT FROM {kind.sql(value)}", negate(tree))
    return Statement(f"{name} IS NOT DISTINCT FROM {kind.sql(value)}", tree)


@st.composite
def _prefix(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    prefix, negated = draw(st.sampled_from(kind.values)), draw(st.booleans())
    sql = f"{name} {'NOT ' * negated}LIKE {kind.sql(prefix + '%')}"
    return Statement(sql, StartsWith(Column(name), prefix, negated))


@st.composite
def _truth(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    return draw(
        st.sampled_from(
            [
                Statement(name, Compare(Column(name), Op.EQ, pa.scalar(True))),
                Statement(f"{name} IS TRUE", equal_or_both_null(Column(name), pa.scalar(value=True))),
                Statement(f"{name} IS NOT FALSE", negate(equal_or_both_null(Column(name), pa.scalar(value=False)))),
                Statement("NULL", Constant(None)),
                Statement("TRUE", Constant(True)),
            ]
        )
    )


_PARTS = {
    "year": (1899, 1969, 1970, 2024, 2025, 2026),
    "month": (1, 2, 3, 12),
    "quarter": (1, 4),
    "day": (1, 10, 29, 31),
    "hour": (0, 2, 10, 23),
}


@st.composite
def _date_part(draw: st.DrawFn, name: str, kind: Kind) -> Statement:
    parts = sorted(_PARTS.keys() - ({"hour"} if pa.types.is_date(kind.type) else set()))
    part = draw(st.sampled_from(parts))
    term, sql = DatePart(part, name), f"date_part('{part}', {name})"
    values = draw(st.lists(st.sampled_from(_PARTS[part]), min_size=1, max_size=3))
    if len(values) > 1:
        inside = ", ".join(map(str, values))
        return Statement(f"{sql} IN ({inside})", In(term, pa.array(values, pa.int32())))
    op = draw(_OPS)
    return Statement(f"{sql} {op.value} {values[0]}", Compare(term, op, pa.scalar(values[0], pa.int32())))


def sql_answer(rows: pa.Table, statement: Statement) -> set[int]:
    """The rows for which a statement is TRUE, its leaves computed by DataFusion and joined here.

    DataFusion 55 optimises AND and OR of lists as if NULL were FALSE, which shows under NOT: `NOT (b IN (TRUE) AND
    b IN (FALSE))` gives it the rows where b is NULL.
    """
    values = iter(truth(rows, statement.leaves()))
    return set(pc.indices_nonzero(_joined(statement, values)).to_pylist())


def _joined(statement: Statement, leaves: Iterator[pa.Array]) -> pa.Array:
    if not statement.parts:
        return next(leaves)
    values = [_joined(part, leaves) for part in statement.parts]
    if statement.join == "not":
        return pc.invert(values[0])
    return reduce(pc.and_kleene if statement.join == "and" else pc.or_kleene, values)
