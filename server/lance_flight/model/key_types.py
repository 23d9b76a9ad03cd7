"""The one type in which the keys of a join are compared without loss, whatever each side stores them as."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from lance_flight.model.domains import plain
from lance_flight.model.hashing import HashKind, hash_class

UTC = "UTC"
_DECIMAL128_DIGITS, _DECIMAL256_DIGITS = 38, 76
_BEYOND_INT64 = pa.decimal128(20, 0)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values: of a dictionary that of what it holds."""
    return kind.value_type if types.is_dictionary(kind) else kind


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type that holds all values of these types, so that equal ones stay equal and unequal ones apart.

    None: there is no such type. Types of one hash class (decision 7) have one, but for dates among other integers, decimals of several scales,
    timestamps of several units, and timestamps with a zone among those without.

    >>> common_type([pa.int32(), pa.dictionary(pa.int8(), pa.int64())])
    DataType(int64)
    >>> common_type([pa.int32(), pa.date32()]) is None
    True
    """
    plain_kinds = [value_type(kind) for kind in kinds]
    classes = {hash_class(kind) for kind in plain_kinds}
    if len(classes) != 1:
        return None
    (found,) = classes
    match found.kind if found is not None else None:
        case HashKind.INTEGER:
            return _integers(plain_kinds)
        case HashKind.TIME:
            return _times(plain_kinds)
        case HashKind.DECIMAL:
            return _decimals(plain_kinds)
        case HashKind.FLOAT:
            return pa.float64()
        case HashKind.STRING:
            return pa.string()
        case HashKind.BINARY:
            return pa.binary()
        case HashKind.BOOL:
            return pa.bool_()
    return None


def in_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a `common_type`, with one zero and one NaN."""
    known = values.dictionary_decode() if types.is_dictionary(values.type) else values
    return plain(known).cast(kind)


def keeps(stored: pa.DataType, column: pa.DataType) -> bool:
    """Return whether every value of a column's type is stored in another one without loss, or not at all."""
    wanted = value_type(column)
    if common_type([stored, wanted]) is None:
        return False
    if types.is_floating(wanted) or types.is_date(wanted):
        return bool(value_type(stored).bit_width >= wanted.bit_width)
    return True


def _integers(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    dates = [types.is_date(kind) for kind in kinds]
    if any(dates):
        # A day is a moment of date64; not every moment is a day.
        some = pa.date64() if any(types.is_date64(kind) for kind in kinds) else pa.date32()
        return some if all(dates) else None
    if not any(types.is_uint64(kind) for kind in kinds):
        return pa.int64()
    return _BEYOND_INT64 if any(types.is_signed_integer(kind) for kind in kinds) else pa.uint64()


def _times(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    if not all(types.is_timestamp(kind) for kind in kinds):
        return kinds[0] if len(set(kinds)) == 1 else None
    if len({(kind.unit, kind.tz is None) for kind in kinds}) > 1:
        return None
    return pa.timestamp(kinds[0].unit, None if kinds[0].tz is None else UTC)


def _decimals(kinds: Sequence[pa.DataType]) -> pa.DataType:
    if max(kind.precision for kind in kinds) <= _DECIMAL128_DIGITS:
        return pa.decimal128(_DECIMAL128_DIGITS, kinds[0].scale)
    return pa.decimal256(_DECIMAL256_DIGITS, kinds[0].scale)
