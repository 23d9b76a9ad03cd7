"""A protobuf message ⇄ a frozen dataclass with the same field names.

| protobuf field | value |
|---|---|
| `optional`, not set | None |
| repeated | tuple |
| map | tuple of (key, value), in key order |
| message | what `NESTED` says for its type; None if not set |
| any other | itself |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from google.protobuf.message import Message

_T = TypeVar("_T")
_Field: TypeAlias = Any
"""A field descriptor, of one of two classes: protobuf has a pure Python form and a compiled one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """How a message inside a message becomes a value and back; `write` fills the message it is given."""

    read: Callable[[Message], Any]
    write: Callable[[Message, Any], None]


def read_message(message: Message, kind: type[_T], nested: Mapping[str, Nested]) -> _T:
    """The dataclass `kind` with the values of `message`; `nested` is keyed by the full name of a message type."""
    known = message.DESCRIPTOR.fields_by_name
    return kind(**{name: _read(message, known[name], nested) for name in field_names(kind)})


def write_message(value: Any, message: Message, nested: Mapping[str, Nested]) -> None:
    """Fill `message` with the fields of the dataclass `value`."""
    known = message.DESCRIPTOR.fields_by_name
    for name in field_names(type(value)):
        _write(message, known[name], getattr(value, name), nested)


def field_names(kind: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass, in order."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _read(message: Message, field: _Field, nested: Mapping[str, Nested]) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        item = _nested(_map_value(field), nested)
        return tuple((key, item.read(value[key]) if item else value[key]) for key in sorted(value))
    if field.is_repeated:
        return tuple(value)
    if field.has_presence and not message.HasField(field.name):
        return None
    inner = _nested(field, nested)
    return inner.read(value) if inner else value


def _write(message: Message, field: _Field, value: Any, nested: Mapping[str, Nested]) -> None:
    if value is None:
        return
    target = getattr(message, field.name)
    if _is_map(field):
        item = _nested(_map_value(field), nested)
        for key, element in value:
            if item:
                item.write(target[key], element)
            else:
                target[key] = element
    elif field.is_repeated:
        target.extend(value)
    elif inner := _nested(field, nested):
        inner.write(target, value)
    else:
        setattr(message, field.name, value)


def _is_map(field: _Field) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _map_value(field: _Field) -> _Field:
    return field.message_type.fields_by_name["value"]


def _nested(field: _Field, nested: Mapping[str, Nested]) -> Nested | None:
    return None if field.message_type is None else nested[field.message_type.full_name]
