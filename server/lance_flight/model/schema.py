"""The namespace schema: one Arrow schema for all partition tables, each field with an id that is never reused; and its bounds.

Arrow's libraries read no type that is more than 64 deep, and recursion over a deeper one ends the process.

Spec: Schema. The id stands in the field's metadata under `lance:field_id`; a partition table keeps the same
number under `lance_flight:field_id`, because Lance itself numbers columns by position (decision 10).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from lance_flight.errors import LimitExceeded, NotFound, SchemaError
from lance_flight.model.arrow_json import schema_from_json, schema_to_json
from lance_flight.model.arrow_types import children, rebuilt

MOST_FIELDS = 10_000
"""Most columns of a table, with the fields inside them."""
MOST_DEPTH = 50
"""Most types within one another, as in a list of lists."""
LONGEST_NAME = 1_000
"""Most bytes of the name of a column, or of a field inside one."""
LONGEST_TEXT = 1 << 16
"""Most bytes of a comment, a default, or anything else that is stored with a column."""
MOST_PARTITION_FIELDS = 100
"""Most fields of a partition spec."""
_SHOWN = 40


def check_schema(schema: pa.Schema) -> None:
    """Raise `LimitExceeded` for a schema that is too wide or too deep, or has a name, a comment or a default that is too long."""
    check_field_count(len(schema))
    count, noted, left = 0, 0, [(field, 1) for field in schema]
    while left:
        field, depth = left.pop()
        count += 1
        if depth > MOST_DEPTH:
            raise LimitExceeded(
                f"a column has more than {MOST_DEPTH} types within one another; expected at most {MOST_DEPTH}"
            )
        check_field_count(count)
        check_length("the name of a column", field.name.encode(), LONGEST_NAME)
        for key, text in (field.metadata or {}).items():
            check_length(f"{_show_key(key)} of column {field.name[:_SHOWN]!r}", text, LONGEST_TEXT)
        noted += _size(notes_of(field.metadata))
        left += [(inner, depth + 1) for inner in children(field.type)]
    for key, text in descriptions_of(schema).items():
        check_length("the comment of a table" if key == COMMENT else f"{_show_key(key)} of a table", text)
    if noted + _size(notes_of(schema.metadata)) > MOST_NOTES:
        raise LimitExceeded(
            f"the metadata of a schema has more than {MOST_NOTES:,} bytes; expected at most {MOST_NOTES:,}"
        )


def _show_key(key: bytes) -> str:
    return repr(key[:_SHOWN].decode(errors="replace"))


def _size(metadata: Mapping[bytes, bytes]) -> int:
    return sum(len(key) + len(text) for key, text in metadata.items())


def descriptions_of(described: pa.Schema | pa.Field) -> dict[bytes, bytes]:
    """Return the comment and the notes of a schema or a field."""
    return {key: text for key, text in (described.metadata or {}).items() if key == COMMENT or is_note(key)}


def check_field_count(count: int) -> None:
    """Raise `LimitExceeded` for so many columns and fields inside them."""
    if count > MOST_FIELDS:
        raise LimitExceeded(
            f"there are more than {MOST_FIELDS:,} columns, with the fields inside them; expected at most {MOST_FIELDS:,}, or lists and maps"
        )


def check_partition_fields(count: int) -> None:
    """Raise `LimitExceeded` for so many fields of a partition spec."""
    if count > MOST_PARTITION_FIELDS:
        raise LimitExceeded(
            f"the table would be partitioned by more than {MOST_PARTITION_FIELDS} fields; expected at most {MOST_PARTITION_FIELDS}"
        )


def check_length(what: str, text: bytes, most: int = LONGEST_TEXT) -> None:
    """Raise `LimitExceeded` for a text with more bytes than it may have."""
    if len(text) > most:
        raise LimitExceeded(f"{what} has {len(text):,} bytes; expected at most {most:,}")


FIELD_ID = b"lance:field_id"
TABLE_FIELD_ID = b"lance_flight:field_id"
NEXT_FIELD_ID = b"lance_flight:next_field_id"
SCHEMA_VERSION = b"lance_flight:schema_version"
DEFAULT = b"lance_flight:default"
"""Key of the default value of a column, as text that casts to its type, or one of `MOMENTS`."""
MOMENTS: Mapping[str, Callable[[pa.DataType], bool]] = MappingProxyType(
    {
        "current_timestamp": lambda kind: pa.types.is_temporal(kind) and not pa.types.is_duration(kind),
        "current_date": lambda kind: pa.types.is_timestamp(kind) or pa.types.is_date(kind),
        "current_time": pa.types.is_time,
    }
)
"""Defaults that are computed when rows are written, and the types of columns that may have them."""
DEFAULT_CHANGED = b"lance_flight:default_changed"
"""Key that says that stored rows of a column need not have its default: it was set, or removed, after they were written."""
FIRST_DEFAULT = b"lance_flight:first_default"
"""Key of the value that stored rows got when their column was added, where its default is another one by now, or none."""
COMMENT = b"comment"
"""Key of the comment of a column in the metadata of its field, and of a table in that of its schema."""
PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
"""Lance's key that marks a column of the primary key, which nothing enforces."""
KEY_POSITION = b"lance-schema:unenforced-primary-key:position"
"""Lance's key of the place of a column in the primary key, from 1 on."""
BLOB = b"lance-encoding:blob"
"""Lance's key that marks a binary column whose values lie apart from the other columns, and are read when they are asked for."""
MARKED: Mapping[bytes, bytes] = MappingProxyType({BLOB: b"true"})
_KEY = frozenset({PRIMARY_KEY, KEY_POSITION})
_TRUE = frozenset({b"true", b"1", b"yes"})
_OF_SYSTEMS = (b"lance:", b"lance-", b"lance_flight", b"ARROW:", b"PARQUET:", b"pandas")
"""Beginnings of the keys of metadata that no client chooses: those of Lance, of ours, of Arrow, and what pandas says of its index."""
MOST_NOTES = 1 << 20
"""Most bytes of all that clients have noted in the metadata of one schema."""


