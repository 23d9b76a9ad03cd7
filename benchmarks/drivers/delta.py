"""deltalake with the DataFusion that is built into it; its users keep the columns `y` and `m` and name them in their conditions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from benchmarks.drivers.driver import TABLE, Client, Driver, read_batches

MONTHS = {"y": pc.year, "m": pc.month}


class Delta(Driver):
    def load(self, rows: Path) -> None:
        source = read_batches(rows)
        schema = pa.schema([*source.schema, *(pa.field(name, pa.int64()) for name in MONTHS)])
        self._write(pa.RecordBatchReader.from_batches(schema, map(_add_months, source)))

    def append(self, rows: pa.Table) -> None:
        self._write(pa.Table.from_batches(map(_add_months, rows.to_batches())))

    def connect(self) -> Client:
        return lambda question: map(pa.record_batch, self._queries.execute(question.sql(by_months=True)))

    def _write(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        write_deltalake(str(self.place), rows, mode="append", partition_by=list(MONTHS))
        self._queries = QueryBuilder().register(TABLE, DeltaTable(str(self.place)))


def _add_months(batch: pa.RecordBatch) -> pa.RecordBatch:
    for name, month in MONTHS.items():
        batch = batch.append_column(name, month(batch["l_shipdate"]))
    return batch
