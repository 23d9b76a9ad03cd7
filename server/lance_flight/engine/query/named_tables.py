"""Tables that one statement names, each at the snapshot that it reads, in DataFusion's catalog `lance`.

Beside stored ones that is `table_changes('t', from, to)`: the rows added and removed between two points of a table's history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import Expr
from datafusion.catalog import CatalogProvider, SchemaProvider
from datafusion.catalog import Table as DataFusionTable

from lance_flight import audit
from lance_flight.catalog.history import RowsMoved, Step, steps_of
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY, Snapshot
from lance_flight.catalog.roots.directory import BRANCH_SIGN, Root, Table, TableName
from lance_flight.catalog.tables.rows import LINEAGE_FIELDS, PARTITION_FIELD, ROW_NAME_FIELD, ROW_ORIGIN_FIELD
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.compat.wrong_comparisons import DOUBLE, REAL
from lance_flight.engine.query.access import (
    ColumnPolicy,
    MaskedTable,
    Privilege,
    RowPolicy,
    stored_name,
    unmasked_name,
)
from lance_flight.engine.query.statement_context import StatementContext, TableVersion
from lance_flight.engine.query.tables import metadata_tables
from lance_flight.engine.query.tables.metadata_tables import (
    LINEAGE,
    METADATA_TABLES,
    OF_COLUMNS,
    OF_EVERYBODY,
    OF_PARTITIONS,
    MetadataTable,
)
from lance_flight.engine.query.tables.provider import ComputedTable, JoinedKeys, Provider, Run, ScanLog
from lance_flight.engine.query.tables.table_view import Pruned, TableView, Targets, UnpinnedResolver, failure
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor, Point, Reference, naming, point
from lance_flight.errors import Conflict, LanceFlightError, NotFound, Refused, SchemaError, SqlError, Unsupported
from lance_flight.model.spec import Evaluate
from lance_flight.planning.predicates import ALWAYS, Predicate, all_of

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


TARGET_ROWS = "rows"
"""Metadata table of the target of a statement: its rows with their addresses."""
HIDDEN_COLUMNS = (PARTITION_FIELD, ROW_NAME_FIELD)
"""Columns that every stored table has for the statements that name them."""


@dataclass(slots=True)
class InferredFilters:
    """Predicates inferred beyond the filters of scans: by table (`schema.name`), and on the target of the statement.

    `by_table` prune. `keys` are the values of columns, by table, in rows that find one to join with: the others may be left out.
    """

    by_table: Mapping[str, Predicate] = field(default_factory=dict)
    of_target: Predicate = ALWAYS
    keys: dict[str, dict[str, JoinedKeys]] = field(default_factory=dict)

    def begin(self, by_table: Mapping[str, Predicate]) -> None:
        """Replace all predicates by table by those of another plan."""
        self.by_table = by_table
        self.keys.clear()

    def add(self, table: str, predicate: Predicate) -> None:
        """Add a predicate that prunes a table."""
        self.by_table = {**self.by_table, table: all_of([self.by_table.get(table, ALWAYS), predicate])}

    def add_keys(self, table: str, column: str, keys: JoinedKeys) -> None:
        """Add the values of a column in rows that find one to join with."""
        self.keys.setdefault(table, {})[column] = keys

    def keys_of(self, table: str) -> Mapping[str, JoinedKeys]:
        """Return what `add_keys` has added for a table."""
        return self.keys.get(table, {})

    def of(self, table: str, *, is_target: bool) -> Predicate:
        """Return the conjunction of the predicates known for a table."""
        return all_of([self.by_table.get(table, ALWAYS), self.of_target if is_target else ALWAYS])


class NamedTables:
    """Tables of one run of a statement, resolved within its `context`.

    At which version each is read stands in `readings` afterwards. Rows of the target are in tables numbered by `targets`. What
    the principal may not read is not seen by anything that is built on a view.

    `views` are the tables by `schema.name`, and `scanned` those whose rows are read, in portions if need be. They are pruned
    by `hints`, too. `masked` are those whose masks it reads, and `withheld` columns that the principal knows of and may not read, with
    their tables. `hidden` are the hidden columns that the statement names. `providers` are those that DataFusion reads them by: the ones of an
    earlier run (`known`) read the tables of this one, as long as their columns are the same.
    """

    def __init__(
        self,
        context: StatementContext,
        log: ScanLog,
        evaluate: Evaluate,
        known: Mapping[TableName, Provider] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.hidden = hidden
        self.targets = Targets()
        self.readings: dict[str, TableVersion] = dict(context.readings)
        self.views: dict[str, TableView] = {}
        self.scanned: dict[str, TableView] = {}
        self.providers: dict[TableName, Provider] = {}
        self.masked: set[TableName] = set()
        self.withheld: dict[str, str] = {}
        self.hints = InferredFilters()
        self.is_steady = True
        self._tables = context.tables
        self._context = context
        self._at = None if context.execution.snapshot is None else point(context.execution.snapshot)
        self._log = log
        self._evaluate = evaluate
        self._known = known or {}

    def dataset(self, name: TableName) -> pads.Dataset:
        """Return the dataset of a table name as written in SQL, or as `unmasked` has it; raise `NotFound` if there is none."""
        if name in self.providers:
            return self.providers[name]
        named = self._reference(stored_name(name))
        table, metadata = named.table, named.metadata
        is_target = metadata == TARGET_ROWS and table == self._context.target
        extra_columns = metadata if is_target or metadata == LINEAGE else None
        at = self._at if named.at is None and not is_target else named.at

        def opened(found: Table) -> pads.Dataset:
            if metadata == LINEAGE or metadata in OF_COLUMNS:
                self._context.access.check_all_columns(self._governing_table(table), f"${metadata} tells of whole rows")
            view = self._view(found, table, name, at, extra_columns, is_of_rows=metadata is None or bool(extra_columns))
            if metadata is not None and extra_columns is None:
                built = _metadata_table(metadata, found, view, is_whole=self._policy(table).is_everything)
                return self._computed_table(built, view.failure)
            if extra_columns is None:
                self.scanned[f"{name.db_schema}.{name.name}"] = view
            return self._provider(name, view)

        return self._tables.read(table, opened)

    def masked_table(self, name: TableName) -> MaskedTable | None:
        """Return what stands in the place of a table of this name; None for a table that is read as it is, and for no table."""
        if not self._context.access.has_masks:
            return None
        named = self._reference(name)
        is_target = named.metadata == TARGET_ROWS and named.table == self._context.target
        if not (named.metadata is None or is_target) or not self._tables.has(named.table):
            return None
        policy = self._columns(named.table)
        if not policy.masks:
            return None
        self.masked.add(self._governing_table(named.table))
        stored = unmasked_name(name)
        columns = self.dataset(stored).schema
        made = frozenset(column.name for column in self.views[str(stored)].extra_columns)
        return MaskedTable(name=name, policy=policy, columns=columns, made=made)

    @property
    def is_restricted(self) -> bool:
        """True if a table that is read has columns that are masked, or not granted."""
        return any(view.visible is not None for view in self.views.values())

    def reveal(self, hidden: frozenset[str]) -> bool:
        """Resolve tables with these hidden columns too from here on, at the same versions; return whether that is new."""
        if hidden <= self.hidden:
            return False
        self.hidden |= hidden
        self.providers.clear()
        self.views.clear()
        self.scanned.clear()
        return True

    def floating_columns(self) -> dict[str, str]:
        """Return the columns of floating point that the statement's tables have, each with what removes the sign of a zero."""
        types = {field.name: field.type for provider in self.providers.values() for field in provider.schema}
        others = {f.name for p in self.providers.values() for f in p.schema if not pa.types.is_floating(f.type)}
        return {
            name: DOUBLE if pa.types.is_float64(kind) else REAL
            for name, kind in types.items()
            if pa.types.is_floating(kind) and name not in others
        }

    def reveal_columns(self, name: TableName) -> list[str]:
        """Return the hidden columns that a name's table shows to this statement."""
        view = self.views.get(str(name)) or self.views.get(str(unmasked_name(name)))
        if view is None or Reference.parse(name).metadata is not None:
            return []
        return [field.name for field in view.extra_columns]

    @property
    def divisible(self) -> dict[str, TableView]:
        """Return those of the scanned tables by whose partitions a query may be divided; a column that a scan makes is of no partition."""
        return {
            name: view
            for name, view in self.scanned.items()
            if view.snapshot.is_partitioned and not view.extra_columns and not view.hides_layout
        }

    def provider_of(self, key: str) -> Provider:
        """Return what DataFusion reads a table of `scanned` by."""
        return next(provider for name, provider in self.providers.items() if f"{name.db_schema}.{name.name}" == key)

    def _provider(self, name: TableName, readable: TableView) -> Provider:
        known = self._known.get(name)
        if known is not None and known.schema.equals(readable.schema):
            known.read(readable, self._log)
            self.providers[name] = known
        else:
            self.providers[name] = Provider(readable, self._log)
        return self.providers[name]

    def _computed_table(self, table: MetadataTable, failure: Callable[[Exception], LanceFlightError]) -> ComputedTable:
        log = self._log
        self.is_steady = False

        def rows(names: list[str]) -> Iterator[pa.RecordBatch]:
            with log.noting(failure):
                yield from table.build(names).to_batches()

        return ComputedTable(table.schema, [rows])

    def _reference(self, name: TableName) -> Reference:
        named = Reference.parse(name)
        if named.table != name and self._tables.has(name):
            return Reference(name)
        if isinstance(named.at, str):
            branch = TableName(name.db_schema, f"{named.table.name}{BRANCH_SIGN}{named.at}")
            if self._tables.has(branch):
                return Reference(branch, None, named.metadata)
        return named

    def changes(self, name: TableName, first: Point, last: Point) -> ComputedTable:
        """Return the rows added and removed between two points of a table's history."""
        self.is_steady = False

        def opened(table: Table) -> ComputedTable:
            ends = self._version(table, name, first), self._version(table, name, last)
            if self._context.holds is not None:
                self._context.holds.extend(table.hold_between(*ends))
            self._context.access.check_all_columns(self._governing_table(name), "table_changes tells of whole rows")
            return changes_table(
                table, name, ends, self._policy(name), target_partitions=self._context.target_partitions, log=self._log
            )

        return self._tables.read(name, opened)

    def _policy(self, name: TableName, *, is_target: bool = False) -> RowPolicy:
        """Return the policy of the rows that the statement sees of a table."""
        needed = {Privilege.SELECT, *(self._context.changing if is_target else ())}
        return self._context.access.rows(needed, self._governing_table(name))

    def _columns(self, name: TableName) -> ColumnPolicy:
        """Return the policy of the columns that the statement sees of a table."""
        return self._context.access.columns(self._governing_table(name))

    def _governing_table(self, name: TableName) -> TableName:
        return self._context.root.governing_table(name)

    def _is_main(self, name: TableName) -> bool:
        return self._context.root.branch is None and self._governing_table(name) == name

    def _newest(self, name: TableName) -> Snapshot:
        """Return the newest snapshot of a table's main branch, whose columns are those that grants name."""
        return self._context.root.on_branch(None).table(self._governing_table(name)).snapshot()

    def _version(self, table: Table, name: TableName, at: Point) -> int:
        """Resolve a point to a version, which stays the same while the statement runs."""
        key = f"{name}$changes@{at}"
        if key not in self.readings:
            with naming(name, at):
                self.readings[key] = TableVersion(table.snapshot(at).version)
        return self.readings[key].version

    def _view(
        self,
        table: Table,
        name: TableName,
        reference: TableName,
        at: Any,
        extra_columns: str | None = None,
        *,
        is_of_rows: bool = True,
    ) -> TableView:
        """Return the view of a table at a point, with `extra_columns`: the addresses or the lineage of its rows."""
        key, read = str(reference), str(stored_name(reference))
        if key in self.views:
            return self.views[key]
        reading, is_target = self.readings.get(read), extra_columns == TARGET_ROWS
        policy, columns = self._policy(name, is_target=is_target), self._columns(name)
        if columns.masks and is_of_rows and key == read:
            raise Refused(f"table {name.name!r} has masks for {columns.user!r}; expected a query that computes them")
        if columns.masks and key != read:
            audit.record_masked_read(self._context.subject, str(self._governing_table(name)), columns.masks)
        with naming(name, at):
            snapshot, step = self._snapshot(table, name, reading, at)
        _check_identity(name, reading, snapshot.committed_at)
        is_newest = columns.is_everything or (reading is None and at is None and self._is_main(name))
        visible = columns.visible(snapshot, snapshot if is_newest else self._newest(name), for_masks=key != read)
        hides_layout = columns.hides_layout(snapshot, visible)
        self._withhold(name, columns, snapshot)
        snapshot = policy.visible(snapshot)
        named_in = self._named_in(table) if step is not None else None
        floating = UnpinnedResolver(table.store, snapshot, reading.resolved if reading else {}, named_in)
        self.readings[read] = TableVersion(snapshot.version, floating.known, snapshot.committed_at.isoformat(), step)
        view = TableView(
            name=name.name,
            key=key,
            table=table,
            snapshot=snapshot,
            floating=floating,
            target_partitions=self._context.target_partitions,
            share=self._context.share,
            log=self._log,
            hint=partial(self.hints.of, key, is_target=is_target),
            keys=partial(self.hints.keys_of, key),
            evaluate=self._evaluate,
            targets=self.targets if is_target else None,
            extra_columns=(
                *_beside(name, extra_columns, snapshot.schema.plain, is_stable=snapshot.has_stable_row_ids),
                *([] if hides_layout else self._hidden_columns(extra_columns, snapshot.schema.plain)),
            ),
            pruned=self._known_prunings(reference, snapshot),
            on_read=self._noting(table),
            visible=visible,
            hides_layout=hides_layout,
            spill_directory=self._context.spill_directory,
        )
        self.views[key] = view
        return view

    def _withhold(self, name: TableName, columns: ColumnPolicy, snapshot: Snapshot) -> None:
        """Record the columns of a table that the principal knows of, and may not read."""
        if columns.granted is not None:
            known = self._context.access.known_columns(self._governing_table(name), snapshot.schema.ids)
            self.withheld |= {each: name.name for each in known if each not in columns.granted}

    def _hidden_columns(self, extra_columns: str | None, columns: pa.Schema) -> Iterator[pa.Field]:
        """Yield the hidden columns that the statement names, but those that the table has columns of the same name for."""
        if extra_columns != LINEAGE:
            for column in HIDDEN_COLUMNS:
                if column.name in self.hidden and column.name not in columns.names:
                    yield column

    def _named_in(self, table: Table) -> Snapshot | None:
        """Return the snapshot whose names the rows of a table keep while the transaction changes it; None if no names are asked for."""
        transaction = self._context.transaction
        is_named = ROW_NAME_FIELD.name in self.hidden
        return transaction.base(table) if transaction is not None and is_named else None

    def _noting(self, table: Table) -> Callable[[Sequence[str]], None] | None:
        """Return the callback that records the partition tables read by a serializable transaction; None outside one."""
        transaction = self._context.transaction
        if transaction is None or not transaction.serializable:
            return None
        return partial(transaction.note_reads, table)

    def _known_prunings(self, name: TableName, snapshot: Snapshot) -> list[Pruned]:
        """Return the pruning results of an earlier run on the same snapshot."""
        known = self._known.get(name)
        view = None if known is None else known.readable
        return view.pruned if isinstance(view, TableView) and view.snapshot is snapshot else []

    def _snapshot(
        self, table: Table, name: TableName, reading: TableVersion | None, at: Any
    ) -> tuple[Snapshot, int | None]:
        """Return the snapshot to read, and the number of the transaction's statements that it reflects."""
        transaction = self._context.transaction
        if transaction is not None and reading is not None and reading.step is not None:
            return transaction.snapshot_at(reading.step), reading.step
        if transaction is not None and reading is None and at is None:
            return transaction.snapshot(table), transaction.step(table)
        try:
            snapshot = table.snapshot(at if reading is None else reading.version)
            if self._context.holds is not None:
                self._context.holds.append(table.hold(snapshot, is_newest=reading is None and at is None))
        except NotFound as exc:
            if reading is None or at is not None:
                raise
            table.snapshot()  # one that was dropped is not there at all
            raise Conflict(
                f"version {reading.version} of table {name.name!r}, which this statement was planned for, is"
                " not there any longer: it was vacuumed, or the table was made again; expected the statement once more"
            ) from exc
        return snapshot, None


