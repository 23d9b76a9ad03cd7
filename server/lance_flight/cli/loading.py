"""Targets of rows that a command loads: a root, in this process, or a server."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
from lance_flight_client.adbc import execute, ingest
from lance_flight_client.errors import ServerError

from lance_flight.backend_values import IfExists
from lance_flight.catalog.commits.writer import write_memory
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.cli.connecting import ChosenServer
from lance_flight.cli.interrupts import Begins
from lance_flight.cli.serving.service import root_store
from lance_flight.config_sources import storage_from_environment
from lance_flight.engine.engine import Engine
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.engine.sql.references import quoted
from lance_flight.engine.writes.ingest import COMMIT_ID, OVERWRITE, PARTITION_BY, IngestOptions
from lance_flight.errors import AlreadyCommitted, InvalidInput

_LANES = 2
_WRITE_BYTES = 128 << 20
"""Memory for rows on their way into files: with what reads and encodes them, a load of any size stays below 1 GiB."""


@dataclass(frozen=True, slots=True)
class LoadMode:
    """Meaning of a mode: what an existing table is to an ingest, ADBC's name of that, and the rows that are overwritten."""

    existing: IfExists
    adbc: str
    overwrite: str | None = None


MODES: Mapping[str, LoadMode] = MappingProxyType(
    {
        "create": LoadMode(IfExists.FAIL, "create"),
        "append": LoadMode(IfExists.APPEND, "create_append"),
        "overwrite": LoadMode(IfExists.APPEND, "create_append", "partitions"),
        "overwrite-table": LoadMode(IfExists.APPEND, "create_append", "table"),
        "replace": LoadMode(IfExists.REPLACE, "replace"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad:
    """Rows that are to be loaded: the table, its columns, and how."""

    name: TableName
    schema: pa.Schema
    mode: str
    partition_by: str | None = None
    commit_id: str | None = None

    @property
    def label(self) -> str:
        """The table as its user wrote it, without the default schema."""
        return self.name.name if self.name.db_schema == PUBLIC else str(self.name)

    @property
    def options(self) -> dict[str, str]:
        """The options of an ingest."""
        given = {
            PARTITION_BY: self.partition_by,
            OVERWRITE: MODES[self.mode].overwrite,
            COMMIT_ID: self.commit_id,
        }
        return {name: text for name, text in given.items() if text is not None}


class LoadTarget(Protocol):
    """Place of tables that rows are loaded into."""

    def columns(self, name: TableName) -> pa.Schema | None:
        """Return the columns of a table; None if there is none."""
        ...

    def ingest(self, load: FileLoad, rows: pa.RecordBatchReader, begins: Begins) -> int:
        """Store rows in one commit, and return their number; `AlreadyCommitted` for an id that was stored before.

        `begins` is given what cancels it, until the commit begins.
        """
        ...


def target_of(options: argparse.Namespace) -> LoadTarget:
    """Return the root that arguments name, which is made where it is missing, or their server."""
    check_target(options)
    if options.root is None:
        server = ChosenServer.of(options)
        return ServerTarget(server, server.connect())
    write_memory.total = _WRITE_BYTES
    return RootTarget(engine_over(options.root, create=True))


def check_target(options: argparse.Namespace) -> None:
    """Refuse a root beside a server."""
    if options.root is not None and options.uri is not None:
        raise InvalidInput("--root and --uri were given; expected one of them")


def engine_over(root: str, *, create: bool = False) -> Engine:
    """Return an engine over a root, in this process; one that is missing is made with `create` alone."""
    store = root_store(root, storage_from_environment(os.environ), create=create)
    return Engine(Root(store), target_partitions=_LANES)


def cancel_statements(engine: Engine) -> None:
    """Cancel what runs in an engine of this process; what is committing goes on."""
    for each in engine.running.records():
        engine.running.cancel(each.id, Issuer(), seconds=0)


@dataclass(frozen=True, slots=True)
class RootTarget:
    """Tables of a root, written by this process (`LoadTarget`)."""

    engine: Engine

    def columns(self, name: TableName) -> pa.Schema | None:
        table = self.engine.root.find(name)
        return None if table is None else table.snapshot().schema.plain

    def ingest(self, load: FileLoad, rows: pa.RecordBatchReader, begins: Begins) -> int:
        begins(partial(cancel_statements, self.engine))
        return self.engine.ingest(
            load.name,
            rows,
            create_missing=True,
            existing=MODES[load.mode].existing,
            options=IngestOptions.of(load.options),
        )


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """Tables of a server (`LoadTarget`)."""

    server: ChosenServer
    connection: Any

    def columns(self, name: TableName) -> pa.Schema | None:
        sql = f"SELECT * FROM {quoted(name.db_schema, name.name)} LIMIT 0"  # noqa: S608 - quoted
        try:
            with self.server.naming():
                found = execute(self.connection, sql).rows
        except ServerError as exc:
            if "[not_found]" in str(exc):
                return None
            raise
        return None if found is None else found.schema

    def ingest(self, load: FileLoad, rows: pa.RecordBatchReader, begins: Begins) -> int:
        is_sent = False

        def sending() -> Iterator[pa.RecordBatch]:
            nonlocal is_sent
            yield from rows
            is_sent = True

        try:
            return ingest(
                self.connection,
                load.name.name,
                pa.RecordBatchReader.from_batches(rows.schema, sending()),
                # A server that has all rows may be committing them: its answer is waited for.
                begins=lambda cancel: begins(lambda: None if is_sent else cancel()),
                db_schema=load.name.db_schema,
                mode=MODES[load.mode].adbc,
                partition_by=load.partition_by,
                overwrite=MODES[load.mode].overwrite,
                commit_id=load.commit_id,
            )
        except ServerError as exc:
            if f"[{AlreadyCommitted.code}]" in str(exc):
                raise AlreadyCommitted(
                    str(exc).rpartition(f"[{AlreadyCommitted.code}] ")[2].partition(". Detail")[0]
                ) from exc
            raise
