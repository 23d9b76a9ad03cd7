"""The eight partition transforms, one class each with the same few members, and one table of them.

Spec: Partition Transform. What a transform computes is what its derived expression computes, to the letter
(decision 8): `month` is 1–12, `truncate` goes toward zero, parts of timestamps with a zone are those of its local time.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import DataError
from lance_flight.model.hashing import bucket, hash_class, murmur3, murmur3_multi
from lance_flight.model.zones import TICKS, in_zone, zone_of

MAX_BUCKETS = 2**31 - 1
MAX_WIDTH = 2**31 - 1
HALF_WORD = 32
SECONDS_PER_DAY = 86_400
FIRST_DAY, LAST_DAY = -12_687_428, 11_248_737  # -32767-01-01 and 32767-12-31

# Twice the digits of the widest decimal: its quotient by a width is exact.
_EXACT_DIGITS = 2 * 76


class Transform(Protocol):
    """What every transform offers. `sources` are the types, `columns` the values, of its source columns."""

    type: ClassVar[str]

    @property
    def arguments(self) -> Mapping[str, int]:
        """The members beside `type` in the spec's JSON."""
        ...

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        """Return what is wrong with applying this transform to columns of these types."""
        ...

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        """The Arrow type of the partition value."""
        ...

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        """The derived DataFusion expression; `col0`, `col1` … are the source columns."""
        ...

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The partition value of each row."""
        ...


def _one_source(name: str, sources: Sequence[pa.DataType]) -> Iterator[str]:
    if len(sources) != 1:
        yield f"{name} takes one source column, got {len(sources)}"


@dataclass(frozen=True, slots=True)
class Identity:
    """The source value, unmodified (floats: −0.0 counts as 0.0 and every NaN as one)."""

    type: ClassVar[str] = "identity"

    @property
    def arguments(self) -> Mapping[str, int]:
        return {}

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from _one_source(self.type, sources)
        for source in sources:
            if pa.types.is_nested(source) or pa.types.is_null(source) or hash_class(source) is None:
                yield f"identity of a {source} column; expected a number, string, binary, boolean, date or time"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        (source,) = sources
        return source.value_type if pa.types.is_dictionary(source) else source

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return "col0"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            return _floats(_numbers(column), column)
        return column


@dataclass(frozen=True, slots=True)
class _DatePart:
    """One `date_part` of a date or timestamp, in the column's zone if it has one."""

    type: ClassVar[str]

    @property
    def arguments(self) -> Mapping[str, int]:
        return {}

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from _one_source(self.type, sources)
        for source in sources:
            if not (pa.types.is_timestamp(source) or (pa.types.is_date(source) and self.type != "hour")):
                expected = "a timestamp" if self.type == "hour" else "a date or timestamp"
                yield f"{self.type} of a {source} column; expected {expected}"
            elif zone_of(source) is None:
                yield _unknown_zone(self.type, source)

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int32()

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"date_part('{self.type}', col0)"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        if pa.types.is_null(column.type):
            return column.cast(pa.int32())
        if zone_of(column.type) is None:
            raise DataError(_unknown_zone(self.type, column.type))
        part = getattr(pc, self.type)
        return part(_in_calendar(in_zone(column))).cast(pa.int32())


class Year(_DatePart):
    """`date_part('year')`."""

    type: ClassVar[str] = "year"


class Month(_DatePart):
    """`date_part('month')`: 1–12, whatever the year."""

    type: ClassVar[str] = "month"


class Day(_DatePart):
    """`date_part('day')`: 1–31, whatever the month."""

    type: ClassVar[str] = "day"


class Hour(_DatePart):
    """`date_part('hour')`: 0–23, whatever the day."""

    type: ClassVar[str] = "hour"


@dataclass(frozen=True, slots=True)
class _Hashed:
    """`abs(hash) % num_buckets`."""

    num_buckets: int
    type: ClassVar[str]

    @property
    def arguments(self) -> Mapping[str, int]:
        return {"num_buckets": self.num_buckets}

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        if not 1 <= self.num_buckets <= MAX_BUCKETS:
            yield f"num_buckets is {self.num_buckets}; expected 1 to {MAX_BUCKETS}"
        for source in sources:
            if hash_class(source) is None:
                yield f"{self.type} of a {source} column; expected a type that murmur3 is defined for"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int32()


class Bucket(_Hashed):
    """`abs(murmur3(col0)) % N`."""

    type: ClassVar[str] = "bucket"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from _one_source(self.type, sources)
        yield from _Hashed.problems(self, sources)

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"abs(murmur3(col0)) % {self.num_buckets}"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        return bucket(murmur3(columns[0]), self.num_buckets)


