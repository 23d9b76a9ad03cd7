"""Form of a text file, guessed from its beginning: compression, encoding, delimiter, quotes, rows before the names, names, types.

A sheet of an Excel workbook becomes such a file first.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, product
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from lance_flight.errors import DataError, InvalidInput, NotFound
from lance_flight.model.arrow_types import is_number

from lance_flight_client.files.conversions import Conversion, Guess, fits, guess, is_bytes, is_unclear
from lance_flight_client.values import unique


def sheet_text(file: IO[bytes], name: str, sheet: str | None) -> bytes:
    """Return a sheet (None: the first one) as CSV, whose lines are the rows from the first one that has cells.

    `InvalidInput` without the library, `NotFound` without the sheet.
    """
    try:
        import python_calamine as calamine  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as exc:
        raise InvalidInput(f"{name!r} needs the package {exc.name}; install 'lance-flight[excel]'") from exc
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        names = workbook.sheet_names
        if sheet is not None and sheet not in names:
            raise NotFound(f"{name}: no sheet {sheet!r}; expected {', '.join(map(repr, names))}")
        rows = workbook.get_sheet_by_name(names[0] if sheet is None else sheet).iter_rows()
        return "".join(f"{line}\n" for line in _lines(rows)).encode()
    except calamine.CalamineError as exc:
        raise DataError(f"{name}: is no workbook that can be read: {exc}") from exc


def _lines(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield rows as lines; titles before the first row with several cells are as short as they are."""
    has_begun = False
    for row in rows:
        cells = list(map(_cell, row))
        has_begun = has_begun or sum(map(bool, cells)) > 1
        yield ",".join(cells) if has_begun else "".join(cells)


def _cell(value: Any) -> str:
    """Return a cell as CSV has it; an empty one is nothing, which is NULL.

    >>> [_cell(each) for each in ("", 'a"b', 2.0, 2.5, True)]
    ['', '"a""b"', '2', '2.5', 'true']
    """
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if value else ""
    if isinstance(value, bool):
        return str(value).lower()
    # Numbers of Excel are doubles.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


HEAD = 1 << 20
"""Bytes of a file that its form is guessed from."""
_ROWS = 500
"""Rows that the delimiter is guessed from."""
_MOST_SKIPPED = 50
csv.field_size_limit(HEAD)
_REGULAR, _LEAST_REGULAR = 0.9, 0.5
"""Shares of rows with the same number of values: of a delimiter that is surely one, and of one at all."""

