"""What a statement asks for beside the tables that it reads: privileges on the tables that it changes or shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.query.policies.access import Access, Privilege
from lance_flight.engine.statements.parsing import (
    AlterTable,
    CreateTable,
    DropTable,
    Statement,
)
from lance_flight.engine.writes.alterations import (
    AddColumn,
    Alteration,
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTag,
    PublishBranch,
    Rename,
    Rollback,
    SetPartitionedBy,
    SetType,
)
from lance_flight.engine.writes.dml import table_name
from lance_flight.engine.writes.index_statements import CreateIndex, DropIndex, Reindex
from lance_flight.engine.writes.maintenance import Compact, Migrate, Repair, RewritePartitions, Vacuum, Verify
from lance_flight.engine.writes.partition_alterations import AttachTable, DetachPartition, DropPartition
from lance_flight.engine.writes.partition_changes import plain_name
from lance_flight.engine.writes.row_changes import Truncate
from lance_flight.model.schema_changes import DropColumn, RenameColumn, SetNullable

S = TypeVar("S", bound=Statement)
Required = tuple[Privilege, TableName]

_NOTHING: tuple[Privilege, ...] = ()
_READING = (Privilege.SELECT,)
_REMOVING = (Privilege.SELECT, Privilege.DELETE)
"""Rows that go are counted in the reply, and chosen by what they hold: who may not read them learns of neither."""
_MAKING = (Privilege.DDL, Privilege.INSERT)
"""A table that is made with rows."""

OF_STATEMENTS: Mapping[type, tuple[Privilege, ...]] = MappingProxyType(
    {
        DropTable: (Privilege.DDL,),
        CreateIndex: (Privilege.DDL, *_READING),
        DropIndex: (Privilege.DDL,),
        AlterTable: (Privilege.DDL,),
        Truncate: _REMOVING,
        Compact: (Privilege.ADMIN,),
        Vacuum: (Privilege.ADMIN,),
        Migrate: (Privilege.ADMIN,),
        Verify: (Privilege.ADMIN, *_READING),
        Repair: (Privilege.ADMIN, *_READING),
        RewritePartitions: (Privilege.ADMIN, *_READING),
        Reindex: (Privilege.ADMIN, *_READING),
    }
)
"""What statements about one table need on all of its rows; others need what they do to the tables that they open.

Whatever computes with stored rows, counts them, names their values in errors, or moves them to another name or
partition, needs SELECT on them.
"""

OF_ALTERATIONS: Mapping[type, tuple[Privilege, ...]] = MappingProxyType(
    {
        AddColumn: _NOTHING,
        DropColumn: _NOTHING,
        # Row policies go by the names of columns.
        RenameColumn: _READING,
        SetType: _READING,
        SetNullable: _NOTHING,
        SetPartitionedBy: _NOTHING,
        Rename: _READING,
        # That a partition is there already is told.
        AttachTable: (Privilege.INSERT, *_READING),
        DetachPartition: _REMOVING,
        DropPartition: _REMOVING,
        CreateTag: _NOTHING,
        DropTag: _NOTHING,
        Rollback: _NOTHING,
        CreateBranch: _NOTHING,
        DropBranch: _NOTHING,
        # The partitions that two branches have changed are named.
        PublishBranch: _READING,
    }
)
"""What ALTER TABLE needs beside DDL, where it reads no rows to compute or to check a column."""


def permitted(statement: S, access: Access, root: Root) -> S:
    """A statement that its caller may run, as far as that can be known before its tables are opened."""
    for privilege, table in required(statement, access.own):
        access.check_all_rows(privilege, root.governing(table))
    return statement


def required(statement: Statement, own: Collection[TableName] = ()) -> Iterator[Required]:
    """Lists the privileges that a statement needs on all rows of tables, temporary ones of its `own` aside.

    Tables that are read, and rows that are changed, are checked where they are opened; names that tables are given or
    lose, by the root (`catalog.names.Guard`).
    """
    match statement:
        case CreateTable(is_temporary=False, query=query):
            yield from _each(table_name(statement.table), _MAKING if query is not None else (Privilege.DDL,))
        case AlterTable(reference, alteration) if table_name(reference) not in own:
            yield from _each(table_name(reference), OF_STATEMENTS[AlterTable])
            yield from _altering(table_name(reference), alteration)
        case (
            DropTable()
            | CreateIndex()
            | DropIndex()
            | Truncate()
            | Compact()
            | Vacuum()
            | Migrate()
            | Verify()
            | Repair()
            | RewritePartitions()
            | Reindex()
        ):
            yield from _each(table_name(statement.table), OF_STATEMENTS[type(statement)])
        case _:
            return


def _altering(table: TableName, alteration: Alteration) -> Iterator[Required]:
    """Lists what an alteration of a table needs beside DDL on it, and on other tables."""
    yield from _each(table, OF_ALTERATIONS[type(alteration)])
    match alteration:
        case Rename(str(new)) | DetachPartition(to=str(new)):
            yield from _each(TableName(table.db_schema, new), _MAKING)
        case AttachTable(path):
            yield from _each(plain_name(path), (Privilege.DDL, *_REMOVING))
        case AddColumn(expression=str()) | AddColumn(nullable=False, default=None) | SetNullable(nullable=False):
            yield from _each(table, _READING)


def _each(table: TableName, privileges: Iterable[Privilege]) -> Iterator[Required]:
    return ((privilege, table) for privilege in privileges)
