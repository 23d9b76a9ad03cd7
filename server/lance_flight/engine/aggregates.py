"""Which functions of DataFusion take many rows."""

from __future__ import annotations

from functools import cache

from datafusion import SessionConfig, SessionContext

_ROUTINES = (
    "SELECT DISTINCT routine_name FROM information_schema.routines WHERE function_type IN ('AGGREGATE', 'WINDOW')"
)


def is_aggregate(function: str) -> bool:
    """Whether a function is an aggregate or a window function.

    >>> is_aggregate("SUM"), is_aggregate("upper")
    (True, False)
    """
    return function.lower() in _aggregates()


@cache
def _aggregates() -> frozenset[str]:
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    return frozenset(context.sql(_ROUTINES).to_pydict()["routine_name"])
