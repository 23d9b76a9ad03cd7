"""Columns as Lance stores them: the numbers of their fields, its own forms of blobs and of JSON, and the data files that hold them.

A data file says which fields it holds by their numbers. Whoever changes a table's schema without writing its data again
has to keep the number of each field that stays, and to give new fields numbers that no file of the table uses. A field has the
same number in all tables of a namespace, its id there, unless a file of the table used that for another: whoever knows no ids
of ours finds columns by these numbers.
A schema can be made with any numbers through the form in which it is pickled: one protobuf message for each field
(lance.file.Field), of which we touch `id` and `parent_id`.

Files of versions before 2.2 have blobs as a binary column with a mark. Those of 2.2 have an extension type, whose values lie in the
file, in files beside it, or at any URI; Lance writes what has the mark in this form, too. A URI is never followed: it leads out of the root.

Data files are laid out as Lance itself lays out the same columns, and written while their rows come. Lance writes whole fragments at a time, which for many partitions means many small files, or much memory, and looks through the table and
its columns each time, which takes as long as a small file. Its file writer takes batches; what is missing is the fragment's description,
and that depends on the schema alone.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import count
from types import MappingProxyType
from typing import Any, BinaryIO

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceFragment
from lance.blob import BlobType
from lance.file import LanceFileWriter
from lance.fragment import DataFile, write_fragments
from lance.schema import LanceSchema

from lance_flight.catalog.storage.formats import check_values, unstorable_in
from lance_flight.catalog.storage.store import SMALL_BYTES, Store
from lance_flight.catalog.storage.whole_files import DATA, MESSAGES, change_fragments, seal
from lance_flight.errors import SchemaError, Unsupported
from lance_flight.lru_cache import LruCache
from lance_flight.model.arrow_json import EXTENSION_NAME
from lance_flight.model.arrow_types import align_buffers, children, contiguous, rebuilt
from lance_flight.model.file_versions import FILE_VERSIONS, NEWEST
from lance_flight.model.schema import KEY_POSITION, MARKED, PRIMARY_KEY, TABLE_FIELD_ID, is_blob

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


KEPT_SCHEMAS = 256
NO_PARENT = -1
UNNUMBERED = 1 << 31
"""Beyond all numbers of Lance."""
MOST_CHILDREN = 1 << 12
Key = int | tuple["Key | None", str]
"""Key of a field of a partition table: the id of the namespace's field that it holds, else its name within another."""


