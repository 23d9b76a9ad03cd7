"""Casts to integers and to texts, and literals, as PostgreSQL and DuckDB have them.

DataFusion 55 cuts what is behind the point where they round: decimals, and numbers with a point, half away from zero, doubles to the
even one of two integers. Planning tells the types of what is cast (`engine.compat.operand_types`). A double is rounded by a typed
function, a decimal by `round(round(a))`, which names of columns leave out. Unnecessary with a release of DataFusion that rounds.
A double beyond those of REAL is infinite to DataFusion, and is refused.

Texts of moments, intervals and lists are those of `engine.functions.value_texts`, in casts as in functions over texts. A list is
no text to such a function, but its cast is.

`CAST(a AS VARCHAR(3))` keeps three characters, where DataFusion 55 ignores the length (its option
`datafusion.sql_parser.support_varchar_with_length`). The sum of a length and zero tells such a call from one of a client, so that
names of columns can leave it out.

DataFusion 55 reads literals otherwise than SQL: numbers that no double has, moments, and patterns.

**Numbers.** It would round them to doubles; they are decimals here. A number that is the shortest text of a double stays one, unless it
is beside a decimal (`engine.plans.arithmetic`), and so do the numbers of a vector.

**Texts that are cast**, and typed literals, `TIME '10:30'`: it reads fewer dates and numbers than PostgreSQL and DuckDB, and a time in '10'.

**Moments** that are written as texts. It compares a column of microseconds with a text as nanoseconds, which end in 2262, and wants
seconds and two digits of each part. Its error alone shows which texts are moments: a text that is compared with a text is none.

**Patterns** of SIMILAR TO and of LIKE with ESCAPE. It reads `SIMILAR TO` as `~`, which may match anywhere: unnecessary with a release
of https://github.com/apache/datafusion/pull/23188. Of LIKE it takes a backslash alone as escape character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.compat.checked_arithmetic import REALS, ROUNDED, Factors, is_concatenation
from lance_flight.engine.compat.operand_types import OPERAND, Span, named_alike, with_calls, wrap_spans
from lance_flight.engine.functions.readable_texts import CAST_TO, EXPECTED, READABLE, read_fields, readable_literal
from lance_flight.engine.functions.value_texts import ELEMENT_TEXTS, VALUE_TEXT, has_own_text
from lance_flight.engine.sql.clause_words import BEFORE_OPERAND, UNITS
from lance_flight.engine.sql.comparisons import Operands
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import (
    Edit,
    Kind,
    Token,
    closing_places,
    edit_text,
    outer_places,
    spelled_out,
    tokenize,
)
from lance_flight.errors import SqlError, Unsupported
from lance_flight.model.arrow_types import is_bytes, is_list, is_number, is_string
from lance_flight.model.type_names import type_name

MOST_EXACT = 15
"""Most digits of a number that a double always keeps."""
MOST_DECIMAL = 76
"""Most digits of a decimal; a longer number stays a double."""
_MOST_WHOLE = 2**64
_LONG = re.compile(rf"\d[\d.]{{{MOST_EXACT}}}")


def decimal_edits(text: str) -> list[Edit]:
    """Return the edits that make decimals of numbers that a double would round.

    >>> decimal_edits("SELECT 1.5, 1234567890123456.78, 0.30000000000000004")
    [(12, 31, "CAST('1234567890123456.78' AS DECIMAL(18, 2))")]
    """
    if _LONG.search(text) is None:
        return []
    edits, depth = [], 0
    for token in spelled_out(text):
        if token.kind is Kind.SIGN:
            depth += (token.text == "[") - (token.text == "]")
        elif token.kind is Kind.NUMBER and depth == 0 and _is_decimal(token.text):
            edits.append((token.start, token.stop, _decimal(token.text)))
    return edits


def row_edits(text: str) -> list[Edit]:
    """Return the same edits for rows of literals, where a column with one such number has decimals alone: beside doubles they lose digits.

    >>> row_edits("VALUES (0.1, 0.1), (0.2, 1234567890123456.78)")
    [(13, 16, "CAST('0.1' AS DECIMAL(1, 1))"), (25, 44, "CAST('1234567890123456.78' AS DECIMAL(18, 2))")]
    """
    if _LONG.search(text) is None:
        return []
    columns: dict[int, list[Token]] = {}
    depth = vectors = column = 0
    for token in spelled_out(text):
        if token.kind is Kind.SIGN:
            depth += (token.text == "(") - (token.text == ")")
            vectors += (token.text == "[") - (token.text == "]")
            column = 0 if depth == 0 else column + (token.text == "," and depth == 1 and vectors == 0)
        elif token.kind is Kind.NUMBER and vectors == 0:
            columns.setdefault(column, []).append(token)
    return [
        (token.start, token.stop, _decimal(token.text))
        for numbers in columns.values()
        if any(_is_decimal(token.text) for token in numbers)
        for token in numbers
        if _is_decimal(token.text) or _is_fraction(token.text)
    ]


def _is_fraction(number: str) -> bool:
    digits, scale = _size(number)
    return scale > 0 and digits <= MOST_DECIMAL and number.replace(".", "").isdigit()


def _decimal(number: str) -> str:
    digits, scale = _size(number)
    return f"CAST('{number}' AS DECIMAL({digits}, {scale}))"


def _is_decimal(number: str) -> bool:
    """Return whether a number is a decimal: no double has its text, and no integer of 64 bits."""
    digits, scale = _size(number)
    if not (number.replace(".", "").isdigit() and MOST_EXACT < digits <= MOST_DECIMAL):
        return False
    return (scale > 0 or int(number) >= _MOST_WHOLE) and Decimal(number) != Decimal(repr(float(number)))


def _size(number: str) -> tuple[int, int]:
    """Return the digits of a number, and those behind its point."""
    whole, _, fraction = number.partition(".")
    return max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction)


def cast_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits of literals that are cast, or are typed ones; `SqlError` for a text that is no date or no time.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT DATE '2024/1/5', '1.5'::INT, TRY_CAST('soon' AS TIME)"
    >>> edit_text(text, cast_edits(tokenize(text)))
    "SELECT DATE '2024-01-05', '2'::INT, TRY_CAST('' AS TIME)"
    """
    edits = []
    for place, token in enumerate(tokens[1:], 1):
        if token.kind is Kind.STRING:
            kind, may_fail = _cast_of(tokens, place)
            readable = readable_literal(kind, token.text) if kind else token.text
            if readable is None and not may_fail:
                raise SqlError(
                    f"{token.text[:60]!r} at character {token.start + 1} is no {kind}; expected {EXPECTED[kind]}"
                )
            fields = _fields(tokens, place) if kind == "INTERVAL" else None
            if fields is not None:
                readable = read_fields(token.text, *fields)
                edits.append((tokens[place + 1].start, tokens[place + 3].stop, ""))
            if readable != token.text:
                edits.append((token.start, token.stop, text_literal(readable or "")))
    return edits


