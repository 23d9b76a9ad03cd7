"""Sessions of a server that a driver and its tasks have in common, known on every connection by the same headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import flight

from lance_flight_client.errors import ServerError
from lance_flight_client.flight.access import ServerAccess
from lance_flight_client.flight.messages import statement, temporary_ingest
from lance_flight_client.flight.queries import said
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading.through_flight import access_of

_LARGEST_BATCH = 4 << 20
"""Most bytes of a batch that is sent, unless it is one row."""


class _Cookies(flight.ClientMiddlewareFactory):
    """Sends the cookies of a session, and keeps those that a server sets in their place."""

    def __init__(self, kept: dict[str, str]) -> None:
        super().__init__()
        self._kept = kept

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _Call(self._kept)


class _Call(flight.ClientMiddleware):
    def __init__(self, kept: dict[str, str]) -> None:
        super().__init__()
        self._kept = kept

    def sending_headers(self) -> dict[str, str]:
        pairs = "; ".join(f"{name}={value}" for name, value in self._kept.items())
        return {"cookie": pairs} if pairs else {}

    def received_headers(self, headers: Mapping[str, Sequence[str]]) -> None:
        for text in headers.get("set-cookie", ()):
            name, _, value = text.partition(";")[0].strip().partition("=")
            self._kept[name] = value


@dataclass(frozen=True, slots=True)
class SharedSession:
    """A session of a server, with the headers and cookies that every process of a write sends.

    Its cookies say what the server alone has of it, a transaction and temporary tables: another server behind the same address refuses
    what would be done without them.
    """

    access: ServerAccess
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    cookies: dict[str, str] = field(repr=False)

    @classmethod
    def begin(cls, options: ReadOptions) -> SharedSession:
        """Begin a session: it is told by the token that a password was exchanged for, else by a cookie."""
        access, cookies = access_of(options), dict[str, str]()
        with closing(access.connect(access.uri, [_Cookies(cookies)])) as client, said(access):
            identity = access.identity(client)
            client.get_flight_info(statement("SELECT 1"), flight.FlightCallOptions(headers=identity))
        return cls(access, tuple(identity), cookies)

    def run(self, *statements: str) -> None:
        """Run statements that return no rows, one after another."""
        with self._client() as (client, options):
            for sql in statements:
                # Asking for the endpoints of such a statement runs it.
                client.get_flight_info(statement(sql), options)

    def rows(self, sql: str) -> pa.Table:
        """Run a statement that returns rows."""
        with self._client() as (client, options):
            info = client.get_flight_info(statement(sql), options)
            return pa.concat_tables([client.do_get(each.ticket, options).read_all() for each in info.endpoints])

    def send(self, table: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Add rows to a temporary table of the session, in one commit."""
        with self._client() as (client, options):
            writer, reader = client.do_put(temporary_ingest(table), schema, options)
            with writer:
                for batch in batches:
                    for part in _in_messages(batch):
                        writer.write_batch(part)
                writer.done_writing()
                reader.read()

    def close(self) -> None:
        """End the session with its temporary tables; one that cannot be reached ends by itself after a while."""
        with suppress(ServerError), self._client() as (client, options):
            list(client.do_action(flight.Action("CloseSession", b""), options))

    @contextmanager
    def _client(self) -> Iterator[tuple[flight.FlightClient, flight.FlightCallOptions]]:
        with closing(self.access.connect(self.access.uri, [_Cookies(self.cookies)])) as client, said(self.access):
            yield client, flight.FlightCallOptions(headers=list(self.headers))


def _in_messages(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or batch.nbytes <= _LARGEST_BATCH:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _in_messages(batch.slice(0, half))
    yield from _in_messages(batch.slice(half))
