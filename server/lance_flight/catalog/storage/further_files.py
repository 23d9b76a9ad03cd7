"""Writing data files of a table, laid out as one that Lance itself has written for the same columns.

Lance's own way looks through the table and its columns each time, which takes as long as the file.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import pyarrow as pa
from lance import FragmentMetadata
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments

from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.whole_files import DATA, seal
from lance_flight.model.schema import KEY_POSITION, PRIMARY_KEY

KEPT_LAYOUTS = 256


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

    @classmethod
    @lru_cache(KEPT_LAYOUTS)
    def of_columns(cls, schema: pa.Schema, version: str) -> FileLayout:
        """Return the layout that Lance itself gives a new table with files of a version.

        Asked by writing a row to memory, once for each schema.
        """
        nullable = pa.schema(map(_nullable, schema))
        row = pa.Table.from_arrays([_row(field.type) for field in nullable], schema=nullable)
        place = f"memory://{secrets.token_hex(8)}"
        (fragment,) = write_fragments(row, place, schema=nullable, mode="create", data_storage_version=version)
        return cls.of(fragment.files[0])

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


def write_file(table: Store, layout: FileLayout, rows: pa.Table) -> FragmentMetadata:
    """Write rows as one data file of a table, which nothing refers to yet."""
    name = f"{secrets.token_hex(16)}.lance"
    writer = layout.writer(table.child(DATA, name), rows.schema, is_small=rows.nbytes <= SMALL_BYTES)
    writer.write_batch(rows)
    writer.close()
    return layout.fragment(seal(table.uri, name, writer.size_bytes), writer.size_bytes, rows.num_rows)


def _nullable(field: pa.Field) -> pa.Field:
    """Return a field that may be NULL, and so may those inside it where it is a struct."""
    kind = field.type
    if pa.types.is_struct(kind) and kind.num_fields:
        kind = pa.struct(list(map(_nullable, kind)))
    # Lance refuses a primary key that may be NULL; other metadata says how values are stored.
    metadata = {key: text for key, text in (field.metadata or {}).items() if key not in (PRIMARY_KEY, KEY_POSITION)}
    return pa.field(field.name, kind, nullable=True, metadata=metadata)


def _row(kind: pa.DataType) -> pa.Array:
    """Return one value that files of every version can hold: structs are not NULL, what is inside is."""
    if not pa.types.is_struct(kind) or not kind.num_fields:
        return pa.nulls(1, kind)
    return pa.StructArray.from_arrays([_row(field.type) for field in kind], fields=list(kind))
