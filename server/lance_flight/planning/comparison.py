"""A comparison with a literal, which is moved from a computed value to what it is computed from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types

from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.zones import TICKS
from lance_flight.planning.predicates import Column, Op, Predicate, all_of
from lance_flight.planning.scalar_expressions import ScalarCall, ScalarExpression


@dataclass(frozen=True, slots=True)
class ExpressionTypes:
    """The types of expressions over the columns of a schema."""

    schema: NamespaceSchema

    def of(self, expression: ScalarExpression) -> pa.DataType | None:
        """Return the type of a column, of a cast, or of what keeps the type of its argument; None for any other."""
        match expression:
            case Column():
                number = self.schema.source_ids.get(expression.path)
                return None if number is None else self.schema.sources[number].field.type
            case ScalarCall("date_trunc" | "date_bin", (_, moment, *_)):
                return self.of(moment)
            case ScalarCall("cast", _, kind):
                return _CAST_TYPES.get(kind)
            case ScalarCall("+" | "-", (one, other)):
                kinds = [each.type if isinstance(each, pa.Scalar) else self.of(each) for each in (one, other)]
                return kinds[0] if kinds[0] == kinds[1] else None
            case ScalarCall("negative", (inner,)):
                return self.of(inner)
        return None

    def is_lossless(self, cast: ScalarCall) -> bool:
        """Return whether comparing a cast value is comparing the value, as far as `model.ordering.locate` compares exactly."""
        inner, outer = self.of(cast.arguments[0]), self.of(cast)
        if inner is None or outer is None:
            return False
        if types.is_integer(inner):
            # A cast that does not fit is an error of the query.
            return bool(types.is_integer(outer) or types.is_floating(outer))
        if not types.is_timestamp(outer):
            return False
        if types.is_date32(inner):
            return outer.tz is None
        return bool(types.is_timestamp(inner)) and inner.tz == outer.tz and TICKS[inner.unit] <= TICKS[outer.unit]


_CAST_TYPES = {
    "Date32": pa.date32(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    **{f"Timestamp({unit.replace('u', 'µ')})": pa.timestamp(unit) for unit in TICKS},
}
"""Types of casts that are looked through, as DataFusion shows them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`… op value`; `invert` returns what it says of the columns of an expression in the place of the dots."""

    op: Op
    value: pa.Scalar
    kinds: ExpressionTypes
    invert: Callable[[ScalarExpression, Comparison], Predicate | None]

    def on(self, expression: ScalarExpression) -> Predicate | None:
        """Return what it says of the columns of an expression; None where that is not known."""
        return self.invert(expression, self)

    def by(self, op: Op, value: pa.Scalar | None = None) -> Comparison:
        """Return another comparison."""
        return replace(self, op=op, value=self.value if value is None else value)

    def all_on(self, expression: ScalarExpression, *sides: tuple[Op, pa.Scalar]) -> Predicate | None:
        """Return what several comparisons say together; None where one is not known."""
        found = [self.by(op, value).on(expression) for op, value in sides]
        known = [each for each in found if each is not None]
        return all_of(known) if len(known) == len(found) else None
