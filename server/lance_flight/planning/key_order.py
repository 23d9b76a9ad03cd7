"""Partition tables in the order of a column, for ORDER BY … LIMIT, which stops before it has read all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyarrow import DataType, types

from lance_flight.model.key_types import value_type
from lance_flight.model.zones import zone_of
from lance_flight.planning.calendar import UNITS
from lance_flight.planning.dimensions import Dimension, Side, Tables, common
from lance_flight.planning.grouping import Groups, NotCopartitioned, columns_of, grouped
from lance_flight.planning.join_reasons import why_apart, why_incomparable

__all__ = ["in_order"]


def in_order(side: Side, *, descending: bool, nulls_first: bool) -> Groups | NotCopartitioned:
    """Return the tables of a side in groups, every key in one of which is before every key in the next.

    The groups follow from the key's identity, from its year and what comes with it in the calendar (month, day, hour),
    or from its truncation: whatever all versions determine. NULL's group is the first or the last. Texts are in the
    order of their UTF-8 bytes. Floats are refused: NaN and the two zeros have no order that everybody shares.
    """
    if len(side.keys) != 1:
        return NotCopartitioned(f"an order of {side.name} by {len(side.keys)} keys; expected one")
    why = why_incomparable([side]) or _why_unordered(side)
    tables = Tables.of(side)
    if why is not None:
        return NotCopartitioned(why)
    if not tables:
        return Groups((), ())
    found = common(tables)
    if not found:
        return NotCopartitioned(why_apart(tables))
    run = _ascending([*found], side.key_type(0))
    if not run:
        shown = ", ".join(each.shown(side) for each in found)
        return NotCopartitioned(f"{shown} of {side.name} does not follow the order of {_name(side)}")
    columns, failures = columns_of({each: found[each] for each in run}, tables, None)
    if failures:
        return NotCopartitioned("; ".join(failures))
    groups = grouped([side], [tables], [*columns.values()], np.ones(sum(map(len, tables)), np.bool_))
    null = [group for group in groups if group.values[0] is None]
    known = [group for group in groups if group.values[0] is not None]
    known = known[::-1] if descending else known
    return Groups(tuple(each.shown(side) for each in columns), tuple(null + known if nulls_first else known + null))


def _ascending(found: Sequence[Dimension], kind: DataType) -> list[Dimension]:
    """Return the finest dimensions that, taken together, never fall while a key of this type rises."""
    same = [each for each in found if each.rule.keeps_value]
    if same:
        return same[:1]
    by_part = {each.rule.date_part: each for each in found}
    run = []
    zone = zone_of(kind)
    for part, seconds in UNITS.items():
        # Where clocks are set back from one day, or hour, to the one before, its rows lie on both sides of the other's.
        if part not in by_part or zone is None or not zone.keeps_order(seconds):
            break
        run.append(by_part[part])
    return run or [each for each in found if each.rule.monotonic][:1]


def _why_unordered(side: Side) -> str | None:
    kind = side.key_type(0)
    if types.is_floating(value_type(kind)):
        return f"{_name(side)} of {side.name} is {kind}: NaN has no one place in its order"
    return None


def _name(side: Side) -> str:
    name: str = side.schema.paths[side.keys[0]][0]
    return name
