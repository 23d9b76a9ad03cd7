"""Statements that return no rows: each is carried out once, by us, and says how many rows it affected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.roots.temporary import TemporaryTables
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.policies.access import UNLIMITED, Access, Privilege
from lance_flight.engine.query.policies.rows import RowPolicy
from lance_flight.engine.query.session import Session
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction, autocommit
from lance_flight.engine.sql.long_values import pieces
from lance_flight.engine.statements.parsing import AlterTable, ChangeStatement, CreateTable, DropTable
from lance_flight.engine.writes import dml, ingest
from lance_flight.engine.writes.alter import alter
from lance_flight.engine.writes.alterations import CreateBranch, DropBranch, PublishBranch
from lance_flight.engine.writes.definitions import arrow_schema, storable
from lance_flight.engine.writes.dml import NewSession, table_name
from lance_flight.engine.writes.found_changes import assigned
from lance_flight.engine.writes.index_statements import CreateIndex, DropIndex, IndexChange, change_index
from lance_flight.engine.writes.partition_alterations import AttachTable, DetachPartition, DropPartition
from lance_flight.engine.writes.partition_changes import attach_table, detach_partition, drop_partition, plain_name
from lance_flight.engine.writes.privileges import writing
from lance_flight.engine.writes.row_changes import Insert, RowChange
from lance_flight.engine.writes.writable_tables import writable
from lance_flight.errors import AlreadyExists, NotFound, SqlError, Unsupported

Bindings = Sequence[pa.RecordBatch | None]
PolicyOf = Callable[[RowChange | Insert, TableName], RowPolicy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Where a statement is carried out: once for each of `bindings` (one row of parameters, or None), all together.

    Without a `transaction` it is one of its own. `access` says which rows may be written. What is made among `temporary`
    tables, and what drops one, takes effect at once. `progress` is told how far long work is.
    """

    root: Root
    new_session: NewSession
    bindings: Bindings
    cancellation: Cancellation
    transaction: SqlTransaction | None = None
    serializable: bool = False
    access: Access = UNLIMITED
    temporary: TemporaryTables | None = None
    progress: Progress | None = None

    def run(self, statement: ChangeStatement) -> int:
        """Carry it out; the number of affected rows."""
        match statement:
            case AlterTable():
                return self._alter(statement)
            case CreateIndex() | DropIndex():
                return self._change_index(statement)
            case CreateTable():
                return self._create(statement)
            case DropTable():
                return sum(_drop(self.root, statement, self.transaction) for _ in self.bindings)
            case Insert():
                return self._together(partial(_insert, statement, self.new_session, self.bindings, self._policy))
            case _:
                return self._together(partial(_change_rows, statement, self.new_session, self.bindings, self._policy))

    def _policy(self, statement: RowChange | Insert, name: TableName) -> RowPolicy:
        """The rows that a statement may write to a table, or to a branch of one."""
        return self.access.rows(writing(statement), self.root.governing(name))

    def _together(self, work: Callable[[SqlTransaction], int]) -> int:
        """What changes rows, as a part of the transaction."""
        if self.transaction is None:
            return autocommit(self.root, work, self.cancellation, serializable=self.serializable)
        count = work(self.transaction)
        with self.cancellation.committing():
            self.transaction.stage()
        return count

    def _alter(self, statement: AlterTable) -> int:
        if self.transaction is not None:
            raise Unsupported("tables are not altered inside a transaction; commit first")
        if isinstance(statement.alteration, DropPartition):
            return self._together(partial(drop_partition, table_name(statement.table), statement.alteration))
        # Such a statement commits in steps of its own.
        self.cancellation.begin_commit()
        return _alter(self.root, statement, self.access)

    def _change_index(self, statement: IndexChange) -> int:
        if self.transaction is not None:
            raise Unsupported("indices are not made or dropped inside a transaction; commit first")
        # It commits a part of the tables at a time.
        self.cancellation.begin_commit()
        change_index(self.root, table_name(statement.table), statement, self.progress)
        return 0

    def _create(self, statement: CreateTable) -> int:
        root, transaction = self.root, self.transaction
        reading = partial(self.new_session, transaction or SqlTransaction(root), None)
        if statement.is_temporary:
            root, transaction = temporary_root(self.temporary, table_name(statement.table), root), None
        create = partial(_create, root, statement, reading, transaction=transaction, cancellation=self.cancellation)
        return sum(map(create, self.bindings))


def temporary_root(temporary: TemporaryTables | None, name: TableName, root: Root) -> Root:
    """Where a temporary table is made; refused where nobody could tell whose it is."""
    if temporary is None:
        raise Unsupported(
            f"temporary table {name.name!r} needs a session that is its client's alone: by a cookie, by the token of a"
            " Handshake, or by a connection that began with GetSqlInfo"
        )
    return temporary.root_for(name, root)


