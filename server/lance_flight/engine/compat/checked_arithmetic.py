"""Arithmetic as SQL means it: sums of integers refuse a result beyond BIGINT, `||` binds less than `+`, and intervals have products.

`a + b` becomes `checked_add(a, b)`, `-a` `checked_negate(a)`, and `sum(a)` a sum of decimals that is cast back. These are calls of typed functions
(`engine.translation.typed_calls`); an operand that turns out to be no integer is written as it was.
`engine.plans.arithmetic` decides which statements need that.

sqlparser binds `||` as close as `*`: `'a' || 5 % 3` is `('a' || 5) % 3` to it, so brackets are put around such operands.
Unnecessary with a release of https://github.com/apache/datafusion-sqlparser-rs in which `||` has the precedence of PostgreSQL.

Products of intervals and numbers, `INTERVAL '1 day' * 2`, have no plan in DataFusion 55.
Of two literals the product is a literal. Of a column it is a call, `interval_times(a, months, days, nanoseconds)`.
Parts of months are days, thirty to a month, and parts of days are times, as in PostgreSQL.
Unnecessary with a release that solves https://github.com/apache/datafusion/issues/13850.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.engine.functions.date_spans import PRODUCT
from lance_flight.engine.sql.comparisons import Operands, OperandsOfText
from lance_flight.engine.sql.tokens import Edit, Kind, Token, closing_places, edit_text, outer_places, tokenize
from lance_flight.errors import LimitExceeded, SqlError, Unsupported

SIGNS: Mapping[str, str] = MappingProxyType({"checked_add": "+", "checked_subtract": "-", "checked_multiply": "*"})
"""The operator of each function."""
NEGATE = "checked_negate"
"""The function of a minus with one operand."""
EXACT, WHOLE = "exact_integer", "whole_sum"
"""Functions of the argument of a sum, and of its result."""
CHECKED = frozenset([*SIGNS, NEGATE, EXACT, WHOLE])
ROUNDED = "rounded_cast"
"""The function of what is cast to an integer (`engine.compat.casts`)."""
REALS: Mapping[str, str] = MappingProxyType({"CAST": "fitting_real", "TRY_CAST": "fitting_real_or_null"})
"""The function of what is cast to REAL, by the word of the cast."""
BEYOND = "is beyond BIGINT"
"""Words of the error of a result that is too large."""
_ARITHMETIC = re.compile(r"[\w\")\]]\s*[-+*]\s*[\w\"(.$'-]|-\s*[^\s\d>=-]|\bsum\b", re.IGNORECASE)
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
MOST_OPERATORS = 500
"""Most operators of a statement that has some which need a check: each that is none of integers costs a planning."""
_FUNCTIONS = {sign: function for function, sign in SIGNS.items()}
_OPERATORS = {**SIGNS, NEGATE: "negative"}
"""What DataFusion calls the operator of each function."""
_OPENED = {**dict.fromkeys(SIGNS, "(("), NEGATE: "(-("}
"""What stands in place of the beginning of a call when it becomes its operator again, and ends with two brackets."""
_TIGHTER = frozenset("*/%")
_SUMS = frozenset(["SUM"])
_COMPUTED: Mapping[str, Callable[..., pa.Array]] = MappingProxyType(
    {
        "checked_add": pc.add_checked,
        "checked_subtract": pc.subtract_checked,
        "checked_multiply": pc.multiply_checked,
        NEGATE: pc.negate_checked,
    }
)
_DECIMAL, _SUM = pa.decimal128(28, 0), pa.decimal128(38, 0)
"""Types of what is summed, and of its sum; a sum of such sums, which the optimiser makes beside one DISTINCT, has the same type."""
_NAME = re.compile(r"__(?P<word>" + "|".join([*SIGNS, NEGATE, EXACT, WHOLE, ROUNDED, *REALS.values()]) + r")_call\d+\(")


def compute_call(word: str, columns: Sequence[pa.Array]) -> pa.Array:
    """Compute an operator, or one of the functions of sums."""
    if word == EXACT:
        return columns[0].cast(_DECIMAL)
    try:
        return columns[0].cast(pa.int64()) if word == WHOLE else _COMPUTED[word](*columns)
    except pa.ArrowInvalid as exc:
        what = "a sum" if word == WHOLE else f"the result of {SIGNS.get(word, '-')}"
        raise SqlError(
            f"{what} of integers {BEYOND}; expected -2^63 to 2^63 - 1; write CAST(… AS DECIMAL(38, 0))"
        ) from exc


def signature(word: str) -> tuple[list[pa.DataType], pa.DataType]:
    """Return the types of the arguments and of the result of a function."""
    if word == EXACT:
        return [pa.int64()], _DECIMAL
    given = {WHOLE: [_SUM], NEGATE: [pa.int64()]}
    return given.get(word, [pa.int64(), pa.int64()]), pa.int64()


def has_arithmetic(text: str) -> bool:
    """Return whether a query may have operators or sums of numbers."""
    return _ARITHMETIC.search(text) is not None


def sorts_rows(text: str) -> bool:
    """Return whether a query may have ORDER BY."""
    return _ORDER.search(text) is not None


def with_checked_arithmetic(text: str) -> str:
    """Return a query whose operators and sums are calls.

    >>> with_checked_arithmetic("SELECT a + b * 2 - 1, sum(DISTINCT c) FILTER (WHERE d) FROM t WHERE -a > 3")
    'SELECT checked_subtract(checked_add(a , checked_multiply(b , 2)) , 1), whole_sum(sum(DISTINCT exact_integer(c)) FILTER (WHERE d)) FROM t WHERE checked_negate(a) > 3'
    """
    tokens = tokenize(text)
    factors = Factors(tokens)
    opened: list[Edit] = []
    edits: list[Edit] = []
    for at in _operators(factors):
        sign = tokens[at].text
        first, stop = factors.left_of(at, sign), factors.right_of(at, sign)
        opened.append((tokens[first].start, -stop, f"{_FUNCTIONS[sign]}("))
        edits += [(tokens[at].start, tokens[at].stop, ","), (tokens[stop - 1].stop, tokens[stop - 1].stop, ")")]
    minuses = list(filter(factors.is_unary_minus, range(len(tokens))))
    for at in minuses:
        stop = factors.right_of(at, "*")
        edits += [
            (tokens[at].start, tokens[at].stop, f"{NEGATE}("),
            (tokens[stop - 1].stop, tokens[stop - 1].stop, ")"),
        ]
    for at, inner, closed, stop in calls_of(factors, _SUMS):
        opened += [(tokens[at].start, -stop, f"{WHOLE}("), (tokens[inner].start, -closed - 1, f"{EXACT}(")]
        edits += [
            (tokens[closed].start, tokens[closed].start, ")"),
            (tokens[stop - 1].stop, tokens[stop - 1].stop, ")"),
        ]
    count = len(opened) + len(minuses)
    if count > MOST_OPERATORS:
        raise LimitExceeded(
            f"the statement has {count} operators and sums, and some may leave BIGINT; expected at most {MOST_OPERATORS} beside"
            " such; write CAST(… AS DECIMAL(38, 0)) for their operands"
        )
    # What reaches further is around what begins at the same place.
    edits = [(start, start, text) for start, _, text in sorted(opened, key=lambda pair: pair[:2])] + edits
    return edit_text(text, sorted(edits, key=lambda pair: pair[:2]))


def without_check(sql: str, name: str) -> str:
    """Return a query with the operator, or the sum, in place of the calls of a name, which are not of integers.

    >>> without_check("SELECT __whole_sum_call0(sum(__exact_integer_call1(a)) OVER (w))", "__exact_integer_call1")
    'SELECT sum(a) OVER (w)'
    """
    tokens = tokenize(sql)
    closing = closing_places(tokens)
    places = [place for place, token in enumerate(tokens[:-1]) if token.text == name and place + 1 in closing]
    if EXACT in name:
        sums = [place for place, token in enumerate(tokens) if token.text.startswith(f"__{WHOLE}_call")]
        places += [each for each in sums if any(each < place < closing.get(each + 1, 0) for place in places)]
    edits: list[Edit] = []
    for place in places:
        match = _NAME.fullmatch(f"{tokens[place].text}(")
        closed = tokens[closing[place + 1]]
        word = "" if match is None else match["word"]
        opened = _OPENED.get(word, "")
        edits += [
            (tokens[place].start, tokens[place + 1].stop, opened),
            (closed.start, closed.stop, "))" if opened else ""),
        ]
        if (sign := SIGNS.get(word)) is not None:
            comma = next(_commas(tokens, place + 1, closing))
            edits.append((tokens[comma].start, tokens[comma].stop, f") {sign} ("))
    return edit_text(sql, sorted(edits))


def _commas(tokens: Sequence[Token], opened: int, closing: Mapping[int, int]) -> Iterator[int]:
    """Yield the places of the commas between the arguments of a call."""
    for place in outer_places(closing, range(opened + 1, closing[opened])):
        if tokens[place].is_sign(","):
            yield place


def without_checks(name: str) -> str:
    """Return the name of a column with the operators and sums that the client wrote.

    >>> without_checks("__checked_add_call0(t.a,__whole_sum_call1(sum(__exact_integer_call2(t.b))))")
    't.a + sum(t.b)'
    """
    while (match := _NAME.search(name)) is not None:
        depth, commas = 1, []
        for stop in range(match.end(), len(name)):
            depth += (name[stop] in "([{") - (name[stop] in ")]}")
            if depth == 1 and name[stop] == ",":
                commas.append(stop)
            if depth == 0:
                break
        else:
            return name
        inner = name[match.end() : stop]
        if match["word"] in SIGNS and commas:
            inner = f"{name[match.end() : commas[0]]} {SIGNS[match['word']]} {name[commas[0] + 1 : stop]}"
        elif match["word"] == NEGATE:
            inner = f"(- {inner})"
        name = name[: match.start()] + inner + name[stop + 1 :]
    return name


def operator_of(function: str) -> str | None:
    """Return the operator that a function of a plan is, as DataFusion calls it; None for any other function.

    >>> operator_of("__checked_add_call3"), operator_of("__checked_negate_call4"), operator_of("upper")
    ('+', 'negative', None)
    """
    match = _NAME.fullmatch(f"{function}(")
    return None if match is None else _OPERATORS.get(match["word"])


def _operators(factors: Factors) -> Iterator[int]:
    """Yield the places of the binary operators."""
    for at, token in enumerate(factors.tokens):
        if token.kind is Kind.SIGN and token.text in _FUNCTIONS and factors.is_binary(at):
            yield at


def calls_of(factors: Factors, words: AbstractSet[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield of each call of an aggregate its place, the first token of its argument, its closing bracket, and the token after all of it."""
    tokens = factors.tokens
    for at, token in enumerate(tokens[:-2]):
        closed = factors.partners.get(at + 1)
        if token.word not in words or not tokens[at + 1].is_sign("(") or closed is None or factors.is_sign(at - 1, "."):
            continue
        inner = at + 2 + (tokens[at + 2].word in {"DISTINCT", "ALL"})
        if inner < closed:
            yield at, inner, closed, factors.after_call(closed + 1)


