"""Many vectors of one search (`queries => …`): a query for them, with a key for each, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.query.search.arguments import Arguments
from lance_flight.engine.query.search.statement_searches import Planner
from lance_flight.engine.query.search.vectors import converted_query
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.errors import LimitExceeded, SqlError

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
        vectors = sum(len(each) for each in self.vectors if pa.types.is_nested(each.type))
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
    inside = cursor.bracketed()[1:-1]
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
