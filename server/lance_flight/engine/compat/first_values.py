"""The value of the first row of a subquery, by an aggregate: DataFusion 55 has no plan for a LIMIT in a subquery that names columns around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from lance_flight.engine.functions.routines import is_aggregate
from lance_flight.engine.sql.clause_words import NO_FUNCTIONS, QUERY_STARTS, SET_OPERATORS
from lance_flight.engine.sql.relation_places import relation_places
from lance_flight.engine.sql.select_lists import is_wildcard, items, own_places
from lance_flight.engine.sql.tokens import Edit, Kind, TextPlaces, Token

_BEFORE_VALUE = frozenset(
    ["SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "ON", "HAVING"]
)
_SIGNS = frozenset(",+-*/%<>=|")
"""Words and signs before the brackets of a query that is a value."""
_OTHERWISE = frozenset(["DISTINCT", "GROUP", "HAVING", "QUALIFY", "WINDOW", "OFFSET", "FETCH", "OVER", "TOP"])
"""Words of queries that give other rows than those they read."""


def first_value_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that write `(SELECT a FROM t … ORDER BY b LIMIT 1)` in the place of a value as an aggregate.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT (SELECT a FROM u WHERE u.k = t.k ORDER BY b DESC LIMIT 1) FROM t"
    >>> edit_text(text, first_value_edits(text, tokenize(text)))
    'SELECT (SELECT first_value(a ORDER BY b DESC) FROM u WHERE u.k = t.k ) FROM t'
    """
    return list(_Reader(text, tokens).edits()) if any(token.word == "LIMIT" for token in tokens) else []


class _Reader(TextPlaces):
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        super().__init__(text, tokens)
        self._relations = relation_places(self)

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all such subqueries; one within another one's list or keys is left as it is."""
        done = -1
        for at, closed in sorted(self._closing.items()):
            is_query = self.is_sign(at, "(") and self.word_at(at + 1) == "SELECT"
            if is_query and at > done and self._is_value(at, closed):
                found = self._subquery(at + 1, closed)
                if found:
                    yield from found
                    done = closed

    def _is_value(self, opened: int, closed: int) -> bool:
        """Return whether a query in brackets is a value: an operand, an item of a list, or an argument of a call."""
        if opened - 1 in self._relations or self.word_at(closed + 1) in SET_OPERATORS:
            return False
        called = self.word_at(opened - 2) if self.is_sign(opened - 1, "(") else ""
        is_argument = bool(called) and called not in NO_FUNCTIONS | QUERY_STARTS
        is_operand = self.kind(opened - 1) is Kind.SIGN and self.text(opened - 1) in _SIGNS
        return is_argument or is_operand or self.word_at(opened - 1) in _BEFORE_VALUE

    def _subquery(self, select: int, closed: int) -> list[Edit]:
        own = [place for place in own_places(self.tokens, self._closing, select + 1) if place < closed]
        words = {self.word_at(place): place for place in own if not self.is_name(place)}
        limit, order = words.get("LIMIT"), words.get("ORDER")
        listed = list(items(self.tokens, select + 1))
        if (
            limit is None
            or "FROM" not in words
            or self.text(limit + 1) != "1"
            or limit + len("1)") != closed
            or not _OTHERWISE.isdisjoint(words)
            or len(listed) != 1
            or not listed[0]
            or is_wildcard(listed[0])
            or (order is not None and order > limit)
        ):
            return []
        (item,) = listed
        if item[-2:-1] and item[-2].word == "AS":
            item = item[:-2]
        calls = {one.text for one, after in pairwise(item) if one.word and after.is_sign("(")}
        if any(is_aggregate(name) for name in calls) or (
            item[-1].kind is Kind.NAME and len(item) > 1 and item[-2].kind is Kind.NAME
        ):
            return []
        if any(one.word == "SELECT" for one in item):
            return []
        keys = "" if order is None else f" {self._text[self.tokens[order].start : self.tokens[limit - 1].stop]}"
        begun, stop = item[0].start, listed[0][-1].stop
        cut = limit if order is None else order
        return [
            (begun, stop, f"first_value({self._text[begun : item[-1].stop]}{keys})"),
            (self.tokens[cut].start, self.tokens[limit + 1].stop, ""),
        ]
