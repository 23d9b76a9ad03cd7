"""AT TIME ZONE as in PostgreSQL and DuckDB: a moment becomes the local time of a zone, and a local time the moment, which is one in UTC.

DataFusion 55 gives a moment in the zone for both, of nanoseconds: the wall clock of another zone behind a second AT TIME ZONE is that of
the first moment. The types of operands tell which of both is meant, so those within an operand, and within a query below, come first.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_flight.engine.compat.checked_arithmetic import Factors
from lance_flight.engine.compat.operand_types import Span, named_alike
from lance_flight.engine.functions.date_spans import LOCAL_MOMENT
from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.tokens import Edit, Kind, edit_text, tokenize
from lance_flight.errors import SqlError
from lance_flight.model.zones import named_zone

_AT = re.compile(r"\bAT\s+TIME\s+ZONE\b", re.IGNORECASE)
_WORDS = ("AT", "TIME", "ZONE")
_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def may_convert_zones(text: str) -> bool:
    """Return whether a query may convert a time to another zone."""
    return _AT.search(text) is not None


def with_converted(text: str) -> tuple[str, list[str]]:
    """Return a text with the operands that are converted next in functions that tell their types, and the names of the functions.

    >>> with_converted("SELECT a AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo', b + c::TIMESTAMP AT TIME ZONE 'UTC'")[0]
    "SELECT __operand_call0(a) AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo', b + __operand_call1(c::TIMESTAMP) AT TIME ZONE 'UTC'"
    """
    factors = Factors(tokenize(text))
    return named_alike(text, factors, _next_operands(factors))


def with_zones(
    text: str, names: Sequence[str], types: Mapping[str, pa.DataType], count: int
) -> tuple[str, frozenset[str]]:
    """Return the text with calls in place of the conversions of these operands, and the names of those that give the moment of a local time.

    The query has `count` calls before.
    """
    factors = Factors(tokenize(text))
    edits: list[Edit] = []
    named: dict[str, str] = {}
    for (start, stop), name in zip(_next_operands(factors), names, strict=True):
        zone, kind = factors.tokens[stop + len(_WORDS)], types.get(name)
        if kind is None:
            continue
        if named_zone(zone.text) is None:
            raise SqlError(f"time zone {zone.text!r} is not known; expected one as 'Europe/Berlin' or '+02:00'")
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            before = "to_local_time(arrow_cast("
            behind = f", 'Timestamp({_UNITS[kind.unit]}, Some(\"{zone.text}\"))'))"
        else:
            call = named.setdefault(name, f"__{LOCAL_MOMENT}_call{count + len(named)}")
            is_text = not (pa.types.is_timestamp(kind) or pa.types.is_date(kind))
            before, behind = f"{call}({'CAST(' * is_text}", f"{' AS TIMESTAMP(6))' * is_text}, '{zone.text}')"
        edits.append((factors.tokens[start].start, factors.tokens[start].start, before))
        edits.append((factors.tokens[stop - 1].stop, zone.stop, behind))
    return edit_text(text, edits), frozenset(named.values())


def _next_operands(factors: Factors) -> list[Span]:
    """Return the operands of AT TIME ZONE that have none within them, of one of the queries that stand deepest within others."""
    queries = _queries_of_conversions(factors)
    places = list(queries)
    first: list[Span] = []
    for number, at in enumerate(places):
        # The conversion of a conversion, of which there may be a long chain, begins where the first one does.
        if number == 0 or places[number - 1] + len(_WORDS) + 1 != at:
            start = factors.left_of(at, "*")
            if start < at and bisect_left(places, start) == number:
                first.append((start, at))
    deepest = max((queries[at] for _, at in first), key=len, default=())
    return [span for span in first if queries[span[1]] == deepest]


def _queries_of_conversions(factors: Factors) -> dict[int, tuple[int, ...]]:
    """Return the place of each AT TIME ZONE 'zone', with the brackets of the queries around it."""
    around: tuple[int, ...] = ()
    queries: dict[int, tuple[int, ...]] = {}
    for at, token in enumerate(factors.tokens):
        while around and factors.partners[around[-1]] <= at:
            around = around[:-1]
        if token.is_sign("(") and factors.word_at(at + 1) in QUERIES and at in factors.partners:
            around = (*around, at)
        is_conversion = tuple(factors.word_at(at + step) for step in range(len(_WORDS))) == _WORDS
        if is_conversion and factors.kind(at + len(_WORDS)) is Kind.STRING:
            queries[at] = around
    return queries
