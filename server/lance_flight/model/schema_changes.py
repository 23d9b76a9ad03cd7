"""Changes of the schema of a namespace: columns by ALTER TABLE, comments and primary keys, and merges of two branches.

The key is in Lance's own metadata of fields, and nothing enforces it. In a partitioned namespace it stands in the namespace schema.

Spec: Schema, Field IDs. A column is known by its id, which no other one ever gets; a path leads into nested columns, of
lists and maps through the names of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

import pyarrow as pa

from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, SchemaError, Unsupported
from lance_flight.model.arrow_types import children, rebuilt
from lance_flight.model.naming import column_name_problem
from lance_flight.model.schema import (
    COMMENT,
    DEFAULT,
    DEFAULT_CHANGED,
    FIRST_DEFAULT,
    KEY_POSITION,
    MOMENTS,
    PRIMARY_KEY,
    NamespaceSchema,
    descriptions_of,
    is_note,
    is_of_the_namespace,
    with_field_ids,
)

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
            arrow = schema.arrow.with_metadata(_update_metadata(schema.arrow.metadata, change))
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


@dataclass(frozen=True, slots=True)
class Notes:
    """Metadata of a column, or of the table (`column` None), which clients choose themselves; None removes a key.

    Those that `replace` leave no other key.
    """

    column: str | None
    texts: Mapping[str, str | None]
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class SetNotes:
    """Further metadata of the table and of its columns."""

    notes: tuple[Notes, ...]

    def __call__(self, schema: NamespaceSchema) -> NamespaceSchema:
        """Return the schema after this change."""
        arrow = schema.arrow
        for note in self.notes:
            _check_notes(note.texts)
            if note.column is None:
                arrow = arrow.with_metadata(_noted(arrow, note))
            else:
                schema.id_of(note.column)
                at = arrow.get_field_index(note.column)
                arrow = arrow.set(at, arrow.field(at).with_metadata(_noted(arrow.field(at), note)))
        return replace(schema, arrow=arrow).after(schema)


def with_notes(schema: pa.Schema, texts: Mapping[str, str]) -> pa.Schema:
    """Return the schema of a new table with metadata that its client has chosen."""
    _check_notes(texts)
    return schema.with_metadata(_noted(schema, Notes(None, texts)))


def _check_notes(texts: Mapping[str, str | None]) -> None:
    wrong = [key for key in texts if not (is_note(key.encode()) or key.encode() == COMMENT)]
    if wrong:
        raise InvalidInput(f"the key {wrong[0]!r} of metadata is not a client's to choose; expected another name")


def _noted(described: pa.Schema | pa.Field, note: Notes) -> dict[bytes, bytes] | None:
    removed = dict.fromkeys(descriptions_of(described)) if note.replaces else {}
    texts = {key.encode(): None if text is None else text.encode() for key, text in note.texts.items()}
    return _update_metadata(described.metadata, removed | texts)


Annotation = CommentOn | SetPrimaryKey | SetNotes


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


def annotate(schema: pa.Schema, comments: Mapping[str | None, str], key: Sequence[str]) -> pa.Schema:
    """Return the columns of a new table with comments (of the table under None) and a primary key."""
    check_primary_key(schema, key)
    with_key = _with_fields(schema, key_metadata(key))
    changes = {name: {COMMENT: encoded_comment(text)} for name, text in comments.items() if name is not None}
    about_table = {COMMENT: encoded_comment(comments[None])} if None in comments else {}
    return _with_fields(with_key, changes).with_metadata(_update_metadata(schema.metadata, about_table))


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
    fields = [field.with_metadata(_update_metadata(field.metadata, changes.get(field.name, {}))) for field in schema]
    return pa.schema(fields, schema.metadata)


def _update_metadata(
    metadata: Mapping[bytes, bytes] | None, change: Mapping[bytes, bytes | None]
) -> dict[bytes, bytes] | None:
    both = {**(metadata or {}), **change}
    return {key: value for key, value in both.items() if value is not None} or None


_NO_KEY: Mapping[bytes, bytes | None] = {PRIMARY_KEY: None, KEY_POSITION: None}


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
        if self.default in MOMENTS:
            metadata[DEFAULT_CHANGED] = b"true"  # rows that are written later have another value
        return [*fields, with_field_ids(pa.field(name, self.type, self.nullable, metadata), lambda _: next(fresh))]


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
        return _replace_field(fields, self.path[-1], lambda field: field.with_name(self.name))


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Change of a column's type to one that holds more values."""

    path: Path
    type: pa.DataType

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        return _replace_field(fields, self.path[-1], lambda field: _widen(field, self.type))


