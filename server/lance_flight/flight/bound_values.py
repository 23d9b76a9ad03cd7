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
    OTHER = "other"


_FAMILIES: Sequence[tuple[_Family, Sequence[Callable[[pa.DataType], bool]]]] = (
    (_Family.NUMBER, (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)),
    (_Family.TEXT, (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (_Family.DAY, (pa.types.is_date, pa.types.is_timestamp)),
    (_Family.TIME, (pa.types.is_time,)),
)
_REFUSED = frozenset(
    {
        (_Family.NUMBER, _Family.DAY),
        (_Family.NUMBER, _Family.TIME),
        (_Family.DAY, _Family.NUMBER),
        (_Family.DAY, _Family.TIME),
        (_Family.TIME, _Family.NUMBER),
        (_Family.TIME, _Family.DAY),
    }
)
"""Families (bound, described) without a meaning for each other's values: no count of days or seconds is guessed."""


def fit_values(parameters: pa.RecordBatch, described: pa.Schema) -> pa.RecordBatch:
    """Cast each column of bound values to its described type (null: any), where every value stays the same.

    A number or a moment that the type cannot hold is left to the statement, which compares it by its value and refuses to store it.
    `InvalidInput` names a parameter whose value means nothing as its type: a text that is no number, a number for a date.

    >>> fit_values(pa.record_batch({"1": ["7"], "2": [1.5]}), pa.schema({"$1": pa.int64(), "$2": pa.int64()})).to_pylist()
    [{'1': 7, '2': 1.5}]
    """
    if parameters.num_columns != len(described):
        return parameters  # the statement says how many it has
    columns = [_fit(column, field) for column, field in zip(parameters.columns, described, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=parameters.schema.names)


def _fit(column: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if pa.types.is_null(kind) or column.type == kind:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    values = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    bound, described = _family(values.type), _family(kind)
    if (bound, described) in _REFUSED:
        raise _refusal(values, field)
    if bound is described is _Family.TEXT:
        return column
    if bound is _Family.TEXT and (described is not _Family.OTHER or pa.types.is_boolean(kind)):
        return _parsed(values, field)
    if bound is not described or bound is _Family.OTHER or _is_zoned(values.type) != _is_zoned(kind):
        return column
    try:
        fitting = values.cast(kind)
        return fitting if fitting.cast(values.type).equals(values) else column
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def _parsed(values: pa.Array, field: pa.Field) -> pa.Array:
    """Read texts as values of the described type; those of moments with a zone, or without, are left to the statement for the other."""
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid:
        if pa.types.is_timestamp(field.type):
            for place, value in enumerate(values):
                if not (_is_read(value, pa.timestamp("ns")) or _is_read(value, pa.timestamp("ns", "UTC"))):
                    raise _refusal(values.slice(place, 1), field) from None
            return values
        raise _refusal(values, field) from None


def _refusal(values: pa.Array, field: pa.Field) -> InvalidInput:
    """Return an error that names the first value which is none of the described type."""
    wrong = next((value for value in values if value.is_valid and not _is_read(value, field.type)), values[0])
    shown = repr(wrong.as_py())
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"
    return InvalidInput(
        f"parameter {field.name} is {shown} ({values.type}); expected {field.type}, which the statement takes there:"
        " bind such a value, or write a CAST of the parameter"
    )


def _is_read(value: pa.Scalar, kind: pa.DataType) -> bool:
    """Return whether a text is one of a value of this type; never of another family's value."""
    if _family(value.type) is not _Family.TEXT:
        return False
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _family(kind: pa.DataType) -> _Family:
    return next((family for family, tests in _FAMILIES if any(test(kind) for test in tests)), _Family.OTHER)


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None
