"""Reasons that the tables of several scans have no dimension in common, a sentence for each pair that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice

from lance_flight.model.key_types import common_type
from lance_flight.planning.calendar import UNITS
from lance_flight.planning.dimensions import Dimension, Side, Tables, common, obstacle
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
    bare = [each for each in tables if not each.fields]
    reasons = map(_without_fields, bare) if bare else _differences(tables)
    return "; ".join(islice(reasons, MAX_REASONS))


def _without_fields(tables: Tables) -> str:
    side = tables.side
    names = side.schema.source_names
    keys = ", ".join(dict.fromkeys(names[number] for number in side.keys))
    near = [each for each in tables.version.spec.fields if set(each.source_ids) & set(side.keys)]
    notes = [
        f"{describe(each, names)}: {obstacle(each, side) or 'the parts of the date do not say it'}" for each in near
    ]
    return f"{tables.label} has no partition field of {keys} alone" + "".join(f" ({note})" for note in notes[:1])


def _differences(tables: Sequence[Tables]) -> Iterator[str]:
    alone = True
    for one, other in combinations(tables, 2):
        if not common([one, other]):
            alone = False
            yield _difference(one, other)
    for each in dict.fromkeys(own for some in tables for own in some.fields) if alone else ():
        having, missing = ([some for some in tables if some.determines(each) is has] for has in (True, False))
        if missing:
            yield f"{missing[0].label} does not determine {_of(each, having[0])}"


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


def _of(each: Dimension, tables: Tables) -> str:
    return f"{each.shown(tables.side)} of {tables.label}"


def _key(side: Side, place: int) -> str:
    return f"{side.schema.paths[side.keys[place]][0]} of {side.name} is {side.key_type(place)}"
