"""UPDATE."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.row_changes import RowChange
from lance_flight.engine.writes.row_changes import Assignment, Target, assignments, target, where
from lance_flight.engine.writes.row_queries import RowQuery, update_query


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(RowChange):
    """UPDATE t [[AS] a] SET column = expression, … [WHERE condition]."""

    forms = ("UPDATE",)

    target: Target
    assignments: tuple[Assignment, ...]
    where: str | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> Update:
        changed = target(cursor)
        cursor.expect("SET")
        assigned = assignments(cursor, "WHERE")
        return cls(target=changed, assignments=assigned, where=where(cursor))

    @property
    def changing(self) -> frozenset[Privilege]:
        return frozenset({Privilege.UPDATE})

    @property
    def writing(self) -> frozenset[Privilege]:
        return frozenset({Privilege.UPDATE})

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        return update_query(
            self.target, self.assignments, self.where, self.target_name.db_schema, schema, keeps_ids=keeps_ids
        )
