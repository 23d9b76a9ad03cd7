"""Connections to a server over ADBC, and decoding of the dictionary-encoded columns that they return.

Everything here is plain `adbc_driver_flightsql`; an application needs nothing of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import AdbcStatusCode, Error

from lance_flight_client.errors import ServerError

_PLAIN = {pa.string_view(): pa.utf8(), pa.binary_view(): pa.binary()}
"""Types that the values of a dictionary are cast to first: pyarrow takes no rows of views."""


def decode_dictionaries(data: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """Return `data` without dictionaries at any depth; what has none is returned as it is."""
    schema = pa.schema([field.with_type(_plain(field.type)) for field in data.schema], metadata=data.schema.metadata)
    if schema.types == data.schema.types:
        return data
    batches = data.to_batches() if isinstance(data, pa.Table) else data
    made = pa.RecordBatchReader.from_batches(schema, (_decode_batch(batch, schema) for batch in batches))
    return made.read_all() if isinstance(data, pa.Table) else made


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries.

    >>> _plain(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: string>)
    """
    if pa.types.is_dictionary(kind):
        return _PLAIN.get(kind.value_type, _plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_plain(kind.key_type)), kind.item_field.with_type(_plain(kind.item_type))
        )
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _decode_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column if column.type == kind else column.cast(kind)
    return _cast(column.dictionary, kind).take(column.indices)


_HEADER = "adbc.flight.sql.rpc.call_header."
PARTITION_BY = f"{_HEADER}lance-flight-partition-by"
STABLE_ROW_IDS = f"{_HEADER}lance-flight-stable-row-ids"
FILE_VERSION = f"{_HEADER}lance-flight-file-version"
OVERWRITE = f"{_HEADER}lance-flight-overwrite"
COMMIT_ID = f"{_HEADER}lance-flight-commit-id"
"""The driver sends no ingest options, but any header: the first one partitions the table that an ingest creates."""

MESSAGE_SIZE = "adbc.flight.sql.client_option.with_max_msg_size"
LARGEST_MESSAGE = 256 << 20
"""Most bytes of a message on the connections of this module; 16 MiB on others, unless their option `MESSAGE_SIZE` says otherwise."""

COOKIES = "adbc.flight.sql.rpc.with_cookie_middleware"
"""Option `true` of a connection whose session a cookie identifies, as BEGIN needs it."""

_LARGEST_BATCH = 8 << 20
"""Most bytes of a batch that is sent, unless it is one row: half of what the driver sends by default."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a statement: rows, or how many it affected (−1: unknown)."""

    rows: pa.Table | None
    affected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of a connection: a user with a password or a bearer token, and the certificates to trust.

    `tls_ca`, `certificate` and `key` are PEM: who signs the server's certificate (otherwise those that the system trusts), and
    the client's own where the server asks for one.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_ca: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)

    @property
    def options(self) -> dict[str, str]:
        """The credentials as options of the ADBC driver.

        >>> Credentials(user="alice", password="secret").options
        {'username': 'alice', 'password': 'secret'}
        """
        given = {
            "username": self.user,
            "password": self.password,
            DatabaseOptions.AUTHORIZATION_HEADER.value: None if self.token is None else f"Bearer {self.token}",
            DatabaseOptions.TLS_ROOT_CERTS.value: self.tls_ca,
            DatabaseOptions.MTLS_CERT_CHAIN.value: self.certificate,
            DatabaseOptions.MTLS_PRIVATE_KEY.value: self.key,
        }
        return {name: value for name, value in given.items() if value is not None}


NOBODY = Credentials()


def connect(
    uri: str, credentials: Credentials = NOBODY, options: Mapping[str, str] = MappingProxyType({})
) -> dbapi.Connection:
    """Connect over ADBC to the server at `uri` (`grpc://host:port` or `grpc+tls://host:port`), with autocommit on.

    `options` are further ones of the driver. `ServerError` where there is none, or where it does not let these credentials in.
    """
    try:
        return dbapi.connect(
            uri, db_kwargs={**credentials.options, MESSAGE_SIZE: str(LARGEST_MESSAGE), **options}, autocommit=True
        )
    except Error as exc:
        if exc.status_code is AdbcStatusCode.UNAUTHENTICATED:
            raise ServerError(f"the server at {uri} rejected the credentials: {exc}") from exc
        raise ServerError(f"no server answers at {uri}: {exc}") from exc


@dataclass(frozen=True, slots=True)
class StatementAnswer:
    """Answer to a statement: its columns, none of which a change has, its rows as they come, and how many it affected (−1: unknown)."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    affected: int


@contextmanager
def run_statement(
    connection: dbapi.Connection,
    sql: str,
    begins: Callable[[Callable[[], None]], None] | None = None,
    parameters: pa.RecordBatch | None = None,
) -> Iterator[StatementAnswer]:
    """Run one statement with one row of parameters, whose rows are fetched as they are asked for; the server is told when no more are wanted.

    Before it is sent, `begins` is given a function that another thread may call to cancel it.
    """
    with connection.cursor() as cursor, _server_errors():
        if begins is not None:
            begins(_canceller(cursor))
        try:
            cursor.execute(sql, parameters)
        except Error as exc:
            if _NOT_PREPARED in str(exc):
                # The driver goes on where a statement cannot be prepared, and fails with another error; this has the server's own.
                cursor.adbc_execute_schema(sql)
            raise
        reader = cursor.fetch_record_batch()
        yield StatementAnswer(reader.schema, _read(reader), cursor.rowcount)


_NOT_PREPARED = "must set IngestTargetTable"
"""Part of the driver's message of a statement with parameters that the server has refused to prepare as not offered."""


