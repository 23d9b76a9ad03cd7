"""Conditions of searches, which are texts in SQL: the parameters inside of them are ones of the statement."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from lance_flight.engine.sql.tokens import PARAMETERS, Kind, Token, tokens_of
from lance_flight.errors import SqlError

_ARGUMENT = ["FILTER", "=", ">"]
"""Tokens before the condition of a search."""


def parameters_in(sql: str) -> Iterator[tuple[Token, Token | None]]:
    """Yield the parameters of a statement and the long runs of them, in order, each with the string token that it stands in, if that is a search's condition.

    >>> [(found.text, within and within.text) for found, within in parameters_in("SELECT ? FROM f(filter => 'a = $2')")]
    [('?', None), ('$2', 'a = $2')]
    """
    if "=>" not in sql:
        yield from ((token, None) for token in tokens_of(sql) if token.kind in PARAMETERS)
        return
    before: deque[Token] = deque(maxlen=len(_ARGUMENT))
    for token in tokens_of(sql):
        if token.kind in PARAMETERS:
            yield token, None
        elif token.kind is Kind.STRING and [each.text.upper() for each in before] == _ARGUMENT:
            with suppress(SqlError):  # the condition says what is wrong with it
                yield from [(inner, token) for inner in tokens_of(token.text) if inner.kind in PARAMETERS]
        before.append(token)
