"""Schemas, partition specs and options of maintenance from the definitions of CREATE TABLE and ALTER TABLE.

Options of maintenance are those that ALTER TABLE … SET and CREATE TABLE … WITH take, and SHOW CREATE TABLE shows.

Partition fields are suggested for rows that are to be loaded: how many tables each would make, and of what size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import inf
from types import MappingProxyType

import pyarrow as pa
from pyarrow import types

from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.maintenance.survey import PolicyValue, chosen_options
from lance_flight.catalog.maintenance.vacuum import HOUR, TRANSACTION_FLOOR_HOURS
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Table
from lance_flight.catalog.storage.formats import chosen_version, unstorable_in
from lance_flight.catalog.storage.store import unstorable
from lance_flight.engine.sql.bounds import check_bounds
from lance_flight.engine.sql.references import Cursor, quote_parts
from lance_flight.engine.sql.tokens import Token, edit_text, tokenize
from lance_flight.engine.translation.evaluation import check_expression, evaluate, inner_context, result_type
from lance_flight.engine.translation.plan_messages import plain_message
from lance_flight.engine.translation.rewriting import closing, items_within, sql_type, types_within, with_sent_position
from lance_flight.engine.translation.typed_calls import QUERIES_ONLY
from lance_flight.engine.writes.computed_columns import stored_default
from lance_flight.errors import InvalidInput, LanceFlightError, NotFound, SchemaError, SpecError, SqlError
from lance_flight.model.arrow_types import is_binary, replace_innermost
from lance_flight.model.json_documents import JSON, is_json
from lance_flight.model.naming import column_name_problem, partition_column, shown_text
from lance_flight.model.schema import (
    DEFAULT,
    LONGEST_NAME,
    MARKED,
    MOST_DEPTH,
    NamespaceSchema,
    Path,
    check_length,
    check_partition_fields,
    check_schema,
    is_blob,
    notes_of,
)
from lance_flight.model.schema_changes import annotate, show_path
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.model.transforms import TRANSFORMS, Transform
from lance_flight.planning.predicates import Column
from lance_flight.quantities import TIME_EXPECTED, parse_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDef:
    """Field of PARTITIONED BY: a transform (with its parameters) or an expression of columns, and an optional name.

    A column is a path: its name, and those of fields inside its structs.
    """

    transform: str
    columns: tuple[Path, ...]
    arguments: tuple[int, ...] = ()
    expression: str | None = None
    field_id: str | None = None


def parse_partition_by(text: str) -> tuple[PartitionDef, ...]:
    """Parse a PARTITIONED BY list without its brackets, the format of the ingest option.

    >>> [field.transform for field in parse_partition_by("year(ts), bucket(16, id), country")]
    ['year', 'bucket', 'identity']
    >>> parse_partition_by("day(s.at)")[0].columns
    (('s', 'at'),)
    """
    cursor = Cursor.over(text)
    found = field_list(cursor)
    cursor.end()
    return found


def in_brackets(cursor: Cursor) -> tuple[PartitionDef, ...]:
    """Read the list of fields with its brackets."""
    cursor.expect("(")
    found = field_list(cursor)
    cursor.expect(")")
    return found


def any_in_brackets(cursor: Cursor) -> tuple[PartitionDef, ...]:
    """Read the list of fields with its brackets, between which nothing may stand."""
    return () if cursor.accept("(", ")") else in_brackets(cursor)


def field_list(cursor: Cursor) -> tuple[PartitionDef, ...]:
    """Read a list of fields without brackets."""
    found = [_parse_field(cursor)]
    while cursor.accept(","):
        found.append(_parse_field(cursor))
        check_partition_fields(len(found))
    return tuple(found)


def _parse_field(cursor: Cursor) -> PartitionDef:
    name = cursor.name("a column or a transform")
    transform, expression = "identity", None
    arguments: list[int] = []
    columns: tuple[Path, ...] = (_inside(cursor, name),)
    if cursor.accept("("):
        transform = name
        if name == "expr":
            transform, expression = "expression", cursor.string("the expression, a string")
            cursor.expect(",")
        elif name not in TRANSFORMS:
            raise SqlError(f"no partition transform {name!r}; expected one of {', '.join((*TRANSFORMS, 'expr'))}")
        else:
            for _ in TRANSFORMS[name].parameters():
                arguments.append(cursor.number(f"the number of {name}"))
                cursor.expect(",")
        columns = _column_list(cursor)
    field_id = cursor.name("a field id") if cursor.accept("AS") else None
    check_length("the name of a partition field", (field_id or "").encode(), LONGEST_NAME)
    check_length("the expression of a partition field", (expression or "").encode())
    return PartitionDef(
        transform=transform, columns=columns, arguments=tuple(arguments), expression=expression, field_id=field_id
    )


def _column_list(cursor: Cursor) -> tuple[Path, ...]:
    columns = [_inside(cursor, cursor.name("a column name"))]
    while cursor.accept(","):
        columns.append(_inside(cursor, cursor.name("a column name")))
    cursor.expect(")")
    return tuple(columns)


def _inside(cursor: Cursor, name: str) -> Path:
    """Read the rest of a column path, whose first name was read."""
    path = [name]
    while cursor.accept("."):
        path.append(cursor.name("the name of a field inside the column"))
    return tuple(path)


_HALVES = frozenset({"HALF", "FLOAT16"})
_IN_PLACE = "INTERVAL"
"""DataFusion's SQL has no word for floats of 16 bits: it reads them as a type that no table stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDef:
    """Column definition of CREATE TABLE; `type` and `default` are SQL text."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    default: str | None = None


def arrow_schema(
    columns: Sequence[ColumnDef], primary_key: Sequence[str] = (), comment: str | None = None
) -> pa.Schema:
    """Build the schema that column definitions describe; raise an error that names every invalid type.

    The columns of the primary key are NOT NULL; `comment` is that of the table.
    """
    fields, problems = [], []
    for column in columns:
        try:
            nullable = column.nullable and column.name not in primary_key
            kind, marks = column_type(column.type)
            default = stored_default((column.name,), kind, column.default)
            marks |= {} if default is None else {DEFAULT: default.encode()}
            fields.append(pa.field(column.name, kind, nullable, marks or None))
        except SchemaError as exc:
            problems += [f"column {column.name!r}: {problem}" for problem in exc.problems]
    if problems:
        raise SchemaError("CREATE TABLE", problems)
    comments = {column.name: column.comment for column in columns} | {None: comment}
    texts = {name: text for name, text in comments.items() if text is not None}
    return annotate(pa.schema(fields), texts, primary_key) if texts or primary_key else pa.schema(fields)


def column_problems(schema: pa.Schema, file_version: str | None = None) -> list[str]:
    """Return the problems of a new table's columns; an empty list if all can be stored and read back. `LimitExceeded` for too many."""
    check_schema(schema)
    if not schema.names:
        return ["there are no columns"]
    named = {field.name: column_name_problem(field.name) for field in schema}
    problems = [problem for problem in named.values() if problem is not None]
    rest = pa.schema([field for field in schema if named[field.name] is None])
    return [*problems, *unstorable(rest), *unstorable_in(rest, chosen_version(file_version, rest))]


