"""Ingest of rows into tables: created on demand, checked against the schema first, stored in one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

import pyarrow as pa

from lance_flight.backend_values import IfExists
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.commits.commit_tokens import CommitToken, named_commit
from lance_flight.catalog.maintenance.policies import PolicyValue, set_policy
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.catalog.storage.retries import ONCE
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.policies.access import OVERWRITING, UNLIMITED, Access, Privilege
from lance_flight.engine.query.policies.rows import EVERY_ROW, RowPolicy
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction, autocommit
from lance_flight.engine.sql.functions import evaluate
from lance_flight.engine.writes.definitions import check_partitioning, column_problems, partition_spec, storable
from lance_flight.engine.writes.ingest_options import APPENDED, IngestOptions
from lance_flight.engine.writes.table_properties import TableProperties
from lance_flight.engine.writes.vector_columns import with_vectors
from lance_flight.engine.writes.writable_tables import WritableTable
from lance_flight.errors import AlreadyCommitted, AlreadyExists, SchemaError, Unsupported
from lance_flight.model.schema import NamespaceSchema, check_schema
from lance_flight.model.spec import PartitionSpec


def schema_of(table: Table) -> pa.Schema:
    """Return the columns of a table as a client sees them."""
    return table.snapshot().schema.plain


def defaults_of(table: Table) -> Mapping[str, pa.Scalar]:
    """Return the default values of a table's columns, for rows without a value."""
    return table.snapshot().schema.defaults


def check_new(name: TableName, schema: pa.Schema, properties: TableProperties) -> None:
    """Refuse a table that an ingest could not make of rows with these columns."""
    _NewTable.of(name, storable(schema), properties)


def create(
    root: Root,
    name: TableName,
    schema: pa.Schema,
    properties: TableProperties,
    data: Iterable[pa.Table],
    *,
    commit_id: str | None = None,
    existing: IfExists = IfExists.FAIL,
    transaction: SqlTransaction | None = None,
    cancellation: Cancellation | None = None,
    policy: RowPolicy = EVERY_ROW,
) -> int:
    """Create a table with these rows, atomically at the commit of its `transaction`.

    `existing` decides what happens to the rows if another table has taken the name by the time they are stored.
    """
    table = _NewTable.of(name, schema, properties)
    where = {"partitioned": table.spec is not None, "replace": existing is IfExists.REPLACE}
    cancelling = cancellation or Cancellation()

    def build(place: Store) -> int:
        count = table.made(place, data, commit_id, cancelling.check)
        # What comes next moves the table to its place.
        cancelling.begin_commit()
        return count

    def join(place: Store) -> int:
        mine = table.opened(place)
        rows.fit(schema_of(mine), root.read(name, schema_of), what=f"rows for table {name.name!r}")
        stored = _Stored(mine.rows(), commit_id=commit_id)
        return stored.alone(root, root.table(name), policy, Cancellation())

    if transaction is None:
        return root.create(name, build, on_conflict=join if existing is IfExists.APPEND else None, **where)
    draft = root.draft(name, build, **where)
    transaction.create(draft)
    return draft.count


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewTable:
    """Definition of a table to create: columns with their ids, and a partition spec (None: a plain table)."""

    columns: pa.Schema
    schema: NamespaceSchema
    spec: PartitionSpec | None
    stable_row_ids: bool
    file_version: str | None
    policy: Mapping[str, PolicyValue | None]

    @classmethod
    def of(cls, name: TableName, columns: pa.Schema, properties: TableProperties) -> Self:
        problems = column_problems(columns, properties.file_version)
        if problems:
            raise SchemaError(f"table {name.name!r}", problems)
        schema, fields = NamespaceSchema.assign(columns), properties.partitioned_by
        return cls(
            columns=columns,
            schema=schema,
            spec=partition_spec(schema, fields) if fields else None,
            stable_row_ids=properties.stable_row_ids,
            file_version=properties.file_version,
            policy=properties.policy,
        )

    def made(self, place: Store, data: Iterable[pa.Table], commit_id: str | None, check: Callable[[], None]) -> int:
        """Create the table with some rows, and return their number; `check` ends that by an error."""
        count = self._filled(place, data, commit_id, check)
        if self.policy:
            set_policy(self.opened(place), self.policy)
        return count

    def _filled(self, place: Store, data: Iterable[pa.Table], commit_id: str | None, check: Callable[[], None]) -> int:
        if commit_id is not None:
            # Nobody sees the table before its rows are there, with the commit that has the id.
            self._filled(place, [], None, check)
            once = partial(CommitToken.now, commit_id)
            return self.opened(place).append(data, evaluate, operation="create with", once=once, check=check)
        if self.spec is None:
            return write_plain(
                place, self.columns, data, stable_row_ids=self.stable_row_ids, file_version=self.file_version
            )
        made = PartitionedNamespace.create(
            place, self.schema, self.spec, stable_row_ids=self.stable_row_ids, file_version=self.file_version
        )
        return made.append(data, evaluate, operation="create with", check=check)

    def opened(self, place: Store) -> Table:
        """Open a table that was created with this definition."""
        return PlainTable(place) if self.spec is None else PartitionedNamespace.open(place)


