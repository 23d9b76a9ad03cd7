"""Bound on the expansion of WITH queries that refer to each other: each is inlined at every reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lance_flight.engine.sql.tokens import Kind, Token, closing_places, fold_name
from lance_flight.errors import SqlError

MOST_EXPANDED = 2_000
"""Most relations that a statement reads after each of its WITH queries is inlined at every reference."""


@dataclass(slots=True)
class _Query:
    """Query of WITH: its name, the tokens of its bracket, and the number of relations that it reads when expanded."""

    name: str
    start: int
    stop: int
    relations: int = 0


def check_expansion(tokens: Sequence[Token]) -> None:
    """Refuse a statement that reads too many relations when it is expanded; `SqlError` names one of its WITH queries.

    >>> from lance_flight.engine.sql.tokens import tokenize, fold_name
    >>> check_expansion(tokenize("WITH a AS (SELECT 1) SELECT * FROM a"))
    """
    queries = list(with_queries(tokens))
    if not queries:
        return
    named: dict[str, int] = {}
    for query in sorted(queries, key=lambda item: item.stop):
        query.relations = _relations(tokens, query.start, query.stop, named)
        named[query.name] = query.relations
        _check_expanded(query.relations, query.name)
    last = max(query.stop for query in queries)
    _check_expanded(_relations(tokens, last, len(tokens), named), queries[-1].name)


def _check_expanded(relations: int, name: str) -> None:
    if relations > MOST_EXPANDED:
        raise SqlError(
            f"the statement reads {relations} relations once its WITH queries, like {name!r}, stand where they are named;"
            f" expected at most {MOST_EXPANDED}"
        )


def with_queries(tokens: Sequence[Token]) -> Iterator[_Query]:
    """Yield every `name [(columns)] AS [NOT] [MATERIALIZED] (…)` of a statement, in the order of their beginnings."""
    closing = closing_places(tokens)
    opening = {stop: start for start, stop in closing.items()}
    for place, token in enumerate(tokens):
        if token.word != "AS":
            continue
        opened = place + 1
        while opened < len(tokens) and tokens[opened].word in {"NOT", "MATERIALIZED"}:
            opened += 1
        if opened < len(tokens) and opened in closing and tokens[opened].is_sign("("):
            before = place - 1
            if tokens[before].is_sign(")"):
                before = opening.get(before, 0) - 1
            if before >= 0 and tokens[before].kind in (Kind.WORD, Kind.NAME):
                yield _Query(fold_name(tokens[before]), opened, closing[opened])


def _relations(tokens: Sequence[Token], start: int, stop: int, named: dict[str, int]) -> int:
    """Return the number of relations that the tokens `start` to `stop` read; `named` queries count with their own numbers."""
    count = 0
    for place in range(start, stop):
        token = tokens[place]
        if token.kind in (Kind.WORD, Kind.NAME):
            before = tokens[place - 1] if place else None
            if before is not None and (before.word in {"FROM", "JOIN"} or before.is_sign(",")):
                known = named.get(fold_name(token))
                count += known if known is not None else before.word in {"FROM", "JOIN"}
    return max(count, 1)
