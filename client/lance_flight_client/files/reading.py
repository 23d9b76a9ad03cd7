"""Files as batches of rows: where they lie, their formats, the types of their columns, and reading one with its progress.

Arrow takes `00012` for the number 12, text in another encoding than UTF-8 for bytes, and JSON's `…Z` for a moment without a zone.
"""

from __future__ import annotations

import glob
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.json as pajson
import pyarrow.parquet as pq
from lance_flight.errors import DataError, InvalidInput, NotFound
from lance_flight.model.arrow_types import storage_of
from pyarrow import fs

First = Callable[[Sequence[str], Sequence[str]], Iterable[pa.RecordBatch]]
"""Function that returns the first rows of each file: of CSV with some columns as text, of JSON with others."""

_PADDED = r"^\s*[+-]?0[0-9]"
_ZONED = r"[0-9](?:[Zz]|[+-][0-9]{2}:?[0-9]{2})\s*$"
_UTC = pa.timestamp("us", "UTC")
_LEADING_ZERO = re.compile(r"(?:^|/)([^/=]+)=[+-]?0[0-9]")


def corrected(schema: pa.Schema, guessed: Sequence[str], first: First) -> pa.Schema:
    """Return the schema of files with types for the `guessed` columns that keep what the first rows have.

    Numbers with leading zeros become text, and moments with a zone ones of UTC. `DataError` names a column whose text is not UTF-8.
    """
    kinds = {field.name: field.type for field in schema if field.name in guessed}
    for name, kind in kinds.items():
        if pa.types.is_binary(kind):
            raise DataError(
                f"column {name!r} is no UTF-8 text; say what it is: --encoding latin-1 (or another),"
                f' or --types "{name} VARBINARY" for bytes'
            )
    numbers = [name for name, kind in kinds.items() if pa.types.is_integer(kind)]
    moments = [name for name, kind in kinds.items() if pa.types.is_timestamp(kind) and kind.tz is None]
    better: dict[str, pa.DataType] = {}
    for batch in first(numbers, moments) if numbers or moments else ():
        texts = {name: batch[name] for name in batch.schema.names if pa.types.is_string(batch.schema.field(name).type)}
        better |= {name: pa.utf8() for name in numbers if name in texts and _matches(texts[name], _PADDED)}
        better |= {name: _UTC for name in moments if name in texts and _matches(texts[name], _ZONED)}
    return pa.schema([field.with_type(better.get(field.name, field.type)) for field in schema])


def padded_names(paths: Iterable[str]) -> set[str]:
    """Return the columns that directories are named by, of which one has a number with leading zeros.

    >>> padded_names(["in/zip=00012/day=3/a.csv"])
    {'zip'}
    """
    return {name for path in paths for name in _LEADING_ZERO.findall(path)}


def as_numbers(
    batches: Iterable[pa.RecordBatch], types: pa.Schema, numbers: Iterable[str], nulls: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows with some `types`, whose columns of `numbers` were read as text; `ArrowInvalid` for a number with leading zeros."""
    rows = 0
    for batch in batches:
        columns = list(batch.columns)
        for place, column in enumerate(types):
            if column.name in numbers:
                try:
                    columns[place] = _as_number(columns[place], column.type, nulls, rows)
                except pa.ArrowInvalid as exc:
                    raise pa.ArrowInvalid(f"In CSV column #{place} ({column.name}): {exc}") from exc
        rows += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, schema=types)


def _as_number(column: pa.Array, kind: pa.DataType, nulls: Sequence[str], rows: int) -> pa.Array:
    known = pc.if_else(pc.is_in(column, pa.array(nulls, pa.utf8())), pa.scalar(None, pa.utf8()), column)
    padded = pc.index(pc.match_substring_regex(known, _PADDED), True).as_py()
    if padded >= 0:
        raise pa.ArrowInvalid(f"Row #{rows + padded + 2}: {known[padded].as_py()!r} would lose its zeros as a number")
    trimmed = pc.utf8_trim_whitespace(known)
    wrong = pc.index(pc.match_substring_regex(trimmed, r"^-?[0-9]+$"), False).as_py()
    if wrong >= 0:
        raise pa.ArrowInvalid(
            f"Row #{rows + wrong + 2}: CSV conversion error to {kind}: invalid value {known[wrong].as_py()!r}"
        )
    return trimmed.cast(kind)


def _matches(column: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


ARROW_MAGIC = b"ARROW1\0\0"
"""First bytes of a file of Arrow's; a stream has none."""
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Options of formats that are text: what separates columns, whether the first line names them, what NULL is, and the encoding.

    Columns of `numbers` are guessed to be, and refused where they have leading zeros.
    """

    delimiter: str = ","
    header: bool = True
    nulls: tuple[str, ...] = ()
    encoding: str = "utf-8"
    numbers: frozenset[str] = frozenset()

    @property
    def parsing(self) -> pacsv.ParseOptions:
        """The options of Arrow's parser."""
        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)

    @property
    def reading(self) -> pacsv.ReadOptions:
        """The options of Arrow's reader."""
        return pacsv.ReadOptions(autogenerate_column_names=not self.header, encoding=self.encoding)

    def converting(self, types: pa.Schema | None = None) -> pacsv.ConvertOptions:
        """Return the options of Arrow's converter; what stands for NULL does so in columns of text, too."""
        options = pacsv.ConvertOptions(column_types=types)
        if self.nulls:
            options.null_values, options.strings_can_be_null = list(self.nulls), True
        return options


