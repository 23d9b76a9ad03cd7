"""Columns that tables are joined by, named in WHERE and ON without a table: DataFusion 55 takes such a name for an ambiguous one.

A column of USING, or one that a NATURAL JOIN finds on both sides, is one column of the join. DataFusion knows that in SELECT lists, in
GROUP BY and in ORDER BY alone. Elsewhere the name of a table is written before it, whose column the join keeps: RIGHT and FULL JOIN
are not offered with USING. Unnecessary with a release of DataFusion that looks names up in conditions as it does in SELECT lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_flight.engine.sql.clause_words import QUERIES
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.sql.relation_places import is_alias, relation_places
from lance_flight.engine.sql.select_lists import own_places
from lance_flight.engine.sql.tokens import Kind, Token, TokenPlaces, closing_places, edit_text, fold_name, tokenize

MOST_RELATIONS = 4
"""First tables of a FROM that are tried before a name."""
MOST_NAMES = 8
"""Names of a query that are written with a table, one after another."""
LONGEST = 30_000
"""Characters of a query that is planned again."""
_AMBIGUOUS = re.compile(r"Ambiguous reference to unqualified field (?P<name>\"(?:[^\"]|\"\")+\"|\w+)")
_NAMES = frozenset({Kind.WORD, Kind.NAME})
_CONDITIONS = frozenset(["WHERE", "ON"])
_CLAUSES = _CONDITIONS | {"SELECT", "FROM", "JOIN", "USING", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT"}


def with_joined_name(text: str, refusal: str, place: int) -> str | None:
    """Write a table before the name that a refusal calls ambiguous, where tables are joined by it; None where none are.

    `place` is that of the table in its FROM.

    >>> with_joined_name("SELECT k FROM a JOIN b USING (k) WHERE k = 1", "Ambiguous reference to unqualified field k", 0)
    'SELECT k FROM a JOIN b USING (k) WHERE "a".k = 1'
    """
    match = _AMBIGUOUS.search(refusal)
    if match is None or len(text) > LONGEST:
        return None
    name, reader = fold_name(tokenize(match["name"])[0]), _Reader(tokenize(text))
    edits = []
    for at, token in enumerate(reader.tokens):
        if token.word == "SELECT" and not reader.is_name(at):
            select = reader.read(at, name)
            if select.is_joined_by_name and place < len(select.relations):
                table = f"{quote_parts(select.relations[place])}."
                edits += [(named.start, named.start, table) for named in select.named]
    return edit_text(text, sorted(edits)) if edits else None


def with_named_relations(text: str, refusal: str) -> str | None:
    """Write a name behind each query in FROM that has none, where a refusal tells of two columns of one table; None where none is added.

    DataFusion calls the columns of such a query by the tables in it.

    >>> with_named_relations("SELECT * FROM t, (SELECT a FROM t)", "t stands twice in FROM; name each of them")
    'SELECT * FROM t, (SELECT a FROM t) AS "query 1"'
    """
    if "stands twice in FROM" not in refusal or len(text) > LONGEST:
        return None
    tokens = tokenize(text)
    places, closing = TokenPlaces(tokens), closing_places(tokens)
    ends = [closing.get(at + 1) for at in sorted(relation_places(places)) if places.first_word(at + 1) in QUERIES]
    unnamed = [end for end in ends if end is not None and not (end + 1 < len(tokens) and (is_alias(tokens[end + 1])))]
    edits = [(tokens[end].stop, tokens[end].stop, f' AS "query {n}"') for n, end in enumerate(unnamed, 1)]
    return edit_text(text, edits) if edits else None


@dataclass(slots=True)
class _Select:
    """Tables of a SELECT by their aliases, whether it joins by a name, and where its conditions have that without a table."""

    relations: list[str] = field(default_factory=list)
    is_joined_by_name: bool = False
    named: list[Token] = field(default_factory=list)


class _Reader(TokenPlaces):
    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self._closing = closing_places(tokens)

    def read(self, select: int, name: str) -> _Select:
        """Read the SELECT that begins at a place, without the queries in it."""
        read, clause, is_natural = _Select(), "SELECT", False
        for at in own_places(self.tokens, self._closing, select + 1):
            word = "" if self.is_name(at) else self.word_at(at)
            if word in _CLAUSES and not self.is_comparison(at):
                clause = word
                is_natural |= word == "JOIN" and "NATURAL" in {self.word_at(at - 1), self.word_at(at - 2)}
                if word in {"FROM", "JOIN"}:
                    read.relations.append(self._alias(at + 1))
            elif clause == "FROM" and self.is_sign(at, ","):
                read.relations.append(self._alias(at + 1))
            elif self.kind(at) in _NAMES and fold_name(self.tokens[at]) == name and self._is_alone(at):
                read.is_joined_by_name |= clause == "USING"
                read.named += [self.tokens[at]] if clause in _CONDITIONS else []
        read.is_joined_by_name |= is_natural and len(read.relations) == len(("left", "right"))
        return read

    def _alias(self, at: int) -> str:
        """Return the name by which a relation is called whose tokens begin at a place; an empty text where it has none."""
        last = at
        if self.is_sign(at, "("):
            at = self._closing.get(at, at)
        else:
            while self.is_sign(at + 1, "."):
                at += 2
            last, at = at, self._closing.get(at + 1, at)
        following = at + 1 + (self.word_at(at + 1) == "AS")
        if following < len(self.tokens) and is_alias(self.tokens[following]):
            return fold_name(self.tokens[following])
        return fold_name(self.tokens[last]) if self.kind(last) in _NAMES else ""

    def _is_alone(self, at: int) -> bool:
        return not (self.is_sign(at - 1, ".") or self.is_sign(at + 1, ".") or self.is_sign(at + 1, "("))
