"""Operations on whole tables, their columns, and views: list, describe, create, change, rename and drop them, and their statistics.

Arrow types come and go as LanceDB's clients write them in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import lance_namespace_urllib3_client.models as m
import pyarrow as pa

from lance_flight.backend_values import IfExists
from lance_flight.engine.sql.references import quote_parts, text_literal
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, Unsupported
from lance_flight.flight.backend import LOCAL_TEMPORARY, VIEW, IfNotExists, IngestTarget, TableEntry
from lance_flight.model import arrow_json
from lance_flight.model.arrow_json import metadata_to_json, type_from_json
from lance_flight.model.schema import FIELD_ID
from lance_flight.model.type_names import type_name
from lance_flight.rest import namespaces
from lance_flight.rest.call import RestAnswer, RestCall, batches_of
from lance_flight.rest.names import TableId, column_sql, field_path, namespace_of, schema_of

OPTION = "lance_flight."
"""Prefix of the options of a new table among `properties`, `storage_options` and the metadata of its schema."""


def visible_tables(call: RestCall) -> list[TableEntry]:
    """Return the tables and views of all schemas that the caller may see."""
    return [entry for entry in call.backend.tables(call.caller) if entry.type != LOCAL_TEMPORARY]


def list_all_tables(call: RestCall) -> RestAnswer:
    """List the tables of all schemas by their identifiers."""
    found = {TableId(entry.db_schema, entry.name) for entry in visible_tables(call)} | _declared(call)
    return _list_page(call, (call.delimiter.join((*namespace_of(each.db_schema), each.name)) for each in found))


def _declared(call: RestCall) -> set[TableId]:
    """Return the tables that the caller has declared, unless the request wants those that are written alone."""
    if call.query.get("include_declared", "true").lower() == "false":
        return set()
    return {table for table, _ in call.declarations()}


def list_tables(call: RestCall) -> RestAnswer:
    """List the tables of a schema, or of a partition namespace."""
    db_schema = schema_of(call.parts)
    names = [entry.name for entry in visible_tables(call) if entry.db_schema == db_schema]
    if not names and db_schema not in {schema_name for _, schema_name in call.backend.db_schemas(call.caller)}:
        return _list_page(call, namespaces.partition_tables(call))
    declared = [table.name for table in _declared(call) if table.db_schema == db_schema]
    return _list_page(call, {*names, *declared})


def _list_page(call: RestCall, names: Iterable[str]) -> RestAnswer:
    found, token = call.page(names)
    return RestAnswer({"tables": found} | ({} if token is None else {"page_token": token}))


def describe_table(call: RestCall) -> RestAnswer:
    """Describe a table: its columns and version, and the location of a plain table that other engines read themselves.

    One that the caller has declared, and its engine not yet written, has a location alone.
    """
    partition = namespaces.describe_partition(call)
    if partition is not None:
        return RestAnswer(partition)
    tag = call.json.get("tag")
    table = call.newest.pin(None, None, tag) if isinstance(tag, str) else call.table
    try:
        schema, version = call.describe(table)
    except NotFound:
        location = dict(call.declarations()).get(table)
        if location is None:
            raise
        return RestAnswer(_named(table) | {"location": location, "table_uri": location, "is_only_declared": True})
    call.forget_declaration(call.newest)
    said = _named(table) | {
        "version": version,
        "schema": schema_to_json(call.with_metadata(schema, table)),
        "stats": {"num_deleted_rows": 0, "num_fragments": 0},
        "properties": {},
        "is_only_declared": False,
    }
    location = namespaces.location_of(call, table)
    return RestAnswer(said if location is None else said | {"location": location, "table_uri": location})


def _named(table: TableId) -> dict[str, Any]:
    return {"table": table.name, "namespace": list(namespace_of(table.db_schema))}


def table_exists(call: RestCall) -> RestAnswer:
    """Answer without a body if a table is there."""
    if namespaces.describe_partition(call) is None:
        call.describe(call.newest)
    return RestAnswer(chunks=iter(()))


def create_table(call: RestCall) -> RestAnswer:
    """Create a table with the rows of the body; `lance_flight.partition_by` among the properties or storage options partitions it."""
    mode = call.query.get("mode", "create").lower().replace("_", "")
    table = call.newest
    rows = call.open_rows()
    options = _creation_options(call, rows.schema)
    if mode not in ("create", "existok", "overwrite"):
        raise InvalidInput(f"mode {mode!r}; expected create, exist_ok or overwrite")
    target = IngestTarget(
        table=table.name,
        schema=table.db_schema,
        if_not_exists=IfNotExists.CREATE,
        if_exists=IfExists.REPLACE if mode == "overwrite" else IfExists.FAIL,
        options=tuple(options.items()),
    )
    try:
        call.ingest(target, rows)
    except AlreadyExists:
        if mode != "existok":
            raise
    return RestAnswer({"version": call.version(table)})


def declare_table(call: RestCall) -> RestAnswer:
    """Return where the caller's own engine is to write a new plain table."""
    table = call.newest
    location = call.backend.declare(call.caller, table.db_schema, table.name)
    call.declare(table, location)
    return RestAnswer({"location": location, "managed_versioning": False})


