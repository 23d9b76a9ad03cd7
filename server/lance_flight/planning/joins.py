"""Matching of the partition tables of several scans that are joined with one another, group by group.

Spec: Storage Partitioned Join, Appendix F. Rows whose keys are equal always lie in tables of one group; where that
cannot be had, the reason is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from lance_flight.errors import LanceFlightError
from lance_flight.model.domains import Mask
from lance_flight.model.spec import Evaluate, Expression
from lance_flight.model.transforms.transform import Nulls
from lance_flight.planning.dimensions import Dimension, Side, Tables, common
from lance_flight.planning.grouping import Column, Group, Groups, NotCopartitioned, columns_of, grouped
from lance_flight.planning.join_reasons import why_apart, why_incomparable

__all__ = ["Group", "Groups", "NotCopartitioned", "Side", "match"]

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
    found = _matched(sides, tables, evaluate, inner=inner)
    if isinstance(found, Groups) or not inner or len(sides) == 1 or all(len(some) == 1 for some in tables):
        return found
    if prod(map(len, tables)) > MAX_PAIRS:
        return NotCopartitioned(f"{found.why}; and their versions make more than {MAX_PAIRS} combinations")
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
        found = _matched(sides, [[each] for each in some], evaluate, inner=True)
        if isinstance(found, NotCopartitioned):
            return found
        by.append(f"{' with '.join(each.label for each in some)}: {', '.join(found.by)}")
        groups += found.groups
    return Groups(tuple(by), tuple(groups))


def _matched(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], evaluate: Evaluate | None, *, inner: bool
) -> Groups | NotCopartitioned:
    every = [each for some in tables for each in some]
    found = common(every)
    unsure = {each: why for each in found if (why := _why_unsure(each, sides[0], evaluate)) is not None}
    sure = {each: kind for each, kind in found.items() if each not in unsure}
    columns, failures = columns_of(sure, every, evaluate)
    failures = [*failures, *unsure.values()]
    if not columns:
        return NotCopartitioned("; ".join(failures) or why_apart(every))
    groups = grouped(sides, tables, [*columns.values()], _matchable(columns, inner=inner))
    if inner:
        groups = [group for group in groups if all(any(map(len, versions)) for versions in group.rows)]
    return Groups(tuple(dimension.shown(sides[0]) for dimension in columns), tuple(groups))


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
        return f"{dimension.shown(side)} of {side.name} cannot be computed: {exc}"
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
