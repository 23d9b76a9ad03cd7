"""Loading of files into a table: what is shown and asked before, and what is said afterwards."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Sequence

import pyarrow as pa
from lance_flight.errors import AlreadyCommitted, AlreadyExists
from lance_flight.machine import leave
from lance_flight.model.type_names import column_type_name

from lance_flight_client.cli.file_streams import FileStream
from lance_flight_client.cli.interrupts import cancellable
from lance_flight_client.cli.load_options import MODES, checked_delimiter, checked_encoding
from lance_flight_client.cli.loading import PUBLIC, FileLoad, LoadTarget, engine_side, target_of
from lance_flight_client.files.names import PIPE
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import NO_TYPES, RowSource, open_files
from lance_flight_client.files.text_files import RejectedRow
from lance_flight_client.output import NULL, align_table, cells
from lance_flight_client.terminal import counted, readable


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
    state = "is made" if there is None else "is there"
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
