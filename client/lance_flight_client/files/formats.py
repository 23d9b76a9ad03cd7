"""Formats of files, by name: how Arrow reads them, from files and from a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.json as pajson
from lance_flight.model.arrow_types import storage_of

from lance_flight_client.files.guesses import as_numbers

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
