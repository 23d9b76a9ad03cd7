"""Reads an INSERT of a long VALUES list in pieces: its tokens, and DataFusion's syntax tree of them, would take a hundred times its size."""

from __future__ import annotations

from collections.abc import Iterator

from lance_flight.engine.tokens import Kind, Token, tokens_of
from lance_flight.errors import SqlError

LONG = 1 << 20
"""Characters of a list that is read in pieces."""
PIECE = 128 << 10
"""Characters of a piece, at least."""

_MOST_BEFORE = 10_000
"""Tokens before VALUES: a table, and its columns."""


def insert_head(text: str) -> list[Token] | None:
    """The tokens of a long INSERT up to its VALUES, which stands for all that follows; None for any other statement.

    >>> insert_head("INSERT INTO t VALUES (1)") is None
    True
    """
    if len(text) < LONG:
        return None
    head: list[Token] = []
    for token in tokens_of(text):
        if not head and token.word != "INSERT":
            return None
        if token.word == "VALUES":
            return [*head, token._replace(stop=len(text))]
        head.append(token)
        if token.word in {"SELECT", "WITH"} or len(head) > _MOST_BEFORE:
            return None
    return None


def pieces(query: str) -> Iterator[str]:
    """A query in parts that give its rows one after another: a long VALUES list in several ones, any other as it is.

    >>> list(pieces("VALUES (1), (2)"))
    ['VALUES (1), (2)']
    """
    if len(query) < LONG or query[:6].upper() != "VALUES":
        yield query
        return
    start, depth = len("VALUES"), 0
    for token in tokens_of(query[start:]):
        sign = token.text if token.kind is Kind.SIGN else ""
        at = token.start + len("VALUES")
        if depth == 0 and sign not in ("(", ",", ";"):
            raise SqlError(
                f"expected a comma or the end after a row of VALUES, got {token.text!r} at character {at + 1}"
            )
        if sign in {"(", ")"}:
            depth += 1 if sign == "(" else -1
        elif depth == 0 and at - start >= PIECE:
            yield "VALUES " + query[start:at]
            start = at + 1
    if query[start:].strip("; \t\r\n"):
        yield "VALUES " + query[start:].rstrip("; \t\r\n")
