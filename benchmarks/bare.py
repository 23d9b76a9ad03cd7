"""The peer of streams and ingests: the least Flight server there can be over Lance.

A ticket is the path of a Lance table, streamed as one scanner gives it; a descriptor is the path of one to write. No
SQL, no partitions, no checks: what it takes is what Lance and Flight take.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lance
import pyarrow as pa
from lance_flight.model.arrow_types import align_buffers
from pyarrow import flight

SCAN_ROWS = 64 * 1024


class BareServer(flight.FlightServerBase):
    """Lance tables by their paths."""

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        return []

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        table = lance.dataset(ticket.ticket.decode())
        return flight.RecordBatchStream(table.scanner(batch_size=SCAN_ROWS).to_reader())

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        rows = reader.to_reader()
        # Lance panics on buffers that lie as Flight delivers them.
        whole = pa.RecordBatchReader.from_batches(rows.schema, map(align_buffers, rows))
        lance.write_dataset(whole, descriptor.path[0].decode(), mode="create")


def main() -> None:
    """Serve on any free port until killed; the file `--ready-file` then says where."""
    parser = argparse.ArgumentParser(prog="benchmarks.bare", description=__doc__)
    parser.add_argument("--ready-file", type=Path, required=True)
    ready_file: Path = parser.parse_args().ready_file
    server = BareServer("grpc://127.0.0.1:0")
    draft = ready_file.with_suffix(".part")
    draft.write_text(f"grpc://127.0.0.1:{server.port}")
    draft.replace(ready_file)
    server.serve()


if __name__ == "__main__":
    main()
