"""`table_changes('t', from, to)` in SQL: the rows added and removed between two points of a table's history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
from datafusion import Expr
from datafusion.catalog import Table as DataFusionTable

from lance_flight.catalog.history import RowsMoved, Step, steps_of
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.lineage import LINEAGE_FIELDS
from lance_flight.engine.query.policies.restrictions import RowPolicy
from lance_flight.engine.query.tables.computed_tables import ComputedTable
from lance_flight.engine.query.tables.provider import Run, ScanLog
from lance_flight.engine.query.tables.table_view import failure
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import Point, point
from lance_flight.errors import LanceFlightError, SchemaError, SqlError

TABLE_CHANGES = "table_changes"

_CHANGE = pa.field("_change", pa.utf8(), nullable=False)
_PARTITION = pa.field("_partition", pa.utf8())
_SNAPSHOT = pa.field("_snapshot", pa.int64(), nullable=False)
_OWN = (_CHANGE, _PARTITION, _SNAPSHOT)
_ARGUMENTS = 3


class TableChanges:
    """Table function that DataFusion calls during planning; its arguments are literals."""

    def __init__(self, find: Callable[[TableName, Point, Point], ComputedTable], run: Run, default_schema: str) -> None:
        self._find = find
        self._run = run
        self._default_schema = default_schema

    def __call__(self, *arguments: Expr) -> DataFusionTable:
        try:
            return DataFusionTable(self._find(*_read(arguments, self._default_schema)))
        except LanceFlightError as exc:
            self._run.log.error = exc
            raise


@dataclass(frozen=True, slots=True)
class _Rows:
    """Columns of a table, and their field ids by name; `stored` are the same columns with the ids of nested fields.

    `lineage` are what else is known of a row, where its id is stable.
    """

    columns: pa.Schema
    ids: Mapping[str, int]
    stored: pa.Schema
    lineage: tuple[pa.Field, ...]
    is_partitioned: bool

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result: those of the change, the lineage, and the table's."""
        return pa.schema([*_OWN, *self.lineage, *self.columns])

    def of(self, step: Step, moved: RowsMoved, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows added or removed by one step."""
        schema = pa.schema([self.schema.field(name) for name in names])
        readable = pa.schema([*self.lineage, *self.stored])
        stored = pa.schema([readable.field(name) for name in names if name in readable.names])
        partition = step.partition if self.is_partitioned else None
        own = {_CHANGE.name: moved.change, _PARTITION.name: partition, _SNAPSHOT.name: step.snapshot}
        for batch in moved.read(stored, self.ids):
            columns = [
                batch.column(f.name)
                if f.name in stored.names
                else pa.repeat(pa.scalar(own[f.name], f.type), len(batch))
                for f in schema
            ]
            # Without columns only a selection of none still knows how many rows there are.
            yield pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch.select([])


def changes_table(
    table: Table, name: TableName, ends: tuple[int, ...], policy: RowPolicy, *, target_partitions: int, log: ScanLog
) -> ComputedTable:
    """Return the changes of a table between two versions, limited to the rows that a policy allows, in `target_partitions` lanes."""
    first, last = ends
    if first > last:
        raise SqlError(
            f"{TABLE_CHANGES} of {name.name!r} goes from version {first} back to {last}; expected the older one first"
        )
    snapshot = policy.visible(table.snapshot(last))
    schema = snapshot.schema
    lineage = LINEAGE_FIELDS if snapshot.has_stable_row_ids else ()
    # A column of a plain table that got another type has another number: in versions before that it has but its name.
    ids = schema.ids if table.is_partitioned else {}
    rows = _Rows(_nullable(schema.plain), ids, _nullable(schema.arrow), lineage, table.is_partitioned)
    steps = steps_of(table, first, last, policy.visible)
    taken = [
        f"column {field.name!r} is what {TABLE_CHANGES} calls one of its own"
        for field in _OWN
        if field.name in rows.columns.names
    ]
    if taken:
        raise SchemaError(f"table {name.name!r}", taken)
    was = _identity(table, last)

    def failed(exc: Exception) -> LanceFlightError:
        return failure(
            name.name,
            table.store,
            exc,
            unchanged=lambda: _identity(table, last) == was,
            expired=lambda: table.has_expired(first, snapshot.metadata.get(NAMESPACE_KEY)),
        )

    changes = _Changes(rows, failed, log)
    dealt = list(steps)
    return ComputedTable(
        rows.schema, [partial(changes.read, dealt[way::target_partitions]) for way in range(target_partitions)]
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """State shared by all lanes: the rows to return, and the translation of errors."""

    rows: _Rows
    failure: Callable[[Exception], LanceFlightError]
    log: ScanLog

    def read(self, steps: Sequence[Step], names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows of some steps, one after another."""
        with self.log.noting(self.failure):
            for step in steps:
                for moved in step.moved_rows(self.rows.stored, self.rows.ids):
                    yield from self.rows.of(step, moved, names)


def _identity(table: Table, version: int) -> datetime:
    """Return the commit time of a version, which differs if the table was dropped and created again."""
    committed_at: datetime = table.log.open(version).get_version()["timestamp"]
    return committed_at


def _read(arguments: Sequence[Expr], default_schema: str) -> tuple[TableName, Point, Point]:
    values = [a.python_value() if a.variant_name() == "Literal" else None for a in arguments]
    scalars = [value for value in values if isinstance(value, pa.Scalar) and value.is_valid]
    if len(scalars) != _ARGUMENTS or len(values) != _ARGUMENTS or not isinstance(scalars[0], pa.StringScalar):
        raise SqlError(
            f"{TABLE_CHANGES} takes the name of a table and two of its versions, tags or times, as literals;"
            f" got ({', '.join(map(_format_argument, arguments))})"
        )
    cursor = Cursor.over(scalars[0].as_py())
    table = references.table(cursor)
    cursor.end()
    return TableName(table.db_schema or default_schema, table.name), _point(scalars[1]), _point(scalars[2])


def _point(value: pa.Scalar) -> Point:
    if pa.types.is_timestamp(value.type):
        moment: datetime = value.cast(pa.timestamp("us", value.type.tz), safe=False).as_py()
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return point(str(value.as_py()))


def _format_argument(argument: Expr) -> str:
    return str(argument).removeprefix("Expr(").removesuffix(")")


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as nullable and without metadata, which hold for the newest rows alone."""
    return pa.schema([field.remove_metadata().with_nullable(nullable=True) for field in schema])
