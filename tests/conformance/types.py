"""Every Arrow type over the drivers: what comes of its values, as a table for the documentation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from adbc_driver_manager import Error

from tests.service.server_process import Server

T = TypeVar("T")

DOCS = Path(__file__).parents[2] / "client" / "docs"
TYPES = DOCS / "types.md"
BEGIN, END = "<!-- types: begin -->\n", "<!-- types: end -->\n"
YES, NO = "✓", "–"
COPIES = {"literal": "stored", "bind": "bound"}
"""What is inserted in each way goes into a copy of the sample's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A type, one of its values, and how SQL writes that value."""

    type: pa.DataType
    value: object
    literal: str

    @property
    def table(self) -> str:
        """The table that has the value, and NULL, in its column `v`."""
        return "type_" + "".join(c if c.isalnum() else "_" for c in str(self.type)).rstrip("_").lower()

    @property
    def rows(self) -> pa.Table:
        """The rows of that table."""
        return pa.table({"v": pa.array([self.value, None], self.type)})


DAY, TIME = dt.date(2024, 2, 29), dt.time(1, 2, 3)
MOMENT = dt.datetime(2024, 2, 29, 1, 2, 3)
_DAY, _TIME, _MOMENT = "DATE '2024-02-29'", "'01:02:03'", "TIMESTAMP '2024-02-29T01:02:03'"
_INSTANT = "TIMESTAMPTZ '2024-02-29T01:02:03Z'"


def _sample(kind: pa.DataType, value: object, literal: str) -> Sample:
    return Sample(type=kind, value=value, literal=literal)


SAMPLES: Sequence[Sample] = (
    _sample(pa.bool_(), value=True, literal="true"),
    *(_sample(kind, 7, "7") for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(_sample(getattr(pa, f"uint{n}")(), 2**n - 7, str(2**n - 7)) for n in (8, 16, 32, 64)),
    *(_sample(kind, 1.5, "1.5") for kind in (pa.float16(), pa.float32(), pa.float64())),
    *(
        _sample(kind, Decimal("12.34"), "12.34")
        for kind in (pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(50, 2))
    ),
    *(_sample(kind, "Øre", "'Øre'") for kind in (pa.utf8(), pa.large_utf8(), pa.string_view())),
    *(
        _sample(kind, b"\x00\xfe\x01", "X'00FE01'")
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))
    ),
    _sample(pa.date32(), DAY, _DAY),
    _sample(pa.date64(), DAY, _DAY),
    *(_sample(kind, TIME, _TIME) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
    *(_sample(pa.timestamp(unit), MOMENT, _MOMENT) for unit in ("s", "ms", "us", "ns")),
    _sample(pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=dt.UTC), _INSTANT),
    _sample(pa.timestamp("us", "America/New_York"), MOMENT.replace(tzinfo=dt.UTC), _INSTANT),
    *(_sample(pa.duration(unit), dt.timedelta(seconds=90), "INTERVAL '90 seconds'") for unit in ("s", "us")),
    _sample(pa.month_day_nano_interval(), (1, 2, 3000), "INTERVAL '1 month 2 days 3 microseconds'"),
    _sample(pa.dictionary(pa.int32(), pa.utf8()), "Øre", "'Øre'"),
    _sample(pa.list_(pa.int64()), [1, 2], "[1, 2]"),
    _sample(pa.large_list(pa.int64()), [1, 2], "arrow_cast([1, 2], 'LargeList(Int64)')"),
    _sample(pa.list_(pa.float32(), 2), [1.0, 2.0], "arrow_cast([1.0, 2.0], 'FixedSizeList(2, Float32)')"),
    _sample(pa.struct({"x": pa.int64(), "y": pa.utf8()}), {"x": 1, "y": "z"}, "named_struct('x', 1, 'y', 'z')"),
    _sample(pa.map_(pa.utf8(), pa.int64()), [("x", 1)], "MAP {'x': 1}"),
    _sample(pa.json_(), '{"x":1}', """'{"x":1}'"""),
    _sample(pa.null(), None, "NULL"),
)