def _creation_options(call: RestCall, schema: pa.Schema) -> dict[str, str]:
    """Return the options of a new table, by their names in an ingest; other properties are refused, since they would be lost."""
    said: dict[str, Any] = {}
    for name in ("storage_options", "properties"):
        text = call.query.get(name)
        if text:
            try:
                found = json.loads(text)
            except ValueError:
                raise InvalidInput(f"{name} is no JSON; expected an object of texts") from None
            if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
                raise InvalidInput(f"{name} is {found!r}; expected an object of texts")
            said |= found
    metadata = schema.metadata or {}
    said |= {key.decode(): value.decode() for key, value in metadata.items() if key.startswith(OPTION.encode())}
    header = call.headers.get("lance-flight-partition-by")
    if header:
        said[f"{OPTION}partition_by"] = header
    unknown = [name for name in said if not name.startswith(OPTION)]
    if unknown:
        raise Unsupported(f"table properties {', '.join(sorted(unknown))}; expected {OPTION}partition_by and its like")
    return {name.removeprefix(OPTION): value for name, value in said.items()}


def clone_table(call: RestCall) -> RestAnswer:
    """Create a table with the rows of a plain one at some version, which the request names by its location; its files are copied."""
    location = call.value("source_location", str)
    source = _table_at(call, location)
    if source is None:
        raise NotFound(f"no table at {location!r}; expected the location that DescribeTable tells of a plain table")
    tag = call.json.get("source_tag")
    pinned = source.pin(None if tag else call.json.get("source_version"), None, tag)
    found = call.answer(f"SELECT * FROM {pinned.sql}")  # noqa: S608 - a quoted name
    schema = call.with_metadata(found.schema, pinned)
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches_of(found))
    new = call.newest
    target = IngestTarget(
        table=new.name, schema=new.db_schema, if_not_exists=IfNotExists.CREATE, if_exists=IfExists.FAIL
    )
    call.ingest(target, pa.RecordBatchReader.from_batches(schema, batches))
    told = namespaces.location_of(call, new)
    return RestAnswer({"version": call.version(new)} | ({} if told is None else {"location": told}))


def register_table(call: RestCall) -> RestAnswer:
    """Answer an engine that has written a table where `declare_table` told it to: a table is where its name says."""
    location = call.value("location", str)
    if call.json.get("properties"):
        raise Unsupported("properties of a registered table are not kept; expected none")
    if _table_at(call, location) != call.newest:
        raise Unsupported(
            f"{location!r} is not where table {call.newest.name!r} lies; expected the location of DeclareTable"
        )
    return RestAnswer({"location": location})


def _table_at(call: RestCall, location: str) -> TableId | None:
    """Return the plain table at a location; None without any that the caller may read."""
    wanted = location.rstrip("/")
    for entry in visible_tables(call):
        table = TableId(entry.db_schema, entry.name)
        if wanted.endswith(f"{entry.name}.lance") and namespaces.location_of(call, table) == wanted:
            return table
    return None


