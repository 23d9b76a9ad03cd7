"""Tables as statements of a transaction change them, and the ingest of rows, which makes them and stores the rows in one commit.

A list has any length as far as its type tells, and an index is about vectors alone. So the first rows of an ingest that makes a table
are looked at before it is made.

A thread that waits for a client's next message cannot be woken before it comes. So it does nothing else: what is done with
the rows has a thread of its own, which ends, and lets go of all that it holds, when it has waited for too long.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Self, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.backend_values import IfExists
from lance_flight.catalog.bulk.shared_writes import Replaces, SharedIngest, SharedIngests
from lance_flight.catalog.commits.once import CommitToken, checked_id, checked_name, named_commit
from lance_flight.catalog.commits.transaction import TableUpdate, Transaction, removed_rows
from lance_flight.catalog.commits.writer import all_removed, combine_edits, replace_rows, rows_removed
from lance_flight.catalog.maintenance.survey import PolicyValue, set_policy
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.retries import ONCE
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables import rows
from lance_flight.catalog.tables.rows import check_lengths
from lance_flight.engine.query.access import EVERY_ROW, OVERWRITING, UNLIMITED, Access, Privilege, RowPolicy
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction, autocommit
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes import definitions
from lance_flight.engine.writes.definitions import (
    PartitionDef,
    check_partitioning,
    column_problems,
    parse_partition_by,
    partition_spec,
    storable,
)
from lance_flight.engine.writes.row_changes import RowDelta
from lance_flight.errors import AlreadyCommitted, AlreadyExists, InvalidInput, LimitExceeded, SchemaError, Unsupported
from lance_flight.model.file_versions import check_version
from lance_flight.model.schema import NamespaceSchema, check_schema
from lance_flight.model.spec import PartitionSpec

Find: TypeAlias = Callable[[pa.Schema], RowDelta]
"""Function that finds the changes of a statement in a table of these columns."""


@dataclass(frozen=True, slots=True)
class WritableTable:
    """Table as a transaction changes it, restricted by a policy on the written rows.

    Each method returns how many rows were inserted, changed and removed.
    """

    table: Table
    transaction: SqlTransaction
    policy: RowPolicy = EVERY_ROW

    @property
    def keeps_row_ids(self) -> bool:
        """True if a changed row keeps its id."""
        return self.transaction.snapshot(self.table).has_stable_row_ids

    @property
    def columns(self) -> pa.Schema:
        """Return the columns as the transaction sees them."""
        return self.schema.plain

    @property
    def schema(self) -> NamespaceSchema:
        """Return the schema as the transaction sees it."""
        return self.transaction.snapshot(self.table).schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the columns of the primary key as the transaction sees them."""
        return self.schema.primary_key

    def append(self, data: Iterable[pa.Table]) -> int:
        """Add rows, and return their number."""
        inner = self._writing()
        return self.table.write(
            inner, self._check_allowed(inner.snapshot, data), evaluate, check=self.transaction.check
        )

    def overwrite(self, data: Iterable[pa.Table], *, whole: bool = False) -> int:
        """Replace the rows of the partitions that the data falls into, or all rows of a plain table, or of the `whole` table."""
        inner = self._writing()
        come = self._check_allowed(inner.snapshot, data)
        self._check_overwritten(inner.snapshot)
        return self.overwrite_by(
            self.table.write_files(inner.snapshot, come, evaluate, check=self.transaction.check), whole=whole
        )

    def _check_overwritten(self, snapshot: Snapshot) -> None:
        self.policy.check_whole_partitions(snapshot)
        # Rows under older specs are read, and errors name their values: none may be there that the policy hides.
        self.policy.visible(snapshot)

    def overwrite_by(self, written: Sequence[TableUpdate], *, whole: bool = False) -> int:
        """Replace rows as `overwrite` does, by rows that are in files already."""
        table, inner = self.table, self._writing()
        self._check_overwritten(inner.snapshot)
        count = sum(edit.rows for edit in written)
        with table.discarding(inner.snapshot, written):
            room = (
                replace_rows(table.store, inner.snapshot, written, evaluate)
                if table.is_partitioned and not whole
                else all_removed(table.store, inner.snapshot, inner.snapshot.all_tables())
            )
        gone = removed_rows(room)
        if whole:
            # What others add meanwhile, be it a new partition, belongs to the table that is replaced.
            inner.read(inner.snapshot.table_ids)
        what = "the table" if whole else f"{len(written)} partitions"
        inner.add(combine_edits([*room, *written]), f"overwrite {what} with {count} rows in place of {gone}")
        return count + gone

    def take(self, files: Sequence[TableUpdate], find: Find | None = None) -> int:
        """Add rows that are in files already, in place of those that a query finds; return the number of both."""
        inner = self._writing()
        count, gone, did = sum(edit.rows for edit in files), 0, "append"
        edits = combine_edits(files)
        if find is not None:
            changes = find(self.columns)
            deque(changes, maxlen=0)
            room = rows_removed(self.table.store, inner.snapshot, changes.by_table)
            edits, gone, did = combine_edits([*room, *files]), removed_rows(room), "write"
        if edits:
            replaced = f" in place of {gone}" * (find is not None)
            inner.add(edits, f"{did} {count} rows{replaced} in {len(edits)} partitions")
        return count + gone

    def truncate(self) -> int:
        """Remove all rows, and return their number."""
        inner = self._writing()
        edits = all_removed(self.table.store, inner.snapshot, inner.snapshot.all_tables())
        if edits:
            inner.add(edits, f"truncate {removed_rows(edits)} rows in {len(edits)} partitions")
        return removed_rows(edits)

    def change(self, find: Find) -> int:
        """Apply the changes that a statement finds in the table."""
        table, inner = self.table, self._writing()
        changes = find(self.columns)
        come = self._check_allowed(inner.snapshot, changes)
        written = table.write_files(
            inner.snapshot, come, evaluate, number_of=changes.number_of, check=self.transaction.check
        )
        with table.discarding(inner.snapshot, written):
            gone = rows_removed(table.store, inner.snapshot, changes.by_table)
        edits = combine_edits([*gone, *written])
        if edits:
            inner.add(edits, f"{changes.kind.lower()} {changes.count} rows in {len(edits)} partitions")
        return changes.count

    def _check_allowed(self, snapshot: Snapshot, data: Iterable[pa.Table]) -> Iterable[pa.Table]:
        return self.policy.check_rows(data, snapshot.schema.plain, snapshot.schema.defaults)

    def _writing(self) -> Transaction:
        """Return the transaction on the table, begun if necessary."""
        if not self.table.is_partitioned:
            self.policy.check_unpartitioned()
        return self.transaction.writing(self.table)


