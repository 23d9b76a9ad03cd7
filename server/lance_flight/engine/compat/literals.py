"""Literals that DataFusion 55 reads otherwise than SQL: numbers that no double has, moments, and patterns.

**Numbers.** It would round them to doubles; they are decimals here. A number that is the shortest text of a double stays one, unless it
is beside a decimal (`engine.plans.decimal_numbers`), and so do the numbers of a vector.

**Texts that are cast**, and typed literals, `TIME '10:30'`: it reads fewer dates and numbers than PostgreSQL and DuckDB, and a time in '10'.

**Moments** that are written as texts. It compares a column of microseconds with a text as nanoseconds, which end in 2262, and wants
seconds and two digits of each part. Its error alone shows which texts are moments: a text that is compared with a text is none.

**Patterns** of SIMILAR TO and of LIKE with ESCAPE. It reads `SIMILAR TO` as `~`, which may match anywhere: unnecessary with a release
of https://github.com/apache/datafusion/pull/23188. Of LIKE it takes a backslash alone as escape character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal

from lance_flight.engine.functions.readable_texts import CAST_TO, EXPECTED, read_fields, readable_literal
from lance_flight.engine.sql.clause_words import UNITS
from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token, edit_text, spelled_out
from lance_flight.errors import SqlError, Unsupported

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
