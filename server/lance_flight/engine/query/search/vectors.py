"""Arguments of a vector search: the column, the query vector, and the metric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.engine.query.search.arguments import Arguments
from lance_flight.engine.query.search.search_target import SearchTarget
from lance_flight.errors import LimitExceeded, SqlError
from lance_flight.model.arrow_types import is_multivector, is_vector, vector_type
from lance_flight.model.index_kinds import KINDS, IndexKind, fitting_metric, metrics_of

MULTIVECTOR_REFINE = 16
"""What `refine` is for multivectors where nothing is said: an index alone gives no distances of these, but estimates."""
STORED_REFINE = 1
"""What `refine` is for an index that stores vectors as they are: rows that it is not about, with the same vectors, are measured alike."""
_DOT = "dot"
MOST_VECTORS = 1_000
"""Vectors of one query of multivectors, at most."""


def nearest(searched: SearchTarget, arguments: Arguments, column: str, count: int) -> VectorSearch:
    """The search for the `count` vectors that are nearest to the one of a call, in the column that its argument `column` names."""
    name = arguments.name(column)
    field = column_of_vectors(searched.vectors(name))
    given = arguments.text("metric")
    metric = _usual_metric(searched, field) if given is None else fitting_metric(field, given)
    refine, use_index = arguments.number("refine"), arguments.switch("use_index", default=True)
    index = searched.vector_indices(name).get(metric)
    kind = None if index is None else index.kind
    are_bounded = bounds_exactly(kind, refine)
    if is_multivector(field.type) and kind is not None:
        refine = refine or MULTIVECTOR_REFINE
    elif refine is None and kind is not None and KINDS[kind].stores_vectors and _has_roundings(field):
        # A dot product near zero may differ by any part of itself.
        refine, are_bounded = STORED_REFINE, are_bounded and metric != _DOT
    return VectorSearch(
        column=name,
        vector=_query_vector(field, arguments),
        count=count,
        metric=metric,
        nprobes=arguments.number("nprobes"),
        refine=refine,
        ef=arguments.number("ef"),
        least=arguments.decimal("min_distance"),
        most=arguments.decimal("max_distance"),
        bounds_exactly=are_bounded,
        indexed_by=_indexed_by(searched, arguments, name, metric, use_index=use_index),
        use_index=use_index,
    )


def _usual_metric(searched: SearchTarget, field: pa.Field) -> str:
    """Return the metric of a search that states none: that of the column's indices; `SqlError` if these have several."""
    metrics = sorted(searched.vector_indices(field.name))
    if len(metrics) > 1:
        stated = " or ".join(f"metric => '{metric}'" for metric in metrics)
        raise SqlError(f"column {field.name!r} has indices by {' and '.join(metrics)}; write {stated}")
    # Tables without an index must measure as those with one.
    return metrics[0] if metrics else metrics_of(field.type)[0]


def _has_roundings(field: pa.Field) -> bool:
    """Return whether the distance of a vector may be another by the order in which Lance adds it up."""
    return bool(pa.types.is_floating(field.type.value_type))


def bounds_exactly(kind: str | None, refine: int | None = None) -> bool:
    """Return whether Lance finds all that lies beyond a distance by itself, with an index of a kind (None: there is no index).

    A graph is searched from the nearest on. With `refine` Lance also bounds the distances before they are compared by stored vectors.
    """
    return kind is None or (refine is None and "hnsw" not in kind)


def _indexed_by(
    searched: SearchTarget, arguments: Arguments, column: str, metric: str, *, use_index: bool
) -> IndexKind | None:
    """Return the kind of the index that is alone looked into (`fast_search`); None if all rows are searched."""
    if not arguments.switch("fast_search", default=False):
        return None
    indices = searched.vector_indices(column)
    # Of several indices Lance looks into the oldest, by whatever metric that is.
    if list(indices) == [metric] and use_index:
        return indices[metric].of_kind
    if not indices:
        there = "there is no index"
    elif len(indices) > 1:
        there = f"it has indices by {' and '.join(sorted(indices))}"
    else:
        there = f"the index is by {min(indices)}" if use_index else "use_index is false"
    given, expected = True, f"an index of {column!r} by the metric of the search, and use_index; {there}"
    raise arguments.error("fast_search", given, expected)


