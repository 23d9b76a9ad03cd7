"""DataFusion's expressions as the trees that pruning reads: of filters, of plans above a scan, and of partition fields.

LIKE, functions of a column and IS NOT DISTINCT FROM stay above the scan (decision 20); they cannot filter there, but
they can prune. A table that is scanned several times gets the union: what holds for each scan holds for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import Expr, LogicalPlan
from datafusion.expr import Filter, Projection, TableScan

from lance_flight.engine.compat.checked_arithmetic import operator_of
from lance_flight.engine.plans.nodes import strip_aliases
from lance_flight.engine.translation.evaluation import COMPUTED, optimised_over
from lance_flight.engine.translation.typed_calls import shown_name
from lance_flight.errors import SqlError
from lance_flight.model.arrow_types import is_string
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionSpec
from lance_flight.planning.constraints import KNOWN_PARTS
from lance_flight.planning.predicates import (
    ALWAYS,
    CASE,
    CAST,
    INFIX,
    PATTERNS,
    And,
    Column,
    Compare,
    ComputedCondition,
    Constant,
    DatePart,
    In,
    IsNull,
    Op,
    Opaque,
    Or,
    Predicate,
    ScalarCall,
    ScalarExpression,
    StartsWith,
    Term,
    all_of,
    any_of,
    columns_of_expression,
    equal_or_both_null,
    leaf_expression,
    like,
    negate,
    replace_parts,
)

MOST_DEPTH = 32
"""Levels of an expression that are read; of a deeper one nothing is known."""


def scalar_expression(expression: Any, depth: int = MOST_DEPTH) -> ScalarExpression | None:
    """Translate an expression; None for one with parts that have no counterpart."""
    path = column_path(expression)
    if path is not None:
        return Column(path[0], path[1:])
    value = literal(expression)
    if value is not None or not depth:
        return value
    translate = _VARIANTS.get(expression.variant_name())
    return None if translate is None else translate(expression, depth - 1)


def projected_expressions(node: Projection) -> dict[str, ScalarExpression]:
    """Map the output names of a projection to its input columns, the fields inside these, and what it computes of them."""
    by_name: dict[str, list[ScalarExpression | None]] = defaultdict(list)
    for raw in node.projections():
        expression = Expr(raw)
        inner = strip_aliases(expression)
        name = expression.to_variant().alias() if inner is not expression else expression.schema_name()
        computed = scalar_expression(inner)
        is_column = isinstance(computed, Column) and not computed.inside and inner is expression
        by_name[computed.name if is_column and isinstance(computed, Column) else name].append(computed)
    return {name: same[0] for name, same in by_name.items() if len(same) == 1 and same[0] is not None}


def expression_below(expression: ScalarExpression, columns: Mapping[str, ScalarExpression]) -> ScalarExpression | None:
    """Rewrite an expression over a projection's output to its input columns; None where one is not known."""
    names = {column: columns.get(column.name) for column in columns_of_expression(expression)}
    if any(known is None or (column.inside and not isinstance(known, Column)) for column, known in names.items()):
        return None

    def below(part: ScalarExpression) -> ScalarExpression | None:
        known = names.get(part) if isinstance(part, Column) else None
        if isinstance(part, Column) and isinstance(known, Column):
            return Column(known.name, (*known.inside, *part.inside))
        return known

    return replace_parts(expression, below)


def _call(function: str, operands: list[Any], depth: int, kind: str = "") -> ScalarCall | None:
    arguments = [scalar_expression(operand, depth) for operand in operands]
    known = tuple(column for column in arguments if column is not None)
    return ScalarCall(function, known, kind) if len(known) == len(arguments) else None


def _function(expression: Any, depth: int) -> ScalarCall | None:
    operator = expression.rex_call_operator()
    call = _call(operator_of(operator) or shown_name(operator), expression.rex_call_operands(), depth)
    match call:
        case ScalarCall("date_part", (pa.Scalar() as part, moment)) if is_string(part.type) and part.is_valid:
            return ScalarCall("date_part", (pa.scalar(part.as_py().lower()), moment))
        case ScalarCall("substr", (text, pa.Scalar() as start, pa.Scalar() as width)) if (
            start.as_py() == 1 and _is_whole(width)
        ):
            return ScalarCall("left", (text, width))
        case ScalarCall("moment_text", arguments):
            return ScalarCall("to_char", arguments)
    return call