def drop_table(call: RestCall) -> RestAnswer:
    """Drop a table, or forget that it was declared."""
    try:
        call.run(f"DROP TABLE {call.newest.sql}")
    except NotFound:
        if call.forget_declaration(call.newest) is None:
            raise
    call.forget_declaration(call.newest)
    return RestAnswer({"id": list(call.parts)})


def deregister_table(call: RestCall) -> RestAnswer:
    """Forget that a table was declared."""
    try:
        call.describe(call.newest)
    except NotFound:
        location = call.forget_declaration(call.newest)
        if location is None:
            raise
        return RestAnswer({"id": list(call.parts), "location": location})
    raise Unsupported(
        "DeregisterTable is not offered: a table is where its name says, and in the catalog as long as it is there;"
        " expected DropTable, or a table that was declared alone"
    )


def rename_table(call: RestCall) -> RestAnswer:
    """Rename a table within its schema."""
    namespace = call.json.get("new_namespace_id") or call.json.get("new_namespace")
    if namespace is not None and tuple(namespace) != call.parts[:-1]:
        raise Unsupported(f"a move to namespace {namespace!r}; expected a new name within {list(call.parts[:-1])!r}")
    call.run(f"ALTER TABLE {call.newest.sql} RENAME TO {quote_parts(call.value('new_table_name', str))}")
    return RestAnswer({})


def stats(call: RestCall) -> RestAnswer:
    """Return the numbers of rows, bytes, files and indices of a table."""
    table = call.target
    rows = call.rows(f"SELECT count(*) FROM {table.sql}").column(0)[0].as_py()  # noqa: S608 - a quoted name
    sizes = "SELECT max(rows) AS rows, sum(bytes) AS bytes"
    files = call.rows(f"{sizes} FROM {table.metadata('files')} GROUP BY object_id, fragment_id")
    lengths = sorted(each or 0 for each in files["rows"].to_pylist())
    indices = call.rows(f"SELECT count(*) FROM {table.metadata('indexes')}").column(0)[0].as_py()  # noqa: S608
    return RestAnswer(
        {
            "total_bytes": sum(each or 0 for each in files["bytes"].to_pylist()),
            "num_rows": rows,
            "num_indices": indices,
            "fragment_stats": {
                "num_fragments": len(lengths),
                "num_small_fragments": sum(length < _SMALL for length in lengths),
                "lengths": _summary(lengths),
            },
        }
    )


_SMALL = 100_000
"""Rows below which LanceDB counts a fragment as small."""


