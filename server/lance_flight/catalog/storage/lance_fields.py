"""The numbers that Lance gives the fields of a table, and schemas with numbers of our choice.

A data file says which fields it holds by their numbers. Whoever changes a table's schema without writing its data again
has to keep the number of each field that stays, and to give new fields numbers that no file of the table uses. A field has the
same number in all tables of a namespace, its id there, unless a file of the table used that for another: whoever knows no ids
of ours finds columns by these numbers.
A schema can be made with any numbers through the form in which it is pickled: one protobuf message for each field
(lance.file.Field), of which we touch `id` and `parent_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from lance import FragmentMetadata, LanceDataset
from lance.blob import BlobType
from lance.schema import LanceSchema

from lance_flight.catalog.storage.blobs import columns_of
from lance_flight.catalog.storage.whole_files import change_fragments
from lance_flight.model.arrow_types import children, rebuilt
from lance_flight.model.schema import TABLE_FIELD_ID

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
    for field in fields:
        number = field_id(field)
        mine: Key = (above, field.name) if number is None else number
        yield mine, field
        if pa.types.is_map(field.type):
            yield (mine, "entries"), field
        yield from walk(stored_children(field.type), mine)


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
    for place, field in enumerate(fields):
        mine = stored[place] if len(stored) == len(fields) else None
        number = UNNUMBERED + (parent + 1) * MOST_CHILDREN + place if mine is None else int(mine.id())
        below = [] if mine is None else mine.children()
        if pa.types.is_map(field.type) and len(below) == 1:
            below = below[0].children()
        inner = _numbered_fields(children(field.type), below, number)
        metadata = {**(field.metadata or {}), TABLE_FIELD_ID: str(number).encode()}
        kind = rebuilt(field.type, inner) if inner else field.type
        numbered.append(pa.field(field.name, kind, field.nullable, metadata))
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
    fields = [_Field.FromString(field) for field in encoded]
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


def _field_message() -> Any:
    """Return a message with the two members that matter; all further ones pass through it unknown, and unchanged."""
    file = descriptor_pb2.FileDescriptorProto(name="lance_fields.proto", package="lance_flight", syntax="proto3")
    message = file.message_type.add(name="Field")
    for name, number in (("id", 3), ("parent_id", 4)):
        kind = descriptor_pb2.FieldDescriptorProto.TYPE_INT32
        label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("lance_flight.Field"))


_Field = _field_message()
