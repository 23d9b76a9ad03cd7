"""Types of a statement's parameters, inferred from its plan.

DataFusion types a parameter that stands beside a column or a literal when it plans the text. For the others the optimised plan knows
more: type coercion wraps a parameter in a cast to the type that its context wants (`coalesce(a, $1)`, `CASE … THEN $1`, `LIMIT $1`,
arguments of functions). What becomes a column of the result takes the type of the column that it is written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan, SessionContext
from datafusion.expr import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    TableScan,
    Union,
    Values,
    WindowExpr,
)

from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.errors import SqlError

Optimise = Callable[[DataFrame], LogicalPlan]
Types = Mapping[str, pa.DataType]

_NONE: Types = MappingProxyType({})
_LEAVES = frozenset({"Column", "Literal", "ScalarSubquery", "Exists"})
"""Expressions without operands; the bindings give no plan of a subquery, and the optimiser makes joins of most."""
_CASTS = frozenset({"Cast", "TryCast"})
_TRANSPARENT = frozenset({"Negative", "Alias"})
"""Expressions whose operand has the type that is wanted of them."""


def parameter_schema(
    sql: str,
    frame: DataFrame | None = None,
    optimise: Optimise | None = None,
    *,
    given: Types = _NONE,
    outputs: Sequence[pa.DataType | None] = (),
) -> pa.Schema:
    """Return the schema of the parameters: one nullable field for each of `$1`, `$2` … (`?` numbered in order).

    A type is one that is `given`, that of the column of `outputs` which the parameter becomes, or the one that the plan wants; utf8
    where the statement says nothing: every driver binds texts, and the JDBC driver knows no parameter of any type.
    """
    count = parameter_count(sql)
    if count == 0:
        return pa.schema([])
    names = [f"${number}" for number in range(1, count + 1)]
    known = dict(given)
    if frame is not None:
        plan = frame.logical_plan()
        known = {**typed_parameters(plan), **dict(_of_outputs(plan, outputs)), **known}
        if optimise is not None and not known.keys() >= set(names):
            known = {**_wanted(frame, optimise), **known}
    return pa.schema([pa.field(name, known.get(name, pa.utf8())) for name in names])


def typed_parameters(plan: LogicalPlan) -> dict[str, pa.DataType]:
    """Return the parameters of a plan that have a type of their own, or are cast to one."""
    found: dict[str, pa.DataType] = {}
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs()
        for expression in _expressions(node.to_variant()):
            for name, kind in _typed(expression):
                found.setdefault(name, kind)
    return found


def _wanted(frame: DataFrame, optimise: Optimise) -> dict[str, pa.DataType]:
    try:
        return typed_parameters(optimise(frame))
    except SqlError:  # parameters without a type may not fit where values do
        return {}


def _expressions(node: Any) -> list[Any]:
    """Return the expressions of one node of a plan."""
    match node:
        case Projection():
            return list(node.projections())
        case Filter():
            return [node.predicate()]
        case Join():
            return [side for pair in node.on() for side in pair] + [node.filter()] * (node.filter() is not None)
        case Aggregate():
            return [*node.group_by_exprs(), *node.aggregate_exprs()]
        case Sort():
            return [ordered.expr() for ordered in node.sort_exprs()]
        case WindowExpr():
            windows = node.get_window_expr()
            sorted_by = [ordered.expr() for window in windows for ordered in node.get_sort_exprs(window)]
            return [*windows, *sorted_by, *(key for window in windows for key in node.get_partition_exprs(window))]
        case Limit():
            return [bound for bound in (node.skip(), node.fetch()) if bound is not None]
        case Values():
            return [value for row in node.values() for value in row]
        case TableScan():
            return list(node.filters())
    return []


def _typed(expression: Any) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the typed parameters inside an expression, without recursion: chains of AND may be thousands long."""
    waiting: list[tuple[Any, pa.DataType | None]] = [(expression, None)]
    while waiting:
        current, wanted = waiting.pop()
        kind = current.variant_name()
        if kind == "Placeholder":
            placeholder = current.to_variant()
            own = placeholder.field()
            if own is not None or wanted is not None:
                yield placeholder.id(), wanted if own is None else _bound_type(own.type)
        elif kind == "InSubquery":
            waiting.append((current.to_variant().expr(), None))
        elif kind not in _LEAVES:
            if kind in _CASTS:
                wanted = _cast_type(current)
            elif kind not in _TRANSPARENT:
                wanted = None
            waiting += [(operand, wanted) for operand in _operands(current)]


