"""Recognises queries about the activity of the server alone, which wait for no other statement."""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.engine.sql.references import CATALOG
from lance_flight.engine.sql.tokens import Token, fold_name, tokenize

SYSTEM = "system"
LONGEST = 4096
"""Longest text that is looked at."""
_AFTER = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH"})
_OTHERS = frozenset({"WITH", "UNION", "INTERSECT", "EXCEPT", "JOIN", "VALUES", "EXPLAIN", "LATERAL", "UNNEST"})


def reads_activity(sql: str) -> bool:
    """Return whether a text is one SELECT over one table of the schema `system`, and over nothing else.

    >>> reads_activity("SELECT id FROM system.queries q WHERE seconds > 9 ORDER BY 1")
    True
    >>> reads_activity("SELECT 1"), reads_activity("SELECT * FROM system.queries, system.queries AS b")
    (False, False)
    """
    if len(sql) > LONGEST or SYSTEM not in sql.lower():
        return False
    tokens = tokenize(sql)
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    words = [token.word for token in tokens]
    if not words or words[0] != "SELECT" or words.count("SELECT") != 1 or words.count("FROM") != 1:
        return False
    if _OTHERS & set(words):
        return False
    after = _after_table(tokens[words.index("FROM") + 1 :])
    if after is None:
        return False
    if after and after[0].word == "AS":
        after = after[2:]
    elif after and after[0].word not in _AFTER:
        after = after[1:]
    return not after or after[0].word in _AFTER


def _after_table(tokens: Sequence[Token]) -> Sequence[Token] | None:
    """Return what follows `[lance.]system.table`; None where something else stands."""
    names = [fold_name(token) for token in tokens[:5:2]]
    dots = [token.is_sign(".") for token in tokens[1:4:2]]
    if names[:2] == [CATALOG, SYSTEM] and dots == [True, True]:
        return tokens[5:]
    return tokens[3:] if names[:1] == [SYSTEM] and dots[:1] == [True] else None
