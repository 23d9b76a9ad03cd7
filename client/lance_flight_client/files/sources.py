"""Rows of files as one stream of batches of one schema: where the files lie, how far each is read, and formats by name."""

from __future__ import annotations

import glob
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Protocol, TypeAlias
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lance_flight.errors import DataError, InvalidInput, NotFound
from lance_flight.model.arrow_types import storage_of
from lance_flight.model.schema import MARKED, is_blob
from pyarrow import fs

from lance_flight_client.files.lakehouse import LakehouseTable
from lance_flight_client.files.names import ENDINGS, PIPE, format_of
from lance_flight_client.files.sniffing import HEAD, Replayed, TextOptions, archive_members, decompress
from lance_flight_client.files.text_files import CsvFile, JsonFile, RejectedRow, Reopen, TextFile
from lance_flight_client.terminal import Meter

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


NO_TYPES = pa.schema([])

Seen = Callable[[int, int], None]
"""Function that is told the bytes of files and the number of rows that are read."""


def _nobody(read: int, rows: int) -> None:
    del read, rows


class RowSource(Protocol):
    """Rows that can be read once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, as they are stored or guessed."""
        ...

    @property
    def guesses(self) -> bool:
        """True if the types are guesses from the first rows."""
        ...

    @property
    def size(self) -> int | None:
        """The bytes of all files; None where that is not known."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Sentences about what was not sure of the form of text files."""
        ...

    @property
    def rejected(self) -> Sequence[RejectedRow]:
        """The rows that were left out, once all are read."""
        ...

    def sample(self) -> pa.Table | None:
        """Return the first rows, if they can be read again afterwards."""
        ...

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        """Read the rows with these types; `DataError` for a value that has none of them."""
        ...


def open_files(
    arguments: Sequence[str],
    format: str | None,
    text: TextOptions,
    pipe: IO[bytes],
    *,
    types: pa.Schema = NO_TYPES,
    known: pa.Schema = NO_TYPES,
) -> RowSource:
    """Open files, or the pipe for `-`.

    Columns have their `types`, whatever their values look like; those whose type would be guessed have it from `known`, if that has them.
    """
    tables = [table for table in map(LakehouseTable.named, arguments) if table is not None]
    if tables:
        if len(arguments) > 1 or format is not None:
            raise InvalidInput(f"{tables[0].argument!r} stands for a whole table; expected it alone, without --format")
        return _typed_stream(tables[0].argument, tables[0].open(), types)
    if PIPE not in arguments:
        files = [find_files(argument, format) for argument in arguments]
        stream = _arrow_stream(files)
        return (
            FileSource.of(files, text, types, known) if stream is None else _typed_stream(arguments[0], stream, types)
        )
    if len(arguments) > 1:
        raise InvalidInput(f"{PIPE!r} (a pipe) was given beside files; expected one of them")
    kind = None if format is None else FORMATS[format]
    if kind is None or (kind.pipe is None and not kind.is_text):
        pipes = [name for name, form in FORMATS.items() if form.pipe is not None or form.is_text]
        what = "a pipe says no format" if format is None else f"a pipe of format {format!r} cannot be read"
        raise InvalidInput(f"{what}; expected --format {' or '.join(pipes)}")
    with _naming_file("the pipe"):
        if kind.pipe is not None:
            reader = kind.pipe(pipe)
            return ReaderSource("the pipe", reader, _apply_types(reader.schema, types, None))
        return TextPipe.of(format or "", pipe, text, types, known)


def _text_file(
    format: str,
    name: str,
    stream: Any,
    text: TextOptions,
    *,
    types: pa.Schema,
    reopen: Reopen | None,
    like: TextFile | None = None,
) -> tuple[TextFile, bytes]:
    """Look at the beginning of a text, which is returned with its form."""
    head = bytearray()
    while len(head) < HEAD and (data := stream.read(HEAD - len(head))):
        head += data
    begun, is_whole = bytes(head), len(head) < HEAD
    if format != "json":
        is_workbook = format == "excel"
        file = CsvFile.of(name, begun, text, reopen, is_whole=is_whole, types=types, like=like, is_workbook=is_workbook)
        return file, begun
    return JsonFile.of(name, begun, text, reopen, is_whole=is_whole, types=types), begun