class Factors(Operands):
    """Finds the bounds of the operands of `+`, `-` and `*`."""

    def is_binary(self, at: int) -> bool:
        """Return whether an operator stands between two operands, and is no part of another one, such as `->`."""
        is_alone = not any(
            self.kind(near) is Kind.SIGN and self.text(near) in "<>=!|&@~#^" and self._touches(near, at)
            for near in (at - 1, at + 1)
        )
        return is_alone and self.ends_operand(at - 1) and not self.is_sign(at - 1, "*") and self._begins_operand(at + 1)

    def is_unary_minus(self, at: int) -> bool:
        """Return whether a minus stands before one operand that may be an integer, and is no number as it is written."""
        if not self.is_sign(at, "-") or self.ends_operand(at - 1) or not self._begins_operand(at + 1):
            return False
        if self.kind(at + 1) is Kind.NUMBER or self.word_at(at + 1) == "INTERVAL" or self._is_decimal(at + 1):
            return False
        operand = self.tokens[at + 1 : self.right_of(at, "*")]
        return any(token.kind is not Kind.NUMBER and token.text not in _AROUND for token in operand)

    def _is_decimal(self, at: int) -> bool:
        """Return whether a number stands there as the decimal that it was made."""
        return self.word_at(at) == "CAST" and self.kind(at + 2) is Kind.STRING and self.word_at(at + 4) == "DECIMAL"

    def left_of(self, at: int, sign: str) -> int:
        """Return the first token of the left operand: factors for `*`, terms for `+` and `-`."""
        place = at - 1
        while place >= 0 and not self._ends_left(place, sign):
            place = self.partners.get(place, place) - 1
        return place + 1

    def right_of(self, at: int, sign: str) -> int:
        """Return the token after the right operand."""
        place = at + 1
        while self.is_sign(place, "-") or self.is_sign(place, "+"):
            place += 1
        while place < len(self.tokens) and not self._ends_right(place, sign):
            place = max(place, self.partners.get(place, place)) + 1
        return place

    def after_call(self, place: int) -> int:
        """Return the token after FILTER (…), OVER (…) and the like behind a call."""
        while True:
            word = self.word_at(place)
            if word in {"FILTER", "OVER"} and self.is_sign(place + 1, "("):
                place = self.partners.get(place + 1, place + 1) + 1
            elif word == "OVER":
                return place + 2
            elif word in {"IGNORE", "RESPECT"} and self.word_at(place + 1) == "NULLS":
                place += 2
            else:
                return place

    def _ends_left(self, place: int, sign: str) -> bool:
        if self.kind(place) is Kind.SIGN and self.text(place) in "<>=!|&~#^":
            return True
        if self.kind(place) is Kind.SIGN and self.text(place) in {"+", "-"} and self.is_binary(place):
            return sign == "*"
        return self._starts_operand(place) or self.word_at(place) in _LOOSER

    def _ends_right(self, place: int, sign: str) -> bool:
        kind, text = self.kind(place), self.text(place)
        if kind is Kind.SIGN and text in ",;:)]}<>=!|&~#^":
            return True
        if kind is Kind.SIGN and text in {"+", "-", *_TIGHTER} and self.is_binary(place):
            return sign == "*" or text not in _TIGHTER
        if not self.ends_operand(place - 1) or self.word_at(place - 1) == "OVER":
            return False
        is_order = self.word_at(place) == "NULLS" and self.word_at(place - 1) not in {"IGNORE", "RESPECT"}
        is_within = self.word_at(place) == "GROUP" and self.word_at(place - 1) == "WITHIN"
        is_part = is_within or (self.word_at(place) in _PARTS and not is_order)
        is_word = bool(self.word_at(place)) and not self.is_name(place) and not is_part
        return is_word or kind is Kind.NAME

    def _begins_operand(self, at: int) -> bool:
        text, kind = self.text(at), self.kind(at)
        return kind is not None and not (kind is Kind.SIGN and text not in "([-+")

    def _touches(self, one: int, other: int) -> bool:
        first, second = sorted((one, other))
        return self.tokens[first].stop == self.tokens[second].start


