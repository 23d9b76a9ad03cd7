"""Columns that Lance stores in forms of its own: blobs, and documents as binary JSON.

Files of versions before 2.2 have a binary column with a mark. Those of 2.2 have an extension type, whose values lie in the file,
in files beside it, or at any URI; Lance writes what has the mark in this form, too. A URI is never followed: it leads out of the root.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceFragment
from lance.blob import BlobType

from lance_flight.errors import Unsupported
from lance_flight.model.arrow_json import EXTENSION_NAME
from lance_flight.model.arrow_types import contiguous
from lance_flight.model.schema import MARKED, is_blob

BLOB_BATCH_BYTES = 16 << 20
"""Bytes of a batch with blobs, of which as many rows as one usually has could fill the memory."""

_VALUES: Mapping[str, Any] = {"blob_handling": "all_binary", "batch_size_bytes": BLOB_BATCH_BYTES}
_EXTERNAL = 3
"""The kind in a description whose value lies at a URI of its own."""


def columns_of(dataset: LanceDataset) -> list[pa.Field]:
    """Return the columns of a table as they are read and written: blobs are binary and marked."""
    return [_as_binary(field) if isinstance(field.type, BlobType) else field for field in dataset.schema]


def columns_with_metadata(dataset: LanceDataset) -> pa.Schema:
    """Return `columns_of` a table with what it says of itself."""
    return pa.schema(columns_of(dataset), dataset.schema.metadata)


def has_extension(dataset: LanceDataset) -> bool:
    """Return whether a table has blobs of Lance's extension type, whose values may lie outside its data files."""
    return any(isinstance(field.type, BlobType) for field in dataset.schema)


def blob_arguments(
    dataset: LanceDataset, columns: Collection[str], fragments: Sequence[LanceFragment] | None = None
) -> Mapping[str, Any]:
    """Return the arguments for Lance's scanner that give the values of the blobs among `columns`; none without any.

    `Unsupported` where one of them lies at a URI of its own.
    """
    blobs = [field for field in columns_of(dataset) if field.name in columns and is_blob(field)]
    if not blobs:
        return {}
    extended = [field.name for field in blobs if isinstance(dataset.schema.field(field.name).type, BlobType)]
    if extended:
        _check_inside(dataset, extended, fragments)
    return _VALUES


def all_rows(dataset: LanceDataset) -> pa.RecordBatchReader:
    """Return the rows of a table in `columns_of` it."""
    columns = columns_with_metadata(dataset)
    batches = dataset.scanner(**blob_arguments(dataset, columns.names)).to_reader()
    if not any(map(is_blob, columns)):
        return batches
    marked = (pa.RecordBatch.from_arrays(batch.columns, schema=columns) for batch in batches)
    return pa.RecordBatchReader.from_batches(columns, marked)


def open_blobs(dataset: LanceDataset, column: str, addresses: Sequence[int]) -> list[BinaryIO | None]:
    """Return the blobs of the rows at some addresses as files, which read what is asked of them; None for NULL."""
    blob_arguments(dataset, [column])
    blobs: list[BinaryIO | None] = dataset.take_blobs(column, addresses=list(addresses))
    return blobs


def _as_binary(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.large_binary(), field.nullable, {**(field.metadata or {}), **MARKED})


def _check_inside(dataset: LanceDataset, columns: list[str], fragments: Sequence[LanceFragment] | None) -> None:
    described = dataset.scanner(
        columns=columns,
        fragments=None if fragments is None else list(fragments),
        blob_handling="blobs_descriptions",
    )
    for batch in described.to_reader():
        for name, column in zip(columns, batch.columns, strict=True):
            if pc.any(pc.equal(pc.struct_field(column, "kind"), _EXTERNAL)).as_py():
                raise Unsupported(
                    f"blob column {name!r} has values that lie at URIs of their own, which are not read;"
                    " expected values that are stored in the table"
                )


_STORED = {EXTENSION_NAME: "lance.json"}


def with_documents(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Return a batch with the documents of some columns that are in Lance's form; Lance reads them, from a table in memory.

    On a thread of its own: batches come in the midst of Lance's work, where it takes no further calls.
    """
    document_columns = [name for name in batch.schema.names if name in names]
    if not document_columns:
        return batch
    columns = {name: batch.column(name) for name in document_columns}
    schema = pa.schema([pa.field(name, column.type, metadata=_STORED) for name, column in columns.items()])
    stored = pa.Table.from_arrays(list(columns.values()), schema=schema)
    with ThreadPoolExecutor(1, thread_name_prefix="json") as pool:
        read = pool.submit(_read, stored).result()
    for name in document_columns:
        column = contiguous(read.column(name))
        batch = batch.set_column(batch.schema.get_field_index(name), pa.field(name, column.type), column)
    return batch


def _read(stored: pa.Table) -> pa.Table:
    return lance.write_dataset(stored, f"memory://{secrets.token_hex(8)}").to_table()
