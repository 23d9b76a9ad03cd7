"""Writes of Spark SQL through a server: tasks send rows as parts of a shared ingest of one session, and one statement makes them visible.

The server writes each part to the table's own files. The driver commits the parts of the tasks that Spark counts: what was sent twice, or
by a task that failed, belongs to no version.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.tables import rows
from pyarrow import flight
from pyspark.sql.types import StructType

from lance_flight_client.errors import ServerError
from lance_flight_client.flight import ServerAccess, ingest, raise_server_errors, statement
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.jvm import code_of
from lance_flight_client.spark.connector.relations import ServerEvolution, ServerTable, text
from lance_flight_client.spark.options import NamedTable, ReadOptions
from lance_flight_client.spark.reading import access_of
from lance_flight_client.spark.types import match_columns

_LARGEST_BATCH = 4 << 20
"""Most bytes of a batch that is sent, unless it is one row."""


_REMOVING = frozenset({Replaces.TABLE, Replaces.READ})

log = logging.getLogger(__name__)


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
        for cookie in headers.get("set-cookie", ()):
            name, _, value = cookie.partition(";")[0].strip().partition("=")
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
        with closing(access.connect(access.uri, [_Cookies(cookies)])) as client, raise_server_errors(access):
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
            return pa.concat_tables([client.do_get(endpoint.ticket, options).read_all() for endpoint in info.endpoints])

    def send(
        self, table: NamedTable, options: Mapping[str, str], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> None:
        """Send rows for a table, with options of their ingest."""
        with self._client() as (client, headers):
            writer, reader = client.do_put(ingest(table.db_schema, table.name, options), schema, headers)
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
        with (
            closing(self.access.connect(self.access.uri, [_Cookies(self.cookies)])) as client,
            raise_server_errors(self.access),
        ):
            yield client, flight.FlightCallOptions(headers=list(self.headers))


def _in_messages(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or batch.nbytes <= _LARGEST_BATCH:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _in_messages(batch.slice(0, half))
    yield from _in_messages(batch.slice(half))


@dataclass(frozen=True, slots=True)
class Sent:
    """Rows that a task has sent: the part of the shared ingest that they are; None for none."""

    part: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWrite:
    """A write of one statement as all of its tasks know it: rows of `columns` are parts of the shared ingest `name` of a session.

    With `Replaces.READ` they take the place of the rows that fulfil `condition` (None: of all) in `version`; with `NOTHING_OF_READ` they
    were compared with these rows. The server refuses them where these have changed since.
    """

    session: SharedSession
    table: NamedTable
    columns: pa.Schema
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    replaces: Replaces = Replaces.NOTHING
    version: int | None = None
    condition: str | None = None
    is_evolving: bool = False
    """True if columns are committed with the rows, be there any or none."""
    is_of_new_table: bool = False
    """True if the session's transaction is making the table, and shows it."""

    @classmethod
    def begin(
        cls,
        relation: ServerTable,
        schema: StructType,
        replaces: Replaces,
        condition: str | None = None,
        *,
        branch: str | None = None,
        snapshot: int | None = None,
    ) -> ServerWrite:
        """Begin a write to a table or a branch of it, on top of a snapshot, in a session of its own."""
        table = relation.options.table or NamedTable("", "")
        rests_on_read = replaces in {Replaces.READ, Replaces.NOTHING_OF_READ}
        begun = cls(
            session=SharedSession.begin(relation.options),
            table=table if branch is None else table._replace(name=f"{table.name}@{branch}"),
            columns=_sent_columns(relation.source, schema),
            replaces=replaces,
            version=relation.options.snapshot if rests_on_read and snapshot is None else snapshot,
            condition=condition,
            is_evolving=relation.evolution is not None,
        )
        if relation.evolution is not None:
            begun._change_columns(relation.evolution)
        return begun

    def _change_columns(self, evolution: ServerEvolution) -> None:
        """Begin the shared ingest with a change of columns, which is committed with the rows."""
        at = "" if self.version is None else f" VERSION {self.version}"
        try:
            self.session.run(f"BEGIN WRITE {text(self.name)} INTO {self._into}{at} {evolution.actions}")
        except BaseException:
            self.session.close()
            raise

    @property
    def _into(self) -> str:
        return f"{quote_name(self.table.db_schema)}.{quote_name(self.table.name)}"

    @classmethod
    def into_new(cls, session: SharedSession, table: NamedTable, source: pa.Schema, schema: StructType) -> ServerWrite:
        """Begin a write to a table that the transaction of a session is making, with these columns."""
        return cls(session=session, table=table, columns=_sent_columns(source, schema), is_of_new_table=True)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Sent:
        """Do the work of a task: send its rows as a part of their own."""
        part, coming = secrets.token_hex(8), iter(batches)
        first = next((batch for batch in coming if batch.num_rows), None)
        if first is None:
            return Sent(None)

        def fitting() -> Iterator[pa.RecordBatch]:
            for batch in chain((first,), coming):
                named = pa.Table.from_batches([batch]).rename_columns(self.columns.names)
                yield from rows.conform(named, self.columns).to_batches()

        version = {} if self.version is None else {"version": str(self.version)}
        self.session.send(self.table, {"shared": self.name, "part": part, **version}, self.columns, fitting())
        return Sent(part)

    def commit(self, sent: Sequence[Sent], read: str | None = None, once: str = "") -> None:
        """Make the rows of tasks visible, in one commit, unless there is one that is known as `once`.

        `read` is the condition of those that a change of rows has read.
        """
        if self.is_evolving or any(message.part for message in sent) or self.replaces in _REMOVING:
            try:
                self.session.run(self._statement(sent, read, once))
            except ServerError as exc:
                if code_of(exc) != "already_committed":
                    raise
                log.warning("%s; nothing was written", exc)
        if not self.is_of_new_table:
            self.session.close()

    def _statement(self, sent: Sequence[Sent], read: str | None, once: str) -> str:
        """Return the statement that adds the rows of some tasks, or puts them in the place of others."""
        parts = ", ".join(text(message.part) for message in sent if message.part is not None)
        condition = self.condition or (read if self.replaces is Replaces.READ else None)
        where = f" WHERE {condition}" if condition else ""
        version = "" if self.version is None else f" VERSION {self.version}"
        match self.replaces:
            case Replaces.NOTHING:
                replaced = ""
            case Replaces.PARTITIONS:
                replaced = " OVERWRITE PARTITIONS"
            case Replaces.NOTHING_OF_READ:
                replaced = f" READING{where}"
            case _:
                replaced = f" REPLACING{where}"
        return f"COMMIT WRITE {text(self.name)} INTO {self._into}{version} PARTS ({parts}){once}{replaced}"

    def abort(self) -> None:
        """Remove the rows that tasks have sent."""
        self.session.close()


def _sent_columns(source: pa.Schema, schema: StructType) -> pa.Schema:
    """Return the columns of the table that rows of `schema` are sent in."""
    names = match_columns(schema.names, source.names)
    return pa.schema([source.field(name).remove_metadata() for name in names])
