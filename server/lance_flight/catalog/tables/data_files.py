"""Data files that take rows as they come: one open file for each partition, instead of one file for each batch of it.

Lance writes whole fragments at a time, which for many partitions means many small files, or much memory. Its file
writer takes batches; what is missing is the fragment's description, and that depends on the schema alone.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.schema import LanceSchema

from lance_flight.catalog.storage.formats import check_values, unstorable_in
from lance_flight.catalog.storage.further_files import KEPT_LAYOUTS, FileLayout
from lance_flight.catalog.storage.lance_fields import new_schema, numbers
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import DATA, seal
from lance_flight.catalog.tables.rows import align_buffers
from lance_flight.errors import SchemaError
from lance_flight.lru_cache import LruCache
from lance_flight.model.file_versions import FILE_VERSIONS, NEWEST

KEPT_TABLES = 4


@dataclass(frozen=True)
class Layout:
    """Layout by Lance of the columns of one schema in a data file, with their numbers in a table."""

    schema: pa.Schema
    file: FileLayout
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
        """Return the layout that Lance itself gives a new table."""
        return cls(schema, FileLayout.of_columns(schema, file_version))

    @classmethod
    def of_new(cls, schema: pa.Schema, file_version: str) -> Layout:
        """Return the layout in a new partition table, with its columns in the numbers of their ids."""
        # Two schemas are equal whose fields have other ids.
        return cls._of_new(schema.serialize().to_pybytes(), file_version)

    @classmethod
    @lru_cache(KEPT_LAYOUTS)
    def _of_new(cls, serialized: bytes, file_version: str) -> Layout:
        schema = pa.ipc.read_schema(pa.py_buffer(serialized))
        layout = cls.of(schema, file_version)
        return replace(layout, file=layout.file.with_field_numbers(numbers(new_schema(schema))))

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
        mine = Layout.of(there, file_version)
        return replace(mine, file=mine.file.with_field_numbers(numbers(dataset.lance_schema)))

    @cached_property
    def problems(self) -> list[str]:
        """Problems of the columns that files of this version cannot hold."""
        return unstorable_in(self.schema, self.file.version)


class OpenFile:
    """A data file of one table that is still being written; one that `is_small` is kept in memory until it is whole. Not safe to share among threads."""

    def __init__(self, table: Store, layout: Layout, *, cache_bytes: int, is_small: bool = False) -> None:
        self._place, self._table = table.uri, f"table {table.name!r}"
        if layout.problems:
            raise SchemaError(self._table, layout.problems)
        self.name = f"{secrets.token_hex(16)}.lance"
        self.rows = 0
        self._layout = layout
        self._writer = layout.file.writer(
            table.child(DATA, self.name), layout.schema, is_small=is_small, cache_bytes=cache_bytes
        )

    def write(self, rows: pa.Table) -> None:
        """Add rows; they are of the layout's columns."""
        check_values(rows, self._layout.file.version, self._table)
        for batch in rows.to_batches():
            self._writer.write_batch(align_buffers(batch, self._layout.schema))
            self.rows += batch.num_rows

    def close(self) -> FragmentMetadata:
        """End the file and return what a commit needs to know of it."""
        self._writer.close()
        self.name = seal(self._place, self.name, self._writer.size_bytes)
        return self._layout.file.fragment(self.name, self._writer.size_bytes, self.rows)