def column_type(text: str) -> tuple[pa.DataType, dict[bytes, bytes]]:
    """Return the Arrow type of a column with an SQL type, which CAST may not know, and the metadata that marks it: that of a BLOB.

    >>> column_type("BLOB"), column_type("JSON")
    ((DataType(large_binary), {b'lance-encoding:blob': b'true'}), (JsonType(extension<arrow.json>), {}))
    """
    match text.strip().upper():
        case "BLOB":
            return pa.large_binary(), dict(MARKED)
        case "JSON":
            return JSON, {}
        case _:
            return arrow_type(text), {}


_UNITS = {"0": "s", "3": "ms", "6": "us", "9": "ns"}
"""Units of durations, by the digits that their seconds have."""
KEPT_TYPES, MOST_KEPT_TEXT = 256, 64


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of an SQL type: TIMESTAMP is microseconds, VARCHAR is utf8, HALF and FLOAT16 are floats of 16 bits.

    >>> arrow_type("TIMESTAMP"), arrow_type("BIGINT UNSIGNED"), arrow_type("HALF[3]")
    (TimestampType(timestamp[us]), DataType(uint64), FixedSizeListType(fixed_size_list<item: halffloat>[3]))
    """
    return _short_type(text) if len(text) <= MOST_KEPT_TEXT else _planned_type(text)


@lru_cache(KEPT_TYPES)
def _short_type(text: str) -> pa.DataType:
    return _planned_type(text)


def _planned_type(text: str) -> pa.DataType:
    """Ask DataFusion, which takes a millisecond."""
    tokens = tokenize(text)
    check_bounds(text, tokens)
    context, unknown = inner_context(), _unknown_types(text, tokens)
    known = edit_text(text, [(start, stop, _IN_PLACE) for start, stop, _ in unknown])
    query = f"SELECT CAST(NULL AS {sql_type(known)}) AS value"
    try:
        planned = context.sql_with_options(query, QUERIES_ONLY).schema().field("value").type
        left = iter([kind for _, _, kind in unknown])
        stand_in = pa.month_day_nano_interval()
        return replace_innermost(planned, lambda inner: next(left) if unknown and inner == stand_in else inner)
    except Exception as exc:
        raise SchemaError(
            "type", [f"{shown_text(text)} is not a type: {with_sent_position(plain_message(exc), query, None)}"]
        ) from exc


def _unknown_types(text: str, tokens: list[Token]) -> list[tuple[int, int, pa.DataType]]:
    """Return the types in a text that DataFusion does not read, floats of 16 bits, durations and maps: where each begins and ends, and what it is."""
    if any(token.word == _IN_PLACE for token in tokens):
        return []
    if sum(token.word == "MAP" for token in tokens) > MOST_DEPTH:
        raise SchemaError("type", [f"{shown_text(text)} has more than {MOST_DEPTH} maps"])
    unknown, read_until = list[tuple[int, int, pa.DataType]](), 0
    for place in types_within(tokens, 0):
        token = tokens[place]
        if token.start < read_until:
            continue
        if token.word in _HALVES:
            unknown.append((token.start, token.stop, pa.float16()))
        elif token.word == "DURATION":
            digits, close = _digits(text, tokens, place)
            unknown.append((token.start, tokens[close].stop, pa.duration(_UNITS[digits])))
        elif token.word == "MAP":
            close = closing(tokens, place + 1)
            key, value = _key_and_value(text, tokens, place, close)
            unknown.append((token.start, tokens[close].stop, pa.map_(arrow_type(key), arrow_type(value))))
        else:
            continue
        read_until = unknown[-1][1]
    return unknown


def _digits(text: str, tokens: list[Token], place: int) -> tuple[str, int]:
    """Return the digits of a duration's seconds, six without any, and the place where its type ends."""
    if not (place + 1 < len(tokens) and tokens[place + 1].is_sign("(")):
        return "6", place
    close = closing(tokens, place + 1)
    digits = tokens[place + 2].text
    if close != place + 3 or digits not in _UNITS:
        raise SchemaError("type", [f"{shown_text(text)} is not a type: expected DURATION({'|'.join(_UNITS)})"])
    return digits, close