PARTITION_BY, STABLE_ROW_IDS, FILE_VERSION = "partition_by", "stable_row_ids", "file_version"
OPTIONS = (STABLE_ROW_IDS, FILE_VERSION)
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """Properties of a new table: its partition fields (none: a plain table), and whether its rows keep their ids.

    `file_version` is that of Lance's file format which its data files have (None: the newest), `policy` has the options of its maintenance.
    """

    partitioned_by: tuple[PartitionDef, ...] = ()
    stable_row_ids: bool = False
    file_version: str | None = None
    policy: Mapping[str, PolicyValue | None] = field(default_factory=dict)

    @classmethod
    def with_maintenance(cls, options: Mapping[str, object], partitioned_by: tuple[PartitionDef, ...]) -> Self:
        """Build the properties of a new table with the options of WITH, those of its maintenance among them."""
        policy = {name: value for name, value in options.items() if name in definitions.MAINTENANCE_OPTIONS}
        rest = {name: value for name, value in options.items() if name not in policy}
        made = cls(partitioned_by=partitioned_by, policy=definitions.parse_maintenance_options(policy, may_reset=False))
        return made.with_options(rest, more=f", or of its maintenance {', '.join(definitions.MAINTENANCE_OPTIONS)}")

    @classmethod
    def by(cls, fields: str | None) -> Self:
        """Build the properties of a table partitioned by a list of fields as in PARTITIONED BY (…); of a plain one without."""
        return cls(partitioned_by=parse_partition_by(fields) if fields else ())

    def with_options(self, options: Mapping[str, object], known: Sequence[str] = OPTIONS, more: str = "") -> Self:
        """Return the properties with the options of WITH; raise `InvalidInput` for an unknown one, listing the `known` ones and `more`."""
        for name in options:
            if name not in OPTIONS:
                expected = f"{', '.join(known[:-1])} or {known[-1]}"
                raise InvalidInput(f"option {name!r} of a new table is not known; expected {expected}{more}")
        is_stable, version = options.get(STABLE_ROW_IDS, False), options.get(FILE_VERSION)
        if str(is_stable).lower() not in _SWITCH:
            raise InvalidInput(f"{STABLE_ROW_IDS} is {is_stable!r}; expected true or false")
        return replace(
            self,
            stable_row_ids=_SWITCH[str(is_stable).lower()],
            file_version=None if version is None else check_version(str(version), FILE_VERSION),
        )


