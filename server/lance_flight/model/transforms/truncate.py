"""`truncate`: it never reverses the order of its column, so that it prunes by ranges."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.model.arrow_types import is_number, is_string
from lance_flight.model.domains import Domain
from lance_flight.model.key_types import common_type, keeps, value_type
from lance_flight.model.ordering import Key
from lance_flight.model.transforms.transform import Transform, canonical_floats, numbers_of, one_source, with_nulls_of

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
