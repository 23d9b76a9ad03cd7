"""The dialect: what the server can do, URLs, DBAPI connections and cursors over ADBC, bulk inserts, and reflection.

What SQLAlchemy's inspector asks is answered from `information_schema` and SHOW INDEXES.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import AdbcStatusCode, Error
from sqlalchemy import schema as sa_schema
from sqlalchemy import sql, text, types
from sqlalchemy.engine import URL
from sqlalchemy.engine import Connection as SqlConnection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import ReflectionDefaults, cache
from sqlalchemy.exc import ArgumentError, NoSuchTableError

from lance_flight_client.adbc import COOKIES, LARGEST_MESSAGE, MESSAGE_SIZE, Credentials, in_messages
from lance_flight_client.sqlalchemy.compiler import (
    Binary,
    Decimals,
    Floats,
    LanceFlightCompiler,
    LanceFlightDDLCompiler,
    LanceFlightIdentifierPreparer,
    LanceFlightWarning,
    TypeCompiler,
    declare_options,
    reflect_type,
)

_TABLES, _TEMPORARY, _VIEW = "BASE TABLE", "LOCAL TEMPORARY", "VIEW"


class Reflection(DefaultDialect):
    """Methods of a dialect that read the metadata of tables; `schema` is None for the schema of the session."""

    @cache
    def get_schema_names(self, connection: SqlConnection, **kw: Any) -> list[str]:
        return list(_rows_of(connection, "SELECT schema_name FROM information_schema.schemata ORDER BY 1").scalars())

    def has_schema(self, connection: SqlConnection, schema_name: str, **kw: Any) -> bool:
        return schema_name in self.get_schema_names(connection, **kw)

    @cache
    def get_table_names(self, connection: SqlConnection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._list_names(connection, schema, _TABLES)

    @cache
    def get_temp_table_names(self, connection: SqlConnection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._list_names(connection, schema, _TEMPORARY)

    @cache
    def get_view_names(self, connection: SqlConnection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._list_names(connection, schema, _VIEW)

    def get_temp_view_names(self, connection: SqlConnection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    @cache
    def has_table(self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return self._kind(connection, table_name, schema) is not None

    @cache
    def get_view_definition(
        self, connection: SqlConnection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        asked = (
            "SELECT view_definition FROM information_schema.views WHERE table_schema = :schema AND table_name = :name"
        )
        row = _rows_of(connection, asked, schema=self._schema(schema), name=view_name).first()
        if row is None:
            _refuse(view_name, schema)
        return str(row[0])

    @cache
    def get_columns(
        self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        asked = """
            SELECT column_name, data_type, is_nullable, column_default, column_comment FROM information_schema.columns
            WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position
        """
        columns = [
            {
                "name": name,
                "type": reflect_type(kind),
                "nullable": nullable == "YES",
                "default": default,
                "autoincrement": False,
                "comment": comment,
            }
            for name, kind, nullable, default, comment in _rows_of(
                connection, asked, schema=self._schema(schema), name=table_name
            )
        ]
        return columns or self._nothing(connection, table_name, schema, [])

    @cache
    def get_pk_constraint(
        self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        asked = """
            SELECT constraint_name, column_name FROM information_schema.key_column_usage
            WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position
        """
        keys = _rows_of(connection, asked, schema=self._schema(schema), name=table_name).all()
        if not keys:
            return self._nothing(connection, table_name, schema, ReflectionDefaults.pk_constraint())
        return {"name": keys[0][0], "constrained_columns": [column for _, column in keys]}

    @cache
    def get_foreign_keys(self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._nothing(connection, table_name, schema, ReflectionDefaults.foreign_keys())

    @cache
    def get_unique_constraints(
        self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._nothing(connection, table_name, schema, ReflectionDefaults.unique_constraints())

    @cache
    def get_check_constraints(
        self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._nothing(connection, table_name, schema, ReflectionDefaults.check_constraints())

    @cache
    def get_indexes(self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        if self._kind(connection, table_name, schema) == _VIEW:
            return []
        self._nothing(connection, table_name, schema, None)
        quote = self.identifier_preparer.quote_identifier
        asked = f"SHOW INDEXES FROM {quote(self._schema(schema))}.{quote(table_name)}"
        result = connection.exec_driver_sql(asked).mappings()
        return [
            {
                "name": index["name"],
                "column_names": [index["column_name"]],
                "unique": False,
                "dialect_options": {"lance_flight_using": index["kind"]},
            }
            for index in result
        ]

    @cache
    def get_table_comment(
        self, connection: SqlConnection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        asked = """
            SELECT table_comment FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name
        """
        row = _rows_of(connection, asked, schema=self._schema(schema), name=table_name).first()
        if row is None:
            _refuse(table_name, schema)
        return {"text": row[0]}

    def _list_names(self, connection: SqlConnection, schema: str | None, kind: str) -> list[str]:
        asked = """
            SELECT table_name FROM information_schema.tables WHERE table_schema = :schema AND table_type = :kind ORDER BY 1
        """
        return list(_rows_of(connection, asked, schema=self._schema(schema), kind=kind).scalars())

    def _kind(self, connection: SqlConnection, name: str, schema: str | None) -> str | None:
        """Return the type of a table or view; None if there is none."""
        asked = "SELECT table_type FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name"
        kind: str | None = _rows_of(connection, asked, schema=self._schema(schema), name=name).scalar()
        return kind

    def _nothing(self, connection: SqlConnection, name: str, schema: str | None, answer: Any) -> Any:
        """Return `answer` for a table that is there; raise an error for any other."""
        if self._kind(connection, name, schema) is None:
            _refuse(name, schema)
        return answer

    def _schema(self, schema: str | None) -> str:
        return str(schema or self.default_schema_name)


def _rows_of(connection: SqlConnection, sql: str, **parameters: str) -> Any:
    return connection.execute(text(sql), parameters)


def _refuse(name: str, schema: str | None) -> NoReturn:
    raise NoSuchTableError(name if schema is None else f"{schema}.{name}")


DEFAULT_PORT = 32010
_TRUTH = MappingProxyType({"true": True, "1": True, "on": True, "false": False, "0": False, "off": False})
_FILES = MappingProxyType({"tls_ca": "tls_ca", "tls_certificate": "certificate", "tls_key": "key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Address of a server in a URL, with the options of the ADBC driver and those of the session."""

    uri: str
    driver_options: Mapping[str, str] = field(repr=False)
    session_options: Mapping[str, str]


