"""Properties of SQL functions, from DataFusion's `information_schema.routines`; read once per process.

The classes of volatility are PostgreSQL's: an immutable function gives one value for the same arguments, a stable one (`now`) for the
length of a statement, a volatile one (`random`) not even that. A mutable function is a stable or a volatile one.

| what is refused | because the text |
|---|---|
| `mutable_functions` | is stored or used by later statements: expressions of partitions, computed columns and policies, plans that are kept |
| `volatile_functions` | is computed twice within one statement: the filter of a search, the side of a join whose keys prune the other |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from datafusion import SessionConfig, SessionContext

from lance_flight.engine.functions.function_table import (
    advice,
    calling,
    computed_names,
    functions,
    macros,
    table_macros,
)
from lance_flight.engine.functions.macros import Macros
from lance_flight.engine.sql.tokens import QUOTED, STRINGS, Kind, Token, tokenize

# DataFusion takes it for immutable: no other release answers.
_OF_A_RELEASE = frozenset({"version"})
_WITHOUT_BRACKETS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
_END = Token(Kind.SIGN, "", 0, 0)


@cache
def routines() -> tuple[Mapping[str, Any], ...]:
    """Return all functions with their properties, one row for each signature; not to be called first while DataFusion plans."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    listed = context.sql("SELECT * FROM information_schema.routines ORDER BY routine_name, specific_name").to_pylist()
    rows = [*({str(key): value for key, value in row.items()} for row in listed), *_ours()]
    return tuple(sorted(rows, key=lambda row: (row["routine_name"], row["specific_name"])))


def _ours() -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the functions of the table."""
    mutable = mutable_functions()
    for number, function in enumerate(functions()):
        for name in () if function.instead else function.names:
            yield {
                "specific_name": f"{name}_of_table_{number}",
                "routine_name": name,
                "routine_type": "FUNCTION",
                "data_type": None,
                "function_type": "AGGREGATE" if is_aggregate(name) else "SCALAR",
                "is_deterministic": name.lower() not in mutable,
                "description": function.meaning,
                "syntax_example": f"{name}{function.signature.removeprefix(function.names[0])}",
            }


@cache
def _names(condition: str) -> frozenset[str]:
    """Return the names of the routines for which an SQL condition holds."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    query = f"SELECT DISTINCT routine_name FROM information_schema.routines WHERE {condition}"  # noqa: S608 - a constant
    return frozenset(context.sql(query).to_pydict()["routine_name"])


def is_aggregate(function: str) -> bool:
    """Return whether a function is an aggregate or a window function.

    >>> is_aggregate("SUM"), is_aggregate("upper")
    (True, False)
    """
    return function.lower() in _aggregates() | calling(_aggregates())


def _aggregates() -> frozenset[str]:
    return _names("function_type IN ('AGGREGATE', 'WINDOW')")


def window_functions() -> frozenset[str]:
    """Return the names of the functions that are computed over a window, and nowhere else."""
    return _names("function_type = 'WINDOW'") - _names("function_type = 'AGGREGATE'")


def mutable_functions() -> frozenset[str]:
    """Return the names of the functions that are not immutable: `random`, `now` and the like."""
    named = _names("function_type = 'SCALAR' AND NOT is_deterministic") | _OF_A_RELEASE
    return named | calling(named)


@cache
def volatile_functions() -> frozenset[str]:
    """Return the names of the functions whose value changes within a statement: DataFusion does not replace them by a constant."""
    volatile = frozenset(name for name in mutable_functions() - macros().keys() if not _is_constant(name))
    return volatile | calling(volatile)


def _is_other(name: str) -> bool:
    """Return whether a function that is no macro has a name."""
    return name in computed_names() or name in _names("true")


MACROS = Macros(
    macros(),
    lambda name: name.lower() in _aggregates(),
    volatile_functions,
    _is_other,
    tables=table_macros(),
    instead=advice(),
)
"""The macros of the table."""


def _is_constant(name: str) -> bool:
    try:
        plan = SessionContext().sql(f'SELECT "{name}"() AS value').optimized_logical_plan()
    except Exception:  # noqa: BLE001 - it takes arguments, or a file
        return False
    return "()" not in plan.display_indent()


def calls_of(sql: str, names: Collection[str]) -> Iterator[str]:
    """Yield the functions among `names` that a text calls, as it writes them.

    >>> list(calls_of("RANDOM() + now", {"random", "now"}))
    ['RANDOM']
    """
    tokens = [token for token in tokenize(sql) if token.kind not in STRINGS]
    for token, following in pairwise([*tokens, _END]):
        name = token.text.lower()
        is_bare = name in _WITHOUT_BRACKETS and token.kind not in QUOTED
        if name in names and (is_bare or following.is_sign("(")):
            yield token.text
