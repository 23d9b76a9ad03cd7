"""What the optimised plan says about a scan beyond the filters that are pushed into it.

LIKE, functions of a column and IS NOT DISTINCT FROM stay above the scan (decision 20); they cannot filter there, but
they can prune. A table that is scanned several times gets the union: what holds for each scan holds for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import Expr, LogicalPlan
from datafusion.expr import Filter, TableScan

from lance_flight.planning.predicates import (
    ALWAYS,
    Column,
    Compare,
    DatePart,
    In,
    IsNull,
    Op,
    Opaque,
    Predicate,
    Term,
    all_of,
    any_of,
    equal_or_both_null,
    like,
    negate,
)

_OPERATORS = MappingProxyType({op.value: op for op in Op})
_NOT_PUSHED = "DataFusion keeps it above the scan, and it says nothing about partitions"


def hints(plan: LogicalPlan, default_schema: str) -> dict[str, Predicate]:
    """For each table of an optimised plan (`schema.table`), what every one of its scans requires."""
    if "Subquery:" in plan.display_indent():
        # Its scans hide inside an expression: what the visible ones require says nothing about them.
        return {}
    found: dict[str, list[Predicate]] = defaultdict(list)
    for (db_schema, table), condition in _scans(plan, []):
        found[f"{db_schema or default_schema}.{table}"].append(condition)
    return {table: ALWAYS if ALWAYS in conditions else any_of(conditions) for table, conditions in found.items()}


def _scans(plan: LogicalPlan, above: list[Expr]) -> Iterator[tuple[tuple[str | None, str], Predicate]]:
    node = plan.to_variant()
    if isinstance(node, TableScan):
        _, db_schema, table = node.fqn()
        yield (db_schema, table), all_of(predicate(condition) for condition in above)
        return
    # Only filters right above a scan speak of its columns by their names.
    passed = [node.predicate()] if isinstance(node, Filter) else []
    for child in plan.inputs():
        yield from _scans(child, passed)


def predicate(expression: Any) -> Predicate:
    """A DataFusion expression as far as partitions can use it."""
    if expression.variant_name() in {"Column", "Literal"}:
        return Opaque(_text(expression), _NOT_PUSHED)
    operator, operands = expression.rex_call_operator(), expression.rex_call_operands()
    translate = _TRANSLATIONS.get(operator, _comparison if operator in _OPERATORS else None)
    translated = translate(expression, operator, operands) if translate is not None else None
    return translated if translated is not None else Opaque(_text(expression), _NOT_PUSHED)


def _chain(expression: Any, operator: str) -> list[Any]:
    """The operands of a chain of one operator, which DataFusion nests to the left, however long it is."""
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
    if _literal(left) is not None:
        left, right, op = right, left, op.flipped
    term, value = _term(left), _literal(right)
    return Compare(term, op, value) if term is not None and value is not None else None


def _in_list(expression: Any, _: str, operands: list[Any]) -> Predicate | None:
    term, values = _term(operands[0]), [_literal(operand) for operand in operands[1:]]
    known = [value for value in values if value is not None]
    if term is None or len(known) != len(values) or not known:
        return None
    negated = bool(expression.to_variant().negated())
    return In(term, pa.array(known, known[0].type), negated)


def _like(expression: Any, _: str, operands: list[Any]) -> Predicate | None:
    term, pattern = _term(operands[0]), _literal(operands[1])
    variant = expression.to_variant()
    if term is None or pattern is None or variant.escape_char() is not None:
        return None
    matched = like(term, pattern.as_py())
    return negate(matched) if variant.negated() else matched


def _same(_: Any, operator: str, operands: list[Any]) -> Predicate | None:
    term, value = _term(operands[0]), _literal(operands[1])
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
    if expression.variant_name() == "Column":
        return Column(expression.to_variant().name())
    if expression.variant_name() == "ScalarFunction" and expression.rex_call_operator() == "date_part":
        part, column = expression.rex_call_operands()
        name = _literal(part)
        if name is not None and column.variant_name() == "Column":
            return DatePart(name.as_py().lower(), column.to_variant().name())
    return None


def _literal(expression: Any) -> pa.Scalar | None:
    if expression.variant_name() != "Literal":
        return None
    value = expression.python_value()
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)


def _text(expression: Any) -> str:
    return str(expression).removeprefix("Expr(").removesuffix(")")
