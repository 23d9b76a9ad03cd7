"""Arguments of a vector search: its column and metric, one query vector or many, and pages of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.search.row_ranking import DISTANCE
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.engine.query.search.arguments import Arguments
from lance_flight.engine.query.search.search_target import Planner, SearchTarget
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import LimitExceeded, SqlError
from lance_flight.model.arrow_types import is_list, is_multivector, is_vector, vector_type
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
    if not is_vector(kind) or not pa.types.is_floating(kind.value_type) or not is_list(value.type):
        return None
    numbers = value.values
    if not numbers.type.equals(kind.value_type) or len(numbers) != kind.list_size or numbers.null_count:
        return None
    return numbers if np.isfinite(numbers.to_numpy()).all() else None


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
    converted = [
        converted_vector(each, one, f"{what}, number {place}," if len(vectors) > 1 else what)
        for place, one in enumerate(vectors, 1)
    ]
    return pa.array([vector.to_pylist() for vector in converted], field.type.value_type)


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


QUERY = "_query"
"""Column with the key, or the number from 1 on, of the vector that a row was found for."""
MOST_QUERIES, MOST_FOUND, MOST_VECTORS_TOGETHER = 1_000, 100_000, 10_000
_NUMBER = pa.int64()
_KEYED = 2
_QUERY_STARTS = ("SELECT", "WITH", "VALUES")


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """Vectors to search by, in the type of the column, and the keys of those that there are (None: no parameter has a value yet)."""

    key: pa.DataType
    keys: pa.Array
    vectors: Sequence[pa.Array]

    @property
    def field(self) -> pa.Field:
        """Return the column of the result that has the keys."""
        return pa.field(QUERY, self.key)

    def check(self, count: int) -> None:
        """Refuse to find so many rows for each where that is too many together, and too many vectors of multivectors."""
        vectors = sum(len(vector) for vector in self.vectors if pa.types.is_nested(vector.type))
        if vectors > MOST_VECTORS_TOGETHER:
            raise LimitExceeded(
                f"queries of vector_search has multivectors of {vectors} vectors; expected at most {MOST_VECTORS_TOGETHER} together"
            )
        if len(self.vectors) * count > MOST_FOUND:
            raise LimitExceeded(
                f"queries of vector_search has {len(self.vectors)} vectors and k is {count}; expected at most {MOST_FOUND} rows together"
            )


def query_vectors(planner: Planner, field: pa.Field, arguments: Arguments) -> QueryVectors:
    """Read the vectors of the argument `queries`, for a column; those that are NULL are left out."""
    text = arguments.texts["queries"]
    query = _query_in(text)
    if query is not None:
        key, keys, column = _of_query(planner, query, arguments.parameters)
    else:
        value = arguments.value("queries")
        if value is None and arguments.is_bound:
            raise SqlError(
                "queries of vector_search is NULL; expected vectors: a list of lists of numbers, or a query in brackets"
            )
        key, keys, column = _NUMBER, None, pa.nulls(0) if value is None else _items(value)
    given = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    keys = pa.array(np.arange(1, len(column) + 1), _NUMBER) if keys is None else keys
    if len(column) > MOST_QUERIES:
        raise LimitExceeded(f"queries of vector_search has more than {MOST_QUERIES} vectors; expected at most so many")
    return QueryVectors(key, keys.take(pa.array(given)), _vectors(field, column.take(pa.array(given))))


def _query_in(text: str) -> str | None:
    """Return the query that is written in brackets; None for any other expression."""
    cursor = Cursor.over(text)
    if not cursor.peek("("):
        return None
    inside = cursor.read_bracket()[1:-1]
    return inside if cursor.done and any(Cursor.over(inside).peek(word) for word in _QUERY_STARTS) else None


def _of_query(
    planner: Planner, text: str, parameters: pa.RecordBatch | None
) -> tuple[pa.DataType, pa.Array | None, pa.Array]:
    """Return the type of the keys, the keys (None: numbers) and the vectors of the rows of a query."""
    frame = planner.frame(text, parameters).limit(MOST_QUERIES + 1)
    schema = frame.schema()
    if len(schema) > _KEYED:
        raise SqlError(
            f"queries of vector_search has {len(schema)} columns; expected one of vectors, or two: a key and a vector"
        )
    key = schema.field(0).type if len(schema) == _KEYED else _NUMBER
    if parameters is None and parameter_count(text):
        planner.searches.parameter_types.update(planner.wanted_types())
        return key, pa.nulls(0, key), pa.nulls(0)
    planner.prepare(frame)
    rows = pa.Table.from_batches(planner.stream(frame), schema).combine_chunks()
    columns = [column.combine_chunks() for column in rows.columns]
    return key, columns[0] if len(columns) == _KEYED else None, columns[-1]


def _items(value: pa.Scalar) -> pa.Array:
    if not hasattr(value, "values"):
        raise SqlError(f"queries of vector_search is {value.as_py()!r}; expected vectors: a list of lists of numbers")
    return value.values


def _vectors(field: pa.Field, column: pa.Array) -> list[pa.Array]:
    """Convert a column without NULL to vectors of the type of a column."""
    kind = field.type
    if pa.types.is_fixed_size_list(column.type) and column.type.equals(kind):
        numbers = column.flatten()
        if not numbers.null_count and bool(pc.all(pc.is_finite(numbers)).as_py() is not False):
            return [numbers.slice(place * kind.list_size, kind.list_size) for place in range(len(column))]
    return [
        converted_query(field, value, f"vector {place} of queries of vector_search")
        for place, value in enumerate(column.to_pylist(), 1)
    ]


_SPARE, _MORE = 16, 8
"""Rows beyond a page that are asked for, since some may be as near as its first one, and times as many where these are too few."""
_ULPS = 4
"""Distances of one row may differ by so many units in the last place, by which way it was found."""

Best = Callable[[VectorSearch, list[str]], pa.Table]
"""Function that returns some columns of the best rows of a search."""


@dataclass(frozen=True, slots=True)
class After:
    """The row that a page follows: its distance and its name (`_rowid`)."""

    distance: float
    row: str

    def page(self, best: Best, search: VectorSearch, names: list[str]) -> pa.Table:
        """Return some columns of the rows that follow; `SqlError` if the search does not find the row."""
        count, least = search.count + _SPARE, self._least(search)
        while True:
            vector_search = replace(search, count=count, least=least)
            rows = best(vector_search, list(dict.fromkeys([*names, DISTANCE.name, ROW_ID])))
            is_all = rows.num_rows < count
            place = pc.index(rows[ROW_ID], self.row).as_py()
            if place >= 0 and (is_all or rows.num_rows > place + search.count):
                return rows.slice(place + 1, search.count).select(names)
            is_behind = rows.num_rows > 0 and rows[DISTANCE.name][-1].as_py() > _next_float(self.distance, _ULPS)
            if place < 0 and (is_all or is_behind):
                raise self._unknown()
            count *= _MORE

    def _least(self, search: VectorSearch) -> float:
        nearest = _next_float(self.distance, -_ULPS)
        return nearest if search.least is None else max(nearest, search.least)

    def _unknown(self) -> SqlError:
        return SqlError(
            f"after of vector_search is row {self.row!r} at a distance of {np.float32(self.distance)}, which the search does not find; expected"
            " _distance and _rowid of a row of the page before, with the same arguments and at the same version of the table (docs@12)"
        )


def _next_float(distance: float, units: int) -> float:
    """Return a float32 so many units in the last place further."""
    return float(np.float32(distance) + np.float32(units) * np.spacing(np.float32(abs(distance))))
