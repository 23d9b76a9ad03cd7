"""Data files of tables, laid out as Lance itself lays out the same columns, and written while their rows come.

Lance writes whole fragments at a time, which for many partitions means many small files, or much memory, and looks through the table and
its columns each time, which takes as long as a small file. Its file writer takes batches; what is missing is the fragment's description,
and that depends on the schema alone.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from types import MappingProxyType

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments
from lance.schema import LanceSchema

from lance_flight.catalog.storage.formats import check_values, unstorable_in
from lance_flight.catalog.storage.lance_columns import new_schema, numbers
from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.whole_files import DATA, seal
from lance_flight.errors import SchemaError
from lance_flight.lru_cache import LruCache
from lance_flight.model.arrow_types import align_buffers
from lance_flight.model.file_versions import FILE_VERSIONS, NEWEST
from lance_flight.model.schema import KEY_POSITION, PRIMARY_KEY

KEPT_LAYOUTS, KEPT_TABLES = 256, 4


@dataclass(frozen=True)
class Layout:
    """Layout of the columns of one schema in a data file: the number of each field in a table, the column of each, and the file's version."""

    schema: pa.Schema
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    version: tuple[int, int]
    _known: deque[tuple[LanceSchema, str, Layout | None]] = field(
        default_factory=partial(deque, maxlen=KEPT_TABLES), init=False, repr=False, compare=False
    )
    """The columns of tables that were met last, with what was found for them: most tables of a namespace have the same."""
    _by_columns: LruCache[bytes, tuple[Layout | None]] = field(
        default_factory=partial(LruCache, KEPT_TABLES), init=False, repr=False, compare=False
    )
    """The same by the columns as version files say them."""

    @classmethod
    @lru_cache(KEPT_LAYOUTS)
    def of(cls, schema: pa.Schema, file_version: str = NEWEST) -> Layout:
        """Return the layout that Lance itself gives a new table: asked by writing a row to memory, once for each schema."""
        nullable = pa.schema(map(_nullable, schema))
        row = pa.Table.from_arrays([_row(field.type) for field in nullable], schema=nullable)
        place = f"memory://{secrets.token_hex(8)}"
        (fragment,) = write_fragments(row, place, schema=nullable, mode="create", data_storage_version=file_version)
        (file,) = fragment.files
        version = file.file_major_version, file.file_minor_version
        return cls(schema, tuple(file.fields), tuple(file.column_indices), version)

    @classmethod
    def of_new(cls, schema: pa.Schema, file_version: str) -> Layout:
        """Return the layout in a new partition table, with its columns in the numbers of their ids."""
        # Two schemas are equal whose fields have other ids.
        return cls._of_new(schema.serialize().to_pybytes(), file_version)

    @classmethod
    @lru_cache(KEPT_LAYOUTS)
    def _of_new(cls, serialized: bytes, file_version: str) -> Layout:
        schema = pa.ipc.read_schema(pa.py_buffer(serialized))
        return cls.of(schema, file_version).with_field_numbers(numbers(new_schema(schema)))

    def with_field_numbers(self, numbers: Sequence[int]) -> Layout:
        """Return the same layout in a table that gives its fields these numbers."""
        return replace(self, fields=tuple(numbers[number] for number in self.fields))

    def find(self, columns: bytes | None, open_table: Callable[[], LanceDataset]) -> Layout | None:
        """Return what `for_table` does; a table is opened where its columns, as its version file says them, are not known or new."""
        if columns is None:
            return self.for_table(open_table())
        return self._by_columns.find(columns, lambda: (self.for_table(open_table()),))[0]

    def for_table(self, dataset: LanceDataset) -> Layout | None:
        """Return the layout of the same columns in a table that is there, in its version of Lance's format.

        None where it has other columns, or files of a version that no new table has.
        """
        columns, file_version = dataset.lance_schema, str(dataset.data_storage_version)
        for there, version, layout in tuple(self._known):
            if version == file_version and there == columns:
                return layout
        layout = self._for_table(dataset, file_version)
        self._known.appendleft((columns, file_version, layout))
        return layout

    def _for_table(self, dataset: LanceDataset, file_version: str) -> Layout | None:
        if file_version not in FILE_VERSIONS:
            return None
        there = dataset.schema
        same = there.names == self.schema.names and there.types == self.schema.types
        if not same or any(
            mine.nullable and not their.nullable for mine, their in zip(self.schema, there, strict=True)
        ):
            return None
        return Layout.of(there, file_version).with_field_numbers(numbers(dataset.lance_schema))

    @property
    def file_version(self) -> str:
        """The version of the format as Lance takes it."""
        return ".".join(map(str, self.version))

    @cached_property
    def problems(self) -> list[str]:
        """Problems of the columns that files of this version cannot hold."""
        return unstorable_in(self.schema, self.file_version)


class OpenFile:
    """A data file of one table that is still being written; one that `is_small` is kept in memory until it is whole. Not safe to share among threads."""

    def __init__(self, table: Store, layout: Layout, *, cache_bytes: int | None = None, is_small: bool = False) -> None:
        self._place, self._table = table.uri, f"table {table.name!r}"
        if layout.problems:
            raise SchemaError(self._table, layout.problems)
        self.name = f"{secrets.token_hex(16)}.lance"
        self.rows = 0
        self._layout = layout
        place = table.child(DATA, self.name)
        self._writer = LanceFileWriter(
            place.uri_for_small_files if is_small else place.uri,
            quickly_read(layout.schema),
            data_cache_bytes=cache_bytes,
            version=layout.file_version,
            storage_options=place.options or None,
        )

    def write(self, rows: pa.Table) -> None:
        """Add rows; they are of the layout's columns."""
        check_values(rows, self._layout.file_version, self._table)
        for batch in rows.to_batches():
            self._writer.write_batch(align_buffers(batch, self._layout.schema))
            self.rows += batch.num_rows

    def close(self) -> FragmentMetadata:
        """End the file and return what a commit needs to know of it."""
        self._writer.close()
        layout, size = self._layout, self._writer.size_bytes
        self.name = seal(self._place, self.name, size)
        file = DataFile(self.name, list(layout.fields), list(layout.column_indices), *layout.version, size)
        return FragmentMetadata(id=0, files=[file], physical_rows=self.rows)


def write_file(table: Store, layout: Layout, rows: pa.Table) -> FragmentMetadata:
    """Write rows as one data file of a table, which nothing refers to yet."""
    # Layouts are kept by their columns, of which these may say more.
    file = OpenFile(table, replace(layout, schema=rows.schema), is_small=rows.nbytes <= SMALL_BYTES)
    file.write(rows)
    return file.close()


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