class MultiBucket(_Hashed):
    """`abs(murmur3_multi(col0, col1, …)) % N`; NULLs are left out of the hash."""

    type: ClassVar[str] = "multi_bucket"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        if not sources:
            yield f"{self.type} takes at least one source column"
        yield from _Hashed.problems(self, sources)

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        columns = ", ".join(f"col{i}" for i in range(len(sources)))
        return f"abs(murmur3_multi({columns})) % {self.num_buckets}"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        return bucket(murmur3_multi(columns), self.num_buckets)


@dataclass(frozen=True, slots=True)
class Truncate:
    """The first `width` characters of a string, or a number cut toward zero to a multiple of `width`."""

    width: int
    type: ClassVar[str] = "truncate"

    @property
    def arguments(self) -> Mapping[str, int]:
        return {"width": self.width}

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from _one_source(self.type, sources)
        if not 1 <= self.width <= MAX_WIDTH:
            yield f"width is {self.width}; expected 1 to {MAX_WIDTH}"
        for source in sources:
            if not (is_string(source) or is_number(source)):
                yield f"truncate of a {source} column; expected a string or a number"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return sources[0]

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"left(col0, {self.width})" if is_string(sources[0]) else f"col0 - (col0 % {self.width})"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        if pa.types.is_null(column.type):
            return column
        if is_string(column.type):
            return pc.utf8_slice_codeunits(column.cast(_sliceable(column.type)), 0, self.width).cast(column.type)
        if pa.types.is_decimal(column.type):
            return self._decimals(column)
        known = _numbers(column)
        # In 64 bits, because the width may lie beyond the range of a narrow type.
        wide = known.astype({"i": np.int64, "u": np.uint64}.get(known.dtype.kind, known.dtype))
        with np.errstate(invalid="ignore", over="ignore"):  # an infinite value has no remainder: NaN
            cut = (wide - np.fmod(wide, wide.dtype.type(self.width))).astype(known.dtype)
        return _floats(cut, column) if pa.types.is_floating(column.type) else _like(cut, column)

    def _decimals(self, column: pa.Array) -> pa.Array:
        # Arrow groups neither of the small decimals.
        groupable = column.cast(pa.decimal256(column.type.precision, column.type.scale))
        encoded = groupable.dictionary_encode()
        with decimal.localcontext(prec=_EXACT_DIGITS):
            values = [None if v is None else v - v % self.width for v in encoded.dictionary.to_pylist()]
        return pa.array(values, column.type).take(encoded.indices)


TRANSFORMS: Mapping[str, type[Any]] = MappingProxyType(
    {kind.type: kind for kind in (Identity, Year, Month, Day, Hour, Bucket, MultiBucket, Truncate)}
)


def is_string(kind: pa.DataType) -> bool:
    """Return whether `kind` is a string type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether `kind` is an integer, float or decimal."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _sliceable(kind: pa.DataType) -> pa.DataType:
    return pa.utf8() if pa.types.is_string_view(kind) else kind


def _numbers(column: pa.Array) -> np.ndarray:
    """The values of a numeric column, with 0 in place of NULL."""
    values: np.ndarray = pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    return values


def _floats(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Floats in the type and with the NULLs of `column`, with one zero and one NaN."""
    canonical = np.where(np.isnan(values), values.dtype.type(np.nan), np.where(values == 0, 0, values))
    return _like(canonical.astype(values.dtype), column)


def _like(values: np.ndarray, column: pa.Array) -> pa.Array:
    return pa.array(values, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))


def _unknown_zone(part: str, kind: pa.DataType) -> str:
    return (
        f"{part} of a {kind} column: DataFusion knows no zone {kind.tz!r}; expected a name of the tz database or an offset"
        " like +02:00"
    )


def _in_calendar(column: pa.Array) -> pa.Array:
    """Dates and timestamps as they are; `DataError` for one beyond the years that Arrow's kernels count right."""
    ticks = column.view(pa.int32() if column.type.bit_width == HALF_WORD else pa.int64())
    per_day = 1 if pa.types.is_date32(column.type) else SECONDS_PER_DAY * TICKS[getattr(column.type, "unit", "ms")]
    ends = pc.min_max(ticks).as_py()
    for end in (ends["min"], ends["max"]):
        if end is not None and not FIRST_DAY <= end // per_day <= LAST_DAY:
            raise DataError(
                f"a {column.type} value lies {end // per_day:,} days from 1970; partitions by its year, month, day or hour "
                "reach from the year -32767 to 32767"
            )
    return column
