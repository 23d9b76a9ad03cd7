"""A program that begins an ingest, says so, and never ends it: run it and kill it."""

from __future__ import annotations

import sys

import pyarrow as pa
from lance_flight.flight.wire import StatementIngest, TableDefinitionOptions, encode_command
from pyarrow import flight

CREATE, APPEND = 1, 2


def main(uri: str, table: str, *partition_by: str) -> None:
    """Send ten batches to `table`, say so on standard output, and wait."""
    command = StatementIngest(
        table=table,
        table_definition_options=TableDefinitionOptions(if_not_exist=CREATE, if_exists=APPEND),
        options={"partition_by": partition_by[0]} if partition_by else {},
    )
    descriptor = flight.FlightDescriptor.for_command(encode_command(command))
    writer, _ = flight.connect(uri).do_put(descriptor, pa.schema({"id": pa.int64()}))
    for start in range(10):
        writer.write_batch(pa.record_batch({"id": list(range(start, start + 10_000))}))
    sys.stdout.write("sent\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
