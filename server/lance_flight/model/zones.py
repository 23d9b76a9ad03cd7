"""Time zones as tables of their offsets from UTC, for the parts of timestamps with a zone.

The derived expression of `year`, `month`, `day` and `hour` is DataFusion's `date_part`, which computes in the column's zone, by a
database of zones that is compiled into it. Neither Arrow's kernels nor Python's `zoneinfo` agree with it: they read the
system's database, which has another history before 1970, and Arrow ends at 2037. So `zones.arrow` holds what DataFusion says;
`tests/model/test_zones.py` compares the two, and writes the file again with LANCE_FLIGHT_TESTS=write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Seconds = npt.NDArray[np.int64]

TICKS = MappingProxyType({"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9})
"""Ticks of a timestamp's unit in a second."""

_HOUR, _MINUTE = 3_600, 60
_HOURS_PER_DAY = 24
_FIXED = re.compile(r"([+-])(\d\d):?(?:([0-5]\d))?")
# Seconds that every offset can be added to, and that lie far beyond the calendar.
_FARTHEST = 2**62


@dataclass(frozen=True, eq=False, slots=True)
class Zone:
    """The offsets of one time zone from UTC, in seconds: `offsets[0]` before `starts[0]`, `offsets[i + 1]` from `starts[i]` on.

    `starts` are ascending seconds since 1970-01-01 UTC. Zones of equal offsets are one object.
    """

    starts: Seconds
    offsets: Seconds

    def local(self, seconds: Seconds) -> Seconds:
        """Return the local time of each instant, both as seconds since 1970-01-01."""
        if not len(seconds):
            return seconds
        # Most columns span few changes: those alone are searched.
        first, last = np.searchsorted(self.starts, [seconds.min(), seconds.max()], "right")
        places = first if first == last else first + np.searchsorted(self.starts[first:last], seconds, "right")
        local: Seconds = seconds + self.offsets[places]
        return local

    def moments(self, local: Seconds) -> Seconds:
        """Return the instant of each local time, both as seconds since 1970-01-01.

        Of two it is the later one. A time that is left out as clocks are set forward counts on from the hour before.

        >>> named_zone("Europe/Oslo").moments(np.array([1711852200, 1729996200])).tolist()
        [1711848600, 1729992600]
        """
        begun = np.maximum.accumulate(self.starts + self.offsets[1:])
        instants: Seconds = local - self.offsets[np.searchsorted(begun, local, "right")]
        return instants

    def local_bounds(self, low: int, high: int) -> tuple[int, int]:
        """Return the earliest and the latest local time of the instants from `low` to `high`.

        They need not be those of the ends: clocks are set back, and a zone may move across the date line.
        """
        first, last = np.searchsorted(self.starts, [low, high], "right")
        begins = [low, *self.starts[first:last].tolist()]
        ends = [*(start - 1 for start in begins[1:]), high]
        offsets = self.offsets[first : last + 1].tolist()
        earliest = min(begin + offset for begin, offset in zip(begins, offsets, strict=True))
        return earliest, max(end + offset for end, offset in zip(ends, offsets, strict=True))

    def instants(self, low: int, high: int) -> tuple[int, int]:
        """Return the first and the last instant whose local time lies from `low` to `high`, or would if no hour were left out."""
        begins = np.concatenate([[-_FARTHEST], self.starts])
        ends = np.concatenate([self.starts - 1, [_FARTHEST]])
        first = np.maximum(begins, low - self.offsets)
        last = np.minimum(ends, high - self.offsets)
        inside = first <= last
        if not inside.any():
            return low - int(self.offsets.max()), high - int(self.offsets.min())
        return int(first[inside].min()), int(last[inside].max())

    def keeps_order(self, unit: int) -> bool:
        """Return whether local time in whole units of so many seconds never falls."""
        before = (self.starts - 1 + self.offsets[:-1]) // unit
        after = (self.starts + self.offsets[1:]) // unit
        return bool((before <= after).all())


UTC = Zone(np.zeros(0, np.int64), np.zeros(1, np.int64))


def zone_of(kind: pa.DataType) -> Zone | None:
    """Return the zone in which parts of a date or timestamp are computed: UTC where it has none.

    None for one that is not known.
    """
    name = getattr(kind, "tz", None)
    return UTC if name is None else named_zone(name)


@cache
def named_zone(name: str) -> Zone | None:
    """Return a zone by its name in the tz database or as a fixed offset (`+02:00`, `-0330`, `+05`).

    None if DataFusion knows none.

    >>> named_zone("+05:45").offsets.tolist()
    [20700]
    """
    fixed = _FIXED.fullmatch(name)
    if fixed is None:
        return _zones().get(name)
    sign, hours, minutes = fixed.groups()
    if int(hours) >= _HOURS_PER_DAY:
        return None
    offset = int(hours) * _HOUR + int(minutes or 0) * _MINUTE
    return _fixed_zone(-offset if sign == "-" else offset)


def is_utc(kind: pa.DataType) -> bool:
    """Return whether local times of a date or timestamp are those of UTC, or it has no zone."""
    return zone_of(kind) is UTC


def in_zone(column: pa.Array) -> pa.Array:
    """Return timestamps with a zone as local timestamps in seconds, without one; anything else unchanged.

    The zone must be one that is known.
    """
    zone = zone_of(column.type)
    if not pa.types.is_timestamp(column.type) or column.type.tz is None or zone is None:
        return column
    if zone is UTC:
        return column.view(pa.int64()).view(pa.timestamp(column.type.unit))
    ticks = column.view(pa.int64()).fill_null(0).to_numpy()
    seconds = np.clip(ticks // TICKS[column.type.unit], -_FARTHEST, _FARTHEST)
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(zone.local(seconds), pa.int64(), mask=mask).view(pa.timestamp("s"))


@cache
def _fixed_zone(offset: int) -> Zone:
    return Zone(UTC.starts, np.array([offset], np.int64)) if offset else UTC


@cache
def _zones() -> Mapping[str, Zone]:
    # DataFusion reads columns of the zone "Z", but computes nothing of them.
    zones: dict[str, Zone] = {"": UTC, "Z": UTC}
    with files(__package__).joinpath("zones.arrow").open("rb") as source:
        table = pa.ipc.open_file(source.read()).read_all()
    for names, starts, offsets in zip(*(column.to_pylist() for column in table.columns), strict=True):
        zone = Zone(np.array(starts, np.int64), np.array(offsets, np.int64)) if starts else _fixed_zone(offsets[0])
        zones |= dict.fromkeys(names, zone)
    return MappingProxyType(zones)
