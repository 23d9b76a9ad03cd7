"""Parameters of a statement: their number, and their types as far as the plan gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan
from datafusion.expr import Filter, Projection

from lance_flight.engine.sql.rewriting import MOST_PARAMETERS
from lance_flight.engine.sql.tokens import Kind, tokens_of
from lance_flight.errors import InvalidInput, LimitExceeded


def parameter_schema(
    sql: str,
    frame: DataFrame | None,
    target: pa.Schema | None = None,
    given: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> pa.Schema:
    """Return the schema of the parameters: one nullable field for each of `$1`, `$2` … (`?` numbered in order).

    A type is one that is `given`, or taken from the plan where it knows one, for INSERT … VALUES from the `target` column of the same
    place, and is utf8 otherwise.
    """
    count = parameter_count(sql)
    if count == 0:
        return pa.schema([])
    known = {**({} if frame is None else dict(_placeholders(frame.logical_plan()))), **given}
    by_place = [] if target is None or len(target) != count else target.types
    types = [known.get(f"${n}") or (by_place[n - 1] if by_place else pa.utf8()) for n in range(1, count + 1)]
    return pa.schema([pa.field(f"${n}", kind) for n, kind in enumerate(types, 1)])


def check_parameters(sql: str, parameters: pa.RecordBatch | None, *, is_query: bool) -> None:
    """Refuse rows without exactly one value for each parameter, and no row of them for a query."""
    expected, got = parameter_count(sql), 0 if parameters is None else parameters.num_columns
    if got != expected:
        raise InvalidInput(f"the statement has {expected} parameters, and {got} values were given for them")
    if is_query and parameters is not None and parameters.num_rows == 0:
        raise InvalidInput("a query takes a row of parameters, or several, got none")


def parameter_count(sql: str) -> int:
    """Return the number of values that a statement takes: the number of `?`, or the highest `$n`."""
    if "?" not in sql and "$" not in sql:
        return 0
    written = [token.text[1:] for token in tokens_of(sql) if token.kind is Kind.PARAMETER]
    count = max(written.count(""), *(int(number) for number in written if number.isdigit()), 0)
    if count > MOST_PARAMETERS:
        raise LimitExceeded(f"the statement has {count} parameters; expected at most {MOST_PARAMETERS}")
    return count


def has_times(parameters: pa.RecordBatch) -> bool:
    """Return whether there are times of day among the values."""
    return any(pa.types.is_time(column.type) for column in parameters.columns)


def with_fitting_times(parameters: pa.RecordBatch, plan: LogicalPlan) -> pa.RecordBatch:
    """Convert times to the units that the plan expects, since DataFusion compares them in one unit alone."""
    known = dict(_placeholders(plan))
    columns = [_fitting(column, known.get(f"${place}")) for place, column in enumerate(parameters.columns, 1)]
    return pa.RecordBatch.from_arrays(columns, names=parameters.schema.names)


def _fitting(column: pa.Array, wanted: pa.DataType | None) -> pa.Array:
    if wanted is None or not (pa.types.is_time(column.type) and pa.types.is_time(wanted)):
        return column
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:  # a fraction that the unit has no room for: it is equal to nothing there
        return column


def _placeholders(plan: LogicalPlan) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the typed placeholders of a plan's filters and projections."""
    for expression in _expressions(plan):
        yield from _typed_placeholders(expression)
    for child in plan.inputs():
        yield from _placeholders(child)


def _expressions(plan: LogicalPlan) -> list[Any]:
    match plan.to_variant():
        case Filter() as node:
            return [node.predicate()]
        case Projection() as node:
            return list(node.projections())
    return []


def _typed_placeholders(expression: Any) -> Iterator[tuple[str, pa.DataType]]:
    kind = expression.variant_name()
    if kind == "Placeholder":
        placeholder = expression.to_variant()
        found = placeholder.field()
        if found is not None:
            yield placeholder.id(), found.type
    elif kind not in {"Column", "Literal"}:
        for operand in expression.rex_call_operands():
            if str(operand) != str(expression):
                yield from _typed_placeholders(operand)


def bound_values(parameters: pa.RecordBatch | None) -> dict[str, pa.Scalar] | None:
    """Return one row of parameters in DataFusion's form: by the numbers of their places."""
    if parameters is None:
        return None
    return {str(place + 1): _value(column) for place, column in enumerate(parameters.columns)}


def _value(column: pa.Array) -> pa.Scalar:
    # DataFusion asks a list for its length before it asks whether there is one.
    is_list = pa.types.is_nested(column.type) and not pa.types.is_struct(column.type)
    return pa.scalar(None) if is_list and not column[0].is_valid else column[0]