def _alter(root: Root, statement: AlterTable, access: Access) -> int:
    name = table_name(statement.table)
    _check_lasting(root, name, statement)
    match statement.alteration:
        case AttachTable() as alteration:
            return attach_table(root, name, alteration)
        case DetachPartition() as alteration:
            return detach_partition(root, name, alteration, partial(access.check_all_rows, Privilege.INSERT))
        case alteration:
            is_of_branches = isinstance(alteration, CreateBranch | DropBranch | PublishBranch)
            alter(root.on_branch(None) if is_of_branches else root, name, alteration)
            return 0


def _check_lasting(root: Root, name: TableName, statement: AlterTable) -> None:
    """Refuse to move rows between temporary and lasting tables as files."""
    match statement.alteration:
        case AttachTable(path=path):
            moved = [name, plain_name(path)]
        case DetachPartition():
            moved = [name]
        case _:
            return
    for each in moved:
        if root.is_temporary(each):
            raise Unsupported(f"table {each.name!r} is temporary, and neither gives partitions away nor becomes one")


def _change_rows(
    statement: RowChange, new_session: NewSession, bindings: Bindings, policy_of: PolicyOf, transaction: SqlTransaction
) -> int:
    """The changes of each binding, made to what the ones before it left."""
    policy = policy_of(statement, dml.target_name(statement))
    if len(bindings) > 1:
        dml.check_repeated(statement, transaction)
    count = 0
    for place, binding in enumerate(bindings):
        try:
            if place:
                transaction.stage()
            count += dml.change_rows(statement, transaction, new_session, binding, policy)
        except Exception as exc:
            if place:
                transaction.torn = exc
            raise
    return count


def insert_columns(tables: Root | SqlTransaction, statement: Insert) -> pa.Schema:
    """The target columns of an INSERT in their order; an unknown one, or a missing NOT NULL one, is named."""
    schema = tables.read(table_name(statement.table), ingest.schema_of)
    if statement.columns is None:
        return schema
    for name in statement.columns:
        if name not in schema.names:
            raise NotFound.named("column", name, schema.names)
    listed = pa.schema([schema.field(name) for name in statement.columns])
    defaults = tables.read(table_name(statement.table), ingest.defaults_of)
    rows.fit(listed, schema, what=f"INSERT INTO {statement.table.name}", defaults=defaults)
    return listed


def _insert(
    statement: Insert, new_session: NewSession, bindings: Bindings, policy_of: PolicyOf, transaction: SqlTransaction
) -> int:
    """The rows of all bindings in one commit."""
    target = insert_columns(transaction, statement)
    name = table_name(statement.table)
    policy = policy_of(statement, name)

    def data() -> Iterator[pa.Table]:
        for binding, piece in product(bindings, pieces(statement.query)):
            session = new_session(transaction, None)
            frame = session.literal_rows(piece.sql) if piece.is_literal else session.frame(piece.sql, binding)
            source = storable(frame.schema())
            if len(source) != len(target):
                raise SqlError(
                    f"INSERT INTO {name.name} has {len(source)} values for {len(target)} columns"  # noqa: S608 - a message
                    f" ({', '.join(target.names)})"
                )
            session.prepare(frame)
            for batch in division.rows(session, frame, source):
                yield assigned(pa.Table.from_arrays(batch.columns, names=target.names), target)

    table = writable(transaction.table(name), transaction, policy)
    return table.overwrite(data()) if statement.overwrite else table.append(data())


def _create(
    root: Root,
    statement: CreateTable,
    new_session: Callable[[], Session],
    binding: pa.RecordBatch | None,
    *,
    transaction: SqlTransaction | None,
    cancellation: Cancellation,
) -> int:
    name, tables = table_name(statement.table), transaction or root
    if tables.has(name):
        if statement.if_not_exists:
            return 0
        raise AlreadyExists(f"table {name.name!r} is there already")
    try:
        return _created(root, statement, new_session, binding, transaction=transaction, cancellation=cancellation)
    except AlreadyExists:
        # Somebody else was faster; a name without a table is another matter.
        if statement.if_not_exists and tables.has(name):
            return 0
        raise


def _created(
    root: Root,
    statement: CreateTable,
    new_session: Callable[[], Session],
    binding: pa.RecordBatch | None,
    *,
    transaction: SqlTransaction | None,
    cancellation: Cancellation,
) -> int:
    create = partial(ingest.create, root, table_name(statement.table))
    if statement.query is None:
        schema, data = arrow_schema(statement.columns), iter(())
        return create(schema, statement.properties, data, transaction=transaction, cancellation=cancellation)
    session = new_session()
    frame = session.frame(statement.query, binding)
    schema = storable(frame.schema())
    session.prepare(frame)
    found = (pa.Table.from_batches([batch]) for batch in division.rows(session, frame, schema))
    return create(schema, statement.properties, found, transaction=transaction, cancellation=cancellation)


def _drop(root: Root, statement: DropTable, transaction: SqlTransaction | None) -> int:
    name = table_name(statement.table)
    tables = root if transaction is None or root.is_temporary(name) else transaction
    if not (statement.if_exists and not tables.has(name)):
        tables.drop(name)
    return 0
