"""Predicates of an optimised plan on a scan, beyond the filters that are pushed into it.

LIKE, functions of a column and IS NOT DISTINCT FROM stay above the scan (decision 20); they cannot filter there, but
they can prune. A table that is scanned several times gets the union: what holds for each scan holds for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import LogicalPlan
from datafusion.expr import Filter, Projection, TableScan

from lance_flight.engine.query.scalar_expressions import (
    column_path,
    expression_below,
    literal,
    projected_expressions,
    scalar_expression,
)
from lance_flight.planning.constraints import KNOWN_PARTS
from lance_flight.planning.predicates import (
    ALWAYS,
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
    Term,
    all_of,
    any_of,
    equal_or_both_null,
    like,
    negate,
)
from lance_flight.planning.scalar_expressions import (
    ComputedCondition,
    ScalarExpression,
    leaf_expression,
)

_OPERATORS = MappingProxyType({op.value: op for op in Op})
_NOT_PUSHED = "DataFusion keeps it above the scan, and it says nothing about partitions"


MANY_VALUES = 256
"""Values of a list from which on a physical plan, whose filters are arrays, is made sooner than these are read one by one."""


@dataclass(frozen=True)
class LogicalScan:
    """One scan of an optimised plan: its table (`schema.table`), the filters pushed into it, and the predicate above it."""

    table: str
    filters: tuple[Any, ...]
    beyond: Predicate

    @cached_property
    def pushed(self) -> Predicate:
        """Return the predicate that the filters are together."""
        return all_of(map(predicate, self.filters))

    @cached_property
    def has_many_values(self) -> bool:
        """True if one of the filters is a long list, which takes long to read."""
        lists = (each.to_variant() for each in self.filters if each.variant_name() == "InList")
        return any(len(each.list()) > MANY_VALUES for each in lists)


def logical_scans(plan: LogicalPlan, default_schema: str) -> tuple[LogicalScan, ...] | None:
    """Return the scans of an optimised plan; None if some of them may be in a subquery within an expression."""
    if "Subquery:" in plan.display_indent():
        return None
    return tuple(_scans(plan, [], default_schema))


def hints(scans: Iterable[LogicalScan]) -> dict[str, Predicate]:
    """Map each table to the predicate that all of its scans require beyond the pushed filters."""
    found: dict[str, list[Predicate]] = defaultdict(list)
    for scan in scans:
        found[scan.table].append(scan.beyond)
    return {table: ALWAYS if ALWAYS in conditions else any_of(conditions) for table, conditions in found.items()}


def _scans(plan: LogicalPlan, above: Sequence[Filter | Projection], default_schema: str) -> Iterator[LogicalScan]:
    node = plan.to_variant()
    if isinstance(node, TableScan):
        _, db_schema, table = node.fqn()
        yield LogicalScan(f"{db_schema or default_schema}.{table}", tuple(node.filters()), _condition(above))
        return
    # Only filters right above a scan speak of its columns by their names; projections between take fields out of structs.
    passed = [*above, node] if isinstance(node, Filter | Projection) else []
    for child in plan.inputs():
        yield from _scans(child, passed, default_schema)


def _condition(above: Sequence[Filter | Projection]) -> Predicate:
    """Return the predicate that filters and projections, the highest first, imply for the input rows of the lowest one."""
    condition: Predicate = ALWAYS
    for node in above:
        if isinstance(node, Filter):
            condition = all_of([condition, predicate(node.predicate())])
        else:
            condition = _below(condition, projected_expressions(node))
    return condition


def _below(predicate: Predicate, columns: Mapping[str, ScalarExpression]) -> Predicate:
    """Rewrite a condition on a projection's output to its input columns; parts on what is not known of it are dropped."""
    match predicate:
        case And(parts):
            return all_of(_below(part, columns) for part in parts)
        case Or(parts):
            return any_of(_below(part, columns) for part in parts)
        case Compare(term) | In(term) | IsNull(term) | StartsWith(term) if isinstance(
            column := columns.get(term.name), Column
        ):
            inside = (*column.inside, *term.inside)
            passed = (
                replace(term, column=column.name, inside=inside)
                if isinstance(term, DatePart)
                else Column(column.name, inside)
            )
            return replace(predicate, term=passed)
        case Constant():
            return predicate
    leaf = leaf_expression(predicate)
    below = None if leaf is None else expression_below(leaf[0], columns)
    if leaf is None or below is None:
        return Opaque(str(predicate), _NOT_PUSHED)
    return ComputedCondition.of(below, negated=leaf[1])


