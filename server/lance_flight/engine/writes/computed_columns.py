"""Values of a new column: from an SQL expression over the existing columns, or from a Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_flight.catalog.schema_evolution import Computed
from lance_flight.catalog.tables.rows import check_vectors
from lance_flight.engine.sql.tokens import tokenize
from lance_flight.engine.translation import evaluation
from lance_flight.engine.translation.evaluation import compute, computed_type, unsteady
from lance_flight.engine.translation.rewriting import for_datafusion
from lance_flight.errors import DataError, NotFound, SchemaError, SqlError, Unsupported
from lance_flight.model.arrow_types import contiguous
from lance_flight.model.json_documents import documents, is_json
from lance_flight.model.schema import MOMENTS, NamespaceSchema, value_of_text
from lance_flight.model.schema_changes import AddColumn, Path, show_path
from lance_flight.model.type_names import type_name

_PROBES = 2
_ONE_ROW = pa.record_batch({"nothing": pa.nulls(1, pa.int8())})


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """SQL expression over the columns of one row."""

    sql: str


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """Deterministic function that takes a batch of some columns and returns as many values."""

    columns: tuple[str, ...]
    call: Callable[[pa.RecordBatch], pa.Array]


Values = SqlExpression | PythonFunction


def read_computation(
    before: NamespaceSchema, after: NamespaceSchema, column: AddColumn, values: Values | None
) -> dict[int, Computed]:
    """Return the computation of a new column's values, by its field id; empty for one that is NULL everywhere.

    What is wrong with an expression shows before a row is read: `SqlError`, `SchemaError`.
    """
    if values is None:
        return _default(after, column)
    if len(column.path) > 1:
        raise Unsupported(f"column {show_path(column.path)!r} is inside another one and cannot be computed")
    names = _sources(values, before)
    if isinstance(values, SqlExpression):
        _probe(values, names, column, before)
    made = partial(_values, values, names, column)
    return {after.ids[column.path[0]]: Computed(tuple(before.ids[name] for name in names), made)}


def type_of(values: SqlExpression, before: NamespaceSchema) -> pa.DataType:
    """Return the type that an expression has before any cast."""
    names = _sources(values, before)
    return computed_type(values.sql, _batch(names, [pa.nulls(0, before.arrow.field(n).type) for n in names], 0))


def check_steady(what: str, expression: str) -> None:
    """Refuse a non-deterministic expression."""
    problems = list(unsteady(expression))
    if problems:
        raise SchemaError("column", [f"{what}: {problem}" for problem in problems])


def stored_default(path: Path, kind: pa.DataType, text: str | None) -> str | None:
    """Convert a default to the form that the schema stores: text that casts to exactly the same value."""
    if text is None:
        return None
    if len(path) > 1:
        raise Unsupported(f"column {show_path(path)!r} is inside another one and can have no default")
    moment = _moment_in(text)
    if moment is not None:
        if not MOMENTS[moment](kind):
            raise Unsupported(
                f"column {show_path(path)!r} is {type_name(kind)} and cannot have the default {moment.upper()}; expected DATE, TIME or TIMESTAMP"
            )
        return moment
    check_steady(f"the default of {show_path(path)!r}", text)
    value = _computed_as(pa.field(show_path(path), kind), text, _ONE_ROW)[0]
    try:
        kept = str(value.cast(pa.utf8()))
        same = value.is_valid and str(value_of_text(kept, kind).cast(pa.utf8())) == kept  # NaN is equal to none
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        same = False
    if not same:
        raise Unsupported(
            f"the default {text} of column {show_path(path)!r} ({type_name(kind)}) cannot be kept as text"
        )
    return kept


def _moment_in(text: str) -> str | None:
    """Return the default of `MOMENTS` that a text is, in whatever words: `now()`, `getdate()`, `CURRENT_DATE`; None for another text."""
    try:
        call = "".join(token.text for token in tokenize(for_datafusion(text))).lower()
    except SqlError:
        return None
    while call.startswith("(") and call.endswith(")"):
        call = call[1:-1]
    kind = evaluation.MOMENTS.get(call.removesuffix("()"))
    if kind is None:
        return None
    return (
        "current_date" if pa.types.is_date(kind) else "current_time" if pa.types.is_time(kind) else "current_timestamp"
    )


def _default(after: NamespaceSchema, column: AddColumn) -> dict[int, Computed]:
    default = after.defaults.get(column.path[0]) if len(column.path) == 1 else None
    if default is None:
        return {}
    return {after.ids[column.path[0]]: Computed((), lambda _, rows: pa.repeat(default, rows))}


def _sources(values: Values, schema: NamespaceSchema) -> list[str]:
    match values:
        case SqlExpression(sql):
            words = {word for token in tokenize(sql) for word in (token.text, token.text.lower())}
            return [name for name in schema.ids if name in words]
        case PythonFunction(columns):
            for name in columns:
                if name not in schema.ids:
                    raise NotFound.named("column", name, schema.ids)
            return list(columns)


def _probe(values: SqlExpression, names: Sequence[str], column: AddColumn, schema: NamespaceSchema) -> None:
    check_steady(f"the expression of {show_path(column.path)!r}", values.sql)
    nulls = [pa.nulls(_PROBES, schema.arrow.field(name).type) for name in names]
    if len(_computed_as(_field(column), values.sql, _batch(names, nulls, _PROBES))) != _PROBES:
        raise SchemaError(
            "column", [f"the expression of {show_path(column.path)!r} is an aggregate; expected a value for each row"]
        )


def _values(
    values: Values, names: Sequence[str], column: AddColumn, sources: Sequence[pa.Array], rows: int
) -> pa.Array:
    batch = _batch(names, sources, rows)
    match values:
        case SqlExpression(sql):
            what, found = "expression", _computed_as(_field(column), sql, batch)
        case PythonFunction(call=call):
            what, found = "function", _call_checked(call, batch, column)
    check_vectors(_field(column), found)
    if not column.nullable and found.null_count:
        raise DataError(f"column {show_path(column.path)!r} is NOT NULL and its {what} gives NULL")
    return found


def _computed_as(field: pa.Field, sql: str, columns: pa.RecordBatch) -> pa.Array:
    """Return the values of an expression as those of a column."""
    if is_json(field.type):
        return documents(compute(sql, columns, pa.utf8()), field.name)
    return compute(sql, columns, field.type)


def _field(column: AddColumn) -> pa.Field:
    return pa.field(show_path(column.path), column.type)


def _call_checked(call: Callable[[pa.RecordBatch], pa.Array], batch: pa.RecordBatch, column: AddColumn) -> pa.Array:
    """Call a user's function and check the type and the number of the values that it returns."""
    returned = call(batch)
    try:
        values = returned if isinstance(returned, (pa.Array, pa.ChunkedArray)) else pa.array(returned, column.type)
        flat = contiguous(values)
        cast = documents(flat, show_path(column.path)) if is_json(column.type) else flat.cast(column.type)
    except (pa.ArrowException, TypeError) as exc:
        raise DataError(
            f"the function for column {show_path(column.path)!r} returned what is no {column.type}: {exc}"
        ) from exc
    if len(cast) != batch.num_rows:
        raise DataError(
            f"the function for column {show_path(column.path)!r} returned {len(cast)} values for {batch.num_rows} rows"
        )
    return cast


def _batch(names: Sequence[str], values: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """Return columns by their names; one of nothing keeps the number of rows where there are none."""
    known = dict(zip(names, values, strict=True))
    return pa.record_batch(known or {"nothing": pa.nulls(rows, pa.int8())})
