"""Matching of partition tables of scans that are joined, group by group, or the reasons why not; and tables in the order of a column.

Spec: Storage Partitioned Join, Appendix F. Rows whose keys are equal always lie in tables of one group; where that
cannot be had, the reason is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from math import prod

import numpy as np
import pyarrow as pa
from pyarrow import DataType, types

from lance_flight.errors import LanceFlightError
from lance_flight.model.domains import Mask
from lance_flight.model.key_types import common_type, value_type
from lance_flight.model.spec import Evaluate, Expression
from lance_flight.model.transforms.transform import Nulls
from lance_flight.model.zones import zone_of
from lance_flight.planning.calendar import UNITS
from lance_flight.planning.dimensions import (
    Column,
    Dimension,
    Group,
    Groups,
    NotCopartitioned,
    Side,
    Tables,
    columns_of,
    common,
    group_tables,
    obstacle,
)
from lance_flight.planning.reasons import describe

MAX_REASONS = 4


def why_incomparable(sides: Sequence[Side]) -> str | None:
    """Return why the keys of these sides cannot be compared; None: they can."""
    if not all(side.keys for side in sides):
        return "there are no keys"
    for side in sides:
        removed = [number for number in side.keys if side.schema.column(number) is None]
        if removed:
            return f"{side.name} has no column with the id {removed[0]}"
    for place in range(len(sides[0].keys)):
        for side in sides:
            if common_type([side.key_type(place)]) is None:
                return f"{_key(side, place)}, which is not compared"
        for one, other in combinations(sides, 2):
            if common_type([one.key_type(place), other.key_type(place)]) is None:
                return f"{_key(one, place)} and {_key(other, place)}: these are not compared without loss"
    return None


def why_apart(tables: Sequence[Tables]) -> str:
    """Return why these tables determine nothing in common."""
    bare = [side for side in tables if not side.fields]
    reasons = map(_without_fields, bare) if bare else _differences(tables)
    return "; ".join(islice(reasons, MAX_REASONS))


def _without_fields(tables: Tables) -> str:
    side = tables.side
    names = side.schema.source_names
    keys = ", ".join(dict.fromkeys(names[number] for number in side.keys))
    near = [field for field in tables.version.spec.fields if set(field.source_ids) & set(side.keys)]
    notes = [
        f"{describe(field, names)}: {obstacle(field, side) or 'the parts of the date do not say it'}" for field in near
    ]
    return f"{tables.label} has no partition field of {keys} alone" + "".join(f" ({note})" for note in notes[:1])


def _differences(tables: Sequence[Tables]) -> Iterator[str]:
    alone = True
    for one, other in combinations(tables, 2):
        if not common([one, other]):
            alone = False
            yield _difference(one, other)
    for dimension in dict.fromkeys(own for some in tables for own in some.fields) if alone else ():
        having, missing = ([some for some in tables if some.determines(dimension) is has] for has in (True, False))
        if missing:
            yield f"{missing[0].label} does not determine {_of(dimension, having[0])}"


def _difference(one: Tables, other: Tables) -> str:
    """Return why no field of one says what a field of the other does."""
    pairs = [(a, b) for a in one.fields for b in other.fields]
    a, b = min(pairs, key=lambda pair: _distance(*pair))
    return f"{_of(a, one)} and {_of(b, other)}: {_contrast(a, b)}"


def _distance(a: Dimension, b: Dimension) -> tuple[bool, bool, bool]:
    """Return how far from one another two fields are, for the pair that is worth a word."""
    return not set(a.places) & set(b.places), a.rule.family != b.rule.family, a.places != b.places


def _contrast(a: Dimension, b: Dimension) -> str:
    if not set(a.places) & set(b.places):
        return "these are of different keys"
    if a == b:
        return f"their columns are of different {'types' if a.rule.date_part is None else 'zones'}"
    if a.rule.family != b.rule.family:
        return "neither determines the other"
    if a.rule.date_part in UNITS and b.rule.date_part in UNITS:
        coarse, fine = sorted((a.rule, b.rule), key=lambda rule: [*UNITS].index(str(rule.date_part)))
        return f"{fine.type} alone does not determine a {coarse.type}"
    if a.places != b.places:
        return "their keys stand in another order" if set(a.places) == set(b.places) else "neither determines the other"
    return a.rule.contrast


def _of(dimension: Dimension, tables: Tables) -> str:
    return f"{dimension.show(tables.side)} of {tables.label}"


def _key(side: Side, place: int) -> str:
    return f"{side.schema.paths[side.keys[place]][0]} of {side.name} is {side.key_type(place)}"


__all__ = ["Group", "Groups", "NotCopartitioned", "Side", "in_order", "match"]

MAX_PAIRS = 16
"""So many combinations of one version of each side are matched on their own."""


def match(sides: Sequence[Side], evaluate: Evaluate | None, *, inner: bool) -> Groups | NotCopartitioned:
    """Return the groups of the tables of all sides: any two rows of different sides with equal keys are in one.

    Every table is in exactly one group; these are sorted by their values, NULL last. For one side alone, rows with
    equal keys are in one group. Keys that cannot be compared without loss are left out.

    With `inner` (all joins are inner, and by `=`) groups that no row can come of are left out: those without a table of
    each side, and those of keys that are NULL. Where the versions of a side have nothing in common, inner joins are
    also matched version by version: then `by` names the dimensions of each combination, whose groups follow one
    another, and a table is in groups of several.
    """
    comparable = _comparable(sides)
    if isinstance(comparable, NotCopartitioned):
        return comparable
    sides = comparable
    tables = [Tables.of(side) for side in sides]
    if not any(tables) or (inner and not all(tables)):
        return Groups((), ())
    groups = _match_groups(sides, tables, evaluate, inner=inner)
    if isinstance(groups, Groups) or not inner or len(sides) == 1 or all(len(some) == 1 for some in tables):
        return groups
    if prod(map(len, tables)) > MAX_PAIRS:
        return NotCopartitioned(f"{groups.why}; and their versions make more than {MAX_PAIRS} combinations")
    return _by_version(sides, tables, evaluate)


def _comparable(sides: Sequence[Side]) -> Sequence[Side] | NotCopartitioned:
    """Return the sides with the comparable ones of their keys.

    The remaining keys say nothing of where equal ones lie.
    """
    places = range(len(sides[0].keys))
    whys = [why_incomparable([side.with_keys([place]) for side in sides]) for place in places]
    usable = [place for place in places if whys[place] is None]
    if not usable:
        return NotCopartitioned("; ".join(dict.fromkeys(filter(None, whys))) or "there are no keys")
    return [side.with_keys(usable) for side in sides]


def _by_version(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], evaluate: Evaluate | None
) -> Groups | NotCopartitioned:
    by: list[str] = []
    groups: list[Group] = []
    for some in product(*tables):
        matched = _match_groups(sides, [[side] for side in some], evaluate, inner=True)
        if isinstance(matched, NotCopartitioned):
            return matched
        by.append(f"{' with '.join(side.label for side in some)}: {', '.join(matched.by)}")
        groups += matched.groups
    return Groups(tuple(by), tuple(groups))


def _match_groups(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], evaluate: Evaluate | None, *, inner: bool
) -> Groups | NotCopartitioned:
    every = [side for some in tables for side in some]
    dimensions = common(every)
    unsure = {
        dimension: why for dimension in dimensions if (why := _why_unsure(dimension, sides[0], evaluate)) is not None
    }
    sure = {dimension: kind for dimension, kind in dimensions.items() if dimension not in unsure}
    columns, failures = columns_of(sure, every, evaluate)
    failures = [*failures, *unsure.values()]
    if not columns:
        return NotCopartitioned("; ".join(failures) or why_apart(every))
    groups = group_tables(sides, tables, [*columns.values()], _matchable(columns, inner=inner))
    if inner:
        groups = [group for group in groups if all(any(map(len, versions)) for versions in group.rows)]
    return Groups(tuple(dimension.show(sides[0]) for dimension in columns), tuple(groups))


def _why_unsure(dimension: Dimension, side: Side, evaluate: Evaluate | None) -> str | None:
    """Return why equal keys may have different values of an expression: not deterministic, or unknown here."""
    if evaluate is None or not isinstance(dimension.rule, Expression):
        return None
    field = dimension.on(side)
    try:
        evaluate(
            dimension.rule.sql, [pa.nulls(0, side.key_type(place)) for place in dimension.places], field.result_type
        )
    except (LanceFlightError, pa.ArrowException) as exc:
        return f"{dimension.show(side)} of {side.name} cannot be computed: {exc}"
    return None


def _matchable(columns: Mapping[Dimension, Column], *, inner: bool) -> Mask:
    """Return the tables with a row that may find another.

    A transform gives NULL for NULL alone, an expression for anything.
    """
    taken = np.ones(len(next(iter(columns.values())).ranks), np.bool_)
    for dimension, column in columns.items():
        if inner and dimension.rule.nulls is not Nulls.UNKNOWN:
            taken &= ~column.null
    return taken


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
    dimensions = common(tables)
    if not dimensions:
        return NotCopartitioned(why_apart(tables))
    run = _ascending([*dimensions], side.key_type(0))
    if not run:
        shown = ", ".join(dimension.show(side) for dimension in dimensions)
        return NotCopartitioned(f"{shown} of {side.name} does not follow the order of {_name(side)}")
    columns, failures = columns_of({dimension: dimensions[dimension] for dimension in run}, tables, None)
    if failures:
        return NotCopartitioned("; ".join(failures))
    groups = group_tables([side], [tables], [*columns.values()], np.ones(sum(map(len, tables)), np.bool_))
    null = [group for group in groups if group.values[0] is None]
    known = [group for group in groups if group.values[0] is not None]
    known = known[::-1] if descending else known
    return Groups(
        tuple(dimension.show(side) for dimension in columns), tuple(null + known if nulls_first else known + null)
    )


def _ascending(dimensions: Sequence[Dimension], kind: DataType) -> list[Dimension]:
    """Return the finest dimensions that, taken together, never fall while a key of this type rises."""
    same = [dimension for dimension in dimensions if dimension.rule.keeps_value]
    if same:
        return same[:1]
    by_part = {dimension.rule.date_part: dimension for dimension in dimensions}
    run = []
    zone = zone_of(kind)
    for part, seconds in UNITS.items():
        # Where clocks are set back from one day, or hour, to the one before, its rows lie on both sides of the other's.
        if part not in by_part or zone is None or not zone.keeps_order(seconds):
            break
        run.append(by_part[part])
    return run or [dimension for dimension in dimensions if dimension.rule.monotonic][:1]


def _why_unordered(side: Side) -> str | None:
    kind = side.key_type(0)
    if types.is_floating(value_type(kind)):
        return f"{_name(side)} of {side.name} is {kind}: NaN has no one place in its order"
    return None


def _name(side: Side) -> str:
    name: str = side.schema.paths[side.keys[0]][0]
    return name
