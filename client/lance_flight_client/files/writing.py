"""Rows written to files of other formats, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lance_flight.errors import InvalidInput, NotFound
from pyarrow import fs

from lance_flight_client.files.names import ENDINGS, format_of
from lance_flight_client.files.writing_errors import written_as
from lance_flight_client.output import CsvWriter, JsonWriter, csv_columns

_DRAFT, _WHOLE = ".part", "_SUCCESS"


BatchWriter: TypeAlias = Callable[[Any, pa.Schema], Any]
"""Function that begins a file in a sink; the result writes batches, and is closed as a context."""

WRITERS: Mapping[str, BatchWriter] = MappingProxyType(
    {
        "parquet": pq.ParquetWriter,
        "csv": CsvWriter.of,
        "json": lambda sink, _: JsonWriter(sink),
        "arrow": pa.ipc.new_file,
    }
)
"""Formats that are written, by their names in `ENDINGS`."""


def written_format(path: str, format: str | None) -> str:
    """Return the format of a file that is to be written: the one that was said, or that of its name.

    >>> written_format("out/rows.jsonl", None)
    'json'
    """
    kind = format or format_of(path)
    if kind is None or kind not in WRITERS:
        endings = ", ".join(ENDINGS[name][0] for name in WRITERS)
        raise InvalidInput(
            f"{path!r} has no format that is written; expected a name that ends with {endings}, or --format"
        )
    return kind


def write_file(path: str, format: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write rows to one file, which has its name once it is whole; one that is there is replaced."""
    filesystem, place = _place(path)
    with (
        written_as(format),
        _drafting(filesystem, place) as draft,
        filesystem.open_output_stream(draft, compression=None) as sink,
        WRITERS[format](sink, schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def write_directory(
    path: str, format: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], by: Sequence[str]
) -> None:
    """Write rows to files below a new directory, those of equal values of the columns `by` in one of its own (`site=Oslo`).

    It has its name once it is whole; in an object store it has a file `_SUCCESS` then.
    """
    for name in by:
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
    filesystem, place = _place(path)
    if filesystem.get_file_info(place).type is not fs.FileType.NotFound:
        raise InvalidInput(f"{path!r} is there already; expected a new directory")
    if format == "csv":
        schema, batches = csv_columns(schema, batches, by)
    with written_as(format), _naming_directory(filesystem, place) as draft:
        ds.write_dataset(
            pa.RecordBatchReader.from_batches(schema, iter(batches)),
            draft,
            filesystem=filesystem,
            format="ipc" if format == "arrow" else format,
            partitioning=ds.partitioning(pa.schema([schema.field(name) for name in by]), flavor="hive"),
            max_partitions=1 << 16,
        )


def _place(path: str) -> tuple[fs.FileSystem, str]:
    try:
        filesystem, place = fs.FileSystem.from_uri(path if "://" in path else str(Path(path).expanduser().absolute()))
    except (OSError, pa.ArrowException) as exc:
        raise InvalidInput(f"{path!r} cannot be written: {exc}") from exc
    return filesystem, place


@contextmanager
def _naming_directory(filesystem: fs.FileSystem, place: str) -> Iterator[str]:
    """Give a directory its name once it is whole, or in an object store, which moves none, the file `_SUCCESS`."""
    if isinstance(filesystem, fs.LocalFileSystem):
        with _drafting(filesystem, place) as draft:
            yield draft
        return
    try:
        yield place
        with filesystem.open_output_stream(f"{place}/{_WHOLE}"):
            pass
    except BaseException:
        if filesystem.get_file_info(place).type is fs.FileType.Directory:
            filesystem.delete_dir(place)
        raise


@contextmanager
def _drafting(filesystem: fs.FileSystem, place: str) -> Iterator[str]:
    """Give what is written its name at the end, and remove it where that is not reached."""
    draft = place + _DRAFT
    try:
        yield draft
        filesystem.move(draft, place)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as exc:
        raise InvalidInput(f"{place!r} cannot be written: {exc.strerror or exc}") from exc
    except BaseException:
        kind = filesystem.get_file_info(draft).type
        if kind is fs.FileType.Directory:
            filesystem.delete_dir(draft)
        elif kind is fs.FileType.File:
            filesystem.delete_file(draft)
        raise