@dataclass(frozen=True, slots=True)
class SetNullable:
    """Change of whether a column may hold NULL."""

    path: Path
    nullable: bool

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        return _replace_field(fields, self.path[-1], lambda field: field.with_nullable(self.nullable))


@dataclass(frozen=True, slots=True)
class SetComment:
    """Change of the comment of a column; None removes it."""

    path: Path
    text: str | None

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        if len(self.path) > 1:
            raise Unsupported(f"column {show_path(self.path)!r} is inside another one and can have no comment")
        return _replace_field(fields, self.path[-1], lambda field: with_comment(field, self.text))


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Change of the value of a column in later rows that give none; None removes it. Stored rows keep their values."""

    path: Path
    stored: Callable[[pa.Field], str] | None
    """Returns the value for the column as it is, as text."""

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        return _replace_field(fields, self.path[-1], self._with_default)

    def _with_default(self, field: pa.Field) -> pa.Field:
        known = field.metadata or {}
        change = {DEFAULT: None if self.stored is None else self.stored(field).encode(), DEFAULT_CHANGED: b"true"}
        if DEFAULT in known and DEFAULT_CHANGED not in known:
            change[FIRST_DEFAULT] = known[DEFAULT]
        return field.with_metadata(_update_metadata(known, change))


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Change of a column's place at its level: the first one, or the one after `after`."""

    path: Path
    after: str | None

    def edit(self, fields: Fields, _: count[int]) -> Fields:
        """Return the fields of one level after this change."""
        moved = next(field for field in fields if field.name == self.path[-1])
        others = [field for field in fields if field is not moved]
        names = [field.name for field in others]
        if self.after is not None and self.after not in names:
            above = self.path[:-1]
            raise NotFound.named(
                "column", show_path((*above, self.after)), [show_path((*above, name)) for name in names]
            )
        place = 0 if self.after is None else names.index(self.after) + 1
        return [*others[:place], moved, *others[place:]]


SchemaChange = AddColumn | DropColumn | RenameColumn | WidenColumn | SetNullable | SetComment | SetDefault | MoveColumn


def apply_changes(schema: NamespaceSchema, *changes: SchemaChange) -> NamespaceSchema:
    """Return the schema after changes, one made after the other; itself where nothing changes.

    `SchemaError`, `NotFound` or `AlreadyExists` name the column that cannot be changed so.

    >>> before = NamespaceSchema.assign(pa.schema({"a": pa.int32()}))
    >>> apply_changes(before, AddColumn(path=("b",), type=pa.utf8())).ids
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
        fields = _edit_fields(fields, change, fresh)
    return replace(schema, arrow=pa.schema(fields, schema.arrow.metadata), next_field_id=next(fresh))


def with_comment(field: pa.Field, text: str | None) -> pa.Field:
    """Return a field with another comment; None for none."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key != COMMENT}
    comment = encoded_comment(text)
    return field.with_metadata(kept | ({} if comment is None else {COMMENT: comment}) or None)


