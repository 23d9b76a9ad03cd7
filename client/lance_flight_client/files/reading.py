"""Files as batches of rows: where they lie, and reading one of them with its progress."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lance_flight.errors import InvalidInput, NotFound
from lance_flight.model.arrow_types import storage_of
from pyarrow import fs

from lance_flight_client.files.names import ENDINGS, format_of
from lance_flight_client.files.sniffing import archive_members, decompress
from lance_flight_client.files.text_files import CsvFile, TextFile

_WILD = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files of one argument, all of one format, with their sizes and times of change; names of directories below `base` may be columns (`day=3`)."""

    argument: str
    filesystem: fs.FileSystem = field(repr=False)
    base: str
    paths: Sequence[str]
    sizes: Sequence[int]
    changed: Sequence[int]
    format: str


def find_files(argument: str, format: str | None) -> Found:
    """Find the files of an argument; `format` is theirs, or None for what their names say.

    `NotFound` if there are none, `InvalidInput` if their format cannot be told.
    """
    try:
        filesystem, path = fs.FileSystem.from_uri(_address(argument))
        base, infos = _list_matches(filesystem, path)
    except (OSError, pa.ArrowException) as exc:
        raise NotFound(f"{argument!r} cannot be read: {exc}") from exc
    files = sorted(
        (info.path, info.size or 0, info.mtime_ns or 0)
        for info in infos
        if info.is_file and not _is_hidden(info.path, base)
    )
    known = [(*file, format or format_of(file[0]) or _format_in_archive(filesystem, file[0])) for file in files]
    chosen = [each for each in known if each[3] is not None]
    if not chosen:
        if not files:
            raise NotFound(f"no files match {argument!r}")
        raise NotFound(
            f"{argument!r} says no format; expected a name that ends with"
            f" {', '.join(ending for endings in ENDINGS.values() for ending in endings)}, or --format"
            " (in SQL, read_csv('FILE'))"
        )
    formats = sorted({str(kind) for *_, kind in chosen})
    if len(formats) > 1:
        raise InvalidInput(f"{argument!r} has files of several formats, {' and '.join(formats)}; name them by a glob")
    return Found(
        argument=argument,
        filesystem=filesystem,
        base=base,
        paths=[path for path, *_ in chosen],
        sizes=[size for _, size, *_ in chosen],
        changed=[moment for _, _, moment, _ in chosen],
        format=formats[0],
    )


def _format_in_archive(filesystem: fs.FileSystem, path: str) -> str | None:
    """Return the format that the names inside a ZIP say; None for no archive, and for names of several formats."""
    if not path.lower().endswith(".zip"):
        return None
    try:
        with filesystem.open_input_file(path) as file, ZipFile(file) as archive:
            formats = {format_of(member) for member in archive_members(archive)}
    except (OSError, BadZipFile):
        return None
    return formats.pop() if len(formats) == 1 else None


def _address(argument: str) -> str:
    return argument if "://" in argument else str(Path(argument).expanduser().absolute())


def _list_matches(filesystem: fs.FileSystem, path: str) -> tuple[str, list[fs.FileInfo]]:
    """Return the directory below which names may be columns, and what a path, a directory or a glob stands for."""
    info = filesystem.get_file_info(path)
    if info.type is fs.FileType.Directory:
        return path, filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    if info.type is not fs.FileType.NotFound:
        return path.rpartition("/")[0], [info]
    if not glob.has_magic(path):
        return path, []
    base = path[: min(path.index(sign) for sign in _WILD if sign in path)].rpartition("/")[0]
    if isinstance(filesystem, fs.LocalFileSystem):
        matching = (each for each in Path(base).glob(path[len(base) :].lstrip("/")) if each.is_file())
        return base, filesystem.get_file_info([str(each) for each in matching])
    below = filesystem.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return base, [each for each in below if fnmatchcase(each.path, path)]


def _is_hidden(path: str, base: str) -> bool:
    """Return whether a file, or a directory above it, is one that other tools leave beside data (`_SUCCESS`, `.crc`)."""
    below = path.removeprefix(base).strip("/").split("/")
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in below)


BATCH_ROWS = 64 * 1024
_FILE_BUFFER = 1 << 20
_READ_AHEAD = 2
"""Batches that are read before they are asked for: memory is bounded by them."""


def read_file(
    fragment: Any, size: int, text: TextFile | None, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Read a file with the columns of a schema; with each batch goes the number of bytes that are read of it so far."""
    if isinstance(fragment, ds.ParquetFileFragment):
        return _read_parquet(fragment, size, schema)
    return _scan(fragment, schema) if text is None else _read_text(fragment, size, text, schema)


@contextmanager
def opened_text(filesystem: Any, path: str, *, sheet: str | None, is_workbook: bool) -> Iterator[Any]:
    """Open the stream of a file's text, or of a workbook's sheet."""
    with (
        filesystem.open_input_file(path) as file,
        decompress(file, path, sheet=sheet, is_workbook=is_workbook) as stream,
    ):
        yield stream


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a batch with the columns of a schema: those that its path names, a file's own, and NULL."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names and field.name not in values
        else pa.repeat(pa.scalar(values.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_text(fragment: Any, size: int, text: TextFile, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
    # A scanner does not say how far it is; a reader of text is ahead of its batches by some 30 MB at most.
    values = ds.get_partition_keys(fragment.partition_expression)
    own = pa.schema([field for field in schema if field.name not in values])
    path, sheet = fragment.path, text.options.sheet if isinstance(text, CsvFile) else None
    is_workbook = isinstance(text, CsvFile) and text.is_workbook
    with (
        fragment.filesystem.open_input_file(path) as file,
        decompress(file, path, sheet=sheet, is_workbook=is_workbook) as stream,
    ):
        for batch in text.batches(stream, own):
            yield conform_batch(batch, schema, values), _position(file, size)


def _position(file: Any, size: int) -> int:
    try:
        return int(file.tell())
    except ValueError:
        # The reader of JSON closes a file at its end.
        return size


def _read_parquet(fragment: Any, size: int, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
    # A scanner holds whole row groups, which may be of any size.
    values = ds.get_partition_keys(fragment.partition_expression)
    with fragment.open() as opened_file:
        file = pq.ParquetFile(opened_file, buffer_size=_FILE_BUFFER, pre_buffer=False)
        rows, total = 0, file.metadata.num_rows
        names = [name for name in file.schema_arrow.names if name in schema.names and name not in values]
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            rows += batch.num_rows
            yield conform_batch(batch, schema, values), size * rows // total


def _scan(fragment: Any, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
    plain = pa.schema([field.with_type(storage_of(field.type)) for field in schema])
    scanner = fragment.scanner(
        schema=plain, batch_size=BATCH_ROWS, batch_readahead=_READ_AHEAD, fragment_readahead=1, cache_metadata=False
    )
    for batch in scanner.to_batches():
        yield conform_batch(batch, schema, {}), 0