def _fields(tokens: Sequence[Token], place: int) -> tuple[str, str] | None:
    """Return the first and the last field of the interval at a place, `'1-2' YEAR TO MONTH`; None where no fields follow."""
    words = [token.word for token in tokens[place + 1 : place + 4]]
    match words:
        case [first, "TO", last]:
            return first, last
    return None


def _cast_of(tokens: Sequence[Token], place: int) -> tuple[str, bool]:
    """Return the type that the text at a place is cast to, or no text, and whether what is no such value becomes NULL."""
    before, after = tokens[place - 1], tokens[place + 1 : place + 3]
    if before.word in EXPECTED or before.word in {"TIMESTAMP", "DATETIME"}:
        has_unit = before.word == "INTERVAL" and after[:1] and after[0].word.rstrip("S") in UNITS
        return ("" if has_unit and _fields(tokens, place) is None else before.word), False
    if before.is_sign(")") or before.word in CAST_TO:  # TIMESTAMP '…'::TIME casts a timestamp
        return "", False
    match after:
        case [Token(text="::"), Token() as kind]:
            return (_named(tokens, place + 2), False) if kind.word in CAST_TO else ("", False)
        case [Token() as word, Token() as kind] if word.word == "AS" and before.is_sign("(") and kind.word in CAST_TO:
            return _named(tokens, place + 2), place > 1 and tokens[place - 2].word == "TRY_CAST"
    return "", False


def has_time_zone(tokens: Sequence[Token], place: int) -> bool:
    """Return whether the type whose name is at a place goes on with WITH TIME ZONE.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> has_time_zone(tokenize("s::TIMESTAMP(6) WITH TIME ZONE"), 2), has_time_zone(tokenize("s::TIMESTAMP"), 2)
    (True, False)
    """
    behind = [token.word for token in tokens[place + 1 : place + 6]]
    return behind[:2] == ["WITH", "TIME"] or behind[3:] == ["WITH", "TIME"]


def _named(tokens: Sequence[Token], place: int) -> str:
    """Return the type at a place; `TIMESTAMP WITH TIME ZONE` in one word."""
    return f"{tokens[place].word}TZ" if has_time_zone(tokens, place) else tokens[place].word


_UNREAD = re.compile(
    r"Error parsing timestamp from '(?P<text>[^']*)'|Cannot cast string '(?P<date>[^']*)' to value of Date32"
)
_BEYOND = re.compile(r"Overflow converting (?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) to Nanosecond")
_SUSPECT = re.compile(r"'\s*\d{1,4}[-/]\d")
_MOMENT = re.compile(
    r"\s*(\d{1,4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?)?\s*"
)


def has_moments(sql: str) -> bool:
    """Return whether a query may have texts that are moments."""
    return _SUSPECT.search(sql) is not None


