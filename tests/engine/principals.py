"""Statements that tests run on an engine as principals with their access."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED, Access
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.statement_context import Scope
from lance_flight.errors import LanceFlightError


def query(of: Engine, sql: str, access: Access = UNLIMITED, scope: Scope | None = None) -> pa.Table:
    plan = of.plan(sql, scope=scope or Scope(access=access))
    assert plan is not None
    parts = [of.run(Task.from_bytes(task.to_bytes()), access=access).read_all() for task in plan.tasks]
    return pa.concat_tables(parts)


def told(of: Engine, sql: str, access: Access = UNLIMITED, scope: Scope | None = None) -> str:
    """The rows of a statement, or the error that it gives, or how many rows it affected; with the rights of `access`."""
    scope = scope or Scope(access=access)
    try:
        if of.describe(sql, scope).schema is None:
            return str(of.update(sql, scope=scope))
        return str(sorted(map(repr, query(of, sql, access, scope).to_pylist())))
    except LanceFlightError as error:
        return f"{type(error).__name__}: {error}"


@contextmanager
def transaction(of: Engine, access: Access) -> Iterator[Callable[[str], str]]:
    """Tells of statements in one transaction, which is committed at the end of the block."""
    session = of.clients.session(access.principal)
    scope = Scope(session, of.clients.begin(session), access=access)
    yield lambda sql: told(of, sql, access, scope)
    of.clients.end(scope.transaction or b"", commit=True)
