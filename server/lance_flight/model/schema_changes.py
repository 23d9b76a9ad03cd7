"""Column changes of ALTER TABLE: applied to the schema of a namespace, each gives another schema.

Spec: Schema, Field IDs. A column is known by its id, which no other one ever gets; a path leads into nested columns, of
lists and maps through the names of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa

from lance_flight.errors import AlreadyExists, NotFound, SchemaError, Unsupported
from lance_flight.model.annotations import encoded_comment
from lance_flight.model.naming import column_name_problem
from lance_flight.model.nested import children, rebuilt
from lance_flight.model.schema import COMMENT, DEFAULT, NamespaceSchema, numbered

Path = tuple[str, ...]
Fields = list[pa.Field]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new column at the end of its level; `default` is its value, as text, in rows that give none, `marks` its metadata."""

    path: Path
    type: pa.DataType
    nullable: bool = True
    default: str | None = None
    marks: Mapping[bytes, bytes] = field(default_factory=dict)

    def edit(self, fields: Fields, fresh: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        name = self.path[-1]
        _check_name(fields, name)
        metadata = dict(self.marks) | ({} if self.default is None else {DEFAULT: self.default.encode()})
        return [*fields, numbered(pa.field(name, self.type, self.nullable, metadata), lambda _: next(fresh))]


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column goes, with all that is inside it."""

    path: Path

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        return [field for field in fields if field.name != self.path[-1]]


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Renaming of a column."""

    path: Path
    name: str

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        _check_name([field for field in fields if field.name != self.path[-1]], self.name)
        return _replaced(fields, self.path[-1], lambda field: field.with_name(self.name))


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Change of a column's type to one that holds more values."""

    path: Path
    type: pa.DataType

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        return _replaced(fields, self.path[-1], lambda field: _widened(field, self.type))


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Change of whether a column may hold NULL."""

    path: Path
    nullable: bool

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        return _replaced(fields, self.path[-1], lambda field: field.with_nullable(self.nullable))


@dataclass(frozen=True, slots=True)
class SetComment:
    """Change of the comment of a column; None removes it."""

    path: Path
    text: str | None

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        if len(self.path) > 1:
            raise Unsupported(f"column {dotted(self.path)!r} is inside another one and can have no comment")
        return _replaced(fields, self.path[-1], lambda field: with_comment(field, self.text))


SchemaChange = AddColumn | DropColumn | RenameColumn | WidenColumn | SetNullable | SetComment


def changed(schema: NamespaceSchema, *changes: SchemaChange) -> NamespaceSchema:
    """Return the schema after changes, one made after the other; itself where nothing changes.

    `SchemaError`, `NotFound` or `AlreadyExists` name the column that cannot be changed so.

    >>> before = NamespaceSchema.assign(pa.schema({"a": pa.int32()}))
    >>> changed(before, AddColumn(path=("b",), type=pa.utf8())).ids
    {'a': 0, 'b': 1}
    """
    _check_added_once(changes)
    after = midway(schema, *changes)
    _check_not_empty(list(after.arrow), changes)
    return schema if after.is_described_as(schema) else after.after(schema)


def midway(schema: NamespaceSchema, *changes: SchemaChange) -> NamespaceSchema:
    """Return the schema after the first changes of several; between them no column need be left."""
    fresh, fields = count(schema.next_field_id), list(schema.arrow)
    for change in changes:
        fields = _edited(fields, change, fresh)
    return replace(schema, arrow=pa.schema(fields, schema.arrow.metadata), next_field_id=next(fresh))


def with_comment(field: pa.Field, text: str | None) -> pa.Field:
    """Return a field with another comment; None for none."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key != COMMENT}
    said = encoded_comment(text)
    return field.with_metadata(kept | ({} if said is None else {COMMENT: said}) or None)


def dotted(path: Path) -> str:
    """Return a path as it is written.

    >>> dotted(("a", "b"))
    'a.b'
    """
    return ".".join(path)


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether every value of type `old` keeps its value in type `new`.

    >>> widens(pa.int32(), pa.int64()), widens(pa.uint32(), pa.int32()), widens(pa.decimal128(9, 2), pa.decimal128(12, 2))
    (True, False, True)
    """
    if old == new:
        return True
    if pa.types.is_integer(old) and pa.types.is_integer(new):
        same_sign = pa.types.is_signed_integer(old) == pa.types.is_signed_integer(new)
        gains_sign = pa.types.is_unsigned_integer(old) and pa.types.is_signed_integer(new)
        return bool(new.bit_width > old.bit_width and (same_sign or gains_sign))
    if pa.types.is_floating(old) and pa.types.is_floating(new):
        return bool(new.bit_width > old.bit_width)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale == old.scale and new.precision >= old.precision)
    if pa.types.is_timestamp(old) and pa.types.is_timestamp(new):
        return bool(old.tz == new.tz and (old.unit, new.unit) in _FINER)
    if pa.types.is_time(old) and pa.types.is_time(new):
        return bool(_UNITS.index(new.unit) > _UNITS.index(old.unit))
    return (old, new) in _LARGER


def _edited(fields: Fields, change: SchemaChange, fresh: count[int], depth: int = 0) -> Fields:
    """Return the fields `depth` levels down the path of a change, after it."""
    path = change.path
    name, is_last = path[depth], depth == len(path) - 1
    names = [field.name for field in fields]
    if name not in names and not (is_last and isinstance(change, AddColumn)):
        raise NotFound.named("column", dotted(path[: depth + 1]), [dotted((*path[:depth], known)) for known in names])
    if is_last:
        return change.edit(fields, fresh)
    place = names.index(name)
    before = children(fields[place].type)
    inner = _edited(before, change, fresh, depth + 1)
    if len(inner) != len(before) and not pa.types.is_struct(fields[place].type):
        raise SchemaError(
            "schema", [f"column {dotted(path[: depth + 1])!r} is {fields[place].type}; expected a struct"]
        )
    return [*fields[:place], fields[place].with_type(rebuilt(fields[place].type, inner)), *fields[place + 1 :]]


def _check_added_once(changes: Sequence[SchemaChange]) -> None:
    """Refuse to change a column that an earlier one of the changes has added."""
    added: set[Path] = set()
    for change in changes:
        inside = next((path for path in added if change.path[: len(path)] == path), None)
        is_twice = isinstance(change, AddColumn) and change.path == inside
        if inside is not None and not is_twice:
            raise SchemaError(
                "schema",
                [
                    f"column {dotted(inside)!r} is added by this statement; expected all that is said of it in ADD COLUMN"
                ],
            )
        if isinstance(change, AddColumn):
            added.add(change.path)


def _check_not_empty(fields: Fields, changes: Sequence[SchemaChange], above: Path = ()) -> None:
    """Refuse changes after which a table or a struct has no columns."""
    if not fields:
        dropped = [change.path for change in changes if isinstance(change, DropColumn) and change.path[:-1] == above]
        last = dotted(dropped[-1] if dropped else above)
        raise SchemaError("schema", [f"column {last!r} is the last one" + f" in {dotted(above)!r}" * bool(above)])
    for each in fields:
        inner = children(each.type)
        if inner or pa.types.is_struct(each.type):
            _check_not_empty(inner, changes, (*above, each.name))


def _replaced(fields: Fields, name: str, by: Callable[[pa.Field], pa.Field]) -> Fields:
    return [by(field) if field.name == name else field for field in fields]


def _widened(field: pa.Field, kind: pa.DataType) -> pa.Field:
    if not widens(field.type, kind):
        raise SchemaError(
            "schema",
            [f"column {field.name!r} is {field.type} and cannot become {kind}; expected a wider type of its kind"],
        )
    return field.with_type(kind)


def _check_name(others: Sequence[pa.Field], name: str) -> None:
    problem = column_name_problem(name) if name else "a column has an empty name"
    if problem is not None:
        raise SchemaError("schema", [problem])
    if name in [field.name for field in others]:
        raise AlreadyExists(f"column {name!r} is there already")


_UNITS = ("s", "ms", "us", "ns")
_FINER = frozenset({("s", "ms"), ("s", "us"), ("ms", "us")})
"""Nanoseconds are left out: they end in 2262."""

_LARGER = frozenset(
    {
        (pa.utf8(), pa.large_utf8()),
        (pa.binary(), pa.large_binary()),
        (pa.date32(), pa.date64()),
    }
)