def _arrow_stream(files: Sequence[Found]) -> Any:
    """Return a reader of a single file that holds Arrow's stream format, as `sql --format arrow` writes; None for others."""
    if len(files) > 1 or len(files[0].paths) > 1 or files[0].format != "arrow":
        return None
    with files[0].filesystem.open_input_stream(files[0].paths[0]) as opened_file:
        is_stream = opened_file.read(len(ARROW_MAGIC)) != ARROW_MAGIC
    if not is_stream:
        return None
    with _naming_file(files[0].argument):
        return pa.ipc.open_stream(files[0].filesystem.open_input_stream(files[0].paths[0]))


def _typed_stream(name: str, reader: Any, types: pa.Schema) -> ReaderSource:
    return ReaderSource(name, reader, _apply_types(reader.schema.remove_metadata(), types, None))


@dataclass(frozen=True, slots=True)
class ReaderSource:
    """Rows of a pipe, or of a table in another format (`RowSource`)."""

    name: str
    reader: Any
    schema: pa.Schema
    guesses: bool = False
    size: int | None = None
    notes: Sequence[str] = ()
    rejected: Sequence[RejectedRow] = ()

    def sample(self) -> pa.Table | None:
        return None

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        with _naming_file(self.name):
            for batch in self.reader:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                seen(size, rows)
                yield conform_batch(batch, schema, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPipe:
    """Rows of a text in a pipe (`RowSource`)."""

    text: TextFile
    begun: bytes = field(repr=False)
    stream: Any = field(repr=False)
    schema: pa.Schema
    guesses: bool = True
    size: int | None = None

    @classmethod
    def of(cls, format: str, pipe: IO[bytes], text: TextOptions, types: pa.Schema, known: pa.Schema) -> TextPipe:
        """Look at the beginning of a pipe, which is read again then."""
        stream = ExitStack().enter_context(
            decompress(pipe, "the pipe", sheet=text.sheet, is_workbook=format == "excel")
        )
        told = pa.schema([*types, *(column for column in known if column.name not in types.names)])
        file, begun = _text_file(format, "the pipe", stream, text, types=told, reopen=None)
        return cls(text=file, begun=begun, stream=stream, schema=_apply_types(file.schema, types, known))

    @property
    def notes(self) -> Sequence[str]:
        return self.text.notes

    @property
    def rejected(self) -> Sequence[RejectedRow]:
        return self.text.rejected

    def sample(self) -> pa.Table | None:
        return None

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        replayed = pa.PythonFile(io.BufferedReader(Replayed(self.begun, self.stream)), "r")
        for batch in self.text.batches(replayed, schema):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            seen(size, rows)
            yield conform_batch(batch, schema, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Argument:
    """Files of one argument, and the forms of those that are text, by their paths."""

    files: Found
    texts: Mapping[str, TextFile]
    factory: ds.FileSystemDatasetFactory

    @classmethod
    def of(cls, files: Found, text: TextOptions, types: pa.Schema) -> _Argument:
        options = ds.FileSystemFactoryOptions(
            partition_base_dir=files.base, partitioning=ds.HivePartitioning.discover(), exclude_invalid_files=False
        )
        kind, texts = FORMATS[files.format], dict[str, TextFile]()
        like: TextFile | None = None
        for path in files.paths if kind.is_text else ():
            reopen = partial(opened_text, files.filesystem, path, sheet=text.sheet, is_workbook=files.format == "excel")
            with _naming_file(path), reopen() as stream:
                found = _text_file(files.format, path, stream, text, types=types, reopen=reopen, like=like)
            like = texts[path] = found[0]
        return cls(
            files=files,
            texts=texts,
            factory=ds.FileSystemDatasetFactory(files.filesystem, list(files.paths), kind.read(), options),
        )

    def inspect(self) -> pa.Schema:
        """Read of each file what says its columns; those of directories are last."""
        with _naming_file(self.files.argument):
            if not self.texts:
                return self.factory.inspect(promote_options="permissive", fragments=None)
            below = self.factory.inspect(fragments=0)
        own = _unified_texts([file.schema for file in self.texts.values()])
        return pa.schema([*(column for column in own if column.name not in below.names), *below])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Rows of files, one file after another (`RowSource`)."""

    arguments: Sequence[_Argument] = field(repr=False)
    sizes: Mapping[str, int] = field(repr=False)
    schema: pa.Schema
    guesses: bool

    @classmethod
    def of(cls, arguments: Sequence[Found], text: TextOptions, types: pa.Schema, known: pa.Schema) -> FileSource:
        """Open files, and read of each what says its columns."""
        told = pa.schema([*types, *(column for column in known if column.name not in types.names)])
        opened_arguments = [_Argument.of(argument, text, told) for argument in arguments]
        schema = _unify_schemas([argument.inspect() for argument in opened_arguments])
        guesses = any(FORMATS[argument.format].is_text for argument in arguments)
        padded = padded_names(path for argument in arguments for path in argument.paths) if guesses else set[str]()
        schema = pa.schema([field.with_type(pa.utf8()) if field.name in padded else field for field in schema])
        return cls(
            arguments=opened_arguments,
            sizes={
                path: size for argument in arguments for path, size in zip(argument.paths, argument.sizes, strict=True)
            },
            schema=_apply_types(schema, types, known if guesses else None),
            guesses=guesses,
        )

    @property
    def _texts(self) -> Sequence[TextFile]:
        return [text for argument in self.arguments for text in argument.texts.values()]

    @property
    def size(self) -> int | None:
        return sum(self.sizes.values())

    @property
    def notes(self) -> Sequence[str]:
        files_of = dict[str, list[str]]()
        for text in self._texts:
            for note in text.notes:
                files_of.setdefault(note, []).append(text.name)
        return [
            f"{names[0]}{f' and {len(names) - 1:,} more' if names[1:] else ''}: {note}"
            for note, names in files_of.items()
        ]

    @property
    def rejected(self) -> Sequence[RejectedRow]:
        return [row for text in self._texts for row in text.rejected]

    def sample(self) -> pa.Table | None:
        first = next(self.batches(self.schema), None)
        for text in self._texts:
            text.forget()
        return None if first is None else pa.Table.from_batches([first.slice(0, _SAMPLE)])

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = done = 0
        for argument in self.arguments:
            for fragment in argument.factory.finish(schema).get_fragments():
                size, text = self.sizes[fragment.path], argument.texts.get(fragment.path)
                with _naming_file(fragment.path):
                    for batch, read in read_file(fragment, size, text, schema):
                        rows += batch.num_rows
                        seen(done + min(read, size), rows)
                        yield batch
                done += size
                seen(done, rows)


_SAMPLE = 3
"""Rows that are shown beside the types."""


def _unify_schemas(schemas: Sequence[pa.Schema]) -> pa.Schema:
    try:
        return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except pa.ArrowException as exc:
        raise DataError(f"the files have columns of one name whose types have nothing in common: {exc}") from exc


def _unified_texts(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of all text files: where their guesses have nothing in common, a column is text."""
    kinds = dict[str, pa.DataType]()
    for column in (column for schema in schemas for column in schema):
        kinds[column.name] = _common(kinds.get(column.name, pa.null()), column.type)
    return pa.schema(list(kinds.items()))


def _common(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    try:
        pair = [pa.schema([("x", kind)]) for kind in (one, two)]
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except pa.ArrowException:
        if pa.types.is_nested(one) or pa.types.is_nested(two):
            raise
        moments = {one, two} <= {pa.date32(), pa.timestamp("us"), pa.timestamp("ns")}
        return pa.timestamp("us") if moments else pa.utf8()


def _apply_types(schema: pa.Schema, types: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """Return the schema with the types that were said; guesses (`known` is not None) become known types, or those of SQL.

    Of the metadata of columns the mark of blobs is kept.
    """
    for name in types.names:
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
    said = {field.name: field for field in (*(known or ()), *types)}
    guessed = _GUESSED if known is not None else {}
    found = [said.get(field.name, field.with_type(guessed.get(field.type, field.type))) for field in schema]
    return pa.schema([pa.field(each.name, each.type, metadata=MARKED if is_blob(each) else None) for each in found])


_GUESSED: Mapping[pa.DataType, pa.DataType] = MappingProxyType(
    {
        pa.null(): pa.utf8(),
        pa.timestamp("s"): pa.timestamp("us"),
        pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC"),
    }
)
"""Types that a guess becomes: a column without a value is text, and moments of whole seconds have the precision of TIMESTAMP."""


@contextmanager
def _naming_file(what: str) -> Iterator[None]:
    """Name the file in an error of Arrow's, or of what it is compressed by."""
    try:
        yield
    except (pa.ArrowException, BadZipFile) as exc:
        raise DataError(f"{what}: {exc}") from exc
    except OSError as exc:
        if exc.errno is not None:
            raise
        raise DataError(f"{what}: cannot be read: {exc}") from exc


_LEADING_ZERO = re.compile(r"(?:^|/)([^/=]+)=[+-]?0[0-9]")


def padded_names(paths: Iterable[str]) -> set[str]:
    """Return the columns that directories are named by, of which one has a number with leading zeros.

    >>> padded_names(["in/zip=00012/day=3/a.csv"])
    {'zip'}
    """
    return {name for path in paths for name in _LEADING_ZERO.findall(path)}


ARROW_MAGIC = b"ARROW1\0\0"
"""First bytes of a file of Arrow's; a stream has none."""

Pipe: TypeAlias = Callable[[IO[bytes]], Any]
"""Function that opens a pipe as a record batch reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of files, and what reads them; the form and the types of a text are guessed."""

    read: Callable[[], ds.FileFormat]
    pipe: Pipe | None = None
    is_text: bool = False


def _arrow_pipe(pipe: IO[bytes]) -> Any:
    """Open a stream, or the stream that a file has behind its first bytes."""
    raw: Any = pipe
    buffered = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
    if buffered.peek(len(ARROW_MAGIC))[: len(ARROW_MAGIC)] == ARROW_MAGIC:
        buffered.read(len(ARROW_MAGIC))
    return pa.ipc.open_stream(buffered)


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "parquet": Format(read=ds.ParquetFileFormat),
        "csv": Format(read=ds.CsvFileFormat, is_text=True),
        "json": Format(read=ds.JsonFileFormat, is_text=True),
        "arrow": Format(read=ds.IpcFileFormat, pipe=_arrow_pipe),
        "orc": Format(read=ds.OrcFileFormat),
        "excel": Format(read=ds.CsvFileFormat, is_text=True),
    }
)
"""Formats by their names; JSON is one object after another or an array, Arrow the file format (in a pipe the stream format)."""


@dataclass(slots=True)
class FileStream:
    """Rows of files, with the types of a schema, that something else passes on; a meter shows how many."""

    source: RowSource
    schema: pa.Schema
    doing: str
    _failures: list[DataError | OSError] = field(default_factory=list)

    @contextmanager
    def reader(self, hint: str) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows; an error of reading them is raised in place of one that names only who passed them on.

        `hint` says what helps where types were guessed.
        """
        meter = Meter(self.doing, self.source.size)
        try:
            yield pa.RecordBatchReader.from_batches(self.schema, self._rows(meter))
        except Exception:
            if self._failures:
                raise self._explain(hint) from None
            raise
        finally:
            meter.close()

    def _rows(self, meter: Meter) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.source.batches(self.schema, meter)
        except (DataError, OSError) as exc:
            self._failures.append(exc)
            raise

    def _explain(self, hint: str) -> DataError | InvalidInput:
        failure = self._failures[0]
        if isinstance(failure, OSError):
            return InvalidInput(f"the files cannot be read: {failure}; nothing was loaded")
        return DataError(f"{failure}{f'; {hint}' if self.source.guesses else ''}; nothing was loaded")
