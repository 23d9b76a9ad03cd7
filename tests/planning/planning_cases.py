"""Short hands for the tables: predicates over one column `x`, and partitions of one field."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, PartitionSpec
from lance_flight.planning.predicates import Column, Compare, DatePart, In, IsNull, Op, Predicate, Term
from lance_flight.planning.pruning import SpecPartitions, SpecPruning, prune

from tests.planning.planning_oracle import field

X = Column("x")


def compare(op: str, value: Any, term: Term = X, kind: pa.DataType | None = None) -> Predicate:
    """`term op value`."""
    return Compare(term, Op(op), value if isinstance(value, pa.Scalar) else pa.scalar(value, kind))


def among(*values: Any, term: Term = X, negated: bool = False, kind: pa.DataType | None = None) -> Predicate:
    """`term [NOT] IN (values)`."""
    return In(term, pa.array(values, kind), negated)


def null(*, negated: bool = False, term: Term = X) -> Predicate:
    """`term IS [NOT] NULL`."""
    return IsNull(term, negated)


def part(name: str, term: Column = X) -> DatePart:
    """`date_part(name, term)`."""
    return DatePart(name, term.name)


def at(text: str) -> pa.Scalar:
    """A timestamp without zone, in microseconds."""
    return pa.scalar(dt.datetime.fromisoformat(text), pa.timestamp("us"))


def day(text: str) -> dt.date:
    """A date."""
    return dt.date.fromisoformat(text)


def one_column(kind: pa.DataType) -> NamespaceSchema:
    """A namespace with the one column `x`."""
    return NamespaceSchema.assign(pa.schema({"x": kind}))


def partitions(rules: Sequence[Any], results: Sequence[pa.DataType], values: Sequence[Any]) -> SpecPartitions:
    """Partitions by fields f0, f1 … over column 0; `values` has one value, or a tuple of them, for each partition."""
    fields = tuple(
        field(f"f{i}", rule, 0, result=kind) for i, (rule, kind) in enumerate(zip(rules, results, strict=True))
    )
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    columns = {each.column: pa.array([row[i] for row in rows], each.result_type) for i, each in enumerate(fields)}
    return SpecPartitions(spec=PartitionSpec(id=1, fields=fields), values=pa.table(columns))


def pruned(
    parts: SpecPartitions, schema: NamespaceSchema, predicate: Predicate, evaluate: Evaluate | None = None
) -> SpecPruning:
    """What is left of one spec version."""
    (found,) = prune([parts], schema, predicate, evaluate).versions
    return found