_CODECS: Mapping[bytes, str] = MappingProxyType(
    {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
)
"""Compression by the first bytes of a file."""
_ZIP = b"PK\x03\x04"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = "cp1252"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Options of text files; those that are None are guessed from their beginning.

    `nulls` are texts that are NULL, in columns of text as well. With `ignores_errors` rows with a wrong value are left out.
    `sheet` is that of a workbook (None: the first one).
    """

    delimiter: str | None = None
    header: bool | None = None
    nulls: tuple[str, ...] = ()
    encoding: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    skip: int | None = None
    ignores_errors: bool = False
    sheet: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Signs that cut a text into values, and the number of values of a row."""

    delimiter: str
    quote: str = '"'
    escape: str | None = None
    width: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """Form of a CSV file: how it is cut into values, the lines before them, its columns, and what was not sure."""

    encoding: str
    shape: Shape
    skip: int
    names: tuple[str, ...]
    columns: Mapping[str, Conversion] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def parsing(self, on_ragged: Any = None) -> pacsv.ParseOptions:
        """Return the options of Arrow's parser; `on_ragged` is asked about rows with another number of values."""
        return pacsv.ParseOptions(
            delimiter=self.shape.delimiter,
            quote_char=self.shape.quote,
            escape_char=self.shape.escape or False,
            newlines_in_values=True,
            invalid_row_handler=on_ragged,
        )

    @property
    def reading(self) -> pacsv.ReadOptions:
        """The options of Arrow's reader, on one thread: rows are counted."""
        return pacsv.ReadOptions(use_threads=False, column_names=list(self.names), skip_rows=self.skip)


@contextmanager
def decompress(file: Any, name: str, *, sheet: str | None = None, is_workbook: bool = False) -> Iterator[Any]:
    """Open the stream of a file's text, which its first bytes may call compressed, or of a workbook's sheet."""
    if is_workbook:
        yield pa.BufferReader(sheet_text(file, name, sheet))
        return
    magic = file.read(4)
    if file.seekable():
        file.seek(0)
    else:
        file = io.BufferedReader(Replayed(magic, file))
    buffered = pa.BufferedInputStream(file if isinstance(file, pa.NativeFile) else pa.PythonFile(file, "r"), HEAD)
    codec = next((codec for sign, codec in _CODECS.items() if magic.startswith(sign)), None)
    if magic.startswith(_ZIP):
        with zipfile.ZipFile(file) as archive:
            members = archive_members(archive)
            if len(members) != 1:
                raise DataError(f"{name}: the archive has {len(members)} files; expected one, or the files themselves")
            with archive.open(members[0]) as stream:
                yield pa.PythonFile(stream, "r")
        return
    yield buffered if codec is None else pa.CompressedInputStream(buffered, codec)


def archive_members(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the files in an archive; a Mac adds some of its own beside those that a user puts in."""
    return [each for each in archive.namelist() if not each.endswith("/") and not each.startswith(("__MACOSX/", "."))]


class Replayed(io.RawIOBase):
    """The bytes that were read of a pipe, and then the rest of it."""

    def __init__(self, begun: bytes, pipe: Any) -> None:
        super().__init__()
        self._begun = io.BytesIO(begun)
        self._pipe = pipe

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._begun.read(len(buffer)) or self._pipe.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)


def encoding_of(head: bytes, name: str, *, is_whole: bool = True) -> str:
    """Return the encoding of a text by its beginning; `DataError` for one that only its author knows.

    >>> encoding_of("é".encode(), "a"), encoding_of("né".encode("latin-1"), "a"), encoding_of("a,b".encode("utf-16-le"), "a")
    ('utf-8', 'cp1252', 'utf-16-le')
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    zeros = [head[place:4096:2].count(0) for place in (0, 1)]
    if max(zeros) > len(head[:4096]) // 5 and min(zeros) * 10 < max(zeros):
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole)
    except UnicodeDecodeError:
        if b"\0" in head:
            raise DataError(f"{name}: is no text; it has bytes of zero") from None
        return _western(head, name)
    return "utf-8"


def _western(head: bytes, name: str) -> str:
    text = head.decode(_WESTERN, errors="replace")
    letters = re.findall(r"[^\x00-\x7f]+", text)
    foreign = sum(len(run) for run in letters if len(run) > 2)  # noqa: PLR2004 - no word of the West has more
    if "\ufffd" in text or foreign * 4 > sum(map(len, letters)):
        raise DataError(
            f"{name}: is no UTF-8 text, and no Western one; say what it is: --encoding cp1251 (or another),"
            ' or --types "column VARBINARY" for bytes'
        )
    return _WESTERN


def sniff(
    head: bytes, options: TextOptions, name: str, *, is_whole: bool, types: pa.Schema, like: TextForm | None = None
) -> TextForm:
    """Guess the form of a CSV file from its beginning, as far as `options` and the `types` of columns do not say it.

    A column that fits what it is in another file, which this one is `like`, is that.
    """
    # Bytes of a column of bytes are kept.
    has_bytes = any(is_bytes(column.type) for column in types)
    encoding = options.encoding or ("utf-8" if has_bytes else encoding_of(head, name, is_whole=is_whole))
    text = head.decode(encoding, errors="replace") if has_bytes else decode_text(head, encoding, name)
    if not is_whole:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    notes = [] if encoding in {"utf-8", "utf-8-sig", options.encoding} else [f"encoding {encoding}"]
    separator = _SEPARATOR.match(text) if options.skip is None else None
    if separator is not None and options.delimiter is None:
        options = replace(options, delimiter=separator[1])
    begin = 1 if separator is not None else options.skip or 0
    body = "".join(list(io.StringIO(text, newline=""))[begin:])
    shape = _shape(body, options, is_open=not is_whole)
    notes += check_quotes(io.StringIO(body, newline=""), shape, name, begin, is_whole=is_whole)
    read = list(text_rows(io.StringIO(body, newline=""), shape, _ROWS))
    lines = [(line, row) for line, row in read if row]
    if shape.width == 1 and any(not row for _, row in read[:-1]):
        notes.append("empty lines are left out: a NULL of a single column is written as NULL")
    if not is_whole and len(lines) > 1:
        lines.pop()
    first = _first_row(lines, shape.width) if options.skip is None else 0
    if first:
        notes.append(f"{lines[first][0]} lines before the first row are left out")
    regular = lines[first:]
    if not regular:
        raise DataError(f"{name}: has no rows")
    has_header = (
        options.header if options.header is not None else _has_names(regular[0][1], [row for _, row in regular[1:]])
    )
    names, start = _naming_error([f"f{place}" for place in range(shape.width)], []), regular[0][0]
    if has_header:
        given = regular[0][1]
        # Rows may end with a delimiter that the names have not.
        has_ends = len(given) == shape.width - 1 and not any(
            row[-1] for _, row in regular[1:] if len(row) == shape.width
        )
        names = _naming_error([*given, ""] if has_ends else given, notes)
        start += 1 + sum(text.count("\n") for text in given)
        if is_whole and len(regular) == 1:
            notes.append("has names, and no rows")
    form = TextForm(encoding=encoding, shape=shape, skip=begin + start, names=tuple(names))
    guesses = _guesses(form, text, options, {} if like is None else like.columns)
    unsure = {column: guess.note for column, guess in guesses.items() if guess.note and column not in types.names}
    notes += [f"column {column!r}: {note}" for column, note in unsure.items()]
    if not has_header and options.header is None:
        notes.append("the first line has values, and no names; --header makes it names")
    columns = {column: guess.conversion for column, guess in guesses.items()}
    return replace(form, columns=columns, notes=tuple(notes))


_SEPARATOR = re.compile("sep=(.)\r?\n")
"""Line that tells Excel the delimiter."""


def decode_text(head: bytes, encoding: str, name: str) -> str:
    """Return the beginning of a text without its byte order mark; `DataError` if it is none of that encoding.

    It may end within a character. `utf-8` and `utf-16-le`, as a user names them, leave the mark as the first character.
    """
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head).lstrip("\ufeff")
    except UnicodeDecodeError as exc:
        raise DataError(f"{name}: is no text of encoding {encoding}: byte {exc.start:,}") from None


