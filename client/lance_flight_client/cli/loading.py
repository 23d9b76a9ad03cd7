"""Loading of files into a table: its target, a server or a root in this process, what is shown and asked before, and what is said afterwards.

The module that loads into a root needs the engine, and is imported where it is wanted.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from lance_flight.errors import AlreadyCommitted, AlreadyExists, InvalidInput
from lance_flight.machine import leave
from lance_flight.model.type_names import column_type_name

from lance_flight_client.adbc import execute, ingest
from lance_flight_client.cli.arguments import MODES, checked_delimiter, checked_encoding
from lance_flight_client.cli.connecting import Begins, ChosenServer, cancellable
from lance_flight_client.errors import ServerError
from lance_flight_client.files.names import PIPE
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import NO_TYPES, FileStream, RowSource, open_files
from lance_flight_client.files.text_files import RejectedRow
from lance_flight_client.output import NULL, align_table, cells
from lance_flight_client.parameters import quote_name
from lance_flight_client.terminal import counted, readable

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


def load_files(options: argparse.Namespace) -> int:
    """Load files into a table, or show what would be loaded."""
    if options.suggest:
        return int(engine_side().suggest(_open_files(options), options.partition_by))
    target = target_of(options)
    db_schema, _, name = options.table.rpartition(".")
    db_schema = db_schema or PUBLIC
    there = cancellable(lambda _: target.columns(db_schema, name), has_effect=False)
    if there is not None and options.mode == "create" and options.commit_id is None:
        raise AlreadyExists(f"table {options.table!r} is there already; expected --mode {', '.join(_OTHER_MODES)}")
    is_new = there is None or options.mode == "replace"
    source = _open_files(options, NO_TYPES if there is None or is_new else there)
    load = FileLoad(
        db_schema=db_schema,
        name=name,
        mode=options.mode,
        partition_by=options.partition_by,
        commit_id=options.commit_id,
        schema=source.schema,
    )
    if is_new:
        target.check_new(load)
    for note in source.notes:
        print(note)
    if options.dry_run or (source.guesses and there is None and not options.yes):
        _show(load, source, there)
    if options.dry_run:
        return 0
    if source.guesses and there is None and not options.yes and not _is_confirmed(options):
        return 1
    status = _load(target, load, source)
    if source.rejected:
        _report(source.rejected, options.rejects)
    return status


_OTHER_MODES = [mode for mode in MODES if mode != "create"]


def _report(rejected: Sequence[RejectedRow], path: str | None) -> None:
    """Say how many rows were left out, and write them to a file."""
    first = rejected[0]
    were = "was" if len(rejected) == 1 else "were"
    print(f"{counted(len(rejected))} {were} left out{'' if path is None else f'; {path} has them'}; the first: {first}")
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - as it was written
            writer = csv.writer(file)
            writer.writerow(("file", "line", "column", "value", "reason", "row"))
            writer.writerows(
                (row.file, row.line, row.column, row.value, row.reason, json.dumps(row.texts, ensure_ascii=False))
                for row in rejected
            )


def _open_files(options: argparse.Namespace, known: pa.Schema = NO_TYPES) -> RowSource:
    text = TextOptions(
        delimiter=checked_delimiter(options.delimiter, "--delimiter"),
        header=options.header,
        nulls=tuple(options.null),
        encoding=checked_encoding(options.encoding, "--encoding"),
        decimal=options.decimal,
        date_format=options.date_format,
        skip=options.skip,
        sheet=options.sheet,
        ignores_errors=options.ignore_errors or options.rejects is not None,
    )
    types = NO_TYPES if options.types is None else engine_side().columns_of(options.types)
    return open_files(options.files, options.format, text, sys.stdin.buffer, types=types, known=known)


def _show(load: FileLoad, source: RowSource, there: pa.Schema | None) -> None:
    size = "" if source.size is None else f", {readable(source.size)}"
    state = "is new" if there is None else "is there"
    fields = "" if load.partition_by is None else f", partitioned by {load.partition_by}"
    print(f"table {load.label} {state}{fields}{size}")
    shown = {"column": load.schema.names, "type": [column_type_name(field) for field in load.schema]}
    sample = source.sample()
    if sample is not None:
        rows = zip(*(cells(column, NULL, _SAMPLE_WIDTH) for column in sample.columns), strict=True)
        shown |= {f"row {number}": row for number, row in enumerate(rows, 1)}
    print(align_table(pa.table(shown)))


_SAMPLE_WIDTH = 24


def _is_confirmed(options: argparse.Namespace) -> bool:
    """Ask on a terminal whether guessed types are right; return True without one."""
    if PIPE in options.files or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    answer = input("These types are guessed from the first rows (--types says others). Load? [Y/n] ")
    return answer.strip().lower() in {"", "y", "yes"}


_HINT = "say the type of the column with --types, what is NULL with --null, or --ignore-errors to leave such rows out"


def _load(target: LoadTarget, load: FileLoad, source: RowSource) -> int:
    began, counts = time.perf_counter(), list[int]()
    try:
        with FileStream(source, load.schema, f"loading {load.label}").reader(_HINT) as rows:
            cancellable(lambda begins: counts.append(target.ingest(load, rows, begins)))
    except KeyboardInterrupt:
        if not counts:
            # Threads of Lance and Arrow may still be about to ask for rows.
            leave(130)
    except AlreadyCommitted as exc:
        print(f"{load.label}: {exc}; nothing was loaded")
        return 0
    print(f"{load.label}: {counted(counts[0])}, {time.perf_counter() - began:.1f} s")
    return 0