def _bound_type(kind: pa.DataType) -> pa.DataType:
    """Return a timestamp for an interval: DataFusion gives a parameter beside one its type, but `$1 - INTERVAL '1 day'` is a time."""
    return pa.timestamp("us") if pa.types.is_interval(kind) else kind


def _operands(expression: Any) -> list[Any]:
    operands: list[Any] = expression.rex_call_operands()
    # What DataFusion knows no operands of is given as its own one.
    return [] if len(operands) == 1 and str(operands[0]) == str(expression) else operands


def _cast_type(cast: Any) -> pa.DataType | None:
    """Return the type that a parameter is cast to; None for a cast of something else."""
    inner = cast
    while inner.variant_name() in _CASTS | _TRANSPARENT:
        (inner,) = inner.rex_call_operands()
    if inner.variant_name() != "Placeholder":
        return None
    # The bindings have no way to read the type of a cast but the schema of its result.
    return SessionContext().sql("SELECT 1").select(Expr(cast)).schema().field(0).type


def _of_outputs(plan: LogicalPlan, outputs: Sequence[pa.DataType | None]) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the parameters that become columns of the result, with the types `outputs` of these, by position."""
    waiting = [(plan, outputs)]
    while waiting:
        current, wanted = waiting.pop()
        if not any(wanted):
            continue
        match node := current.to_variant():
            case Projection():
                expressions = node.projections()
                yield from _becoming(zip(expressions, wanted, strict=False))
                waiting += _passed_through(current, expressions, wanted)
            case Values():
                for row in node.values():
                    yield from _becoming(zip(row, wanted, strict=False))
            case Filter() | Sort() | Limit() | Distinct() | SubqueryAlias() | Union():
                waiting += [(child, wanted) for child in current.inputs()]


def _passed_through(
    plan: LogicalPlan, expressions: Sequence[Any], wanted: Sequence[pa.DataType | None]
) -> Iterator[tuple[LogicalPlan, list[pa.DataType | None]]]:
    """Yield the input of a projection with the types of its columns that pass unchanged."""
    (child,) = plan.inputs()
    schema = getattr(child.to_variant(), "schema", None)
    if schema is None:
        return
    names = [name.rpartition(".")[2] for name in schema().field_names()]
    kinds: list[pa.DataType | None] = [None] * len(names)
    for expression, kind in zip(expressions, wanted, strict=False):
        inner = _unaliased(expression)
        if inner.variant_name() == "Column" and names.count(name := inner.to_variant().name()) == 1:
            kinds[names.index(name)] = kind
    yield child, kinds


def _becoming(pairs: Any) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the parameters that are, or are a branch of a CASE that is, a value of the type beside it."""
    waiting = [(expression, kind) for expression, kind in pairs if kind is not None]
    while waiting:
        current, kind = waiting.pop()
        match current.variant_name():
            case "Placeholder":
                yield current.to_variant().id(), kind
            case "Case":
                case = current.to_variant()
                branches = [then for _, then in case.when_then_expr()]
                branches += [case.else_expr()] * (case.else_expr() is not None)
                waiting += [(branch, kind) for branch in branches]
            case name if name in _TRANSPARENT:
                waiting += [(operand, kind) for operand in _operands(current)]


def _unaliased(expression: Any) -> Any:
    while expression.variant_name() == "Alias":
        expression = expression.to_variant().expr()
    return expression
