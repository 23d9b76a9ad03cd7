"""Orders and line items of TPC-H, both in buckets of the order's key: made by `tpchgen-cli`, stored by our own ingest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data, engines

PARTITION_BY: Mapping[str, str] = MappingProxyType(
    {"orders": "bucket(16, o_orderkey)", "lineitem": "bucket(8, l_orderkey)"}
)
"""As many buckets in one table as in two of the other's: partitions meet although the numbers differ."""


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


def _generator() -> str:
    """The generator that is installed beside this Python."""
    path = Path(sys.executable).with_name("tpchgen-cli")
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; expected `uv run --group bench python -m benchmarks`")
    return str(path)