def by_adbc(server: Server, sample: Sample) -> dict[str, str]:
    """What comes of a type by ADBC; its table is there afterwards if it can be stored."""
    for copy in COPIES.values():
        _tried(partial(server.ingest, f"{sample.table}_{copy}", sample.rows))
    typed = pa.record_batch({"v": pa.array([sample.value], sample.type)})
    return {
        "ingest": YES if _tried(lambda: server.ingest(sample.table, sample.rows) == sample.rows.num_rows) else NO,
        "select": _tried(lambda: _returned(sample, server.query(f"SELECT v FROM {sample.table}"))) or NO,
        "literal": _verdict(
            is_found=_is(lambda: server.value(f"{_count(sample)} {sample.literal}") == 1),
            is_stored=_is(lambda: _stores(server, sample, "literal", sample.literal)),
        ),
        "bind": _verdict(
            is_found=_is(lambda: server.value(f"{_count(sample)} ?", typed) == 1),
            is_stored=_is(lambda: _stores(server, sample, "bind", "?", typed)),
        ),
    }


def by_jdbc(server: Server, said: Mapping[str, str], sample: Sample) -> dict[str, str]:
    """What comes of a type by JDBC, from what the program in `jdbc/` has said, and stored."""
    return {
        "select": _in_java(sample, said),
        **{
            way: _verdict(
                is_found=said.get(f"{sample.table} {way}, compared") == "= [1]",
                is_stored=said.get(f"{sample.table} {way}, stored") == "= 1" and _is_right(server, sample, copy),
            )
            for way, copy in COPIES.items()
        },
    }


def documented(table: str) -> str:
    """client/docs/types.md with this table in its place."""
    before, begin, rest = TYPES.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + table + end + after


def markdown(adbc: Mapping[str, Mapping[str, str]], jdbc: Mapping[str, Mapping[str, str]]) -> str:
    """The table of the documentation."""
    return "".join(f"| {' | '.join(row)} |\n" for row in _rows(adbc, jdbc))


def _rows(adbc: Mapping[str, Mapping[str, str]], jdbc: Mapping[str, Mapping[str, str]]) -> Iterator[Sequence[str]]:
    target_partitions, java = ("ingest", "select", "literal", "bind"), ("select", "literal", "bind")
    yield ("Arrow type", *(f"ADBC: {way}" for way in target_partitions), *(f"JDBC: {way}" for way in java))
    yield ("---",) * (1 + len(target_partitions) + len(java))
    for sample in SAMPLES:
        yield (
            f"`{sample.type}`",
            *(adbc[sample.table][way] for way in target_partitions),
            *(jdbc[sample.table][way] for way in java),
        )


def _count(sample: Sample) -> str:
    return f"SELECT count(*) FROM {sample.table} WHERE v ="


def _returned(sample: Sample, rows: pa.Table) -> str:
    values = sorted(rows["v"].to_pylist(), key=lambda value: value is None)
    if values != sample.rows["v"].to_pylist():
        return NO
    return YES if rows.schema.field("v").type == sample.type else f"as `{rows.schema.field('v').type}`"


def _in_java(sample: Sample, said: Mapping[str, str]) -> str:
    """The class that `getObject` gives; where the driver has none, whether `getString` has a text."""
    given = said.get(f"{sample.table} select", "!")
    if given.startswith("!"):
        return "as text" if said.get(f"{sample.table} text", "!").startswith("=") else NO
    kind, _, text = given.removeprefix("= ").partition(" ")
    wraps = pa.types.is_unsigned_integer(sample.type) and int(text) != sample.value
    return f"`{kind}`, which wraps" if wraps else f"`{kind}`"


def _is_right(server: Server, sample: Sample, copy: str) -> bool:
    """Whether everything that was inserted is the value of the sample."""
    found = server.query(f"SELECT v FROM {sample.table}_{copy}")["v"].to_pylist()
    return all(value in sample.rows["v"].to_pylist() for value in found)


def _stores(server: Server, sample: Sample, way: str, value: str, parameters: pa.RecordBatch | None = None) -> bool:
    """Whether a value is inserted as what it is, into a copy of the sample's table."""
    inserted = server.run(f"INSERT INTO {sample.table}_{COPIES[way]} VALUES ({value})", parameters)
    return inserted == 1 and _is_right(server, sample, COPIES[way])


def _verdict(*, is_found: bool, is_stored: bool) -> str:
    if is_found and is_stored:
        return YES
    return "stored" if is_stored else "compared" if is_found else NO


def _is(way: Callable[[], bool]) -> bool:
    return _tried(way) is True


def _tried(way: Callable[[], T]) -> T | None:
    try:
        return way()
    except Error:
        return None
