"""Comparison of the answers of two engines, and the differences that are known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
from lance_flight.errors import LanceFlightError, Unsupported

from tests.differential.tables import Peers

_IS_ORDERED = re.compile(r" LIMIT \d+(?: OFFSET \d+)?$")

# What DuckDB takes and this service refuses: a part of its error → why.
REFUSED = {
    "a subquery that gives a value may name columns": "no plan for correlated scalar subqueries but by equalities",
    "cannot sort or divide rows by what a subquery computes": "no sort by an operator over a scalar subquery",
    "stands two queries further out than": "no plan for a subquery that names columns of a query not right around it",
    "Schema contains duplicate unqualified field name": "no names for two casts of one column in GROUP BY",
    "two columns have the same name": "no plan for a correlated subquery that selects a column and a cast of it",
    "a subquery cannot stand in this clause": "no plan for a subquery that names columns in a condition of a join",
    "is not offered for row values, and in SELECT lists": "no plan for correlated IN as a value",
    r"EXISTS \(SELECT …\) cannot stand here": "no plan for EXISTS as a value",
    r"IN \(SELECT …\) cannot stand here": "no plan for correlated IN inside CASE and OR",
}


def answer(peers: Peers, sql: str) -> list[tuple[Any, ...]] | LanceFlightError:
    """Return the rows of a query, in a form that both engines' are compared in, or its error."""
    try:
        return [tuple(map(comparable, row)) for row in peers.database.rows(sql)]
    except LanceFlightError as exc:
        return exc


def expected(peers: Peers, sql: str) -> list[tuple[Any, ...]] | None:
    """Return DuckDB's rows; None where it refuses the query."""
    try:
        return [tuple(map(comparable, row)) for row in peers.peer.execute(sql).fetchall()]
    except duckdb.Error:
        return None


def comparable(value: Any) -> Any:
    """Return a value as both engines give it: numbers to six digits, days as their first moments."""
    match value:
        case bool() | None | str():
            return value
        case int() | float() | Decimal():
            return f"{float(value):.6g}".replace("-0", "0") if float(value) == 0 else f"{float(value):.6g}"
        case datetime():
            return value.replace(tzinfo=None)
        case date():
            return datetime(value.year, value.month, value.day)
    return value


def is_explained(error: LanceFlightError) -> bool:
    """Return whether a refusal is known: it names what is not supported, or is in the table."""
    return isinstance(error, Unsupported) or any(re.search(said, str(error)) for said in REFUSED)


def difference(peers: Peers, sql: str) -> str | None:
    """Return how the answers of a query differ; None if they are the same."""
    wanted = expected(peers, sql)
    if wanted is None:
        return None
    found = answer(peers, sql)
    if isinstance(found, LanceFlightError):
        return None if is_explained(found) else f"{sql}\n  {type(found).__name__}: {found}"
    same = found == wanted if _IS_ORDERED.search(sql) else Counter(found) == Counter(wanted)
    return None if same else f"{sql}\n  here:   {shown(found, wanted)}\n  DuckDB: {shown(wanted, found)}"


def shown(rows: Sequence[tuple[Any, ...]], others: Iterable[tuple[Any, ...]]) -> str:
    """Return the rows that the others have not, and how many rows there are."""
    only = list((Counter(rows) - Counter(others)).elements())
    return f"{len(rows)} rows, of which it alone has {only[:4]}"
