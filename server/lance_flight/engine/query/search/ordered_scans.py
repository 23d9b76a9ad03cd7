"""Sorts by a distance of vectors with a limit, which a vector search of the table below them answers.

They are found in the optimised plan: what is written as an alias, in a view or around a subquery is one form there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
from datafusion import Expr
from datafusion.expr import Filter, Projection, Sort, SubqueryAlias, TableScan

from lance_flight.engine.query.partition_wise.plans import (
    ColumnKey,
    Node,
    alias_key,
    column_key,
    expressions,
    has_subquery,
    unaliased,
)
from lance_flight.engine.query.search.arguments import MOST_ROWS
from lance_flight.engine.sql.routines import calls_of, volatile_functions
from lance_flight.engine.sql.typed_calls import shown_name
from lance_flight.engine.sql.vector_functions import DISTANCES, Distance

_CALL = re.compile(rf"__(?P<word>{'|'.join(DISTANCES)})_call\d+")
_SUBQUERY = "ScalarSubquery"


@dataclass(frozen=True, slots=True)
class OrderedScan:
    """Scan of a table whose rows are sorted by the distance of a column from a vector, of which the first `count` count.

    `filters` are the nodes right above the scan that leave some of its rows. A `vector` that is an expression is a subquery, to be
    read first.
    """

    scan: Node
    filters: tuple[Node, ...]
    column: str
    distance: Distance
    vector: pa.Scalar | Expr
    count: int

    @property
    def rows(self) -> Node:
        """Return the node whose rows are searched."""
        return self.filters[0] if self.filters else self.scan


@dataclass(frozen=True, slots=True)
class NoSearch:
    """Sort by a distance that no search answers, and the reason."""

    reason: str


Found: TypeAlias = OrderedScan | NoSearch


def ordered_scans(root: Node) -> Iterator[Found]:
    """Yield the sorts by a distance of an optimised plan."""
    for node in root.walk():
        if isinstance(node.variant, Sort):
            found = _of_sort(node)
            if found is not None:
                yield found


@dataclass(frozen=True, slots=True)
class _Computed:
    """Expression over the columns of a node, which is negated above it or not."""

    expression: Expr
    node: Node
    is_negated: bool = False


def _of_sort(sort: Node) -> Found | None:
    keys = sort.variant.sort_exprs()
    first = _computed(_Computed(Expr(keys[0].expr()), sort.inputs[0]))
    if first is None or _CALL.search(str(first.expression)) is None:
        return None
    call = _call(first)
    if call is None:
        return NoSearch(f"ORDER BY is not a distance itself, but {_shown(first.expression)}")
    distance, operands = call
    name = f"{distance.name}(…)"
    if sort.variant.get_fetch_val() is None:
        return NoSearch(f"ORDER BY {name} has no LIMIT")
    if len(keys) > 1:
        return NoSearch(f"ORDER BY has other keys beside {name}: rows of equal distance are compared by them")
    if (keys[0].ascending() != first.is_negated) != distance.is_ascending:
        ordering = "ASC" if distance.is_ascending != first.is_negated else "DESC"
        return NoSearch(f"ORDER BY {name} asks for the farthest rows; the nearest ones come first with {ordering}")
    if keys[0].nulls_first():
        return NoSearch(f"ORDER BY {name} begins with rows without a distance; expected NULLS LAST")
    chain = _chain(sort)
    if isinstance(chain, NoSearch):
        return chain
    sides = _sides(operands, first.node)
    if isinstance(sides, NoSearch):
        return sides
    if sort.variant.get_fetch_val() > MOST_ROWS:
        return NoSearch(
            f"LIMIT and OFFSET ask for {sort.variant.get_fetch_val()} rows; a search finds at most {MOST_ROWS}"
        )
    return replace(chain, column=sides[0], vector=sides[1], distance=distance, count=sort.variant.get_fetch_val())


def _call(computed: _Computed) -> tuple[Distance, list[Expr]] | None:
    """Return the distance that an expression calls, and its arguments; None for any other expression."""
    if computed.expression.variant_name() != "ScalarFunction":
        return None
    named = _CALL.fullmatch(computed.expression.rex_call_operator())
    return None if named is None else (DISTANCES[named["word"]], computed.expression.rex_call_operands())


def _computed(wanted: _Computed) -> _Computed | None:
    """Follow the columns of an expression down to where it is computed; None above what is no projection."""
    expression, node, is_negated = unaliased(wanted.expression), wanted.node, wanted.is_negated
    if expression.variant_name() == "Negative":
        (inner,) = expression.rex_call_operands()
        return _computed(_Computed(inner, node, not is_negated))
    key = column_key(expression)
    while key is not None:
        below = _BELOW.get(type(node.variant))
        step = None if below is None else below(node, key)
        if step is None:
            return _Computed(expression, node, is_negated) if isinstance(node.variant, TableScan) else None
        node = node.inputs[0]
        if isinstance(step, Expr):
            return _computed(_Computed(step, node, is_negated))
        key = step
    return _Computed(expression, node, is_negated)


def _below_alias(node: Node, key: ColumnKey) -> ColumnKey | None:
    pairs = zip(node.outputs or (), node.inputs[0].outputs or (), strict=True)
    return next((inner.key for outer, inner in pairs if outer.key == key), None)


def _below_projection(node: Node, key: ColumnKey) -> Expr | None:
    for each in expressions(node.variant.projections()):
        if key == (alias_key(each) or ("", each.schema_name())):
            return each
    return None


_BELOW: Mapping[type[Any], Any] = MappingProxyType(
    {Filter: lambda _, key: key, SubqueryAlias: _below_alias, Projection: _below_projection}
)


def _chain(sort: Node) -> OrderedScan | NoSearch:
    """Return the scan below a sort, and the filters above it, where nothing else decides which rows there are."""
    node, filters = sort.inputs[0], []
    while not isinstance(node.variant, TableScan):
        if isinstance(node.variant, Filter):
            filters.append(node)
        elif not isinstance(node.variant, Projection | SubqueryAlias):
            what = node.said.split(":", 1)[0].split(" ", 1)[0]
            return NoSearch(f"the rows that are sorted come from more than a table and its filters ({what})")
        elif filters:
            return NoSearch("WHERE is about columns that are computed")
        node = node.inputs[0]
    if node.variant.fetch() is not None:
        return NoSearch("the rows that are sorted are limited before")
    for each in filters:
        text = str(Expr(each.variant.predicate()))
        if "Subquery" in text or has_subquery(each):
            return NoSearch("WHERE has a subquery")
        if _CALL.search(text):
            return NoSearch("WHERE computes the distances of all rows")
        volatile = next(calls_of(shown_name(text), volatile_functions()), None)
        if volatile is not None:
            return NoSearch(f"WHERE calls {volatile}, which is not the same each time")
    return OrderedScan(node, tuple(filters), "", DISTANCES["array_distance"], pa.scalar(None), 0)


def _sides(operands: list[Expr], node: Node) -> tuple[str, pa.Scalar | Expr] | NoSearch:
    """Return the column of a scan and the vector that a distance is between."""
    found = [_computed(_Computed(each, node)) for each in operands]
    columns = [
        each.expression
        for each in found
        if each is not None and isinstance(each.node.variant, TableScan) and column_key(each.expression) is not None
    ]
    values = [each for each in operands if each.variant_name() in {"Literal", _SUBQUERY}]
    if len(columns) != 1 or len(values) != 1:
        return NoSearch("the distance is not one of a column from a value that is known before the rows")
    if values[0].variant_name() == _SUBQUERY:
        return _column_name(columns[0]), values[0]
    value = values[0].python_value()
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    if not scalar.is_valid:
        return NoSearch("the vector is NULL, and so are all distances from it")
    return _column_name(columns[0]), scalar


def _column_name(column: Expr) -> str:
    return str(column.to_variant().name())


def _shown(expression: Expr) -> str:
    return shown_name(str(expression).removeprefix("Expr(").removesuffix(")"))
