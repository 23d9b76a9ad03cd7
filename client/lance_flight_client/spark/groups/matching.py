"""Groups of partition tables whose rows belong together, each one the work of one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance_flight.catalog.tables.row_counts import row_counts
from lance_flight.engine.sql.functions import evaluate
from lance_flight.planning.joins import NotCopartitioned, match

from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.reading.portion import DirectPortion


@dataclass(frozen=True, slots=True)
class Keyed:
    """One side: a planned read, and the columns that are its keys, in the order of the other sides'."""

    plan: DirectPlan
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The portions of each group, one of each side, their rows, and what they are grouped by."""

    by: tuple[str, ...]
    portions: tuple[tuple[DirectPortion, ...], ...]
    rows: tuple[int, ...]


def grouped(sides: Sequence[Keyed], *, inner: bool) -> Grouped | NotCopartitioned:
    """Return the groups of all sides: rows with equal keys are in one (spec: Storage Partitioned Join)."""
    floating = [
        (side, key) for side in sides for key in side.keys if pa.types.is_floating(side.plan.source.field(key).type)
    ]
    if floating:
        side, key = floating[0]
        return NotCopartitioned(
            f"{key} of {side.plan.table.name} is a float; Spark and Arrow do not agree which of those are equal"
        )
    found = [side.plan.found() for side in sides]
    scans = [each.planned for each in found]
    plain = [scan.name for scan in scans if not scan.snapshot.is_partitioned]
    if plain:
        return NotCopartitioned(f"{plain[0]} is not partitioned")
    wanted = [scan.side(side.plan.table.name, side.keys) for scan, side in zip(scans, sides, strict=True)]
    matched = match(wanted, evaluate, inner=inner)
    if isinstance(matched, NotCopartitioned):
        return matched
    places = [
        [_places(scan.kept, rows) for scan, rows in zip(scans, group.rows, strict=True)] for group in matched.groups
    ]
    portions = tuple(
        tuple(
            side.plan.portion(each, [each.pieces[place] for place in mine])
            for side, each, mine in zip(sides, found, of_group, strict=True)
        )
        for of_group in places
    )
    counts = [row_counts([piece.part.table for piece in each.pieces]) for each in found]
    rows = tuple(
        sum(known[place] for known, mine in zip(counts, of_group, strict=True) for place in mine) for of_group in places
    )
    return Grouped(matched.by, portions, rows)


def _places(kept: Sequence[npt.NDArray[np.int64]], rows: Sequence[npt.NDArray[np.int64]]) -> list[int]:
    """Return where tables stand among those that are left; both are numbers of tables, version by version."""
    starts = [0, *accumulate(map(len, kept))]
    return [
        start + int(place)
        for start, mine, wanted in zip(starts, kept, rows, strict=False)
        for place in np.searchsorted(mine, wanted)
    ]
