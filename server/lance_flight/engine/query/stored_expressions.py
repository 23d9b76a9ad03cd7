"""Expressions that partition fields store, in the form in which a query's own expressions are compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa
from datafusion.expr import Projection

from lance_flight.engine.query.scalar_expressions import expression_below, projected_expressions
from lance_flight.engine.sql.functions import COMPUTED, optimised_over
from lance_flight.errors import SqlError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionSpec
from lance_flight.planning.predicates import And, Column, Or, Predicate, all_of, any_of
from lance_flight.planning.scalar_expressions import ComputedCondition, ScalarCall, ScalarExpression, replaced

_KEPT_EXPRESSIONS = 1024


def has_computed(predicate: Predicate) -> bool:
    """Return whether some condition of a predicate is on a computed value."""
    match predicate:
        case And(parts) | Or(parts):
            return any(map(has_computed, parts))
    return isinstance(predicate, ComputedCondition)


def with_stored_expressions(predicate: Predicate, schema: NamespaceSchema, specs: Iterable[PartitionSpec]) -> Predicate:
    """Return a predicate whose conditions on computed values know the expressions that the fields of some specs store."""
    return _with_stored(predicate, tuple(_stored(schema, specs))) if has_computed(predicate) else predicate


def _with_stored(predicate: Predicate, stored: tuple[tuple[object, ScalarExpression], ...]) -> Predicate:
    match predicate:
        case And(parts):
            return all_of(_with_stored(part, stored) for part in parts)
        case Or(parts):
            return any_of(_with_stored(part, stored) for part in parts)
        case ComputedCondition():
            return replace(predicate, stored=stored)
    return predicate


def _stored(schema: NamespaceSchema, specs: Iterable[PartitionSpec]) -> Iterator[tuple[object, ScalarExpression]]:
    """Return each derivation of the specs' fields with its expression over the columns that there are now."""
    sources = schema.sources
    fields = {each.derivation: each for spec in specs for each in spec.fields if not each.rule.keeps_value}
    for derivation, each in fields.items():
        known = [sources[number] for number in each.source_ids if number in sources]
        if len(known) < len(each.source_ids):
            continue
        kinds = tuple(source.field.type for source in known)
        sql = each.rule.sql if isinstance(each.rule, Expression) else each.rule.expression(kinds)
        expression = _planned(sql, kinds)
        if isinstance(expression, ScalarCall):
            columns = {Column(f"col{place}"): Column(of.path[0], of.path[1:]) for place, of in enumerate(known)}
            yield derivation, replaced(expression, partial(_renamed, names=columns))


def _renamed(part: ScalarExpression, names: dict[Column, Column]) -> ScalarExpression | None:
    return names.get(part) if isinstance(part, Column) else None


@lru_cache(_KEPT_EXPRESSIONS)
def _planned(sql: str, kinds: tuple[pa.DataType, ...]) -> ScalarExpression | None:
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
