"""UPDATE, DELETE, MERGE and TRUNCATE carried out, as changes of one transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.catalog.roots.plain import PlainTable
from lance_flight.engine.query.policies.rows import EVERY_ROW, RowPolicy
from lance_flight.engine.query.session import Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.writes.found_changes import FoundChanges
from lance_flight.engine.writes.privileges import changing
from lance_flight.engine.writes.row_changes import Delete, Merge, RowChange, Truncate, Update
from lance_flight.engine.writes.row_queries import RowQuery, delete_query, merge_query, source_query, update_query
from lance_flight.engine.writes.writable_tables import columns, keeps_row_ids, writable
from lance_flight.errors import Unsupported

NewSession = Callable[..., Session]
"""Makes the session of a statement, of its transaction; of its target and what it does to the rows there, too."""


def table_name(reference: TableRef) -> TableName:
    """The table that a statement means: one of `public` unless it says otherwise."""
    return TableName(reference.db_schema or PUBLIC, reference.name)


def target_name(statement: RowChange) -> TableName:
    """The table whose rows a statement changes."""
    return table_name(statement.table if isinstance(statement, Truncate) else statement.target.table)


def change_rows(
    statement: RowChange,
    transaction: SqlTransaction,
    new_session: NewSession,
    parameters: pa.RecordBatch | None,
    policy: RowPolicy = EVERY_ROW,
) -> int:
    """Run one statement and return how many rows it inserted, changed and removed; a `policy` allows those that come."""
    name = target_name(statement)
    table = transaction.table(name)
    if isinstance(statement, Truncate):
        return writable(table, transaction).truncate()
    session = new_session(transaction, name, changing(statement))
    query = row_query(session, statement, name)
    return writable(table, transaction, policy).change(partial(FoundChanges, session, statement, query, parameters))


def check_repeated(statement: RowChange, transaction: SqlTransaction) -> None:
    """Refuse several rows of parameters where each would be a commit of its own: for a plain table that others see."""
    name = target_name(statement)
    table = transaction.table(name)
    if isinstance(table, PlainTable) and not transaction.is_draft(table):
        raise Unsupported(
            f"table {name.name!r} is not partitioned: {type(statement).__name__.upper()} takes one row of"
            " parameters at a time there, as several could not become visible together"
        )


def row_query(session: Session, statement: Update | Delete | Merge, name: TableName) -> RowQuery:
    """The query that finds the rows of a statement."""
    transaction = session.transaction or SqlTransaction(session.root)
    table = transaction.table(name)
    schema, keeps_ids = columns(table, transaction), keeps_row_ids(table, transaction)
    match statement:
        case Delete():
            return delete_query(statement, name.db_schema)
        case Update():
            return update_query(statement, name.db_schema, schema, keeps_ids=keeps_ids)
        case Merge():
            source = pa.schema(session.frame(source_query(statement)).schema())
            return merge_query(statement, name.db_schema, schema, source, keeps_ids=keeps_ids)
