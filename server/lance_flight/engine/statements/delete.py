"""DELETE."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.row_changes import RowChange
from lance_flight.engine.writes.row_changes import Target, target, where
from lance_flight.engine.writes.row_queries import RowQuery, delete_query


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(RowChange):
    """DELETE FROM t [[AS] a] [WHERE condition]."""

    forms = ("DELETE",)
    frees_room = True
    rewrites = False

    target: Target
    where: str | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> Delete:
        cursor.expect("FROM")
        return cls(target=target(cursor), where=where(cursor))

    @property
    def changing(self) -> frozenset[Privilege]:
        return frozenset({Privilege.DELETE})

    @property
    def writing(self) -> frozenset[Privilege]:
        return frozenset()

    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        return delete_query(self.target, self.where, self.target_name.db_schema)