def _is_whole(width: pa.Scalar) -> bool:
    return isinstance(width.as_py(), int) and width.as_py() >= 0


def _operator(expression: Any, depth: int) -> ScalarCall | None:
    operator = expression.rex_call_operator()
    return _call(operator, expression.rex_call_operands(), depth) if operator in INFIX else None


def _unary(expression: Any, depth: int) -> ScalarCall | None:
    return _call(expression.rex_call_operator(), expression.rex_call_operands(), depth)


def _pattern(expression: Any, depth: int) -> ScalarCall | None:
    operator = expression.rex_call_operator()
    if operator not in PATTERNS or expression.to_variant().escape_char() is not None:
        return None
    return _call(operator, expression.rex_call_operands(), depth)


def _in_list(expression: Any, depth: int) -> ScalarCall | None:
    call = _call("in", expression.rex_call_operands(), depth)
    return ScalarCall("not", (call,)) if call is not None and expression.to_variant().negated() else call


def _cast(expression: Any, depth: int) -> ScalarCall | None:
    (inner,) = expression.rex_call_operands()
    # The type itself has no attributes in Python: it is read from the text, CAST(… AS type).
    before, after = f"CAST({_show(inner)} AS ", ")"
    shown = _show(expression)
    if not (shown.startswith(before) and shown.endswith(after)):
        return None
    return _call(CAST, [inner], depth, shown[len(before) : -len(after)])


def _case(expression: Any, depth: int) -> ScalarCall | None:
    variant = expression.to_variant()
    if variant.expr() is not None or variant.else_expr() is None:
        return None
    branches = [each for branch in variant.when_then_expr() for each in branch]
    return _call(CASE, [*branches, variant.else_expr()], depth)


def _alias(expression: Any, depth: int) -> ScalarExpression | None:
    return scalar_expression(strip_aliases(expression), depth)


_VARIANTS: Mapping[str, Callable[[Any, int], ScalarExpression | None]] = MappingProxyType(
    {
        "ScalarFunction": _function,
        "BinaryExpr": _operator,
        "Like": _pattern,
        "InList": _in_list,
        "Cast": _cast,
        "Case": _case,
        "Alias": _alias,
        **dict.fromkeys(("Not", "Negative", "IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsUnknown"), _unary),
        **dict.fromkeys(("IsNotTrue", "IsNotFalse", "IsNotUnknown"), _unary),
    }
)


def _show(expression: Any) -> str:
    return str(expression).removeprefix("Expr(").removesuffix(")")


def column_path(expression: Any) -> tuple[str, ...] | None:
    """Return the name of a column, followed by those of the nested fields that the expression takes from it; None for any other."""
    if expression.variant_name() == "Column":
        return (expression.to_variant().name(),)
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "get_field":
        return None
    of, *names = expression.rex_call_operands()
    path, inside = column_path(of), [literal(name) for name in names]
    if path is None or not all(name is not None and is_string(name.type) for name in inside):
        return None
    return (*path, *(name.as_py() for name in inside if name is not None))


def literal(expression: Any) -> pa.Scalar | None:
    """Return the value of a literal; None for any other expression."""
    if expression.variant_name() != "Literal":
        return None
    value = expression.python_value()
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)


_KEPT_EXPRESSIONS = 1024


def has_computed(predicate: Predicate) -> bool:
    """Return whether some condition of a predicate is on a computed value."""
    match predicate:
        case And(parts) | Or(parts):
            return any(map(has_computed, parts))
    return isinstance(predicate, ComputedCondition)


