"""Refuses statements that their callers may not run."""

from __future__ import annotations

from typing import TypeVar

from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.query.policies.access import Access
from lance_flight.engine.statements.kinds import Statement

S = TypeVar("S", bound=Statement)


def permitted(statement: S, access: Access, root: Root) -> S:
    """Check the privileges of a statement as far as they are known before its tables are opened, and return the statement."""
    for privilege, table in statement.required(access.own):
        access.check_all_rows(privilege, root.governing(table))
    return statement
