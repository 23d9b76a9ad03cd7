"""One Lance table without partitions, with a BTREE of the date and of the key, through DataFusion's provider of datasets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SessionContext

from benchmarks.drivers.driver import BATCH_ROWS, TABLE, Client, Driver, read_batches


class LanceTable(Driver):
    def load(self, rows: Path) -> None:
        self._table = lance.write_dataset(read_batches(rows), str(self.place / "rows.lance"))
        for column in ("l_shipdate", "l_orderkey"):
            self._table.create_scalar_index(column, "BTREE")
        self._register()

    def append(self, rows: pa.Table) -> None:
        self._table.insert(rows)
        self._register()

    def connect(self) -> Client:
        return lambda question: (batch.to_pyarrow() for batch in self._context.sql(question.sql()).execute_stream())

    def _register(self) -> None:
        self._context = SessionContext()
        self._context.register_dataset(TABLE, _Scans(self._table))


class _Scans(pads.Dataset):
    """The table in as many scans as there are cores; Lance's own class refuses the filter that comes."""

    def __init__(self, table: lance.LanceDataset) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def scanner(self, columns: list[str] | None = None, **_: Any) -> lance.LanceScanner:
        return self._table.scanner(columns=columns)

    def get_fragments(self, filter: pads.Expression | None = None) -> Iterator[_Scan]:
        fragments, scans = self._table.get_fragments(), os.cpu_count() or 1
        return (_Scan(self._table, fragments[first::scans]) for first in range(min(scans, len(fragments))))


@dataclass(frozen=True, slots=True)
class _Scan:
    table: lance.LanceDataset
    fragments: list[lance.LanceFragment]

    def scanner(self, schema: pa.Schema, columns: Any = None, filter: Any = None, **_: Any) -> lance.LanceScanner:
        return self.table.scanner(columns=columns, filter=filter, fragments=self.fragments, batch_size=BATCH_ROWS)