Pipe: TypeAlias = Callable[..., Any]
"""Function that opens a pipe as a record batch reader, with the types of columns where they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of files: the ends of their names, and whether types are guessed from the first rows."""

    endings: tuple[str, ...]
    read: Callable[[TextOptions], ds.FileFormat]
    pipe: Pipe | None = None
    guesses: bool = False

    @property
    def opener(self) -> Pipe:
        """Return the function that opens a pipe of a format that can be read from one."""
        if self.pipe is None:
            raise ValueError("the format cannot be read from a pipe")
        return self.pipe


def _csv(options: TextOptions) -> ds.FileFormat:
    return ds.CsvFileFormat(
        parse_options=options.parsing,
        default_fragment_scan_options=ds.CsvFragmentScanOptions(options.converting(), options.reading),
    )


def _told(types: pa.Schema | None) -> pa.Schema | None:
    """Return the types that Arrow's readers of text know: documents are text to them."""
    return None if types is None else pa.schema([each.with_type(storage_of(each.type)) for each in types])


def _csv_pipe(pipe: IO[bytes], options: TextOptions, types: pa.Schema | None) -> Any:
    told = _told(types)
    if told is None or not options.numbers:
        return pacsv.open_csv(pipe, options.reading, options.parsing, options.converting(told))
    as_text = pa.schema([each.with_type(pa.utf8()) if each.name in options.numbers else each for each in told])
    converting = options.converting(as_text)
    reader = pacsv.open_csv(pipe, options.reading, options.parsing, converting)
    schema = pa.schema([told.field(each.name) if each.name in options.numbers else each for each in reader.schema])
    return pa.RecordBatchReader.from_batches(
        schema, as_numbers(reader, schema, options.numbers, converting.null_values)
    )


def _json_pipe(pipe: IO[bytes], options: TextOptions, types: pa.Schema | None) -> Any:
    del options
    reader = pajson.open_json(pipe, parse_options=pajson.ParseOptions(explicit_schema=_told(types)))
    return pa.RecordBatchReader.from_batches(reader.schema, _validated(reader))


def _validated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows whose texts are UTF-8: Arrow's reader of JSON takes any bytes for text."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _arrow_pipe(pipe: IO[bytes], *_: Any) -> Any:
    """Open a stream, or the stream that a file has behind its first bytes."""
    raw: Any = pipe
    buffered = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
    if buffered.peek(len(ARROW_MAGIC))[: len(ARROW_MAGIC)] == ARROW_MAGIC:
        buffered.read(len(ARROW_MAGIC))
    return pa.ipc.open_stream(buffered)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "parquet": Format(endings=(".parquet", ".pq"), read=lambda _: ds.ParquetFileFormat()),
        "csv": Format(endings=(".csv", ".tsv"), read=_csv, pipe=_csv_pipe, guesses=True),
        "json": Format(
            endings=(".jsonl", ".ndjson", ".json"), read=lambda _: ds.JsonFileFormat(), pipe=_json_pipe, guesses=True
        ),
        "arrow": Format(
            endings=(".arrow", ".feather", ".ipc"),
            read=lambda _: ds.IpcFileFormat(),
            pipe=_arrow_pipe,
        ),
        "orc": Format(endings=(".orc",), read=lambda _: ds.OrcFileFormat()),
    }
)
"""Formats by their names; JSON is one object in each line, Arrow the file format (in a pipe the stream format)."""


def format_of(path: str) -> str | None:
    """Return the format that the end of a name says; None for another end.

    >>> format_of("day=1/flights.csv.gz"), format_of("_SUCCESS")
    ('csv', None)
    """
    name = path.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return next((known for known, each in FORMATS.items() if name.endswith(each.endings)), None)


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
