"""A partition field's share of a conjunction: which of its distinct values a matching row may have.

One rule for each transform whose values follow the order of the source; what hashes or computes is handled by
listing the source's values (`enumeration`), the date parts together (`calendar`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from lance_flight.model.domains import Domain, Mask
from lance_flight.model.ordering import Key
from lance_flight.model.spec import PartitionField
from lance_flight.model.transforms import Identity, Truncate


def accepted(field: PartitionField, values: pa.Array, domain: Domain) -> Mask | None:
    """A flag for each of a field's distinct values (none NULL); None where the order of the source says nothing."""
    rule = RULES.get(type(field.rule))
    if rule is None:
        return None
    try:
        values = values.cast(domain.order.kind)
    except pa.ArrowInvalid:
        return None
    return rule(field, values, domain)


def _identity(field: PartitionField, values: pa.Array, domain: Domain) -> Mask | None:
    return domain.accepts(values)


def _truncate(field: PartitionField, values: pa.Array, domain: Domain) -> Mask | None:
    if not isinstance(field.rule, Truncate):
        return None
    # A float was cut in the precision that the column had then.
    if domain.order.is_float and field.result_type != domain.order.kind:
        return None
    return cut(domain, field.rule).accepts(values)


RULES: Mapping[type, Callable[[PartitionField, pa.Array, Domain], Mask | None]] = MappingProxyType(
    {Identity: _identity, Truncate: _truncate}
)


def cut(domain: Domain, rule: Truncate) -> Domain:
    """The truncated values of a domain: truncation never reverses an order."""
    order = domain.order
    if domain.points:
        domain = replace(domain, low=min(domain.points), high=max(domain.points), open=False, points=None)
    if not order.integral:
        high = None if domain.high is None else domain.high[: rule.width]
        whole = frozenset(key for key in domain.excluded if len(key) < rule.width)
        low = domain.low[: rule.width]
        return replace(domain, low=low, high=high, open=domain.open and high == domain.high, excluded=whole, parts={})
    ends = (_cut_float if order.is_float else _cut_number)(domain, rule)
    whole = domain.excluded if rule.width == 1 and pa.types.is_integer(order.kind) else frozenset()
    return replace(domain, low=ends[0], high=ends[1], excluded=whole, parts={})


def _cut_number(domain: Domain, rule: Truncate) -> tuple[Key, Key]:
    step = int(rule.width / domain.order.step)
    low, high = (abs(key) // step * step * (1 if key >= 0 else -1) for key in (domain.low, domain.high))
    return low, high


def _cut_float(domain: Domain, rule: Truncate) -> tuple[Key, Key]:
    """The infinities have no remainder, so their partition is that of NaN."""
    order = domain.order
    infinity = order.infinity
    low = order.smallest if domain.low <= -infinity else _applied(domain.low, domain, rule)
    high = order.largest if domain.high >= infinity else _applied(domain.high, domain, rule)
    return low, high


def _applied(key: Key, domain: Domain, rule: Truncate) -> Key:
    if abs(key) >= domain.order.infinity:
        return key
    return domain.order.keys(rule.apply([domain.order.array([key])]))[0]
