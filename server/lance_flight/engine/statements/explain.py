"""EXPLAIN: shows how the rows of a query, or those that a change affects, are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.query.explain import EXPLAIN_SCHEMA, explain
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.statements.kinds import Answer, RowsStatement, Statement
from lance_flight.engine.statements.queries import Query
from lance_flight.engine.statements.row_changes import RowChange
from lance_flight.errors import SqlError


@dataclass(frozen=True, slots=True)
class Explain(RowsStatement):
    """EXPLAIN [ANALYZE] of a query, or EXPLAIN of a `change`: shows how its rows are found."""

    forms = ("EXPLAIN",)
    nests = True

    sql: str
    analyze: bool
    change: RowChange | None = None

    @classmethod
    def read(cls, cursor: Cursor, parse: Callable[..., Statement]) -> Explain:
        analyze = cursor.accept("ANALYZE")
        cursor.accept("VERBOSE")
        first = 0 if cursor.sent is None else cursor.first + cursor.at
        text = cursor.rest()
        match parse(text, cursor.db_schema, cursor.sent, first):
            case Query(sql):
                return cls(sql, analyze)
            case RowChange() as change if not analyze:
                return cls(text, analyze, change)
            case inner:
                what = (
                    "EXPLAIN ANALYZE takes a query"
                    if analyze
                    else "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE"
                )
                raise SqlError(f"{what}, got {inner.label}")

    @property
    def target(self) -> tuple[TableName | None, frozenset[Privilege]]:
        return (None, frozenset()) if self.change is None else (self.change.target_name, self.change.changing)

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        if self.change is None:
            return _Plans(session, session.frame(self.sql, parameters), self.analyze)
        change = self.change.resolve(session)
        frame = session.frame(change.query_in(session).sql, parameters)
        change.narrow(session, frame)
        return _Plans(session, frame, self.analyze)


@dataclass(frozen=True, slots=True)
class _Plans:
    """Answer with the plans of a query, and the pruning of each of its scans."""

    session: QuerySession
    frame: DataFrame
    analyze: bool
    schema: pa.Schema = EXPLAIN_SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.session.prepare(self.frame)
        yield from explain(self.session, self.frame, analyze=self.analyze).to_batches()