def _shape(text: str, options: TextOptions, *, is_open: bool) -> Shape:
    """Return the way in which most rows have as many values as others; of several, the first one."""
    delimiters = [options.delimiter] if options.delimiter else list("\t;|,^~\x01")
    quotes = ['"', "'"] if '"' not in text and _SINGLE_QUOTES.search(text) else ['"']
    best: Shape | None = None
    most = (0.0, 0.0, 0)
    for delimiter, quote in product(delimiters, reversed(quotes)):
        shape = Shape(delimiter, quote, _escape(text, delimiter, quote))
        rows = [(line, row) for line, row in text_rows(io.StringIO(text, newline=""), shape, _ROWS) if row]
        if is_open and len(rows) > 1:
            rows.pop()
        width = _width([row for _, row in rows])
        after = rows[_first_row(rows, width) :]
        share = sum(len(row) == width for _, row in after) / max(len(after), 1)
        key = (float(share >= _REGULAR), share, len(after) - len(rows))
        if width > 1 and share >= _LEAST_REGULAR and (best is None or key > most):
            best, most = replace(shape, width=width), key
    if best is not None:
        return best
    # One column: its texts may have every sign but one.
    return Shape(options.delimiter or next((sign for sign in delimiters if sign not in text), ","))


def _escape(text: str, delimiter: str, quote: str) -> str | None:
    """Return a backslash where quotes within values have one, and are not doubled."""
    if not _ESCAPED.search(text):
        return None
    try:
        for _ in islice(
            csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote, strict=True), _ROWS
        ):
            pass
    except csv.Error:
        return "\\"
    return None


_SINGLE_QUOTES = re.compile(r"(?:^|[\t;|,\n])'[^'\n]*'(?:$|[\t;|,\r\n])")
_ESCAPED = re.compile(r'[^\\]\\"[^\t;|,\r\n]')


