"""Builders of the metadata commands' results: `schema()` is the schema of a result, `build()` fills it.

Everything that comes from a client is compared here with names that the backend lists; none of it becomes SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_flight.errors import Corrupt, NewerFormat, NotFound
from lance_flight.flight import wire
from lance_flight.flight.backend import TABLE_TYPES, Backend, Caller, PrimaryKey, TableEntry
from lance_flight.flight.metadata import schemas, sql_info, sql_types
from lance_flight.flight.metadata.schemas import like
from lance_flight.flight.metadata.sql_types import describe_column
from lance_flight.flight.normalise import client_schema
from lance_flight.flight.wire import MetadataCommand, optional

_COMMENT = b"comment"
"""Key of a column's remark in the metadata of its Arrow field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builder of one metadata command's result: its schema, and its columns, whose rows have the order of the proto."""

    schema: Callable[[Any], pa.Schema]
    columns: Callable[[Any, Backend, Caller], Sequence[Sequence[Any] | pa.Array]]

    def build(self, command: MetadataCommand, backend: Backend, caller: Caller) -> pa.Table:
        """Build the result of `command`, with exactly `schema(command)`."""
        schema = self.schema(command)
        columns = self.columns(command, backend, caller)
        return pa.Table.from_arrays(
            [
                column if isinstance(column, pa.Array) else pa.array(column, field.type)
                for column, field in zip(columns, schema, strict=True)
            ],
            schema=schema,
        )


def schema_of(command: MetadataCommand) -> pa.Schema:
    """Return the schema of the result of `command`."""
    return _BUILDERS[type(command)].schema(command)


def build(command: MetadataCommand, backend: Backend, caller: Caller) -> pa.Table:
    """Build the result of `command` as `caller` may see it."""
    return _BUILDERS[type(command)].build(command, backend, caller)


def _catalogs(_: wire.GetCatalogs, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    return [sorted(name for name in backend.catalogs(caller) if name)]


def _db_schemas(command: wire.GetDbSchemas, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    matches, wanted = like(optional(command, "db_schema_filter_pattern")), optional(command, "catalog")
    schemas = sorted(
        (catalog, db_schema)
        for catalog, db_schema in backend.db_schemas(caller)
        if _same(wanted, catalog) and matches(db_schema)
    )
    return [[catalog or None for catalog, _ in schemas], [db_schema for _, db_schema in schemas]]


def _tables(command: wire.GetTables, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    wanted = optional(command, "catalog")
    in_schema, named = (
        like(optional(command, "db_schema_filter_pattern")),
        like(optional(command, "table_name_filter_pattern")),
    )
    entries = sorted(
        (
            table
            for table in backend.tables(caller)
            if _same(wanted, table.catalog)
            and in_schema(table.db_schema)
            and named(table.name)
            and (not command.table_types or table.type in command.table_types)
        ),
        key=lambda table: (table.catalog, table.db_schema, table.name, table.type),
    )
    if not command.include_schema:
        return _table_columns(entries)
    described = [(table, _serialise(table, backend, caller)) for table in entries]
    present = [(table, schema) for table, schema in described if schema is not None]
    return [*_table_columns([table for table, _ in present]), [schema for _, schema in present]]


def _table_columns(tables: Sequence[TableEntry]) -> Sequence[Sequence[Any]]:
    return [
        [table.catalog or None for table in tables],
        [table.db_schema or None for table in tables],
        [table.name for table in tables],
        [table.type for table in tables],
    ]


def _serialise(table: TableEntry, backend: Backend, caller: Caller) -> bytes | None:
    try:
        plain = client_schema(backend.table_schema(caller, table))
    except NotFound:  # dropped since it was listed
        return None
    except (Corrupt, NewerFormat):  # its own error comes with its first use; the others are listed with it
        plain = pa.schema([])
    fields = [describe_column(field, _where(field, table)) for field in plain]
    message: bytes = pa.schema(fields, metadata=plain.metadata).serialize().to_pybytes()
    return message


def _where(field: pa.Field, table: TableEntry) -> Mapping[str, object]:
    """Return the names of a column's table, and its remark."""
    return {
        "CATALOG_NAME": table.catalog,
        "DB_SCHEMA_NAME": table.db_schema,
        # The proto says DB_SCHEMA_NAME, the clients that are in use read SCHEMA_NAME.
        "SCHEMA_NAME": table.db_schema,
        "TABLE_NAME": table.name,
        "REMARKS": (field.metadata or {}).get(_COMMENT, b"").decode() or None,
    }


