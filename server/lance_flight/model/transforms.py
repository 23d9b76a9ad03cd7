"""The partition transforms, one class each with what it prunes beside it, and the one table of them.

Spec: Partition Transform. What a transform computes is what its derived expression computes, to the letter
(decision 8): `month` is 1–12, `truncate` goes toward zero, parts of timestamps with a zone are those of its local time.
A new transform is a subclass of `Transform` and a line in `TRANSFORMS`. A part of dates that is to prune has its place among the
others in `planning/partitions.py` and `constraints.py`, too: the fields of one column prune together, by their `date_part`.
`truncate` never reverses the order of its column, so that it prunes by ranges. `bucket` and `multi_bucket` prune by single values of
their columns, and are joined by their counts.
"""

from __future__ import annotations

import dataclasses
import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.errors import DataError
from lance_flight.model.arrow_types import is_number, is_string
from lance_flight.model.domains import DATE_PARTS, Domain, Key
from lance_flight.model.hashing import bucket, common_type, hash_class, keeps, murmur3, murmur3_multi, value_type
from lance_flight.model.zones import TICKS, in_zone, zone_of


class Nulls(Enum):
    """Source columns that are NULL where the partition value is NULL."""

    OF_ITS_SOURCE = "of its only source, and the other way round"
    OF_ALL_SOURCES = "of all of them, and the other way round"
    UNKNOWN = "of none"


class Rule:
    """Interface of pruning and co-partitioning to a rule: to a transform, and to a custom expression too.

    The defaults promise nothing: a rule that overrides none of them prunes by single values alone.
    """

    __slots__ = ()

    type: ClassVar[str]
    """Its name."""

    keeps_value: ClassVar[bool] = False
    """True if the partition value is the value of its only source."""

    monotonic: ClassVar[bool] = False
    """True if the partition value never falls while its only source rises."""

    nulls: ClassVar[Nulls] = Nulls.OF_ITS_SOURCE
    """Meaning of a NULL partition value."""

    needs_values: ClassVar[bool] = False
    """True if it prunes by single values of its sources alone, never by a range of them."""

    date_part: ClassVar[str | None] = None
    """The `date_part` of its source that it is; those of `planning/partitions.py` prune together."""

    family: ClassVar[str]
    """The rules of one family are compared with one another in messages."""

    contrast: ClassVar[str] = "neither determines the other"
    """Why two different rules of its family over the same columns determine nothing in common."""

    def image(self, domain: Domain, stored: pa.DataType) -> Domain | str | None:
        """Return the values, of type `stored`, that it gives to sources within a domain, NULL aside.

        More of them than there are is sound, fewer is not. A text says why they are not known for this domain; None: only
        those of single values are.
        """
        return None

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        """Return the type in which its values over columns of several tables are compared.

        None: equal columns may have values of different types. `kinds` has for each source the type that it has in each table.
        """
        return pa.int64()

    def comparison_obstacle(self, sources: Sequence[pa.DataType], result_type: pa.DataType) -> str | None:
        """Return why values stored as `result_type` do not tell which rows of these source columns may be equal."""
        return None if types.is_integer(result_type) else f"its values are {result_type}; expected an integer"

    def widening_obstacle(self, was: pa.DataType, becomes: pa.DataType) -> str | None:
        """Return why equal values of a source column may get other partition values in a wider type; None: they never do."""
        return None if hash_class(was) == hash_class(becomes) else f"{was} and {becomes} hash differently"

    def from_finer(self, finer: Rule) -> Callable[[pa.Array], pa.Array] | None:
        """Return a function from the values of another rule over the same columns to its own; None: there is none."""
        return None


