"""Rows of files as one stream of batches of one schema, with how far it is read."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
from lance_flight.errors import DataError, InvalidInput, NotFound
from lance_flight.model.schema import MARKED, is_blob

from lance_flight_client.files.formats import ARROW_MAGIC, FORMATS, TextOptions, corrected, padded_names
from lance_flight_client.files.lakehouse import LakehouseTable
from lance_flight_client.files.reading import Found, Recorded, Replayed, conformed, first_rows, found, read_file

PIPE = "-"
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

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        """Read the rows with these types; `DataError` for a value that has none of them."""
        ...


def opened(
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
        files = [found(argument, format) for argument in arguments]
        stream = _arrow_stream(files)
        return (
            FileSource.of(files, text, types, known) if stream is None else _typed_stream(arguments[0], stream, types)
        )
    if len(arguments) > 1:
        raise InvalidInput(f"{PIPE!r} (a pipe) was given beside files; expected one of them")
    kind = None if format is None else FORMATS[format]
    if kind is None or kind.pipe is None:
        pipes = [name for name, each in FORMATS.items() if each.pipe is not None]
        what = "a pipe says no format" if format is None else f"a pipe of format {format!r} cannot be read"
        raise InvalidInput(f"{what}; expected --format {' or '.join(pipes)}")
    with _named("the pipe"):
        if not kind.guesses:
            reader = kind.pipe(pipe, text, None)
            return ReaderSource("the pipe", reader, _typed(reader.schema, types, None), guesses=False)
        return _guessed_pipe(format or "", pipe, text, types, known)


def _guessed_pipe(format: str, pipe: IO[bytes], text: TextOptions, types: pa.Schema, known: pa.Schema) -> RowSource:
    """Open a pipe whose types are guessed from its beginning, which is read again then."""
    recorded, open_pipe = Recorded(pipe), FORMATS[format].opener
    told = pa.schema([*types, *(field for field in known if field.name not in types.names)])
    schema = open_pipe(recorded, text, told if len(told) else None).schema
    begun = recorded.stop()

    def first(numbers: Sequence[str], moments: Sequence[str]) -> Iterator[pa.RecordBatch]:
        types = _texts(format, numbers, moments)
        return islice(open_pipe(io.BytesIO(begun), text, types), 1 if types else 0)

    guessed = [name for name in schema.names if name not in told.names]
    typed = _typed(corrected(schema, guessed, first), types, known)
    numbers = frozenset(name for name in guessed if pa.types.is_integer(typed.field(name).type))
    reader = open_pipe(Replayed(begun, pipe), replace(text, numbers=numbers), typed)
    return ReaderSource("the pipe", reader, typed, guesses=True)


def _arrow_stream(files: Sequence[Found]) -> Any:
    """Return a reader of a single file that holds Arrow's stream format, as `sql --format arrow` writes; None for others."""
    if len(files) > 1 or len(files[0].paths) > 1 or files[0].format != "arrow":
        return None
    with files[0].filesystem.open_input_stream(files[0].paths[0]) as opened_file:
        is_stream = opened_file.read(len(ARROW_MAGIC)) != ARROW_MAGIC
    if not is_stream:
        return None
    with _named(files[0].argument):
        return pa.ipc.open_stream(files[0].filesystem.open_input_stream(files[0].paths[0]))


def _typed_stream(name: str, reader: Any, types: pa.Schema) -> ReaderSource:
    return ReaderSource(name, reader, _typed(reader.schema.remove_metadata(), types, None), guesses=False)


