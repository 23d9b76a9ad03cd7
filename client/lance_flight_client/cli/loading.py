"""Targets of rows that a command loads: a server, or a root, in this process, whose module is imported where it is wanted."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from lance_flight.errors import AlreadyCommitted, InvalidInput

from lance_flight_client.adbc import execute, ingest
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.cli.interrupts import Begins
from lance_flight_client.cli.load_options import MODES
from lance_flight_client.errors import ServerError
from lance_flight_client.parameters import quote_name

PUBLIC = "public"
"""Schema of tables that are named without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoad:
    """Rows that are to be loaded: the table, its columns, and how."""

    db_schema: str
    name: str
    schema: pa.Schema
    mode: str
    partition_by: str | None = None
    commit_id: str | None = None

    @property
    def label(self) -> str:
        """The table as its user wrote it, without the default schema."""
        return self.name if self.db_schema == PUBLIC else f"{self.db_schema}.{self.name}"


class LoadTarget(Protocol):
    """Place of tables that rows are loaded into."""

    def columns(self, db_schema: str, name: str) -> pa.Schema | None:
        """Return the columns of a table; None if there is none."""
        ...

    def check_new(self, load: FileLoad) -> None:
        """Refuse a table that could not be made, as far as that is known before rows are sent."""
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
    target: LoadTarget = engine_side().root_target(options.root)
    return target


def engine_side() -> Any:
    """Return the module that loads with the engine, which a load through a server does without."""
    return importlib.import_module("lance_flight_client.cli.root_loading")


def check_target(options: argparse.Namespace) -> None:
    """Refuse a root beside a server."""
    if options.root is not None and options.uri is not None:
        raise InvalidInput("--root and --uri were given; expected one of them")


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """Tables of a server (`LoadTarget`)."""

    server: ChosenServer
    connection: Any

    def columns(self, db_schema: str, name: str) -> pa.Schema | None:
        sql = f"SELECT * FROM {quote_name(db_schema)}.{quote_name(name)} LIMIT 0"  # noqa: S608 - quoted
        try:
            with self.server.naming():
                rows = execute(self.connection, sql).rows
        except ServerError as exc:
            if "[not_found]" in str(exc):
                return None
            raise
        return None if rows is None else rows.schema

    def check_new(self, load: FileLoad) -> None:
        # The server looks at the columns; partition fields are refused before anything is asked.
        if load.partition_by is not None:
            engine_side().check_load(load)

    def ingest(self, load: FileLoad, rows: pa.RecordBatchReader, begins: Begins) -> int:
        is_sent = False

        def sending() -> Iterator[pa.RecordBatch]:
            nonlocal is_sent
            yield from rows
            is_sent = True

        try:
            return ingest(
                self.connection,
                load.name,
                pa.RecordBatchReader.from_batches(rows.schema, sending()),
                # A server that has all rows may be committing them: its answer is waited for.
                begins=lambda cancel: begins(lambda: None if is_sent else cancel()),
                db_schema=load.db_schema,
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
