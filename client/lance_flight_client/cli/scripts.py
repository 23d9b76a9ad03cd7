"""Scripts of SQL: statements that semicolons separate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lance_flight.engine.sql.tokens import tokens_of
from lance_flight.errors import SqlError


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement of a script, and the line that it begins on."""

    text: str
    line: int


def statements_of(script: str) -> Iterator[ScriptStatement]:
    r"""Yield the statements of a script; semicolons in strings, names and comments separate none.

    >>> [(each.line, each.text) for each in statements_of("SELECT ';';\n-- two;\nSELECT 2")]
    [(1, "SELECT ';'"), (3, 'SELECT 2')]
    """
    start = stop = None
    for token in tokens_of(script):
        if token.is_sign(";"):
            if start is not None:
                yield ScriptStatement(script[start:stop], script.count("\n", 0, start) + 1)
            start = None
            continue
        start, stop = token.start if start is None else start, token.stop
    if start is not None:
        yield ScriptStatement(script[start:stop], script.count("\n", 0, start) + 1)


def is_whole(script: str) -> bool:
    """Return whether the last statement of a script has its semicolon; False within a string or a comment.

    >>> is_whole("SELECT 1; -- done"), is_whole("SELECT 'a;")
    (True, False)
    """
    try:
        last = None
        for token in tokens_of(script):
            last = token
    except SqlError:
        return False
    return last is not None and last.is_sign(";")
