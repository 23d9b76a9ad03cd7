"""Products of intervals and numbers, `INTERVAL '1 day' * 2`, which DataFusion 55 does not compute.

Of two literals the product is a literal. Of a column it is a call, `interval_times(a, months, days, nanoseconds)`.
Parts of months are days, thirty to a month, and parts of days are times, as in PostgreSQL.
Unnecessary with a release that solves https://github.com/apache/datafusion/issues/13850.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from lance_flight.engine.functions.date_spans import PRODUCT
from lance_flight.engine.sql.comparisons import OperandsOfText
from lance_flight.engine.sql.tokens import Edit, Kind, Token
from lance_flight.errors import Unsupported

_SECOND = 1_000_000_000
_DAY, _MONTH = "days", "months"
_UNITS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(["year", "yr", "y"], (_MONTH, 12)),
        **dict.fromkeys(["quarter"], (_MONTH, 3)),
        **dict.fromkeys(["month", "mon"], (_MONTH, 1)),
        **dict.fromkeys(["week", "w"], (_DAY, 7)),
        **dict.fromkeys(["day", "d"], (_DAY, 1)),
        **dict.fromkeys(["hour", "hr", "h"], ("nanoseconds", 3600 * _SECOND)),
        **dict.fromkeys(["minute", "min", "m"], ("nanoseconds", 60 * _SECOND)),
        **dict.fromkeys(["second", "sec", "s"], ("nanoseconds", _SECOND)),
        **dict.fromkeys(["millisecond", "ms"], ("nanoseconds", 1_000_000)),
        **dict.fromkeys(["microsecond", "us"], ("nanoseconds", 1_000)),
        "nanosecond": ("nanoseconds", 1),
    }
)
"""Units of intervals, each as a number of months, days or nanoseconds."""
_PART = re.compile(r"\s*([+-]?\d{1,18}(?:\.\d{1,18})?)\s*([a-z]+)\s*", re.IGNORECASE)
_NANOSECONDS_OF_DAY = 86_400 * _SECOND
_REFUSAL = (
    "a product of an interval takes one number, column, call or expression in brackets on each side of * or /;"
    " write INTERVAL '1 day' * (a + 1)"
)


@dataclass(frozen=True, slots=True)
class _Interval:
    """An interval literal: its months, days and nanoseconds, and its tokens."""

    months: Fraction
    days: Fraction
    nanoseconds: Fraction
    start: int
    stop: int

    def times(self, factor: Fraction) -> str:
        """Return the literal of a product; parts of months and days become smaller units."""
        months = self.months * factor
        days = self.days * factor + (months - int(months)) * 30
        nanoseconds = self.nanoseconds * factor + (days - int(days)) * _NANOSECONDS_OF_DAY
        return f"INTERVAL '{int(months)} months {int(days)} days {round(nanoseconds)} nanoseconds'"

    def of(self, factor: str) -> str:
        """Return the product with an expression."""
        return f"{PRODUCT}({factor}, {self.months}, {self.days}, {self.nanoseconds})"


def interval_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that compute products of intervals and numbers.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT d + INTERVAL '1 day' * 2, d + a * INTERVAL '1 day'"
    >>> edit_text(text, interval_edits(text, tokenize(text))).partition(", d + ")[0]
    "SELECT d + INTERVAL '0 months 2 days 0 nanoseconds'"
    >>> edit_text(text, interval_edits(text, tokenize(text))).partition(", d + ")[2]
    'interval_times(a, 0, 1, 0)'
    """
    if not any(token.word == "INTERVAL" for token in tokens):
        return []
    return _Reader(text, tokens).read()


