"""Rows of files as one stream of batches of one schema, with how far it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lance_flight.errors import DataError, InvalidInput, NotFound

from lance_flight_client.files.formats import FORMATS, TextOptions
from lance_flight_client.files.locations import Found, found

PIPE = "-"
NO_TYPES = pa.schema([])
BATCH_ROWS = 64 * 1024
_FILE_BUFFER = 1 << 20
_READ_AHEAD = 2
"""Batches that are read before they are asked for: memory is bounded by them."""

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
    if PIPE not in arguments:
        return FileSource.of([found(argument, format) for argument in arguments], text, types, known)
    if len(arguments) > 1:
        raise InvalidInput(f"{PIPE!r} (a pipe) was given beside files; expected one of them")
    kind = None if format is None else FORMATS[format]
    if kind is None or kind.pipe is None:
        pipes = [name for name, each in FORMATS.items() if each.pipe is not None]
        raise InvalidInput(f"a pipe of format {format!r} cannot be read; expected --format {' or '.join(pipes)}")
    with _named("the pipe"):
        told = pa.schema([*types, *(field for field in known if field.name not in types.names)])
        reader = kind.pipe(pipe, text, told if len(told) else None)
    return PipeSource(reader, _typed(reader.schema, types, known if kind.guesses else None), kind.guesses)


@dataclass(frozen=True, slots=True)
class PipeSource:
    """Rows of a pipe (`RowSource`)."""

    reader: Any
    schema: pa.Schema
    guesses: bool
    size: int | None = None

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        with _named("the pipe"):
            for batch in self.reader:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                seen(size, rows)
                yield _conformed(batch, schema, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Rows of files, one file after another (`RowSource`); each of the factories is for those of one argument."""

    factories: Sequence[ds.FileSystemDatasetFactory] = field(repr=False)
    sizes: Mapping[str, int] = field(repr=False)
    schema: pa.Schema
    guesses: bool

    @classmethod
    def of(cls, arguments: Sequence[Found], text: TextOptions, types: pa.Schema, known: pa.Schema) -> FileSource:
        """Open files, and read of each what says its columns."""
        factories = [_factory(each, text) for each in arguments]
        schemas = []
        for each, factory in zip(arguments, factories, strict=True):
            with _named(each.argument):
                schemas.append(factory.inspect(promote_options="permissive", fragments=None))
        guesses = any(FORMATS[each.format].guesses for each in arguments)
        schema = _typed(_unified(schemas), types, known if guesses else None)
        return cls(
            factories=factories,
            sizes={path: size for each in arguments for path, size in zip(each.paths, each.sizes, strict=True)},
            schema=schema,
            guesses=guesses,
        )

    @property
    def size(self) -> int | None:
        return sum(self.sizes.values())

    def batches(self, schema: pa.Schema, seen: Seen = _nobody) -> Iterator[pa.RecordBatch]:
        rows = done = 0
        for factory in self.factories:
            for fragment in factory.finish(schema).get_fragments():
                size = self.sizes[fragment.path]
                with _named(fragment.path):
                    for batch, share in _read(fragment, schema):
                        rows += batch.num_rows
                        seen(done + int(size * share), rows)
                        yield batch
                done += size
                seen(done, rows)


def _factory(files: Found, text: TextOptions) -> ds.FileSystemDatasetFactory:
    options = ds.FileSystemFactoryOptions(
        partition_base_dir=files.base, partitioning=ds.HivePartitioning.discover(), exclude_invalid_files=False
    )
    delimited = TextOptions(delimiter="\t", header=text.header, nulls=text.nulls)
    is_tabbed = text.delimiter == "," and all(".tsv" in path for path in files.paths)
    kind = FORMATS[files.format].read(delimited if is_tabbed else text)
    return ds.FileSystemDatasetFactory(files.filesystem, list(files.paths), kind, options)


def _read(fragment: Any, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Read a file; with each batch goes the share of the file that is read, where it is known."""
    if isinstance(fragment, ds.ParquetFileFragment):
        yield from _read_parquet(fragment, schema)
        return
    scanner = fragment.scanner(
        schema=schema, batch_size=BATCH_ROWS, batch_readahead=_READ_AHEAD, fragment_readahead=1, cache_metadata=False
    )
    for batch in scanner.to_batches():
        yield batch, 0.0


def _read_parquet(fragment: Any, schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, float]]:
    # A scanner holds whole row groups, which may be of any size.
    values = ds.get_partition_keys(fragment.partition_expression)
    with fragment.open() as opened_file:
        file = pq.ParquetFile(opened_file, buffer_size=_FILE_BUFFER, pre_buffer=False)
        rows, total = 0, file.metadata.num_rows
        names = [name for name in file.schema_arrow.names if name in schema.names and name not in values]
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            rows += batch.num_rows
            yield _conformed(batch, schema, values), rows / total


def _conformed(batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a batch with the columns of a schema: a file's own, those that its path names, and NULL."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.repeat(pa.scalar(values.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    try:
        return pa.unify_schemas([schema.remove_metadata() for schema in schemas], promote_options="permissive")
    except pa.ArrowException as exc:
        raise DataError(f"the files have columns of one name whose types have nothing in common: {exc}") from exc


def _typed(schema: pa.Schema, types: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """Return the schema with the types that were said; guesses (`known` is not None) become known types, or those of SQL."""
    for name in types.names:
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
    said = {field.name: field.type for field in (*(known or ()), *types)}
    guessed = _GUESSED if known is not None else {}
    return pa.schema([pa.field(each.name, said.get(each.name, guessed.get(each.type, each.type))) for each in schema])


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