def parse(url: URL) -> ServerAddress:
    """Return the address in a URL.

    `tls`, `tls_ca`, `tls_certificate`, `tls_key` (paths of PEM files), `token` and `token_file` are about the connection, names that begin
    with `adbc.` are options of the driver, and all others are options of the session, which the server knows.

    >>> address = parse(URL.create("lance_flight", host="h", database="sales", query={"tls": "true", "branch": "b"}))
    >>> address.uri, dict(address.session_options)
    ('grpc+tls://h:32010', {'schema': 'sales', 'branch': 'b'})
    """
    given = {name: _single(name, value) for name, value in url.query.items()}
    files = {ours: given.pop(name) for name, ours in _FILES.items() if name in given}
    is_encrypted = _truth("tls", given.pop("tls", "true" if files else "false"))
    if files and not is_encrypted:
        raise ArgumentError(f"{', '.join(files)} go with tls=true, but the URL says tls=false")
    credentials = Credentials(
        user=url.username,
        password=None if url.password is None else str(url.password),
        token=_token(given),
        **{name: _text("file", path) for name, path in files.items()},
    )
    driver = {name: given.pop(name) for name in [*given] if name.startswith("adbc.")}
    schema = {"schema": url.database} if url.database else {}
    return ServerAddress(
        uri=f"grpc{'+tls' if is_encrypted else ''}://{_host(url)}:{url.port or DEFAULT_PORT}",
        driver_options={**credentials.options, **driver},
        session_options={**schema, **given},
    )


def _host(url: URL) -> str:
    host = url.host or "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _token(given: dict[str, str]) -> str | None:
    token, path = given.pop("token", None), given.pop("token_file", None)
    if token is not None and path is not None:
        raise ArgumentError("the URL has both token and token_file; expected one of them")
    return token if path is None else _text("token_file", path).strip()


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{name} {path!r} cannot be read: {error}") from error


def _single(name: str, value: str | tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name} occurs {len(value)} times in the URL; expected once")
    return value


