"""Queries, which are passed to DataFusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql import substrait
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.kinds import Answer, RowsStatement


@dataclass(frozen=True, slots=True)
class Query(RowsStatement):
    """SELECT …, WITH …, VALUES …, FROM …: any statement that returns rows and is passed to DataFusion."""

    forms: ClassVar[tuple[str, ...]] = ("SELECT", "WITH", "VALUES", "FROM", "(")

    sql: str

    @classmethod
    def read(cls, cursor: Cursor) -> Query:
        cursor.at = 0
        return cls(cursor.rest())

    @property
    def text(self) -> str | None:
        return self.sql

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        return PlannedQuery.of(session, self.sql, parameters)


@dataclass(frozen=True, slots=True)
class SubstraitPlan(Query):
    """SUBSTRAIT 'plan': a query as a plan in base64."""

    forms = (substrait.WORD,)

    @classmethod
    def read(cls, cursor: Cursor) -> Query:
        if substrait.plan_in(cursor.source(0, len(cursor.tokens))) is None:
            raise cursor.error("a plan in base64, in quotes")
        return Query.read(cursor)


def query_text(cursor: Cursor) -> str:
    """Read the query that ends another statement."""
    if not any(cursor.peek(word) for word in ("SELECT", "WITH", "VALUES", "(")):
        raise cursor.error("a query (SELECT, VALUES, WITH)")
    return cursor.rest()