def predicate(expression: Any) -> Predicate:
    """Translate a DataFusion expression to a predicate; subexpressions that pruning cannot use become `Opaque`.

    Those that it may compute, for partitions that determine their columns, become `ComputedCondition`.
    """
    if expression.variant_name() in {"Column", "Literal"}:
        return Opaque(_text(expression), _NOT_PUSHED)
    operator, operands = expression.rex_call_operator(), expression.rex_call_operands()
    translate = _TRANSLATIONS.get(operator, _comparison if operator in _OPERATORS else None)
    translated = translate(expression, operator, operands) if translate is not None else None
    if translated is not None:
        return translated
    computed = scalar_expression(expression)
    return Opaque(_text(expression), _NOT_PUSHED) if computed is None else ComputedCondition.of(computed)


def _chain(expression: Any, operator: str) -> list[Any]:
    """Return the operands of a chain of one operator, which DataFusion nests to the left, without recursion."""
    waiting, found = [expression], []
    while waiting:
        current = waiting.pop()
        if current.variant_name() == "BinaryExpr" and current.rex_call_operator() == operator:
            waiting += reversed(current.rex_call_operands())
        else:
            found.append(current)
    return found


def _comparison(_: Any, operator: str, operands: list[Any]) -> Predicate | None:
    left, right = operands
    op = _OPERATORS[operator]
    if literal(left) is not None:
        left, right, op = right, left, op.flipped
    term, value = _term(left), literal(right)
    return Compare(term, op, value) if term is not None and value is not None else None


def _in_list(expression: Any, _: str, operands: list[Any]) -> Predicate | None:
    term, values = _term(operands[0]), [literal(operand) for operand in operands[1:]]
    known = [value for value in values if value is not None]
    if term is None or len(known) != len(values) or not known:
        return None
    negated = bool(expression.to_variant().negated())
    return In(term, pa.array(known, known[0].type), negated)


def _like(expression: Any, _: str, operands: list[Any]) -> Predicate | None:
    term, pattern = _term(operands[0]), literal(operands[1])
    variant = expression.to_variant()
    if term is None or pattern is None or variant.escape_char() is not None:
        return None
    matched = like(term, pattern.as_py())
    if isinstance(matched, Opaque):
        return None
    return negate(matched) if variant.negated() else matched


def _same(_: Any, operator: str, operands: list[Any]) -> Predicate | None:
    term, value = _term(operands[0]), literal(operands[1])
    if term is None or value is None:
        return None
    same = equal_or_both_null(term, value)
    return negate(same) if operator == "IS DISTINCT FROM" else same


def _is_null(_: Any, operator: str, operands: list[Any]) -> Predicate | None:
    term = _term(operands[0])
    return None if term is None else IsNull(term, negated=operator == "is not null")


_TRANSLATIONS: Mapping[str, Callable[[Any, str, list[Any]], Predicate | None]] = MappingProxyType(
    {
        "AND": lambda expression, operator, _: all_of([predicate(part) for part in _chain(expression, operator)]),
        "OR": lambda expression, operator, _: any_of([predicate(part) for part in _chain(expression, operator)]),
        "not": lambda _, __, operands: negate(predicate(operands[0])),
        "in list": _in_list,
        "like": _like,
        "IS NOT DISTINCT FROM": _same,
        "IS DISTINCT FROM": _same,
        "is null": _is_null,
        "is not null": _is_null,
    }
)


def _term(expression: Any) -> Term | None:
    path = column_path(expression)
    if path is not None:
        return Column(path[0], path[1:])
    if expression.variant_name() == "ScalarFunction" and expression.rex_call_operator() == "date_part":
        part, column = expression.rex_call_operands()
        name, path = literal(part), column_path(column)
        if name is not None and path is not None and name.as_py().lower() in KNOWN_PARTS:
            return DatePart(name.as_py().lower(), path[0], path[1:])
    return None


def _text(expression: Any) -> str:
    return str(expression).removeprefix("Expr(").removesuffix(")")
