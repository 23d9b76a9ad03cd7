"""Interface between the Flight SQL dispatch and the engine that runs the SQL.

The dispatch knows no engine: it decodes commands, calls a `Backend` and encodes what comes back.
`lance_flight.engine` is one backend; the protocol tests have another one with canned answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from lance_flight.backend_values import (
    CancelStatus,
    Description,
    IfExists,
    PeerRequest,
    SessionState,
    SettingValue,
    TablePlace,
)
from lance_flight.connections import holder_of
from lance_flight.flight.wire import SubstraitPlan

SqlOrPlan: TypeAlias = str | SubstraitPlan
"""Statement that a client submits: SQL text or a Substrait plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Caller of a method: its principal and groups with the kind of `proof`, its address, and the key of its session.

    `connection` is the address at the other end of its connection, which is a proxy's where there is one.
    `is_connection` says that this is nothing but the connection. `cookie` is the key in the cookie of its client, if it came with
    one, and tells the session apart by itself; `state` is what a cookie says of the session, and `is_from_elsewhere` that it was
    another server's. `is_gone` says whether the client still waits for an
    answer; it may be asked from any thread, also after the call. `trace` is the context of the call's trace, if there is one.
    `is_java` says that its client is one in Java, as the JDBC driver is. `db_schema` is the schema of names without one, where the
    call names it itself and leaves the session's alone. `progressed` is told how much of the statement's work is done, 0 to 1.
    """

    principal: str = "anonymous"
    groups: tuple[str, ...] = ()
    proof: str = ""
    peer: str = ""
    connection: str = ""
    session: str = ""
    is_connection: bool = False
    cookie: str | None = None
    state: SessionState | None = None
    is_from_elsewhere: bool = False
    is_gone: Callable[[], bool] = field(default=lambda: False, compare=False, repr=False)
    trace: Any = None
    is_java: bool = False
    db_schema: str | None = None
    progressed: Callable[[float], object] = field(default=lambda _: None, compare=False, repr=False)

    @property
    def holder(self) -> str:
        """Return whom the call counts for where something is shared."""
        return holder_of(self.principal, self.peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Planned query: one payload for each endpoint.

    `app_metadata` is sent with the FlightInfo, `endpoint_metadata` with each endpoint. Payloads can be read until it `expires`.

    A payload is all that `Backend.read` needs, on any server over the same root; the dispatch signs it
    into a ticket and never looks inside.
    """

    schema: pa.Schema
    payloads: tuple[bytes, ...]
    ordered: bool = False
    total_records: int = -1
    total_bytes: int = -1
    app_metadata: bytes = b""
    endpoint_metadata: bytes = b""
    expires: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Rows of a query that is read at once, with the versions of the tables that it reads."""

    schema: pa.Schema
    rows: Rows
    snapshots: Mapping[str, int]


class IfNotExists(Enum):
    """Action of an ingest whose target table is missing."""

    CREATE = "create"
    FAIL = "fail"


TABLE, LOCAL_TEMPORARY, VIEW = "TABLE", "LOCAL TEMPORARY", "VIEW"
TABLE_TYPES = frozenset({TABLE, LOCAL_TEMPORARY, VIEW})
"""Types of tables, in JDBC's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTarget:
    """Target of an ingest, and the actions for a missing and for an existing table (proto: CommandStatementIngest)."""

    table: str
    catalog: str | None = None
    schema: str | None = None
    if_not_exists: IfNotExists = IfNotExists.FAIL
    if_exists: IfExists = IfExists.APPEND
    temporary: bool = False
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """Table as the metadata commands list it; "" stands for no catalog or no schema."""

    catalog: str
    db_schema: str
    name: str
    type: str = TABLE


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """Primary key of a table: the name of its constraint, and its columns in the order of the key."""

    name: str
    columns: tuple[str, ...]


