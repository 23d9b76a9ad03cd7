"""Domains: the set of values that a conjunction leaves to one column of a matching row, as keys in the order of the values.

Keys are integers or texts whose order is the order in which DataFusion compares the values. Numbers, dates and times become integers, so that `x < 10` is `x <= 9` in every one of these types, floats included:
their keys count representable values, from the negative NaNs over −∞, one zero, and ∞ to the positive NaNs, which
is the total order DataFusion 55 compares by (0.0 = −0.0, NaN = NaN, NaN > ∞).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.model.zones import in_zone

Key: TypeAlias = Any
"""`int`, `str` or `bytes`; one of them for all values of one column."""

_SECONDS_PER_DAY = 86_400
_INFINITY = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Located(NamedTuple):
    """Position of a literal: the key of the greatest value not above it, and whether it is that value."""

    key: Key
    exact: bool


class Amount(NamedTuple):
    """A literal as an exact number of something; amounts of one dimension compare."""

    dimension: str
    value: Any


@dataclass(frozen=True, slots=True)
class Ordering:
    """The keys of one Arrow type.

    `step` is what one key counts in `dimension`; `integral` keys have a predecessor, `smallest` and `largest` bound
    them. `bits` is the Arrow integer type that holds the keys unchanged, where there is one.
    """

    kind: pa.DataType
    dimension: str
    step: Fraction
    smallest: Key
    largest: Key
    bits: pa.DataType | None = None

    @property
    def integral(self) -> bool:
        """True if every key but the smallest has one just before it."""
        return self.largest is not None

    @property
    def is_float(self) -> bool:
        """True if several values (two zeros, many NaNs) stand for one partition value."""
        return bool(types.is_floating(self.kind))

    @property
    def infinity(self) -> int:
        """The key of ∞, for floats; the one after it is that of every positive NaN."""
        return _INFINITY[self.kind.bit_width]

    def keys(self, values: pa.Array) -> list[Key]:
        """Return the key of each value; none may be NULL."""
        if self.bits is not None:
            return self.numbers(values).tolist()  # type: ignore[no-any-return]
        if types.is_decimal(self.kind):
            return [_unscale(value, self.kind.scale) for value in values.to_pylist()]
        return values.to_pylist()  # type: ignore[no-any-return]

    def numbers(self, values: pa.Array) -> npt.NDArray[Any]:
        """Return the keys as a NumPy array, for types with `bits`."""
        whole = values.cast(self.bits) if types.is_boolean(values.type) else values.view(self.bits)
        plain: npt.NDArray[Any] = whole.to_numpy()
        if not self.is_float:
            return plain
        magnitude = np.minimum(plain & np.iinfo(plain.dtype).max, self.largest)
        signed: npt.NDArray[Any] = np.where(plain < 0, -magnitude, magnitude)
        return signed

    def array(self, keys: Sequence[Key]) -> pa.Array:
        """Return the values of `keys`, as an array of `kind`."""
        if types.is_boolean(self.kind):
            return pa.array([key == 1 for key in keys], self.kind)
        if types.is_decimal(self.kind):
            scale = self.kind.scale
            return pa.array([_scale(key, scale) for key in keys], self.kind)
        if self.bits is None:
            return pa.array(keys, self.kind)
        if self.is_float:
            sign = -(2 ** (self.kind.bit_width - 1))
            keys = [key if key >= 0 else sign - key for key in keys]
        return pa.array(keys, self.bits).view(self.kind)

    def floor(self, value: Fraction) -> Located:
        """Return where an amount of `dimension` lies."""
        if not self.is_float:
            keys, rest = divmod(value, self.step)
            return Located(int(keys), rest == 0)
        key = self._nearest(value)
        while self._number(key) > value:
            key -= 1
        while self._number(key + 1) <= value:
            key += 1
        return Located(key, self._number(key) == value)

    def _nearest(self, value: Fraction) -> int:
        limit = Fraction(np.finfo(self.kind.to_pandas_dtype()).max.item())
        nearest = float(min(max(value, -limit), limit))
        return self.keys(pa.array([nearest], pa.float64()).cast(self.kind, safe=False))[0]  # type: ignore[no-any-return]

    def _number(self, key: int) -> Fraction | float:
        number = self.array([key])[0].as_py()
        return Fraction(number) if isfinite(number) else float(number)


def _unscale(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -number if sign else number


def _scale(key: int, scale: int) -> Decimal:
    return Decimal((int(key < 0), tuple(map(int, str(abs(key)))), -scale))


def ordering(kind: pa.DataType) -> Ordering | None:
    """Return the ordering of a column's type, of a dictionary that of its values.

    None for nested types and durations.
    """
    plain = kind.value_type if types.is_dictionary(kind) else kind
    for test, make in _ORDERINGS:
        if test(plain):
            return make(plain)
    return None


def integers(kind: pa.DataType) -> Ordering:
    """Return the ordering of an integer type."""
    signed = types.is_signed_integer(kind)
    smallest, largest = (
        (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
    )
    return Ordering(kind, "number", Fraction(1), smallest, largest, kind)


def _floats(kind: pa.DataType) -> Ordering:
    bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
    nan = _INFINITY[kind.bit_width] + 1
    return Ordering(kind, "number", Fraction(1), -nan, nan, bits)


def _decimals(kind: pa.DataType) -> Ordering:
    largest = 10**kind.precision - 1
    return Ordering(kind, "number", Fraction(10) ** -kind.scale, -largest, largest)


def _times(kind: pa.DataType) -> Ordering:
    bits = pa.int32() if types.is_date32(kind) or types.is_time32(kind) else pa.int64()
    half = 2 ** (kind.bit_width - 1)
    return Ordering(kind, _time_dimension(kind), _tick(kind), -half, half - 1, bits)


def _tick(kind: pa.DataType) -> Fraction:
    """Return the seconds from one value to the next."""
    if types.is_date(kind):
        return Fraction(_SECONDS_PER_DAY) if types.is_date32(kind) else Fraction(1, 1_000)
    return Fraction(1, _TICKS[kind.unit])


def _time_dimension(kind: pa.DataType) -> str:
    if types.is_time(kind):
        return "time of day"
    return "instant" if types.is_timestamp(kind) and kind.tz is not None else "local time"


def _texts(kind: pa.DataType) -> Ordering:
    return Ordering(kind, "text", Fraction(1), "", None)


def _binaries(kind: pa.DataType) -> Ordering:
    return Ordering(kind, "binary", Fraction(1), b"", None)


def _booleans(kind: pa.DataType) -> Ordering:
    return Ordering(kind, "boolean", Fraction(1), 0, 1, pa.uint8())


_Test: TypeAlias = Callable[[pa.DataType], bool]


def _any(*tests: _Test) -> _Test:
    return lambda kind: any(test(kind) for test in tests)


_is_text = _any(types.is_string, types.is_large_string, types.is_string_view)
_is_binary = _any(types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
_is_time = _any(types.is_date, types.is_time, types.is_timestamp)

_ORDERINGS: tuple[tuple[_Test, Callable[[pa.DataType], Ordering]], ...] = (
    (types.is_boolean, _booleans),
    (types.is_integer, integers),
    (types.is_floating, _floats),
    (types.is_decimal, _decimals),
    (_is_time, _times),
    (_is_text, _texts),
    (_is_binary, _binaries),
)


def locate(value: pa.Scalar, order: Ordering) -> Located | None:
    """Return where a literal lies among a column's values; None where DataFusion's comparison might not be exact."""
    if order.is_float and types.is_floating(value.type) and not isfinite(value.as_py()):
        return Located(_special(value, order), exact=True)
    amount = _amount(_parse_text(value, order.kind))
    if amount is None or amount.dimension != order.dimension:
        return None
    if not isinstance(amount.value, Fraction):
        return Located(amount.value, exact=True)
    place = order.floor(amount.value)
    return place if _compares_exactly(value, place, order) else None


def _special(value: pa.Scalar, order: Ordering) -> int:
    """Return the key of ±∞ or of a NaN of either sign."""
    number = value.as_py()
    key = order.infinity + (number not in (np.inf, -np.inf))
    return -key if np.signbit(number) else key


def _compares_exactly(value: pa.Scalar, located: Located, order: Ordering) -> bool:
    """Return whether the engine's coercion to a common type loses nothing for this literal."""
    literal, column = value.type, order.kind
    if types.is_floating(column):
        return located.exact or bool(types.is_floating(literal))
    if types.is_floating(literal):
        # An integer column is compared as floats: exact below the literal type's largest run of integers.
        mantissa = {16: 11, 32: 24, 64: 53}[literal.bit_width]
        return bool(types.is_integer(column)) and abs(located.key) < 2**mantissa - 1
    return True


