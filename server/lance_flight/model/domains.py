"""Domains: the set of values that a conjunction leaves to one column of a matching row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.model.ordering import Key, Ordering, integers
from lance_flight.model.zones import in_zone

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