_AROUND = frozenset("()+-")
_LOOSER = frozenset(["AND", "BETWEEN", "LIKE", "ILIKE", "IN", "ESCAPE", "SIMILAR"])
"""Words before an operand that operators bind closer than."""
_PARTS = frozenset(
    [
        "OVER",
        "FILTER",
        "AT",
        "TIME",
        "ZONE",
        "COLLATE",
        "WITHIN",
        "IGNORE",
        "RESPECT",
        "NULLS",
        "UNSIGNED",
        "PRECISION",
        "VARYING",
    ]
)
"""Words that continue an operand that could end before them."""


_FACTORS = frozenset("+-*/%")


def concatenation_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits (start, stop, new text) that put brackets around the operands of `||` that are sums or products.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT 'a' || b + c * 2 || d, e % 3 || f FROM t"
    >>> edit_text(text, concatenation_edits(tokenize(text)))
    "SELECT 'a' || (b + c * 2) || d, (e % 3) || f FROM t"
    """
    places = [at for at in range(1, len(tokens) - 1) if is_concatenation(tokens, at)]
    if not places:
        return []
    factors = Factors(tokens)
    spans: set[tuple[int, int]] = set()
    for at in places:
        stop = factors.right_of(at + 1, "+")
        while factors.text(stop) in {"+", "-"} and factors.is_binary(stop):
            stop = factors.right_of(stop, "+")
        spans |= {(factors.left_of(at, "+"), at), (at + 2, stop)}
    wrapped = sorted(span for span in spans if _has_arithmetic(factors, *span))
    edits = [(tokens[start].start, tokens[start].start, "(") for start, _ in wrapped]
    return sorted([*edits, *((tokens[stop - 1].stop, tokens[stop - 1].stop, ")") for _, stop in wrapped)])


def is_concatenation(tokens: Sequence[Token], at: int) -> bool:
    """Return whether `||` begins at a token."""
    if at + 1 >= len(tokens):
        return False
    one, other = tokens[at], tokens[at + 1]
    return one.is_sign("|") and other.is_sign("|") and one.stop == other.start


def _has_arithmetic(factors: Factors, start: int, stop: int) -> bool:
    """Return whether an operator between numbers stands in an operand, and not in a bracket of it."""
    at = start
    while at < stop:
        if factors.kind(at) is Kind.SIGN and factors.text(at) in _FACTORS and at > start and factors.is_binary(at):
            return True
        at = max(at, factors.partners.get(at, at)) + 1
    return False


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
