"""Registry of all statements other than queries, in the order in which errors list them."""

from __future__ import annotations

from lance_flight.engine.statements.alterations.annotations import AddPrimaryKey, CommentStatement, DropPrimaryKey
from lance_flight.engine.statements.alterations.branches import CreateBranch, DropBranch, PublishBranch
from lance_flight.engine.statements.alterations.columns import AlterColumns
from lance_flight.engine.statements.alterations.options import SetOptions
from lance_flight.engine.statements.alterations.partitioning import SetPartitionedBy
from lance_flight.engine.statements.alterations.partitions import AttachTable, DetachPartition, DropPartition
from lance_flight.engine.statements.alterations.rename import Rename
from lance_flight.engine.statements.alterations.tags import CreateTag, DropTag, Rollback
from lance_flight.engine.statements.create_table import CreateTable
from lance_flight.engine.statements.delete import Delete
from lance_flight.engine.statements.describe import Describe, DescribeNamespace
from lance_flight.engine.statements.drop_table import DropTable
from lance_flight.engine.statements.explain import Explain
from lance_flight.engine.statements.indexes import CreateIndex, DropIndex, Reindex
from lance_flight.engine.statements.insert import Insert
from lance_flight.engine.statements.kill import Kill
from lance_flight.engine.statements.kinds import Statement
from lance_flight.engine.statements.maintenance import Compact, Migrate, Repair, RewritePartitions, Vacuum, Verify
from lance_flight.engine.statements.merge import Merge
from lance_flight.engine.statements.queries import Query, SubstraitPlan
from lance_flight.engine.statements.schemas import CreateSchema, DropSchema
from lance_flight.engine.statements.set_option import SetOption
from lance_flight.engine.statements.show import ShowColumns, ShowListing, ShowMetadata, ShowSettings
from lance_flight.engine.statements.show_create import ShowCreateTable, ShowCreateView
from lance_flight.engine.statements.summarize import Summarize
from lance_flight.engine.statements.transactions import Begin, EndTransaction
from lance_flight.engine.statements.truncate import Truncate
from lance_flight.engine.statements.update import Update
from lance_flight.engine.statements.views import CreateView, DropView

STATEMENTS: tuple[type[Statement], ...] = (
    Query,
    SubstraitPlan,
    Explain,
    ShowListing,
    ShowColumns,
    ShowCreateTable,
    ShowCreateView,
    ShowSettings,
    ShowMetadata,
    Summarize,
    Describe,
    DescribeNamespace,
    CreateTable,
    CreateIndex,
    CreateView,
    CreateSchema,
    DropTable,
    DropIndex,
    DropView,
    DropSchema,
    Insert,
    SetOption,
    Kill,
    Begin,
    EndTransaction,
    AlterColumns,
    AddPrimaryKey,
    DropPrimaryKey,
    CommentStatement,
    Rename,
    SetPartitionedBy,
    SetOptions,
    DropPartition,
    AttachTable,
    DetachPartition,
    CreateTag,
    DropTag,
    Rollback,
    CreateBranch,
    DropBranch,
    PublishBranch,
    RewritePartitions,
    Compact,
    Update,
    Delete,
    Merge,
    Truncate,
    Vacuum,
    Repair,
    Migrate,
    Verify,
    Reindex,
)