def _beside(name: TableName, what: str | None, columns: pa.Schema, *, is_stable: bool) -> tuple[pa.Field, ...]:
    """Return the extra columns that a scan computes: the addresses of rows, or their lineage."""
    match what:
        case None:
            return ()
        case metadata_tables.LINEAGE if not is_stable:
            raise Unsupported(
                f"the rows of table {name.name!r} have no lineage; it was made without stable_row_ids"
                " (CREATE TABLE … WITH (stable_row_ids = true))"
            )
        case metadata_tables.LINEAGE if PARTITION_FIELD.name in columns.names:
            raise SchemaError(
                f"table {name.name!r}", [f"column {PARTITION_FIELD.name!r} is what ${what} calls its own"]
            )
        case metadata_tables.LINEAGE:
            return (PARTITION_FIELD, *LINEAGE_FIELDS)
        case _:
            return (*ADDRESS_FIELDS, ROW_ORIGIN_FIELD) if is_stable else ADDRESS_FIELDS


def _metadata_table(name: str, table: Table, view: TableView, *, is_whole: bool) -> MetadataTable:
    if name not in METADATA_TABLES:
        known = [*METADATA_TABLES, LINEAGE]
        raise NotFound.named("metadata table", f"${name}", [f"${each}" for each in known])
    if not table.is_partitioned and name in OF_PARTITIONS:
        raise NotFound(f"table {view.name!r} is not partitioned and has no ${name}")
    if not is_whole and name in OF_EVERYBODY:
        raise Refused(f"${name} tells what was done to all rows of table {view.name!r}; expected SELECT on all of them")
    return METADATA_TABLES[name](table, view)