def _parse_text(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """Return a text compared with a date or a timestamp without zone, as such; anything else unchanged."""
    if not (_is_text(value.type) and (types.is_date32(kind) or (types.is_timestamp(kind) and kind.tz is None))):
        return value
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        return value


def _amount(value: pa.Scalar) -> Amount | None:
    kind = value.type
    if types.is_boolean(kind):
        return Amount("boolean", Fraction(int(value.as_py())))
    if types.is_integer(kind) or types.is_decimal(kind):
        return Amount("number", Fraction(value.as_py()))
    if types.is_floating(kind):
        number = value.as_py()
        return Amount("number", Fraction(number)) if isfinite(number) else None
    if _is_time(kind):
        return Amount(_time_dimension(kind), value.value * _tick(kind))
    if _is_text(kind):
        return Amount("text", value.as_py())
    return Amount("binary", value.as_py()) if _is_binary(kind) else None


Mask: TypeAlias = npt.NDArray[np.bool_]

MAX_RANGE_POINTS = 4_096
"""A range of integers, dates … is taken as that many single values at most."""

DATE_PARTS = MappingProxyType(
    {
        "year": pc.year,
        "month": pc.month,
        "day": pc.day,
        "hour": pc.hour,
        "minute": pc.minute,
        "second": pc.second,
    }
)
"""The parts whose DataFusion value is Arrow's; of a date only those down to the day."""

PART_ORDER = integers(pa.int32())


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The values a row may have in one column: NULL or not, and a set of keys of `order`.

    A key is in the set when it lies from `low` to `high` (without `high` where `open`; None is no upper end), is one
    of `points` (unless None) and none of `excluded`, and its date parts are in `parts`.
    """

    order: Ordering
    nulls: bool = True
    low: Key
    high: Key
    open: bool = False
    points: frozenset[Key] | None = None
    excluded: frozenset[Key] = frozenset()
    parts: Mapping[str, Domain] = field(default_factory=dict)

    @classmethod
    def everything(cls, order: Ordering) -> Domain:
        """Return the domain without a constraint."""
        return cls(order=order, low=order.smallest, high=order.largest)

    @classmethod
    def nothing(cls, order: Ordering, *, nulls: bool) -> Domain:
        """Return the domain without a value; NULL at most."""
        return replace(cls.everything(order), nulls=nulls, points=frozenset())

    def meet(self, other: Domain) -> Domain:
        """Return the values in both."""
        low = max(self.low, other.low)
        lower = min(self, other, key=Domain._upper_rank)
        excluded = self.excluded | other.excluded
        points = _both(self.points, other.points)
        names = self.parts.keys() | other.parts.keys()
        parts = {name: _part(self, name).meet(_part(other, name)) for name in names}
        met = Domain(
            order=self.order,
            nulls=self.nulls and other.nulls,
            low=low,
            high=lower.high,
            open=lower.open,
            excluded=excluded,
            parts=parts,
        )
        if points is None:
            return met
        return replace(met, points=frozenset(key for key in points if met.spans(key) and key not in excluded))

    def _upper_rank(self) -> tuple[bool, Key, bool]:
        """Return the sort key of upper ends: an open one before the same one closed, none at all last."""
        return self.high is None, self.order.smallest if self.high is None else self.high, not self.open

    def spans(self, key: Key) -> bool:
        """Return whether `key` lies in the interval; the other constraints aside."""
        return bool(self.low <= key and (self.high is None or (key < self.high if self.open else key <= self.high)))

    def tighten(self) -> Domain:
        """Return the same set with both ends of the interval in it."""
        low, high = self.low, self.high
        if self.order.integral:
            while low in self.excluded:
                low += 1
            while high in self.excluded:
                high -= 1
        return replace(self, low=low, high=high)

    @property
    def trimmed(self) -> bool:
        """True if an excluded value was an end of the interval before `tighten`."""
        return any(not self.spans(key) for key in self.excluded)

    @property
    def valueless(self) -> bool:
        """True if no value is left (NULL may be)."""
        if any(part.valueless for part in self.parts.values()):
            return True
        return not (self.spans(self.low) if self.points is None else self.points)

    @property
    def ranged(self) -> bool:
        """True if the interval excludes any value."""
        return bool(self.low != self.order.smallest or self.high != self.order.largest)

    @property
    def constrained(self) -> bool:
        """True if any value, or NULL, is excluded."""
        return not self.nulls or self.ranged or self.points is not None or bool(self.excluded or self.parts)

    def finite(self) -> list[Key] | None:
        """Return every value, ascending, where they are few enough to list."""
        keys = self._list_values()
        if keys is None or not self.parts or not keys:
            return keys
        values = self.order.array(keys)
        keep = self._parts_of(values)
        return [key for key, kept in zip(keys, keep.tolist(), strict=True) if kept]

    def _list_values(self) -> list[Key] | None:
        if self.valueless:
            return []
        if self.points is not None:
            return sorted(self.points)
        if not self.order.integral or self.high - self.low >= MAX_RANGE_POINTS:
            return None
        return [key for key in range(self.low, self.high + 1) if key not in self.excluded]

    def accepts(self, values: pa.Array) -> Mask:
        """Return which of `values` (of the column's type, no NULL) are in the set."""
        if self.valueless:
            return np.zeros(len(values), np.bool_)
        inside = self._numbers(values) if self.order.bits is not None else self._texts(plain(values))
        if self.parts:
            inside &= self._parts_of(values)
        return inside

    def _parts_of(self, values: pa.Array) -> Mask:
        inside = np.ones(len(values), np.bool_)
        for name, part in self.parts.items():
            inside &= part.accepts(date_part(name, values))
        return inside

    def _numbers(self, values: pa.Array) -> Mask:
        numbers = self.order.numbers(values)
        if self.points is not None:
            inside = _among(numbers, self.points)
        else:
            inside = (numbers >= self.low) & (numbers <= self.high)
            if self.excluded:
                inside &= ~_among(numbers, self.excluded)
        if self.order.is_float:
            # One partition value stands for the NaNs of both signs, which lie at both ends of the order.
            inside[np.isnan(values.to_numpy())] = self.holds_nan
        return inside

    @property
    def holds_nan(self) -> bool:
        """True if some NaN may be in the set."""
        infinity = self.order.infinity
        if self.points is not None:
            return any(abs(key) > infinity for key in self.points)
        return not self.valueless and bool(self.low < -infinity or self.high > infinity)

    def _texts(self, values: pa.Array) -> Mask:
        if self.points is not None:
            return _mask(pc.is_in(values, value_set=plain(self.order.array(sorted(self.points)))))
        inside = _mask(pc.greater_equal(values, self._scalar(self.low, values.type)))
        if self.high is not None:
            below = pc.less if self.open else pc.less_equal
            inside &= _mask(below(values, self._scalar(self.high, values.type)))
        if self.excluded:
            inside &= ~_mask(pc.is_in(values, value_set=plain(self.order.array(sorted(self.excluded)))))
        return inside

    def _scalar(self, key: Key, kind: pa.DataType) -> pa.Scalar:
        if kind == pa.binary():
            return pa.scalar(key, kind)
        return plain(self.order.array([key]))[0]


def _both(left: frozenset[Key] | None, right: frozenset[Key] | None) -> frozenset[Key] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _part(domain: Domain, name: str) -> Domain:
    return domain.parts.get(name) or Domain.everything(PART_ORDER)


def _among(numbers: npt.NDArray[Any], keys: frozenset[Key]) -> Mask:
    if len(keys) == 1:
        (key,) = keys
        same: Mask = numbers == key
        return same
    return _mask(pc.is_in(pa.array(numbers), value_set=pa.array(np.array(sorted(keys), numbers.dtype))))


def _mask(values: pa.Array) -> Mask:
    # A copy, because Arrow's buffers are read-only.
    return np.array(values.to_numpy(zero_copy_only=False), np.bool_)


def plain(values: pa.Array) -> pa.Array:
    """Return `values` as Arrow's comparison and set kernels accept them.

    In the same order, with one zero and one NaN.
    """
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.string())
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_floating(kind):
        wide = values.cast(pa.float64()) if pa.types.is_float16(kind) else values
        zero, nan = (pa.scalar(number, wide.type) for number in (0.0, np.nan))
        # Adding 0.0 turns −0.0 into 0.0; Arrow's sets tell NaNs apart by their bits.
        return pc.if_else(pc.is_nan(wide), nan, pc.add(wide, zero))
    return values


def date_part(name: str, values: pa.Array) -> pa.Array:
    """Return `date_part` of dates or timestamps, in their zone if they have one, as int32."""
    return DATE_PARTS[name](in_zone(values)).cast(pa.int32())
