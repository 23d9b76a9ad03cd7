"""Comments and primary keys: changes of what a schema says of its columns, which concern no stored value.

The key is in Lance's own metadata of fields, and nothing enforces it. In a partitioned namespace it stands in the namespace schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, SchemaError
from lance_flight.model.schema import COMMENT, KEY_POSITION, PRIMARY_KEY, NamespaceSchema

MOST_COMMENT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class CommentOn:
    """Comment of a column, or of the table (`column` None); None removes it."""

    column: str | None
    text: str | None

    def __call__(self, schema: NamespaceSchema) -> NamespaceSchema:
        """Return the schema after this change."""
        change = {COMMENT: encoded_comment(self.text)}
        if self.column is None:
            arrow = schema.arrow.with_metadata(_updated(schema.arrow.metadata, change))
        else:
            schema.id_of(self.column)
            arrow = _with_fields(schema.arrow, {self.column: change})
        return replace(schema, arrow=arrow).after(schema)


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """The columns of the primary key, in its order; none removes it."""

    columns: tuple[str, ...]

    def __call__(self, schema: NamespaceSchema) -> NamespaceSchema:
        """Return the schema after this change."""
        if self.columns and schema.primary_key:
            raise AlreadyExists(
                f"the primary key ({', '.join(schema.primary_key)}) is there already; expected DROP PRIMARY KEY first"
            )
        if not self.columns and not schema.primary_key:
            raise NotFound("there is no primary key")
        check_primary_key(schema.arrow, self.columns)
        before = dict.fromkeys(schema.primary_key, _NO_KEY)
        return replace(schema, arrow=_with_fields(schema.arrow, before | key_metadata(self.columns))).after(schema)


Annotation = CommentOn | SetPrimaryKey


def check_primary_key(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raise `SchemaError`, naming every column that cannot be in a primary key."""
    problems = []
    for name in dict.fromkeys(columns):
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
        field = schema.field(name)
        if list(columns).count(name) > 1:
            problems.append(f"column {name!r} stands {list(columns).count(name)} times in the primary key")
        if pa.types.is_nested(field.type):
            problems.append(f"column {name!r} is {field.type}; expected no nested type in a primary key")
        if field.nullable:
            problems.append(
                f"column {name!r} may be NULL; expected NOT NULL for a primary key, in CREATE TABLE where the table is plain"
            )
    if problems:
        raise SchemaError("primary key", problems)


def check_kept_key(before: NamespaceSchema, after: NamespaceSchema) -> None:
    """Refuse a change of columns that would leave a part of the primary key, or make a column of it nullable."""
    names = [after.names.get(before.ids[name]) for name in before.primary_key]
    lost = [known for known, name in zip(before.primary_key, names, strict=True) if name is None]
    if lost:
        raise SchemaError("schema", [f"column {lost[0]!r} is in the primary key; expected DROP PRIMARY KEY first"])
    check_primary_key(after.arrow, after.primary_key)


def annotated(schema: pa.Schema, comments: Mapping[str | None, str], key: Sequence[str]) -> pa.Schema:
    """Return the columns of a new table with comments (of the table under None) and a primary key."""
    check_primary_key(schema, key)
    with_key = _with_fields(schema, key_metadata(key))
    changes = {name: {COMMENT: encoded_comment(text)} for name, text in comments.items() if name is not None}
    about_table = {COMMENT: encoded_comment(comments[None])} if None in comments else {}
    return _with_fields(with_key, changes).with_metadata(_updated(schema.metadata, about_table))


def key_metadata(columns: Sequence[str]) -> dict[str, dict[bytes, bytes | None]]:
    """Return the metadata that makes columns the primary key, by their names."""
    return {
        name: {PRIMARY_KEY: b"true", KEY_POSITION: str(place).encode()} for place, name in enumerate(columns, start=1)
    }


def encoded_comment(text: str | None) -> bytes | None:
    """Encode a comment; raise `InvalidInput` if it is too long."""
    size = 0 if text is None else len(text.encode())
    if size > MOST_COMMENT_BYTES:
        raise InvalidInput(f"a comment has {size} bytes; expected at most {MOST_COMMENT_BYTES}")
    return None if text is None else text.encode()


def _with_fields(schema: pa.Schema, changes: Mapping[str, Mapping[bytes, bytes | None]]) -> pa.Schema:
    """Return a schema with keys of some fields' metadata set, or removed (None)."""
    fields = [field.with_metadata(_updated(field.metadata, changes.get(field.name, {}))) for field in schema]
    return pa.schema(fields, schema.metadata)


def _updated(metadata: Mapping[bytes, bytes] | None, change: Mapping[bytes, bytes | None]) -> dict[bytes, bytes] | None:
    both = {**(metadata or {}), **change}
    return {key: value for key, value in both.items() if value is not None} or None


_NO_KEY: Mapping[bytes, bytes | None] = {PRIMARY_KEY: None, KEY_POSITION: None}
