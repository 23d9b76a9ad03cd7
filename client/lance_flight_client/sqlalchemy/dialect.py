"""The dialect: what the server can do, how connections are made, and how rows are inserted in bulk."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from sqlalchemy import schema as sa_schema
from sqlalchemy import sql, types
from sqlalchemy.engine import URL

from lance_flight_client.sqlalchemy.compiler import (
    LanceFlightCompiler,
    LanceFlightDDLCompiler,
    LanceFlightIdentifierPreparer,
    declared,
)
from lance_flight_client.sqlalchemy.connections import BatchCursor, Connection
from lance_flight_client.sqlalchemy.reflection import Reflection
from lance_flight_client.sqlalchemy.types import Binary, Decimals, Floats, TypeCompiler
from lance_flight_client.sqlalchemy.urls import parse

AUTOCOMMIT, SNAPSHOT, SERIALIZABLE = "AUTOCOMMIT", "SNAPSHOT", "SERIALIZABLE"
_VERSION = re.compile(r"lance-flight (\d+)\.(\d+)\.(\d+)")
_INGESTED_ROWS = 64
"""Number of rows from which an INSERT of many rows is sent as an ingest, whose cost does not grow with each row."""


class LanceFlightDialect(Reflection):
    """`lance_flight://[user:password@]host[:port][/schema][?option=value&…]`.

    Statements are committed one by one unless an isolation level is asked for: a transaction of the server changes one partitioned table,
    which is less than the unit of work of an ORM needs, or `MetaData.create_all`.
    """

    name = "lance_flight"
    driver = "adbc"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    statement_compiler = LanceFlightCompiler
    ddl_compiler = LanceFlightDDLCompiler
    type_compiler_cls = TypeCompiler
    preparer = LanceFlightIdentifierPreparer
    construct_arguments = [  # noqa: RUF012 - SQLAlchemy's declaration
        (sa_schema.Table, declared("partitioned_by", "file_version", "stable_row_ids")),
        (sa_schema.Index, declared("using", "with")),
    ]

    colspecs = {types.LargeBinary: Binary, types.Numeric: Decimals, types.Float: Floats}  # noqa: RUF012
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_multivalues_insert = True
    supports_default_values = False
    supports_empty_insert = False
    supports_sequences = False
    cte_follows_insert = True
    supports_is_distinct_from = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    postfetch_lastrowid = False
    insert_returning = update_returning = delete_returning = False
    supports_views = True
    supports_comments = True
    inline_comments = True
    requires_name_normalize = False
    max_identifier_length = 200

    def __init__(
        self,
        json_serializer: Callable[[Any], str] | None = None,
        json_deserializer: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._json_serializer, self._json_deserializer = json_serializer, json_deserializer

    @classmethod
    def import_dbapi(cls) -> Any:
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        return [parse(url)], {}

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        return Connection(*cargs, **cparams)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...] | None:
        found = _VERSION.match(str(connection.exec_driver_sql("SELECT version()").scalar()))
        return None if found is None else tuple(map(int, found.groups()))

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:
        return (AUTOCOMMIT, SNAPSHOT, SERIALIZABLE)

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return AUTOCOMMIT

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return dbapi_connection.isolation_level

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        dbapi_connection.isolation_level = level

    def reset_isolation_level(self, dbapi_conn: Any) -> None:
        level = self._on_connect_isolation_level
        if level is None:
            dbapi_conn.reset_isolation_level()
        else:
            dbapi_conn.isolation_level = level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.is_autocommit)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        table = None if context is None else _plain_insert(context, statement)
        if table is None or len(parameters) < _INGESTED_ROWS or not _ingest(cursor, statement, parameters, *table):
            self._execute_each(cursor, statement, parameters)

    def _execute_each(self, cursor: Any, statement: str, parameters: Any) -> None:
        """Execute a change for all rows of parameters; in autocommit one after another where a table cannot change by all of them at once."""
        try:
            cursor.executemany(statement, parameters)
        except dbapi.NotSupportedError:
            if not cursor.connection.is_autocommit:
                raise
            cursor.execute_in_turn(statement, parameters)


def _plain_insert(context: Any, statement: str) -> tuple[sql.TableClause, list[str]] | None:
    """Return the table and columns of `INSERT INTO t (a, b) VALUES (?, ?)`; None for any other statement."""
    compiled = context.compiled
    if compiled is None or not context.isinsert:
        return None
    table, preparer = compiled.statement.table, compiled.preparer
    columns = [table.c.get(key) for key in compiled.positiontup]
    if any(column is None for column in columns):
        return None
    names, signs = ", ".join(map(preparer.format_column, columns)), ", ".join("?" for _ in columns)
    plain = f"INSERT INTO {preparer.format_table(table)} ({names}) VALUES ({signs})"  # noqa: S608 - compared, not sent
    return (table, [column.name for column in columns]) if statement == plain else None


def _ingest(cursor: BatchCursor, statement: str, parameters: Any, table: Any, columns: list[str]) -> bool:
    """Insert rows by an ingest, in one commit; return False where a value is not of its column's type, which SQL would cast."""
    types = cursor.parameter_schema(statement)
    if types is None or len(types) != len(columns):
        return False
    try:
        arrays = [
            pa.array(values, field.type) for values, field in zip(zip(*parameters, strict=True), types, strict=True)
        ]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    cursor.ingest(table.name, table.schema, pa.Table.from_arrays(arrays, names=columns))
    return True
