"""Ranges and date parts of instants lose no row around any change of any zone's clocks; DataFusion says where the rows lie."""

from __future__ import annotations

import zoneinfo
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec
from lance_flight.model.transforms import Day, Hour, Month, Year
from lance_flight.model.zones import named_zone
from lance_flight.planning.joins import in_order
from lance_flight.planning.predicates import Column, Compare, DatePart, Op, Predicate, all_of
from lance_flight.planning.pruning import SpecPruning, prune

from tests.planning.join_cases import of
from tests.planning.planning_oracle import Split, evaluate, field, split
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # every change of every zone's clocks

ODD = [
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Asia/Manila",
    "America/Juneau",
    "Australia/Lord_Howe",
    "Africa/Monrovia",
    "Antarctica/Troll",
]
PLAIN = ["America/New_York", "Europe/Dublin", "Africa/Casablanca", "Asia/Kathmandu", "+05:45", "-12:00", "+14", "UTC"]
ZONES = sorted(zoneinfo.available_timezones() - {"Factory", "localtime"}) if IS_FULL else [*ODD, *PLAIN]
PARTS = (Year(), Month(), Day(), Hour())
UNITS = {"s": 1, "ms": 10**3, "us": 10**6}
X = Column("x")


def instants(zone: str, random: Random) -> list[int]:
    """Seconds close to one another, around one or two changes of a zone's clocks or the turn of a year."""
    known = named_zone(zone)
    assert known is not None
    turns = [*known.starts.tolist(), 1735689600, 1325376000]
    places = random.choices(turns, k=random.choice([1, 1, 2]))
    steps = [-86_400, -7_200, -3_600, -1_800, -1, 0, 1, 1_799, 1_800, 3_599, 3_600, 7_200, 86_399, 86_400, 200_000]
    return [place + step + random.choice([0, 0, 0, 86_400, -50_000]) for place in places for step in steps]


def world(zone: str, random: Random) -> tuple[NamespaceSchema, Split, list[int], pa.DataType]:
    """Instants, laid out as DataFusion derives the date parts of a random spec."""
    unit = random.choice([*UNITS])
    kind = pa.timestamp(unit, zone)
    schema = NamespaceSchema.assign(pa.schema({"x": kind}))
    ticks = [second * UNITS[unit] + random.choice([0, UNITS[unit] - 1]) for second in instants(zone, random)]
    parts = [part for part in PARTS if random.random() < 0.6] or [Day()]
    fields = [field(part.type, part, 0, result=pa.int32()) for part in parts]
    rows = pa.table({"x": pa.array(ticks, pa.int64()).view(kind)})
    values = {
        each.column: evaluate(each.rule.expression([kind]), [rows["x"].combine_chunks()], pa.int32()) for each in fields
    }
    spec = PartitionSpec(id=1, fields=tuple(fields))
    found = split(spec, schema, rows)
    laid = found.partitions.values.take(pa.array(found.place)).to_pydict()
    assert laid == {name: column.to_pylist() for name, column in values.items()}
    return schema, found, ticks, kind


def pruned(found: Split, schema: NamespaceSchema, predicate: Predicate) -> SpecPruning:
    return prune([found.partitions], schema, predicate, evaluate).versions[0]


@pytest.mark.parametrize("zone", ZONES)
def test_a_range_loses_no_row(zone: str) -> None:
    random = Random(zone)  # noqa: S311
    for _ in range(6):
        schema, found, ticks, kind = world(zone, random)
        low, high = sorted(random.choices(ticks, k=2))
        ends = [pa.scalar(tick, pa.int64()).cast(kind) for tick in (low, high)]
        left = pruned(found, schema, all_of([Compare(X, Op.GE, ends[0]), Compare(X, Op.LE, ends[1])]))
        wanted = found.kept(row for row, tick in enumerate(ticks) if low <= tick <= high)
        assert wanted <= set(left.kept.tolist())
        single = pruned(found, schema, Compare(X, Op.EQ, ends[0]))
        assert set(single.kept.tolist()) == {int(found.place[ticks.index(low)])}


@pytest.mark.parametrize("zone", ZONES)
def test_date_parts_leave_their_partitions(zone: str) -> None:
    random = Random(zone)  # noqa: S311
    for _ in range(3):
        schema, found, ticks, kind = world(zone, random)
        column = pa.array(ticks, pa.int64()).view(kind)
        part = random.choice(PARTS)
        values = evaluate(part.expression([kind]), [column], pa.int32()).to_pylist()
        value = random.choice(values)
        left = pruned(found, schema, Compare(DatePart(part.type, "x"), Op.EQ, pa.scalar(value, pa.int32())))
        wanted = found.kept(row for row, mine in enumerate(values) if mine == value)
        assert wanted <= set(left.kept.tolist())
        if part in [each.rule for each in found.partitions.spec.fields]:
            assert (wanted, left.residual) == (set(left.kept.tolist()), None)


@pytest.mark.parametrize("zone", ZONES)
def test_groups_in_the_order_of_instants_are_in_their_order(zone: str) -> None:
    random = Random(zone)  # noqa: S311
    for _ in range(3):
        schema, found, ticks, _ = world(zone, random)
        groups = in_order(of("t", schema, [found.partitions], [0]), descending=False, nulls_first=False)
        if not hasattr(groups, "groups"):
            continue
        number = {row: place for place, group in enumerate(groups.groups) for row in group.rows[0][0].tolist()}
        order = [number[int(found.place[row])] for row in np.argsort(ticks, kind="stable")]
        assert order == sorted(order)


def test_ranges_of_a_zone_leave_few_hours() -> None:
    kind = pa.timestamp("us", "America/New_York")
    schema = NamespaceSchema.assign(pa.schema({"x": kind}))
    spec = PartitionSpec(id=1, fields=tuple(field(part.type, part, 0, result=pa.int32()) for part in PARTS))
    start = int(np.datetime64("2025-01-01T00:00", "us").astype(np.int64))
    ticks = [start + hour * 3_600 * 10**6 for hour in range(24 * 365)]
    found = split(spec, schema, pa.table({"x": pa.array(ticks, pa.int64()).view(kind)}))
    for place in (100, 1_639, 7_325, 7_326):
        low, high = (pa.scalar(ticks[place + hour], pa.int64()).cast(kind) for hour in (0, 2))
        left = pruned(found, schema, all_of([Compare(X, Op.GE, low), Compare(X, Op.LE, high)]))
        assert set(left.kept.tolist()) == found.kept(range(place, place + 3))
