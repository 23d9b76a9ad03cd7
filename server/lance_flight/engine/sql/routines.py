"""Facts about SQL functions, as DataFusion's `information_schema.routines` has them; asked once in a process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import pairwise

from datafusion import SessionConfig, SessionContext

from lance_flight.engine.sql.tokens import QUOTED, STRINGS, Kind, Token, tokenize

# DataFusion takes it for immutable: no other release answers.
_OF_A_RELEASE = frozenset({"version"})
_WITHOUT_BRACKETS = frozenset({"current_date", "current_time", "current_timestamp"})
_END = Token(Kind.SIGN, "", 0, 0)


@cache
def _names(condition: str) -> frozenset[str]:
    """The names of the routines for which an SQL condition holds."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    query = f"SELECT DISTINCT routine_name FROM information_schema.routines WHERE {condition}"  # noqa: S608 - a constant
    return frozenset(context.sql(query).to_pydict()["routine_name"])


def is_aggregate(function: str) -> bool:
    """Return whether a function is an aggregate or a window function.

    >>> is_aggregate("SUM"), is_aggregate("upper")
    (True, False)
    """
    return function.lower() in _names("function_type IN ('AGGREGATE', 'WINDOW')")


def changing_functions() -> frozenset[str]:
    """The functions, by all their names, whose value is not told by their arguments alone: `random`, `now` and the like."""
    return _names("function_type = 'SCALAR' AND NOT is_deterministic") | _OF_A_RELEASE


@cache
def volatile_functions() -> frozenset[str]:
    """Those of them whose value changes within a statement: what DataFusion does not replace by a constant (`now` it does)."""
    return frozenset(name for name in changing_functions() if not _is_constant(name))


def _is_constant(name: str) -> bool:
    try:
        plan = SessionContext().sql(f'SELECT "{name}"() AS value').optimized_logical_plan()
    except Exception:  # noqa: BLE001 - it takes arguments, or a file
        return False
    return "()" not in plan.display_indent()


def calls_of(sql: str, names: Collection[str]) -> Iterator[str]:
    """The names among `names` that a text calls, as it writes them.

    >>> list(calls_of("RANDOM() + now", {"random", "now"}))
    ['RANDOM']
    """
    tokens = [token for token in tokenize(sql) if token.kind not in STRINGS]
    for token, following in pairwise([*tokens, _END]):
        name = token.text.lower()
        is_bare = name in _WITHOUT_BRACKETS and token.kind not in QUOTED
        if name in names and (is_bare or following.is_sign("(")):
            yield token.text