def show_path(path: Path) -> str:
    """Return a path as it is written.

    >>> show_path(("a", "b"))
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


def _edit_fields(fields: Fields, change: SchemaChange, fresh: count[int], depth: int = 0) -> Fields:
    """Return the fields `depth` levels down the path of a change, after it."""
    path = change.path
    name, is_last = path[depth], depth == len(path) - 1
    names = [field.name for field in fields]
    if name not in names and not (is_last and isinstance(change, AddColumn)):
        raise NotFound.named(
            "column", show_path(path[: depth + 1]), [show_path((*path[:depth], known)) for known in names]
        )
    if is_last:
        return change.edit(fields, fresh)
    place = names.index(name)
    before = children(fields[place].type)
    inner = _edit_fields(before, change, fresh, depth + 1)
    is_rearranged = len(inner) != len(before) or (isinstance(change, MoveColumn) and depth + 2 == len(path))
    if is_rearranged and not pa.types.is_struct(fields[place].type):
        raise SchemaError(
            "schema", [f"column {show_path(path[: depth + 1])!r} is {fields[place].type}; expected a struct"]
        )
    return [*fields[:place], fields[place].with_type(rebuilt(fields[place].type, inner)), *fields[place + 1 :]]


def _check_added_once(changes: Sequence[SchemaChange]) -> None:
    """Refuse to change a column that an earlier one of the changes has added, but for its place."""
    added: set[Path] = set()
    for change in changes:
        if isinstance(change, MoveColumn):
            continue
        inside = next((path for path in added if change.path[: len(path)] == path), None)
        is_twice = isinstance(change, AddColumn) and change.path == inside
        if inside is not None and not is_twice:
            raise SchemaError(
                "schema",
                [
                    f"column {show_path(inside)!r} is added by this statement; expected all that is said of it in ADD COLUMN"
                ],
            )
        if isinstance(change, AddColumn):
            added.add(change.path)


def _check_not_empty(fields: Fields, changes: Sequence[SchemaChange], above: Path = ()) -> None:
    """Refuse changes after which a table or a struct has no columns."""
    if not fields:
        dropped = [change.path for change in changes if isinstance(change, DropColumn) and change.path[:-1] == above]
        last = show_path(dropped[-1] if dropped else above)
        raise SchemaError("schema", [f"column {last!r} is the last one" + f" in {show_path(above)!r}" * bool(above)])
    for column in fields:
        inner = children(column.type)
        if inner or pa.types.is_struct(column.type):
            _check_not_empty(inner, changes, (*above, column.name))


def _replace_field(fields: Fields, name: str, by: Callable[[pa.Field], pa.Field]) -> Fields:
    return [by(field) if field.name == name else field for field in fields]


def _widen(field: pa.Field, kind: pa.DataType) -> pa.Field:
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


T = TypeVar("T")

Columns = Mapping[int, pa.Field]


def merge_schemas(base: NamespaceSchema, main: NamespaceSchema, branch: NamespaceSchema) -> NamespaceSchema:
    """Return `main` with what `branch` has changed since `base`, itself where that is nothing.

    New columns of the branch come last, unless it has moved columns. Only for schemas without `merge_problems`.
    """
    old, mine, theirs = _columns(base), _columns(main), _columns(branch)
    merged = {number: _merged_field(old.get(number), field, theirs.get(number)) for number, field in mine.items()}
    merged |= {number: field for number, field in theirs.items() if number not in mine and number not in old}
    if _has_moved(old, theirs):
        places = {number: place for place, number in enumerate(theirs)}
        merged = dict(sorted(merged.items(), key=lambda column: places.get(column[0], len(places))))
    picked = {key: _pick(*texts) for key, texts in _texts(base.arrow, main.arrow, branch.arrow).items()}
    fields = [field for field in merged.values() if field is not None]
    after = replace(main, arrow=pa.schema(fields, _update_metadata(main.arrow.metadata, picked)))
    if after.is_described_as(main):
        return main
    newest, other = sorted((main, branch), key=lambda schema: -schema.version)
    return replace(after, next_field_id=max(main.next_field_id, other.next_field_id)).after(newest)


def merge_problems(base: NamespaceSchema, main: NamespaceSchema, branch: NamespaceSchema) -> Iterator[str]:
    """Yield what keeps two schemas from being merged: what both have changed, and columns of one name."""
    old, mine, theirs = _columns(base), _columns(main), _columns(branch)
    conflicts = []
    for number in dict.fromkeys([*old, *mine, *theirs]):
        before, here, there = (columns.get(number) for columns in (old, mine, theirs))
        if _is_contested(before, here, there):
            shown = " and ".join("dropped" if column is None else _show(column) for column in (here, there))
            name = next(column.name for column in (before, here, there) if column is not None)
            conflicts.append(f"both have changed column {name!r}: it is {shown}")
    keys = [[schema.ids[name] for name in schema.primary_key] for schema in (base, main, branch)]
    if _differ(*keys):
        conflicts.append("both have changed the primary key")
    if _has_moved(old, mine) and _has_moved(old, theirs):
        conflicts.append("both have moved columns")
    for key, texts in _texts(base.arrow, main.arrow, branch.arrow).items():
        if _differ(*texts):
            conflicts.append(f"both have changed the {key.decode(errors='replace')} of the table")
    yield from conflicts or _problems(merge_schemas(base, main, branch))


def _problems(schema: NamespaceSchema) -> Iterator[str]:
    """Yield what is wrong with a merged schema, whose columns are those of both."""
    names = schema.arrow.names
    yield from (f"both have a column {name!r} of their own" for name in dict.fromkeys(names) if names.count(name) > 1)
    if not names:
        yield "together they have dropped all columns"
    nullable = [name for name in schema.primary_key if schema.arrow.field(name).nullable]
    yield from (f"column {name!r} is in the primary key of one, and may be NULL in the other" for name in nullable)


def stricter(schema: NamespaceSchema, than: NamespaceSchema) -> dict[int, str]:
    """Return the fields that are NOT NULL in a schema where another one lets NULL stand, or gives them no value: their paths by id."""
    defaults = {schema.ids[name] for name in schema.defaults | schema.first_defaults}
    paths = {}
    for number, (path, stored) in schema.paths.items():
        known = than.paths.get(number)
        lets_null = known[1].nullable if known is not None else number not in defaults
        if not stored.nullable and lets_null:
            paths[number] = path
    return paths


def takes_rows_of(after: NamespaceSchema, before: NamespaceSchema) -> bool:
    """Return whether rows of an earlier schema can be stored: their columns are as they were, and each other one has a default or may be NULL."""
    old, new = _columns(before), _columns(after)
    is_kept = all(number in new and _stores_same(field, new[number]) for number, field in old.items())
    # A default of before, which stored rows have got, is none for rows that come in now.
    now = after.defaults
    unfilled = {number for number, field in new.items() if not field.nullable and field.name not in now}
    return is_kept and not any(number in new and number not in old for number in {*stricter(after, before), *unfilled})


def _stores_same(one: pa.Field, other: pa.Field) -> bool:
    return _same(one.remove_metadata(), other.remove_metadata())


def _has_moved(old: Columns, new: Columns) -> bool:
    """Return whether the columns that both have are in another order."""
    return [number for number in new if number in old] != [number for number in old if number in new]


def _merged_field(old: pa.Field | None, main: pa.Field, branch: pa.Field | None) -> pa.Field | None:
    """Return a column of main with what the branch alone has changed of it; None where the branch has dropped it."""
    if old is None or branch is None:
        return branch if _same(old, main) else main
    core = _bare(branch if _same(_bare(old), _bare(main)) else main)
    picked = {key: _pick(*texts) for key, texts in _texts(old, main, branch).items()}
    return core.with_metadata(_update_metadata(core.metadata, picked))


def _is_contested(old: pa.Field | None, main: pa.Field | None, branch: pa.Field | None) -> bool:
    """Return whether both sides have changed a column in the same respect; comments and keys are respects of their own."""
    sides, notes = [old, main, branch], list[bool]()
    if old is not None and main is not None and branch is not None:
        sides = [_bare(old), _bare(main), _bare(branch)]
        notes = [_differ(*texts) for texts in _texts(old, main, branch).values()]
    before, here, there = sides
    return any(notes) or not (_same(here, there) or _same(before, here) or _same(before, there))


def _texts(*described: pa.Schema | pa.Field) -> dict[bytes, list[bytes | None]]:
    """Return each key that the namespace schema alone keeps, with its text in each schema or field."""
    metadata = [each.metadata or {} for each in described]
    keys = dict.fromkeys(key for each in metadata for key in each if is_of_the_namespace(key))
    return {key: [each.get(key) for each in metadata] for key in keys}


def _pick(old: T, main: T, branch: T) -> T:
    return branch if old == main else main


def _differ(old: object, main: object, branch: object) -> bool:
    return main not in (old, branch) and old != branch


def _bare(field: pa.Field) -> pa.Field:
    """Return a column without its comment, its notes and its place in the primary key."""
    return field.with_metadata({k: v for k, v in (field.metadata or {}).items() if not is_of_the_namespace(k)})


def _columns(schema: NamespaceSchema) -> Columns:
    return {schema.ids[field.name]: field for field in schema.arrow}


def _same(one: pa.Field | None, other: pa.Field | None) -> bool:
    return one is other if one is None or other is None else bool(one.equals(other, check_metadata=True))


def _show(field: pa.Field) -> str:
    return f"{field.name!r} {field.type}{' NOT NULL' * (not field.nullable)}"
