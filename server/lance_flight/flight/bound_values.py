"""Casts bound values to the types that a prepared statement describes its parameters by, where that keeps them as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import pyarrow as pa

from lance_flight.errors import InvalidInput

_LONGEST_VALUE = 80
"""Characters of a refused value that its error shows."""


class _Family(Enum):
    """Family of types whose values are converted into one another, or are not at all."""

    NUMBER = "number"
    TEXT = "text"
    DAY = "day"
    TIME = "time"
    BOOLEAN = "boolean"
    OTHER = "other"


_FAMILIES: Sequence[tuple[_Family, Sequence[Callable[[pa.DataType], bool]]]] = (
    (_Family.NUMBER, (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)),
    (_Family.TEXT, (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (_Family.DAY, (pa.types.is_date, pa.types.is_timestamp)),
    (_Family.TIME, (pa.types.is_time,)),
    (_Family.BOOLEAN, (pa.types.is_boolean,)),
)
_CAST = frozenset(
    {
        *((family, family) for family in (_Family.NUMBER, _Family.DAY, _Family.TIME)),
        (_Family.NUMBER, _Family.TEXT),
        (_Family.NUMBER, _Family.BOOLEAN),
        (_Family.BOOLEAN, _Family.NUMBER),
    }
)
"""Families (bound, described) that are cast where every value comes back from it the same: 7.0 is 7, 1 is true, midnight is a date."""
_LEFT = _CAST - {(_Family.NUMBER, _Family.BOOLEAN)}
"""Families whose values are left to the statement where they cannot be cast."""


def fit_values(parameters: pa.RecordBatch, described: pa.Schema) -> pa.RecordBatch:
    """Cast each column of bound values to its described type (null: any), where every value stays the same.

    A number or a moment that the type cannot hold is left to the statement, which compares it by its value and refuses to store it.
    `InvalidInput` names a parameter whose value means nothing as its type: a text that is no number, a number for a date.

    >>> fit_values(pa.record_batch({"1": ["7"], "2": [1.5]}), pa.schema({"$1": pa.int64(), "$2": pa.int64()})).to_pylist()
    [{'1': 7, '2': 1.5}]
    """
    if parameters.num_columns != len(described):
        return parameters  # the statement says how many it has
    if parameters.schema.types == described.types:
        return parameters
    columns = [_fit(column, field) for column, field in zip(parameters.columns, described, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=parameters.schema.names)


def _fit(column: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if pa.types.is_null(kind) or column.type == kind:
        return column
    values = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    families = bound, described = _family(values.type), _family(kind)
    if values.null_count == len(values):
        return pa.nulls(len(column), kind)
    if bound is described is _Family.TEXT or _Family.OTHER in families:
        return column
    if bound is _Family.TEXT:
        return _parsed(values, field)
    if bound is described is _Family.DAY and _is_zoned(values.type) != _is_zoned(kind):
        return column
    fitting = _exactly(values, kind) if families in _CAST else None
    if fitting is None and families not in _LEFT and described is not _Family.TEXT:
        raise _refusal(values, field)
    return column if fitting is None else fitting


def _exactly(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Cast values of related types; None unless each of them comes back the same."""
    try:
        fitting = values.cast(kind)
        return fitting if fitting.cast(values.type).equals(values) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _parsed(values: pa.Array, field: pa.Field) -> pa.Array:
    """Read texts as values of the described type; those of moments with a zone, or without, are left to the statement for the other."""
    if _is_read(values, field.type):
        return values.cast(field.type)
    if not _fits(values, field.type):
        raise _refusal(values, field)
    return values


def _fits(values: pa.Array, kind: pa.DataType) -> bool:
    """Return whether texts are ones of values of this type, or other values are the same in it."""
    if _family(values.type) is not _Family.TEXT:
        return (_family(values.type), _family(kind)) in _CAST and _exactly(values, kind) is not None
    if not pa.types.is_timestamp(kind):
        return _is_read(values, kind)
    return any(_is_read(values, pa.timestamp(unit, zone)) for unit in (kind.unit, "ns") for zone in (None, "UTC"))


def _is_read(values: pa.Array, kind: pa.DataType) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _refusal(values: pa.Array, field: pa.Field) -> InvalidInput:
    """Return an error that names a value which is none of the described type, found by halves among many."""
    while len(values) > 1:
        half = len(values) // 2
        first = values.slice(0, half)
        values = values.slice(half) if _fits(first, field.type) or first.null_count == half else first
    shown = repr(values[0].as_py())
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"
    return InvalidInput(
        f"parameter {field.name} is {shown} ({values.type}); expected {field.type}, which the statement takes there:"
        " bind such a value, or write a CAST of the parameter"
    )


def _family(kind: pa.DataType) -> _Family:
    return next((family for family, tests in _FAMILIES if any(test(kind) for test in tests)), _Family.OTHER)


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None