def _summary(lengths: list[int]) -> Mapping[str, int]:
    if not lengths:
        return dict.fromkeys(("min", "max", "mean", "p25", "p50", "p75", "p99"), 0)
    last = len(lengths) - 1
    shares = {f"p{share}": lengths[round(last * share / 100)] for share in (25, 50, 75, 99)}
    return {"min": lengths[0], "max": lengths[-1], "mean": sum(lengths) // len(lengths), **shares}


def add_columns(call: RestCall) -> RestAnswer:
    """Add columns that are computed from the others, once; the fields of an Arrow schema are NULL in all rows."""
    if not call.json:
        rows = call.open_rows()
        return _alter(call, [f"ADD COLUMN {column_sql(field.name)} {type_to_sql(field.type)}" for field in rows.schema])
    changes = []
    for entry in call.value("new_columns", list):
        name = entry.get("name") if isinstance(entry, dict) else None
        computed = entry.get("expression") if isinstance(entry, dict) else None
        if not isinstance(computed, str):
            raise Unsupported(f"column {name!r} without an expression: computed and virtual columns are not offered")
        probe = f"SELECT {call.expression(computed)} AS computed FROM {call.target.sql} LIMIT 0"  # noqa: S608 - a quoted name
        kind = type_to_sql(call.rows(probe).schema.field(0).type)
        changes.append(f"ADD COLUMN {column_sql(name)} {kind} AS {call.expression(computed)}")
    return _alter(call, changes)


def alter_columns(call: RestCall) -> RestAnswer:
    """Rename columns, and change their types and whether they may be NULL."""
    changes = []
    for entry in call.value("alterations", list):
        path = entry.get("path") if isinstance(entry, dict) else None
        column = column_sql(path)
        kind, nullable, rename = entry.get("data_type"), entry.get("nullable"), entry.get("rename")
        if kind is not None:
            changes.append(f"ALTER COLUMN {column} TYPE {type_to_sql(kind)}")
        if nullable is not None:
            changes.append(f"ALTER COLUMN {column} {'DROP' if nullable else 'SET'} NOT NULL")
        if rename is not None:
            changes.append(f"RENAME COLUMN {column} TO {quote_parts(rename)}")
    return _alter(call, changes)


def drop_columns(call: RestCall) -> RestAnswer:
    """Drop columns."""
    return _alter(call, [f"DROP COLUMN {column_sql(name)}" for name in call.value("columns", list)])


def update_schema_metadata(call: RestCall) -> RestAnswer:
    """Replace the metadata of a table's schema, and return the new one."""
    call.run(f"ALTER TABLE {call.target.sql} SET METADATA {_metadata_sql(call.json, replaces=True)}")
    return RestAnswer(metadata_to_json(call.columns().metadata))


def update_field_metadata(call: RestCall) -> RestAnswer:
    """Change the metadata of columns, in one commit."""
    updates = m.UpdateFieldMetadataRequest.model_validate(call.json).updates
    paths = [field_path(update.path) for update in updates]
    nested = [update.path for update, path in zip(updates, paths, strict=True) if len(path) > 1]
    if nested or not updates:
        raise Unsupported(f"metadata of {nested or 'no column'}; expected columns, and no field inside them")
    changes = [
        _metadata_sql(update.metadata, name, replaces=bool(update.replace))
        for update, (name,) in zip(updates, paths, strict=True)
    ]
    call.run(f"ALTER TABLE {call.target.sql} SET METADATA {', '.join(changes)}")
    columns = call.columns()
    found = {name: metadata_to_json(columns.field(name).metadata) for (name,) in paths}
    return RestAnswer({"version": call.version(), "fields": found})


def _metadata_sql(texts: Mapping[str, Any], column: str | None = None, *, replaces: bool) -> str:
    wrong = [key for key, text in texts.items() if not isinstance(text, str | None)]
    if wrong:
        raise InvalidInput(f"the metadata {wrong[0]!r} is {texts[wrong[0]]!r}; expected a text")
    pairs = ", ".join(
        f"{text_literal(key)} = {'NULL' if text is None else text_literal(text)}" for key, text in texts.items()
    )
    target = "" if column is None else f"COLUMN {quote_parts(column)} "
    return f"{'REPLACE ' if replaces else ''}{target}({pairs})"


def _alter(call: RestCall, changes: list[str]) -> RestAnswer:
    if not changes:
        raise InvalidInput("the request changes no column; expected one at least")
    call.run(f"ALTER TABLE {call.target.sql} {', '.join(changes)}")
    return RestAnswer({"version": call.version()})


_LOGICAL: Mapping[pa.DataType, str] = MappingProxyType(
    {
        pa.bool_(): "bool",
        pa.float16(): "halffloat",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.utf8(): "string",
        pa.large_utf8(): "large_string",
        pa.date32(): "date32:day",
        pa.date64(): "date64:ms",
    }
)
"""Lance's names of types without arguments, where they are not Arrow's."""


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return a schema as the clients read it."""
    metadata = metadata_to_json(schema.metadata)
    return {"fields": [_field_to_json(field) for field in schema]} | ({"metadata": metadata} if metadata else {})


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    metadata = {key: value for key, value in metadata_to_json(field.metadata).items() if key != FIELD_ID.decode()}
    said = {"name": field.name, "type": _type_to_json(field.type), "nullable": field.nullable}
    return said | ({"metadata": metadata} if metadata else {})


def _type_to_json(kind: pa.DataType) -> dict[str, Any]:
    """Return a type by Lance's name: nested ones with their fields, and the others with their arguments behind colons."""
    if isinstance(kind, pa.BaseExtensionType):
        return _type_to_json(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return {"type": "fixed_size_list", "fields": [_field_to_json(kind.value_field)], "length": kind.list_size}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {
            "type": "list" if pa.types.is_list(kind) else "large_list",
            "fields": [_field_to_json(kind.value_field)],
        }
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field_to_json(field) for field in kind]}
    if pa.types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return {"type": "map", "fields": [_field_to_json(entries)]}
    return {"type": _logical(kind)}


