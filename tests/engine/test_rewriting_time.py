"""The time that rewrites take grows with the length of a statement, whatever is in it, and not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from lance_flight.engine.compat.checked_arithmetic import interval_edits
from lance_flight.engine.compat.memberships import row_value_edits, selected_edits
from lance_flight.engine.dialects.pivots import unnest_edits
from lance_flight.engine.sql.tokens import tokenize
from lance_flight.errors import LanceFlightError

REWRITES = (interval_edits, unnest_edits, row_value_edits, selected_edits)
COUNT = 6_000
MOST_SECONDS = 5
"""What is quadratic takes a minute."""
TEXTS: dict[str, Callable[[int], str]] = {
    "row values": lambda n: "SELECT 1 WHERE " + " AND ".join(["(a, b) = (1, 2)"] * n),
    "row values in queries": lambda n: "SELECT 1 WHERE " + " AND ".join(["(a, b) IN (SELECT 1, 2)"] * n),
    "row values in one another": lambda n: "SELECT " + "(a, " * n + "1" + ") = (1, 2)" * n,
    "open row values": lambda n: "SELECT " + "(a, " * n,
    "unnests": lambda n: "SELECT 1 FROM t" + ", unnest(t.l) AS x" * n,
    "words of unnest": lambda n: "SELECT " + " FROM t, unnest " * n,
    "queries of unnest": lambda n: "SELECT * FROM (SELECT * FROM t, unnest(t.l) AS x, " * n + " t " + ")" * n,
    "names of unnest": lambda n: "SELECT " + "x.n, " * n + " 1 FROM t, unnest(t.l) AS x(n)",
    "EXISTS": lambda n: "SELECT " + ", ".join(["EXISTS (SELECT 1 FROM u)"] * n),
    "IN": lambda n: "SELECT " + " AND ".join(["a IN (SELECT 1 FROM u)"] * n),
    "EXISTS in one another": lambda n: "SELECT " + "EXISTS (SELECT " * n,
    "words of clauses": lambda n: "SELECT EXISTS (SELECT 1) " + "WHERE " * n,
    "intervals": lambda n: "SELECT " + " + ".join(["a * INTERVAL '1 day'"] * n),
    "parts of an interval": lambda n: "SELECT INTERVAL '" + "1 day " * n + "' * 2",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_rewrite_takes_time_by_the_length_of_a_statement(name: str) -> None:
    text = TEXTS[name](COUNT)
    tokens = tokenize(text)
    began = time.process_time()
    for rewrite in REWRITES:
        try:
            rewrite(text, tokens)
        except LanceFlightError:
            continue
    assert time.process_time() - began < MOST_SECONDS