class _Reader(OperandsOfText):
    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        edits: list[Edit] = []
        done = 0
        for at in range(len(self.tokens)):
            if at < done or self.word_at(at) != "INTERVAL" or self.is_name(at):
                continue
            interval = self._interval(at)
            if interval is None:
                continue
            after, before = self.text(interval.stop), self.text(at - 1)
            if self.kind(interval.stop) is Kind.SIGN and after in {"*", "/"}:
                done = self._end(interval.stop + 1)
                edits.append(self._edit(at, done, interval, interval.stop + 1, done, is_quotient=after == "/"))
            elif before == "*" and self.kind(at - 1) is Kind.SIGN and self.ends_operand(at - 2):
                start, done = self._start(at - 2), interval.stop
                edits.append(self._edit(start, done, interval, start, at - 1, is_quotient=False))
        return edits

    def _edit(self, start: int, stop: int, interval: _Interval, first: int, last: int, *, is_quotient: bool) -> Edit:
        factor = self._number(first, last)
        is_chain = self.text(stop) in {"*", "/", "%"} or self.text(start - 1) in {"/", "%"}
        is_chain |= self.text(start - 1) == "*" and self.ends_operand(start - 2)
        if is_chain or (is_quotient and not factor):
            raise Unsupported(_REFUSAL)
        if factor is None:
            new = interval.of(self.sql[self.tokens[first].start : self.tokens[last - 1].stop])
        else:
            new = interval.times(1 / factor if is_quotient else factor)
        return self.tokens[start].start, self.tokens[stop - 1].stop, new

    def _interval(self, at: int) -> _Interval | None:
        """Return the interval literal at a token; None for one of another form."""
        unit, stop = self.word_at(at + 2), at + 2
        text = self.text(at + 1)
        if self.kind(at + 1) not in {Kind.STRING, Kind.NUMBER}:
            return None
        if _unit(unit) is not None:
            text, stop = f"{text} {unit}", at + 3
        parts = {_MONTH: Fraction(0), _DAY: Fraction(0), "nanoseconds": Fraction(0)}
        place = 0
        while place < len(text):
            match = _PART.match(text, place)
            known = None if match is None else _unit(match[2])
            if match is None or known is None:
                return None
            parts[known[0]] += Fraction(match[1]) * known[1]
            place = match.end()
        whole = all(number.denominator == 1 for number in parts.values())
        return (
            _Interval(parts[_MONTH], parts[_DAY], parts["nanoseconds"], at, stop)
            if whole and any(parts.values())
            else None
        )

    def _number(self, first: int, last: int) -> Fraction | None:
        """Return the number literal of some tokens; None for another expression."""
        sign = -1 if self.is_sign(first, "-") else 1
        first += sign < 0
        if (
            last - first != 1
            or self.kind(first) is not Kind.NUMBER
            or len(self.text(first)) > len("123456789012345678")
        ):
            return None
        return sign * Fraction(self.text(first)) if "e" not in self.text(first).lower() else None

    def _end(self, at: int) -> int:
        """Return the token after the number, column, call or brackets at a token."""
        at += self.is_sign(at, "-")
        if self.is_sign(at, "("):
            end = self.partners.get(at, at) + 1
        elif self.kind(at) in {Kind.NUMBER, Kind.PARAMETER}:
            end = at + 1
        elif self.kind(at) in {Kind.WORD, Kind.NAME} and self.word_at(at) not in {
            "CASE",
            "INTERVAL",
            "CAST",
            "TRY_CAST",
        }:
            end = at + 1
            while self.is_sign(end, ".") and end + 1 < len(self.tokens):
                end += 2
            end = self.partners.get(end, end) + 1 if self.is_sign(end, "(") else end
        elif self.word_at(at) in {"CASE", "CAST", "TRY_CAST"}:
            opening = at if self.word_at(at) == "CASE" else at + 1
            end = self.partners.get(opening, opening) + 1
        else:
            raise Unsupported(_REFUSAL)
        if self.is_sign(end, "::") or self.is_sign(end, "["):
            raise Unsupported(_REFUSAL)
        return end

    def _start(self, at: int) -> int:
        """Return the first token of the number, column, call or brackets that ends at a token."""
        first = self.partners.get(at, at) if self.is_sign(at, ")") or self.word_at(at) == "END" else at
        if self.is_sign(at, "]") or self.is_sign(at - 1, "::"):
            raise Unsupported(_REFUSAL)
        if (
            first != at
            and self.is_sign(first, "(")
            and self.ends_operand(first - 1)
            and not self.is_sign(first - 1, ")")
        ):
            first -= 1
        while self.is_sign(first - 1, "."):
            first -= 2
        return max(first, 0)


def _unit(word: str) -> tuple[str, int] | None:
    lower = word.lower()
    return _UNITS.get(lower) or _UNITS.get(lower.removesuffix("s"))
