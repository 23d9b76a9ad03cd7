"""Arguments of a vector search: the column, the query vector, and the metric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.engine.query.search.arguments import Arguments
from lance_flight.engine.query.search.targets import SearchTarget
from lance_flight.errors import SqlError
from lance_flight.model.index_kinds import fitting_metric
from lance_flight.model.vectors import is_vector


def nearest(searched: SearchTarget, arguments: Arguments, column: str, count: int) -> VectorSearch:
    """The search for the `count` vectors that are nearest to the one of a call, in the column that its argument `column` names."""
    name = arguments.name(column)
    field = column_of_vectors(searched.vectors(name))
    metric = arguments.text("metric")
    return VectorSearch(
        column=name,
        vector=_query_vector(field, arguments),
        count=count,
        # Tables without an index must measure as those with one.
        metric=searched.metrics.get(name) if metric is None else fitting_metric(field, metric),
        nprobes=arguments.number("nprobes"),
        refine=arguments.number("refine"),
        use_index=arguments.switch("use_index", default=True),
    )


def column_of_vectors(field: pa.Field) -> pa.Field:
    """Return the column if it holds vectors; raise `SqlError` otherwise."""
    kind = field.type
    if pa.types.is_fixed_size_list(kind) and pa.types.is_int8(kind.value_type):
        raise SqlError(
            f"column {field.name!r} is {kind}, which Lance does not search; expected floats (HALF[{kind.list_size}],"
            f" FLOAT[{kind.list_size}]), or ORDER BY array_distance({field.name}, …) LIMIT k"
        )
    if not is_vector(kind):
        raise SqlError(
            f"column {field.name!r} is {kind}; expected vectors: lists of a fixed size (FLOAT[128]) of floats or bytes"
        )
    return field


def _query_vector(field: pa.Field, arguments: Arguments) -> pa.Array | None:
    """Convert the query vector to the column's type; None if it is a parameter that is not bound yet."""
    value = arguments.value("vector")
    if value is None:
        if arguments.is_bound:
            raise SqlError(f"vector of {arguments.function} is NULL; expected {field.type.list_size} numbers")
        return None
    return converted_vector(field, value.as_py(), f"vector of {arguments.function}")


def converted_vector(field: pa.Field, given: object, what: str) -> pa.Array:
    """Convert a vector to the type of a column of vectors; raise `SqlError` about `what` if it does not fit."""
    kind = field.type
    wrong = _wrong(given, kind.list_size)
    if wrong is not None:
        raise SqlError(f"{what} has {wrong}; expected {kind.list_size} numbers, as column {field.name!r} has")
    try:
        vector = pa.array(given, pa.float64()).cast(kind.value_type, safe=not pa.types.is_floating(kind.value_type))
    except pa.ArrowInvalid as exc:
        raise SqlError(f"{what} does not fit {kind}: {exc}") from exc
    if not np.isfinite(vector.to_numpy(zero_copy_only=False)).all():
        raise SqlError(f"{what} does not fit {kind}: a number of it is too large")
    return vector


def _wrong(vector: object, size: int) -> str | None:
    """Return why a value is no vector of so many numbers; None if it is one."""
    if not isinstance(vector, list):
        return repr(vector)
    if len(vector) != size:
        return f"{len(vector)} values"
    return next((f"{value!r} at place {place}" for place, value in enumerate(vector, 1) if not _is_number(value)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
