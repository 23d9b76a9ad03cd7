"""Parsers for the parts of UPDATE, DELETE and MERGE: targets, assignments and conditions.

Conditions and expressions stay SQL text: `row_queries.py` puts them into the queries that find the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, table
from lance_flight.errors import SqlError

_AFTER_TABLE = ("SET", "WHERE", "USING")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Table whose rows are changed, and its alias in the statement."""

    table: TableRef
    alias: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression`."""

    column: str
    expression: str


class Matched(Enum):
    """Rows that a WHEN clause of MERGE applies to."""

    BOTH = "MATCHED"
    SOURCE_ONLY = "NOT MATCHED"
    TARGET_ONLY = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """WHEN … [AND condition] THEN; `assignments` None deletes the row, () with `takes_all` takes every column over."""

    matched: Matched
    condition: str | None
    assignments: tuple[Assignment, ...] | None
    takes_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """`INTO t [[AS] a] USING source [[AS] s [(column, …)]] ON condition WHEN …`; `source` is SQL text; `on` is empty until the primary key is looked up."""

    target: Target
    source: str
    source_alias: str
    source_columns: tuple[str, ...]
    on: str
    clauses: tuple[MergeClause, ...]


def target(cursor: Cursor) -> Target:
    """Read `t [[AS] a]`."""
    reference = table(cursor)
    return Target(table=reference, alias=alias(cursor, *_AFTER_TABLE) or reference.name)


def alias(cursor: Cursor, *following: str) -> str | None:
    """Read `[[AS] a]`, which ends before one of some words."""
    if cursor.accept("AS"):
        return cursor.name("an alias")
    if cursor.done or any(cursor.peek(word) for word in following):
        return None
    return cursor.name("an alias or " + " or ".join(following))


def where(cursor: Cursor) -> str | None:
    """Read `[WHERE condition]`, which ends the statement."""
    condition = text(cursor, "a condition") if cursor.accept("WHERE") else None
    cursor.end()
    return condition


def assignments(cursor: Cursor, stop: str) -> tuple[Assignment, ...]:
    """Read `column = expression, …` up to a word."""
    found = [_assignment(cursor, stop)]
    while cursor.accept(","):
        found.append(_assignment(cursor, stop))
    return unique(found)


def _assignment(cursor: Cursor, stop: str) -> Assignment:
    column = cursor.name("a column name")
    while cursor.accept("."):
        column = cursor.name("a column name")
    cursor.expect("=")
    return Assignment(column, text(cursor, f"a value for {column!r}", ",", stop))


def unique(assignments: list[Assignment]) -> tuple[Assignment, ...]:
    """Refuse to assign a column twice."""
    columns = [assignment.column for assignment in assignments]
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise SqlError(f"column {twice[0]!r} is assigned twice")
    return tuple(assignments)


def text(cursor: Cursor, what: str, *stops: str) -> str:
    """Read SQL up to one of some words; raise an error that expects `what` if there is none."""
    found = cursor.until(*stops)
    if not found:
        raise cursor.error(what)
    return found
