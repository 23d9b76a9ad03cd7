"""`lance-flight ingest`."""

from __future__ import annotations

import argparse
import codecs
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from lance_flight_client.files.formats import FORMATS, TextOptions
from lance_flight_client.files.sources import NO_TYPES, PIPE, RowSource, opened
from lance_flight_client.output import aligned
from lance_flight_client.terminal import Meter, readable

from lance_flight.cli.arguments import add_dry_run, add_server
from lance_flight.cli.inspect import named
from lance_flight.cli.interrupts import Begins, cancellable
from lance_flight.cli.loading import MODES, FileLoad, LoadTarget, target_of
from lance_flight.cli.serving.service import leave
from lance_flight.cli.suggestions import suggest
from lance_flight.engine.sql.type_names import column_type_name
from lance_flight.engine.statements.create_table import columns_of
from lance_flight.engine.writes.ingest import TableProperties, check_new
from lance_flight.errors import AlreadyCommitted, DataError, InvalidInput


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Load files into a table in one commit: Parquet, CSV, JSON lines, Arrow, ORC. A directory stands for the files below it, whose"
        " own directories (month=3) become columns. The table is made where it is missing. Nothing is visible before all of it is."
    )
    command.epilog = (
        'Examples: lance-flight ingest flights.csv --table flights --root lake --partition-by "month(time_hour), origin";'
        " lance-flight ingest 's3://bucket/2026/*.parquet' --table events --mode append --uri grpc://host:32010;"
        " zcat rows.csv.gz | lance-flight ingest - --format csv --table rows --root lake"
    )
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help=f"file, directory, glob or object-store URI; iceberg:PATH, delta:PATH (with @VERSION); {PIPE} is a pipe",
    )
    command.add_argument("--table", required=True, metavar="NAME", help="table to load into, [schema.]name")
    command.add_argument("--root", metavar="ROOT", help="directory or object-store URI of the tables, without a server")
    add_server(command)
    command.add_argument(
        "--partition-by", metavar="FIELDS", help='partition fields of a table that is made: "month(at), bucket(16, id)"'
    )
    command.add_argument(
        "--mode",
        choices=sorted(MODES),
        default="create",
        help="create: refuse a table that is there; append: add rows; overwrite: replace the partitions that get rows;"
        " overwrite-table: replace all rows; replace: make the table anew (default: %(default)s)",
    )
    command.add_argument(
        "--commit-id", metavar="ID", help="name of this load: it is stored once, however often the command is run"
    )
    command.add_argument("--format", choices=sorted(FORMATS), help="format of the files (default: by their names)")
    command.add_argument(
        "--types", metavar="COLUMNS", help='types of some columns of CSV or JSON: "id BIGINT, day DATE"'
    )
    command.add_argument(
        "--delimiter", default=",", metavar="CHAR", help="between the columns of CSV (default: a comma)"
    )
    command.add_argument(
        "--no-header", action="store_true", help="the first line of CSV is a row; columns are f0, f1, …"
    )
    command.add_argument(
        "--encoding",
        default="utf-8",
        metavar="NAME",
        help="encoding of the text of CSV, such as latin-1 (default: utf-8)",
    )
    command.add_argument(
        "--null",
        action="append",
        default=[],
        metavar="TEXT",
        help="text that is NULL in CSV, in columns of text as well",
    )
    command.add_argument(
        "--suggest",
        action="store_true",
        help="read the files, show how many tables some partition fields (and those of --partition-by) would make and of"
        " what size, and store nothing",
    )
    command.add_argument("--yes", action="store_true", help="do not ask whether guessed types are right")
    add_dry_run(command)


def run(options: argparse.Namespace) -> int:
    """Load files into a table, or show what would be loaded."""
    if options.suggest:
        return suggest(_opened(options), options.partition_by)
    target = target_of(options)
    name = named(options.table)
    there = cancellable(lambda _: target.columns(name), has_effect=False)
    is_new = there is None or options.mode == "replace"
    source = _opened(options, NO_TYPES if there is None or is_new else there)
    load = FileLoad(
        name=name,
        mode=options.mode,
        partition_by=options.partition_by,
        commit_id=options.commit_id,
        schema=source.schema,
    )
    if is_new:
        check_new(name, load.schema, TableProperties.by(load.partition_by))
    if options.dry_run or (source.guesses and there is None and not options.yes):
        _show(load, source, there)
    if options.dry_run:
        return 0
    if source.guesses and there is None and not options.yes and not _is_confirmed(options):
        return 1
    return _load(target, load, source)


def _opened(options: argparse.Namespace, known: pa.Schema = NO_TYPES) -> RowSource:
    text = TextOptions(
        delimiter=options.delimiter,
        header=not options.no_header,
        nulls=tuple(options.null),
        encoding=_checked_encoding(options.encoding),
    )
    types = NO_TYPES if options.types is None else columns_of(options.types)
    return opened(options.files, options.format, text, sys.stdin.buffer, types=types, known=known)


def _checked_encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise InvalidInput(f"--encoding is {name!r}; expected a name of Python's, such as utf-8 or latin-1") from None


def _show(load: FileLoad, source: RowSource, there: pa.Schema | None) -> None:
    size = "" if source.size is None else f", {readable(source.size)}"
    state = "is made" if there is None else "is there"
    fields = "" if load.partition_by is None else f", partitioned by {load.partition_by}"
    print(f"table {load.label} {state}{fields}{size}")
    kinds = [column_type_name(field) for field in load.schema]
    print(aligned(pa.table({"column": load.schema.names, "type": kinds})))


def _is_confirmed(options: argparse.Namespace) -> bool:
    """Ask on a terminal whether guessed types are right; return True without one."""
    if PIPE in options.files or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    answer = input("These types are guessed from the first rows (--types says others). Load? [Y/n] ")
    return answer.strip().lower() in {"", "y", "yes"}


def _load(target: LoadTarget, load: FileLoad, source: RowSource) -> int:
    meter = Meter(f"loading {load.label}", source.size)
    began, failure, counts = time.perf_counter(), [], []

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            yield from source.batches(load.schema, meter)
        except (DataError, OSError) as exc:
            # What passes the rows on may name only itself.
            failure.append(exc)
            raise

    def work(begins: Begins) -> None:
        counts.append(target.ingest(load, pa.RecordBatchReader.from_batches(load.schema, rows()), begins))

    try:
        cancellable(work)
    except KeyboardInterrupt:
        meter.close()
        if not counts:
            # Threads of Lance and Arrow may still be about to ask for rows.
            leave(130)
    except AlreadyCommitted as exc:
        print(f"{load.label}: {exc}; nothing was loaded")
        return 0
    except Exception:
        if failure:
            raise _explained(failure[0], source) from None
        raise
    finally:
        meter.close()
    print(f"{load.label}: {counts[0]:,} rows, {time.perf_counter() - began:.1f} s")
    return 0


def _explained(failure: DataError | OSError, source: RowSource) -> DataError | InvalidInput:
    if isinstance(failure, OSError):
        return InvalidInput(f"the files cannot be read: {failure}; nothing was loaded")
    hint = "; say the type of the column with --types, or what is NULL with --null" if source.guesses else ""
    return DataError(f"{failure}{hint}; nothing was loaded")
