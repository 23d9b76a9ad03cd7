"""The offsets of time zones are those that DataFusion computes `date_part` with, in every zone and at every change of its clocks."""

from __future__ import annotations

import os
import zoneinfo
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionContext
from lance_flight.model.transforms import Day, Hour, Month, Year
from lance_flight.model.zones import UTC, in_zone, is_utc, named_zone

from tests.selection import IS_FULL

PARTS = (Year(), Month(), Day(), Hour())
NAMES = sorted(zoneinfo.available_timezones() - {"Factory", "localtime"})
FIRST, LAST, GRID = (
    int(np.datetime64(day, "s").astype(np.int64)) for day in ("1800-01-01", "2205-01-01", "1970-01-01T06")
)
NANOSECONDS = pa.timestamp("ns", "America/New_York")
SHOWN = (
    "America/New_York",
    "Pacific/Apia",
    "Asia/Manila",
    "Australia/Lord_Howe",
    "Africa/Monrovia",
    "+05:45",
    "-0330",
    "+02",
)


def computed(kind: pa.DataType, ticks: np.ndarray, *expressions: str) -> list[list[int]]:
    """What DataFusion computes of timestamps `col0`."""
    context = SessionContext()
    columns = {"n": pa.array(np.arange(len(ticks))), "col0": pa.array(ticks, pa.int64()).view(kind)}
    context.register_record_batches("x", [pa.table(columns).to_batches()])
    shown = ", ".join(f"{each} AS c{place}" for place, each in enumerate(expressions))
    table = pa.Table.from_batches(context.sql(f"SELECT n, {shown} FROM x").collect()).sort_by("n")
    return [column.to_pylist() for column in table.columns[1:]]


def offsets(name: str, seconds: np.ndarray) -> np.ndarray:
    """The offset of a zone at each second, as DataFusion has it."""
    local = "CAST(arrow_cast(to_local_time(col0), 'Timestamp(Second, None)') AS BIGINT) - CAST(col0 AS BIGINT)"
    (found,) = computed(pa.timestamp("s", name), seconds, local)
    return np.array(found, np.int64)


