"""PyIceberg with its catalog in SQLite: it plans, prunes and reads what DuckDB then aggregates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.transforms import MonthTransform

from benchmarks.drivers.driver import BATCH_ROWS, TABLE, Client, Driver, NormalForm


class Iceberg(Driver):
    def load(self, rows: Path) -> None:
        catalog = SqlCatalog("peers", uri=f"sqlite:///{self.place}/catalog.db", warehouse=self.place.as_uri())
        catalog.create_namespace("peers")
        self._table = catalog.create_table(f"peers.{TABLE}", schema=pq.read_schema(rows))
        with self._table.update_spec() as spec:
            spec.add_field("l_shipdate", MonthTransform(), "l_shipdate_month")
        self.append(pq.read_table(rows))  # it writes no streams into partitions

    def append(self, rows: pa.Table) -> None:
        self._table.append(rows)

    def connect(self) -> Client:
        connection = self.stack.enter_context(duckdb.connect())

        def ask(question: NormalForm) -> Iterable[pa.RecordBatch]:
            if question.is_whole:
                return cast("Iterable[pa.RecordBatch]", self._scan(question))
            if question.columns:
                connection.register(TABLE, self._scan(question))
            return cast(
                "Iterable[pa.RecordBatch]",
                connection.sql(replace(question, where="").sql()).to_arrow_reader(BATCH_ROWS),
            )

        return ask

    def _scan(self, question: NormalForm) -> pa.RecordBatchReader:
        condition = question.where.replace("DATE ", "") or AlwaysTrue()
        return self._table.scan(row_filter=condition, selected_fields=tuple(question.columns)).to_arrow_batch_reader()
