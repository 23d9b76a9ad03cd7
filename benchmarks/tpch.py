"""Orders and line items of TPC-H, both in buckets of the order's key: made by `tpchgen-cli`, stored by our own ingest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data, engines

PARTITION_BY: Mapping[str, str] = MappingProxyType(
    {"orders": "bucket(16, o_orderkey)", "lineitem": "bucket(8, l_orderkey)"}
)
"""As many buckets in one table as in two of the other's: partitions meet although the numbers differ."""


ADDED_ROWS, ADDED_MONTHS, FIRST_YEAR = 100, 60, 1993
DAY = date(1995, 3, 15)
"""A day of one of the months into which rows are added."""


def load(place: Path, scale: float) -> Mapping[str, int]:
    """Make both tables in the root at `place`; how many rows each holds."""
    made = place.with_name(f"{place.name}-parquet")
    generate(made, scale, PARTITION_BY)
    return MappingProxyType({name: _store(place, name, made / f"{name}.parquet") for name in PARTITION_BY})


def generate(place: Path, scale: float, tables: Iterable[str]) -> None:
    """Write a Parquet file for each table into the directory `place`."""
    command = [_generator(), "parquet", "--scale-factor", f"{scale:g}", "--tables", ",".join(tables)]
    subprocess.run([*command, "--output-dir", place], check=True, stdout=subprocess.DEVNULL)


def _store(place: Path, name: str, file: Path) -> int:
    parquet = pq.ParquetFile(file)
    schema = pa.schema([field.remove_metadata() for field in parquet.schema_arrow])
    batches = (batch.cast(schema) for batch in parquet.iter_batches(data.BATCH_ROWS))
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    stored = engines.store(place, name, reader, partition_by=PARTITION_BY[name])
    data.expect(f"rows stored in {name}", stored, parquet.metadata.num_rows)
    return stored


@dataclass(frozen=True, slots=True)
class LineItems:
    """Parquet files of line items: all of them, and rows to append that fall into many partitions or into one."""

    all: Path
    scattered: Path
    one_month: Path

    @classmethod
    def make(cls, place: Path, scale: float) -> LineItems:
        """Generate them unless they are there, with plain types that every peer stores."""
        rows = cls(place / "lineitem.parquet", place / "scattered.parquet", place / "one-month.parquet")
        if not rows.one_month.exists():
            generate(place / "generated", scale, ["lineitem"])
            first = _write_plain(place / "generated" / "lineitem.parquet", rows.all)
            months = [number % ADDED_MONTHS for number in range(ADDED_ROWS)]
            scattered = [date(FIRST_YEAR + month // 12, month % 12 + 1, DAY.day) for month in months]
            pq.write_table(_replace_dates(first, scattered), rows.scattered)
            pq.write_table(_replace_dates(first, [DAY] * ADDED_ROWS), rows.one_month)
        return rows


def _write_plain(source: Path, target: Path) -> pa.Table:
    """Write a file again without string views and field metadata; return its first rows."""
    file = pq.ParquetFile(source)
    fields = [f.remove_metadata() for f in file.schema_arrow]
    schema = pa.schema([f.with_type(pa.utf8()) if pa.types.is_string_view(f.type) else f for f in fields])
    with pq.ParquetWriter(target, schema) as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group).cast(schema))
    return pq.ParquetFile(target).read_row_group(0).slice(0, ADDED_ROWS)


def _replace_dates(rows: pa.Table, dates: list[date]) -> pa.Table:
    place = rows.schema.get_field_index("l_shipdate")
    return rows.set_column(place, rows.schema.field(place), pa.array(dates, pa.date32()))


def _generator() -> str:
    """The generator that is installed beside this Python."""
    path = Path(sys.executable).with_name("tpchgen-cli")
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; expected `uv run --group bench python -m benchmarks`")
    return str(path)
