"""Writing data files of a table, laid out as the one that Lance itself has written for the same columns.

Lance's own way looks through the table and its columns each time, which takes as long as the file.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments
from lance.schema import LanceSchema

from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.whole_files import DATA, seal, seal_fragments


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Layout of a data file: the numbers of its fields, the column of each, and its version of Lance's format."""

    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int

    @classmethod
    def of(cls, file: DataFile) -> FileLayout:
        """Return the layout of a file that Lance has written."""
        return cls(tuple(file.fields), tuple(file.column_indices), file.file_major_version, file.file_minor_version)

    @property
    def version(self) -> str:
        """The version of the format as Lance takes it."""
        return f"{self.major}.{self.minor}"

    def with_field_numbers(self, numbers: Sequence[int]) -> FileLayout:
        """Return the same layout in a table that gives its fields these numbers."""
        return replace(self, fields=tuple(numbers[number] for number in self.fields))

    def writer(
        self, place: Store, schema: pa.Schema, *, is_small: bool, cache_bytes: int | None = None
    ) -> LanceFileWriter:
        """Begin a file at a place; one that `is_small` is kept in memory until it is whole."""
        return LanceFileWriter(
            place.uri_for_small_files if is_small else place.uri,
            quickly_read(schema),
            data_cache_bytes=cache_bytes,
            version=self.version,
            storage_options=place.options or None,
        )

    def fragment(self, name: str, size: int, rows: int) -> FragmentMetadata:
        """Describe a file of this layout, as a commit refers to it."""
        file = DataFile(name, list(self.fields), list(self.column_indices), self.major, self.minor, size)
        return FragmentMetadata(id=0, files=[file], physical_rows=rows)


_WIDTH, _NO_DICTIONARY = 64, MappingProxyType({b"lance-encoding:dict-divisor": b"1000000"})


def quickly_read(schema: pa.Schema) -> pa.Schema:
    """Return a schema by which Lance writes columns of 64-bit numbers and times without a dictionary.

    It makes one where values repeat, which takes twice as long to write and to read as what it packs into fewer bits.

    >>> quickly_read(pa.schema({"id": pa.int64(), "name": pa.utf8()})).field("id").metadata
    {b'lance-encoding:dict-divisor': b'1000000'}
    """
    return pa.schema(
        [
            field.with_metadata({**(field.metadata or {}), **_NO_DICTIONARY}) if _is_of_64_bits(field.type) else field
            for field in schema
        ],
        schema.metadata,
    )


def _is_of_64_bits(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) and not pa.types.is_floating(kind) and kind.bit_width == _WIDTH)


class FurtherFiles:
    """Writer of data files of one table; Lance writes the first one for each set of columns. Safe to share among threads."""

    def __init__(self) -> None:
        self._first: tuple[LanceSchema, FileLayout] | None = None

    def write(self, table: Store, dataset: LanceDataset, rows: pa.Table) -> FragmentMetadata:
        """Write rows as one file that nothing refers to yet; `dataset` is the table, at a version with their columns."""
        first, columns = self._first, dataset.lance_schema
        if first is None or first[0] != columns:
            (written,) = seal_fragments(
                table.uri,
                write_fragments(
                    rows, dataset, schema=rows.schema, mode="append", storage_options=table.options or None
                ),
            )
            self._first = columns, FileLayout.of(written.files[0])
            return written
        name, layout = f"{secrets.token_hex(16)}.lance", first[1]
        writer = layout.writer(table.child(DATA, name), rows.schema, is_small=rows.nbytes <= SMALL_BYTES)
        writer.write_batch(rows)
        writer.close()
        return layout.fragment(seal(table.uri, name, writer.size_bytes), writer.size_bytes, rows.num_rows)