def with_stored_expressions(predicate: Predicate, schema: NamespaceSchema, specs: Iterable[PartitionSpec]) -> Predicate:
    """Return a predicate whose conditions on computed values know the expressions that the fields of some specs store."""
    return _with_stored(predicate, tuple(_stored_derivations(schema, specs))) if has_computed(predicate) else predicate


def _with_stored(predicate: Predicate, stored: tuple[tuple[object, ScalarExpression], ...]) -> Predicate:
    match predicate:
        case And(parts):
            return all_of(_with_stored(part, stored) for part in parts)
        case Or(parts):
            return any_of(_with_stored(part, stored) for part in parts)
        case ComputedCondition():
            return replace(predicate, stored=stored)
    return predicate


def _stored_derivations(
    schema: NamespaceSchema, specs: Iterable[PartitionSpec]
) -> Iterator[tuple[object, ScalarExpression]]:
    """Return each derivation of the specs' fields with its expression over the columns that there are now."""
    sources = schema.sources
    fields = {field.derivation: field for spec in specs for field in spec.fields if not field.rule.keeps_value}
    for derivation, field in fields.items():
        known = [sources[number] for number in field.source_ids if number in sources]
        if len(known) < len(field.source_ids):
            continue
        kinds = tuple(source.field.type for source in known)
        sql = field.rule.sql if isinstance(field.rule, Expression) else field.rule.expression(kinds)
        expression = _plan(sql, kinds)
        if isinstance(expression, ScalarCall):
            columns = {Column(f"col{place}"): Column(of.path[0], of.path[1:]) for place, of in enumerate(known)}
            yield derivation, replace_parts(expression, partial(_rename, names=columns))


def _rename(part: ScalarExpression, names: dict[Column, Column]) -> ScalarExpression | None:
    return names.get(part) if isinstance(part, Column) else None


@lru_cache(_KEPT_EXPRESSIONS)
def _plan(sql: str, kinds: tuple[pa.DataType, ...]) -> ScalarExpression | None:
    """Return an expression over col0, col1 … as DataFusion's optimiser leaves it; None where it has no counterpart."""
    columns = pa.schema([(f"col{place}", kind) for place, kind in enumerate(kinds)])
    try:
        plan = optimised_over(sql, columns)
    except SqlError:
        return None
    expression: ScalarExpression | None = Column(COMPUTED)
    while isinstance(node := plan.to_variant(), Projection) and expression is not None:
        expression = expression_below(expression, projected_expressions(node))
        (plan,) = plan.inputs()
    return expression


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
        lists = (condition.to_variant() for condition in self.filters if condition.variant_name() == "InList")
        return any(len(each.list()) > MANY_VALUES for each in lists)


def logical_scans(plan: LogicalPlan, default_schema: str) -> tuple[LogicalScan, ...] | None:
    """Return the scans of an optimised plan; None if some of them may be in a subquery within an expression."""
    if "Subquery:" in plan.display_indent():
        return None
    return tuple(_scans(plan, [], default_schema))


def hints(scans: Iterable[LogicalScan]) -> dict[str, Predicate]:
    """Map each table to the predicate that all of its scans require beyond the pushed filters."""
    by_table: dict[str, list[Predicate]] = defaultdict(list)
    for scan in scans:
        by_table[scan.table].append(scan.beyond)
    return {table: ALWAYS if ALWAYS in conditions else any_of(conditions) for table, conditions in by_table.items()}


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
    waiting, operators = [expression], []
    while waiting:
        current = waiting.pop()
        if current.variant_name() == "BinaryExpr" and current.rex_call_operator() == operator:
            waiting += reversed(current.rex_call_operands())
        else:
            operators.append(current)
    return operators


def _comparison(_: Any, operator: str, operands: list[Any]) -> Predicate | None:
    left, right = operands
    op = _OPERATORS[operator]
    if literal(left) is not None:
        left, right, op = right, left, op.flipped
    term, value = _term(left), literal(right)
    return Compare(term, op, value) if term is not None and value is not None else None


def _in_predicate(expression: Any, _: str, operands: list[Any]) -> Predicate | None:
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
        "in list": _in_predicate,
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
