"""Writes of Spark SQL through a server: tasks send rows to a temporary table of one session, and one statement makes them visible.

The temporary table is one of a session that the driver and its tasks share. Each task marks the rows that it sends, and the driver takes
those of the tasks that Spark counts: what was sent twice, or by a task that failed, goes away with the session.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.tables import rows
from lance_flight.errors import SerializationFailure, Unsupported
from pyarrow import flight
from pyspark.sql.types import StructType

from lance_flight_client.errors import ServerError
from lance_flight_client.flight import ServerAccess, raise_server_errors, statement, temporary_ingest
from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.relations import ServerTable, text
from lance_flight_client.spark.options import NamedTable, ReadOptions
from lance_flight_client.spark.reading import access_of
from lance_flight_client.spark.types import match_columns

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
    """Rows that a task has sent: the mark that they have; None for none."""

    mark: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWrite:
    """A write of one statement as all of its tasks know it: rows of `columns` go to the temporary table `staged` of a session.

    With `Replaces.READ` they take the place of the rows that fulfil `condition` (None: of all), which must be those of `version`; with
    `NOTHING_OF_READ` they were compared with these rows.
    """

    session: SharedSession
    table: NamedTable
    columns: pa.Schema
    staged: str
    replaces: Replaces = Replaces.NOTHING
    is_partitioned: bool = True
    version: int | None = None
    condition: str | None = None
    new_table: str | None = None
    """Key of the table, if it is one that is being made."""

    @classmethod
    def begin(cls, relation: ServerTable, schema: StructType, replaces: Replaces, condition: str | None) -> ServerWrite:
        """Begin a write to a table, in a session of its own."""
        session = SharedSession.begin(relation.options)
        try:
            table = relation.options.table or NamedTable("", "")
            begun = cls.within(
                session, table, relation.source, schema, f"{quote_name(table.db_schema)}.{quote_name(table.name)}"
            )
        except BaseException:
            session.close()
            raise
        return replace(
            begun,
            replaces=replaces,
            is_partitioned=relation.is_partitioned,
            version=relation.options.snapshot,
            condition=condition,
        )

    @classmethod
    def within(
        cls, session: SharedSession, table: NamedTable, source: pa.Schema, schema: StructType, like: str
    ) -> ServerWrite:
        """Begin a write of rows that are added to a table, with columns of `source`, which those of the table `like` are."""
        names = match_columns(schema.names, source.names)
        planned = cls(
            session=session,
            table=table,
            columns=pa.schema([source.field(name).remove_metadata() for name in names]),
            staged=f"spark_{secrets.token_hex(8)}",
        )
        columns = ", ".join(map(quote_name, names))
        made = f"CREATE TEMPORARY TABLE {quote_name(planned.staged)} PARTITIONED BY ({quote_name(planned.mark)})"
        session.run(f"{made} AS SELECT {columns}, '' AS {quote_name(planned.mark)} FROM {like} WHERE false")  # noqa: S608 - quoted
        return planned

    @property
    def mark(self) -> str:
        """Column of the temporary table that says which task has sent a row."""
        return f"{self.staged}_mark"

    @property
    def target(self) -> str:
        return f"{quote_name(self.table.db_schema)}.{quote_name(self.table.name)}"

    def write(self, batches: Iterable[pa.RecordBatch]) -> Sent:
        """Do the work of a task: send its rows under a mark of their own."""
        mark, has_rows = secrets.token_hex(8), False

        def marked() -> Iterator[pa.RecordBatch]:
            nonlocal has_rows
            for batch in batches:
                has_rows = has_rows or batch.num_rows > 0
                named = pa.Table.from_batches([batch]).rename_columns(self.columns.names)
                fitting = rows.conform(named, self.columns)
                yield from fitting.append_column(marks, pa.array([mark] * batch.num_rows, pa.utf8())).to_batches()

        marks = pa.field(self.mark, pa.utf8())
        self.session.send(self.staged, self.columns.append(marks), marked())
        return Sent(mark if has_rows else None)

    def commit(self, sent: Sequence[Sent], read: str | None) -> None:
        """Make the rows of tasks visible, in one commit; `read` is the condition of those that a change of rows has read."""
        write = (
            self if self.replaces is not Replaces.READ or self.condition is not None else replace(self, condition=read)
        )
        if any(message.mark for message in sent) or self.replaces in {Replaces.TABLE, Replaces.READ}:
            write.run(write.insert_statement(sent))
        self.session.close()

    def insert_statement(self, sent: Sequence[Sent]) -> str:
        """Return the statement that adds the rows of some tasks, or overwrites others by them."""
        marks = [message.mark for message in sent if message.mark is not None]
        columns = ", ".join(map(quote_name, self.columns.names))
        where = f"{quote_name(self.mark)} IN ({', '.join(map(text, marks))})" if marks else "false"
        is_overwriting = self.replaces is Replaces.PARTITIONS or not self._needs_room
        is_adding = self.replaces in {Replaces.NOTHING, Replaces.NOTHING_OF_READ}
        verb = "INSERT OVERWRITE" if is_overwriting and not is_adding else "INSERT INTO"
        return f"{verb} {self.target} ({columns}) SELECT {columns} FROM public.{quote_name(self.staged)} WHERE {where}"  # noqa: S608 - quoted

    @property
    def _needs_room(self) -> bool:
        """True if rows are removed by a statement of their own."""
        return self.is_partitioned and self.replaces in {Replaces.TABLE, Replaces.READ}

    def run(self, inserted: str) -> None:
        """Run the statement that adds the rows, in one transaction with what reads or removes those that they rest on."""
        if not self._needs_room and self.replaces is not Replaces.NOTHING_OF_READ:
            self.session.run(inserted)
            return
        where = "" if self.condition is None else f" WHERE {self.condition}"
        self.session.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
        try:
            if self._needs_room:
                self.session.run(f"DELETE FROM {self.target}{where}")  # noqa: S608 - quoted
            else:
                self.session.rows(f"SELECT count(*) FROM {self.target}{where}")  # noqa: S608 - quoted
            # From here on the transaction itself refuses what changes.
            self._check_unchanged(where)
            self.session.run(inserted, "COMMIT")
        except BaseException:
            with suppress(ServerError):
                self.session.run("ROLLBACK")
            raise

    def _check_unchanged(self, where: str) -> None:
        """Raise `SerializationFailure` if rows that this rests on were changed since the version that was read."""
        newest = quote_name(f"{self.table.name}$snapshots")
        found = self.session.rows(f"SELECT max(version) FROM {quote_name(self.table.db_schema)}.{newest}")  # noqa: S608 - quoted
        (version,) = found.column(0).to_pylist()
        if version == self.version:
            return
        between = f"{text(self.target)}, {self.version}, {version}"
        changed = self.session.rows(f"SELECT count(*) FROM table_changes({between}){where}")  # noqa: S608 - quoted
        if changed.column(0).to_pylist() != [0]:
            raise SerializationFailure(
                f"rows of {self.table.name!r} that this statement has read were changed by another writer; run it again"
            )

    def abort(self) -> None:
        """Remove the rows that tasks have sent."""
        self.session.close()


def check_changeable(relation: ServerTable) -> None:
    """Refuse a change of rows that would take several statements in a table that takes one at a time."""
    if not relation.is_partitioned:
        name = "" if relation.options.table is None else relation.options.table.name
        raise Unsupported(
            f"table {name!r} is not partitioned, so that through a server its rows are changed by a statement of the server's alone;"
            " send it UPDATE, DELETE or MERGE over Flight SQL, or use a catalog with the option 'root'"
        )