class Transform(Rule, ABC):
    """A transform of the spec: what it computes, and by `Rule` what that prunes.

    `sources` are the types, `columns` the values, of its source columns. Its fields are the parameters in the JSON of a spec,
    in their order in PARTITIONED BY.
    """

    __slots__ = ()

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of its parameters, positive integers."""
        return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()

    @property
    def arguments(self) -> Mapping[str, int]:
        """The members beside `type` in the spec's JSON."""
        return {name: getattr(self, name) for name in self.parameters()}

    @classmethod
    def default_name(cls, columns: str) -> str:
        """Return the id of a field of these columns that is given no name."""
        return f"{columns}_{cls.type}"

    def over(self, sources: int) -> Transform:
        """Return the simplest transform that computes the same from so many columns."""
        return self

    def as_sql(self, columns: Sequence[str]) -> str:
        """Return a field of these columns as PARTITIONED BY says it."""
        return f"{self.type}({', '.join([*map(str, self.arguments.values()), *columns])})"

    @abstractmethod
    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        """Return what is wrong with applying this transform to columns of these types."""

    @abstractmethod
    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        """Return the Arrow type of the partition value."""

    @abstractmethod
    def expression(self, sources: Sequence[pa.DataType]) -> str:
        """Return the derived DataFusion expression; `col0`, `col1` … are the source columns."""

    @abstractmethod
    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the partition value of each row."""


def one_source(name: str, sources: Sequence[Any]) -> Iterator[str]:
    """Return what is wrong with so many sources for a transform of one."""
    if len(sources) != 1:
        yield f"{name} takes one source column, got {len(sources)}"


def numbers_of(column: pa.Array) -> np.ndarray:
    """Return the values of a numeric column, with 0 in place of NULL."""
    values: np.ndarray = pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    return values


def canonical_floats(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Return floats in the type and with the NULLs of `column`, with one zero and one NaN."""
    canonical = np.where(np.isnan(values), values.dtype.type(np.nan), np.where(values == 0, 0, values))
    return with_nulls_of(canonical.astype(values.dtype), column)


