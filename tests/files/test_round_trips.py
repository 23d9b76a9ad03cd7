"""What is exported as CSV or JSON is loaded again without a difference, whatever the values are."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance_flight_client.files import sources
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.output import CsvWriter, JsonWriter

from tests.selection import IS_FULL

WORDS = st.sampled_from(("", "NULL", "NA", "-", "00012", "1,5", "1;2", "a\tb", "2024-03-31", "01/02/2024", "#", "'x'", '"', "\\", '\\"', "a\nb", " x ", "nan", "true", "=1", "é广"))  # fmt: skip
TEXTS = WORDS | st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)), max_size=8)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.utf8(), TEXTS),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "decimal": (pa.decimal128(38, 4), st.decimals(-(10**30), 10**30, places=4)),
    "truth": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us"), st.datetimes()),
    "zoned": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "time": (pa.time64("us"), st.times()),
    "nanosecond": (pa.timestamp("ns"), st.integers(-(2**63) + 10**10, 2**63 - 10**10)),
    "duration": (pa.duration("us"), st.integers(-(2**62), 2**62)),
    "duration of nanoseconds": (pa.duration("ns"), st.integers(-(2**62), 2**62)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "list": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3)),
    "struct": (
        pa.struct([("a", pa.utf8()), ("b", pa.list_(pa.float64()))]),
        st.fixed_dictionaries(
            {"a": st.none() | TEXTS, "b": st.none() | st.lists(st.floats(allow_nan=False, allow_infinity=False))}
        ),
    ),
    "map": (
        pa.map_(pa.utf8(), pa.int64()),
        st.dictionaries(TEXTS, st.integers(0, 9), max_size=3).map(lambda each: list(each.items())),
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    rows = draw(st.integers(1, 6))
    columns = {"key": pa.array(range(rows), pa.int64())}
    for place, name in enumerate(kinds):
        kind, values = KINDS[name]
        found = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[f"{name} {place}"] = pa.array(found, kind)
    return pa.table(columns)


def written(table: pa.Table, format: str) -> bytes:
    out = io.BytesIO()
    with CsvWriter.of(out, table.schema) if format == "csv" else JsonWriter(out) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return out.getvalue()


@pytest.mark.parametrize("format", ["csv", "json"])
@settings(max_examples=2_000 if IS_FULL else 150, deadline=None)
@given(tables())
def test_rows_come_back_as_they_were(format: str, table: pa.Table) -> None:
    text, pipe = TextOptions(nulls=("",) if format == "csv" else ()), io.BytesIO(written(table, format))
    source = sources.open_files(["-"], format, text, pipe, types=table.schema)
    assert pa.Table.from_batches(source.batches(source.schema), source.schema).to_pylist() == table.to_pylist()
