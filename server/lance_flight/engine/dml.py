"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE carried out: which rows go, which come, as changes of one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_flight.catalog import rows
from lance_flight.catalog.directory import PLAIN_SUFFIX, PUBLIC, TableName
from lance_flight.catalog.edits import Edit
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable
from lance_flight.catalog.plain_changes import replace_rows
from lance_flight.catalog.removals import all_removed, combined, replaced, rows_removed
from lance_flight.catalog.scan import ADDRESS_FIELDS
from lance_flight.catalog.snapshot import PartitionTable, Snapshot
from lance_flight.engine.definitions import storable
from lance_flight.engine.functions import cast, evaluate
from lance_flight.engine.merge_keys import matched_rows
from lance_flight.engine.policies.changes import changing
from lance_flight.engine.policies.rows import EVERY_ROW, RowPolicy
from lance_flight.engine.references import TableRef
from lance_flight.engine.row_changes import Delete, Merge, RowChange, Truncate, Update
from lance_flight.engine.row_queries import RowChanges, RowQuery, delete_query, merge_query, source_query, update_query
from lance_flight.engine.session import Session
from lance_flight.engine.tables import Targets
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import DataError, SqlError, Unsupported
from lance_flight.model.transforms import is_string

NewSession = Callable[..., Session]
"""Makes the session of a statement, of its transaction; of its target and what it does to the rows there, too."""


def table_name(reference: TableRef) -> TableName:
    """The table that a statement means: one of `public` unless it says otherwise."""
    return TableName(reference.db_schema or PUBLIC, reference.name)


def target_name(statement: RowChange) -> TableName:
    """The table whose rows a statement changes."""
    return table_name(statement.table if isinstance(statement, Truncate) else statement.target.table)


def append(
    table: PartitionedNamespace | PlainTable,
    data: Iterable[pa.Table],
    transaction: SqlTransaction,
    policy: RowPolicy = EVERY_ROW,
) -> int:
    """More rows for a table, as far as a policy allows them."""
    if isinstance(table, PartitionedNamespace):
        inner = transaction.writing(table)
        return table.write(inner, _allowed(policy, inner.snapshot, data), evaluate)
    policy.check_unpartitioned()
    _refuse_plain(table, transaction)
    return table.append(data)


def overwrite(
    table: PartitionedNamespace | PlainTable,
    data: Iterable[pa.Table],
    transaction: SqlTransaction,
    policy: RowPolicy = EVERY_ROW,
) -> int:
    """Rows in place of all that lies in the partitions they fall into, or in place of a whole plain table."""
    if isinstance(table, PlainTable):
        policy.check_unpartitioned()
        _refuse_plain(table, transaction)
        new = list(data)
        gone = replace_rows(table.store, int(table.open().version), None, new)
        return gone + sum(int(part.num_rows) for part in new)
    inner = transaction.writing(table)
    policy.check_whole_partitions(inner.snapshot)
    written = table.written(inner.snapshot, _allowed(policy, inner.snapshot, data), evaluate)
    count = sum(edit.rows for edit in written)
    with table.discarding(inner.snapshot, written):
        room = replaced(table.store, inner.snapshot, written, evaluate)
    gone = _removed(room)
    inner.add(combined([*room, *written]), f"overwrite {len(written)} partitions with {count} rows in place of {gone}")
    return count + gone


def change_rows(
    statement: RowChange,
    transaction: SqlTransaction,
    new_session: NewSession,
    parameters: pa.RecordBatch | None,
    policy: RowPolicy = EVERY_ROW,
) -> int:
    """Run one statement and return how many rows it inserted, changed and removed; a `policy` allows those that come."""
    if isinstance(statement, Truncate):
        return _truncate(transaction.table(table_name(statement.table)), transaction)
    name = table_name(statement.target.table)
    table = transaction.table(name)
    session = new_session(transaction, name, changing(statement))
    query = row_query(session, statement, name)
    if isinstance(table, PlainTable):
        policy.check_unpartitioned()
        _refuse_plain(table, transaction)
        version = transaction.version(table)
        changes = _Changes(session, statement, query, columns(table, transaction), parameters)
        come = list(changes)
        changes.check(statement, name)
        replace_rows(table.store, version, changes.addresses(0), come)
        return changes.count
    inner = transaction.writing(table)
    changes = _Changes(session, statement, query, columns(table, transaction), parameters)
    written = table.written(inner.snapshot, _allowed(policy, inner.snapshot, changes), evaluate)
    with table.discarding(inner.snapshot, written):
        changes.check(statement, name)
        gone = rows_removed(table.store, inner.snapshot, changes.by_table(session.named.targets))
    edits = combined([*gone, *written])
    if edits:
        inner.add(edits, f"{type(statement).__name__.lower()} {changes.count} rows in {len(edits)} partitions")
    return changes.count


def check_repeated(statement: RowChange, transaction: SqlTransaction) -> None:
    """Refuse several rows of parameters where each would be a commit of its own: for a plain table that others see."""
    name = target_name(statement)
    table = transaction.table(name)
    if isinstance(table, PlainTable) and not transaction.is_draft(table):
        raise Unsupported(
            f"table {name.name!r} is not partitioned: {type(statement).__name__.upper()} takes one row of"
            " parameters at a time there, as several could not become visible together"
        )