def _check_identity(name: TableName, reading: TableVersion | None, committed_at: datetime) -> None:
    """Refuse a version of a table that was dropped and made again since it was chosen: it is another one."""
    if reading is not None and reading.committed_at and reading.committed_at != committed_at.isoformat():
        raise Conflict(f"table {name.name!r} was dropped and made again since this statement was planned")


Resolve = Callable[[str, str], pads.Dataset | DataFusionTable | None]
"""Function that resolves a schema and a table name as written in SQL; None without such a table."""


class TableCatalog(CatalogProvider):
    """Catalog provider of the schemas of a root."""

    def __init__(self, root: Root, resolve: Resolve) -> None:
        self._root = root
        self._resolve = resolve

    def schema_names(self) -> set[str]:
        return set(self._root.schemas())

    def schema(self, name: str) -> _Schema | None:
        return _Schema(self._root, name, self._resolve)


class _Schema(SchemaProvider):
    """Schema provider of one SQL schema."""

    owner_name = None

    def __init__(self, root: Root, name: str, resolve: Resolve) -> None:
        self._root = root
        self._name = name
        self._resolve = resolve

    def table_names(self) -> set[str]:
        return {name.name for name in self._root.tables() if name.db_schema == self._name}

    def table(self, name: str) -> DataFusionTable | None:
        table = self._resolve(self._name, name)
        return DataFusionTable(table) if isinstance(table, pads.Dataset) else table

    def table_exist(self, name: str) -> bool:
        return self.table(name) is not None

    def register_table(self, name: str, table: object) -> None:
        raise NotImplementedError

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: FBT001, FBT002 - DataFusion's
        raise NotImplementedError
