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
    depth = 0
    for place, (before, token) in enumerate(pairwise(tokens), 1):
        depth += (before.text == "(") - (before.text == ")") if not before.word else 0
        if depth == 0 and before.is_sign(")") and token.word in _CHANGES | _QUERIES:
            return place if token.word in _CHANGES else None
    return None


def with_queries(queries: str, sql: str) -> str:
    """Put `WITH name AS (query), …` before a query, which may have such queries of its own; no text for none.

    >>> with_queries("WITH x AS (SELECT 1)", "WITH y AS (SELECT 2) SELECT * FROM x, y")
    'WITH x AS (SELECT 1), y AS (SELECT 2) SELECT * FROM x, y'
    """
    if not queries:
        return sql
    outer, inner = (_without_word(text) for text in (queries, sql))
    if inner is None or outer is None:
        return f"{queries}\n{sql}"
    recursive = "RECURSIVE " * (outer[0] or inner[0])
    return f"{WITH} {recursive}{outer[1]}, {inner[1]}"


def _without_word(text: str) -> tuple[bool, str] | None:
    """Return whether the queries of a text are RECURSIVE, and the text behind these words; None where it begins otherwise."""
    tokens = tokenize(text)
    if tokens[0].word != WITH:
        return None
    is_recursive = tokens[1].word == "RECURSIVE"
    return is_recursive, text[tokens[1 + is_recursive].start :]