class CountedRows(Protocol):
    """Batches of one schema, each computed when it is read; the backend knows what is held for the client, and how long that takes over each message."""

    @property
    def schema(self) -> pa.Schema:
        """Return the exact schema of every batch."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches, once."""
        ...

    def send(self, messages: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages that are made of the batches."""
        ...


Rows: TypeAlias = pa.RecordBatchReader | CountedRows
"""Rows of a result: those at hand, or those that are computed when they are read."""
SqlInfoValue: TypeAlias = str | bool | int | None


class Backend(Protocol):
    """Interface of a backend that runs SQL. Every method may raise errors of `lance_flight.errors`, and runs on a thread of its own."""

    def describe(self, caller: Caller, statement: SqlOrPlan, *, transaction: bytes | None = None) -> Description:
        """Plan a statement without running any of it."""
        ...

    def begin_session(self, caller: Caller) -> None:
        """Begin a new session for a client that asks for SqlInfo, the first call of drivers on a new connection.

        This matters if the session is identified by its connection alone: an earlier client may have had the same
        address.
        """
        ...

    def offer(self, caller: Caller, cookie: str) -> None:
        """Register the key of a new cookie for the caller's session, valid from any connection."""
        ...

    def state(self, caller: Caller) -> SessionState | None:
        """Return the state of the caller's session; None if it has ended."""
        ...

    def knows(self, cookie: str) -> bool:
        """Return whether a session that has not ended is registered under the key of a cookie."""
        ...

    def set_option(self, caller: Caller, name: str, value: SettingValue | None) -> None:
        """Set an option of the caller's session, None: to its default.

        Raises `NotFound` for a name that no option has, and `InvalidInput` for a value that it cannot have.
        """
        ...

    def options(self, caller: Caller) -> Mapping[str, SettingValue]:
        """Return all options of the caller's session."""
        ...

    def close_session(self, caller: Caller) -> None:
        """End the caller's session, and roll its transactions back."""
        ...

    def begin(self, caller: Caller) -> bytes:
        """Begin a transaction of the caller's session and return its id."""
        ...

    def current(self, caller: Caller, transaction: bytes) -> bytes:
        """Return the transaction that a statement prepared in `transaction` belongs to: the session's next one, once that has ended.

        Drivers keep a prepared statement beyond the end of its transaction when the same text is run again.
        """
        ...

    def end(self, caller: Caller, transaction: bytes, *, commit: bool) -> None:
        """Commit a transaction or roll it back; if the commit fails it stays open, to be rolled back."""
        ...

    def begin_savepoint(self, caller: Caller, transaction: bytes, name: str) -> bytes:
        """Create a savepoint in a transaction and return its id."""
        ...

    def end_savepoint(self, caller: Caller, savepoint: bytes, *, release: bool) -> None:
        """Release a savepoint, or roll back to it."""
        ...

    def roll_back_open(self) -> int:
        """Roll back every open transaction that runs no statement, of all principals; return their number."""
        ...

    def execute(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        endpoints: int = 1,
        transaction: bytes | None = None,
    ) -> Planned | int:
        """Plan a query (`parameters`: one row), or run any other statement once per row of `parameters`.

        The latter returns how many rows it has affected (-1: unknown). A statement that returns a report is run as well: the
        payload gives what it has done.
        """
        ...

    def answer(self, caller: Caller, sql: str, *, parameters: pa.RecordBatch | None = None) -> Answered:
        """Run a query, or a statement with a report, for its rows, as `execute` and `read` do it in two calls."""
        ...

    def update(
        self,
        caller: Caller,
        statement: SqlOrPlan,
        *,
        parameters: pa.RecordBatch | None = None,
        transaction: bytes | None = None,
    ) -> int:
        """Run a statement once per row of `parameters` and return the number of rows that it affected, or that its report has.

        `InvalidInput` for a query.
        """
        ...

    def read(self, caller: Caller, payload: bytes) -> Rows:
        """Return the rows of one payload of a `Planned`, in exactly its schema."""
        ...

    def cancel(self, caller: Caller, payloads: Sequence[bytes]) -> CancelStatus:
        """Stop the query with these payloads, which become invalid; raise `Refused` if it belongs to another principal."""
        ...

    def renew(self, caller: Caller, payload: bytes) -> datetime | None:
        """Extend the validity of a payload that has not expired, and return its new end; None: for ever."""
        ...

    def ingest(
        self, caller: Caller, target: IngestTarget, reader: pa.RecordBatchReader, *, transaction: bytes | None = None
    ) -> int:
        """Store every row of `reader` in one commit and return their number.

        Without a `transaction` they belong to the open one of the caller's session, if it has one.
        """
        ...

    def answer_peer(self, request: PeerRequest) -> bytes:
        """Answer another server over the same root: an Arrow stream of rows, or what became of a statement ("" if it is not here)."""
        ...

    def sql_info(self) -> Mapping[int, SqlInfoValue]:
        """Return the values of SqlInfo codes that differ from those of `lance_flight.flight.metadata`."""
        ...

    def catalogs(self, caller: Caller) -> Iterable[str]:
        """Return the names of all catalogs."""
        ...

    def db_schemas(self, caller: Caller) -> Iterable[tuple[str, str]]:
        """Return all (catalog, schema) pairs."""
        ...

    def tables(self, caller: Caller) -> Iterable[TableEntry]:
        """Return all tables and views that the caller may see, without opening any of them."""
        ...

    def table_schema(self, caller: Caller, table: TableEntry, at: str | None = None) -> pa.Schema:
        """Return the columns of one table that `tables` has listed, at a version, tag or branch; raise `NotFound` if it was dropped since."""
        ...

    def primary_key(self, caller: Caller, table: TableEntry) -> PrimaryKey | None:
        """Return the primary key of one table that `tables` has listed, None without one; `NotFound` as `table_schema`."""
        ...

    def partitioned_tables(self, caller: Caller) -> Collection[tuple[str, str]]:
        """Return the schemas and names of the tables with partitions that the caller may see."""
        ...

    def declare(self, caller: Caller, db_schema: str, name: str) -> str:
        """Return where the caller's own engine is to write a new plain table, which the caller may make."""
        ...

    def places(self, caller: Caller, table: TableEntry) -> Sequence[TablePlace]:
        """Return the places of the partition tables of a table, or that of a plain table; `Refused` to a caller who does not read all of it."""
        ...
