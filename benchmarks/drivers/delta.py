"""deltalake with the DataFusion that is built into it; its users keep the columns `y` and `m` and put them into their conditions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from benchmarks.drivers.driver import Client, Driver, batches, run
from benchmarks.drivers.question import TABLE


class Delta(Driver):
    def load(self, rows: Path) -> None:
        source = batches(rows)
        empty = pa.RecordBatch.from_pylist([], source.schema)
        schema = _with_months(empty).schema
        self._write(pa.RecordBatchReader.from_batches(schema, map(_with_months, source)))

    def append(self, rows: pa.Table) -> None:
        self._write(pa.Table.from_batches(map(_with_months, rows.combine_chunks().to_batches())))

    def _write(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        write_deltalake(str(self.place), rows, mode="append", partition_by=["y", "m"])
        self._queries = QueryBuilder().register(TABLE, DeltaTable(str(self.place)))

    def connect(self) -> Client:
        return lambda question: map(pa.record_batch, self._queries.execute(question.sql(by_months=True)))


def _with_months(batch: pa.RecordBatch) -> pa.RecordBatch:
    date = batch["l_shipdate"]
    months = {"y": pc.year(date).cast(pa.int32()), "m": pc.month(date).cast(pa.int32())}
    names = [*batch.schema.names, *months]
    return pa.RecordBatch.from_arrays([*batch.columns, *months.values()], names)


if __name__ == "__main__":
    run(Delta)
