"""Views of tables of a server, which prunes, filters and keeps to its policies; read by this process or another."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event, Thread
from typing import BinaryIO

import pyarrow as pa
from lance_flight.catalog.roots.directory import TableName
from lance_flight.errors import InvalidInput, Unsupported

from lance_flight_client.dataset.selection import Selection
from lance_flight_client.errors import ServerError
from lance_flight_client.flight.access import ServerAccess
from lance_flight_client.flight.queries import FlightQuery, ServerPlan, endpoints, said, table_clauses, table_select

HEARTBEAT_SECONDS = 120
"""Pause between two questions that keep a version: a server leases what it has planned for ten minutes."""


@dataclass(frozen=True, slots=True)
class ServerFragment:
    """The rows of one partition (`sources.Fragment`), in the order of their ids."""

    query: FlightQuery
    schema: pa.Schema
    rows: int

    def count_rows(self) -> int:
        return self.rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return _rows(self.query)

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.schema)


@dataclass(frozen=True, kw_only=True)
class ServerView:
    """A table of a server at one version (`sources.View`)."""

    access: ServerAccess
    table: TableName
    version: int
    schema: pa.Schema
    filter: str | None
    _closing: Event = field(default_factory=Event, repr=False)

    @property
    def name(self) -> str:
        return str(self.table)

    def count_rows(self) -> int:
        counted = FlightQuery(access=self.access, sql=f"SELECT count(*) AS n{self._clauses()}")
        return int(_table(counted)["n"][0].as_py())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return _rows(self._query(self.filter))

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        raise Unsupported(
            f"a server opens no blobs as files; read {column!r} as a column, or open the root that the server serves"
        )

    def fragments(self, rows: int) -> Sequence[ServerFragment]:
        counted = f"SELECT _partition, count(*) AS n{self._clauses()} GROUP BY _partition ORDER BY _partition"
        found = _table(FlightQuery(access=self.access, sql=counted)).to_pylist()
        return [ServerFragment(self._fragment(each["_partition"]), self.schema, each["n"]) for each in found]

    def keep(self) -> None:
        """Have the server keep the version until the view is closed, or nothing references it."""
        query = FlightQuery(access=self.access, sql=f"{self._query(None).sql} LIMIT 0")
        Thread(target=_keep, args=(query, self._closing), name="kept version", daemon=True).start()
        weakref.finalize(self, self._closing.set)

    def close(self) -> None:
        """Let the server remove the version."""
        self._closing.set()

    def _clauses(self) -> str:
        return table_clauses(self.table.db_schema, self.table.name, self.version, self.filter)

    def _query(self, condition: str | None) -> FlightQuery:
        sql = table_select(self.table.db_schema, self.table.name, self.version, self.schema.names, condition)
        return FlightQuery(access=self.access, sql=sql)

    def _fragment(self, partition: str | None) -> FlightQuery:
        # A plain table is one partition, which has no name.
        mine = None if partition is None else f"_partition = {_literal(partition)}"
        condition = " AND ".join(part for part in (mine, self.filter and f"({self.filter}\n)") if part) or None
        query = self._query(condition)
        # The same rows are in the same order each time, which a query does not promise.
        return FlightQuery(access=self.access, sql=f"{query.sql} ORDER BY _rowid", asked=1)


def open_server(
    access: ServerAccess, name: TableName, snapshot: int | str | datetime | None, selection: Selection
) -> ServerView:
    """Open a table of a server: the version is the one that it has planned with."""
    if selection.filter is not None and not isinstance(selection.filter, str):
        raise Unsupported(
            f"filter {selection.filter} is a pyarrow expression, which a server does not take; expected SQL"
        )
    sql = table_select(name.db_schema, name.name, snapshot, selection.columns, selection.filter)
    plan = FlightQuery(access=access, sql=sql).plan()
    if len(plan.versions) != 1:
        raise InvalidInput(f"{name.name!r} is no table with versions at the server; expected one, not a view")
    view = ServerView(access=access, table=name, version=plan.versions[0], schema=plan.schema, filter=selection.filter)
    view.keep()
    return view


def _keep(query: FlightQuery, closing: Event) -> None:
    while not closing.wait(HEARTBEAT_SECONDS):
        try:
            query.plan()
        except ServerError:
            # It may be back the next time; until then the retention of vacuum protects the version.
            continue


def _rows(query: FlightQuery) -> Iterator[pa.RecordBatch]:
    yield from _streamed(query, query.plan())


def _table(query: FlightQuery) -> pa.Table:
    plan = query.plan()
    return pa.Table.from_batches(_streamed(query, plan), plan.schema)


def _streamed(query: FlightQuery, plan: ServerPlan) -> Iterator[pa.RecordBatch]:
    with said(query.access):
        for endpoint in endpoints(query, plan):
            yield from endpoint.batches()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
