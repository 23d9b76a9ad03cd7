"""Reading through a server: one task for each endpoint of a query.

A task tries the locations of its endpoint in turn until one gives a first batch; what fails after that fails the task, and
Spark runs it again. A ticket that a server does not take (its key has changed) is asked for again, at the same versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from lance_flight.errors import Conflict, InvalidInput
from pyarrow import flight
from pyspark.sql.types import StructType

from lance_flight_client.dataset.balancing import tasks_for
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.flight_sql import ANSWERS, message_of, statement
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.types import carried_batch, carried_schema, spark_schema

ENDPOINTS = 16
"""Default maximum of the tasks of a read; a small read has fewer."""

_ENDPOINTS_HEADER = b"lance-flight-endpoints"
_SAME_CONNECTION = "arrow-flight-reuse-connection"
_INVALID_TICKET = "[invalid_ticket]"


def certificates(path: str) -> bytes:
    """Return the certificates of a file, in PEM; `InvalidInput` if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise InvalidInput(f"tls_roots {path!r} cannot be read: {exc.strerror}") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The address of a server, and the credentials that it is called with."""

    uri: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_roots: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, options: ReadOptions) -> ServerAccess:
        """Return what the options say; `InvalidInput` for a file of certificates that cannot be read."""
        roots = None if options.tls_roots is None else certificates(options.tls_roots)
        return cls(
            uri=options.uri or "",
            username=options.username,
            password=options.password,
            token=options.token,
            tls_roots=roots,
        )

    def connect(self, uri: str, middleware: Sequence[flight.ClientMiddlewareFactory] = ()) -> flight.FlightClient:
        """Return a client of one of the server's locations."""
        place = self.uri if uri.startswith(_SAME_CONNECTION) else uri
        return flight.connect(place, tls_root_certs=self.tls_roots, middleware=list(middleware))

    def call(self, client: flight.FlightClient, endpoints: int | None = None) -> flight.FlightCallOptions:
        """Return the headers of a call."""
        headers = [] if endpoints is None else [(_ENDPOINTS_HEADER, str(endpoints).encode())]
        return flight.FlightCallOptions(headers=[*headers, *self.identity(client)])

    def identity(self, client: flight.FlightClient) -> list[tuple[bytes, bytes]]:
        """Return the headers that say who calls; a user with a password is given a token for them."""
        if self.token is not None:
            return [(b"authorization", f"Bearer {self.token}".encode())]
        if self.username is None:
            return []
        granted = client.authenticate_basic_token(self.username, self.password or "")
        # A server without authentication grants no token.
        return [granted] if granted[0] else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """Plan of a query by a server: columns, one ticket and its locations for each endpoint, the versions of its tables.

    `rows` is how many these have, where it says so.
    """

    schema: pa.Schema
    endpoints: Sequence[tuple[bytes, Sequence[str]]]
    versions: tuple[int, ...]
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPortion:
    """Endpoint for one task: `number` of the `of` in the answer to `sql`, where up to `asked` were requested."""

    access: ServerAccess
    sql: str
    asked: int
    number: int
    of: int
    schema: pa.Schema
    versions: tuple[int, ...]
    ticket: bytes = field(repr=False)
    locations: Sequence[str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows (`source.Portion`)."""
        carried = carried_schema(self.schema)
        unreachable = []
        for location in self.locations or [self.access.uri]:
            with closing(self.access.connect(location)) as client:
                try:
                    rows = self._opened(client)
                    first = next(rows, None)
                except flight.FlightUnavailableError as exc:
                    unreachable.append(f"{location}: {message_of(exc)}")
                    continue
                if first is not None:
                    yield carried_batch(first, carried)
                    yield from (carried_batch(batch, carried) for batch in rows)
                return
        raise ServerError(f"no location of the endpoint answers: {'; '.join(unreachable)}")

    def _opened(self, client: flight.FlightClient) -> Iterator[pa.RecordBatch]:
        """Return the stream of the endpoint; of the one in its place, if its ticket is not taken any more."""
        try:
            return self._stream(client, self.ticket)
        except pa.ArrowInvalid as exc:
            if _INVALID_TICKET not in str(exc):
                raise
        again = _ask(self.access, client, self.sql, self.asked)
        if (again.schema, len(again.endpoints), again.versions) != (self.schema, self.of, self.versions):
            raise Conflict("the tickets of this read have expired, and what it reads has changed since; load it again")
        return self._stream(client, again.endpoints[self.number][0])

    def _stream(self, client: flight.FlightClient, ticket: bytes) -> Iterator[pa.RecordBatch]:
        stream = client.do_get(flight.Ticket(ticket), self.access.call(client))
        return (chunk.data for chunk in stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPlan:
    """The answer to a query (`source.ReadPlan`); `sql` asks for the same versions of tables again, where it can say them."""

    access: ServerAccess
    sql: str
    asked: int
    answer: ServerPlan

    @property
    def schema(self) -> StructType:
        return spark_schema(self.answer.schema)

    def portions(self) -> list[FlightPortion]:
        return [
            FlightPortion(
                access=self.access,
                sql=self.sql,
                asked=self.asked,
                number=number,
                of=len(self.answer.endpoints),
                schema=self.answer.schema,
                versions=self.answer.versions,
                ticket=ticket,
                locations=locations,
            )
            for number, (ticket, locations) in enumerate(self.answer.endpoints)
        ]


def plan(options: ReadOptions) -> FlightPlan:
    """Have the server plan the read; `ServerError` is what it says instead."""
    access, asked = ServerAccess.of(options), options.partitions or ENDPOINTS
    sql = table_query(options, options.at)
    with closing(access.connect(access.uri)) as client:
        try:
            if options.query is not None:
                _check_query(client, access, sql)
            answer = _ask(access, client, sql, asked)
            if options.partitions is None and answer.rows is not None and tasks_for(answer.rows, None) < asked:
                # A task costs something before its first row.
                asked = tasks_for(answer.rows, None)
                # A query of one endpoint is not counted.
                answer = replace(_ask(access, client, sql, asked), rows=answer.rows)
        except flight.FlightUnavailableError as exc:
            raise ServerError(f"no server answers at {access.uri}: {message_of(exc)}") from exc
        except ANSWERS as exc:
            raise ServerError(message_of(exc)) from exc
    if options.table is not None:
        sql = table_query(options, answer.versions[0])
    planned = FlightPlan(access=access, sql=sql, asked=asked, answer=answer)
    carried_schema(answer.schema)
    return planned


def table_query(options: ReadOptions, at: int | str | datetime | None) -> str:
    """Return the query of the options, for their table at a point of its history.

    >>> table_query(ReadOptions.parse({"uri": "grpc://h:1", "table": "t", "columns": "a"}), 3)
    'SELECT "a" FROM "public"."t@3"'
    """
    if options.table is None:
        return options.query or ""
    moment = at.isoformat() if isinstance(at, datetime) else at
    name = options.table.name if moment is None else f"{options.table.name}@{moment}"
    columns = "*" if options.columns is None else ", ".join(map(_quoted, options.columns))
    # The line of its own keeps a comment at the end of the filter from reaching any further.
    where = "" if options.filter is None else f" WHERE ({options.filter}\n)"
    return f"SELECT {columns} FROM {_quoted(options.table.db_schema)}.{_quoted(name)}{where}"  # noqa: S608 - quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_query(client: flight.FlightClient, access: ServerAccess, sql: str) -> None:
    """Refuse a statement that returns no rows before it is run: asking for its endpoints would run it."""
    schema = client.get_schema(statement(sql), access.call(client)).schema
    if not schema.names:
        raise InvalidInput(f"query {sql!r} returns no rows; expected one that does")


def _ask(access: ServerAccess, client: flight.FlightClient, sql: str, endpoints: int) -> ServerPlan:
    info = client.get_flight_info(statement(sql), access.call(client, endpoints))
    said = json.loads(info.app_metadata or b"{}")
    snapshots: Mapping[str, int] = said.get("snapshots", {})
    return ServerPlan(
        schema=info.schema,
        endpoints=[
            (endpoint.ticket.ticket, [location.uri.decode() for location in endpoint.locations])
            for endpoint in info.endpoints
        ],
        versions=tuple(version for _, version in sorted(snapshots.items())),
        rows=said.get("rows"),
    )
