"""Data files that take rows as they come: one open file for each partition, instead of one file for each batch of it.

Lance writes whole fragments at a time, which for many partitions means many small files, or much memory. Its file
writer takes batches; what is missing is the fragment's description, and that depends on the schema alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments

from lance_flight.catalog.storage.file_versions import check_values, unstorable_in
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import DATA, check_file
from lance_flight.catalog.tables.lance_fields import new_schema, numbers
from lance_flight.catalog.tables.rows import aligned
from lance_flight.errors import SchemaError
from lance_flight.model.file_versions import FILE_VERSIONS, NEWEST

KEPT_LAYOUTS = 256


@dataclass(frozen=True, slots=True)
class Layout:
    """How Lance lays the columns of one schema out in a data file, and numbers them in a table."""

    schema: pa.Schema
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    version: tuple[int, int]

    @classmethod
    @lru_cache(KEPT_LAYOUTS)
    def of(cls, schema: pa.Schema, file_version: str = NEWEST) -> Layout:
        """The layout that Lance itself gives a new table; asked by writing a row to memory, once for each schema."""
        nullable = pa.schema(map(_nullable, schema))
        row = pa.Table.from_arrays([_row(field.type) for field in nullable], schema=nullable)
        (fragment,) = write_fragments(
            row,
            f"memory://{secrets.token_hex(8)}",
            schema=nullable,
            mode="create",
            data_storage_version=file_version,
        )
        (file,) = fragment.files
        return cls(
            schema,
            tuple(file.fields),
            tuple(file.column_indices),
            (file.file_major_version, file.file_minor_version),
        )

    @classmethod
    def of_new(cls, schema: pa.Schema, file_version: str) -> Layout:
        """The layout in a new partition table, with its columns in the numbers of their ids."""
        found, known = cls.of(schema, file_version), numbers(new_schema(schema))
        return replace(found, fields=tuple(known[number] for number in found.fields))

    def for_table(self, dataset: LanceDataset) -> Layout | None:
        """The layout of the same columns in a table that is there, in its version of Lance's format.

        None where it has other columns, or files of a version that no new table has.
        """
        file_version = str(dataset.data_storage_version)
        if file_version not in FILE_VERSIONS:
            return None
        there = dataset.schema
        same = there.names == self.schema.names and there.types == self.schema.types
        if not same or any(
            mine.nullable and not their.nullable for mine, their in zip(self.schema, there, strict=True)
        ):
            return None
        mine, known = Layout.of(there, file_version), numbers(dataset.lance_schema)
        return replace(mine, fields=tuple(known[number] for number in mine.fields))


def _nullable(field: pa.Field) -> pa.Field:
    """A field that may be NULL, and so may those inside it where it is a struct."""
    kind = field.type
    if pa.types.is_struct(kind) and kind.num_fields:
        kind = pa.struct(list(map(_nullable, kind)))
    return field.with_type(kind).with_nullable(nullable=True)


def _row(kind: pa.DataType) -> pa.Array:
    """One value that files of every version can hold: structs are not NULL, what is inside is."""
    if not pa.types.is_struct(kind) or not kind.num_fields:
        return pa.nulls(1, kind)
    return pa.StructArray.from_arrays([_row(field.type) for field in kind], fields=list(kind))


class OpenFile:
    """A data file of one table that is still being written. Not safe to share among threads."""

    def __init__(self, table: Store, layout: Layout, *, cache_bytes: int) -> None:
        self._place, self._table = table.uri, f"table {table.name!r}"
        self._file_version = ".".join(map(str, layout.version))
        problems = unstorable_in(layout.schema, self._file_version)
        if problems:
            raise SchemaError(self._table, problems)
        self.name = f"{secrets.token_hex(16)}.lance"
        self.rows = 0
        self._layout = layout
        self._writer = LanceFileWriter(
            table.child(DATA, self.name).uri,
            layout.schema,
            data_cache_bytes=cache_bytes,
            version=self._file_version,
            storage_options=table.options or None,
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows; they are of exactly the layout's schema."""
        for batch in batches:
            check_values(pa.Table.from_batches([batch]), self._file_version, self._table)
            self._writer.write_batch(aligned(batch))
            self.rows += batch.num_rows

    def close(self) -> FragmentMetadata:
        """End the file and return what a commit needs to know of it."""
        self._writer.close()
        major, minor = self._layout.version
        file = DataFile(
            path=self.name,
            fields=list(self._layout.fields),
            column_indices=list(self._layout.column_indices),
            file_major_version=major,
            file_minor_version=minor,
            file_size_bytes=self._writer.size_bytes,
        )
        check_file(self._place, self.name, self._writer.size_bytes)
        return FragmentMetadata(id=0, files=[file], physical_rows=self.rows)