def field_id(field: pa.Field) -> int | None:
    """Return the namespace's id of a field of a partition table; None where the table keeps none."""
    text = (field.metadata or {}).get(TABLE_FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def walk(fields: Sequence[pa.Field], above: Key | None = None) -> Iterator[tuple[Key, pa.Field]]:
    """Yield all fields, nested ones too, in the order in which Lance numbers them, with the key of each in a table.

    Lance puts one more field between a map and its two sides, which goes with the map.
    """
    for column in fields:
        number = field_id(column)
        mine: Key = (above, column.name) if number is None else number
        yield mine, column
        if pa.types.is_map(column.type):
            yield (mine, "entries"), column
        yield from walk(stored_children(column.type), mine)


def stored_children(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields inside a type that Lance has fields for: to it a vector is one value.

    >>> stored_children(pa.list_(pa.float32(), 128))
    []
    """
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_struct(kind.value_type):
        return []
    return children(kind)


def numbers(schema: LanceSchema) -> list[int]:
    """Return Lance's number of each field, in the order of `walk`."""
    return [number for field in schema.fields() for number in _numbers(field)]


def numbers_of_columns(dataset: LanceDataset) -> dict[int | None, list[int]]:
    """Return Lance's numbers of the fields of each column of a table, by the namespace's id of the column."""
    columns = zip(columns_of(dataset), dataset.lance_schema.fields(), strict=True)
    return {field_id(column): list(_numbers(stored)) for column, stored in columns}


def number_at(schema: LanceSchema, path: Sequence[str]) -> int | None:
    """Return Lance's number of a column, or of the field inside structs that a path leads to; None without one."""
    number, fields = None, schema.fields()
    for name in path:
        field = next((each for each in fields if each.name() == name), None)
        if field is None:
            return None
        number, fields = int(field.id()), field.children()
    return number


def leaves(schema: LanceSchema) -> list[int]:
    """Return the numbers of the fields that have data of their own, ascending.

    Those that a file with all columns holds.
    """
    return sorted(number for field in schema.fields() for number in _leaves(field))


def without_files(schema: LanceSchema, fragments: Iterable[FragmentMetadata]) -> dict[int, set[int]]:
    """Return the fields of a version, by Lance's numbers, that the files of some fragments lack, and those fragments."""
    expected = set(leaves(schema))
    lacking: dict[int, set[int]] = {}
    for fragment in fragments:
        for number in expected.difference(number for file in fragment.files for number in file.fields):
            lacking.setdefault(number, set()).add(fragment.id)
    return lacking


def chosen_numbers(schema: pa.Schema, known: Mapping[Key, int], least: int) -> dict[Key, int]:
    """Return the numbers of the fields of a schema that are not `known` yet, from `least` on, as Lance wants of new fields.

    They are the ids of the fields in the namespace, as far as these are not below it.
    """
    missing = [key for key, _ in walk(list(schema)) if key not in known]
    wanted = {key: key for key in missing if isinstance(key, int) and key >= least}
    free = count(max([least, *(number + 1 for number in wanted.values())]))
    return {key: wanted[key] if key in wanted else next(free) for key in missing}


def least_number(dataset: LanceDataset) -> int:
    """Return the number from which on none was ever given to a field of this version."""
    in_files = (n for fragment in dataset.get_fragments() for file in fragment.metadata.files for n in file.fields)
    return max(int(dataset.max_field_id), max(in_files, default=0)) + 1


def numbered_columns(dataset: LanceDataset) -> list[pa.Field]:
    """Return the columns of a table with Lance's number of each field in the place of the namespace's id of it.

    A field for which Lance has no number of its own, such as the element of a vector, has one that follows from its parent's.
    """
    return _numbered_fields(columns_of(dataset), dataset.lance_schema.fields(), NO_PARENT)


def _numbered_fields(fields: Sequence[pa.Field], stored: Sequence[Any], parent: int) -> list[pa.Field]:
    """Give fields the numbers of those `stored` for them, which are none below a vector."""
    numbered = []
    for place, column in enumerate(fields):
        mine = stored[place] if len(stored) == len(fields) else None
        number = UNNUMBERED + (parent + 1) * MOST_CHILDREN + place if mine is None else int(mine.id())
        below = [] if mine is None else mine.children()
        if pa.types.is_map(column.type) and len(below) == 1:
            below = below[0].children()
        inner = _numbered_fields(children(column.type), below, number)
        metadata = {**(column.metadata or {}), TABLE_FIELD_ID: str(number).encode()}
        kind = rebuilt(column.type, inner) if inner else column.type
        numbered.append(pa.field(column.name, kind, column.nullable, metadata))
    return numbered


def new_schema(schema: pa.Schema) -> LanceSchema:
    """Return the schema of a new table.

    Numbered by the ids of its fields, or by position where these do not number all of it.
    """
    # Two schemas are equal whose fields have other ids.
    return _new_schema(schema.serialize().to_pybytes())


@lru_cache(KEPT_SCHEMAS)
def _new_schema(serialized: bytes) -> LanceSchema:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    keys = [key for key, _ in walk(list(schema))]
    by_position = LanceSchema.from_pyarrow(schema)
    if not all(isinstance(key, int) for key in keys):
        return by_position
    chosen = with_numbers(schema, {key: key for key in keys if isinstance(key, int)})
    return by_position if seed_of(chosen) is None else chosen


def seed_of(schema: LanceSchema) -> pa.Schema | None:
    """Return what a table begins with that is to have this schema: Lance numbers it by position, and lets nothing but new fields come.

    None where there is no such beginning.
    """
    first = next((field for field in schema.fields() if field.id() == 0), None)
    if first is None:
        return pa.schema([pa.field("", pa.int8())])
    field = first.to_arrow()
    if pa.types.is_struct(field.type):
        return pa.schema([field.with_type(pa.struct([]))])
    seed = pa.schema([field])
    return seed if numbers(LanceSchema.from_pyarrow(seed)) == list(_numbers(first)) else None


def renumber_fragments(fragments: Iterable[FragmentMetadata], moved: Mapping[int, int]) -> list[FragmentMetadata]:
    """Return new fragments whose files hold fields under other numbers."""

    def renumber(fragment: dict[str, Any]) -> None:
        for file in fragment["files"]:
            file["fields"] = [moved.get(number, number) for number in file["fields"]]

    return change_fragments(fragments, renumber)


def with_numbers(schema: pa.Schema, known: Mapping[Key, int], stored: pa.Schema | None = None) -> LanceSchema:
    """Return a schema whose fields have the numbers that `known` holds for them.

    `stored` are the same fields with the metadata that the table is to keep of them, if not that of `schema`.
    """
    make, (metadata, *encoded) = LanceSchema.from_pyarrow(stored or schema).__reduce__()
    fields = [MESSAGES.Field.FromString(field) for field in encoded]
    given: dict[int, int] = {NO_PARENT: NO_PARENT}
    for message, (mine, _) in zip(fields, walk(list(schema)), strict=True):
        given[message.id] = known[mine]
    for message in fields:
        message.id, message.parent_id = given[message.id], given[message.parent_id]
    made: LanceSchema = make(metadata, *(message.SerializeToString() for message in fields))
    return made


def _numbers(field: Any) -> Iterator[int]:
    yield int(field.id())
    for child in _children(field):
        yield from _numbers(child)


def _children(field: Any) -> list[Any]:
    """Return the fields inside a field of Lance that files list; of a blob of its extension type they list none."""
    inner: list[Any] = field.children()
    is_blob = [each.name() for each in inner[:2]] == ["data", "uri"] and isinstance(field.to_arrow().type, BlobType)
    return [] if is_blob else inner


def _leaves(field: Any) -> Iterator[int]:
    inner = _children(field)
    if not inner:
        yield int(field.id())
    for child in inner:
        yield from _leaves(child)


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
