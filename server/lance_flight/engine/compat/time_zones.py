"""AT TIME ZONE as in PostgreSQL and DuckDB: a moment becomes the local time of a zone, and a local time the moment, which is one in UTC.

DataFusion 55 gives a moment in the zone for both, of nanoseconds: the wall clock of another zone behind a second AT TIME ZONE is that of
the first moment. The types of operands tell which of both is meant, so those within an operand, and within a query below, come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lance_flight.engine.compat.checked_arithmetic import Factors
from lance_flight.engine.compat.operand_types import Span, named_alike
from lance_flight.engine.functions.date_spans import LOCAL_MOMENT
from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.tokens import Edit, Kind, edit_text, tokenize
from lance_flight.errors import SqlError
from lance_flight.model.zones import named_zone

MOST_ROUNDS = 32
"""Most queries within one another, and conversions of conversions, whose types are asked."""
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
    found = list(_operands(factors))
    places = [stop for _, stop in found]
    first = [span for span in found if not any(span[0] <= place < span[1] for place in places)]
    queries = {span: _queries_around(factors, span[0]) for span in first}
    deepest = max(first, key=lambda span: len(queries[span]), default=None)
    return [span for span in first if deepest is not None and queries[span] == queries[deepest]]


def _operands(factors: Factors) -> Iterator[Span]:
    for at, token in enumerate(factors.tokens[: -len(_WORDS)]):
        if token.word == "AT" and tuple(factors.word_at(at + step) for step in range(len(_WORDS))) == _WORDS:
            start = factors.left_of(at, "*")
            if start < at and factors.kind(at + len(_WORDS)) is Kind.STRING:
                yield start, at


def _queries_around(factors: Factors, at: int) -> Sequence[int]:
    """Return the brackets of the queries around a token."""
    return [
        opened
        for opened, closed in sorted(factors.partners.items())
        if opened < at < closed and factors.is_sign(opened, "(") and factors.word_at(opened + 1) in QUERIES
    ]
