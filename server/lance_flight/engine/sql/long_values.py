"""Reads an INSERT of a long VALUES list in pieces, since its tokens and DataFusion's syntax tree take a hundred times its size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lance_flight.engine.sql.tokens import Kind, Token, tokens_of
from lance_flight.errors import LimitExceeded, SqlError

LONG = 1 << 20
"""Characters from which on a list is read in pieces."""
PIECE = 128 << 10
"""Approximate length of a piece, in characters."""
LONGEST_PLANNED = 4 << 20
"""Characters of a text that is planned, and of a row of a list: it is searched some sixty times, which keeps Python's lock meanwhile."""

_MOST_BEFORE = 10_000
"""Most tokens before VALUES: a table, and its columns."""
_VALUES = "VALUES"
_LITERAL = r"(?:'(?:[^']++|'')*+'|[+-]?\d++(?:\.\d*+)?(?:[eE][+-]?\d++)?|(?i:NULL|TRUE|FALSE))"
_ROW = rf"\s*+\(\s*+{_LITERAL}\s*+(?:,\s*+{_LITERAL}\s*+)*+\)"
_LITERAL_ROWS = re.compile(rf"{_ROW}(?:\s*+,{_ROW}){{0,2000}}+")
_LITERAL_ROW = re.compile(_ROW)
_SEPARATOR = re.compile(r"\s*+(?:(?P<comma>,)|;?\s*+\Z)")


class PartialQuery(NamedTuple):
    """A query that gives some of the rows; `is_literal` where they are made of plain literals alone."""

    sql: str
    is_literal: bool


def insert_head(text: str) -> list[Token] | None:
    """Return the tokens of a long INSERT up to VALUES, whose token spans the rest of the text; None for any other statement.

    >>> insert_head("INSERT INTO t VALUES (1)") is None
    True
    """
    if len(text) < LONG:
        return None
    head: list[Token] = []
    for token in tokens_of(text):
        if not head and token.word != "INSERT":
            return None
        if token.word == _VALUES:
            return [*head, token._replace(stop=len(text))]
        head.append(token)
        if token.word in {"SELECT", "WITH"} or len(head) > _MOST_BEFORE:
            return None
    return None


def pieces(query: str) -> Iterator[PartialQuery]:
    """A query in parts that give its rows one after another: a long VALUES list in several ones, any other as it is.

    >>> list(pieces("VALUES (1), (2)"))
    [PartialQuery(sql='VALUES (1), (2)', is_literal=False)]
    """
    if len(query) < LONG or query[: len(_VALUES)].upper() != _VALUES:
        yield PartialQuery(query, is_literal=False)
        return
    at, has_more = len(_VALUES), True
    while has_more:
        literal = _LITERAL_ROWS.match(query, at)
        if literal is not None and literal.end() - at > LONG:
            literal = _LITERAL_ROW.match(query, at)
        stop = _end_of_rows(query, at) if literal is None else literal.end()
        if stop - at > LONGEST_PLANNED:
            raise LimitExceeded(
                f"a row of VALUES has {stop - at} characters; expected at most {LONGEST_PLANNED}: send its values as parameters"
            )
        yield PartialQuery(f"{_VALUES} {query[at:stop]}", is_literal=literal is not None)
        at, has_more = _after_comma(query, stop)


def _after_comma(query: str, start: int) -> tuple[int, bool]:
    """Return the start of the next row, and whether there is one; raise `SqlError` for anything but a comma or the end."""
    simple = _SEPARATOR.match(query, start)
    if simple is not None:
        return simple.end(), simple["comma"] is not None
    token = next(iter(tokens_of(query[start:])), None)  # behind comments
    if token is None or token.is_sign(";"):
        return len(query), False
    if not token.is_sign(","):
        raise SqlError(
            f"expected a comma or the end after a row of VALUES, got {token.text!r}"
            f" at character {start + token.start + 1} of the list"
        )
    return start + token.stop, True


def _end_of_rows(query: str, start: int) -> int:
    """Return the end of a run of bracketed rows that begins at a place."""
    depth = stop = 0
    for token in tokens_of(query[start:]):
        sign = token.text if token.kind is Kind.SIGN else ""
        if depth == 0 and sign != "(" and (sign != "," or not stop or stop > PIECE):
            break
        depth += (sign == "(") - (sign == ")")
        stop = token.stop if depth == 0 and sign == ")" else stop
    return start + stop
