"""ALTER TABLE, carried out."""

from __future__ import annotations

from lance_flight.catalog.directory import Root, TableName
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.engine.alterations import (
    Alteration,
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTag,
    OfBranch,
    PublishBranch,
    Rollback,
)
from lance_flight.engine.points import naming
from lance_flight.errors import Unsupported


def alter(root: Root, name: TableName, alteration: Alteration) -> None:
    """Change the history of a table."""
    table = root.table(name)
    match alteration:
        case CreateTag(tag, at):
            with naming(name, at):
                table.create_tag(tag, at)
        case DropTag(tag):
            table.drop_tag(tag)
        case Rollback(at):
            with naming(name, at):
                table.rollback(at)
        case CreateBranch() | DropBranch() | PublishBranch():
            if not isinstance(table, PartitionedNamespace):
                raise Unsupported(f"table {name.name!r} is not partitioned and has no branches")
            _alter_branch(table, name, alteration)


def _alter_branch(table: PartitionedNamespace, name: TableName, alteration: OfBranch) -> None:
    match alteration:
        case CreateBranch(branch, at):
            with naming(name, at):
                table.create_branch(branch, at)
        case DropBranch(branch):
            table.drop_branch(branch)
        case PublishBranch(branch):
            table.publish(branch)