def _key_and_value(text: str, tokens: list[Token], place: int, close: int) -> tuple[str, str]:
    """Return the texts of the two types of a map."""
    commas = [tokens[item - 1] for item in items_within(tokens, place + 2, close)][1:]
    if close == place + 1 or len(commas) != 1:
        raise SchemaError("type", [f"{shown_text(text)} is not a type: MAP has two, as in MAP(VARCHAR, INT)"])
    (comma,) = commas
    return text[tokens[place + 1].stop : comma.start], text[comma.stop : tokens[close].start]


def storable(schema: pa.Schema) -> pa.Schema:
    """Convert the schema of a query or an ingest to stored types: no views, dictionaries, small decimals at any depth; marks of blobs and notes stay."""
    return pa.schema(
        [
            pa.field(f.name, pa.large_binary(), f.nullable, {**MARKED, **notes_of(f.metadata)})
            if is_blob(f) and is_binary(f.type)
            else pa.field(f.name, _storable_type(f.type), f.nullable, notes_of(f.metadata) or None)
            for f in schema
        ],
        notes_of(schema.metadata) or None,
    )


def _storable_type(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_null(kind) else replace_innermost(kind, _plain_type)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if is_json(kind):
        return JSON
    if pa.types.is_dictionary(kind):
        return _storable_type(kind.value_type)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_string_view(kind):
        return pa.utf8()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def partition_spec(
    schema: NamespaceSchema,
    definitions: Sequence[PartitionDef],
    *,
    number: int = 1,
    earlier: Sequence[PartitionSpec] = (),
) -> PartitionSpec:
    """Build the partition spec that definitions describe over `schema`; raise an error that names every problem of every field.

    A field that an `earlier` spec has under the same derivation keeps its id, and another one gets an id of its own
    (spec: Field ID Reuse).
    """
    fields: list[PartitionField] = []
    problems: list[str] = []
    known = {field.derivation: field for spec in earlier for field in spec.fields}
    taken: set[str] = {definition.field_id for definition in definitions if definition.field_id is not None}
    taken |= {field.field_id for field in known.values()}
    for definition in definitions:
        field_id = definition.field_id or _unused_name(_default_name(definition), taken)
        try:
            field = _field(schema, definition, field_id)
            if definition.field_id is None:
                field = known.get(field.derivation, field)
            taken.add(field.field_id)
            fields.append(field)
        except SpecError as exc:
            problems += [f"field {field_id!r}: {problem}" for problem in exc.problems]
        except LanceFlightError as exc:
            problems.append(f"field {field_id!r}: {exc}")
    names = [definition.field_id for definition in definitions if definition.field_id is not None]
    problems += [f"field id {n!r} stands {names.count(n)} times" for n in dict.fromkeys(names) if names.count(n) > 1]
    if problems:
        raise SpecError("PARTITIONED BY", problems)
    return PartitionSpec(id=number, fields=tuple(fields))


def changed_fields(
    snapshot: Snapshot, dropped: Sequence[PartitionDef], added: Sequence[PartitionDef]
) -> tuple[PartitionField, ...]:
    """Return the fields of a table's current spec without some and with others, each of which comes last."""
    kept = list(snapshot.current_spec.fields)
    for definition in dropped:
        (path, *others) = definition.columns
        name = path[0] if definition.transform == "identity" and not others and len(path) == 1 else None
        gone = next((field for field in kept if field.field_id == name), None)
        if gone is None and name is not None and path not in snapshot.schema.source_ids:
            raise NotFound.named("partition field", name, [field.field_id for field in snapshot.current_spec.fields])
        if gone is None:
            (asked,) = partition_spec(snapshot.schema, [definition]).fields
            gone = next((field for field in kept if field.derivation == asked.derivation), None)
            if gone is None:
                shown = show_partitioning(snapshot.current_spec, snapshot.schema)
                raise NotFound(f"no partition field {_format_field(asked, snapshot.schema)}; expected one of {shown}")
        kept.remove(gone)
    new = partition_spec(snapshot.schema, added, earlier=snapshot.specs).fields
    known = {field.derivation for field in kept}
    return (*kept, *(field for field in new if field.derivation not in known))


def check_partitioning(name: str, table: Table, definitions: Sequence[PartitionDef]) -> None:
    """Refuse an append whose partition fields differ from the table's current ones; without definitions any table is accepted."""
    if not definitions:
        return
    if not table.is_partitioned:
        raise SpecError("partition_by", [f"table {name!r} is there already and not partitioned"])
    snapshot = table.snapshot()
    asked, current = partition_spec(snapshot.schema, definitions), snapshot.current_spec
    named = {definition.field_id for definition in definitions} - {None}
    if [f.derivation for f in asked.fields] != [f.derivation for f in current.fields] or not named <= {
        f.field_id for f in current.fields
    }:
        says, has = (show_partitioning(spec, snapshot.schema) for spec in (asked, current))
        raise SpecError("partition_by", [f"table {name!r} is there already and partitioned by {has}; got {says}"])


def show_partitioning(spec: PartitionSpec, schema: NamespaceSchema) -> str:
    """Render the fields of a spec over the columns of `schema` in the syntax of PARTITIONED BY."""
    return ", ".join(_format_field(field, schema) for field in spec.fields)


def _format_field(field: PartitionField, schema: NamespaceSchema) -> str:
    """Render a field in the syntax of PARTITIONED BY."""
    paths = [schema.source_paths.get(number) for number in field.source_ids]
    columns = ["NULL" if path is None else str(Column(path[0], path[1:])) for path in paths]
    return f"{field.rule.as_sql(columns)} AS {Column(field.field_id)}"


def _field(schema: NamespaceSchema, definition: PartitionDef, field_id: str) -> PartitionField:
    problems = [_why_missing(schema, path) for path in definition.columns if path not in schema.source_ids]
    unusable = column_name_problem(partition_column(field_id))
    if problems or unusable is not None:
        raise SpecError(field_id, problems if unusable is None else [*problems, unusable])
    source_ids = tuple(schema.source_ids[path] for path in definition.columns)
    sources = [schema.sources[number].field.type for number in source_ids]
    if definition.expression is not None:
        kind = result_type(definition.expression, sources)
        check_expression(definition.expression, sources, kind)
        return PartitionField(
            field_id=field_id, source_ids=source_ids, rule=Expression(definition.expression), result_type=kind
        )
    transform: Transform = TRANSFORMS[definition.transform](*definition.arguments)
    problems = list(transform.problems(sources))
    if problems:
        raise SpecError(field_id, problems)
    return PartitionField(
        field_id=field_id, source_ids=source_ids, rule=transform, result_type=transform.result_type(sources)
    )


def _why_missing(schema: NamespaceSchema, path: Path) -> str:
    """Return the reason why a partition field cannot be computed from a path."""
    depth = next(depth for depth in range(1, len(path) + 1) if path[:depth] not in schema.source_ids)
    if depth > 1:
        above = schema.sources[schema.source_ids[path[: depth - 1]]].field
        if not pa.types.is_struct(above.type):
            return f"{show_path(path)} is inside {show_path(path[: depth - 1])}, a {above.type}; expected a field inside structs alone"
    known = [
        show_path(some) for some in schema.source_ids if some[: depth - 1] == path[: depth - 1] and len(some) == depth
    ]
    return str(NotFound.named("column", show_path(path[:depth]), known))


def _default_name(definition: PartitionDef) -> str:
    """Return the default name of a field: the column's name for identity, else `<column>_<transform>`."""
    columns = "_".join(name for path in definition.columns for name in path)
    name: str = (
        TRANSFORMS[definition.transform].default_name(columns) if definition.expression is None else f"{columns}_expr"
    )
    return name


def _unused_name(name: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


LEAST_RETAIN = HOUR
"""The shortest retention, in seconds: statements that read a snapshot by its number have to come before it goes."""
RESET = "default"
"""The value that takes an option back."""

_MOST_FILES = 1 << 63
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
_TIME_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def _switch(text: str) -> bool:
    return _SWITCH[text.lower()]


def _files(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_FILES:
        raise ValueError(text)
    return number


def _part(text: str) -> float:
    part = float(text)
    # Not `part > 1`: NaN is not greater than anything.
    if not 0 <= part <= 1:
        raise ValueError(text)
    return part


def _time(least: float, text: str) -> float:
    seconds = parse_seconds(text)
    # NaN is not less than anything.
    if not least <= seconds < inf:
        raise ValueError(text)
    return seconds


_OPTIONS: Mapping[str, tuple[Callable[[str], PolicyValue], str]] = MappingProxyType(
    {
        "maintenance": (_switch, "on or off"),
        "compact_files": (_files, "a number of files, 1 or more"),
        "compact_deleted": (_part, "a part of the rows, 0 to 1"),
        "reindex_missing": (_part, "a part of the rows, 0 to 1"),
        "retain": (partial(_time, LEAST_RETAIN), f"{TIME_EXPECTED}, an hour at least; with its unit, such as '7d'"),
        "transactions": (
            partial(_time, TRANSACTION_FLOOR_HOURS * HOUR),
            f"{TIME_EXPECTED}, {TRANSACTION_FLOOR_HOURS:g} hours at least; with its unit, such as '24h'",
        ),
    }
)
MAINTENANCE_OPTIONS = tuple(_OPTIONS)
_TIMES = frozenset({"retain", "transactions"})


def parse_maintenance_options(
    options: Mapping[str, object], *, may_reset: bool = True
) -> dict[str, PolicyValue | None]:
    """Return the values of policy options, None for those that go back to their default; `InvalidInput` names what is wrong."""
    return dict(_parse(options, may_reset=may_reset))


def _parse(options: Mapping[str, object], *, may_reset: bool) -> Iterator[tuple[str, PolicyValue | None]]:
    for name, value in options.items():
        if name not in _OPTIONS:
            raise InvalidInput(
                f"option {name!r} of a table is not known; expected {', '.join(MAINTENANCE_OPTIONS[:-1])} or {MAINTENANCE_OPTIONS[-1]}"
            )
        parse, expected = _OPTIONS[name]
        if may_reset and str(value).lower() == RESET:
            yield name, None
            continue
        try:
            yield name, parse(str(value))
        except (ValueError, KeyError, OverflowError, InvalidInput) as exc:
            raise InvalidInput(f"{name} is {value!r}; expected {expected}") from exc


def option_as_sql(name: str, value: PolicyValue) -> str:
    """Return an option as it is written in SQL.

    >>> option_as_sql("retain", 604800.0), option_as_sql("compact_files", 8), option_as_sql("maintenance", False)
    ("retain = '7d'", 'compact_files = 8', 'maintenance = off')
    """
    return f"{name} = '{_as_text(name, value)}'" if name in _TIMES else f"{name} = {_as_text(name, value)}"


def as_texts(options: Mapping[str, PolicyValue | None]) -> dict[str, str]:
    """Return options as texts that `parse_maintenance_options` reads."""
    return {name: RESET if value is None else _as_text(name, value) for name, value in options.items()}


def chosen_texts(snapshot: Snapshot) -> dict[str, str]:
    """Return the options that were chosen for a table, as texts."""
    return as_texts(chosen_options(snapshot))


def _as_text(name: str, value: PolicyValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if name in _TIMES:
        return _as_time(value)
    # Never with an exponent, which SQL reads as another expression.
    return f"{value:.15f}".rstrip("0") if isinstance(value, float) and value % 1 else f"{value:.0f}"


def _as_time(seconds: float) -> str:
    unit, size = next(((unit, size) for unit, size in _TIME_UNITS if seconds % size == 0), ("s", 1))
    return f"{seconds / size:.15g}{unit}"


MOST_TABLES = 4096
"""Tables beyond which partition fields are no longer counted: each costs a load files, and a scan of all an open."""
FEWEST_ROWS = 100_000
"""Rows of a typical table, below which more tables cost a query more than they spare it."""
_BUCKET_ROWS = 1_000_000
_MOST_BUCKETS = 64
_BARE = re.compile(r"[a-z_][a-z0-9_]*")
_CALENDAR = ("year({0})", "year({0}), month({0})", "year({0}), month({0}), day({0})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSuggestion:
    """Tables that partition fields would make of rows: their number, and the rows of the smallest, a typical and the largest.

    The number is None where there are more than `MOST_TABLES`; the sizes of buckets are expected ones.
    """

    fields: str
    tables: int | None
    smallest: int = 0
    typical: int = 0
    largest: int = 0

    @property
    def is_fit(self) -> bool:
        """Return whether there are several tables, typically of many rows."""
        return self.tables is not None and self.tables > 1 and self.typical >= FEWEST_ROWS


@dataclass(slots=True)
class _Counted:
    """Partition fields, and how many rows each of their values has so far."""

    fields: str
    spec: PartitionSpec
    counts: pa.Table | None = field(default=None, repr=False)
    is_over: bool = False

    def add(self, rows: pa.Table, schema: NamespaceSchema) -> None:
        values = partition_values(rows, self.spec.fields, schema.source_paths, evaluate)
        names = [f"f{place}" for place in range(values.num_columns)]
        counted = _sum_groups(pa.table([*values.columns, pa.repeat(1, rows.num_rows)], names=[*names, "rows"]))
        self.counts = counted if self.counts is None else _sum_groups(pa.concat_tables([self.counts, counted]))
        self.is_over = self.counts.num_rows > MOST_TABLES

    @property
    def rules(self) -> frozenset[str]:
        """The fields, each as text."""
        return frozenset(str(field.derivation) for field in self.spec.fields)

    @property
    def tables(self) -> int:
        """The number of values so far."""
        return 0 if self.counts is None else self.counts.num_rows

    def suggestion(self) -> PartitionSuggestion:
        if self.is_over or self.counts is None:
            return PartitionSuggestion(fields=self.fields, tables=None if self.is_over else 0)
        rows = sorted(self.counts["rows"].to_pylist())
        return PartitionSuggestion(
            fields=self.fields, tables=len(rows), smallest=rows[0], typical=rows[len(rows) // 2], largest=rows[-1]
        )


def suggestions(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], given: str | None = None
) -> list[PartitionSuggestion]:
    """Count the rows of candidate partition fields, and return the best first: those with most tables of enough rows.

    Candidates are parts of the first dates and times, columns, both together, and buckets of columns with many values;
    `given` are further ones, as of PARTITIONED BY. Memory is that of `MOST_TABLES` values for each.
    """
    stored = NamespaceSchema.assign(storable(schema))
    candidates = [_Counted(text, spec) for text, spec in _candidates(stored, given)]
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        table = pa.Table.from_batches([batch]).cast(stored.plain)
        for dimension in candidates:
            if not dimension.is_over:
                dimension.add(table, stored)
    counted = [
        dimension
        for dimension in candidates
        if dimension.fields == given or not (dimension.is_over or _repeats(dimension, candidates))
    ]
    partition_suggestions = [dimension.suggestion() for dimension in counted]
    buckets = [
        _buckets(dimension.fields, rows)
        for dimension in candidates
        if dimension.is_over and _has_buckets(dimension.spec, stored)
    ]
    # What a query names comes before numbers that mean nothing to it.
    return [*sorted(partition_suggestions, key=_rank), *(suggestion for suggestion in buckets if suggestion.is_fit)]


def _rank(suggestion: PartitionSuggestion) -> tuple[bool, int]:
    return not suggestion.is_fit, -(suggestion.tables or 0) if suggestion.is_fit else 0


def _repeats(one: _Counted, others: Iterable[_Counted]) -> bool:
    """Return whether a part of some fields makes the same tables."""
    return any(other.rules < one.rules and other.tables == one.tables for other in others)


def _candidates(schema: NamespaceSchema, given: str | None) -> Iterable[tuple[str, PartitionSpec]]:
    texts = [] if given is None else [given]
    columns = [_name(field.name) for field in schema.plain if not types.is_floating(field.type)]
    times = [_name(field.name) for field in schema.plain if types.is_date(field.type) or types.is_timestamp(field.type)]
    calendars = [transform.format(name) for name in times for transform in _CALENDAR]
    texts += [*calendars, *columns]
    texts += [
        f"{calendar}, {name}" for calendar in calendars[: len(_CALENDAR)] for name in columns if name not in times
    ]
    for text in dict.fromkeys(texts):
        try:
            yield text, partition_spec(schema, parse_partition_by(text))
        except LanceFlightError:
            if text == given:
                raise


def _name(column: str) -> str:
    return column if _BARE.fullmatch(column) and column not in TRANSFORMS else quote_parts(column)


def _has_buckets(spec: PartitionSpec, schema: NamespaceSchema) -> bool:
    """Return whether fields are one column, and no date or time, whose parts say more."""
    kinds = [kind for field in spec.fields for kind in field.source_types(schema)]
    return len(kinds) == 1 and not types.is_temporal(kinds[0])


def _buckets(column: str, rows: int) -> PartitionSuggestion:
    number = 1
    while number < _MOST_BUCKETS and rows // (number * 2) >= _BUCKET_ROWS:
        number *= 2
    each = rows // number
    return PartitionSuggestion(
        fields=f"bucket({number}, {column})", tables=number, smallest=each, typical=each, largest=each
    )


def _sum_groups(counts: pa.Table) -> pa.Table:
    names = counts.column_names[:-1]
    summed = counts.group_by(names, use_threads=False).aggregate([("rows", "sum")])
    return summed.select([*names, "rows_sum"]).rename_columns([*names, "rows"])
