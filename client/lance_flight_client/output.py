"""Tables as text: aligned for people, CSV and JSON lines for programs, Arrow for both."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import IO, Any, Self, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight_client.terminal import printable
from lance_flight_client.values import JSON, SQL, Form, form_of, texts, write_enclosed, write_values

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


def align_table(table: pa.Table, limit: int | None = None, null: str = "") -> str:
    """Return a table as aligned text; numbers to the right, NULL as nothing unless `null` says otherwise.

    >>> print(align_table(pa.table({"origin": ["EWR", None], "n": [12, 345]})))
    origin    n
    EWR      12
            345
    """
    shown = table if limit is None else table.slice(0, limit)
    columns = [cells(column, null) for column in shown.columns]
    right = [form_of(field.type) in _TO_THE_RIGHT for field in table.schema]
    names = [one_line(name) for name in table.schema.names]
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


def cells(column: pa.ChunkedArray, null: str = "", widest: int | None = WIDEST) -> list[str]:
    r"""Return values as lines of text, cut off where they are longer than `widest`.

    >>> cells(pa.chunked_array([["two\nlines", None, "12345"]]), "NULL", widest=4), cells(pa.chunked_array([[b"\x00\xff"]]))
    (['two…', 'NULL', '123…'], ["X'00FF'"])
    """
    cell_texts = texts(column, most=None if widest is None else widest)
    return [null if text is None else one_line(text, widest) for text in cell_texts]


def one_line(text: str, widest: int | None = None) -> str:
    r"""Return a text without line feeds and controls.

    >>> one_line("two\nlines"), one_line("two\nlines", widest=6)
    ('two⏎lines', 'two⏎l…')
    """
    cut = text if widest is None or len(text) <= widest else text[: widest - 1] + "…"
    return printable(cut.replace("\n", "⏎"))


_TO_THE_RIGHT = frozenset({Form.NUMBER, Form.EXACT})


def _write_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], limit: int | None, out: TextIO) -> None:
    if is_document(schema):
        print(document(pa.Table.from_batches(batches, schema)), file=out)
        return
    shown: list[pa.RecordBatch] = []
    for batch in batches:
        shown.append(batch)
        if limit is not None and sum(column.num_rows for column in shown) > limit:
            break
    rows = pa.Table.from_batches(shown, schema)
    print(align_table(rows.slice(0, limit), null=NULL), file=out)
    if limit is not None and rows.num_rows > limit:
        print("… more rows", file=out)


def outcome(sql: str, affected: int) -> str:
    r"""Return what a statement without rows says: how many it affected, or that it is done.

    >>> outcome("INSERT INTO t SELECT 1", 1), outcome("CREATE TABLE t (a INT)", 0), outcome("-- no\nDELETE FROM t", 0)
    ('1 row affected', 'done', '0 rows affected')
    """
    if affected < 0 or (affected == 0 and not _CHANGE.search(sql)):
        return "done"
    return f"{affected:,} row{'' if affected == 1 else 's'} affected"


_CHANGE = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE|SELECT)\b", re.IGNORECASE)
"""Words of statements that change rows, which may have changed none."""


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
    return "\n\n".join(plan.strip("\n") for _, plan in plans)


@dataclass(slots=True)
class JsonWriter:
    """Writer of one object of JSON in each line, like those of Arrow."""

    sink: IO[bytes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.flush()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch; a second column of one name gets a number."""
        rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)) if batch.num_columns else None
        lines = ["{}"] * batch.num_rows if rows is None else write_enclosed(rows, JSON)
        self.sink.write("".join(f"{line}\n" for line in lines).encode())


_IN_FILES = replace(SQL, binary=JSON.binary)
_BARE = frozenset({Form.NUMBER, Form.EXACT, Form.WORD, Form.MOMENT})
"""Forms whose texts have no quotes in CSV."""


@dataclass(slots=True)
class CsvWriter:
    """Writer of CSV in which lists and structs are JSON, and binary values hexadecimal."""

    sink: IO[bytes]

    @classmethod
    def of(cls, sink: Any, schema: pa.Schema) -> CsvWriter:
        """Begin a file."""
        sink.write((",".join(_quote_values(pa.array(schema.names, _TEXT)).to_pylist()) + "\n").encode())
        return cls(sink)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.flush()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        if not batch.num_rows or not batch.num_columns:
            return
        columns, comma, end = map(_csv_texts, batch.columns), pa.scalar(",", _TEXT), pa.scalar("\n", _TEXT)
        no_null = {"null_handling": "replace", "null_replacement": ""}
        lines = pc.binary_join_element_wise(*columns, comma, **no_null)
        rows = pc.binary_join_element_wise(lines, end, pa.scalar("", _TEXT))
        # The texts of an array lie one behind the other.
        self.sink.write(rows.buffers()[2])


_TEXT = pa.large_utf8()


def csv_columns(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], others: Collection[str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return rows whose columns Arrow's writer of CSV would refuse, or write otherwise, as the texts of `CsvWriter`; `others` stay."""
    kept = [field.name in others or form_of(field.type) in _PLAIN for field in schema]
    plain = pa.schema(
        [field if is_kept else field.with_type(_TEXT) for field, is_kept in zip(schema, kept, strict=True)]
    )

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = zip(batch.columns, kept, strict=True)
            yield pa.RecordBatch.from_arrays(
                [column if is_kept else _csv_text(column) for column, is_kept in pairs], schema=plain
            )

    return plain, rows()


_PLAIN = frozenset({Form.NUMBER, Form.WORD, Form.TEXT})


def _csv_text(column: pa.Array) -> pa.Array:
    return write_values(column, JSON if form_of(column.type) is Form.NESTED else _IN_FILES)


def _csv_texts(column: pa.Array) -> pa.Array:
    shown = _csv_text(column)
    return shown if form_of(column.type) in _BARE else _quote_values(shown)


def _quote_values(column: pa.Array) -> pa.Array:
    sign, nothing = pa.scalar('"', _TEXT), pa.scalar("", _TEXT)
    return pc.binary_join_element_wise(sign, pc.replace_substring(column, '"', '""'), sign, nothing)


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
    text_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(text_type) or pa.types.is_large_string(text_type) or pa.types.is_string_view(text_type)
    )


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], _: int | None, out: TextIO) -> None:
    with CsvWriter.of(_sink(out), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_json(_: pa.Schema, batches: Iterable[pa.RecordBatch], __: int | None, out: TextIO) -> None:
    with JsonWriter(_sink(out)) as writer:
        for batch in batches:
            writer.write_batch(batch)


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