def _canceller(cursor: Any) -> Callable[[], None]:
    """Return a function that cancels what a cursor runs, and does nothing where that has just ended."""

    def cancel() -> None:
        with suppress(Error):
            cursor.adbc_cancel()

    return cancel


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        with _server_errors(pa.ArrowException, OSError):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


@contextmanager
def _server_errors(*others: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (Error, *others) as exc:
        raise ServerError(str(exc)) from exc


def execute(connection: dbapi.Connection, sql: str) -> Result:
    """Run one statement and fetch all of its rows."""
    with run_statement(connection, sql) as answer:
        rows = pa.Table.from_batches(answer.batches, answer.schema)
        return Result(rows, rows.num_rows) if len(answer.schema) else Result(None, answer.affected)


def query(connection: dbapi.Connection, sql: str) -> pa.Table:
    """Return all rows of a query, which must be one. It is not prepared, which costs the server a quarter less than `execute`."""
    with connection.cursor() as cursor, _server_errors(pa.ArrowException, OSError):
        cursor.adbc_statement.set_sql_query(sql)
        return pa.RecordBatchReader.from_stream(cursor.adbc_statement.execute_query()[0]).read_all()


def ingest(
    connection: dbapi.Connection,
    table: str,
    data: pa.Table | pa.RecordBatchReader,
    *,
    mode: str = "create",
    db_schema: str | None = None,
    partition_by: str | None = None,
    stable_row_ids: bool = False,
    file_version: str | None = None,
    overwrite: str | None = None,
    commit_id: str | None = None,
    is_temporary: bool = False,
    begins: Callable[[Callable[[], None]], None] | None = None,
) -> int:
    """Send rows to a table and return how many were stored.

    If it is made for them, it is partitioned as `partition_by` says (as in CREATE TABLE … PARTITIONED BY (…)), and its rows
    keep their ids with `stable_row_ids`. Its data files are of `file_version` of Lance's format (None: the newest).
    Rows of a table that is there make room with `overwrite`: "partitions" those of the partitions that get rows, "table" all.
    Rows with a `commit_id` are stored once, however often they are sent (`ServerError` already_committed).
    A table that `is_temporary` is one of the session.
    Dictionary-encoded columns are sent as their values, which every server takes. Large batches are divided, since the driver sends no
    message above `MESSAGE_SIZE`; a row that is larger by itself raises `ServerError`.
    Before they are sent, `begins` is given a function that another thread may call to cancel this.
    """
    data = in_messages(decode_dictionaries(data))
    with connection.cursor() as cursor:
        if begins is not None:
            begins(_canceller(cursor))
        given = {
            STABLE_ROW_IDS: "true" if stable_row_ids else None,
            FILE_VERSION: file_version,
            PARTITION_BY: partition_by,
            OVERWRITE: overwrite,
            COMMIT_ID: commit_id,
        }
        cursor.adbc_statement.set_options(**{name: text for name, text in given.items() if text is not None})
        try:
            return int(cursor.adbc_ingest(table, data, mode=mode, db_schema_name=db_schema, temporary=is_temporary))
        except Error as exc:
            hint = f"; a single row is too large: raise the option {MESSAGE_SIZE} of the connection, which is in bytes"
            raise ServerError(f"{exc}{hint if 'message larger than max' in str(exc) else ''}") from exc


def in_messages(data: pa.Table | pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return `data` in batches of at most `_LARGEST_BATCH` bytes, or of one row; in one without rows where there are none."""

    def batches() -> Iterator[pa.RecordBatch]:
        is_sent = False
        for whole in data.to_batches() if isinstance(data, pa.Table) else data:
            waiting = [whole]
            while waiting:
                batch = waiting.pop()
                if batch.num_rows <= 1 or batch.nbytes <= _LARGEST_BATCH:
                    yield batch
                    is_sent = True
                else:
                    half = batch.num_rows // 2
                    waiting += [batch.slice(half), batch.slice(0, half)]
        if not is_sent:
            # Without any batch the driver sends nothing, no schema either.
            yield pa.RecordBatch.from_pylist([], data.schema)

    return pa.RecordBatchReader.from_batches(data.schema, batches())


def report_progress(table: pa.Table, progress: Callable[[int], Any], rows: int = 65_536) -> pa.RecordBatchReader:
    """Return `table` as a stream that calls `progress` with the number of rows sent so far."""

    def batches() -> Any:
        sent = 0
        for batch in table.to_batches(max_chunksize=rows):
            yield batch
            sent += batch.num_rows
            progress(sent)

    return pa.RecordBatchReader.from_batches(table.schema, batches())