def _table_types(_: wire.GetTableTypes, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    return [sorted(TABLE_TYPES | {table.type for table in backend.tables(caller)})]


def _primary_keys(command: wire.GetPrimaryKeys, backend: Backend, caller: Caller) -> Sequence[Sequence[Any]]:
    catalog, db_schema = optional(command, "catalog"), optional(command, "db_schema")
    keys = [
        (table, key, place, column)
        for table in sorted(backend.tables(caller), key=lambda table: (table.catalog, table.db_schema))
        if table.name == command.table and _same(catalog, table.catalog) and _same(db_schema, table.db_schema)
        if (key := _primary_key(table, backend, caller)) is not None
        for place, column in enumerate(key.columns, start=1)
    ]
    return [
        [table.catalog or None for table, *_ in keys],
        [table.db_schema or None for table, *_ in keys],
        [table.name for table, *_ in keys],
        [column for *_, column in keys],
        [place for *_, place, _ in keys],
        [key.name for _, key, *_ in keys],
    ]


def _primary_key(table: TableEntry, backend: Backend, caller: Caller) -> PrimaryKey | None:
    try:
        return backend.primary_key(caller, table)
    except NotFound:  # dropped since it was listed
        return None


def _sql_info(command: wire.GetSqlInfo, backend: Backend, caller: Caller) -> Sequence[Sequence[Any] | pa.Array]:
    codes = sql_info.known_codes(command.info)
    own = {**backend.sql_info(), **(sql_info.OF_JAVA if caller.is_java else {})}
    return [codes, sql_info.values(codes, own)]


def _xdbc_type_info(command: wire.GetXdbcTypeInfo, _backend: Backend, _caller: Caller) -> Sequence[Sequence[Any]]:
    types = sorted(
        (row for row in sql_types.SQL_TYPES if not command.HasField("data_type") or command.data_type == row.data_type),
        key=lambda row: (row.data_type, row.type_name),
    )
    return [[getattr(row, name) for row in types] for name in schemas.XDBC_TYPE_INFO.names]


def _same(wanted: str | None, name: str) -> bool:
    return wanted is None or wanted == name


def _of(schema: pa.Schema, columns: Callable[[Any, Backend, Caller], Sequence[Sequence[Any] | pa.Array]]) -> Builder:
    return Builder(schema=lambda _: schema, columns=columns)


def _empty(schema: pa.Schema) -> Builder:
    return _of(schema, lambda _command, _backend, _caller: [[] for _ in schema])


_BUILDERS: Mapping[type[MetadataCommand], Builder] = {
    wire.GetCatalogs: _of(schemas.CATALOGS, _catalogs),
    wire.GetDbSchemas: _of(schemas.DB_SCHEMAS, _db_schemas),
    wire.GetTables: Builder(
        schema=lambda command: schemas.TABLES_WITH_SCHEMA if command.include_schema else schemas.TABLES,
        columns=_tables,
    ),
    wire.GetTableTypes: _of(schemas.TABLE_TYPES, _table_types),
    wire.GetPrimaryKeys: _of(schemas.PRIMARY_KEYS, _primary_keys),
    # Lance tables have no foreign keys.
    wire.GetExportedKeys: _empty(schemas.FOREIGN_KEYS),
    wire.GetImportedKeys: _empty(schemas.FOREIGN_KEYS),
    wire.GetCrossReference: _empty(schemas.FOREIGN_KEYS),
    wire.GetSqlInfo: _of(schemas.SQL_INFO, _sql_info),
    wire.GetXdbcTypeInfo: _of(schemas.XDBC_TYPE_INFO, _xdbc_type_info),
}