PLAIN = TableProperties()


OVERWRITE, COMMIT_ID = "overwrite", "commit_id"
SHARED, PART, VERSION = "shared", "part", "version"
_OVERWRITES: Mapping[str, Replaces] = MappingProxyType(
    {"nothing": Replaces.NOTHING, "partitions": Replaces.PARTITIONS, "table": Replaces.TABLE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Options of one ingest; `overwrites` are the rows of an existing table that make room for them, `part` is set of a shared ingest."""

    properties: TableProperties = PLAIN
    overwrites: Replaces = Replaces.NOTHING
    commit_id: str | None = None
    part: SharedPart | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options of a client; `InvalidInput` for an unknown one, or a value that one cannot have.

        >>> IngestOptions.of({"partition_by": "year(ts)", "overwrite": "table"}).overwrites
        <Replaces.TABLE: 'table'>
        """
        rest = dict(options)
        if SHARED in rest:
            return cls(part=SharedPart.of(rest))
        fields, overwrite, commit_id = (rest.pop(name, None) for name in (PARTITION_BY, OVERWRITE, COMMIT_ID))
        if overwrite is not None and overwrite not in _OVERWRITES:
            raise InvalidInput(f"{OVERWRITE} is {overwrite!r}; expected {', '.join(_OVERWRITES)}")
        return cls(
            properties=TableProperties.by(fields).with_options(
                rest, known=(PARTITION_BY, *OPTIONS, OVERWRITE, COMMIT_ID, SHARED)
            ),
            overwrites=_OVERWRITES[overwrite or "nothing"],
            commit_id=None if commit_id is None else checked_id(commit_id),
        )


APPENDED = IngestOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart:
    """Place of rows in a shared ingest, on top of a version of the table (None: the newest)."""

    ingest: str
    name: str
    version: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options of a client; `InvalidInput` for others than those of a shared ingest."""
        unknown = options.keys() - {SHARED, PART, VERSION}
        version = options.get(VERSION)
        if unknown or PART not in options:
            raise InvalidInput(
                f"a shared ingest with the options {', '.join(sorted(options))}; expected {SHARED}, {PART} and perhaps {VERSION}"
            )
        if version is not None and not version.isdecimal():
            raise InvalidInput(f"{VERSION} of a shared ingest is {version!r}; expected the number of a version")
        return cls(
            ingest=checked_name(SHARED, options[SHARED]),
            name=checked_name(PART, options[PART]),
            version=None if version is None else int(version),
        )


@dataclass(frozen=True, slots=True)
class PartOfIngest:
    """Part `name` of a shared ingest whose rows are about to come, restricted by a policy on the written rows."""

    name: str
    shared: SharedIngest
    policy: RowPolicy

    @classmethod
    def begin(
        cls,
        tables: Root | SqlTransaction,
        table: TableName,
        columns: pa.Schema,
        part: SharedPart,
        ingests: SharedIngests,
        *,
        policy: RowPolicy,
    ) -> Self:
        """Find the table, and the shared ingest, which its first part begins; `SchemaError` for columns that do not fit."""
        check_schema(columns)
        found = tables.read(table, lambda found: found)
        if not found.is_partitioned:
            policy.check_unpartitioned()
        shared = ingests.find(part.ingest, found, part.version)
        schema = shared.snapshot.schema
        rows.fit(columns, schema.plain, what=f"rows for table {table.name!r}", defaults=schema.defaults)
        return cls(part.name, shared, policy)

    def store(self, batches: Iterable[pa.RecordBatch], check: Callable[[], None]) -> int:
        """Store the rows, which COMMIT WRITE makes visible, and return their number; `check` ends that by an error."""
        stored, schema = _Stored(_tables(batches)), self.shared.snapshot.schema
        allowed = self.policy.check_rows(stored.counted(), schema.plain, schema.defaults)
        self.shared.write(self.name, allowed, evaluate, check)
        return stored.count


LOOKED_AT_BYTES = 64 << 20
"""Rows of so many bytes are held in memory until the types of the columns are decided."""
LEAST_BYTES = 16 << 10
"""Bytes that a table of rows takes at least."""
_SHORTEST = 2


def with_vectors(schema: pa.Schema, rows: Iterable[pa.Table]) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return the columns of a new table, lists of floats of one length as vectors, and all of its rows.

    A column with NULL inside a list, or with lists of other lengths among the first `LOOKED_AT_BYTES`, stays one of lists. `DataError`
    names a later row whose list has another length.
    """
    lists = [field.name for field in schema if _is_list_of_floats(field.type)]
    if not lists:
        return schema, iter(rows)
    rest = iter(rows)
    first = list(_first(rest))
    lengths = {name: length for name in lists if (length := _length([table[name] for table in first])) is not None}
    fields = [
        field.with_type(pa.list_(field.type.value_type, lengths[field.name])) if field.name in lengths else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata), chain(first, _check_rows(rest, lengths))


def _is_list_of_floats(kind: pa.DataType) -> bool:
    return bool((pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_floating(kind.value_type))


def _first(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    size = 0
    while size < LOOKED_AT_BYTES:
        table = next(rows, None)
        if table is None:
            return
        size += max(table.nbytes, LEAST_BYTES)
        yield table


def _length(columns: list[pa.ChunkedArray]) -> int | None:
    """Return the one length of all lists, none of which has NULL inside; None where there is none."""
    lengths: set[int] = set()
    for column in columns:
        lengths.update(pc.list_value_length(column).drop_null().unique().to_pylist())
        if len(lengths) > 1 or pc.list_flatten(column).null_count:
            return None
    (length,) = lengths or {0}
    return length if length >= _SHORTEST else None


def _check_rows(rows: Iterator[pa.Table], lengths: Mapping[str, int]) -> Iterator[pa.Table]:
    for table in rows:
        for name, length in lengths.items():
            why = f", as all rows before have; CREATE TABLE with {name} as a list (FLOAT[]) stores any lengths"
            check_lengths(table[name], name, length, why)
        yield table


def described(table: Table) -> NamespaceSchema:
    """Return the schema of a table."""
    return table.snapshot().schema


def schema_of(table: Table) -> pa.Schema:
    """Return the columns of a table as a client sees them."""
    return described(table).plain


def defaults_of(table: Table) -> Mapping[str, pa.Scalar]:
    """Return the default values of a table's columns, for rows without a value."""
    return described(table).defaults


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
        count = table.create(place, data, commit_id, cancelling.check)
        # What comes next moves the table to its place.
        cancelling.begin_commit()
        return count

    def join(place: Store) -> int:
        mine = table.open(place)
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

    def create(self, place: Store, data: Iterable[pa.Table], commit_id: str | None, check: Callable[[], None]) -> int:
        """Create the table with some rows, and return their number; `check` ends that by an error."""
        count = self._fill(place, data, commit_id, check)
        if self.policy:
            set_policy(self.open(place), self.policy)
        return count

    def _fill(self, place: Store, data: Iterable[pa.Table], commit_id: str | None, check: Callable[[], None]) -> int:
        if commit_id is not None:
            # Nobody sees the table before its rows are there, with the commit that has the id.
            self._fill(place, [], None, check)
            once = partial(CommitToken.now, commit_id)
            return self.open(place).append(data, evaluate, operation="create with", once=once, check=check)
        if self.spec is None:
            return write_plain(
                place, self.columns, data, stable_row_ids=self.stable_row_ids, file_version=self.file_version
            )
        made = PartitionedNamespace.create(
            place, self.schema, self.spec, stable_row_ids=self.stable_row_ids, file_version=self.file_version
        )
        return made.append(data, evaluate, operation="create with", check=check)

    def open(self, place: Store) -> Table:
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
    policy = access.rows(privileges, root.governing_table(name))
    if Privilege.SELECT in privileges:
        access.check_all_columns(root.governing_table(name), "rows are replaced as a whole")
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
    transaction.stage(cancellation)
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
            writable.append(self.counted())
        else:
            writable.overwrite(self.counted(), whole=self.overwrites is Replaces.TABLE)
        if self.commit_id is not None:
            transaction.writing(table).once = CommitToken.now(self.commit_id, self.count)
        return self.count

    def counted(self) -> Iterator[pa.Table]:
        """Yield the rows and count them."""
        for rows_of_table in self.data:
            self.count += rows_of_table.num_rows
            yield rows_of_table


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    for batch in batches:
        yield pa.Table.from_batches([batch])


T = TypeVar("T")

_Item: TypeAlias = pa.RecordBatch | BaseException | None


class Receiver:
    """Passes batches from the thread that receives them to the one that processes them, each on demand.

    The work fails if no batch arrives for `idle_seconds` (0: any number).
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], *, idle_seconds: float) -> None:
        self._batches = batches
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._is_wanted = False
        self._has_ended = False
        self._given: list[_Item] = []

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` on another thread, which reads `batches`, while this one receives; return its result."""
        outcome: list[T] = []
        errors: list[BaseException] = []

        def do() -> None:
            try:
                outcome.append(work())
            except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
                errors.append(error)
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

        worker = threading.Thread(target=copy_context().run, args=[do], name="ingest", daemon=True)
        worker.start()
        while self._wait_for_request():
            self._give(self._receive())
        worker.join()
        if errors:
            raise errors[0]
        return outcome[0]

    def batches(self, cancellation: Cancellation) -> Iterator[pa.RecordBatch]:
        """Yield the batches to the working thread; raise the reason of a cancellation while waiting for one."""
        while True:
            with cancellation.waking(self._wake), self._changed:
                self._is_wanted = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._given or cancellation.is_cancelled, self._idle_seconds or None)
                cancellation.check()
                if not self._given:
                    raise LimitExceeded(
                        f"the client has sent no rows for {self._idle_seconds:g} seconds (ingest_idle_timeout);"
                        " nothing was stored"
                    )
                item = self._given.pop()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _receive(self) -> _Item:
        try:
            return next(self._batches, None)
        except BaseException as error:  # noqa: BLE001 - the thread that works raises it
            return error

    def _wait_for_request(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_wanted or self._has_ended)
            self._is_wanted = False
            return not self._has_ended

    def _give(self, item: _Item) -> None:
        with self._changed:
            self._given.append(item)
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
