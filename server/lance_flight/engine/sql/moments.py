"""Moments that are written as texts, in the forms that DataFusion 55 reads.

It compares a column of microseconds with a text as nanoseconds, which end in 2262, and wants seconds and two digits of each part.
Which texts are moments shows in its error alone: a text that is compared with a text is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from lance_flight.engine.sql.references import text_literal
from lance_flight.engine.sql.tokens import Kind, Token, edit_text, spelled_out

_UNREAD = re.compile(r"Error parsing timestamp from '(?P<text>[^']*)'")
_BEYOND = re.compile(r"Overflow converting (?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) to Nanosecond")
_SUSPECT = re.compile(r"'\s*\d{1,4}-\d")
_MOMENT = re.compile(
    r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[T ]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?)?\s*"
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
    moment = _read(unread["text"] if unread is not None else beyond["moment"] if beyond is not None else "")
    if moment is None:
        return None
    tokens = spelled_out(sql)
    places = {
        place
        for place, token in enumerate(tokens)
        if token.kind is Kind.STRING and not (place and tokens[place - 1].word == "TIMESTAMP")
        if (token.text == unread["text"] if unread is not None else _read(token.text) == moment)
    }
    if beyond is not None:
        # Values that are compared together have one type.
        for place in sorted(places):
            places.update(list(_compared_with(tokens, place, places)))
    edits = []
    for place in places:
        found = _read(tokens[place].text)
        if found is not None:
            text = text_literal(found.isoformat(" "))
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
