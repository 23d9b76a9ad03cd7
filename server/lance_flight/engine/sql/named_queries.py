"""The queries of a WITH that stands before a change of rows, which the queries of that statement read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lance_flight.engine.sql.tokens import Token, tokenize

WITH = "WITH"
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_QUERIES = frozenset({"SELECT", "VALUES", "FROM", "TABLE", "PIVOT", "UNPIVOT"})


def place_of_change(tokens: Sequence[Token]) -> int | None:
    """Return the place of the word that begins a change of rows behind `WITH name AS (query), …`; None for a query.

    >>> place_of_change(tokenize("WITH x AS (SELECT 1) DELETE FROM t"))
    7
    """
    place = place_of_query(tokens)
    return place if place is not None and tokens[place].word in _CHANGES else None


def place_of_query(tokens: Sequence[Token]) -> int | None:
    """Return the place of the word that begins a query, or a change of rows, behind `WITH name AS (query), …`; None without one."""
    depth = 0
    for place, (before, token) in enumerate(pairwise(tokens), 1):
        depth += before.is_sign("(") - before.is_sign(")")
        if depth == 0 and before.is_sign(")") and token.word in _CHANGES | _QUERIES:
            return place
    return None


def with_queries(queries: str, sql: str) -> str:
    """Put `WITH name AS (query), …` before a query, which may have such queries of its own; no text for none.

    >>> with_queries("WITH x AS (SELECT 1)", "WITH y AS (SELECT 2) SELECT * FROM x, y")
    'WITH x AS (SELECT 1), y AS (SELECT 2) SELECT * FROM x, y'
    """
    if not queries:
        return sql
    if tokenize(sql)[0].word != WITH:
        return f"{queries}\n{sql}"
    (is_recursive, outer), (is_also, inner) = map(_without_word, (queries, sql))
    return f"{WITH} {'RECURSIVE ' * (is_recursive or is_also)}{outer}, {inner}"


def _without_word(text: str) -> tuple[bool, str]:
    """Return whether the queries of a WITH are RECURSIVE, and the text behind these words."""
    tokens = tokenize(text)
    is_recursive = tokens[1].word == "RECURSIVE"
    return is_recursive, text[tokens[1 + is_recursive].start :]