def column_of_vectors(field: pa.Field) -> pa.Field:
    """Return the column if it holds vectors; raise `SqlError` otherwise."""
    kind = field.type
    if pa.types.is_fixed_size_list(kind) and pa.types.is_int8(kind.value_type):
        raise SqlError(
            f"column {field.name!r} is {kind}, which Lance does not search; expected floats (HALF[{kind.list_size}],"
            f" FLOAT[{kind.list_size}]), or ORDER BY array_distance({field.name}, …) LIMIT k"
        )
    if not is_vector(vector_type(kind)):
        raise SqlError(
            f"column {field.name!r} is {kind}; expected vectors: lists of a fixed size (FLOAT[128]) of floats or bytes, or lists of"
            " such vectors (FLOAT[128][])"
        )
    return field


def _query_vector(field: pa.Field, arguments: Arguments) -> pa.Array | None:
    """Convert the query vector to the column's type; None if it is a parameter that is not bound yet, or there are many (`queries`)."""
    if "vector" not in arguments.texts:
        return None
    value = arguments.value("vector")
    if value is None:
        if arguments.is_bound:
            expected = f"{vector_type(field.type).list_size} numbers"
            raise SqlError(f"vector of {arguments.function} is NULL; expected {expected}")
        return None
    bound = _as_it_is(field, value)
    return converted_query(field, value.as_py(), f"vector of {arguments.function}") if bound is None else bound


def _as_it_is(field: pa.Field, value: pa.Scalar) -> pa.Array | None:
    """Return the numbers of a vector that is bound in just the type of its column; None for any other value, and for a wrong one."""
    kind = field.type
    if not is_vector(kind) or not pa.types.is_floating(kind.value_type) or not _is_list(value.type):
        return None
    numbers = value.values
    if not numbers.type.equals(kind.value_type) or len(numbers) != kind.list_size or numbers.null_count:
        return None
    return numbers if np.isfinite(numbers.to_numpy()).all() else None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def converted_query(field: pa.Field, given: object, what: str) -> pa.Array:
    """Convert what a column is searched by to the type of the column; raise `SqlError` about `what` if it does not fit.

    It is one vector, or for multivectors a list of vectors, of which one may stand by itself.
    """
    if not is_multivector(field.type):
        return converted_vector(field, given, what)
    vectors = given if isinstance(given, list) and given and isinstance(given[0], list) else [given]
    if len(vectors) > MOST_VECTORS:
        raise LimitExceeded(f"{what} has {len(vectors)} vectors; expected at most {MOST_VECTORS}")
    each = field.with_type(field.type.value_type)
    found = [
        converted_vector(each, one, f"{what}, number {place}," if len(vectors) > 1 else what)
        for place, one in enumerate(vectors, 1)
    ]
    return pa.array([vector.to_pylist() for vector in found], field.type.value_type)


def converted_vector(field: pa.Field, given: object, what: str) -> pa.Array:
    """Convert a vector to the type of a column of vectors; raise `SqlError` about `what` if it does not fit."""
    kind = field.type
    wrong = _wrong(given, kind.list_size)
    if wrong is not None:
        raise SqlError(f"{what} has {wrong}; expected {kind.list_size} numbers, as column {field.name!r} has")
    numbers = pa.array(given, pa.float64())
    if not pa.types.is_floating(kind.value_type):
        try:
            return numbers.cast(kind.value_type)
        except pa.ArrowInvalid as exc:
            raise SqlError(f"{what} does not fit {kind}: {exc}") from exc
    with np.errstate(over="ignore"):
        vector = numbers.to_numpy().astype(kind.value_type.to_pandas_dtype())
    if not np.isfinite(vector).all():
        raise SqlError(f"{what} does not fit {kind}: a number of it is too large")
    return pa.array(vector)


def _wrong(vector: object, size: int) -> str | None:
    """Return why a value is no vector of so many numbers; None if it is one."""
    if not isinstance(vector, list):
        return repr(vector)
    if len(vector) != size:
        return f"{len(vector)} values"
    if set(map(type, vector)) <= {int, float} and all(map(math.isfinite, vector)):
        return None
    return next((f"{value!r} at place {place}" for place, value in enumerate(vector, 1) if not _is_number(value)), None)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value)
