"""EXISTS and IN over subqueries in SELECT lists, as counts of the rows that match: DataFusion 55 plans them in conditions alone.

`EXISTS (SELECT 1 FROM u WHERE u.k = t.id)` is `((SELECT count(*) FROM u WHERE u.k = t.id) > 0)`, a subquery that DataFusion makes a join of.
Unnecessary with a release of https://github.com/apache/datafusion/pull/24972.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.comparisons import OperandsOfText
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.routines import is_aggregate
from lance_flight.engine.sql.select_lists import is_wildcard, is_without_alias, items
from lance_flight.engine.sql.tokens import Edit, Kind, Token
from lance_flight.errors import Unsupported

_AFTER_WHERE = frozenset(
    [
        *("GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT"),
        *("DISTINCT", "TOP"),
    ]
)
_LIST_ENDS = frozenset(["FROM", "WHERE", *_AFTER_WHERE - {"DISTINCT", "TOP"}])
_WITHIN = (
    "EXISTS and IN (SELECT …) of a SELECT list are not offered within each other; name the inner one in a query below:"
    " FROM (SELECT *, id IN (SELECT …) AS known FROM t)"
)
_OF_AGGREGATE = (
    "IN (SELECT …) of an aggregate or a window function in a SELECT list is not offered; name it in a query below:"
    " SELECT n IN (SELECT …) FROM (SELECT count(*) AS n FROM t)"
)
_NO_NAMES = frozenset(["NULL", "TRUE", "FALSE"])
_ALIAS = '"$in"'
_VALUE = '"$in.value"'


def selected_edits(text: str, tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that count the rows of subqueries of EXISTS and IN in SELECT lists.

    >>> from lance_flight.engine.sql.tokens import edit_text, tokenize
    >>> text = "SELECT NOT EXISTS (SELECT k FROM u WHERE k = t.id) AS is_new FROM t"
    >>> edit_text(text, selected_edits(text, tokenize(text)))
    'SELECT NOT ((SELECT count(*) + 0 * count(k) FROM u WHERE k = t.id) > 0) AS is_new FROM t'
    """
    if not any(token.word in {"EXISTS", "IN"} for token in tokens):
        return []
    return _Reader(text, tokens).read()


class _Reader(OperandsOfText):
    def read(self) -> list[Edit]:
        """Return the edits of the whole text."""
        edits: list[Edit] = []
        done, named = -1, -1
        for select, at in self._places():
            opening = at + 1
            start = at if self.word_at(at) == "EXISTS" else self.start_of_operand(at - (self.word_at(at - 1) == "NOT"))
            if start < done:
                raise Unsupported(_WITHIN)
            done = self.partners[opening] + 1
            new = self._exists(opening) if start == at else self._member(start, at)
            edits.append((self.tokens[start].start, self.tokens[done - 1].stop, new))
            if select > named:
                edits += self._names(select)
                named = select
        return edits

    def _names(self, select: int) -> Iterator[Edit]:
        """Yield the edits that call columns without an alias by what the client wrote, and not by what it is written out as."""
        for item in items(self.tokens, select + 1):
            is_membership = bool({"EXISTS", "IN"} & {token.word for token in item})
            if is_membership and is_without_alias(item) and not is_wildcard(item):
                stop = item[-1].stop
                yield stop, stop, f" AS {quote_parts(self.sql[item[0].start : stop])}"

    def _places(self) -> Iterator[tuple[int, int]]:
        """Yield the places of EXISTS and IN over a subquery that stand in a SELECT list, each after that of its SELECT."""
        frames: list[tuple[int | None, bool]] = [(None, True)]
        for at, token in enumerate(self.tokens):
            word = "" if self.is_name(at) else token.word
            select, is_query = frames[-1]
            if token.is_sign("("):
                starts_query = self.first_word(at) in QUERIES
                frames.append((None if starts_query else select, starts_query))
            elif token.is_sign(")") and len(frames) > 1:
                frames.pop()
            elif word == "SELECT":
                frames[-1] = at, True
            elif word in _LIST_ENDS and is_query and not self.is_comparison(at):
                frames[-1] = None, True
            elif word in {"EXISTS", "IN"} and select is not None and self._is_over_query(at + 1):
                yield select, at

    def _is_over_query(self, opening: int) -> bool:
        return self.is_sign(opening, "(") and opening in self.partners and self.first_word(opening) in QUERIES

    def _exists(self, opening: int) -> str:
        closing = self.partners[opening]
        inside = self._outermost(opening + 1, closing)
        words = [self.word_at(at) for at in inside if not self.is_name(at)]
        start = next((at for at in inside if self.word_at(at) == "FROM" and not self.is_comparison(at)), None)
        is_plain = words[:1] == ["SELECT"] and not _AFTER_WHERE & set(words) and words.count("SELECT") == 1
        if not is_plain or start is None or self._has_aggregate(opening + 1, start):
            return f"((SELECT count(*) FROM {self._text(opening, closing + 1)} AS {_ALIAS}) > 0)"  # noqa: S608 - planned, not run
        return f"((SELECT count(*){self._name_columns(opening + 2)} {self._text(start, closing)}) > 0)"

    def _name_columns(self, start: int) -> str:
        """Return a sum of nothing that names the columns of a list, so that one that is not there is an error."""
        names = [item for item in items(self.tokens, start) if _is_name(item)]
        return "".join(f" + 0 * count({self.sql[item[0].start : item[-1].stop]})" for item in names)

    def _member(self, start: int, at: int) -> str:
        is_negated = self.word_at(at - 1) == "NOT"
        stop = at - is_negated
        if self._has_aggregate(start, stop) or any(self.word_at(place) == "OVER" for place in range(start, stop)):
            raise Unsupported(_OF_AGGREGATE)
        value, query = self._text(start, stop), self._text(at + 1, self.partners[at + 1] + 1)
        rows = f"FROM {query} AS {_ALIAS}({_VALUE})"
        found, other = ("FALSE", "TRUE") if is_negated else ("TRUE", "FALSE")
        # 0: the query has no rows; 1: none of them is NULL; 2: one is.
        kind = f"(SELECT CASE WHEN count(*) = 0 THEN 0 WHEN count({_VALUE}) = count(*) THEN 1 ELSE 2 END {rows})"
        return (
            f"(CASE WHEN (SELECT count(*) {rows} WHERE {_VALUE} = {value}) > 0 THEN {found}"
            f" ELSE CASE {kind} WHEN 0 THEN {other} WHEN 1 THEN CASE WHEN ({value}) IS NOT NULL THEN {other} END END END)"
        )

    def _has_aggregate(self, start: int, stop: int) -> bool:
        return any(
            self.is_sign(at + 1, "(") and is_aggregate(self.text(at)) for at in range(start, stop) if self.word_at(at)
        )

    def _outermost(self, start: int, stop: int) -> list[int]:
        places, at = list[int](), start
        while at < stop:
            places.append(at)
            at = max(at, self.partners.get(at, at)) + 1
        return places

    def _text(self, start: int, stop: int) -> str:
        return self.sql[self.tokens[start].start : self.tokens[stop - 1].stop]


def _is_name(item: Sequence[Token]) -> bool:
    """Return whether an item is the name of a column, as `k` or `u.k`, without an alias."""
    if len(item) % 2 == 0:
        return False
    return all(token.is_sign(".") if place % 2 else _is_of_name(token) for place, token in enumerate(item))


def _is_of_name(token: Token) -> bool:
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _NO_NAMES)
