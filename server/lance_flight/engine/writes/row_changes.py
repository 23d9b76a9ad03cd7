"""UPDATE, DELETE, MERGE INTO and TRUNCATE: what they say, read token by token.

Conditions and expressions stay SQL text: `row_queries.py` puts them into the queries that find the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, names, table
from lance_flight.errors import SqlError

_AFTER_TABLE = ("SET", "WHERE", "USING")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table whose rows are changed, and what the statement calls it."""

    table: TableRef
    alias: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression`."""

    column: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE t [[AS] a] SET column = expression, … [WHERE condition]."""

    target: Target
    assignments: tuple[Assignment, ...]
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE FROM t [[AS] a] [WHERE condition]."""

    target: Target
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE [TABLE] t."""

    table: TableRef


class Matched(Enum):
    """Which rows a WHEN clause of MERGE is about."""

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
class Merge:
    """MERGE INTO t [[AS] a] USING source [[AS] s [(column, …)]] ON condition WHEN …; `source` is SQL text."""

    target: Target
    source: str
    source_alias: str
    source_columns: tuple[str, ...]
    on: str
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO|OVERWRITE t [(columns)] query; `columns` None means all, by position."""

    table: TableRef
    columns: tuple[str, ...] | None
    query: str
    overwrite: bool = False


RowChange = Update | Delete | Truncate | Merge


def update(cursor: Cursor) -> Update:
    """Read an UPDATE after its first word."""
    target = _target(cursor)
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    return Update(target=target, assignments=assignments, where=_where(cursor))


def delete(cursor: Cursor) -> Delete:
    """Read a DELETE after its first word."""
    cursor.expect("FROM")
    return Delete(target=_target(cursor), where=_where(cursor))


def truncate(cursor: Cursor) -> Truncate:
    """Read a TRUNCATE after its first word."""
    cursor.accept("TABLE")
    reference = table(cursor)
    cursor.end()
    return Truncate(reference)


def merge(cursor: Cursor) -> Merge:
    """Read a MERGE after its first word."""
    cursor.expect("INTO")
    target = _target(cursor)
    cursor.expect("USING")
    source, alias = _source(cursor)
    columns = names(cursor) if cursor.peek("(") else ()
    cursor.expect("ON")
    on = _text(cursor, "the condition", "WHEN")
    clauses = [_clause(cursor)]
    while not cursor.done:
        clauses.append(_clause(cursor))
    return Merge(
        target=target, source=source, source_alias=alias, source_columns=columns, on=on, clauses=tuple(clauses)
    )


def _target(cursor: Cursor) -> Target:
    reference = table(cursor)
    return Target(table=reference, alias=_alias(cursor, *_AFTER_TABLE) or reference.name)


def _alias(cursor: Cursor, *following: str) -> str | None:
    if cursor.accept("AS"):
        return cursor.name("an alias")
    if cursor.done or any(cursor.peek(word) for word in following):
        return None
    return cursor.name("an alias or " + " or ".join(following))


def _where(cursor: Cursor) -> str | None:
    where = _text(cursor, "a condition") if cursor.accept("WHERE") else None
    cursor.end()
    return where


def _source(cursor: Cursor) -> tuple[str, str]:
    """The text of a MERGE's source, without its alias, and the name that the statement has for it."""
    if cursor.peek("("):
        text = cursor.bracketed()
        alias = _alias(cursor, "ON")
        if alias is None:
            raise cursor.error("a name for the source")
        return text, alias
    start = cursor.at
    reference = table(cursor)
    text = cursor.source(start, cursor.at)
    return text, _alias(cursor, "ON") or reference.name


def _clause(cursor: Cursor) -> MergeClause:
    cursor.expect("WHEN")
    matched = _matched(cursor)
    condition = _text(cursor, "a condition", "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if matched is Matched.SOURCE_ONLY:
        cursor.expect("INSERT")
        if cursor.accept("*"):
            return MergeClause(matched=matched, condition=condition, assignments=(), takes_all=True)
        return MergeClause(matched=matched, condition=condition, assignments=_inserted(cursor))
    if cursor.accept("DELETE"):
        return MergeClause(matched=matched, condition=condition, assignments=None)
    cursor.expect("UPDATE", "SET")
    if cursor.accept("*"):
        if matched is Matched.TARGET_ONLY:
            raise SqlError("UPDATE SET * takes the columns of the source, and WHEN NOT MATCHED BY SOURCE has none")
        return MergeClause(matched=matched, condition=condition, assignments=(), takes_all=True)
    return MergeClause(matched=matched, condition=condition, assignments=_assignments(cursor, "WHEN"))


def _matched(cursor: Cursor) -> Matched:
    if cursor.accept("MATCHED"):
        return Matched.BOTH
    cursor.expect("NOT", "MATCHED")
    if cursor.accept("BY", "SOURCE"):
        return Matched.TARGET_ONLY
    cursor.accept("BY", "TARGET")
    return Matched.SOURCE_ONLY


def _inserted(cursor: Cursor) -> tuple[Assignment, ...]:
    columns = names(cursor)
    cursor.expect("VALUES")
    cursor.expect("(")
    values = [_text(cursor, "a value", ",", ")")]
    while cursor.accept(","):
        values.append(_text(cursor, "a value", ",", ")"))
    cursor.expect(")")
    if len(values) != len(columns):
        raise SqlError(
            f"{len(values)} values for {len(columns)} columns ({', '.join(columns)}) in the INSERT of a MERGE"
        )
    return _unique([Assignment(*pair) for pair in zip(columns, values, strict=True)])


def _assignments(cursor: Cursor, stop: str) -> tuple[Assignment, ...]:
    found = [_assignment(cursor, stop)]
    while cursor.accept(","):
        found.append(_assignment(cursor, stop))
    return _unique(found)


def _assignment(cursor: Cursor, stop: str) -> Assignment:
    column = cursor.name("a column name")
    while cursor.accept("."):
        column = cursor.name("a column name")
    cursor.expect("=")
    return Assignment(column, _text(cursor, f"a value for {column!r}", ",", stop))


def _unique(assignments: list[Assignment]) -> tuple[Assignment, ...]:
    columns = [assignment.column for assignment in assignments]
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise SqlError(f"column {twice[0]!r} is assigned twice")
    return tuple(assignments)


def _text(cursor: Cursor, what: str, *stops: str) -> str:
    text = cursor.until(*stops)
    if not text:
        raise cursor.error(what)
    return text