def changes(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The first second of every offset but the first, and all offsets."""
    grid = np.arange(FIRST, LAST, GRID)
    known = offsets(name, grid)
    places = np.flatnonzero(np.diff(known))
    before, after = grid[places], grid[places + 1]
    while (after - before > 1).any():
        middle = (before + after) // 2
        is_old = offsets(name, middle) == known[places]
        before, after = np.where(is_old, middle, before), np.where(is_old, after, middle)
    return after, np.concatenate([known[:1], known[places + 1]])


@pytest.fixture(scope="module", autouse=True)
def _zones() -> None:
    """With LANCE_FLIGHT_TESTS=write the zones of the product are made anew, for the next run."""
    if os.environ.get("LANCE_FLIGHT_TESTS") == "write":
        write_zones()


def write_zones() -> None:
    groups: dict[tuple[bytes, bytes], list[str]] = {}
    for name in NAMES:
        starts, found = changes(name)
        groups.setdefault((starts.astype(np.int64).tobytes(), found.astype(np.int32).tobytes()), []).append(name)
    table = pa.table(
        {
            "names": pa.array([*groups.values()], pa.list_(pa.utf8())),
            "starts": pa.array([np.frombuffer(starts, np.int64) for starts, _ in groups], pa.list_(pa.int64())),
            "offsets": pa.array([np.frombuffer(found, np.int32) for _, found in groups], pa.list_(pa.int32())),
        }
    )
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 19))
    with pa.ipc.new_file(str(files("lance_flight.model") / "zones.arrow"), table.schema, options=options) as writer:
        writer.write_table(table)


def instants(name: str, random: np.random.Generator) -> np.ndarray:
    """Seconds around some changes of a zone's clocks, or all of them, and anywhere in some centuries."""
    zone = named_zone(name)
    assert zone is not None
    starts = zone.starts if IS_FULL or len(zone.starts) <= 8 else random.choice(zone.starts, 8, replace=False)
    near = [starts + distance for distance in (-86_400, -3_600, -1_800, -1, 0, 1, 1_799, 3_600, 86_400)]
    return np.concatenate([*near, random.integers(FIRST, LAST, 1000 if IS_FULL else 8)]).astype(np.int64)


def test_parts_are_those_of_datafusion_in_every_zone() -> None:
    random, wrong = np.random.default_rng(2024), []
    for name in NAMES:
        kind = pa.timestamp("s", name)
        seconds = instants(name, random)
        expected = computed(kind, seconds, *(part.expression([kind]) for part in PARTS))
        column = pa.array(seconds, pa.int64()).view(kind)
        if [part.apply([column]).to_pylist() for part in PARTS] != expected:
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("name", SHOWN)
def test_parts_are_those_of_datafusion_in_every_unit(name: str, unit: str) -> None:
    kind, per_second = pa.timestamp(unit, name), {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    seconds = instants(name, np.random.default_rng(7)) + 0
    ticks = seconds[np.abs(seconds) < 9 * 10**9] * per_second
    ticks = np.concatenate([ticks, ticks - 1, ticks + 1])
    column = pa.array(ticks, pa.int64()).view(kind)
    expected = computed(kind, ticks, *(part.expression([kind]) for part in PARTS))
    assert [part.apply([column]).to_pylist() for part in PARTS] == expected


@pytest.mark.parametrize("ticks", [-(2**63), 2**63 - 1])
def test_the_ends_of_nanoseconds_have_parts(ticks: int) -> None:
    column = pa.array([ticks, None], pa.int64()).view(NANOSECONDS)
    (expected,) = computed(NANOSECONDS, np.array([ticks]), "date_part('year', col0)")
    assert Year().apply([column]).to_pylist() == [*expected, None]


@pytest.mark.parametrize("name", ["america/new_york", "Foo/Bar", "+25:00", "+02:00:30", "5", "local"])
def test_zones_that_datafusion_does_not_know_are_not_known(name: str) -> None:
    assert named_zone(name) is None


def test_names_of_one_zone_are_the_same_object() -> None:
    assert named_zone("US/Eastern") is named_zone("America/New_York")
    assert named_zone("Etc/UTC") is named_zone("+00:00") is UTC
    assert named_zone("+02") is named_zone("+0200") is named_zone("+02:00") is named_zone("Etc/GMT-2")
    assert is_utc(pa.date32())
    assert not is_utc(pa.timestamp("s", "Europe/Lisbon"))


def test_columns_without_a_zone_are_unchanged() -> None:
    naive = pa.array([0], pa.timestamp("us"))
    assert in_zone(naive) is naive
    assert in_zone(pa.array([0, None], pa.timestamp("us", "UTC"))).equals(pa.array([0, None], pa.timestamp("us")))


@pytest.mark.parametrize("name", SHOWN)
def test_the_bounds_of_a_range_hold_all_of_its_local_times(name: str) -> None:
    zone, random = named_zone(name), np.random.default_rng(3)
    assert zone is not None
    starts = zone.starts if len(zone.starts) else np.array([0])
    for start in starts.tolist():
        low, high = sorted((start + random.integers(-100_000, 100_000, 2)).tolist())
        local = zone.local(np.arange(low, high + 1))
        assert zone.local_bounds(low, high) == (local.min(), local.max())
    assert zone.local_bounds(-(2**63), 2**63 - 1)[0] == -(2**63) + int(zone.offsets[0])


def test_clocks_that_are_set_back_by_more_than_a_unit_do_not_keep_its_order() -> None:
    zones = {
        name: named_zone(name) for name in ("America/New_York", "Pacific/Apia", "Asia/Manila", "Asia/Kolkata", "UTC")
    }
    found = {name: (zone.keeps_order(86_400), zone.keeps_order(3_600)) for name, zone in zones.items() if zone}
    assert found["UTC"] == (True, True)
    for name, kept in found.items():
        zone = named_zone(name)
        assert zone is not None
        around = (zone.starts[:, None] + np.arange(-90_000, 90_001, 60)).reshape(-1)
        for unit, keeps in zip((86_400, 3_600), kept, strict=True):
            rows = zone.local(np.concatenate([around, zone.starts - 1, zone.starts])[:]) // unit
            order = np.argsort(np.concatenate([around, zone.starts - 1, zone.starts]), kind="stable")
            assert keeps == bool((np.diff(rows[order]) >= 0).all())
