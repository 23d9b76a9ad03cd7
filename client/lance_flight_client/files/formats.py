"""Formats of files, by name: how Arrow reads them, from files and from a pipe, and where its guesses of types would lose text.

Arrow takes `00012` for the number 12, text in another encoding than UTF-8 for bytes, and JSON's `…Z` for a moment without a zone.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.json as pajson
from lance_flight.errors import DataError
from lance_flight.model.arrow_types import storage_of

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
