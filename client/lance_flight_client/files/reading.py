"""Batches of one file, each with how much of the file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lance_flight.model.arrow_types import storage_of

from lance_flight_client.files.formats import Format, Pipe, TextOptions

BATCH_ROWS = 64 * 1024
_FILE_BUFFER = 1 << 20
_READ_AHEAD = 2
"""Batches that are read before they are asked for: memory is bounded by them."""
_CODECS: Mapping[str, str] = MappingProxyType({".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"})


def read_file(
    fragment: Any, size: int, kind: Format, text: TextOptions, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Read a file with the columns of a schema; with each batch goes the number of bytes that are read of it so far."""
    if isinstance(fragment, ds.ParquetFileFragment):
        return _read_parquet(fragment, size, schema)
    if kind.guesses and kind.pipe is not None:
        return _read_text(fragment, size, kind.pipe, text, schema)
    return _scan(fragment, schema)


def first_rows(filesystem: Any, path: str, read: Callable[[Any], Any]) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of a text file, those that types are guessed from, as `read` reads its stream."""
    with filesystem.open_input_file(path) as file, _inflated(file, path) as stream:
        yield from islice(read(stream), 1)


def conformed(batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a batch with the columns of a schema: those that its path names, a file's own, and NULL."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names and field.name not in values
        else pa.repeat(pa.scalar(values.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_text(
    fragment: Any, size: int, pipe: Pipe, text: TextOptions, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, int]]:
    # A scanner does not say how far it is; the reader of a pipe is ahead of its batches by some 30 MB at most.
    values = ds.get_partition_keys(fragment.partition_expression)
    own = pa.schema([field for field in schema if field.name not in values])
    with fragment.filesystem.open_input_file(fragment.path) as file, _inflated(file, fragment.path) as stream:
        for batch in pipe(stream, text, own):
            yield conformed(batch, schema, values), _position(file, size)


def _position(file: Any, size: int) -> int:
    try:
        return int(file.tell())
    except ValueError:
        # The reader of JSON closes a file at its end.
        return size


@contextmanager
def _inflated(file: Any, path: str) -> Iterator[Any]:
    """Open the stream of a file's text, which the end of its name may call compressed."""
    buffered = pa.BufferedInputStream(file, _FILE_BUFFER)
    codec = next((codec for ending, codec in _CODECS.items() if path.lower().endswith(ending)), None)
    yield buffered if codec is None else pa.CompressedInputStream(buffered, codec)


def _read_parquet(fragment: Any, size: int, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
    # A scanner holds whole row groups, which may be of any size.
    values = ds.get_partition_keys(fragment.partition_expression)
    with fragment.open() as opened_file:
        file = pq.ParquetFile(opened_file, buffer_size=_FILE_BUFFER, pre_buffer=False)
        rows, total = 0, file.metadata.num_rows
        names = [name for name in file.schema_arrow.names if name in schema.names and name not in values]
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            rows += batch.num_rows
            yield conformed(batch, schema, values), size * rows // total


def _scan(fragment: Any, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
    plain = pa.schema([each.with_type(storage_of(each.type)) for each in schema])
    scanner = fragment.scanner(
        schema=plain, batch_size=BATCH_ROWS, batch_readahead=_READ_AHEAD, fragment_readahead=1, cache_metadata=False
    )
    for batch in scanner.to_batches():
        yield conformed(batch, schema, {}), 0
