"""Columns of the odd tables by kind: their values, conditions on them, and the partition fields over them.

A column of another type is one more `ColumnKind`, one of another time zone one more of `Clocks`, a way to partition one more
`PartitionKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnKind:
    """A column: its type, some values, conditions on it and expressions for its new values, in SQL."""

    name: str
    type: pa.DataType
    values: Sequence[Any]
    conditions: Sequence[str]
    updates: Sequence[str]
    wider: pa.DataType | None = None
    """Another type that files may have: its values cast to the column's own."""
    keys: Sequence[str] = ()
    """Expressions to group by, beside the column itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKind:
    """A partition field over the column at a dotted path: its transform, its values and their type."""

    path: str
    type: pa.DataType
    transform: Mapping[str, Any] = field(default_factory=lambda: {"type": "identity"})
    value: Callable[[Any], Any] = lambda value: value

    @property
    def name(self) -> str:
        """The id of the field."""
        return f"{self.path.replace('.', '_')}_{self.transform['type']}"

    @property
    def is_identity(self) -> bool:
        """Whether files may leave its column out."""
        return self.transform["type"] == "identity"

    def of(self, row: Row) -> Any:
        """The partition value of a row."""
        found: Any = row
        for name in self.path.split("."):
            found = None if found is None else found[name]
        return None if found is None else self.value(found)


PAIR = pa.struct([("x", pa.int32()), ("y", pa.utf8())])
# Lance keeps no NULL of a struct without fields: one field is over no partition field.
INNER = pa.struct([("b", pa.utf8()), ("c", pa.int64()), ("e", pa.bool_())])
DEEP = pa.struct([("k", pa.int32()), ("a", INNER)])
COLUMNS = (
    ColumnKind(
        name="p",
        type=pa.utf8(),
        values=["US", "DE", "de", "", None],
        conditions=[
            "p = 'US'",
            "upper(p) = 'DE'",
            "p IS NULL",
            "p <> 'de'",
            "p LIKE '%E'",
            "p IN ('', 'US')",
            "p > 'D'",
        ],
        updates=["lower(p)", "'US'", "NULL"],
        wider=pa.large_utf8(),
    ),
    ColumnKind(
        name="n",
        type=pa.int64(),
        values=[-7, 0, 3, 12, None],
        conditions=["n = 3", "n + 0 = 3", "n > 0", "n % 2 = 1", "n IS NOT NULL", "n IN (0, 12)", "abs(n) = 7"],
        updates=["n + 1", "-n", "12"],
        wider=pa.decimal128(20, 0),
    ),
    ColumnKind(
        name="d",
        type=pa.date32(),
        values=[date(2024, 2, 29), date(2025, 1, 1), date(2025, 12, 31), None],
        conditions=["d = DATE '2025-01-01'", "d >= DATE '2025-01-01'", "date_part('year', d) = 2024", "d IS NULL"],
        updates=["DATE '2024-02-29'", "d + INTERVAL '1 day'"],
    ),
    ColumnKind(
        name="s",
        type=PAIR,
        values=[{"x": 1, "y": "one"}, {"x": None, "y": "two"}, {"x": 3, "y": None}, {"x": 1, "y": "ONE"}, None],
        conditions=[
            "s['x'] = 1",
            "s.x IN (1, 7)",
            "s.x > 1 AND s.x <= 3",
            "s.x IS NULL",
            "s.x IS NOT DISTINCT FROM 3",
            "s['y'] IS NULL",
            "s['x'] + 1 = 4",
            "upper(s['y']) = 'TWO'",
        ],
        updates=["s", "named_struct('x', CAST(7 AS INT), 'y', s.y)", "named_struct('x', CAST(NULL AS INT), 'y', p)"],
        wider=pa.struct([("x", pa.int64()), ("y", pa.large_utf8())]),
        keys=["s.x", "s['y']"],
    ),
    ColumnKind(
        name="deep",
        type=DEEP,
        values=[
            {"k": 1, "a": {"b": "u", "c": 1, "e": True}},
            {"k": 2, "a": {"b": "v", "c": None, "e": True}},
            {"k": None, "a": {"b": None, "c": 2, "e": True}},
            {"k": 3, "a": None},
            None,
        ],
        conditions=[
            "deep.a.b = 'u'",
            "deep['a']['b'] IN ('u', 'w')",
            "deep.a.b IS NULL",
            "deep.a.b IS NOT NULL AND deep.k < 2",
            "deep.a.b >= 'v'",
            "upper(deep.a.b) <> 'V'",
            "deep.a.c = 2 OR deep.k = 3",
        ],
        updates=["deep", "named_struct('k', deep.k, 'a', named_struct('b', 'w', 'c', deep.a.c, 'e', deep.a.e))"],
        keys=["deep.a.b", "deep['a']['c']"],
    ),
    ColumnKind(
        name="word",
        type=pa.utf8(),
        values=["a", "b", None],
        conditions=["word = 'a'", "word IS NULL", "word || p = 'aUS'", "word < 'b' OR p = 'DE'"],
        updates=["'c'", "word || word"],
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """A time zone: instants around which its values lie, and a local time that its clocks show once."""

    zone: str
    clock: tzinfo
    instants: Sequence[str]
    plain: str
    wider: pa.DataType


def _zoned(name: str, clocks: Clocks) -> ColumnKind:
    """A column of a time zone, with values just before, at, before and after its instants."""
    zone, clock = clocks.zone, clocks.clock
    instants = [datetime.fromisoformat(each) for each in clocks.instants]
    steps = [timedelta(microseconds=-1), timedelta(0), timedelta(minutes=-20), timedelta(minutes=40)]
    values = [each + step for each in instants for step in steps]
    literals = [
        f"arrow_cast('{each.isoformat(timespec='microseconds')}', 'Timestamp(Microsecond, Some(\"{zone}\"))')"
        for each in values
    ]
    local = [each.astimezone(clock) for each in values]
    return ColumnKind(
        name=name,
        type=pa.timestamp("us", zone),
        values=[*values, None],
        conditions=[
            *(f"{name} = {each}" for each in literals[:3]),
            *(f"{name} >= {low} AND {name} < {high}" for low, high in zip(literals[::2], literals[1::2], strict=True)),
            *(f"{name} BETWEEN {low} AND {high}" for low, high in zip(literals, literals[5:], strict=False)),
            f"{name} IN ({literals[0]}, {literals[-1]})",
            f"{name} NOT IN ({literals[1]}, {literals[2]})",
            f"{name} IS NULL",
            f"{name} IS NOT DISTINCT FROM {literals[1]}",
            f"{name} > TIMESTAMP '{clocks.plain}'",
            f"{name} <= '{clocks.plain}'",
            *(f"date_part('{part}', {name}) = {getattr(each, part)}" for part in PARTS for each in local[:2]),
            f"date_part('hour', {name}) IN (0, 1, 23)",
            f"date_part('year', {name}) > {local[0].year}",
            f"date_part('day', {name}) = 1 AND date_part('hour', {name}) = 0",
            f"date_trunc('day', {name}) = date_trunc('day', {literals[0]})",
        ],
        updates=["NULL", literals[1], f"{name} + INTERVAL '1 hour'", f"{name} - INTERVAL '1 day'"],
        wider=clocks.wider,
        keys=[f"date_part('{part}', {name})" for part in PARTS],
    )


PARTS = ("year", "month", "day", "hour")
ZONES: Mapping[str, Clocks] = {
    # The clocks are set back; the year ends.
    "ny": Clocks(
        zone="America/New_York",
        clock=ZoneInfo("America/New_York"),
        instants=["2024-11-03T06:00:00+00:00", "2024-03-10T07:00:00+00:00", "2025-01-01T05:00:00+00:00"],
        plain="2024-12-31T20:00:00",
        wider=pa.timestamp("us", "UTC"),
    ),
    # Fifteen minutes more since 1986, whose first day began a quarter past midnight. Conditions on that year are left out:
    # DataFusion makes them ranges from its first midnight, which it takes for NULL.
    "ktm": Clocks(
        zone="Asia/Kathmandu",
        clock=ZoneInfo("Asia/Kathmandu"),
        instants=["2024-12-31T18:15:00+00:00", "1985-12-31T18:30:00+00:00"],
        plain="2024-12-31T20:00:00",
        wider=pa.timestamp("ns", "UTC"),
    ),
    # A day is left out; the clocks are set back.
    "apia": Clocks(
        zone="Pacific/Apia",
        clock=ZoneInfo("Pacific/Apia"),
        instants=["2011-12-30T10:00:00+00:00", "2021-04-03T14:00:00+00:00"],
        plain="2012-01-01T00:00:00",
        wider=pa.timestamp("us", "America/New_York"),
    ),
    # By half an hour.
    "howe": Clocks(
        zone="Australia/Lord_Howe",
        clock=ZoneInfo("Australia/Lord_Howe"),
        instants=["2025-04-05T15:00:00+00:00", "2024-10-05T15:30:00+00:00"],
        plain="2025-01-01T00:00:00",
        wider=pa.timestamp("ns", "Australia/Lord_Howe"),
    ),
    "two": Clocks(
        zone="+02:00",
        clock=timezone(timedelta(hours=2)),
        instants=["2024-12-31T22:00:00+00:00"],
        plain="2025-01-01T00:00:00",
        wider=pa.timestamp("us", "UTC"),
    ),
    "at": Clocks(
        zone="UTC",
        clock=UTC,
        instants=["2024-12-31T23:30:00+00:00", "2025-07-01T00:00:00+00:00"],
        plain="2025-01-01T00:00:00",
        wider=pa.timestamp("ns", "UTC"),
    ),
}
ZONED = tuple(_zoned(name, clocks) for name, clocks in ZONES.items())
PARTITIONS = (
    PartitionKind(path="p", type=pa.utf8()),
    PartitionKind(path="p", type=pa.utf8()),
    PartitionKind(path="n", type=pa.int64()),
    PartitionKind(path="d", type=pa.date32()),
    PartitionKind(path="d", type=pa.int32(), transform={"type": "year"}, value=lambda day: day.year),
    PartitionKind(path="d", type=pa.int32(), transform={"type": "month"}, value=lambda day: day.month),
    PartitionKind(path="p", type=pa.utf8(), transform={"type": "truncate", "width": 1}, value=lambda text: text[:1]),
    PartitionKind(
        path="n",
        type=pa.int64(),
        transform={"type": "truncate", "width": 10},
        value=lambda number: number - (abs(number) % 10 if number >= 0 else -(abs(number) % 10)),
    ),
    PartitionKind(path="s.x", type=pa.int32()),
    PartitionKind(path="s.x", type=pa.int32()),
    PartitionKind(path="s.y", type=pa.utf8(), transform={"type": "truncate", "width": 1}, value=lambda text: text[:1]),
    PartitionKind(path="deep.a.b", type=pa.utf8()),
    PartitionKind(path="deep.a.b", type=pa.utf8()),
    PartitionKind(path="deep.a.c", type=pa.int64()),
)


def zoned_partitions(column: ColumnKind) -> list[PartitionKind]:
    """The fields over a column of a time zone: what its clocks show, as `date_part` has it, and the instant itself."""
    clock = ZONES[column.name].clock

    def of_part(part: str) -> PartitionKind:
        return PartitionKind(
            path=column.name,
            type=pa.int32(),
            transform={"type": part},
            value=lambda at: getattr(at.astimezone(clock), part),
        )

    return [PartitionKind(path=column.name, type=column.type), *map(of_part, PARTS)]


BY_NAME = {each.name: each for each in (*COLUMNS, *ZONED)}
