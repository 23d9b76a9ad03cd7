"""Groups of partition tables whose rows belong together, each one the work of one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.engine.functions import evaluate
from lance_flight.planning.joins import Apart, Side, match
from lance_flight.planning.partitions import Partitions, SpecPartitions

from lance_flight_client.spark.direct import DirectPlan, Found
from lance_flight_client.spark.direct_portion import DirectPortion

Rows = tuple[npt.NDArray[np.int64], ...]
"""Numbers of tables, version by version."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """One side: a planned read, and the columns that are its keys, in the order of the other sides'."""

    plan: DirectPlan
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The portions of each group, one of each side, and what they are grouped by."""

    by: tuple[str, ...]
    portions: tuple[tuple[DirectPortion, ...], ...]


def grouped(sides: Sequence[Keyed], *, inner: bool) -> Grouped | Apart:
    """The groups of all sides: rows with equal keys are in one (spec: Storage Partitioned Join)."""
    plain = [side.plan.table.name for side in sides if not side.plan.ids]
    if plain:
        return Apart(f"{plain[0]} is not partitioned")
    floating = [
        (side, key) for side in sides for key in side.keys if pa.types.is_floating(side.plan.source.field(key).type)
    ]
    if floating:
        side, key = floating[0]
        return Apart(
            f"{key} of {side.plan.table.name} is a float; Spark and Arrow do not agree which of those are equal"
        )
    found = [side.plan.found() for side in sides]
    matched = match([_side(side, each) for side, each in zip(sides, found, strict=True)], evaluate, inner=inner)
    if isinstance(matched, Apart):
        return matched
    portions = tuple(
        tuple(_portion(side, each, rows) for side, each, rows in zip(sides, found, group.rows, strict=True))
        for group in matched.groups
    )
    return Grouped(matched.by, portions)


def _side(side: Keyed, found: Found) -> Side:
    snapshot, pruning = _partitioned(found)
    return Side(
        name=side.plan.table.name,
        schema=snapshot.schema,
        partitions=Partitions.together(
            [SpecPartitions(spec=each.spec, values=each.values) for each in snapshot.tables]
        ),
        kept=pruning,
        keys=tuple(side.plan.ids[key] for key in side.keys),
    )


def _portion(side: Keyed, found: Found, rows: Rows) -> DirectPortion:
    """The task of one side of a group: `rows` are numbers of tables, version by version."""
    _, kept = _partitioned(found)
    starts = [0, *accumulate(map(len, kept))]
    places = [
        start + int(place)
        for start, mine, wanted in zip(starts, kept, rows, strict=False)
        for place in np.searchsorted(mine, wanted)
    ]
    return side.plan.portion(found, [found.pieces[place] for place in places])


def _partitioned(found: Found) -> tuple[Snapshot, Rows]:
    if found.snapshot is None or found.pruning is None:
        raise AssertionError(found)
    return found.snapshot, tuple(version.kept for version in found.pruning.versions)
