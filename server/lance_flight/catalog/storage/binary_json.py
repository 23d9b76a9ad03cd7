"""Documents in the form that Lance stores them in (JSONB), which is what it hands over where new columns are computed from them."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa

from lance_flight.model.arrow_json import EXTENSION_NAME
from lance_flight.model.arrow_types import contiguous

_STORED = {EXTENSION_NAME: "lance.json"}


def with_documents(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Return a batch with the documents of some columns that are in Lance's form; Lance reads them, from a table in memory.

    On a thread of its own: batches come in the midst of Lance's work, where it takes no further calls.
    """
    found = [name for name in batch.schema.names if name in names]
    if not found:
        return batch
    columns = {name: batch.column(name) for name in found}
    schema = pa.schema([pa.field(name, column.type, metadata=_STORED) for name, column in columns.items()])
    stored = pa.Table.from_arrays(list(columns.values()), schema=schema)
    with ThreadPoolExecutor(1, thread_name_prefix="json") as pool:
        read = pool.submit(_read, stored).result()
    for name in found:
        column = contiguous(read.column(name))
        batch = batch.set_column(batch.schema.get_field_index(name), pa.field(name, column.type), column)
    return batch


def _read(stored: pa.Table) -> pa.Table:
    return lance.write_dataset(stored, f"memory://{secrets.token_hex(8)}").to_table()
