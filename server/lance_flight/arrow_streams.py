"""Encoding of rows as Arrow IPC streams, for tickets, prepared handles, and the processes of one write."""

from __future__ import annotations

import pyarrow as pa


def encode_rows(rows: pa.RecordBatch | pa.Table, compression: str | None = None) -> bytes:
    """Encode a batch or a table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write(rows)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def decode_table(data: bytes) -> pa.Table:
    """Decode all rows of an IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def decode_batch(data: bytes) -> pa.RecordBatch:
    """Decode the one batch of an IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
