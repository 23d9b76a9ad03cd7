"""Data files with the columns of a table, laid out as the one that Lance itself has written for the same columns.

Lance's own way looks through the table and its columns each time, which takes as long as the file.
"""

from __future__ import annotations

import secrets

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments
from lance.schema import LanceSchema

from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.whole_files import DATA, check_file


class FurtherFiles:
    """Writes data files of one table; Lance writes the first one for each set of columns. Safe to share among threads."""

    def __init__(self) -> None:
        self._first: tuple[LanceSchema, DataFile] | None = None

    def write(self, table: Store, dataset: LanceDataset, rows: pa.Table) -> FragmentMetadata:
        """Write rows as one file that nothing refers to yet; `dataset` is the table, at a version with their columns."""
        first, columns = self._first, dataset.lance_schema
        if first is None or first[0] != columns:
            (written,) = write_fragments(
                rows, dataset, schema=rows.schema, mode="append", storage_options=table.options or None
            )
            self._first = columns, written.files[0]
        else:
            written = _write_like(first[1], table, rows)
        for file in written.files:
            check_file(table.uri, file.path, file.file_size_bytes)
        return written


def _write_like(first: DataFile, table: Store, rows: pa.Table) -> FragmentMetadata:
    name = f"{secrets.token_hex(16)}.lance"
    place = table.child(DATA, name)
    writer = LanceFileWriter(
        place.uri_for_small_files if rows.nbytes <= SMALL_BYTES else place.uri,
        rows.schema,
        version=f"{first.file_major_version}.{first.file_minor_version}",
        storage_options=table.options or None,
    )
    writer.write_batch(rows)
    writer.close()
    file = DataFile(
        name,
        list(first.fields),
        list(first.column_indices),
        first.file_major_version,
        first.file_minor_version,
        writer.size_bytes,
    )
    return FragmentMetadata(id=0, files=[file], physical_rows=rows.num_rows)