def is_note(key: bytes) -> bool:
    """Return whether a key of metadata is a client's own, such as LanceDB's `embedding_functions`.

    >>> is_note(b"unit"), is_note(b"lance:field_id"), is_note(COMMENT)
    (True, False, False)
    """
    return key != COMMENT and not key.startswith(_OF_SYSTEMS)


def notes_of(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """Return what a client has noted in the metadata of a schema or a field."""
    return {key: text for key, text in (metadata or {}).items() if is_note(key)}


def is_of_the_namespace(key: bytes) -> bool:
    """Return whether the namespace schema alone keeps a key of a field: partition tables do without, so that no change writes them."""
    return key == COMMENT or key in _KEY or is_note(key)


Path: TypeAlias = tuple[str, ...]
"""The name of a column, and those of the fields inside structs down to one of them."""


class SourceColumn(NamedTuple):
    """A column, or a field inside structs, with its path."""

    path: Path
    field: pa.Field


def value_of_text(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a type that a text stands for; Arrow's errors where there is none.

    >>> value_of_text("10:30:00", pa.time64("us")).as_py()
    datetime.time(10, 30)
    """
    if pa.types.is_time(kind):  # which Arrow reads from no text
        return pa.scalar(f"1970-01-01 {text}").cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(text).cast(kind)


def _moment(text: str, now: datetime, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a default of `MOMENTS` at a moment of UTC, cut to the unit of its type."""
    if pa.types.is_time(kind):
        return pa.scalar(now.time(), pa.time64("us")).cast(kind, safe=False)
    if pa.types.is_date(kind):
        return pa.scalar(now.date(), kind)
    if text == "current_date":
        now = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return pa.scalar(now, pa.timestamp("us", kind.tz)).cast(kind, safe=False)


@dataclass(frozen=True)
class NamespaceSchema:
    """The schema of a partitioned namespace; every field of `arrow`, nested ones too, carries its id.

    `next_field_id` is the lowest id that no column has ever had. The ids of a plain table are Lance's own numbers of its
    fields (`is_numbered_by_lance`), and are not stored in it.
    """

    arrow: pa.Schema
    next_field_id: int
    is_numbered_by_lance: bool = False

    def __eq__(self, other: object) -> bool:
        # Arrow leaves metadata, and with it the ids, out of its own comparison.
        if not isinstance(other, NamespaceSchema):
            return NotImplemented
        same = self.arrow.equals(other.arrow, check_metadata=True)
        return bool(same) and self.next_field_id == other.next_field_id

    def __hash__(self) -> int:
        return hash((self.arrow, self.next_field_id))

    @classmethod
    def assign(cls, schema: pa.Schema) -> NamespaceSchema:
        """Return a new schema with the ids 0, 1, 2 … given depth-first; any ids that `schema` had are forgotten.

        >>> NamespaceSchema.assign(pa.schema({"a": pa.int64(), "b": pa.utf8()})).ids
        {'a': 0, 'b': 1}
        """
        check_schema(schema)
        problems = _name_problems(schema)
        if problems:
            raise SchemaError("schema", problems)
        ids = count()
        fields = [with_field_ids(field, lambda _: next(ids)) for field in schema]
        return cls(pa.schema(fields, descriptions_of(schema) or None), next(ids))

    @classmethod
    def from_json(cls, value: Any) -> NamespaceSchema:
        """Read a JsonArrowSchema; fields without an id, or with one used twice, are each named."""
        schema = schema_from_json(value)
        seen: dict[int, str] = {}
        problems = _name_problems(schema)
        for path, field in _walk(schema):
            number = _id_in(field, FIELD_ID)
            if number is None:
                problems.append(f"field {path!r} has no lance:field_id in its metadata")
            elif number in seen:
                problems.append(f"field {path!r} has lance:field_id {number}, which {seen[number]!r} has already")
            else:
                seen[number] = path
        metadata = dict(schema.metadata or {})
        for key in (NEXT_FIELD_ID, SCHEMA_VERSION):
            if not metadata.get(key, b"0").isdigit():
                problems.append(f"{key.decode()} is {metadata[key].decode()!r}; expected an integer ≥ 0")
        if problems:
            raise SchemaError("namespace schema", problems)
        stored = int(metadata.pop(NEXT_FIELD_ID, b"0"))
        return cls(schema.with_metadata(metadata or None), max(max(seen, default=-1) + 1, stored))

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JsonArrowSchema; the next free id stands in its metadata once it is not implied."""
        metadata = dict(self.arrow.metadata or {})
        if self.next_field_id > max(self.paths, default=-1) + 1:
            metadata[NEXT_FIELD_ID] = str(self.next_field_id).encode()
        return schema_to_json(self.arrow.with_metadata(metadata or None))

    @property
    def version(self) -> int:
        """Number of column changes before this schema; no two schemas of a namespace have the same."""
        return int((self.arrow.metadata or {}).get(SCHEMA_VERSION, b"0"))

    def after(self, before: NamespaceSchema) -> NamespaceSchema:
        """Return this schema as the one that takes the place of `before`; no id that was ever given is free in it."""
        check_schema(self.arrow)
        metadata = {**(self.arrow.metadata or {}), SCHEMA_VERSION: str(before.version + 1).encode()}
        free = max(self.next_field_id, before.next_field_id)
        return replace(self, arrow=self.arrow.with_metadata(metadata), next_field_id=free)

    def has_columns_of(self, other: NamespaceSchema) -> bool:
        """Return whether both have the same columns, whatever came between, and whatever is said of them."""
        mine, theirs = (list(map(_of_partitions, schema.arrow)) for schema in (self, other))
        same = (a.equals(b, check_metadata=True) for a, b in zip(mine, theirs, strict=False))
        return len(mine) == len(theirs) and all(same)

    def is_described_as(self, other: NamespaceSchema) -> bool:
        """Return whether both have the same columns, comments, notes and primary key."""
        same = self.commented.equals(other.commented, check_metadata=True) and self.primary_key == other.primary_key
        return bool(same) and self.has_columns_of(other)

    @cached_property
    def plain(self) -> pa.Schema:
        """The schema as a client sees it: without ids or any other metadata."""
        return pa.schema([_strip_ids(field) for field in self.arrow])

    @cached_property
    def commented(self) -> pa.Schema:
        """The schema as a client sees it, with the comments and notes of the columns and of the table in its metadata."""
        pairs = zip(self.plain, self.arrow, strict=True)
        fields = [shown.with_metadata(descriptions_of(field) or None) for shown, field in pairs]
        return pa.schema(fields, descriptions_of(self.arrow) or None)

    @cached_property
    def table(self) -> pa.Schema:
        """The schema that a partition table is created with: its ids under `lance_flight:field_id`."""
        fields = [with_field_ids(f, _required_id, key=TABLE_FIELD_ID) for f in self.arrow]
        return pa.schema(fields if self.is_numbered_by_lance else [_of_partitions(field) for field in fields])

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each top-level column by its name."""
        return {field.name: _required_id(field) for field in self.arrow}

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each top-level column by its id."""
        return {number: name for name, number in self.ids.items()}

    @cached_property
    def paths(self) -> dict[int, tuple[str, pa.Field]]:
        """Each field, nested ones included, by id: its dotted path and the field itself."""
        return {_required_id(field): (path, field) for path, field in _walk(self.arrow)}

    @property
    def defaults(self) -> dict[str, pa.Scalar]:
        """Default values of top-level columns, by name, for rows that lack them and are written now; columns without one are left out."""
        now = datetime.now(UTC)
        return {
            field.name: _moment(text, now, field.type) if text in MOMENTS else value_of_text(text, field.type)
            for field, text in self._default_texts.items()
        }

    @property
    def first_defaults(self) -> dict[str, pa.Scalar]:
        """Values that stored rows got in top-level columns whose default was changed later, by name."""
        texts = {field: (field.metadata or {}).get(FIRST_DEFAULT) for field in self.arrow}
        return {f.name: pa.scalar(text.decode()).cast(f.type) for f, text in texts.items() if text is not None}

    @property
    def shown_defaults(self) -> dict[str, str]:
        """Default values of top-level columns as text, by name; those of `MOMENTS` in capitals."""
        return {
            field.name: text.upper() if text in MOMENTS else str(value_of_text(text, field.type).cast(pa.utf8()))
            for field, text in self._default_texts.items()
        }

    @cached_property
    def _default_texts(self) -> dict[pa.Field, str]:
        texts = {field: (field.metadata or {}).get(DEFAULT) for field in self.arrow}
        return {field: text.decode() for field, text in texts.items() if text is not None}

    @cached_property
    def comments(self) -> dict[str, str]:
        """Comments of top-level columns, by name; columns without one are left out."""
        texts = {field.name: (field.metadata or {}).get(COMMENT) for field in self.arrow}
        return {name: text.decode(errors="replace") for name, text in texts.items() if text is not None}

    @property
    def comment(self) -> str | None:
        """The comment of the table; None without one."""
        text = (self.arrow.metadata or {}).get(COMMENT)
        return None if text is None else text.decode(errors="replace")

    @cached_property
    def notes(self) -> dict[str, str]:
        """Notes of clients in the metadata of the table."""
        notes = notes_of(self.arrow.metadata)
        return {key.decode(errors="replace"): text.decode(errors="replace") for key, text in notes.items()}

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        return primary_key_of(self.arrow)

    @cached_property
    def sources(self) -> dict[int, SourceColumn]:
        """Return the sources that a partition field can be computed from, by id: the columns, and the fields inside structs.

        Elements of lists and maps are left out: a row has any number of them.
        """
        return {_required_id(source.field): source for field in self.arrow for source in _sources(field, ())}

    @cached_property
    def source_ids(self) -> dict[Path, int]:
        """The ids of `sources` by their paths."""
        return {source.path: number for number, source in self.sources.items()}

    @cached_property
    def source_paths(self) -> dict[int, Path]:
        """The paths of `sources` by their ids."""
        return {number: source.path for number, source in self.sources.items()}

    @cached_property
    def source_names(self) -> dict[int, str]:
        """Names of `sources` in messages, by id: the dotted paths."""
        return {number: ".".join(source.path) for number, source in self.sources.items()}

    def column(self, field_id: int) -> pa.Field | None:
        """Return the column, or field inside structs, with this id.

        None for one that was removed or is an element of something.
        """
        source = self.sources.get(field_id)
        return None if source is None else source.field

    def only(self, names: Collection[str]) -> NamespaceSchema:
        """Return the schema with some of its top-level columns alone; a primary key with other columns is left out."""
        key = self.primary_key if set(self.primary_key) <= set(names) else ()
        fields = [
            field if field.name in key else _without(field, _KEY.__contains__)
            for field in self.arrow
            if field.name in names
        ]
        return replace(self, arrow=_without_notes(pa.schema(fields, self.arrow.metadata)))

    def without_notes(self, names: Collection[str]) -> NamespaceSchema:
        """Return the schema without what is said of some of its top-level columns, their defaults, and the notes of the table."""
        fields = [_without(field, _is_about_values) if field.name in names else field for field in self.arrow]
        return replace(self, arrow=_without_notes(pa.schema(fields, self.arrow.metadata)))

    def id_of(self, name: str) -> int:
        """Return the id of a top-level column, or `NotFound` with the nearest names."""
        if name not in self.ids:
            raise NotFound.named("column", name, self.ids)
        return self.ids[name]


def primary_key_of(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that Lance's metadata makes the primary key, in its order: their own where it gives no positions.

    >>> primary_key_of(pa.schema([pa.field("a", pa.int64(), False, {PRIMARY_KEY: "true"}), pa.field("b", pa.int64())]))
    ('a',)
    """
    marked = [field for field in schema if (field.metadata or {}).get(PRIMARY_KEY, b"").lower() in _TRUE]
    positions = [(field.metadata or {}).get(KEY_POSITION, b"") for field in marked]
    placed = [int(text) if text.isdigit() else 0 for text in positions]
    return tuple(field.name for _, field in sorted(zip(placed, marked, strict=True), key=lambda pair: pair[0]))


def _without(field: pa.Field, is_left_out: Callable[[bytes], bool]) -> pa.Field:
    """Return a field without some of its metadata."""
    kept = {key: text for key, text in (field.metadata or {}).items() if not is_left_out(key)}
    return field.with_metadata(kept or None)


def _is_about_values(key: bytes) -> bool:
    return key in (COMMENT, DEFAULT) or is_note(key)


def _without_notes(schema: pa.Schema) -> pa.Schema:
    """Return a schema of some columns without the notes of its table, which may name or describe the others."""
    return schema.with_metadata(
        {key: text for key, text in (schema.metadata or {}).items() if not is_note(key)} or None
    )


def is_blob(field: pa.Field) -> bool:
    """Return whether a column is marked as one of blobs.

    >>> is_blob(pa.field("image", pa.large_binary(), metadata={BLOB: b"true"})), is_blob(pa.field("id", pa.int64()))
    (True, False)
    """
    return (field.metadata or {}).get(BLOB, b"").lower() in _TRUE


def primary_key_name(table: str) -> str:
    """Return the name of the constraint of a table's primary key, which has none of its own."""
    return f"{table}_pkey"


def field_ids(table: pa.Schema, namespace: NamespaceSchema) -> dict[str, dict[str, str | None]]:
    """Return what the metadata of a table's fields has to say for them to be those of a namespace that have their names.

    By the paths of the fields; one that is none of the namespace's loses the id that it has (None).
    """
    named = {path: number for number, (path, _) in namespace.paths.items()}
    metadata: dict[str, dict[str, str | None]] = {}
    for path, field in _walk(table):
        number = named.get(path)
        if number is not None or _id_in(field, TABLE_FIELD_ID) is not None:
            metadata[path] = {TABLE_FIELD_ID.decode(): None if number is None else str(number)}
    return {path: metadata[path] for path in metadata if not _is_hidden(table, path)}


def _is_hidden(schema: pa.Schema, path: str) -> bool:
    """Return whether a field lies in a map or a fixed-size list, where Lance knows no names of fields."""
    top, *names = path.split(".")
    kind = schema.field(top).type
    for name in names:
        if pa.types.is_map(kind) or pa.types.is_fixed_size_list(kind):
            return True
        kind = next(child.type for child in children(kind) if child.name == name)
    return False


def _sources(field: pa.Field, above: Path) -> Iterator[SourceColumn]:
    path = (*above, field.name)
    yield SourceColumn(path, field)
    if pa.types.is_struct(field.type):
        for child in children(field.type):
            yield from _sources(child, path)


def _walk(schema: pa.Schema) -> Iterator[tuple[str, pa.Field]]:
    for field in schema:
        yield from _walk_field(field, field.name)


def _walk_field(field: pa.Field, path: str) -> Iterator[tuple[str, pa.Field]]:
    yield path, field
    for child in children(field.type):
        yield from _walk_field(child, f"{path}.{child.name}")


def with_field_ids(field: pa.Field, number: Callable[[pa.Field], int], *, key: bytes = FIELD_ID) -> pa.Field:
    """Return a field with ids in its metadata and in that of all fields inside, in place of those that they had."""
    mine = number(field)
    inner = [with_field_ids(child, number, key=key) for child in children(field.type)]
    metadata = {k: v for k, v in (field.metadata or {}).items() if k not in (FIELD_ID, TABLE_FIELD_ID)}
    kind = rebuilt(field.type, inner)
    return pa.field(field.name, kind, field.nullable, metadata | {key: str(mine).encode()})


def without_ids(field: pa.Field) -> pa.Field:
    """Return a field without any id in its metadata, or in that of a field inside it."""
    inner = [without_ids(child) for child in children(field.type)]
    metadata = {k: v for k, v in (field.metadata or {}).items() if k not in (FIELD_ID, TABLE_FIELD_ID)}
    return pa.field(field.name, rebuilt(field.type, inner), field.nullable, metadata or None)


def _strip_ids(field: pa.Field) -> pa.Field:
    inner = [_strip_ids(child) for child in children(field.type)]
    return pa.field(field.name, rebuilt(field.type, inner), field.nullable)


def _of_partitions(field: pa.Field) -> pa.Field:
    """Return a column without the metadata that the namespace schema alone keeps."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if not is_of_the_namespace(key)}
    return field.with_metadata(metadata)


def _id_in(field: pa.Field, key: bytes) -> int | None:
    text = (field.metadata or {}).get(key)
    return int(text) if text is not None and text.isdigit() else None


def table_field_id(field: pa.Field) -> int:
    """Return the id that a field of a partition table has in its metadata."""
    number = _id_in(field, TABLE_FIELD_ID)
    if number is None:
        raise SchemaError("table", [f"field {field.name!r} has no {TABLE_FIELD_ID.decode()}"])
    return number


def _required_id(field: pa.Field) -> int:
    number = _id_in(field, FIELD_ID)
    if number is None:
        raise SchemaError("namespace schema", [f"field {field.name!r} has no lance:field_id"])
    return number


def _name_problems(schema: pa.Schema) -> list[str]:
    names = Counter(schema.names)
    problems = [f"column {name!r} stands {number} times" for name, number in names.items() if number > 1]
    return problems + ["a column has an empty name"] * ("" in names)