def with_readable_moment(sql: str, message: str) -> str | None:
    """Return a query whose moment DataFusion can read, after its error about it; None if the error is about something else.

    >>> with_readable_moment("SELECT ts > '2024-2-9 10:00'", "Error parsing timestamp from '2024-2-9 10:00': error parsing time")
    "SELECT ts > '2024-02-09 10:00:00'"
    >>> with_readable_moment("SELECT ts < '9999-12-31'", "Overflow converting 9999-12-31 00:00:00 to Nanosecond")
    "SELECT ts < CAST('9999-12-31 00:00:00' AS TIMESTAMP(6))"
    """
    unread, beyond = _UNREAD.search(message), _BEYOND.search(message)
    if unread is None and beyond is None:
        return None
    written = "" if unread is None else unread["text"] or unread["date"] or ""
    moment = _read(written if unread is not None else beyond["moment"] if beyond is not None else "")
    if moment is None:
        return None
    tokens = spelled_out(sql)
    places = {
        place
        for place, token in enumerate(tokens)
        if token.kind is Kind.STRING and not (place and tokens[place - 1].word == "TIMESTAMP")
        if (token.text == written if unread is not None else _read(token.text) == moment)
    }
    if beyond is not None:
        # Values that are compared together have one type.
        for place in sorted(places):
            places.update(list(_compared_with(tokens, place, places)))
    edits = []
    for place in places:
        readable = _read(tokens[place].text)
        if readable is not None:
            text = text_literal(readable.isoformat(" "))
            edits.append(
                (tokens[place].start, tokens[place].stop, text if beyond is None else f"CAST({text} AS TIMESTAMP(6))")
            )
    changed = edit_text(sql, edits)
    return changed if changed != sql else None


