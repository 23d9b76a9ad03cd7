"""An engine over a directory, asked as `tests.service.server_process.Server` is asked, without a server process.

What a statement means is tested with it; what the wire adds is tested with a server.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.connections import ANONYMOUS
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED, Access
from lance_flight.engine.query.planned_query import QueryPlan, Task
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.admission import NO_LIMITS, Limits
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.writes.ingest import IngestOptions
from lance_flight.errors import LanceFlightError
from lance_flight.flight.status import flight_error

Parameters: TypeAlias = Sequence[Any] | pa.RecordBatch | None

# ADBC's modes of ingest → whether a missing table is created, and the action where there is one.
MODES = {
    "create": (True, IfExists.FAIL),
    "append": (False, IfExists.APPEND),
    "create_append": (True, IfExists.APPEND),
    "replace": (True, IfExists.REPLACE),
}


@dataclass(eq=False)
class Database:
    """A root, and an engine that runs statements over it in this process, with the rights of `access`."""

    root: Path
    access: Access = UNLIMITED

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)

    @cached_property
    def engine(self) -> Engine:
        return open_engine(self.root)

    @property
    def session(self) -> Session | None:
        """The session of the statements; None where each has its own."""
        return None

    @property
    def scope(self) -> Scope:
        """The context of the next statement."""
        return Scope(access=self.access)

    @contextmanager
    def client(self, access: Access = UNLIMITED, *, autocommit: bool = True) -> Iterator[Client]:
        """A client with a session of its own, which ends with the block."""
        client = Client(self, access, autocommit=autocommit)
        try:
            yield client
        finally:
            client.close()

    def plan(self, sql: str, parameters: Parameters = None) -> QueryPlan | int:
        """Plan a query, or run what is none and return how many rows it affected."""
        return self.engine.execute(sql, bound(parameters), scope=self.scope)

    def read(self, planned: QueryPlan) -> pa.Table:
        """All rows of a planned query."""
        tasks = [Task.from_bytes(task.to_bytes()) for task in planned.tasks]
        streams = [self.engine.run(task, access=self.access, session=self.session) for task in tasks]
        return pa.Table.from_batches([batch for stream in streams for batch in stream], planned.schema)

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        """All rows of a query."""
        planned = self.plan(sql, parameters)
        return self.read(planned) if isinstance(planned, QueryPlan) else pa.table({})

    def rows(self, sql: str, parameters: Parameters = None) -> list[tuple[Any, ...]]:
        """All rows of a query, as tuples."""
        return list(zip(*(column.to_pylist() for column in self.query(sql, parameters).columns), strict=True))

    def value(self, sql: str, parameters: Parameters = None) -> Any:
        """The one value of a query."""
        ((value,),) = self.rows(sql, parameters)
        return value

    def run(self, sql: str, parameters: Parameters = None) -> int:
        """Run a statement that returns no rows; return how many it affected."""
        return self.engine.update(sql, bound(parameters), self.scope)

    def ingest(
        self,
        table: str,
        data: Any,
        mode: str = "create",
        *,
        partition_by: str | None = None,
        db_schema_name: str = PUBLIC,
        temporary: bool = False,
        **options: str,
    ) -> int:
        """Store rows in one commit; return their number."""
        create_missing, existing = MODES[mode]
        if partition_by is not None:
            options["partition_by"] = partition_by
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        return self.engine.ingest(
            TableName(db_schema_name, table),
            data.to_reader() if isinstance(data, pa.Table) else data,
            create_missing=create_missing,
            existing=existing,
            options=IngestOptions.of(options),
            scope=self.scope,
            temporary=temporary,
        )

    def copy(self, table: str, name: str) -> str:
        """Put a copy of a partitioned table beside it, which is quicker than writing it again; return its name."""
        shutil.copytree(self.root / table, self.root / name)
        return name

    def refuses_ingest(self, table: str, data: Any, mode: str = "create", **options: Any) -> str:
        """Store rows that must be refused; return the error as a client reads it."""
        return refusal(lambda: self.ingest(table, data, mode, **options))

    def refuses(self, sql: str, parameters: Parameters = None) -> str:
        """Run a statement that must fail; return its error as a client reads it."""
        return refusal(lambda: self.rows(sql, parameters))


class Client(Database):
    """A client with a session of its own.

    One without `autocommit` is in a transaction from the first statement on, and after each commit and rollback, as an ADBC
    connection is.
    """

    def __init__(self, database: Database, access: Access = UNLIMITED, *, autocommit: bool = True) -> None:
        super().__init__(database.root, access)
        self.engine = database.engine
        self._session = self.engine.clients.session(secrets.token_hex(), access.principal or ANONYMOUS)
        self._transaction = None if autocommit else self.engine.clients.begin(self._session)

    @property
    def session(self) -> Session:
        return self._session

    @property
    def scope(self) -> Scope:
        issuer = Issuer(principal=self._session.principal, session=self._session.id)
        transaction = self._transaction or self._session.sql_transaction
        return Scope(self._session, transaction, issuer, self.access, is_identified=True).with_own_tables()

    def commit(self) -> None:
        """Commit the open transaction, and begin the next one, also where that fails."""
        self._end(commit=True)

    def rollback(self) -> None:
        """Roll the open transaction back, and begin the next one."""
        self._end(commit=False)

    def close(self) -> None:
        """End the session, which rolls its transaction back and removes its temporary tables."""
        self.engine.clients.close(self._session, is_own=True)

    def _end(self, *, commit: bool) -> None:
        assert self._transaction is not None
        try:
            self.engine.clients.end(self._transaction, commit=commit)
        finally:
            self._transaction = self.engine.clients.begin(self._session)


def open_engine(place: Path | str, *, target_partitions: int = 2, limits: Limits = NO_LIMITS) -> Engine:
    """An engine of its own over a directory, which is made where it is missing, or over the URI of a root."""
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
    return Engine(Root(Store(str(place))), target_partitions=target_partitions, limits=limits)


def filled(place: Path, *statements: str) -> Path:
    """Make a root with what statements leave; return its place."""
    engine = open_engine(place)
    for statement in statements:
        engine.update(statement)
    return place


def refusal(call: Callable[[], object]) -> str:
    """Make a call that must fail; return its error as a client reads it."""
    with pytest.raises(LanceFlightError) as raised:
        call()
    return str(flight_error(raised.value))


def bound(parameters: Parameters) -> pa.RecordBatch | None:
    """The values of one execution, as a client binds them."""
    return parameters if parameters is None or isinstance(parameters, pa.RecordBatch) else bound_rows([parameters])


def bound_rows(rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """The values of an execution for each row, as a client binds them."""
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, [str(n) for n in range(len(columns))])
