"""TOP n and FETCH FIRST n ROWS ONLY, which other dialects write for LIMIT n."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.sql.token_places import TokenPlaces
from lance_flight.engine.sql.tokens import Kind

_COUNTS = frozenset({Kind.NUMBER, Kind.PARAMETER})


@dataclass(frozen=True, slots=True)
class RowLimit:
    """A limit of rows: how many, as it is written, and the places of its first token and of the first one behind it."""

    count: str
    at: int
    end: int


def is_top(places: TokenPlaces, at: int) -> bool:
    """Return whether a word TOP begins a limit; else it is a name."""
    return places.kind(at + 1) in _COUNTS or places.text(at + 1) == "("


def read_top(places: TokenPlaces, at: int) -> RowLimit | None:
    """Return the limit of `TOP n` or `TOP (n)`; None for PERCENT, WITH TIES and computed numbers."""
    is_bracketed = places.text(at + 1) == "("
    number = at + 1 + is_bracketed
    end = number + 1 + is_bracketed
    if places.kind(number) not in _COUNTS or (is_bracketed and places.text(number + 1) != ")"):
        return None
    return None if places.word_at(end) in {"PERCENT", "WITH"} else RowLimit(places.text(number), at, end)


def read_fetch(places: TokenPlaces, at: int) -> RowLimit | None:
    """Return the limit of `FETCH FIRST [n] ROWS ONLY`; None for PERCENT and WITH TIES."""
    has_number = places.kind(at + 2) in _COUNTS
    rows = at + 2 + has_number
    if places.word_at(rows) not in {"ROW", "ROWS"} or places.word_at(rows + 1) != "ONLY":
        return None
    return RowLimit(places.text(at + 2) if has_number else "1", at, rows + 2)
