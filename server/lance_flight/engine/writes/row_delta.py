"""Row changes of an UPDATE, DELETE or MERGE: the new rows from its query, and the addresses of the removed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.tables import rows
from lance_flight.catalog.tables.lineage import with_origin
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql.functions import cast
from lance_flight.engine.writes.definitions import storable
from lance_flight.engine.writes.row_changes import Target
from lance_flight.engine.writes.row_queries import RowChanges, RowQuery
from lance_flight.errors import DataError, SqlError
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import is_document


class Finding(Protocol):
    """Interface of a statement that finds the rows which it changes."""

    @property
    def label(self) -> str:
        """Return the name of the statement in error messages, and in a table's history."""
        ...

    @property
    def target(self) -> Target:
        """Return the table whose rows are changed."""
        ...

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        """Restrict what `frame`, its query, reads of the target, before it is run."""
        ...


class RowDelta:
    """Changes that one statement makes to the rows of its target, whose columns are `target`.

    Iterating runs its query and yields the new rows; the removed ones are known afterwards.
    """

    def __init__(
        self,
        session: QuerySession,
        statement: Finding,
        query: RowQuery,
        parameters: pa.RecordBatch | None,
        target: pa.Schema,
    ) -> None:
        self.kind = statement.label
        self._session = session
        self._statement = statement
        self._query = query
        self._target = target
        self._frame = session.frame(query.sql, parameters)
        self._gone = [pa.schema(ADDRESS_FIELDS).empty_table()]
        self._inserted = 0

    def __iter__(self) -> Iterator[pa.Table]:
        self._statement.narrow(self._session, self._frame)
        self._session.prepare(self._frame)
        for batch in self._session.batches(self._frame, storable(self._frame.schema())):
            changes: RowChanges = self._query.read(batch)
            self._gone.append(changes.gone.cast(pa.schema(ADDRESS_FIELDS)))
            self._inserted += changes.inserted
            yield from (self._assign(rows) for rows in changes.come)
        self._check_once()

    @property
    def count(self) -> int:
        """Return the number of rows inserted, changed and removed."""
        return sum(int(part.num_rows) for part in self._gone) + self._inserted

    @property
    def addresses(self) -> np.ndarray:
        """Return the addresses of the removed rows, if all are of one table."""
        found: np.ndarray = pa.concat_tables(self._gone).column(1).to_numpy()
        return found

    @property
    def by_table(self) -> dict[PartitionTable, np.ndarray]:
        """Return the addresses of the removed rows, for each partition table that has any."""
        gone = pa.concat_tables(self._gone)
        numbers, addresses = gone.column(0).to_numpy(), gone.column(1).to_numpy()
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        parts = np.split(addresses[order], starts[1:]) if len(found) else []
        tables = self._session.named.targets.tables
        return {tables[int(number)]: part for number, part in zip(found, parts, strict=True)}

    def number_of(self, object_id: str) -> int | None:
        """Return the number of a partition table among the origins of the new rows; None if it has none."""
        return self._session.named.targets.number_of(object_id)

    def _assign(self, rows: pa.Table) -> pa.Table:
        known = [name for name in rows.column_names if name in self._target.names]
        stored = assigned(rows.select(known), self._target)
        return stored if len(known) == rows.num_columns else with_origin(stored, rows)

    def _check_once(self) -> None:
        """Refuse a MERGE that changes one row of the target twice, since the order of the changes is not defined."""
        gone = pa.concat_tables(self._gone)
        if gone.group_by(gone.column_names).aggregate([]).num_rows != gone.num_rows:
            raise DataError(
                f"{self.kind.upper()} finds several rows of its source for one row of"
                f" {self._statement.target.table.name!r}; expected one at most"
            )


def assigned(table: pa.Table, target: pa.Schema) -> pa.Table:
    """Convert rows by SQL's rules of assignment: text is read as a literal, numbers are rounded; other values have to fit."""
    for place, name in enumerate(table.column_names):
        field, column = target.field(name), table.column(place)
        if is_string(column.type) and not is_document(field.type):
            try:
                table = table.set_column(place, field.name, cast(column.combine_chunks(), field.type))
            except SqlError as exc:
                raise DataError(f"column {field.name!r} ({field.type}) cannot be read from text: {exc}") from exc
    return rows.rounded(table, target)