def columns(table: PartitionedNamespace | PlainTable, transaction: SqlTransaction) -> pa.Schema:
    """The columns of a table as a transaction sees them."""
    if isinstance(table, PartitionedNamespace):
        return transaction.snapshot(table).schema.plain
    return pa.schema([field.remove_metadata() for field in table.open(transaction.version(table)).schema])


def row_query(session: Session, statement: Update | Delete | Merge, name: TableName) -> RowQuery:
    """The query that finds the rows of a statement."""
    transaction = session.transaction or SqlTransaction(session.root)
    schema = columns(transaction.table(name), transaction)
    match statement:
        case Delete():
            return delete_query(statement, name.db_schema)
        case Update():
            return update_query(statement, name.db_schema, schema)
        case Merge():
            source = pa.schema(session.frame(source_query(statement)).schema())
            return merge_query(statement, name.db_schema, schema, source)


def assigned(table: pa.Table, target: pa.Schema) -> pa.Table:
    """Rows as SQL assigns them: text is read as a literal, numbers are rounded; the rest has to fit."""
    for place, name in enumerate(table.column_names):
        field, column = target.field(name), table.column(place)
        if is_string(column.type) and not is_string(field.type):
            try:
                table = table.set_column(place, field.name, cast(column.combine_chunks(), field.type))
            except SqlError as exc:
                raise DataError(f"column {field.name!r} ({field.type}) cannot be read from text: {exc}") from exc
    return rows.rounded(table, target)


class _Changes:
    """The changes of one statement as they are computed: iterating gives the rows that come, and gathers what goes."""

    def __init__(
        self,
        session: Session,
        statement: RowChange,
        query: RowQuery,
        target: pa.Schema,
        parameters: pa.RecordBatch | None,
    ) -> None:
        self._session = session
        self._statement = statement
        self._query = query
        self._target = target
        self._frame = session.frame(query.sql, parameters)
        self._gone = [pa.schema(ADDRESS_FIELDS).empty_table()]
        self._inserted = 0

    def __iter__(self) -> Iterator[pa.Table]:
        if isinstance(self._statement, Merge):
            self._session.narrow(matched_rows(self._session, self._statement, self._frame))
        self._session.prepare(self._frame)
        for batch in self._session.batches(self._frame, storable(self._frame.schema())):
            changes: RowChanges = self._query.read(batch)
            self._gone.append(changes.gone.cast(pa.schema(ADDRESS_FIELDS)))
            self._inserted += changes.inserted
            yield from (assigned(rows, self._target) for rows in changes.come)

    @property
    def count(self) -> int:
        """How many rows were inserted, changed and removed."""
        return sum(int(part.num_rows) for part in self._gone) + self._inserted

    def addresses(self, number: int) -> np.ndarray:
        """The addresses of the rows that go from one table."""
        gone = pa.concat_tables(self._gone)
        found: np.ndarray = gone.column(1).to_numpy()[gone.column(0).to_numpy() == number]
        return found

    def by_table(self, targets: Targets) -> dict[PartitionTable, np.ndarray]:
        """The addresses of the rows that go from each table that loses any."""
        gone = pa.concat_tables(self._gone)
        numbers, addresses = gone.column(0).to_numpy(), gone.column(1).to_numpy()
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        parts = np.split(addresses[order], starts[1:]) if len(found) else []
        return {targets.tables[int(number)]: part for number, part in zip(found, parts, strict=True)}

    def check(self, statement: RowChange, name: TableName) -> None:
        """Refuse a MERGE in which one row of the target is changed twice: nothing says which change should count."""
        gone = pa.concat_tables(self._gone)
        if gone.group_by(gone.column_names).aggregate([]).num_rows != gone.num_rows:
            kind = type(statement).__name__.upper()
            raise DataError(
                f"{kind} finds several rows of its source for one row of {name.name!r}; expected one at most"
            )


def _truncate(table: PartitionedNamespace | PlainTable, transaction: SqlTransaction) -> int:
    if isinstance(table, PlainTable):
        _refuse_plain(table, transaction)
        return replace_rows(table.store, int(table.open().version), None, ())
    inner = transaction.writing(table)
    tables = (found for tables in inner.snapshot.tables for found in tables.tables())
    edits = all_removed(table.store, inner.snapshot, tables)
    if edits:
        inner.add(edits, f"truncate {_removed(edits)} rows in {len(edits)} partitions")
    return _removed(edits)


def _allowed(policy: RowPolicy, snapshot: Snapshot, data: Iterable[pa.Table]) -> Iterable[pa.Table]:
    return policy.checked(data, snapshot.schema.plain, snapshot.schema.defaults)


def _removed(edits: Sequence[Edit]) -> int:
    return sum(edit.removal.rows for edit in edits if edit.removal is not None)


def _refuse_plain(table: PlainTable, transaction: SqlTransaction) -> None:
    transaction.check_branch(table)
    if transaction.explicit and not transaction.is_draft(table):
        raise Unsupported(
            f"table {table.store.name.removesuffix(PLAIN_SUFFIX)!r} is not partitioned and cannot be written inside a transaction; commit first"
        )
