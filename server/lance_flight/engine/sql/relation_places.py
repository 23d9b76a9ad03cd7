"""Places in a statement at which relations stand: tables, queries and calls of table functions."""

from __future__ import annotations

from lance_flight.engine.sql.clause_words import AFTER_FROM, FIRST_WORDS, JOINS, SET_OPERATORS
from lance_flight.engine.sql.tokens import Kind, Token, TokenPlaces
from lance_flight.errors import LimitExceeded

_MOST_NESTED = 200
"""Most brackets within one another, each of which copies the text of those in it."""
_RELATIONS = frozenset(["FROM", "JOIN", "LATERAL"])
_VALUE_CALLS = frozenset(["EXTRACT", "SUBSTRING", "TRIM", "OVERLAY", "POSITION"])
"""Calls in which FROM stands before a value."""
_CLAUSES = frozenset(
    [
        *("SELECT", "FROM", "JOIN", "LATERAL", "ON", "USING", "WHERE", "GROUP", "ORDER", "HAVING", "QUALIFY", "WINDOW"),
        *("LIMIT", "OFFSET", "VALUES", "SET", "UNION", "EXCEPT", "INTERSECT"),
    ]
)
_NO_ALIASES = AFTER_FROM | JOINS | SET_OPERATORS | FIRST_WORDS | {"ON", "USING", "WHEN", "FETCH"}
"""Words that follow a table and are not its alias."""


def is_alias(token: Token) -> bool:
    """Return whether the token behind a table begins its alias."""
    return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in _NO_ALIASES)


def relation_places(places: TokenPlaces) -> frozenset[int]:
    """Return the places of the words and commas that relations follow.

    >>> from lance_flight.engine.sql.tokens import tokenize
    >>> sorted(relation_places(TokenPlaces(tokenize("SELECT trim(BOTH FROM a), b FROM t, u JOIN v ON a IS DISTINCT FROM b"))))
    [9, 11, 13]
    """
    relations, clauses = [], [("", "")]
    for at, token in enumerate(places.tokens):
        if token.kind is Kind.SIGN:
            if token.text in "([{":
                if len(clauses) > _MOST_NESTED:
                    raise LimitExceeded(
                        f"the statement has more than {_MOST_NESTED} brackets within brackets; expected fewer"
                    )
                clauses.append(("", places.word_at(at - 1)))
            elif token.text in ")]}" and len(clauses) > 1:
                clauses.pop()
            elif token.text == "," and clauses[-1][0] in _RELATIONS:
                relations.append(at)
        elif token.word in _CLAUSES and not places.is_name(at):
            opened = clauses[-1][1]
            if token.word == "FROM" and (places.is_comparison(at) or opened in _VALUE_CALLS):
                continue
            clauses[-1] = token.word, opened
            if token.word in _RELATIONS:
                relations.append(at)
    return frozenset(relations)
