"""Operands that are compared with each other, or are values of one expression, in a text whose types only a plan knows.

DataFusion 55 compares a decimal with a double as DECIMAL(30, 15), which 1e300, NaN and infinity are not, and in which 1e-20 is zero.
So operands are planned as arguments of functions that refuse them, which says their types, and decimals beside doubles are cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import SIGNS, Operands
from lance_flight.engine.sql.tokens import Kind, edited, tokenize

OPERAND = "operand"
"""The function around each operand."""
MOST_OPERANDS = 200
_COMPARISONS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_OF_ONE_TYPE = frozenset(["COALESCE", "NULLIF", "GREATEST", "LEAST", "NVL", "IFNULL"])
_QUANTIFIERS = frozenset(["ANY", "SOME", "ALL"])
_FRAMES = frozenset(["RANGE", "ROWS", "GROUPS"])

Span = tuple[int, int]
"""First token of an operand, and the token after it."""


def with_operands(text: str) -> tuple[str, list[list[str]]]:
    """Return a text with each operand in a function of its own, and the names of the functions of operands that meet.

    >>> with_operands("SELECT a FROM t WHERE a + 1 < b AND c IN (1, d)")[0]
    'SELECT a FROM t WHERE __operand_call0(a + 1) < __operand_call1(b) AND __operand_call2(c) IN (__operand_call3(1), __operand_call4(d))'
    """
    tokens = tokenize(text)
    groups = [
        group for group in _groups(_Reader(tokens)) if len(group) > 1 and all(start < stop for start, stop in group)
    ]
    names: list[list[str]] = []
    spans: list[Span] = []
    for group in groups:
        names.append([f"__{OPERAND}_call{len(spans) + place}" for place in range(len(group))])
        spans += group
    flat = [name for group in names for name in group]
    return _wrapped(text, spans, [f"{name}(" for name in flat], [")"] * len(flat)), names


def with_doubles(text: str, names: Sequence[Sequence[str]], types: Mapping[str, pa.DataType]) -> str:
    """Return the text with casts of the decimals that meet doubles; the same text if there are none."""
    beside = {
        name
        for group in names
        if any(pa.types.is_floating(types[name]) for name in group if name in types)
        for name in group
        if name in types and pa.types.is_decimal(types[name])
    }
    if not beside:
        return text
    tokens = tokenize(text)
    spans = [
        span for group in _groups(_Reader(tokens)) if len(group) > 1 and all(a < b for a, b in group) for span in group
    ]
    flat = [name for group in names for name in group]
    chosen = [span for span, name in zip(spans, flat, strict=True) if name in beside]
    return _wrapped(text, chosen, ["CAST("] * len(chosen), [" AS DOUBLE)"] * len(chosen))


def _wrapped(text: str, spans: Sequence[Span], before: Sequence[str], after: Sequence[str]) -> str:
    """Return a text with texts around spans of tokens, which may be within each other."""
    tokens = tokenize(text)
    opened = [(tokens[start].start, -stop, before[at]) for at, (start, stop) in enumerate(spans)]
    closed = [(tokens[stop - 1].stop, -start, after[at]) for at, (start, stop) in enumerate(spans)]
    edits = [(at, 1, order, new) for at, order, new in opened] + [(at, 0, order, new) for at, order, new in closed]
    return edited(text, [(at, at, new) for at, _, _, new in sorted(edits)])


def _groups(reader: _Reader) -> Iterator[list[Span]]:
    """Yield the operands that meet, of each comparison, BETWEEN, list of IN, CASE, and call of a function of one type."""
    for at, token in enumerate(reader.tokens):
        word = "" if reader.is_name(at) else token.word
        if token.kind is Kind.SIGN and token.text in SIGNS and not reader.is_sign_before(at):
            stop = reader.sign_stop(at)
            if reader.joined(at, stop) in _COMPARISONS and reader.word_at(stop) not in _QUANTIFIERS:
                yield [(reader.compared(at), at), (stop, reader.compared_right(stop))]
        elif word == "FROM" and reader.is_comparison(at):
            operator = at - 2 if reader.word_at(at - 2) == "IS" else at - 3
            yield [(reader.left(operator - 1), operator), (at + 1, reader.compared_right(at + 1))]
        elif word == "BETWEEN" and reader.word_at(at - 1) not in _FRAMES and not reader.is_sign(at + 1, "("):
            yield reader.between(at)
        elif word == "IN" and reader.is_sign(at + 1, "(") and reader.word_at(at + 2) not in QUERIES:
            operator = at - (reader.word_at(at - 1) == "NOT")
            yield [(reader.compared(operator), operator), *reader.listed(at + 1)]
        elif word in _OF_ONE_TYPE and reader.is_sign(at + 1, "("):
            yield reader.listed(at + 1)
        elif word == "CASE" and at in reader.partners:
            yield from reader.case(at)


class _Reader(Operands):
    """Finds the operands that meet."""

    def is_sign_before(self, at: int) -> bool:
        """Return whether a sign is a part of the operator that the token before begins."""
        return self._is_sign_of_operator(at - 1) and self.tokens[at - 1].stop == self.tokens[at].start

    def sign_stop(self, at: int) -> int:
        """Return the token after an operator."""
        stop = at + 1
        while (
            self.kind(stop) is Kind.SIGN
            and self.text(stop) in SIGNS
            and self.tokens[stop - 1].stop == self.tokens[stop].start
        ):
            stop += 1
        return stop

    def joined(self, start: int, stop: int) -> str:
        """Return the text of tokens."""
        return "".join(token.text for token in self.tokens[start:stop])

    def compared_right(self, at: int) -> int:
        """Return the token after the right operand of a comparison, which ends at another one."""
        stop, place = self.right(at), at
        while place < stop and not (self.kind(place) is Kind.SIGN and self.text(place) in SIGNS):
            place = max(place, self.partners.get(place, place)) + 1
        return min(place, stop)

    def between(self, at: int) -> list[Span]:
        """Return the operands of BETWEEN."""
        operator, middle = at - (self.word_at(at - 1) == "NOT"), at + 1
        while middle < len(self.tokens) and self.word_at(middle) != "AND":
            middle = max(middle, self.partners.get(middle, middle)) + 1
        return [(self.compared(operator), operator), (at + 1, middle), (middle + 1, self.compared_right(middle + 1))]

    def listed(self, opened: int) -> list[Span]:
        """Return the items of a list in brackets."""
        found, begun, place, closed = [], opened + 1, opened + 1, self.partners.get(opened, opened)
        while place < closed:
            if self.is_sign(place, ","):
                found.append((begun, place))
                begun = place + 1
            place = max(place, self.partners.get(place, place)) + 1
        return [*found, (begun, closed)] if closed > opened + 1 else []

    def case(self, at: int) -> Iterator[list[Span]]:
        """Yield the values of CASE, and what it compares."""
        begun, kind, place, end = at + 1, "CASE", at + 1, self.partners[at]
        values: dict[str, list[Span]] = {"CASE": [], "WHEN": [], "THEN": [], "ELSE": []}
        while place <= end:
            word = self.word_at(place)
            if place == end or (word in values and not self.is_name(place)):
                values[kind] += [(begun, place)] if begun < place else []
                begun, kind = place + 1, word
            place = place + 1 if place == end else max(place, self.partners.get(place, place)) + 1
        yield [*values["THEN"], *values["ELSE"]]
        if values["CASE"]:
            yield [*values["CASE"], *values["WHEN"]]

    def _is_sign_of_operator(self, at: int) -> bool:
        return self.kind(at) is Kind.SIGN and self.text(at) in _SIGNS


_SIGNS = frozenset("<>=!-@|&#~*+/%^?")
