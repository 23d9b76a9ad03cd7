"""What a statement asks for beside the tables that it reads: privileges on the tables that it changes or shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, assert_never

from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.dml import table_name
from lance_flight.engine.index_statements import CreateIndex, DropIndex, Reindex
from lance_flight.engine.maintenance import Compact, Migrate, Repair, RewritePartitions, Vacuum, Verify
from lance_flight.engine.partition_alterations import AttachTable, DropPartition
from lance_flight.engine.partition_changes import plain_name
from lance_flight.engine.policies.access import Access, Privilege
from lance_flight.engine.row_changes import Delete, Merge, Truncate, Update
from lance_flight.engine.statements import (
    AlterTable,
    CreateTable,
    Describe,
    DescribeNamespace,
    DropTable,
    Explain,
    Insert,
    Kill,
    Query,
    SetOption,
    ShowMetadata,
    ShowTables,
    Statement,
)

S = TypeVar("S", bound=Statement)
Required = tuple[Privilege, TableName]


def permitted(statement: S, access: Access) -> S:
    """A statement that its caller may run, as far as that can be known before its tables are opened."""
    for privilege, table in required(statement):
        access.check_all_rows(privilege, table)
    return statement


def required(statement: Statement) -> Iterator[Required]:
    """The privileges that a statement needs on all rows of tables.

    Tables that are read, and rows that are changed, are checked where they are opened; names that tables are given or
    lose, by the root (`catalog.names.Guard`).
    """
    match statement:
        case CreateTable(is_temporary=True):
            return
        case CreateTable() | DropTable() | CreateIndex() | DropIndex():
            yield Privilege.DDL, table_name(statement.table)
        case AlterTable(reference, alteration):
            yield Privilege.DDL, table_name(reference)
            if isinstance(alteration, DropPartition):
                yield Privilege.DELETE, table_name(reference)
            if isinstance(alteration, AttachTable):
                yield Privilege.DDL, plain_name(alteration.path)
        case Truncate():
            yield Privilege.DELETE, table_name(statement.table)
        case Compact() | Vacuum() | Repair() | RewritePartitions() | Migrate() | Verify() | Reindex():
            yield Privilege.ADMIN, table_name(statement.table)
        case Query() | Explain() | ShowTables() | ShowMetadata() | Describe() | DescribeNamespace():
            return
        case Insert() | Update() | Delete() | Merge() | SetOption() | Kill():
            return
        case _:
            assert_never(statement)
