"""Prunes the target of a MERGE by the join keys that occur in its source, evaluated before the target is read.

Only keys of a source that gives the same rows whenever it is read (a table, a list of values) are asked for; any other one is
evaluated once, by the statement itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan

from lance_flight.engine.query.few_keys import few_keys
from lance_flight.engine.query.information_schema import INFORMATION_SCHEMA
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.system_tables import SYSTEM
from lance_flight.engine.sql.functions import unsteady
from lance_flight.engine.sql.parameters import parameter_count
from lance_flight.engine.writes.row_changes import Matched, Merging
from lance_flight.engine.writes.row_queries import source_query
from lance_flight.planning.predicates import Column, In, Predicate, all_of


def matched_rows(session: QuerySession, statement: Merging, frame: DataFrame) -> Predicate:
    """Return what holds of every row of the target that `frame`, the query of the statement, can be about."""
    if any(clause.matched is Matched.TARGET_ONLY for clause in statement.clauses) or not _is_stable(
        statement, session.db_schema
    ):
        return all_of([])
    source = session.frame(source_query(statement))
    pairs = _keys(session.optimised(frame), statement.target.alias)
    return all_of(
        [In(Column(name), found) for name, key in pairs if (found := _values(session, source, key)) is not None]
    )


def _is_stable(statement: Merging, db_schema: str) -> bool:
    """Return whether the source, and the keys computed from it, are the same when they are computed twice."""
    text = statement.source.lstrip("( \n\t").upper()
    # The source is asked for its keys without the values of parameters.
    if parameter_count(statement.source):
        return False
    is_rows = not statement.source.startswith("(") or text.startswith("VALUES")
    source = f"{db_schema}.{statement.source}".lower()
    is_of_system = SYSTEM in source or INFORMATION_SCHEMA in source
    return is_rows and not is_of_system and not any(chain(unsteady(statement.source), unsteady(statement.on)))


def _keys(plan: LogicalPlan, alias: str) -> Iterator[tuple[str, Any]]:
    """Yield the columns of the target that a join compares, with the expressions they are compared to."""
    node = plan.to_variant()
    # Where NULL matches NULL the values that are not NULL say too little.
    if type(node).__name__ == "Join" and not node.null_equals_null():
        for pair in node.on():
            for mine, theirs in (pair, pair[::-1]):
                if mine.variant_name() == "Column" and mine.to_variant().relation() == alias:
                    yield mine.to_variant().name(), theirs
    for child in plan.inputs():
        yield from _keys(child, alias)


def _values(session: QuerySession, source: DataFrame, key: Any) -> pa.Array | None:
    """Return the distinct values of a key; None if there are too many, or none at all."""
    keys = source.select(Expr(key).alias("key"))
    session.prepare(keys)
    values = few_keys(session, keys)
    return values if values is not None and len(values) else None
