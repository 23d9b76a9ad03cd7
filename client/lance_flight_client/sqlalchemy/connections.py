"""DBAPI connections and cursors over ADBC: autocommit that can be changed, cursors that read whole batches."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import AdbcStatusCode, Error

from lance_flight_client.adbc import LARGEST_MESSAGE, MESSAGE_SIZE, in_messages
from lance_flight_client.sqlalchemy.notices import LanceFlightWarning
from lance_flight_client.sqlalchemy.urls import ServerAddress

_OPTION = "adbc.flight.sql.session.option."
_COOKIES = "adbc.flight.sql.rpc.with_cookie_middleware"


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
        options = {_COOKIES: "true", MESSAGE_SIZE: str(LARGEST_MESSAGE), **self._address.driver_options}
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
        return next(self._unread(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        return list(islice(self._unread(), size or self._adbc.arraysize))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        return list(self._unread())

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
        return self._unread()

    def _unread(self) -> Iterator[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = _rows(self._adbc.fetch_record_batch())
        return self._rows


def _rows(batches: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in batches:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except OSError as error:  # how pyarrow raises what the server says in the middle of a stream
        raise dbapi.OperationalError(str(error), status_code=AdbcStatusCode.IO) from error