def with_nulls_of(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Return numbers in the type and with the NULLs of `column`."""
    return pa.array(values, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class Identity(Transform):
    """The source value, unmodified (floats: −0.0 counts as 0.0 and every NaN as one)."""

    type: ClassVar[str] = "identity"
    family: ClassVar[str] = "identity"
    keeps_value: ClassVar[bool] = True
    monotonic: ClassVar[bool] = True

    @classmethod
    def default_name(cls, columns: str) -> str:
        return columns

    def as_sql(self, columns: Sequence[str]) -> str:
        return columns[0]

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
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
            return canonical_floats(numbers_of(column), column)
        return column

    def image(self, domain: Domain, stored: pa.DataType) -> Domain | str | None:
        return domain

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        return common_type(kinds[0])

    def comparison_obstacle(self, sources: Sequence[pa.DataType], result_type: pa.DataType) -> str | None:
        kept = keeps(result_type, sources[0])
        return None if kept else f"its values are {result_type}, those of the column {sources[0]}"


MAX_WIDTH = 2**31 - 1

# Twice the digits of the widest decimal: its quotient by a width is exact.
_EXACT_DIGITS = 2 * 76


@dataclass(frozen=True, slots=True)
class Truncate(Transform):
    """The first `width` characters of a string, or a number cut toward zero to a multiple of `width`."""

    width: int
    type: ClassVar[str] = "truncate"
    monotonic: ClassVar[bool] = True
    family: ClassVar[str] = "truncate"
    contrast: ClassVar[str] = "their widths differ"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
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
        known = numbers_of(column)
        # In 64 bits, because the width may lie beyond the range of a narrow type.
        wide = known.astype({"i": np.int64, "u": np.uint64}.get(known.dtype.kind, known.dtype))
        with np.errstate(invalid="ignore", over="ignore"):  # an infinite value has no remainder: NaN
            cut = (wide - np.fmod(wide, wide.dtype.type(self.width))).astype(known.dtype)
        return canonical_floats(cut, column) if pa.types.is_floating(column.type) else with_nulls_of(cut, column)

    def _decimals(self, column: pa.Array) -> pa.Array:
        # Arrow groups neither of the small decimals.
        groupable = column.cast(pa.decimal256(column.type.precision, column.type.scale))
        encoded = groupable.dictionary_encode()
        with decimal.localcontext(prec=_EXACT_DIGITS):
            values = [None if v is None else v - v % self.width for v in encoded.dictionary.to_pylist()]
        return pa.array(values, column.type).take(encoded.indices)

    def image(self, domain: Domain, stored: pa.DataType) -> Domain | str | None:
        order = domain.order
        # A float was cut in the precision that the column had then.
        if order.is_float and stored != order.kind:
            return f"values that were cut as {stored} do not compare with {order.kind}"
        if domain.points:
            domain = replace(domain, low=min(domain.points), high=max(domain.points), open=False, points=None)
        if not order.integral:
            high = None if domain.high is None else domain.high[: self.width]
            whole = frozenset(key for key in domain.excluded if len(key) < self.width)
            low = domain.low[: self.width]
            return replace(
                domain, low=low, high=high, open=domain.open and high == domain.high, excluded=whole, parts={}
            )
        low, high = (self._float_ends if order.is_float else self._number_ends)(domain)
        whole = domain.excluded if self.width == 1 and pa.types.is_integer(order.kind) else frozenset()
        return replace(domain, low=low, high=high, excluded=whole, parts={})

    def _number_ends(self, domain: Domain) -> tuple[Key, Key]:
        step = int(self.width / domain.order.step)
        low, high = (abs(key) // step * step * (1 if key >= 0 else -1) for key in (domain.low, domain.high))
        return low, high

    def _float_ends(self, domain: Domain) -> tuple[Key, Key]:
        """Return the infinities have no remainder, so their partition is that of NaN."""
        order = domain.order
        infinity = order.infinity
        low = order.smallest if domain.low <= -infinity else self._apply(domain.low, domain)
        high = order.largest if domain.high >= infinity else self._apply(domain.high, domain)
        return low, high

    def _apply(self, key: Key, domain: Domain) -> Key:
        if abs(key) >= domain.order.infinity:
            return key
        return domain.order.keys(self.apply([domain.order.array([key])]))[0]

    def widening_obstacle(self, was: pa.DataType, becomes: pa.DataType) -> str | None:
        if types.is_floating(value_type(was)):
            return f"numbers that are cut as {was} are rounded otherwise than as {becomes}"
        return Transform.widening_obstacle(self, was, becomes)

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        (some,) = kinds
        if types.is_floating(value_type(some[0])) and len({value_type(kind) for kind in some}) > 1:
            return None  # what is cut off is rounded, by its width
        return common_type(some)

    def comparison_obstacle(self, sources: Sequence[pa.DataType], result_type: pa.DataType) -> str | None:
        kept = keeps(result_type, sources[0])
        return None if kept else f"its values are {result_type}, those of the column {sources[0]}"


def _sliceable(kind: pa.DataType) -> pa.DataType:
    return pa.utf8() if pa.types.is_string_view(kind) else kind


MAX_BUCKETS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Hashed(Transform):
    """`abs(hash) % num_buckets`."""

    num_buckets: int
    needs_values: ClassVar[bool] = True
    family: ClassVar[str] = "bucket"
    contrast: ClassVar[str] = "neither count divides the other"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        if not 1 <= self.num_buckets <= MAX_BUCKETS:
            yield f"num_buckets is {self.num_buckets}; expected 1 to {MAX_BUCKETS}"
        for source in sources:
            if hash_class(source) is None:
                yield f"{self.type} of a {source} column; expected a type that murmur3 is defined for"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int32()

    def from_finer(self, finer: Rule) -> Callable[[pa.Array], pa.Array] | None:
        if not isinstance(finer, _Hashed) or finer.num_buckets % self.num_buckets:
            return None
        return lambda values: bucket(values.cast(pa.int32()), self.num_buckets)


class Bucket(_Hashed):
    """`abs(murmur3(col0)) % N`."""

    type: ClassVar[str] = "bucket"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
        yield from _Hashed.problems(self, sources)

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"abs(murmur3(col0)) % {self.num_buckets}"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        return bucket(murmur3(columns[0]), self.num_buckets)


class MultiBucket(_Hashed):
    """`abs(murmur3_multi(col0, col1, …)) % N`; NULLs are left out of the hash."""

    type: ClassVar[str] = "multi_bucket"
    nulls: ClassVar[Nulls] = Nulls.OF_ALL_SOURCES

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        if not sources:
            yield f"{self.type} takes at least one source column"
        yield from _Hashed.problems(self, sources)

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        columns = ", ".join(f"col{i}" for i in range(len(sources)))
        return f"abs(murmur3_multi({columns})) % {self.num_buckets}"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        return bucket(murmur3_multi(columns), self.num_buckets)

    def over(self, sources: int) -> Transform:
        return Bucket(self.num_buckets) if sources == 1 else self  # the hash of one column is the same


HALF_WORD = 32
SECONDS_PER_DAY = 86_400
FIRST_DAY, LAST_DAY = -12_687_428, 11_248_737  # -32767-01-01 and 32767-12-31


@dataclass(frozen=True, slots=True)
class DatePartTransform(Transform):
    """One `date_part` of a date or timestamp, in the column's zone if it has one."""

    date_part: ClassVar[str]
    family: ClassVar[str] = "date part"
    takes_dates: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if cls.date_part not in DATE_PARTS:
            raise TypeError(f"{cls.__name__}: no function computes {cls.date_part!r}; expected one in DATE_PARTS")

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
        for source in sources:
            if not (pa.types.is_timestamp(source) or (pa.types.is_date(source) and self.takes_dates)):
                expected = "a date or timestamp" if self.takes_dates else "a timestamp"
                yield f"{self.type} of a {source} column; expected {expected}"
            elif zone_of(source) is None:
                yield _unknown_zone(self.type, source)

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int32()

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"date_part('{self.date_part}', col0)"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        if pa.types.is_null(column.type):
            return column.cast(pa.int32())
        if zone_of(column.type) is None:
            raise DataError(_unknown_zone(self.type, column.type))
        return DATE_PARTS[self.date_part](_in_calendar(in_zone(column))).cast(pa.int32())

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        # One instant has another local time in every zone.
        return pa.int64() if len({zone_of(kind) for kind in kinds[0]}) == 1 else None


class Year(DatePartTransform):
    """`date_part('year')`."""

    type: ClassVar[str] = "year"
    date_part: ClassVar[str] = "year"


class Month(DatePartTransform):
    """`date_part('month')`: 1–12, whatever the year."""

    type: ClassVar[str] = "month"
    date_part: ClassVar[str] = "month"


class Day(DatePartTransform):
    """`date_part('day')`: 1–31, whatever the month."""

    type: ClassVar[str] = "day"
    date_part: ClassVar[str] = "day"


class Hour(DatePartTransform):
    """`date_part('hour')`: 0–23, whatever the day."""

    type: ClassVar[str] = "hour"
    date_part: ClassVar[str] = "hour"
    takes_dates: ClassVar[bool] = False


def _unknown_zone(part: str, kind: pa.DataType) -> str:
    return (
        f"{part} of a {kind} column: DataFusion knows no zone {kind.tz!r}; expected a name of the tz database or an offset"
        " like +02:00"
    )


def _in_calendar(column: pa.Array) -> pa.Array:
    """Return dates and timestamps as they are; raise `DataError` for one beyond the years that Arrow's kernels count right."""
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


__all__ = [
    "TRANSFORMS",
    "Bucket",
    "Day",
    "Hour",
    "Identity",
    "Month",
    "MultiBucket",
    "Transform",
    "Truncate",
    "Year",
]

TRANSFORMS: Mapping[str, type[Any]] = MappingProxyType(
    {kind.type: kind for kind in (Identity, Year, Month, Day, Hour, Bucket, MultiBucket, Truncate)}
)
"""Every transform by its name in the JSON of a spec, in PARTITIONED BY and in messages."""
