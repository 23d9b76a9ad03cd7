"""RETURNING: the rows that a statement wrote or removed, computed before its commit and kept as its report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import LogicalPlan

from lance_flight.catalog.tables import rows
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import LimitExceeded, Unsupported

RETURNING = "RETURNING"
MOST_BYTES = 16 << 20
"""Bytes of the rows that a statement may return: they are held until its client has read them."""
_INSTEAD = "write BEGIN, the change, a SELECT of the rows, and COMMIT"
_CLAUSES = ("WHERE", "GROUP", "ORDER", "LIMIT", "UNION", "INTO")
"""Words at which the items end, so that an error names them."""
_OF_ONE_ROW = frozenset({"Projection", "SubqueryAlias", "TableScan"})
"""Nodes of plans that compute every row from one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returning:
    """`RETURNING items`, expressions over the columns of the target, which `alias` names in them."""

    items: str
    alias: str

    def schema(self, session: QuerySession, columns: pa.Schema) -> pa.Schema:
        """Return the columns of the answer, from a table with these `columns`."""
        return self._plan(session, columns.empty_table()).schema

    def compute(self, session: QuerySession, returned: ReturnedRows) -> pa.Table:
        """Return the answer from the rows that were written or removed."""
        planned = self._plan(session, returned.table)
        return pa.Table.from_batches(planned.batches(), planned.schema)

    def _plan(self, session: QuerySession, table: pa.Table) -> PlannedQuery:
        source = quote_parts(*session.name_rows(pads.dataset(table)))
        sql = f"SELECT {self.items} FROM {source} AS {quote_parts(self.alias)}"  # noqa: S608 - the client's own text
        planned = PlannedQuery.of(session, sql)
        plan = planned.frame.logical_plan()
        if not _is_of_one_row(plan) or "Subquery:" in plan.display_indent():
            raise Unsupported(
                f"RETURNING takes expressions over the columns of one row of {self.alias!r}; for anything else {_INSTEAD}"
            )
        return planned


def read_returning(cursor: Cursor, alias: str) -> Returning | None:
    """Read `[RETURNING items]`, which ends the statement."""
    if not cursor.accept(RETURNING):
        cursor.end()
        return None
    items = cursor.until(*_CLAUSES)
    if not items:
        raise cursor.error("columns or expressions after RETURNING")
    cursor.end()
    if parameter_count(items):
        raise Unsupported("RETURNING takes no parameters; write the value, or CAST it in the program")
    return Returning(items=items, alias=alias)


class ReturnedRows:
    """Rows that a statement wrote or removed, as the table stores them; `LimitExceeded` where they are too many to return."""

    def __init__(self, columns: pa.Schema, defaults: Mapping[str, pa.Scalar]) -> None:
        self._columns, self._defaults = columns, defaults
        self._parts: list[pa.Table] = []
        self._size = 0

    @property
    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables([self._columns.empty_table(), *self._parts])

    def add(self, part: pa.Table) -> pa.Table:
        """Keep some rows, whose missing columns have their defaults, and return them so."""
        part = rows.conform(part, self._columns, self._defaults)
        self._size += part.nbytes
        if self._size > MOST_BYTES:
            raise LimitExceeded(
                f"RETURNING gives at most {MOST_BYTES >> 20} MiB of rows, and the statement writes more; nothing was changed: {_INSTEAD}"
            )
        self._parts.append(part)
        return part

    def collect(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Keep rows on their way, and give those that go on the same defaults: of a moment there is another one at each look."""
        for part in parts:
            kept = self.add(part)
            given = dict(zip(part.column_names, part.columns, strict=True))
            missing = {name: kept[name] for name in kept.column_names if name not in given}
            yield pa.table({**given, **missing}) if missing else part


def _is_of_one_row(plan: LogicalPlan) -> bool:
    return type(plan.to_variant()).__name__ in _OF_ONE_ROW and all(map(_is_of_one_row, plan.inputs()))
