"""Tables that a statement of Spark's makes with rows in them, which are visible from their publication on, whole."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.statements.unpublished_table import UnpublishedTable
from lance_flight.errors import AlreadyExists, Conflict, Unsupported
from pyspark.sql.types import StructType

from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.backends import RootBackend, backend_of
from lance_flight_client.spark.connector.reading.relations import kind_of, of_reads
from lance_flight_client.spark.connector.tables.definitions import create_table
from lance_flight_client.spark.connector.writing.server_sessions import SharedSession
from lance_flight_client.spark.connector.writing.server_writes import ServerWrite
from lance_flight_client.spark.options import NamedTable, ReadOptions
from lance_flight_client.spark.source import ReadPlan


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table of a root that is being made, in a private place (`relations.Relation`)."""

    name: str
    store: Store
    source: pa.Schema

    @property
    def takes_conditions(self) -> bool:
        return False

    def decides(self, condition: str) -> bool:
        del condition
        return False

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        raise Unsupported(f"table {self.name!r} is being made and cannot be read yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServerTable:
    """A table of a server that is being made, in a session of its own (`relations.Relation`).

    `like` is a temporary table with its columns; `key` is that of its `UnpublishedOnServer`.
    """

    session: SharedSession
    name: NamedTable
    source: pa.Schema
    like: str
    key: str

    @property
    def takes_conditions(self) -> bool:
        return False

    def decides(self, condition: str) -> bool:
        del condition
        return False

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        raise Unsupported(f"table {self.name.name!r} is being made and cannot be read yet")

    def write(self, schema: StructType) -> ServerWrite:
        """Begin to write its rows."""
        begun = ServerWrite.within(self.session, self.name, self.source, schema, self.like)
        return replace(begun, new_table=self.key)


class Unpublished(Protocol):
    """A table that is being made (`UnpublishedTable`)."""

    def publish(self) -> None:
        """Give it its name."""
        ...

    def discard(self) -> None:
        """Remove it."""
        ...


@dataclass(slots=True)
class UnpublishedOnServer:
    """A table that a transaction of a server's session makes when its rows are there."""

    session: SharedSession
    statement: str
    is_made: bool = False

    def fill(self, inserted: str) -> None:
        """Make the table and run the statement that adds its rows."""
        self.session.run("BEGIN", self.statement, inserted)
        self.is_made = True

    def publish(self) -> None:
        self.session.run("COMMIT" if self.is_made else self.statement)
        self.session.close()

    def discard(self) -> None:
        # Which rolls back.
        self.session.close()


_STARTED_AGAIN = "the connector's Python was started again while a table was made; run the statement again"
_STAGED: dict[str, Unpublished] = {}
"""Tables that this process is making, by the keys that the JVM knows them by."""


def stage(
    options: Mapping[str, str], name: NamedTable, given: Mapping[str, Any]
) -> tuple[str, NewTable | NewServerTable]:
    """Begin to make the table that a request defines; return the key by which it is ended, and what its rows are written to."""
    backend, key = backend_of(options), secrets.token_hex(8)
    kind = "OR REPLACE TABLE" if given["replace"] else "TABLE"
    statement = create_table(f"{quoted(name.db_schema)}.{quoted(name.name)}", given, kind)
    if isinstance(backend, RootBackend):
        made = _STAGED[key] = UnpublishedTable(backend.root, statement)
        return key, NewTable(name.name, made.table.store, made.table.snapshot().schema.plain)
    if not given["replace"] and kind_of(backend, name) is not None:
        raise AlreadyExists(f"table {name.name!r} is there already")
    session = SharedSession.begin(ReadOptions.parse({**of_reads(options), "query": "SELECT 1"}))
    try:
        like = quoted(f"spark_{key}")
        session.run(create_table(like, given, "TEMPORARY TABLE"))
        columns = session.rows(f"SELECT * FROM public.{like}").schema  # noqa: S608 - quoted
    except BaseException:
        session.close()
        raise
    _STAGED[key] = UnpublishedOnServer(session, statement)
    return key, NewServerTable(session=session, name=name, source=columns, like=f"public.{like}", key=key)


def fill(key: str, inserted: str) -> None:
    """Make a table of a server's and add its rows; both become visible when it is published."""
    made = _STAGED.get(key)
    if not isinstance(made, UnpublishedOnServer):
        raise Conflict(_STARTED_AGAIN)
    made.fill(inserted)


def end(given: Mapping[str, Any]) -> None:
    """Publish a table, or discard it, as a request says; `Conflict` for the publication of one that this process does not know."""
    key, commit = given["staged"], given["commit"]
    made = _STAGED.get(key)
    if commit and made is None:
        raise Conflict(_STARTED_AGAIN)
    if made is not None:
        # One that cannot be published stays until Spark has it discarded.
        (made.publish if commit else made.discard)()
        del _STAGED[key]
