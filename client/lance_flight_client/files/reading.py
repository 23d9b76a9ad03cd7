"""Files as batches of rows: where they lie, and reading one of them with its progress."""

from __future__ import annotations

import glob
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lance_flight.errors import InvalidInput, NotFound
from lance_flight.model.arrow_types import storage_of
from pyarrow import fs

from lance_flight_client.files.formats import FORMATS, Format, Pipe, TextOptions, format_of

_WILD = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files of one argument, all of one format; names of directories below `base` may be columns (`day=3`)."""

    argument: str
    filesystem: fs.FileSystem = field(repr=False)
    base: str
    paths: Sequence[str]
    sizes: Sequence[int]
    format: str


def found(argument: str, format: str | None) -> Found:
    """Find the files of an argument; `format` is theirs, or None for what their names say.

    `NotFound` if there are none, `InvalidInput` if their format cannot be told.
    """
    try:
        filesystem, path = fs.FileSystem.from_uri(_address(argument))
        base, infos = _listed(filesystem, path)
    except (OSError, pa.ArrowException) as exc:
        raise NotFound(f"{argument!r} cannot be read: {exc}") from exc
    files = sorted((info.path, info.size or 0) for info in infos if info.is_file and not _is_hidden(info.path, base))
    known = [(path, size, format or format_of(path)) for path, size in files]
    chosen = [each for each in known if each[2] is not None]
    if not chosen:
        what = f"{len(files)} files, none of a known format" if files else "no files"
        raise NotFound(f"{argument!r} has {what}; expected {', '.join(FORMATS)} by their ends, or --format")
    formats = sorted({str(kind) for _, _, kind in chosen})
    if len(formats) > 1:
        raise InvalidInput(f"{argument!r} has files of several formats, {' and '.join(formats)}; name them by a glob")
    return Found(
        argument=argument,
        filesystem=filesystem,
        base=base,
        paths=[path for path, _, _ in chosen],
        sizes=[size for _, size, _ in chosen],
        format=formats[0],
    )


def _address(argument: str) -> str:
    return argument if "://" in argument else str(Path(argument).expanduser().absolute())


def _listed(filesystem: fs.FileSystem, path: str) -> tuple[str, list[fs.FileInfo]]:
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


class Recorded(io.RawIOBase):
    """A pipe that remembers what was read of it, until it is stopped."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__()
        self._pipe = pipe
        self._kept = bytearray()
        self._is_stopped = False
        self._reading = Lock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # Arrow reads ahead on a thread of its own, which may go on when nobody asks for more.
        with self._reading:
            data = b"" if self._is_stopped else self._pipe.read(len(buffer)) or b""
            self._kept += data
        buffer[: len(data)] = data
        return len(data)

    def stop(self) -> bytes:
        """Read no more, and return what was read."""
        with self._reading:
            self._is_stopped = True
            return bytes(self._kept)


class Replayed(io.RawIOBase):
    """The bytes that were read of a pipe, and then the rest of it."""

    def __init__(self, begun: bytes, pipe: IO[bytes]) -> None:
        super().__init__()
        self._begun = io.BytesIO(begun)
        self._pipe = pipe

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._begun.read(len(buffer)) or self._pipe.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)