def _logical(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return f"timestamp:{kind.unit}:{kind.tz or '-'}"
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return f"{str(kind).partition('[')[0]}:{kind.unit}"
    if pa.types.is_decimal(kind):
        return f"decimal:{kind.bit_width}:{kind.precision}:{kind.scale}"
    return _LOGICAL.get(kind, str(kind))


def type_to_sql(kind: Any) -> str:
    """Return the name of a type for ALTER TABLE, of an Arrow type or of one in JSON; `Unsupported` names one without a name."""
    if not isinstance(kind, pa.DataType):
        kind = _type_of(kind)
    name = type_name(kind)
    if name == "" or name[0].islower():
        raise Unsupported(f"a column of type {kind}; expected a type that SQL has a name for")
    return name


_BY_NAME = {name: kind for kind, name in _LOGICAL.items()}


def _type_of(value: Any) -> pa.DataType:
    name = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        raise InvalidInput(f"data_type {value!r}; expected the name of a type, or an object with one")
    parts = name.split(":")
    if name in _BY_NAME:
        return _BY_NAME[name]
    try:
        match parts:
            case ["timestamp", unit, zone]:
                return pa.timestamp(unit, None if zone == "-" else zone)
            case ["decimal", _, precision, scale]:
                return pa.decimal128(int(precision), int(scale))
    except ValueError:
        raise InvalidInput(f"data_type {name!r}; expected a type that Arrow has") from None
    found: pa.DataType = type_from_json(value if isinstance(value, Mapping) else {"type": name})
    return found


DATABASE = "x-lancedb-database"
"""Header with the name that a client gave to the database."""


def create_view(call: RestCall) -> RestAnswer:
    """Create a view of a query, in which names without a schema are those of the root."""
    call.run(f"CREATE VIEW {call.newest.sql} AS {call.value('query', str)}")
    return describe_view(call)


def describe_view(call: RestCall) -> RestAnswer:
    """Return the query of a view, and its columns."""
    view = call.newest
    condition = f"table_schema = {text_literal(view.db_schema)} AND table_name = {text_literal(view.name)}"
    found = call.rows(f"SELECT view_definition FROM information_schema.views WHERE {condition}")  # noqa: S608 - literals
    if not found.num_rows:
        raise NotFound.named("view", view.name, _view_names(call, view.db_schema))
    said: dict[str, Any] = {
        "name": view.name,
        "namespace": list(namespace_of(view.db_schema)),
        "query": found.column(0)[0].as_py(),
        "default_database": call.headers.get(DATABASE, ""),
        "default_namespace": [],
        "schema": arrow_json.schema_to_json(_without_metadata(call.describe(view)[0])),
    }
    return RestAnswer(said)


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])


def _view_names(call: RestCall, db_schema: str) -> list[str]:
    entries = call.backend.tables(call.caller)
    return [entry.name for entry in entries if entry.type == VIEW and entry.db_schema == db_schema]


def list_views(call: RestCall) -> RestAnswer:
    """List the views of a schema."""
    found, token = call.page(_view_names(call, schema_of(call.parts)))
    return RestAnswer({"views": found} | ({} if token is None else {"page_token": token}))


def drop_view(call: RestCall) -> RestAnswer:
    """Drop a view."""
    call.run(f"DROP VIEW {call.newest.sql}")
    return RestAnswer({})
