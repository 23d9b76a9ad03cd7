"""Sorts by a distance of vectors with a limit, which a vector search of the table below them answers.

They are found in the optimised plan: what is written as an alias, in a view or around a subquery is one form there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
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
from lance_flight.engine.query.search.distance_conditions import conjuncts, number_of, range_of
from lance_flight.engine.query.search.distance_ranges import DistanceRange
from lance_flight.engine.sql.routines import calls_of, volatile_functions
from lance_flight.engine.sql.sort_keys import REPEATED
from lance_flight.engine.sql.typed_calls import shown_name
from lance_flight.engine.sql.vector_functions import DISTANCES, Distance

_CALL = re.compile(rf"__(?P<word>{'|'.join(DISTANCES)})_call\d+")
_SUBQUERY = "ScalarSubquery"
_LARGEST_OFFSET = 1e3
"""So far a key may be moved from the distance, in units of it: a sum of numbers too different loses what sorts them."""


@dataclass(frozen=True, slots=True)
class OrderedScan:
    """Scan of a table whose rows are sorted by the distance of a column from a vector, of which the first `count` count.

    `conditions` are those above the scan that leave some of its rows, the distance aside, which they ask to be `within` a range;
    `rows` is the node with them all. With `is_tied` further keys sort rows of equal distance. A `vector` that is an expression is a subquery,
    to be read first.
    """

    scan: Node
    rows: Node
    conditions: tuple[Expr, ...]
    column: str
    distance: Distance
    vector: pa.Scalar | Expr
    count: int
    within: DistanceRange
    is_tied: bool


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
    """Expression over the columns of a node, which is multiplied and moved above it."""

    expression: Expr
    node: Node
    scale: float = 1.0
    offset: float = 0.0

    def inside(self, expression: Expr, scale: float, offset: float) -> _Computed:
        """Return an expression of which this one is a multiple, moved by an offset."""
        return _Computed(expression, self.node, self.scale * scale, self.scale * offset + self.offset)


def _of_sort(sort: Node) -> Found | None:
    keys = sort.variant.sort_exprs()
    first = _computed(_Computed(Expr(keys[0].expr()), sort.inputs[0]))
    if first is None or _CALL.search(str(first.expression)) is None:
        return None
    call = _call(first)
    if call is None:
        return NoSearch(f"ORDER BY is not a distance itself, but {_shown(first.expression)}")
    distance, operands = call
    name, count = f"{distance.name}(…)", sort.variant.get_fetch_val()
    if count is None:
        return NoSearch(f"ORDER BY {name} has no LIMIT")
    is_negated = first.scale < 0
    if (keys[0].ascending() != is_negated) != distance.is_ascending:
        ordering = "ASC" if distance.is_ascending != is_negated else "DESC"
        return NoSearch(f"ORDER BY {name} asks for the farthest rows; the nearest ones come first with {ordering}")
    if keys[0].nulls_first():
        return NoSearch(f"ORDER BY {name} begins with rows without a distance; expected NULLS LAST")
    chain = _chain(sort, first)
    if isinstance(chain, NoSearch):
        return chain
    sides = _sides(operands, first.node)
    if isinstance(sides, NoSearch):
        return sides
    if count > MOST_ROWS:
        return NoSearch(f"LIMIT and OFFSET ask for {count} rows; a search finds at most {MOST_ROWS}")
    return OrderedScan(
        scan=chain.scan,
        rows=chain.rows,
        conditions=chain.conditions,
        column=sides[0],
        vector=sides[1],
        distance=distance,
        count=count,
        within=chain.within,
        is_tied=len(keys) > 1,
    )


def _call(computed: _Computed) -> tuple[Distance, list[Expr]] | None:
    """Return the distance that an expression calls, and its arguments; None for any other expression."""
    if computed.expression.variant_name() != "ScalarFunction":
        return None
    named = _CALL.fullmatch(computed.expression.rex_call_operator())
    return None if named is None else (DISTANCES[named["word"]], computed.expression.rex_call_operands())


def _computed(wanted: _Computed) -> _Computed | None:
    """Follow the columns of an expression down to where it is computed; None above what is no projection."""
    expression, node = unaliased(wanted.expression), wanted.node
    inner = _within(replace(wanted, expression=expression))
    if inner is not None:
        return _computed(inner)
    key = column_key(expression)
    while key is not None:
        below = _BELOW.get(type(node.variant))
        step = None if below is None else below(node, key)
        if step is None:
            found = replace(wanted, expression=expression, node=node)
            return found if isinstance(node.variant, TableScan) else None
        node = node.inputs[0]
        if isinstance(step, Expr):
            return _computed(replace(wanted, expression=step, node=node))
        key = step
    return replace(wanted, expression=expression, node=node)


def _within(computed: _Computed) -> _Computed | None:
    """Return the expression of which one is the negative, a multiple, the sum with a number, or the greatest with itself; None if it is none of these."""
    expression = computed.expression
    match expression.variant_name():
        case "Negative":
            (inner,) = expression.rex_call_operands()
            return computed.inside(inner, -1.0, 0.0)
        case "BinaryExpr" if expression.rex_call_operator() in _LINEAR:
            left, right = expression.rex_call_operands()
            first, second = number_of(left), number_of(right)
            if (first is None) == (second is None):
                return None
            given = first if first is not None else second
            steps = _LINEAR[expression.rex_call_operator()](given, first is not None)
            if steps is None or steps[0] == 0 or abs(steps[1]) > _LARGEST_OFFSET * abs(steps[0]):
                return None
            return computed.inside(right if first is not None else left, *steps)
        case "ScalarFunction" if expression.rex_call_operator() == REPEATED:
            inner, *others = expression.rex_call_operands()
            return computed.inside(inner, 1.0, 0.0) if all(str(each) == str(inner) for each in others) else None
    return None


_LINEAR: Mapping[str, Callable[[Any, bool], tuple[float, float] | None]] = MappingProxyType(
    {
        "+": lambda number, _: (1.0, number),
        "-": lambda number, is_first: (-1.0, number) if is_first else (1.0, -number),
        "*": lambda number, _: (number, 0.0),
        "/": lambda number, is_first: None if is_first or number == 0 else (1 / number, 0.0),
    }
)
"""What is done to x where it is added to a number, subtracted from one … (which comes first, or not): a factor, and an offset."""


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


@dataclass(frozen=True, slots=True)
class _Chain:
    """Scan below a sort, the topmost filter above it (or the scan), and what filters say."""

    scan: Node
    rows: Node
    conditions: tuple[Expr, ...]
    within: DistanceRange


def _chain(sort: Node, key: _Computed) -> _Chain | NoSearch:
    """Return the scan below a sort by a key, and what filters it, where nothing else decides which rows there are."""
    node, filters = sort.inputs[0], []
    while not isinstance(node.variant, TableScan):
        if isinstance(node.variant, Filter):
            filters.append(node)
        elif not isinstance(node.variant, Projection | SubqueryAlias):
            what = node.said.split(":", 1)[0].split(" ", 1)[0]
            return NoSearch(f"the rows that are sorted come from more than a table and its filters ({what})")
        node = node.inputs[0]
    if node.variant.fetch() is not None:
        return NoSearch("the rows that are sorted are limited before")
    conditions, within, rows = [], DistanceRange(), node
    for each in reversed(filters):
        if has_subquery(each):
            return NoSearch("WHERE has a subquery")
        for condition in conjuncts(Expr(each.variant.predicate())):
            said = range_of(condition, partial(_value_of, each.inputs[0], key))
            if said is not None:
                within = within.both(said)
                continue
            obstacle = _obstacle(each.inputs[0], condition)
            if obstacle is not None:
                return NoSearch(obstacle)
            conditions.append(condition)
            rows = each
    return _Chain(node, rows, tuple(conditions), within)


def _obstacle(node: Node, condition: Expr) -> str | None:
    """Return why a condition on the rows of a node cannot choose the rows of the scan below it; None if it can."""
    text = str(condition)
    if "Subquery" in text:
        return "WHERE has a subquery"
    if _CALL.search(text):
        return "WHERE computes the distances of all rows"
    volatile = next(calls_of(shown_name(text), volatile_functions()), None)
    if volatile is not None:
        return f"WHERE calls {volatile}, which is not the same each time"
    while not isinstance(node.variant, TableScan):
        if not isinstance(node.variant, Filter) and any(name in text for name in _made_names(node)):
            return "WHERE is about columns that are computed"
        node = node.inputs[0]
    return None


def _made_names(node: Node) -> Iterator[str]:
    """Yield the names of columns that are not those of the node below, or are called otherwise there; "" of unknown ones."""
    if not isinstance(node.variant, Projection):
        yield ""
        return
    for each in expressions(node.variant.projections()):
        if each.variant_name() != "Column":
            yield (alias_key(each) or ("", each.schema_name()))[1]


def _value_of(node: Node, key: _Computed, expression: Expr) -> tuple[float, float] | None:
    """Return the factor and the offset that make an expression of the distance that a key is made of; None for another expression."""
    computed = _computed(_Computed(expression, node))
    if computed is None or _call(computed) is None or _identity(computed) != _identity(key):
        return None
    return computed.scale, computed.offset


def _identity(computed: _Computed) -> list[str]:
    """Return what tells a distance from others: its function, and where its arguments come from."""
    call = _call(computed)
    if call is None:
        return []
    sides = [_computed(_Computed(each, computed.node)) for each in call[1]]
    return [
        call[0].name,
        *(str(each if side is None else side.expression) for each, side in zip(call[1], sides, strict=True)),
    ]


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
