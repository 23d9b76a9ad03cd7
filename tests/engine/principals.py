"""Statements that tests run on an engine as principals with their access."""

from __future__ import annotations

import pyarrow as pa
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policies.access import UNLIMITED, Access
from lance_flight.engine.query.query_plans import Task
from lance_flight.engine.query.statement_context import Scope
from lance_flight.errors import LanceFlightError


def query(of: Engine, sql: str, access: Access = UNLIMITED) -> pa.Table:
    plan = of.plan(sql, scope=Scope(access=access))
    assert plan is not None
    parts = [of.run(Task.from_bytes(task.to_bytes()), access=access).read_all() for task in plan.tasks]
    return pa.concat_tables(parts)


def told(of: Engine, sql: str, access: Access = UNLIMITED) -> str:
    """The rows of a statement, or the error that it gives, or how many rows it affected."""
    try:
        if of.describe(sql, Scope(access=access)).schema is None:
            return str(of.update(sql, scope=Scope(access=access)))
        return str(sorted(map(repr, query(of, sql, access).to_pylist())))
    except LanceFlightError as error:
        return f"{type(error).__name__}: {error}"
