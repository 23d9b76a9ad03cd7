"""MERGE INTO."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import quoted
from lance_flight.engine.sql.version_clauses import read_version
from lance_flight.engine.statements.row_changes import RowChange
from lance_flight.engine.writes.merge_keys import matched_rows
from lance_flight.engine.writes.row_changes import (
    Assignment,
    Matched,
    MergeClause,
    Merging,
    alias,
    assignments,
    target,
    text,
    unique,
)
from lance_flight.engine.writes.row_queries import RowQuery, merge_query, source_query
from lance_flight.errors import SqlError


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Merging, RowChange):
    """MERGE INTO t [[AS] a] USING source [[AS] s [(column, …)]] [ON condition] WHEN …; without ON by the primary key."""

    forms = ("MERGE",)

    @classmethod
    def read(cls, cursor: Cursor) -> Merge:
        cursor.expect("INTO")
        into = target(cursor)
        cursor.expect("USING")
        source, called = _source(cursor)
        columns = references.names(cursor) if cursor.peek("(") else ()
        if not (cursor.peek("ON") or cursor.peek("WHEN")):
            raise cursor.error("ON, or WHEN for a MERGE by the primary key")
        on = text(cursor, "the condition", "WHEN") if cursor.accept("ON") else ""
        clauses = [_clause(cursor)]
        while not cursor.done:
            clauses.append(_clause(cursor))
        return cls(
            target=into, source=source, source_alias=called, source_columns=columns, on=on, clauses=tuple(clauses)
        )

    @property
    def changing(self) -> frozenset[Privilege]:
        on_the_target = [clause for clause in self.clauses if clause.matched is not Matched.SOURCE_ONLY]
        deletes = {Privilege.DELETE for clause in on_the_target if clause.assignments is None}
        updates = {Privilege.UPDATE for clause in on_the_target if clause.assignments is not None}
        return frozenset(deletes | updates)

    @property
    def writing(self) -> frozenset[Privilege]:
        inserts = any(clause.matched is Matched.SOURCE_ONLY for clause in self.clauses)
        return (self.changing - {Privilege.DELETE}) | ({Privilege.INSERT} if inserts else frozenset())

    def resolved(self, session: QuerySession) -> Merge:
        if self.on:
            return self
        key = self.writable(session).primary_key
        if not key:
            raise SqlError(
                f"table {self.target_name.name!r} has no primary key; expected ON condition, or ALTER TABLE … ADD PRIMARY KEY"
            )
        equal = [f"{quoted(self.target.alias, name)} = {quoted(self.source_alias, name)}" for name in key]
        return replace(self, on=" AND ".join(equal))

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        source = pa.schema(session.frame(source_query(self)).schema())
        return merge_query(self, self.target_name.db_schema, schema, source, keeps_ids=keeps_ids)

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        session.narrow(matched_rows(session, self, frame))


def _source(cursor: Cursor) -> tuple[str, str]:
    """Read the source of a MERGE: its text without the alias, and the name by which the statement refers to it."""
    if cursor.peek("("):
        relation = cursor.bracketed()
        called = alias(cursor, "ON", "WHEN")
        if called is None:
            raise cursor.error("a name for the source")
        return relation, called
    start = cursor.at
    reference = references.table(cursor)
    read_version(cursor)  # which the query over the source reads again
    relation = cursor.source(start, cursor.at)
    return relation, alias(cursor, "ON", "WHEN") or reference.name


def _clause(cursor: Cursor) -> MergeClause:
    cursor.expect("WHEN")
    matched = _read_matched(cursor)
    condition = text(cursor, "a condition", "THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if matched is Matched.SOURCE_ONLY:
        cursor.expect("INSERT")
        if cursor.accept("*"):
            return MergeClause(matched=matched, condition=condition, assignments=(), takes_all=True)
        return MergeClause(matched=matched, condition=condition, assignments=_read_insert(cursor))
    if cursor.accept("DELETE"):
        return MergeClause(matched=matched, condition=condition, assignments=None)
    cursor.expect("UPDATE", "SET")
    if cursor.accept("*"):
        if matched is Matched.TARGET_ONLY:
            raise SqlError("UPDATE SET * takes the columns of the source, and WHEN NOT MATCHED BY SOURCE has none")
        return MergeClause(matched=matched, condition=condition, assignments=(), takes_all=True)
    return MergeClause(matched=matched, condition=condition, assignments=assignments(cursor, "WHEN"))


def _read_matched(cursor: Cursor) -> Matched:
    if cursor.accept("MATCHED"):
        return Matched.BOTH
    cursor.expect("NOT", "MATCHED")
    if cursor.accept("BY", "SOURCE"):
        return Matched.TARGET_ONLY
    cursor.accept("BY", "TARGET")
    return Matched.SOURCE_ONLY


def _read_insert(cursor: Cursor) -> tuple[Assignment, ...]:
    columns = references.names(cursor)
    cursor.expect("VALUES")
    cursor.expect("(")
    values = [text(cursor, "a value", ",", ")")]
    while cursor.accept(","):
        values.append(text(cursor, "a value", ",", ")"))
    cursor.expect(")")
    if len(values) != len(columns):
        raise SqlError(
            f"{len(values)} values for {len(columns)} columns ({', '.join(columns)}) in the INSERT of a MERGE"
        )
    return unique([Assignment(*pair) for pair in zip(columns, values, strict=True)])
