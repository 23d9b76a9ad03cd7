"""Tables as text: aligned for people, CSV and JSON lines for programs, Arrow for both."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from types import MappingProxyType
from typing import IO, Any, Self, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lance_flight_client.terminal import printable

WIDEST = 60
_FORMULA = re.compile(r"^([=+\-@\t\r\n＝＋－＠])")
"""Beginning of a text that spreadsheets take for a formula, or strip before they look for one."""
PLAN = ["plan_type", "plan"]
"""Columns of EXPLAIN."""
DEFINITION = ["table_catalog", "table_schema", "table_name", "definition"]
"""Columns of SHOW CREATE TABLE."""
NULL = "NULL"


def write(schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: str, *, limit: int | None, out: TextIO) -> None:
    """Write rows as they come in one of `FORMATS`; no more than `limit` are read for a printed table."""
    FORMATS[format](schema, batches, limit, out)


def aligned(table: pa.Table, limit: int | None = None, null: str = "") -> str:
    """Return a table as aligned text; numbers to the right, NULL as nothing unless `null` says otherwise.

    >>> print(aligned(pa.table({"origin": ["EWR", None], "n": [12, 345]})))
    origin    n
    EWR      12
            345
    """
    shown = table if limit is None else table.slice(0, limit)
    columns = [[cell(value, null) for value in column.to_pylist()] for column in shown.columns]
    right = [_is_number(field.type) for field in table.schema]
    names = [cell(name, null, None) for name in table.schema.names]
    lines = [_line(widths := _widths(names, columns), names, right)]
    lines += [_line(widths, row, right) for row in zip(*columns, strict=True)]
    more = table.num_rows - shown.num_rows
    return "\n".join(lines + ([f"… {more:,} more rows"] if more else []))


def _widths(names: Sequence[str], columns: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(text_width, (name, *column))) for name, column in zip(names, columns, strict=True)]


def _line(widths: Sequence[int], cells: Sequence[str], right: Sequence[bool]) -> str:
    padded = [
        " " * (width - text_width(cell)) + cell if is_right else cell + " " * (width - text_width(cell))
        for width, cell, is_right in zip(widths, cells, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def text_width(text: str) -> int:
    """Return the number of terminal columns that a text takes; one with controls, as many as characters.

    >>> text_width("Oslo"), text_width("広間"), text_width("👩‍👩‍👧")
    (4, 4, 2)
    """
    if text.isascii():
        return len(text)
    # Only other texts need the tables of widths.
    width = int(importlib.import_module("wcwidth").wcswidth(text))
    return width if width >= 0 else len(text)


def cell(value: Any, null: str = "", widest: int | None = WIDEST) -> str:
    r"""Return a value as a line of text, cut off where it is longer than `widest`.

    >>> cell("two\nlines"), cell(None, "NULL"), cell("12345", widest=4), cell(b"\x00\xff"), cell(True)
    ('two⏎lines', 'NULL', '123…', "X'00FF'", 'true')
    """
    if value is None:
        return null
    text = printable(_text(value, widest).replace("\n", "⏎"))
    return text if widest is None or len(text) <= widest else text[: widest - 1] + "…"


def _text(value: Any, widest: int | None) -> str:
    """Return a value as SQL writes it, where Python has another form; of a long binary only what is shown."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return f"X'{value[:widest].hex().upper()}'"
    if isinstance(value, pa.MonthDayNano):
        parts = (f"{value.months} months", f"{value.days} days", f"{value.nanoseconds / 1e9:g} seconds")
        return " ".join(part for part in parts if not part.startswith("0 ")) or "0 seconds"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _write_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], limit: int | None, out: TextIO) -> None:
    if is_document(schema):
        print(document(pa.Table.from_batches(batches, schema)), file=out)
        return
    shown: list[pa.RecordBatch] = []
    for batch in batches:
        shown.append(batch)
        if limit is not None and sum(each.num_rows for each in shown) > limit:
            break
    rows = pa.Table.from_batches(shown, schema)
    print(aligned(rows.slice(0, limit), null=NULL), file=out)
    if limit is not None and rows.num_rows > limit:
        print("… more rows", file=out)


