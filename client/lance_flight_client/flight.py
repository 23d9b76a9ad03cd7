"""Queries to a server over Flight SQL: its address and credentials, the messages, and streams of endpoints that any process reads.

A reader tries the locations of its endpoint in turn until one gives a first batch; what fails after that is an error. A ticket that a server
does not take (its key has changed) is asked for again, at the same versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from lance_flight.errors import Conflict, InvalidInput
from lance_flight.protobuf_wire import encode_field
from pyarrow import flight

from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name

_ENDPOINTS_HEADER = b"lance-flight-endpoints"
_SAME_CONNECTION = "arrow-flight-reuse-connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The address of a server, and the credentials that it is called with."""

    uri: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls_roots: bytes | None = field(default=None, repr=False)

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


def certificates(path: str) -> bytes:
    """Return the certificates of a file, in PEM; `InvalidInput` if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise InvalidInput(f"certificates {path!r} cannot be read: {exc.strerror}") from exc


_PACKAGE = "type.googleapis.com/arrow.flight.protocol.sql."
_APPEND_OR_FAIL = bytes([1 << 3, 2, 2 << 3, 2])
"""TableDefinitionOptions: a table that is not there is an error, and rows are added to one that is."""
_OPTIONS = 1000
"""Field of the options of a CommandStatementIngest."""
_AROUND = re.compile(
    r"^Flight (?:error|returned \w+ error)[^:]*: |[.;]? (?:Detail|gRPC client debug context): .*", re.DOTALL
)
ANSWERS = (flight.FlightError, pa.ArrowException, KeyError)
"""What pyarrow makes of the errors that a server answers."""


def message_of(exc: BaseException) -> str:
    """Return the message of a server's error, without the text that gRPC and Arrow add."""
    text = str(exc.args[0] if exc.args else exc)
    return _AROUND.sub("", text).strip()


def statement(sql: str) -> flight.FlightDescriptor:
    """Return a CommandStatementQuery, whose first field is the query."""
    return _command("CommandStatementQuery", _text_field(1, sql))


def ingest(db_schema: str, table: str, options: Mapping[str, str]) -> flight.FlightDescriptor:
    """Return a CommandStatementIngest of rows for a table that is there."""
    entries = (encode_field(_OPTIONS, _text_field(1, name) + _text_field(2, value)) for name, value in options.items())
    target = _text_field(2, table) + _text_field(3, db_schema)
    return _command("CommandStatementIngest", encode_field(1, _APPEND_OR_FAIL) + target + b"".join(entries))


def _command(name: str, message: bytes) -> flight.FlightDescriptor:
    """Return a message in a google.protobuf.Any."""
    return flight.FlightDescriptor.for_command(_text_field(1, _PACKAGE + name) + encode_field(2, message))


def _text_field(number: int, text: str) -> bytes:
    return encode_field(number, text.encode())


_INVALID_TICKET = "[invalid_ticket]"


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
class FlightQuery:
    """Query to a server that divides it into up to `asked` endpoints (None: as it likes)."""

    access: ServerAccess
    sql: str
    asked: int | None = None

    def plan(self) -> ServerPlan:
        """Have the server plan the query; `ServerError` is what it says instead."""
        with closing(self.access.connect(self.access.uri)) as client, raise_server_errors(self.access):
            return self.planned_by(client)

    def planned_by(self, client: flight.FlightClient) -> ServerPlan:
        """Have the server plan the query over a connection."""
        info = client.get_flight_info(statement(self.sql), self.access.call(client, self.asked))
        metadata = json.loads(info.app_metadata or b"{}")
        snapshots: Mapping[str, int] = metadata.get("snapshots", {})
        return ServerPlan(
            schema=info.schema,
            endpoints=[
                (endpoint.ticket.ticket, [location.uri.decode() for location in endpoint.locations])
                for endpoint in info.endpoints
            ],
            versions=tuple(version for _, version in sorted(snapshots.items())),
            rows=metadata.get("rows"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEndpoint:
    """Endpoint `number` of the answer to a query."""

    query: FlightQuery
    number: int
    of: int
    schema: pa.Schema
    versions: tuple[int, ...]
    ticket: bytes = field(repr=False)
    locations: Sequence[str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        access, unreachable = self.query.access, []
        for location in self.locations or [access.uri]:
            with closing(access.connect(location)) as client:
                try:
                    rows = self._open_stream(client)
                    first = next(rows, None)
                except flight.FlightUnavailableError as exc:
                    unreachable.append(f"{location}: {message_of(exc)}")
                    continue
                if first is not None:
                    yield first
                    yield from rows
                return
        raise ServerError(f"no location of the endpoint answers: {'; '.join(unreachable)}")

    def _open_stream(self, client: flight.FlightClient) -> Iterator[pa.RecordBatch]:
        """Return the stream of the endpoint; of the one in its place, if its ticket is not taken any more."""
        try:
            return self._stream(client, self.ticket)
        except pa.ArrowInvalid as exc:
            if _INVALID_TICKET not in str(exc):
                raise
        again = self.query.planned_by(client)
        if (again.schema, len(again.endpoints), again.versions) != (self.schema, self.of, self.versions):
            raise Conflict("the tickets of this read have expired, and what it reads has changed since; load it again")
        return self._stream(client, again.endpoints[self.number][0])

    def _stream(self, client: flight.FlightClient, ticket: bytes) -> Iterator[pa.RecordBatch]:
        stream = client.do_get(flight.Ticket(ticket), self.query.access.call(client))
        return (chunk.data for chunk in stream)


def endpoints(query: FlightQuery, plan: ServerPlan) -> list[ServerEndpoint]:
    """Return the endpoints of a query that a server has planned."""
    return [
        ServerEndpoint(
            query=query,
            number=number,
            of=len(plan.endpoints),
            schema=plan.schema,
            versions=plan.versions,
            ticket=ticket,
            locations=locations,
        )
        for number, (ticket, locations) in enumerate(plan.endpoints)
    ]


def table_select(
    db_schema: str,
    table: str,
    at: int | str | datetime | None,
    columns: Sequence[str] | None = None,
    condition: str | None = None,
) -> str:
    """Return the query of a table at a point of its history.

    >>> table_select("public", "t", 3, ["a"])
    'SELECT "a" FROM "public"."t@3"'
    """
    listed = "*" if columns is None else ", ".join(map(quote_name, columns))
    return f"SELECT {listed}{table_clauses(db_schema, table, at, condition)}"


def table_clauses(db_schema: str, table: str, at: int | str | datetime | None, condition: str | None) -> str:
    """Return FROM and WHERE of a query of a table."""
    moment = at.isoformat() if isinstance(at, datetime) else at
    name = table if moment is None else f"{table}@{moment}"
    # The line of its own keeps a comment at the end of the condition from reaching any further.
    where = "" if condition is None else f" WHERE ({condition}\n)"
    return f" FROM {quote_name(db_schema)}.{quote_name(name)}{where}"


@contextmanager
def raise_server_errors(access: ServerAccess) -> Iterator[None]:
    """Raise what a server answers in place of a result as `ServerError`."""
    try:
        yield
    except flight.FlightUnavailableError as exc:
        raise ServerError(f"no server answers at {access.uri}: {message_of(exc)}") from exc
    except ANSWERS as exc:
        raise ServerError(message_of(exc)) from exc
