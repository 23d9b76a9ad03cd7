"""ALTER TABLE, carried out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.properties import check_in_place
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.sql.points import naming
from lance_flight.engine.writes.alterations import (
    AddColumn,
    Alteration,
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTag,
    OfBranch,
    PublishBranch,
    Rename,
    Rollback,
    SetPartitionedBy,
    SetType,
)
from lance_flight.engine.writes.column_changes import alter_column
from lance_flight.engine.writes.definitions import partition_spec
from lance_flight.engine.writes.partition_fields import PartitionDef
from lance_flight.errors import Unsupported
from lance_flight.model.schema_changes import DropColumn, RenameColumn, SetNullable


def alter(root: Root, name: TableName, alteration: Alteration) -> None:
    """Change the history of a table, or its name."""
    table = root.table(name)
    if isinstance(table, PartitionedNamespace):
        check_in_place(name.name, table.snapshot().misplaced)
    match alteration:
        case Rename(new):
            root.rename(name, new)
        case CreateTag(tag, at):
            with naming(name, at):
                table.create_tag(tag, at)
        case DropTag(tag):
            table.drop_tag(tag)
        case Rollback(at):
            with naming(name, at):
                table.rollback(at)
        case CreateBranch() | DropBranch() | PublishBranch():
            _alter_branch(_partitioned(table, name, "has no branches"), name, alteration)
        case AddColumn() | DropColumn() | RenameColumn() | SetType() | SetNullable():
            mine = _partitioned(table, name, "its columns cannot be changed here")
            alter_column(root, name, mine, alteration)
        case SetPartitionedBy(fields):
            _partitioned(table, name, "cannot become so").evolve(partial(_partitioned_by, fields))


def _partitioned(table: Table, name: TableName, why: str) -> PartitionedNamespace:
    if not isinstance(table, PartitionedNamespace):
        raise Unsupported(f"table {name.name!r} is not partitioned and {why}")
    return table


def _partitioned_by(fields: Sequence[PartitionDef], snapshot: Snapshot) -> Evolution | None:
    """The next spec version, unless it would be the current one once more."""
    number = snapshot.current_spec.id + 1
    spec = partition_spec(snapshot.schema, fields, number=number, earlier=snapshot.specs)
    if spec.fields == snapshot.current_spec.fields:
        return None
    spec.check(snapshot.schema, snapshot.specs)
    return Evolution(operation=f"partition spec v{number}", spec=spec)


def _alter_branch(table: PartitionedNamespace, name: TableName, alteration: OfBranch) -> None:
    match alteration:
        case CreateBranch(branch, at):
            with naming(name, at):
                table.create_branch(branch, at)
        case DropBranch(branch):
            table.drop_branch(branch)
        case PublishBranch(branch):
            table.publish(branch)