def _compared_with(tokens: Sequence[Token], place: int, known: set[int]) -> Iterator[int]:
    """Yield the places of the texts in the same list, or the other bound of the same BETWEEN, up to one that is known."""
    for step in (-2, 2):
        near = place + step
        while 0 <= near < len(tokens) and near not in known and tokens[near].kind is Kind.STRING:
            between = tokens[(near + near - step) // 2]
            is_bound = between.word == "AND" and tokens[min(near, near - step) - 1].word == "BETWEEN"
            if not (between.is_sign(",") or is_bound):
                break
            yield near
            near += step


def _read(text: str) -> datetime | None:
    """Return the moment that a text is; None if it is none, or has a zone."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    *parts, fraction = match.groups(default="0")
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")))  # noqa: DTZ001 - it has no zone
    except ValueError:
        return None


_SAME = frozenset("|*+?{}()[]")
"""Signs that mean the same in both."""


def pattern_edits(tokens: Sequence[Token]) -> list[Edit]:
    r"""Return the edits that write patterns so that DataFusion matches them.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT a SIMILAR TO '(a|b)%.txt', a LIKE '5!%' ESCAPE '!' FROM t"
    >>> edit_text(text, pattern_edits(tokenize(text)))
    "SELECT a SIMILAR TO '^(?s:(a|b).*\\.txt)$', a LIKE '5\\%' FROM t"
    """
    edits = []
    for place, token in enumerate(tokens):
        if token.word == "TO" and place and tokens[place - 1].word == "SIMILAR":
            pattern, escape, stop = _pattern(tokens, place + 1)
            if pattern is None:
                raise Unsupported(
                    "SIMILAR TO takes a pattern that is a literal; write one, or a regular expression and the operator ~"
                )
            regular = _expression(pattern.text, "\\" if escape is None else escape)
            edits.append((pattern.start, stop, text_literal(f"^(?s:{regular})$")))
        elif token.word in {"LIKE", "ILIKE"}:
            pattern, escape, stop = _pattern(tokens, place + 1)
            if pattern is not None and escape is not None:
                edits.append((pattern.start, stop, text_literal(_with_backslashes(pattern.text, escape))))
    return edits


def _pattern(tokens: Sequence[Token], place: int) -> tuple[Token | None, str | None, int]:
    """Return the literal pattern at a place, its escape character, and where they end; no pattern where it is no literal."""
    pattern = tokens[place] if place < len(tokens) and tokens[place].kind is Kind.STRING else None
    if pattern is None:
        return None, None, 0
    match tokens[place + 1 : place + 3]:
        case [Token(text=word), Token(kind=Kind.STRING, text=escape, stop=stop)] if word.upper() == "ESCAPE":
            return pattern, escape, stop
    return pattern, None, pattern.stop


def _with_backslashes(pattern: str, escape: str) -> str:
    """Return a pattern of LIKE whose escape character is a backslash."""
    parts, signs = [], iter(pattern)
    for sign in signs:
        if sign == escape:
            escaped = _read_escaped(signs, pattern)
            parts.append(f"\\{escaped}" if escaped in "%_\\" else escaped)
        else:
            parts.append("\\\\" if sign == "\\" else sign)
    return "".join(parts)


def _read_escaped(signs: Iterator[str], pattern: str) -> str:
    """Return the character after an escape character."""
    escaped = next(signs, None)
    if escaped is None:
        raise SqlError(f"the pattern {pattern!r} ends with its escape character; expected a character after it")
    return escaped


def _expression(pattern: str, escape: str) -> str:
    """Return the regular expression of a pattern: `%` is any text, `_` any character."""
    parts, signs, is_class = [], iter(pattern), False
    for sign in signs:
        if sign == escape:
            parts.append(re.escape(_read_escaped(signs, pattern)))
        elif is_class:
            parts.append(sign if sign in "]^-:" or sign.isalnum() else re.escape(sign))
            is_class = sign != "]"
        else:
            is_class = sign == "["
            parts.append({"%": ".*", "_": "."}.get(sign) or (sign if sign in _SAME else re.escape(sign)))
    return "".join(parts)


_INTEGERS = frozenset(["TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "INT2", "INT4", "INT8", "INT64"])
_CASTS = frozenset(["CAST", "TRY_CAST"])
_MAY_CAST = re.compile(rf"(?:\bAS\s+|::\s*)(?:{'|'.join(sorted(_INTEGERS))})\b", re.IGNORECASE)
_WHOLE = frozenset(["ROUND", "FLOOR", "CEIL", "CEILING", "TRUNC", "COUNT", "LENGTH", "STRPOS"])
"""Functions whose values have nothing behind the point, unless they are given a number of digits."""
_POINT = re.compile(r"\d*\.(?P<fraction>\d{1,18})")
_ROUND = "round(round("


_REALS = frozenset(["REAL", "FLOAT", "FLOAT4"])
_MAY_CAST_TO_REAL = re.compile(rf"(?:\bAS\s+|::\s*)(?:{'|'.join(sorted(_REALS))})\b(?!\s*\[)", re.IGNORECASE)


def may_cast_to_integers(text: str) -> bool:
    """Return whether a query may have a cast to an integer."""
    return _MAY_CAST.search(text) is not None


def with_cast_operands(text: str) -> tuple[str, list[str]]:
    """Return a text with what is cast to integers in functions that tell its type, and the names of the functions.

    >>> with_cast_operands("SELECT CAST(a * 2 AS INT), b::BIGINT, CAST(round(c) AS INT), CAST(d AS REAL) FROM t")[0]
    'SELECT CAST(__operand_call0(a * 2) AS INT), __operand_call1(b)::BIGINT, CAST(round(c) AS INT), CAST(d AS REAL) FROM t'
    """
    operands = Operands(tokenize(text))
    return named_alike(text, operands, list(_cast(operands)))


def with_rounded_casts(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with what is cast rounded, and the type of the argument of each typed function by its name."""
    operands = Operands(tokenize(text))
    around: dict[Span, tuple[str, str]] = {}
    rounded: dict[str, pa.DataType] = {}
    for span, name in zip(_cast(operands), names, strict=True):
        kind, number = types.get(name), _number(operands, span)
        if number is not None:
            around[span] = f"{_ROUND}CAST(", f" AS DECIMAL(38, {len(number['fraction'])}))))"
        elif kind is not None and pa.types.is_floating(kind):
            function = name.replace(OPERAND, ROUNDED)
            rounded[function] = kind
            around[span] = f"{function}(", ")"
        elif kind is not None and pa.types.is_decimal(kind) and kind.scale > 0:
            around[span] = _ROUND, "))"
    return wrap_spans(text, around), rounded


def _number(operands: Operands, span: Span) -> re.Match[str] | None:
    """Return the number with a point that is all of an operand but its signs and brackets; None for any other operand."""
    texts = [operands.text(place) for place in range(*span)]
    written = [text for text in texts if text not in {"(", ")", "-", "+"}]
    return _POINT.fullmatch(written[0]) if len(written) == 1 else None


def round_doubles(columns: Sequence[pa.Array]) -> pa.Array:
    """Round floats to whole ones."""
    (column,) = columns
    if pa.types.is_float16(column.type):  # all of which REAL has
        return round_doubles([column.cast(pa.float32())]).cast(column.type)
    return pc.round(column, 0, round_mode="half_to_even")


def may_cast_to_reals(text: str) -> bool:
    """Return whether a query may have a cast to REAL."""
    return _MAY_CAST_TO_REAL.search(text) is not None


def with_real_operands(word: str, text: str) -> tuple[str, list[str]]:
    """Return a text with what CAST or TRY_CAST casts to REAL in functions that tell its type, and the names of the functions.

    >>> with_real_operands("CAST", "SELECT CAST(a AS REAL), TRY_CAST(b AS REAL), c::FLOAT FROM t")[0]
    'SELECT CAST(__operand_call0(a) AS REAL), TRY_CAST(b AS REAL), __operand_call1(c)::FLOAT FROM t'
    """
    operands = Operands(tokenize(text))
    return named_alike(text, operands, list(_cast_to_reals(operands, word)))


def with_fitting_reals(
    word: str, text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with doubles that are cast to REAL in a typed function, and the type of its argument by its name."""
    spans = zip(_cast_to_reals(Operands(tokenize(text)), word), names, strict=True)
    doubles = {span: name for span, name in spans if types.get(name) == pa.float64()}
    return with_calls(text, REALS[word], doubles, types)


def _cast_to_reals(operands: Operands, word: str) -> Iterator[Span]:
    for start, stop in _cast_to(operands, _REALS):
        if (operands.word_at(start - 2) == "TRY_CAST" and operands.is_sign(start - 1, "(")) == (word == "TRY_CAST"):
            yield start, stop


def fit_reals(word: str, columns: Sequence[pa.Array]) -> pa.Array:
    """Return doubles as they are; one that REAL has not is NULL to TRY_CAST, and a `SqlError` to CAST."""
    (column,) = columns
    is_beyond = pc.and_(pc.is_finite(column), pc.is_inf(column.cast(pa.float32(), safe=False)))
    if word == REALS["TRY_CAST"]:
        return pc.if_else(is_beyond.fill_null(pa.scalar(value=False)), pa.scalar(None, pa.float64()), column)
    if pc.any(is_beyond).as_py():
        value = column.filter(is_beyond)[0].as_py()
        raise SqlError(f"{value!r} is beyond REAL, which ends at 3.4e38; write CAST(… AS DOUBLE), or TRY_CAST for NULL")
    return column


OF_SECONDS = "timestamp_of_seconds"
"""The function of a number that is the argument of to_timestamp."""
_TO_TIMESTAMP = re.compile(r"\bto_timestamp\s*\(", re.IGNORECASE)


def may_make_timestamps(text: str) -> bool:
    """Return whether a query may call to_timestamp."""
    return _TO_TIMESTAMP.search(text) is not None


def with_seconds(text: str) -> tuple[str, list[str]]:
    """Return a text with what to_timestamp is called with alone in functions that tell its type, and the names of the functions.

    >>> with_seconds("SELECT to_timestamp(a + 1), to_timestamp(b, '%Y')")[0]
    "SELECT to_timestamp(__operand_call0(a + 1)), to_timestamp(b, '%Y')"
    """
    operands = Operands(tokenize(text))
    return named_alike(text, operands, [span for _, span in _of_seconds(operands)])


def with_timestamps_of_seconds(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with calls of a typed function of numbers, and the type of the argument of each by its name.

    DataFusion makes nanoseconds of them, which end in 2262, and of a double beyond these it makes the last one.
    """
    operands = Operands(tokenize(text))
    edits: list[Edit] = []
    numbers: dict[str, pa.DataType] = {}
    for (token, _), name in zip(_of_seconds(operands), names, strict=True):
        kind = types.get(name)
        if kind is not None and is_number(kind):
            numbers[name.replace(OPERAND, OF_SECONDS)] = kind
            edits.append((token.start, token.stop, name.replace(OPERAND, OF_SECONDS)))
    return edit_text(text, edits), numbers


def _of_seconds(operands: Operands) -> Iterator[tuple[Token, Span]]:
    """Yield the names of the calls of to_timestamp with one argument, and these arguments."""
    for at, token in enumerate(operands.tokens):
        closed = operands.partners.get(at + 1)
        if token.text.lower() != "to_timestamp" or closed is None or closed == at + 2:
            continue
        if not any(operands.is_sign(place, ",") for place in outer_places(operands.partners, range(at + 2, closed))):
            yield token, (at + 2, closed)


def without_rounds(name: str) -> str:
    """Return the name of a column as it is without the rounding of what is cast to an integer.

    >>> without_rounds("round(round(t.m * Int64(2))) + Int64(1)")
    't.m * Int64(2) + Int64(1)'
    """
    while (start := name.find(_ROUND)) >= 0:
        depth, stop = 2, start + len(_ROUND)
        while stop < len(name) and depth > 1:
            depth += (name[stop] == "(") - (name[stop] == ")")
            stop += 1
        name = name[:start] + name[start + len(_ROUND) : stop - 1] + name[stop + 1 :]
    return name


def _cast(operands: Operands) -> Iterator[Span]:
    """Yield what is cast to an integer, but for whole numbers and texts that are written there, and values that are whole."""
    for start, stop in _cast_to(operands, _INTEGERS):
        if not _is_whole(operands, start, stop):
            yield start, stop


def _cast_to(operands: Operands, words: AbstractSet[str]) -> Iterator[Span]:
    """Yield what is cast to a type of one of some names."""
    tokens = operands.tokens
    for at, token in enumerate(tokens):
        if token.word not in words or at < len("a::") or has_time_zone(tokens, at):
            continue
        if tokens[at - 1].is_sign("::") and not operands.is_sign(at + 1, "["):
            span = first_of_operand(tokens, at - 2, operands.partners), at - 1
        elif tokens[at - 1].word == "AS":
            closed = at + 1 + (operands.word_at(at + 1) in {"UNSIGNED", "SIGNED"})
            closed = operands.partners.get(closed, closed - 1) + 1 if operands.is_sign(closed, "(") else closed
            opened = operands.partners.get(closed, -1)
            if not operands.is_sign(closed, ")") or operands.word_at(opened - 1) not in _CASTS:
                continue
            span = opened + 1, at - 1
        else:
            continue
        if span[0] < span[1]:
            yield span


def _is_whole(operands: Operands, start: int, stop: int) -> bool:
    token, is_last = operands.tokens[start], operands.partners.get(start + 1) == stop - 1
    if stop - start == 1 and (token.kind is Kind.STRING or (token.kind is Kind.NUMBER and token.is_whole)):
        return True
    return token.word in _WHOLE and is_last and not any(each.is_sign(",") for each in operands.tokens[start:stop])


_TEXTS = frozenset(["VARCHAR", "CHAR", "NVARCHAR"])
_ALL_TEXTS = _TEXTS | {"TEXT", "STRING", "CHARACTER"}
_TEXT_FUNCTIONS: Mapping[str, str | None] = MappingProxyType(
    {
        "CONCAT": "list_concat(a, b)",
        "CONCAT_WS": "array_to_string(l, ',')",
        "STRING_AGG": None,
        "LENGTH": "len(l)",
        "CHAR_LENGTH": "len(l)",
        "CHARACTER_LENGTH": "len(l)",
        "REVERSE": "list_reverse(l)",
        "LEFT": "l[1:n]",
        "RIGHT": "l[-n:]",
        "LPAD": "list_resize(l, n)",
        "RPAD": "list_resize(l, n)",
        "REGEXP_REPLACE": "list_transform(l, x -> regexp_replace(x, 'a', 'b'))",
    }
)
"""Functions that take any value as its text, and what to write of a list in their place; None where its text is meant."""
_LENGTHS = frozenset(["LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"])
_AGGREGATES = frozenset(["STRING_AGG"])
_MAY_CAST_TEXT = re.compile(
    rf"(?:\bAS\s+|::\s*)(?:{'|'.join(sorted(_ALL_TEXTS))})\b|\|\||\b(?:{'|'.join(_TEXT_FUNCTIONS)})\s*\(", re.IGNORECASE
)


_UNSIGNED = frozenset(
    [
        *("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "REGR_COUNT", "APPROX_DISTINCT"),
        *("ARRAY_LENGTH", "LIST_LENGTH", "CARDINALITY", "ARRAY_NDIMS", "LIST_NDIMS"),
        *("ARRAY_POSITION", "LIST_POSITION", "ARRAY_INDEXOF", "LIST_INDEXOF"),
    ]
)
"""Functions that DataFusion 55 gives as BIGINT UNSIGNED, whose quotients by BIGINT would have fractions."""


def whole_number_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that make BIGINT of numbers of rows and elements, as PostgreSQL and DuckDB have them.

    >>> from lance_flight.engine.sql.tokens import edit_text
    >>> text = "SELECT row_number() OVER (ORDER BY a) / 10, rank FROM t"
    >>> edit_text(text, whole_number_edits(tokenize(text)))
    'SELECT CAST(row_number() OVER (ORDER BY a) AS BIGINT) / 10, rank FROM t'
    """
    if all(token.word not in _UNSIGNED for token in tokens):
        return []
    operands, edits = Factors(tokens), list[Edit]()
    for at, token in enumerate(tokens):
        if token.word in _UNSIGNED and operands.is_sign(at + 1, "(") and not operands.is_sign(at - 1, "."):
            stop = tokens[operands.after_call(operands.partners[at + 1] + 1) - 1].stop
            edits += [(token.start, token.start, "CAST("), (stop, stop, " AS BIGINT)")]
    return sorted(edits)


def may_cast_to_texts(text: str) -> bool:
    """Return whether a query may make texts of other values."""
    return _MAY_CAST_TEXT.search(text) is not None


def with_texts(text: str) -> tuple[str, list[str]]:
    """Return a text with what becomes a text in functions that tell its type, and the names of the functions.

    >>> with_texts("SELECT CAST(a AS VARCHAR(3)), b::text || c, concat(d, 'x') FROM t")[0]
    "SELECT CAST(__operand_call0(a) AS VARCHAR(3)), __operand_call1(b)::text || __operand_call2(c), concat(__operand_call3(d), 'x') FROM t"
    """
    operands = Factors(tokenize(text))
    return named_alike(text, operands, list(_made_texts(operands)))


def with_value_texts(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with texts in place of the values that become texts, and the type of the argument of each new call."""
    spans: dict[Span, str] = {}
    made = list(zip(_made_texts(Factors(tokenize(text))).items(), names, strict=True))
    for (_, maker), name in made:
        if maker in _LENGTHS and is_bytes(types.get(name, pa.null())):
            raise SqlError(
                f"{maker.lower()} counts characters, got VARBINARY; write octet_length(b), or {maker.lower()}(decode(b))"
            )
    for (span, maker), name in made:
        if name in types and has_own_text(types[name]):
            if pa.types.is_nested(types[name]) and _TEXT_FUNCTIONS.get(maker) is not None:
                raise SqlError(
                    f"{maker.lower()} takes a text, got {type_name(types[name])}; write {_TEXT_FUNCTIONS[maker]}, or CAST(l AS VARCHAR)"
                )
            if not (maker == "||" and pa.types.is_nested(types[name])):
                spans[span] = name
    return with_calls(text, VALUE_TEXT, spans, types)


_MAY_JOIN = re.compile(r"\b(?:array|list)_(?:to_string|join)\s*\(", re.IGNORECASE)
_JOINS = frozenset(["ARRAY_TO_STRING", "LIST_TO_STRING", "ARRAY_JOIN", "LIST_JOIN"])


def may_join_lists(text: str) -> bool:
    """Return whether a query may join the elements of a list."""
    return _MAY_JOIN.search(text) is not None


def with_joined_lists(text: str) -> tuple[str, list[str]]:
    """Return a text with the lists whose elements are joined in functions that tell their types, and the names of the functions."""
    operands = Operands(tokenize(text))
    return named_alike(text, operands, _joined_lists(operands))


def with_element_texts(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> tuple[str, dict[str, pa.DataType]]:
    """Return the text with lists of texts in place of lists of moments, intervals or lists, and the type of the argument of each new call."""
    joined = zip(_joined_lists(Operands(tokenize(text))), names, strict=True)
    spans = {
        span: name
        for span, name in joined
        if name in types and is_list(types[name]) and has_own_text(types[name].value_type)
    }
    return with_calls(text, ELEMENT_TEXTS, spans, types)


def _joined_lists(operands: Operands) -> list[Span]:
    return [
        span
        for at, token in enumerate(operands.tokens)
        if token.word in _JOINS and operands.is_sign(at + 1, "(")
        for span in operands.read_items(at + 1)[:1]
    ]


@dataclass(frozen=True, slots=True)
class TextCasts:
    """Casts to types of some names, before which texts of columns go through a `function` that makes them readable.

    >>> READABLE_CASTS[1].with_operands("SELECT a::TIMESTAMP(6), TRY_CAST(b AS DATE), CAST('2024-01-05' AS TIMESTAMP) FROM t")[0]
    "SELECT __operand_call0(a)::TIMESTAMP(6), TRY_CAST(__operand_call1(b) AS DATE), CAST('2024-01-05' AS TIMESTAMP) FROM t"
    """

    function: str
    names: AbstractSet[str]

    def are_in(self, text: str) -> bool:
        """Return whether a query may have such a cast."""
        return any(match["name"].upper() in self.names for match in _CAST_TO.finditer(text))

    def with_operands(self, text: str) -> tuple[str, list[str]]:
        """Return a text with what is cast in functions that tell its type, and the names of the functions."""
        operands = Operands(tokenize(text))
        return named_alike(text, operands, self._spans(operands))

    def with_readable_texts(
        self, text: str, names: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> tuple[str, dict[str, pa.DataType]]:
        """Return the text with readable texts in place of those that are cast, and the type of the argument of each new call."""
        cast = zip(self._spans(Operands(tokenize(text))), names, strict=True)
        return with_calls(
            text, self.function, {span: name for span, name in cast if name in types and is_string(types[name])}, types
        )

    def _spans(self, operands: Operands) -> list[Span]:
        spans = _cast_to(operands, self.names)
        return [
            (start, stop)
            for start, stop in spans
            if stop - start > 1 or operands.kind(start) not in {Kind.STRING, Kind.NUMBER}
        ]


_CAST_TO = re.compile(r"(?:\bAS\s+|::\s*)(?P<name>\w+)", re.IGNORECASE)
READABLE_CASTS = tuple(
    TextCasts(function, frozenset(name for name, used in CAST_TO.items() if used == function)) for function in READABLE
)


def _made_texts(operands: Factors) -> dict[Span, str]:
    """Return what is cast to a text, `||` or is taken as a text by a function, and by which, but for literals and casts to texts."""
    spans = [(span, "CAST") for span in _cast_to(operands, _ALL_TEXTS)]
    for at, token in enumerate(operands.tokens):
        if token.word in _TEXT_FUNCTIONS and operands.is_sign(at + 1, "("):
            items = operands.read_items(at + 1)
            spans += [
                (item, token.word)
                for item in (_items_of_string_agg(operands, items) if token.word in _AGGREGATES else items)
            ]
        elif is_concatenation(operands.tokens, at):
            spans += [((operands.left_of(at, "*"), at), "||"), ((at + 2, operands.right_of(at + 1, "*")), "||")]
    return {span: maker for span, maker in spans if span[0] < span[1] and not _is_text(operands, *span)}


def _items_of_string_agg(operands: Factors, items: Sequence[Span]) -> Iterator[Span]:
    """Yield the value that string_agg joins."""
    for start, stop in items[:1]:
        yield start + (operands.word_at(start) == "DISTINCT"), stop


def _is_text(operands: Factors, start: int, stop: int) -> bool:
    """Return whether a value is a literal, but for a number with an exponent, or is cast to a text."""
    is_number = operands.kind(start) is Kind.NUMBER and not operands.text(start).isdigit()
    is_literal = stop - start == 1 and operands.kind(start) not in {Kind.WORD, Kind.NAME} and not is_number
    return is_literal or (operands.word_at(stop - 1) in _ALL_TEXTS and operands.is_sign(stop - 2, "::"))


def text_length_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that cut the text of each cast to a type with a length.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT CAST(a AS CHAR(2)), f(b)::varchar(3) FROM t"
    >>> edit_text(text, text_length_edits(tokenize(text)))
    'SELECT left(CAST(a AS CHAR), 2 + 0), left(f(b)::varchar, 3 + 0) FROM t'
    """
    lengths = list(_lengths(tokens))
    if not lengths:
        return []
    opening = {stop: start for start, stop in closing_places(tokens, "([", ")]").items()}
    return [edit for place, opened in lengths for edit in _edits(tokens, place, opened, opening)]


_CUT = re.compile(r",Int64\(\d+\) \+ Int64\(0\)\)")
_LEFT = "left("


def without_lengths(name: str) -> str:
    """Return the name of a column as it is without the cuts of casts to types with lengths.

    >>> without_lengths("upper(left(concat(t.a,t.b),Int64(3) + Int64(0)))")
    'upper(concat(t.a,t.b))'
    """
    while (match := _CUT.search(name)) is not None:
        depth, start = 0, match.start()
        while start >= 0 and not (depth == 0 and name.endswith(_LEFT, 0, start)):
            start -= 1
            depth += (name[start] == ")") - (name[start] == "(")
        if start < 0:
            return name
        name = name[: start - len(_LEFT)] + name[start : match.start()] + name[match.end() :]
    return name


def _lengths(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the place of each text type that a cast may name, and of the bracket of its length."""
    for place in range(1, len(tokens) - 3):
        if tokens[place].word in _TEXTS and (tokens[place - 1].is_sign("::") or tokens[place - 1].word == "AS"):
            opened = place + 1
            if tokens[opened].is_sign("(") and tokens[opened + 1].is_whole and tokens[opened + 2].is_sign(")"):
                yield place, opened


def _edits(tokens: Sequence[Token], place: int, opened: int, opening: Mapping[int, int]) -> Iterator[Edit]:
    length, end = tokens[opened + 1].text, opened + len(("(", "3"))
    if tokens[place - 1].is_sign("::"):
        first = tokens[first_of_operand(tokens, place - 2, opening)].start
        yield first, first, "left("
        yield tokens[opened].start, tokens[end].stop, f", {length} + 0)"
        return
    bracket = opening.get(end + 1)
    if bracket is not None and bracket and tokens[bracket - 1].word in _CASTS:
        yield tokens[bracket - 1].start, tokens[bracket - 1].start, "left("
        yield tokens[opened].start, tokens[end].stop, ""
        yield tokens[end + 1].stop, tokens[end + 1].stop, f", {length} + 0)"


def first_of_operand(tokens: Sequence[Token], last: int, opening: Mapping[int, int]) -> int:
    """Return the first token of the column, call, brackets or literal that ends at a place, with the casts of it."""
    first = last
    while True:
        if first in opening:
            first = opening[first]
            while first and tokens[first].is_sign("[") and first - 1 in opening:
                first = opening[first - 1]
            if first and _is_name(tokens[first - 1]):
                first -= 1
        while first > 1 and tokens[first - 1].is_sign(".") and _is_name(tokens[first - 2]):
            first -= 2
        if (
            first
            and tokens[first].kind is Kind.STRING
            and tokens[first - 1].kind is Kind.WORD
            and _touches(tokens, first)
        ):
            first -= 1  # X'00'
        if first == 0 or not tokens[first - 1].is_sign("::"):
            return first
        first -= 2


def _touches(tokens: Sequence[Token], place: int) -> bool:
    return tokens[place - 1].stop == tokens[place].start


def _is_name(token: Token) -> bool:
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in BEFORE_OPERAND)
