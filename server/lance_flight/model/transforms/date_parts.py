"""`year`, `month`, `day` and `hour`. The fields of one column prune together: `planning/calendar.py`, by their `date_part`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import DataError
from lance_flight.model.domains import DATE_PARTS
from lance_flight.model.transforms.transform import Transform, one_source
from lance_flight.model.zones import TICKS, in_zone, zone_of

HALF_WORD = 32
SECONDS_PER_DAY = 86_400
FIRST_DAY, LAST_DAY = -12_687_428, 11_248_737  # -32767-01-01 and 32767-12-31


@dataclass(frozen=True, slots=True)
class DatePartTransform(Transform):
    """One `date_part` of a date or timestamp, in the column's zone if it has one."""

    date_part: ClassVar[str]
    family: ClassVar[str] = "date part"
    takes_dates: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if cls.date_part not in DATE_PARTS:
            raise TypeError(f"{cls.__name__}: no function computes {cls.date_part!r}; expected one in DATE_PARTS")

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
        for source in sources:
            if not (pa.types.is_timestamp(source) or (pa.types.is_date(source) and self.takes_dates)):
                expected = "a date or timestamp" if self.takes_dates else "a timestamp"
                yield f"{self.type} of a {source} column; expected {expected}"
            elif zone_of(source) is None:
                yield _unknown_zone(self.type, source)

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int32()

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"date_part('{self.date_part}', col0)"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        if pa.types.is_null(column.type):
            return column.cast(pa.int32())
        if zone_of(column.type) is None:
            raise DataError(_unknown_zone(self.type, column.type))
        return DATE_PARTS[self.date_part](_in_calendar(in_zone(column))).cast(pa.int32())

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        # One instant has another local time in every zone.
        return pa.int64() if len({zone_of(kind) for kind in kinds[0]}) == 1 else None


class Year(DatePartTransform):
    """`date_part('year')`."""

    type: ClassVar[str] = "year"
    date_part: ClassVar[str] = "year"


class Month(DatePartTransform):
    """`date_part('month')`: 1–12, whatever the year."""

    type: ClassVar[str] = "month"
    date_part: ClassVar[str] = "month"


class Day(DatePartTransform):
    """`date_part('day')`: 1–31, whatever the month."""

    type: ClassVar[str] = "day"
    date_part: ClassVar[str] = "day"


class Hour(DatePartTransform):
    """`date_part('hour')`: 0–23, whatever the day."""

    type: ClassVar[str] = "hour"
    date_part: ClassVar[str] = "hour"
    takes_dates: ClassVar[bool] = False


def _unknown_zone(part: str, kind: pa.DataType) -> str:
    return (
        f"{part} of a {kind} column: DataFusion knows no zone {kind.tz!r}; expected a name of the tz database or an offset"
        " like +02:00"
    )


def _in_calendar(column: pa.Array) -> pa.Array:
    """Return dates and timestamps as they are; raise `DataError` for one beyond the years that Arrow's kernels count right."""
    ticks = column.view(pa.int32() if column.type.bit_width == HALF_WORD else pa.int64())
    per_day = 1 if pa.types.is_date32(column.type) else SECONDS_PER_DAY * TICKS[getattr(column.type, "unit", "ms")]
    ends = pc.min_max(ticks).as_py()
    for end in (ends["min"], ends["max"]):
        if end is not None and not FIRST_DAY <= end // per_day <= LAST_DAY:
            raise DataError(
                f"a {column.type} value lies {end // per_day:,} days from 1970; partitions by its year, month, day or hour "
                "reach from the year -32767 to 32767"
            )
    return column