def is_document(schema: pa.Schema) -> bool:
    """Return whether columns are those of EXPLAIN or SHOW CREATE TABLE, whose text is shown whole."""
    return schema.names in (PLAN, DEFINITION)


def document(rows: pa.Table) -> str:
    """Return the text of EXPLAIN, in which what was pruned comes first, or of SHOW CREATE TABLE."""
    if rows.schema.names == DEFINITION:
        return "\n\n".join(rows["definition"].to_pylist())
    plans = sorted(
        zip(*(column.to_pylist() for column in rows.columns), strict=True), key=lambda row: row[0] != "partitions"
    )
    return "\n\n".join(plan for _, plan in plans)


@dataclass(slots=True)
class JsonWriter:
    """Writer of one object of JSON in each line, like those of Arrow."""

    sink: IO[bytes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.flush()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        for row in batch.to_pylist():
            self.sink.write(json.dumps(row, default=_json, ensure_ascii=False).encode() + b"\n")


@dataclass(slots=True)
class CsvWriter:
    """Writer of CSV in which lists and structs are JSON, and binary values hexadecimal."""

    writer: pacsv.CSVWriter
    schema: pa.Schema

    @classmethod
    def of(cls, sink: Any, schema: pa.Schema) -> CsvWriter:
        """Begin a file."""
        kinds = pa.schema([pa.field(f.name, pa.large_utf8() if _is_flattened(f.type) else f.type) for f in schema])
        return cls(pacsv.CSVWriter(sink, kinds), kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self.writer.write_batch(pa.RecordBatch.from_arrays([_flat(each) for each in batch.columns], schema=self.schema))


def for_spreadsheets(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return rows without formulas: an apostrophe stands before names and texts that a spreadsheet would compute."""
    kinds = [pa.large_utf8() if _is_text(field.type) else field.type for field in schema]
    names = [_FORMULA.sub(r"'\1", name) for name in schema.names]
    plain = pa.schema([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [
                pc.replace_substring_regex(column.cast(kind), _FORMULA.pattern, r"'\1")
                if _is_text(column.type)
                else column
                for column, kind in zip(batch.columns, kinds, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=plain)

    return plain, rows()


def _is_text(kind: pa.DataType) -> bool:
    found = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], _: int | None, out: TextIO) -> None:
    with CsvWriter.of(_sink(out), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _flat(column: pa.Array) -> pa.Array:
    """Return lists and structs as JSON text, since CSV has no nesting, and binary values as hexadecimal."""
    if not _is_flattened(column.type):
        return column
    write = partial(json.dumps, default=_json) if pa.types.is_nested(column.type) else _json
    texts = [None if value is None else write(value) for value in column.to_pylist()]
    return pa.array(texts, pa.large_utf8())


def _is_flattened(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or _is_binary(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
    )


def _write_json(_: pa.Schema, batches: Iterable[pa.RecordBatch], __: int | None, out: TextIO) -> None:
    with JsonWriter(_sink(out)) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _json(value: Any) -> Any:
    """Return a value that JSON has no type for: moments in ISO 8601, binary in hexadecimal, anything else as text."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


@dataclass(slots=True)
class _Shown:
    """Sink of bytes that go through the text layer of a terminal."""

    out: TextIO
    closed: bool = False

    def write(self, data: bytes) -> int:
        self.out.write(bytes(data).decode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        self.out.flush()


def _sink(out: TextIO) -> Any:
    """Return where text is written as bytes."""
    return _Shown(out) if out.isatty() else out.buffer


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], _: int | None, out: TextIO) -> None:
    with pa.ipc.new_stream(out.buffer, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


FORMATS: Mapping[str, Callable[[pa.Schema, Iterable[pa.RecordBatch], int | None, TextIO], None]] = MappingProxyType(
    {"table": _write_table, "csv": _write_csv, "json": _write_json, "arrow": _write_arrow}
)
