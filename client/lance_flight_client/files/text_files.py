"""Text files as batches of typed rows: CSV by its form, and JSON, one object after another or in an array."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
from lance_flight.errors import DataError
from lance_flight.model.arrow_types import storage_of
from lance_flight.model.type_names import type_name

from lance_flight_client.files.conversions import Conversion, are_bytes, is_bytes, moments_of
from lance_flight_client.files.sniffing import (
    TextForm,
    TextOptions,
    check_quotes,
    decode_text,
    encoding_of,
    sniff,
    text_rows,
)

Reopen = Callable[[], AbstractContextManager[Any]]
"""Function that opens the stream of a file's text once more."""
_MOST_REJECTED = 100_000
_NO_ROWS = ("Empty CSV", "Could not skip initial")
"""Parts of Arrow's errors about a file that has names alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that was left out: where it is, and what of it was wrong."""

    file: str
    row: int
    line: int | None
    column: str
    value: str | None
    reason: str
    texts: Sequence[str | None] = ()

    def __str__(self) -> str:
        line = f"row {self.row + 1:,}" if self.line is None else f"line {self.line:,}"
        column = f", column {self.column!r}: {self.value!r}" if self.column else ""
        return f"{self.file}: {line}{column} {self.reason}"


@dataclass(slots=True, kw_only=True)
class CsvFile:
    """Rows of a CSV file of a known form, whose wrong rows are left out where that was asked for."""

    name: str
    form: TextForm
    options: TextOptions
    reopen: Reopen | None
    is_workbook: bool = False
    rejected: list[RejectedRow] = field(default_factory=list)
    _ragged: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        head: bytes,
        options: TextOptions,
        reopen: Reopen | None,
        *,
        is_whole: bool,
        types: pa.Schema,
        like: TextFile | None,
        is_workbook: bool = False,
    ) -> CsvFile:
        """Guess the form of a file from its beginning, but for the `types` of columns that are known."""
        if is_workbook:
            options = replace(options, delimiter=",", encoding="utf-8", nulls=(*options.nulls, ""))
        other = like.form if isinstance(like, CsvFile) else None
        form = sniff(head, options, name, is_whole=is_whole, types=types, like=other)
        return cls(name=name, form=form, options=options, reopen=reopen, is_workbook=is_workbook)

    @property
    def schema(self) -> pa.Schema:
        """The columns, as they were guessed."""
        return pa.schema([(name, conversion.kind) for name, conversion in self.form.columns.items()])

    @property
    def notes(self) -> Sequence[str]:
        """Sentences about what was not sure of the form."""
        return self.form.notes

    def batches(self, stream: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the types of a schema; `DataError` names the line, the column and the value of a wrong one."""
        if self.form.encoding not in {"utf-8", "utf-8-sig"}:
            stream = pa.transcoding_input_stream(stream, self.form.encoding, "utf-8")
        kinds = {field.name: field.type for field in schema}
        conversions = [self.form.columns[name].of(kinds.get(name, pa.utf8())) for name in self.form.names]
        before, last = 0, None
        self.forget()
        try:
            for batch in self._texts(stream, conversions):
                yield self._convert(batch, conversions, schema, before)
                before += batch.num_rows
                last = batch.columns[-1][-1].as_py() if batch.num_rows else last
            if isinstance(last, str) and "\n" in last and self.reopen is not None:
                self._check_end()
        except pa.ArrowInvalid as exc:
            raise self._explain(exc) from exc
        except UnicodeDecodeError as exc:
            raise DataError(f"{self.name}: is no text of encoding {self.form.encoding}: {exc.reason}") from exc
        if self.rejected and self.reopen is not None:
            self._find_lines()

    def forget(self) -> None:
        """Forget the rows that were left out, before all are read anew."""
        self.rejected.clear()
        self._ragged = 0

    def _texts(self, stream: Any, conversions: Sequence[Conversion]) -> Iterator[pa.RecordBatch]:
        types = {name: conversion.read_as for name, conversion in zip(self.form.names, conversions, strict=True)}
        converting = pacsv.ConvertOptions(column_types=types)
        if self.options.nulls:
            converting.null_values, converting.strings_can_be_null = list(self.options.nulls), True
            converting.quoted_strings_can_be_null = "" not in self.options.nulls
        try:
            yield from pacsv.open_csv(stream, self.form.reading, self.form.parsing(self._on_ragged), converting)
        except pa.ArrowInvalid as exc:
            if not any(said in str(exc) for said in _NO_ROWS):
                raise

    def _on_ragged(self, row: Any) -> str:
        if not self.options.ignores_errors:
            return "error"
        reason = f"has {row.actual_columns} values; expected {row.expected_columns}"
        self._ragged += 1
        self._reject(
            RejectedRow(
                file=self.name, row=-self._ragged, line=None, column="", value=None, reason=reason, texts=[row.text]
            )
        )
        return "skip"

    def _reject(self, rejected: RejectedRow) -> None:
        if len(self.rejected) >= _MOST_REJECTED:
            raise DataError(
                f"{self.name}: more than {_MOST_REJECTED:,} rows are wrong; expected another form or other types"
            )
        self.rejected.append(rejected)

    def _convert(
        self, batch: pa.RecordBatch, conversions: Sequence[Conversion], schema: pa.Schema, before: int
    ) -> pa.RecordBatch:
        columns, wrong = {}, pa.repeat(pa.scalar(False), batch.num_rows)
        for name, texts, conversion in zip(self.form.names, batch.columns, conversions, strict=True):
            columns[name], is_wrong = conversion.values(texts)
            first = pc.index(is_wrong, True).as_py()
            if first >= 0 and not self.options.ignores_errors:
                raise self._refusal(before + first, name, texts[first].as_py(), conversion.kind)
            if first >= 0:
                places = pc.indices_nonzero(pc.and_not(is_wrong, wrong)).to_pylist()
                for place in places:
                    given = [column[place].as_py() for column in batch.columns]
                    reason = f"is no {type_name(conversion.kind)}"
                    value = texts[place].as_py()
                    self._reject(
                        RejectedRow(
                            file=self.name,
                            row=before + place,
                            line=None,
                            column=name,
                            value=value,
                            reason=reason,
                            texts=given,
                        )
                    )
                wrong = pc.or_(wrong, is_wrong)
        own = pa.schema([field for field in schema if field.name in columns])
        converted = pa.RecordBatch.from_arrays(
            [_apply_types(columns[field.name], field.type) for field in own], schema=own
        )
        return converted.filter(pc.invert(wrong)) if self.rejected else converted

    def _refusal(self, row: int, column: str, value: str, kind: pa.DataType) -> DataError:
        line = (
            next((line for line, at, _ in self._number_rows() if at == row), None) if self.reopen is not None else None
        )
        place = f"row {row + 1:,}" if line is None else f"line {line:,}"
        padded = re.fullmatch(r"\s*[+-]?0\d+\s*", value) is not None and pa.types.is_integer(kind)
        what = "would lose its zeros as a number" if padded else f"is no {type_name(kind)}"
        return DataError(f"{self.name}: {place}, column {column!r}: {value!r} {what}")

    def _explain(self, exc: pa.ArrowInvalid) -> DataError:
        """Return what Arrow's parser says, with the line where that is known."""
        if "columns, got" in str(exc) and self.reopen is not None:
            for line, _, texts in self._number_rows():
                if len(texts) != len(self.form.names):
                    expected = f"has {len(texts)} values; expected {len(self.form.names)}"
                    text = self.form.shape.delimiter.join(texts)[:100]
                    return DataError(f"{self.name}: line {line:,} {expected}: {text!r}")
        if "straddl" in str(exc):
            return _too_long(self.name, self.form.reading.block_size)
        if "invalid UTF8" in str(exc) and self.reopen is not None:
            with self.reopen() as stream:
                for line, raw in enumerate(io.BufferedReader(stream), 1):
                    try:
                        raw.decode()
                    except UnicodeDecodeError:
                        return DataError(
                            f"{self.name}: line {line:,} is no UTF-8 text: {raw[:100]!r}; say what it is: --encoding latin-1 (or another)"
                        )
        return DataError(f"{self.name}: {exc}")

    def _check_end(self) -> None:
        """Refuse a last value that goes on to the end of the file, as quotes without their end have it."""
        assert self.reopen is not None  # noqa: S101 - asked before
        with self.reopen() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), self.form.encoding, errors="replace", newline="")
            check_quotes(text, self.form.shape, self.name, 0, is_whole=True)

    def _number_rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the rows once more, each with its line and its number; one with another number of values has none."""
        assert self.reopen is not None  # noqa: S101 - asked before
        row, width = 0, len(self.form.names)
        with self.reopen() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), self.form.encoding, errors="replace", newline="")
            for _ in range(self.form.skip):
                text.readline()
            for line, texts in text_rows(text, self.form.shape):
                if texts:
                    is_whole = len(texts) == width
                    yield self.form.skip + line + 1, row if is_whole else -1, texts
                    row += is_whole

    def _find_lines(self) -> None:
        """Find the lines of the rows that were left out."""
        wanted = {row.row: place for place, row in enumerate(self.rejected)}
        ragged = 0
        for line, row, _ in self._number_rows():
            ragged += row < 0
            place = wanted.get(-ragged if row < 0 else row)
            if place is not None:
                self.rejected[place] = replace(self.rejected[place], line=line)
        self.rejected.sort(key=lambda item: item.line or 0)


def _apply_types(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


_ZONED = r"[0-9](?:[Zz]|[+-][0-9]{2}:?[0-9]{2})\s*$"
_UTC = pa.timestamp("us", "UTC")
_LARGE_NUMBER = re.compile(rb"[:\[,]\s*(-?\d{19,})\s*[,}\]]")


@dataclass(slots=True, kw_only=True)
class JsonFile:
    """Rows of a file of JSON: one object after another, or an array of them."""

    name: str
    encoding: str
    is_array: bool
    has_long_objects: bool
    schema: pa.Schema
    reopen: Reopen | None
    notes: Sequence[str] = ()
    rejected: Sequence[RejectedRow] = ()
    as_text: set[str] = field(default_factory=set)
    """Columns whose values Arrow's reader would not take, which it is given as texts of JSON."""

    @classmethod
    def of(
        cls, name: str, head: bytes, options: TextOptions, reopen: Reopen | None, *, is_whole: bool, types: pa.Schema
    ) -> JsonFile:
        """Look at the beginning of a file, whose columns have their `types`, and other ones guessed types."""
        if options.ignores_errors:
            raise DataError(f"{name}: --ignore-errors is for CSV")
        encoding = options.encoding or encoding_of(head, name, is_whole=is_whole)
        begun = decode_text(head, encoding, name).lstrip().encode()
        large = next((n for n in _LARGE_NUMBER.findall(begun) if not -(1 << 63) <= int(n) < 1 << 63), None)
        if large is not None:
            raise DataError(
                f"{name}: the number {large.decode()} is longer than a BIGINT; expected it as a text, with quotes"
            )
        line, end, _ = begun.partition(b"\n")
        is_array = begun.startswith(b"[")
        if not (end or is_whole or is_array):
            raise _too_long(name, len(head))
        file = cls(
            name=name,
            encoding=encoding,
            is_array=is_array,
            has_long_objects=not _is_json(line),
            schema=pa.schema([]),
            reopen=reopen,
            notes=() if encoding in {"utf-8", "utf-8-sig", options.encoding} else (f"encoding {encoding}",),
            as_text={column.name for column in types if pa.types.is_map(column.type)},
        )
        lines = b"".join(file._lines(io.BytesIO(head)))
        if not is_whole:
            lines = lines[: lines.rfind(b"\n") + 1] or lines
        file.schema = file._guess_types(lines, types)
        mixed = [each for each in file.as_text if each not in types.names]
        file.notes = (*file.notes, *(f"column {each!r}: has values of several types: kept as text" for each in mixed))
        return file

    def _guess_types(self, lines: bytes, types: pa.Schema) -> pa.Schema:
        """Guess the columns; those whose values differ in type are text."""
        if not lines.strip():
            raise DataError(f"{self.name}: has no rows")
        while True:
            try:
                given = b"".join(self._without_types(iter([lines])))
                return self._infer_schema(given, types)
            except pa.ArrowInvalid as exc:
                mixed = _MIXED.search(str(exc))
                if mixed is None or mixed[1] in self.as_text or (self.has_long_objects and not self.is_array):
                    raise DataError(self._wrong(self.schema) or f"{self.name}: {exc}") from exc
                self.as_text.add(mixed[1])

    def _without_types(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield a text whose columns `as_text` are strings: each value as JSON, a string as it is."""
        if not self.as_text:
            yield from chunks
            return
        for number, line in enumerate(_split_lines(chunks), 1):
            try:
                row = json.loads(line) if line.strip() else {}
            except ValueError as exc:
                raise DataError(f"{self._place(number)} is no JSON: {exc}") from None
            if not isinstance(row, dict):
                raise DataError(f"{self._place(number)} is no object of JSON: {line[:100].decode(errors='replace')!r}")
            for name in self.as_text & row.keys():
                value = row[name]
                row[name] = value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield json.dumps(row, ensure_ascii=False).encode() + b"\n"

    def _place(self, number: int) -> str:
        return f"{self.name}: {'object' if self.is_array else 'line'} {number:,}"

    def _infer_schema(self, lines: bytes, types: pa.Schema) -> pa.Schema:
        inferred = self._read(io.BytesIO(lines), pa.schema([]), len(lines), "infer").schema
        types = pa.schema([column for column in types if column.name in inferred.names])
        schema = self._read(io.BytesIO(lines), types, len(lines), "infer").schema
        schema = pa.schema([types.field(field.name) if field.name in types.names else field for field in schema])
        guessed = [field.name for field in schema if field.name not in types.names]
        may_be = [
            name for name in guessed if pa.types.is_timestamp(kind := schema.field(name).type) or kind == pa.utf8()
        ]
        if may_be:
            all_types = pa.schema([*types, *((name, pa.utf8()) for name in may_be)])
            rows = self._read(io.BytesIO(lines), all_types, len(lines), "infer").read_all()
            kinds = {name: _kind_of(rows[name].combine_chunks(), schema.field(name).type) for name in may_be}
            schema = pa.schema([field.with_type(kinds.get(field.name, field.type)) for field in schema])
        return schema

    def batches(self, stream: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the types of a schema; `DataError` names the line, the column and the value of a wrong one."""
        own = pa.schema([schema.field(field.name) if field.name in schema.names else field for field in self.schema])
        try:
            lines = self._without_types(self._lines(stream))
            for batch in self._read(_Chunks(lines), own, _MOST_BYTES, "error"):
                # Arrow's reader takes any bytes for text.
                batch.validate(full=True)
                yield self._convert(batch, own)
        except pa.ArrowInvalid as exc:
            if "straddl" in str(exc):
                raise _too_long(self.name, _MOST_BYTES) from exc
            raise DataError(self._wrong(own) or f"{self.name}: {exc}") from exc

    def _convert(self, batch: pa.RecordBatch, own: pa.Schema) -> pa.RecordBatch:
        """Return a batch with the values of types that Arrow's reader does not read from texts."""
        columns = list(batch.columns)
        for place, each in enumerate(batch.schema):
            kind = own.field(each.name).type
            if _is_text_of(kind):
                columns[place], is_wrong = Conversion(kind=kind).values(columns[place])
                first = pc.index(is_wrong, True).as_py()
                if first >= 0:
                    wrong = f"column {each.name!r}: {batch.columns[place][first].as_py()!r} is no {type_name(kind)}"
                    raise DataError(self._wrong(own) or f"{self.name}: {wrong}")
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def forget(self) -> None:
        """Forget nothing: no rows are left out."""

    def _read(self, stream: Any, types: pa.Schema, block: int, unexpected: str) -> Any:
        explicit = pa.schema(
            [column.with_type(pa.utf8() if _is_text_of(column.type) else storage_of(column.type)) for column in types]
        )
        parsing = pajson.ParseOptions(
            explicit_schema=explicit if len(explicit) else None,
            newlines_in_values=self.has_long_objects and not self.is_array,
            unexpected_field_behavior=unexpected,
        )
        return pajson.open_json(stream, pajson.ReadOptions(block_size=max(block, 1 << 16)), parsing)

    def _lines(self, stream: Any) -> Iterator[bytes]:
        """Yield parts of the text as UTF-8, an object of an array as a line."""
        if self.encoding not in {"utf-8", "utf-8-sig"}:
            stream = pa.transcoding_input_stream(pa.PythonFile(stream, "r"), self.encoding, "utf-8")
        first = stream.read(1 << 20).removeprefix(b"\xef\xbb\xbf")
        chunks = iter(lambda: stream.read(1 << 20), b"")
        if not self.is_array:
            yield first
            yield from chunks
            return
        yield from _objects(first, chunks)

    def _wrong(self, schema: pa.Schema) -> str | None:
        """Return the place of the first value that has not the type of its column; None where it is not found."""
        if self.reopen is None or self.has_long_objects:
            return None
        with self.reopen() as stream:
            for number, line in enumerate(_split_lines(self._lines(stream)), 1):
                place = self._place(number)
                try:
                    row = json.loads(line) if line.strip() else {}
                except ValueError as exc:
                    return f"{place} is no JSON: {exc}"
                if not isinstance(row, dict):
                    return f"{place} is no object of JSON: {line[:100].decode(errors='replace')!r}"
                for name, value in row.items() if len(schema) else ():
                    if name not in schema.names:
                        return (
                            f"{place} has a key {name!r} that no row before has; name it: --types '\"{name}\" VARCHAR'"
                        )
                    kind = schema.field(name).type
                    if name not in self.as_text and not _has_type(value, kind):
                        return f"{place}, column {name!r}: {json.dumps(value, ensure_ascii=False)[:100]} is no {type_name(kind)}"
        return None


_MOST_BYTES = 1 << 20
"""Most bytes of an object of JSON."""


def _too_long(name: str, most: int) -> DataError:
    return DataError(f"{name}: a row has more than {most:,} bytes; expected shorter ones, or a file of Parquet")


_MIXED = re.compile(r"Column\(/([^)/]+)[^)]*\) changed from")


def _kind_of(texts: pa.Array, inferred: pa.DataType) -> pa.DataType:
    """Return the type of a column of strings: moments, with their zone, bytes, or what was inferred."""
    if pa.types.is_timestamp(inferred):
        return _UTC if pc.any(pc.match_substring_regex(texts, _ZONED)).as_py() else inferred
    known = texts.drop_null()
    return pa.binary() if are_bytes(known) else moments_of(known) or inferred


def _is_text_of(kind: pa.DataType) -> bool:
    """Return whether values of a type are texts to Arrow's reader: it takes days and durations for numbers, and knows neither bytes nor maps."""
    is_moment = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind)
    return bool(is_moment or pa.types.is_map(kind) or is_bytes(kind))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _has_type(value: Any, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if pa.types.is_nested(kind):
        return isinstance(value, dict if pa.types.is_struct(kind) else list)
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if isinstance(value, int | float):
        return bool(
            pa.types.is_floating(kind)
            or pa.types.is_decimal(kind)
            or (pa.types.is_integer(kind) and isinstance(value, int))
        )
    if not isinstance(value, str):
        return False
    is_wrong = Conversion(kind=kind).values(pa.array([value], pa.utf8()))[1][0].as_py()
    return not (is_wrong or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|,|"', re.DOTALL)


def _objects(first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the objects of an array of JSON as lines."""
    begin = first.index(b"[") + 1
    data, depth, at = first[begin:], 0, 0
    while True:
        done, out = 0, []
        for token in _TOKEN.finditer(data, at):
            sign = token[0]
            if sign == b'"':
                # A text that goes on in the next part.
                at = token.start()
                break
            at = token.end()
            if sign in b"[{":
                depth += 1
            elif sign in b"]}":
                depth -= 1
            if depth < 0 or (sign == b"," and depth == 0):
                out.append(data[done : token.start()].replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
                done = token.end()
            if depth < 0:
                break
        yield b"".join(out)
        if depth < 0:
            return
        more = next(chunks, b"")
        if not more:
            yield data[done:].replace(b"\n", b" ").replace(b"\r", b" ")
            return
        data, at = data[done:] + more, max(at - done, 0)


class _Chunks(io.RawIOBase):
    """Stream of parts of a text."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


TextFile = CsvFile | JsonFile
"""A file of text, of which the form is known."""