def ingest(
    root: Root,
    name: TableName,
    reader: pa.RecordBatchReader,
    *,
    create_missing: bool,
    existing: IfExists,
    options: IngestOptions = APPENDED,
    transaction: SqlTransaction | None = None,
    cancellation: Cancellation | None = None,
    access: Access = UNLIMITED,
    on_create: Callable[[], None] = lambda: None,
) -> int:
    """Store a stream of rows under `name` in one commit and return their number; `access` restricts the rows that may be stored.

    `on_create` is called before a table is made or replaced. `AlreadyCommitted` where the table has a commit of this id.
    """
    check_schema(reader.schema)
    tables, cancellation = transaction or root, cancellation or Cancellation()
    there = tables.has(name)
    privileges = _privileges(options)
    policy = access.rows(privileges, root.governing(name))
    if Privilege.SELECT in privileges:
        access.check_all_columns(root.governing(name), "rows are replaced as a whole")
    if options.commit_id is not None:
        if transaction is not None:
            raise Unsupported("an ingest in a transaction has no commit_id; expected one that commits by itself")
        _check_new(tables, name, options.commit_id)
    if there and existing is IfExists.FAIL:
        raise AlreadyExists(f"table {name.name!r} is there already; expected an ingest that appends or replaces")
    data, properties = _tables(reader), options.properties
    if existing is IfExists.REPLACE if there else create_missing:
        access.check_all_rows(Privilege.INSERT, name)
        on_create()
        columns, data = with_vectors(storable(reader.schema), data)
        new = partial(create, root, name, columns, properties, data, existing=existing, policy=policy)
        return new(commit_id=options.commit_id, transaction=transaction, cancellation=cancellation)
    if options.overwrites is Replaces.TABLE:
        access.check_all_rows(Privilege.DELETE, name)
    tables.read(name, lambda table: check_partitioning(name.name, table, properties.partitioned_by))
    what, defaults = f"rows for table {name.name!r}", tables.read(name, defaults_of)
    rows.fit(reader.schema, tables.read(name, schema_of), what=what, defaults=defaults)
    stored = _Stored(data, overwrites=options.overwrites, commit_id=options.commit_id)
    if transaction is None:
        return stored.alone(root, root.table(name), policy, cancellation)
    transaction.check = cancellation.check
    count = stored.within(transaction, transaction.table(name), policy)
    with cancellation.committing():
        transaction.stage()
    return count


def _privileges(options: IngestOptions) -> Collection[Privilege]:
    return [Privilege.INSERT] if options.overwrites is Replaces.NOTHING else OVERWRITING


def _check_new(tables: Root | SqlTransaction, name: TableName, commit_id: str) -> None:
    known = tables.read(name, lambda table: named_commit(table.snapshot(), commit_id)) if tables.has(name) else None
    if known is not None:
        raise AlreadyCommitted(str(known))


@dataclass(slots=True)
class _Stored:
    """Rows on their way into an existing table, counted; they can be read once, so a commit of them is not retried."""

    data: Iterable[pa.Table]
    overwrites: Replaces = Replaces.NOTHING
    commit_id: str | None = None
    count: int = 0

    def alone(self, root: Root, table: Table, policy: RowPolicy, cancellation: Cancellation) -> int:
        """Store the rows in a commit of their own, and return their number."""
        is_whole = self.overwrites is Replaces.TABLE
        work = partial(self.within, table=table, policy=policy)
        return autocommit(root, work, cancellation, serializable=is_whole, policy=ONCE)

    def within(self, transaction: SqlTransaction, table: Table, policy: RowPolicy) -> int:
        """Add the rows to the changes of a transaction, and return their number."""
        writable = WritableTable(table, transaction, policy)
        if self.overwrites is Replaces.NOTHING:
            writable.append(self._counted())
        else:
            writable.overwrite(self._counted(), whole=self.overwrites is Replaces.TABLE)
        if self.commit_id is not None:
            transaction.writing(table).once = CommitToken.now(self.commit_id, self.count)
        return self.count

    def _counted(self) -> Iterator[pa.Table]:
        for rows_of_table in self.data:
            self.count += rows_of_table.num_rows
            yield rows_of_table


def _tables(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    for batch in reader:
        yield pa.Table.from_batches([batch])
