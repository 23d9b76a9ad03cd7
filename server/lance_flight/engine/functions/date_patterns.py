"""Patterns of to_char as PostgreSQL writes them, in the letters of strftime that DataFusion reads.

DataFusion 55 returns a pattern without `%` as it is: `to_char(ts, 'YYYY-MM')` is 'YYYY-MM' of every row. The pattern that the client
wrote stands behind its own, so that names of columns can say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places
from lance_flight.errors import Unsupported

_CALLS = frozenset(["TO_CHAR", "DATE_FORMAT"])
_PARTS = dict(
    part.split("=")
    for part in [
        "YYYY=%Y",
        "YY=%y",
        "MM=%m",
        "MON=%b",
        "DDD=%j",
        "DD=%d",
        "DY=%a",
        "ID=%u",
        "IYYY=%G",
        "IW=%V",
        "HH24=%H",
        "HH12=%I",
        "HH=%I",
        "MI=%M",
        "SS=%S",
        "MS=%3f",
        "US=%6f",
        "AM=%p",
        "PM=%p",
        "FMMONTH=%B",
        "FMDAY=%A",
    ]
)
_PADDED = frozenset(["MONTH", "DAY"])
"""Patterns of names that PostgreSQL pads with spaces."""
_PART = re.compile("|".join(sorted({*_PARTS, *_PADDED}, key=len, reverse=True)), re.IGNORECASE)
_AS_WRITTEN = {"MON": "Mon", "DY": "Dy", "FMMONTH": "FMMonth", "FMDAY": "FMDay"}
"""Patterns of names: PostgreSQL writes the name in the letters of the pattern."""
_QUOTED = re.compile(r'"([^"]*)"')


def date_pattern_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write the patterns of to_char for DataFusion; `Unsupported` for one that has no other form.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT to_char(ts, 'YYYY-MM-DD HH24:MI'), to_char(ts, '%Y')"
    >>> edit_text(text, date_pattern_edits(tokenize(text)))
    "SELECT to_char(ts, coalesce('%Y-%m-%d %H:%M', 'YYYY-MM-DD HH24:MI')), to_char(ts, '%Y')"
    """
    return [
        (token.start, token.stop, f"coalesce({text_literal(strftime_of(token.text))}, {text_literal(token.text)})")
        for token in _patterns(tokens)
    ]


_BOTH = re.compile(r'coalesce\(Utf8\("[^"]*%[^"]*"\),(Utf8\("[^"%]*"\))\)')


def without_strftime(name: str) -> str:
    """Return the name of a column with the patterns that the client wrote.

    >>> without_strftime('to_char(t.ts,coalesce(Utf8("%Y-%m"),Utf8("YYYY-MM")))')
    'to_char(t.ts,Utf8("YYYY-MM"))'
    """
    return _BOTH.sub(r"\1", name)


def _patterns(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the pattern of each call that has letters and no `%`."""
    places = [
        place for place, token in enumerate(tokens[:-1]) if token.word in _CALLS and tokens[place + 1].is_sign("(")
    ]
    closing = closing_places(tokens) if places else {}
    for place in places:
        stop = closing.get(place + 1, 0)
        pattern = tokens[stop - 1]
        is_alone = stop > place and tokens[stop - 2].is_sign(",") and pattern.kind is Kind.STRING
        if is_alone and "%" not in pattern.text and re.search(r"[A-Za-z]", pattern.text):
            yield pattern


def strftime_of(pattern: str) -> str:
    """Return a pattern in strftime's letters."""
    texts = _QUOTED.split(pattern)
    return "".join(text if place % 2 else _unquote(text, pattern) for place, text in enumerate(texts))


def _unquote(text: str, pattern: str) -> str:
    def part(found: re.Match[str]) -> str:
        word = found[0].upper()
        if word in _PADDED:
            raise Unsupported(f"{found[0]!r} in the pattern {pattern!r} is padded with spaces; write FM{found[0]}")
        if _AS_WRITTEN.get(word, found[0]) != found[0]:
            raise Unsupported(
                f"{found[0]!r} in the pattern {pattern!r}; expected {_AS_WRITTEN[word]}, or the letters of strftime"
            )
        return f"\0{_PARTS[word]}"

    rest = _PART.sub(part, text)
    left = re.sub(r"\0%\d?[A-Za-z]", "", rest)
    unread = re.search(r"[A-Za-z]+", left)
    if unread is not None:
        raise Unsupported(
            f"{unread[0]!r} in the pattern {pattern!r}; expected {', '.join(_PARTS)}, texts in double quotes,"
            " or the letters of strftime: '%Y-%m-%d'"
        )
    return rest.replace("\0", "")