@dataclass(frozen=True, slots=True)
class ReaderSource:
    """Rows of a pipe, or of a table in another format (`RowSource`)."""

    name: str
    reader: Any
    schema: pa.Schema
    guesses: bool
    size: int | None = None

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        with _named(self.name):
            for batch in self.reader:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                seen(size, rows)
                yield conformed(batch, schema, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Argument:
    """Files of one argument, and how they are read."""

    files: Found
    text: TextOptions
    factory: ds.FileSystemDatasetFactory

    @classmethod
    def of(cls, files: Found, text: TextOptions) -> _Argument:
        options = ds.FileSystemFactoryOptions(
            partition_base_dir=files.base, partitioning=ds.HivePartitioning.discover(), exclude_invalid_files=False
        )
        is_tabbed = text.delimiter == "," and all(".tsv" in path for path in files.paths)
        text = replace(text, delimiter="\t") if is_tabbed else text
        kind = FORMATS[files.format].read(text)
        return cls(
            files=files,
            text=text,
            factory=ds.FileSystemDatasetFactory(files.filesystem, list(files.paths), kind, options),
        )

    def inspect(self) -> pa.Schema:
        """Read of each file what says its columns."""
        with _named(self.files.argument):
            return self.factory.inspect(promote_options="permissive", fragments=None)


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
        opened_arguments = [_Argument.of(each, text) for each in arguments]
        schema = _unified([each.inspect() for each in opened_arguments])
        guesses = any(FORMATS[each.format].guesses for each in arguments)
        guessed = [name for name in schema.names if name not in {*types.names, *known.names}] if guesses else []
        schema = corrected(schema, guessed, partial(_first_rows, opened_arguments))
        padded = padded_names(path for each in arguments for path in each.paths).intersection(guessed)
        schema = pa.schema([each.with_type(pa.utf8()) if each.name in padded else each for each in schema])
        schema = _typed(schema, types, known if guesses else None)
        numbers = frozenset(name for name in guessed if pa.types.is_integer(schema.field(name).type))
        return cls(
            arguments=[replace(each, text=replace(each.text, numbers=numbers)) for each in opened_arguments],
            sizes={path: size for each in arguments for path, size in zip(each.paths, each.sizes, strict=True)},
            schema=schema,
            guesses=guesses,
        )

    @property
    def size(self) -> int | None:
        return sum(self.sizes.values())

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = done = 0
        for each in self.arguments:
            for fragment in each.factory.finish(schema).get_fragments():
                size = self.sizes[fragment.path]
                with _named(fragment.path):
                    for batch, read in read_file(fragment, size, FORMATS[each.files.format], each.text, schema):
                        rows += batch.num_rows
                        seen(done + min(read, size), rows)
                        yield batch
                done += size
                seen(done, rows)


def _first_rows(
    arguments: Sequence[_Argument], numbers: Sequence[str], moments: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of each file whose types are guessed, with some columns as text."""
    for each in arguments:
        types = _texts(each.files.format, numbers, moments)
        for path in each.files.paths if types else ():
            read = partial(FORMATS[each.files.format].opener, options=each.text, types=types)
            with _named(path):
                yield from first_rows(each.files.filesystem, path, read)


def _texts(format: str, numbers: Sequence[str], moments: Sequence[str]) -> pa.Schema:
    """Return the columns of a format whose guesses are to be looked at, as text."""
    return pa.schema([(name, pa.utf8()) for name in {"csv": numbers, "json": moments}.get(format, ())])


def _unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    try:
        return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except pa.ArrowException as exc:
        raise DataError(f"the files have columns of one name whose types have nothing in common: {exc}") from exc


def _typed(schema: pa.Schema, types: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """Return the schema with the types that were said; guesses (`known` is not None) become known types, or those of SQL.

    Of the metadata of columns the mark of blobs is kept.
    """
    for name in types.names:
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
    said = {field.name: field for field in (*(known or ()), *types)}
    guessed = _GUESSED if known is not None else {}
    found = [said.get(each.name, each.with_type(guessed.get(each.type, each.type))) for each in schema]
    return pa.schema([pa.field(each.name, each.type, metadata=MARKED if is_blob(each) else None) for each in found])


_GUESSED: Mapping[pa.DataType, pa.DataType] = MappingProxyType(
    {
        pa.null(): pa.utf8(),
        pa.timestamp("s"): pa.timestamp("us"),
        pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC"),
        pa.timestamp("ns"): pa.timestamp("us"),
        pa.timestamp("ns", "UTC"): pa.timestamp("us", "UTC"),
    }
)
"""Types that a guess becomes: a column without a value is text, and moments have the precision of TIMESTAMP."""


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Name the file in an error of Arrow's."""
    try:
        yield
    except pa.ArrowException as exc:
        raise DataError(f"{what}: {exc}") from exc
