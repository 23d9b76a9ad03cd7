"""The numbers that Lance gives the fields of a table, and schemas with numbers of our choice.

A data file says which fields it holds by their numbers. Whoever changes a table's schema without writing its data again
has to keep the number of each field that stays, and to give new fields numbers that no file of the table uses.
A schema can be made with any numbers through the form in which it is pickled: one protobuf message for each field
(lance.file.Field), of which we touch `id` and `parent_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from lance import LanceDataset
from lance.schema import LanceSchema

from lance_flight.model.nested import children
from lance_flight.model.schema import TABLE_FIELD_ID

NO_PARENT = -1
Key = int | tuple["Key | None", str]
"""What names a field of a partition table: the id of the namespace's field that it holds, else its name within another."""


def field_id(field: pa.Field) -> int | None:
    """The namespace's id of a field of a partition table; None where the table keeps none."""
    text = (field.metadata or {}).get(TABLE_FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def walk(fields: Sequence[pa.Field], above: Key | None = None) -> Iterator[tuple[Key, pa.Field]]:
    """All fields, those inside others too, in the order in which Lance numbers them, with what names each in a table.

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
    """The fields inside a type that Lance has fields for: to it a vector is one value.

    >>> stored_children(pa.list_(pa.float32(), 128))
    []
    """
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_struct(kind.value_type):
        return []
    return children(kind)


def numbers(schema: LanceSchema) -> list[int]:
    """Lance's number of each field, in the order of `walk`."""
    return [number for field in schema.fields() for number in _numbers(field)]


def leaves(schema: LanceSchema) -> list[int]:
    """The numbers of the fields that have data of their own, ascending: those that a file with all columns holds."""
    return sorted(number for field in schema.fields() for number in _leaves(field))


def free_number(dataset: LanceDataset) -> int:
    """A number from which on none was ever given to a field that a file of this version still holds."""
    in_files = (n for fragment in dataset.get_fragments() for file in fragment.metadata.files for n in file.fields)
    return max(int(dataset.max_field_id), max(in_files, default=0)) + 1


def with_numbers(schema: pa.Schema, known: Mapping[Key, int], free: int) -> LanceSchema:
    """A schema whose fields have the numbers that `known` holds for them, and others ones from `free` on."""
    make, (metadata, *encoded) = LanceSchema.from_pyarrow(schema).__reduce__()
    fields = [_Field.FromString(each) for each in encoded]
    given: dict[int, int] = {NO_PARENT: NO_PARENT}
    for message, (mine, _) in zip(fields, walk(list(schema)), strict=True):
        number = known.get(mine)
        if number is None:
            number, free = free, free + 1
        given[message.id] = number
    for message in fields:
        message.id, message.parent_id = given[message.id], given[message.parent_id]
    made: LanceSchema = make(metadata, *(message.SerializeToString() for message in fields))
    return made


def _numbers(field: Any) -> Iterator[int]:
    yield int(field.id())
    for child in field.children():
        yield from _numbers(child)


def _leaves(field: Any) -> Iterator[int]:
    inner = field.children()
    if not inner:
        yield int(field.id())
    for child in inner:
        yield from _leaves(child)


def _field_message() -> Any:
    """A message with the two members that matter; all others pass through it unknown, and unchanged."""
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
