"""Writing rows of a table or a query to files."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from lance_flight.errors import InvalidInput
from lance_flight.machine import leave

from lance_flight_client.adbc import run_statement
from lance_flight_client.cli.connecting import Begins, ChosenServer, cancellable
from lance_flight_client.cli.loading import PUBLIC, check_target, engine_side
from lance_flight_client.files.writing import write_directory, write_file, written_format
from lance_flight_client.parameters import quote_name
from lance_flight_client.terminal import Meter


def export(options: argparse.Namespace) -> int:
    """Write rows to files."""
    check_target(options)
    if options.by is not None and options.format is None:
        raise InvalidInput("--by writes a directory, whose name says no format; expected --format")
    format, began = written_format(options.output, options.format), time.perf_counter()
    meter = Meter(f"writing {options.output}", None)

    def work(begins: Begins) -> None:
        with _rows(options, begins) as (schema, batches):
            if not len(schema):
                raise InvalidInput(f"{options.what!r} returns no rows; expected a table or a query")
            rows = meter.passing(batches)
            if options.by is None:
                write_file(options.output, format, schema, rows)
            else:
                write_directory(options.output, format, schema, rows, options.by.split(","))

    try:
        cancellable(work)
    except KeyboardInterrupt:
        meter.close()
        # Threads of Lance and Arrow may still be about to ask for rows.
        leave(130)
    finally:
        meter.close()
    print(f"{options.output}: {meter.rows:,} rows, {time.perf_counter() - began:.1f} s")
    return 0


@contextmanager
def _rows(options: argparse.Namespace, begins: Begins) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Answer the query, in this process or by a server."""
    sql = options.what
    if not any(map(str.isspace, sql)):
        db_schema, _, name = sql.rpartition(".")
        sql = f"SELECT * FROM {quote_name(db_schema or PUBLIC)}.{quote_name(name)}"  # noqa: S608 - quoted
    if options.root is not None:
        reader: pa.RecordBatchReader = engine_side().rows_of_root(options.root, sql, begins)
        yield reader.schema, iter(reader)
        return
    server = ChosenServer.of(options)
    with server.naming(), server.connect() as connection, run_statement(connection, sql, begins) as answer:
        yield answer.schema, answer.batches