def _truth(name: str, text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ArgumentError(f"{name} is {text!r}; expected one of {', '.join(_TRUTH)}")
    return _TRUTH[text.lower()]


_OPTION = "adbc.flight.sql.session.option."


class Connection:
    """ADBC connection in autocommit or in Flight SQL transactions, with the session options of its URL.

    A failed commit leaves ADBC's connection without a transaction, which it cannot begin again: another one takes its place. Its
    session begins anew, without the temporary tables of the old one.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._options = dict(address.session_options)
        self._has_changed = False
        self._warns_of_rollback = True
        self.is_autocommit = True
        self._adbc = self._open()

    def cursor(self) -> BatchCursor:
        """Return a cursor over a new statement."""
        return BatchCursor(self, self._adbc.cursor())

    def commit(self) -> None:
        """Commit the transaction; in autocommit each statement has been committed."""
        self._has_changed = False
        if not self.is_autocommit:
            self._end(self._adbc.adbc_connection.commit)

    def rollback(self) -> None:
        """Roll the transaction back; in autocommit warn of changes, which stay."""
        if not self.is_autocommit:
            self._end(self._adbc.adbc_connection.rollback)
        elif self._has_changed and self._warns_of_rollback:
            warnings.warn(
                "rollback, or close without commit, undoes nothing in autocommit: what was executed stays. Use"
                " isolation_level='SNAPSHOT' for transactions, or 'AUTOCOMMIT' to say that none is wanted",
                LanceFlightWarning,
                stacklevel=2,
            )
        self._has_changed = False

    def close(self) -> None:
        """Close the connection."""
        self._adbc.close()

    @property
    def isolation_level(self) -> str:
        """AUTOCOMMIT, or the level that transactions have."""
        return "AUTOCOMMIT" if self.is_autocommit else self._options.get("isolation", "snapshot").upper()

    @isolation_level.setter
    def isolation_level(self, level: str) -> None:
        self._warns_of_rollback = level != "AUTOCOMMIT"
        self._set_autocommit(value=level == "AUTOCOMMIT")
        if level != "AUTOCOMMIT":
            self._options["isolation"] = level.lower()
            self._adbc.adbc_connection.set_options(**_session({"isolation": level.lower()}))

    def reset_isolation_level(self) -> None:
        """Return to the autocommit of new connections."""
        self._set_autocommit(value=True)
        self._warns_of_rollback = True

    def note_change(self) -> None:
        """Note that a statement without rows was executed."""
        self._has_changed = True

    def __getattr__(self, name: str) -> Any:
        """Return what ADBC's connection adds to the DBAPI (`adbc_get_objects` …)."""
        return getattr(self._adbc, name)

    def _open(self) -> dbapi.Connection:
        options = {COOKIES: "true", MESSAGE_SIZE: str(LARGEST_MESSAGE), **self._address.driver_options}
        connection = dbapi.connect(self._address.uri, db_kwargs=options, autocommit=True)
        try:
            if self._options:
                connection.adbc_connection.set_options(**_session(self._options))
        except Error:
            connection.close()
            raise
        return connection

    def _set_autocommit(self, *, value: bool) -> None:
        if value != self.is_autocommit:
            self._adbc.adbc_connection.set_autocommit(value)
            self.is_autocommit = value

    def _end(self, operation: Any) -> None:
        try:
            operation()
        except Error:
            self._adbc.close()
            self._adbc = self._open()
            self._adbc.adbc_connection.set_autocommit(self.is_autocommit)
            raise


def _session(options: Mapping[str, str]) -> dict[str, str]:
    return {_OPTION + name: value for name, value in options.items()}


class BatchCursor:
    """BatchCursor whose rows are converted by whole columns of a batch."""

    lastrowid = None

    def __init__(self, connection: Connection, adbc: dbapi.Cursor) -> None:
        self.connection = connection
        self._adbc = adbc
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._changed: int | None = None

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed; −1 of a query."""
        return int(self._adbc.rowcount) if self._changed is None else self._changed

    @property
    def description(self) -> Sequence[tuple[Any, ...]] | None:
        """The columns of the result; None of a statement without rows."""
        return self._adbc.description or None

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> None:
        """Execute a statement."""
        self._rows = self._changed = None
        self._adbc.execute(operation, tuple(parameters) if parameters else None)
        if self.description is None:
            self.connection.note_change()

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> None:
        """Execute a change once for each row of parameters, in one transaction."""
        self._rows = self._changed = None
        self._adbc.executemany(operation, seq_of_parameters)
        self.connection.note_change()

    def execute_in_turn(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> None:
        """Execute a change for one row of parameters after another, each committed by itself in autocommit."""
        changed = 0
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            changed += self.rowcount
        self._changed = changed

    def parameter_schema(self, operation: str) -> pa.Schema | None:
        """Prepare a statement and return the types of its parameters."""
        return self._adbc.adbc_prepare(operation)

    def ingest(self, table: str, schema: str | None, rows: pa.Table) -> None:
        """Append rows to a table in one commit."""
        self._rows = None
        self._changed = int(self._adbc.adbc_ingest(table, in_messages(rows), mode="append", db_schema_name=schema))
        self.connection.note_change()

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row; None after the last one."""
        return next(self._read_rest(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        return list(islice(self._read_rest(), size or self._adbc.arraysize))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        return list(self._read_rest())

    def setinputsizes(self, *_: Any) -> None:
        """Do nothing, as the DBAPI allows."""

    def close(self) -> None:
        """Close the statement."""
        self._rows = None
        self._adbc.close()

    def __getattr__(self, name: str) -> Any:
        """Return what ADBC's cursor adds to the DBAPI (`fetch_arrow_table`, `adbc_ingest` …)."""
        return getattr(self._adbc, name)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._read_rest()

    def _read_rest(self) -> Iterator[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = _rows(self._adbc.fetch_record_batch())
        return self._rows


def _rows(batches: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in batches:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except OSError as error:  # how pyarrow raises what the server says in the middle of a stream
        raise dbapi.OperationalError(str(error), status_code=AdbcStatusCode.IO) from error


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
        (sa_schema.Table, declare_options("partitioned_by", "file_version", "stable_row_ids")),
        (sa_schema.Index, declare_options("using", "with")),
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
    insert_returning = update_returning = delete_returning = True
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
        match = _VERSION.match(str(connection.exec_driver_sql("SELECT version()").scalar()))
        return None if match is None else tuple(map(int, match.groups()))

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