def text_rows(text: Any, shape: Shape, most: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a text, each with the number of lines before it."""
    before = 0
    reader = csv.reader(text, delimiter=shape.delimiter, quotechar=shape.quote, escapechar=shape.escape)
    try:
        for row in islice(reader, most):
            yield before, row
            before = reader.line_num
    except csv.Error:
        # A value of more than 128 KiB, or a quote without its end: Arrow's parser decides about it.
        return


def check_quotes(text: Any, shape: Shape, name: str, before: int, *, is_whole: bool) -> list[str]:
    """Refuse a value over several lines whose quotes have no end, which would hold the rows behind it (`DataError`).

    Returns a note about the first value in quotes with more behind them.
    """
    if shape.escape:
        return []
    reader, line = csv.reader(text, delimiter=shape.delimiter, quotechar=shape.quote, strict=True), 0
    try:
        for _ in reader:
            line = reader.line_num
    except csv.Error as exc:
        said = str(exc)
        is_sure = "expected after" in said or (is_whole and "unexpected end" in said)
        if reader.line_num - line > 1 and is_sure:
            raise DataError(
                f"{name}: line {before + line + 1:,}: a value begins with {shape.quote} and does not end in this row;"
                f" expected {shape.quote} behind it, and {shape.quote * 2} for one within it"
            ) from None
        if "expected after" in said:
            return [
                f"line {before + line + 1:,}: a value goes on behind its closing {shape.quote}, and loses its quotes"
            ]
    return []


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of values that most rows have, the larger one of two."""
    counts = Counter(map(len, rows))
    return max(counts, key=lambda width: (counts[width], width), default=1)


def _first_row(lines: Sequence[tuple[int, Sequence[str]]], width: int) -> int:
    """Return the place of the first row with all values, behind titles and comments; 0 where what is before may be values."""
    header = next((place for place, (_, row) in enumerate(lines) if len(row) == width), 0)
    are_titles = all(sum(map(bool, row)) <= 1 or row[0].startswith("#") for _, row in lines[:header])
    return header if header <= _MOST_SKIPPED and are_titles else 0


def _has_names(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has names: texts, years, or a text above numbers or moments."""
    if all(_YEAR.fullmatch(text.strip()) for text in first if _is_value(text)):
        return True
    columns = ([row[place] for row in others if len(row) > place] for place in range(len(first)))
    kinds = [guess(pa.array(column, pa.utf8()), None, None).conversion.kind for column in columns]
    return any(
        text.strip() and not _is_value(text) and kind not in _NO_VALUES for text, kind in zip(first, kinds, strict=True)
    )


_YEAR = re.compile(r"(19|20)\d\d")
_NO_VALUES = (pa.utf8(), pa.null(), pa.bool_())


def _is_value(text: str) -> bool:
    """Return whether a text is a number or a moment."""
    return guess(pa.array([text], pa.utf8()), None, None).conversion.kind not in _NO_VALUES


def _naming_error(given: Sequence[str], notes: list[str]) -> list[str]:
    plain = [text.strip() or f"f{place}" for place, text in enumerate(given)]
    names = unique(plain)
    if names != plain:
        notes.append(f"several columns have one name: {', '.join(name for name in names if name not in plain)}")
    if any(not text.strip() for text in given):
        notes.append(
            f"columns without a name: {', '.join(n for n, text in zip(names, given, strict=True) if not text.strip())}"
        )
    return names


_NUMBER = r"^\s*[+-]?\d+(?:[.,]\d+)*\s*$"


def _text_among_numbers(column: pa.Array) -> str | None:
    """Return the one text of a column of numbers: a unit, a sum or the name again; None where there are more texts, or few numbers."""
    texts = column.filter(pc.not_equal(pc.utf8_trim_whitespace(column), "").fill_null(False))  # noqa: FBT003
    is_number = pc.match_substring_regex(texts, _NUMBER)
    others = texts.filter(pc.invert(is_number))
    return others[0].as_py() if len(others) == 1 and len(texts) > _FEW_NUMBERS else None


_FEW_NUMBERS = 2


def _guesses(form: TextForm, text: str, options: TextOptions, others: Mapping[str, Conversion]) -> dict[str, Guess]:
    """Guess the columns from all rows of the beginning."""
    encoded = text.encode(errors="replace") + b"\n"
    if not encoded.strip():
        return {name: guess(pa.array([], pa.utf8()), None, None) for name in form.names}
    converting = pacsv.ConvertOptions(column_types=dict.fromkeys(form.names, pa.utf8()))
    try:
        table = pacsv.read_csv(pa.BufferReader(encoded), form.reading, form.parsing(lambda _: "skip"), converting)
    except pa.ArrowInvalid as exc:
        if "Empty CSV" not in str(exc):
            raise
        table = pa.table({name: pa.array([], pa.utf8()) for name in form.names})
    columns = {name: table[name].combine_chunks() for name in form.names}
    nulls = pa.array(options.nulls, pa.utf8())
    guesses = {}
    for name, column in columns.items():
        kept = column.filter(pc.invert(pc.is_in(column, nulls))) if options.nulls else column
        other = others.get(name)
        is_known = other is not None and other.kind not in _NO_VALUES and fits(kept, other)
        guesses[name] = Guess(other) if is_known and other else guess(kept, options.decimal, options.date_format)
        among = _text_among_numbers(kept) if guesses[name].conversion.kind == pa.utf8() else None
        if among is not None and not guesses[name].note:
            note = (
                f"{among!r} is the only text among numbers: kept as text; --types and --ignore-errors leave its row out"
            )
            guesses[name] = replace(guesses[name], note=note)
    signs = [guess.conversion.decimal for guess in guesses.values() if guess.conversion.is_grouped]
    if options.decimal is None and signs:
        # One column with a decimal comma, or groups, tells what the others have.
        for name, each in guesses.items():
            again = guess(columns[name], signs[0], options.date_format)
            if (is_unclear(columns[name]) or each.note) and is_number(again.conversion.kind):
                guesses[name] = again
    return guesses
