"""Registry of all statements other than queries, in the order in which errors list them."""

from __future__ import annotations

from lance_flight.engine.statements.alterations.columns import (
    AddPrimaryKey,
    AlterColumns,
    CommentStatement,
    DropPrimaryKey,
    SetMetadata,
)
from lance_flight.engine.statements.alterations.tables import (
    AttachTable,
    ChangePartitionFields,
    CreateBranch,
    CreateTag,
    DetachPartition,
    DropBranch,
    DropPartition,
    DropTag,
    PublishBranch,
    Rename,
    ReplaceTag,
    Rollback,
    SetOptions,
    SetPartitionedBy,
)
from lance_flight.engine.statements.create_table import CreateTable, DropTable
from lance_flight.engine.statements.describe import Describe, DescribeNamespace
from lance_flight.engine.statements.explain import Explain
from lance_flight.engine.statements.indexes import CreateIndex, DropIndex
from lance_flight.engine.statements.insert import Insert
from lance_flight.engine.statements.kill import Kill
from lance_flight.engine.statements.kinds import Statement
from lance_flight.engine.statements.maintenance import OPERATION_STATEMENTS
from lance_flight.engine.statements.queries import Query, SubstraitPlan, Summarize
from lance_flight.engine.statements.row_changes import CommitWrite, Delete, Merge, Truncate, Update
from lance_flight.engine.statements.schemas import CreateSchema, DropSchema
from lance_flight.engine.statements.settings import SetOption
from lance_flight.engine.statements.show import (
    ShowColumns,
    ShowCreateTable,
    ShowCreateView,
    ShowListing,
    ShowMetadata,
    ShowSettings,
)
from lance_flight.engine.statements.transactions import Begin, EndTransaction
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
    SetMetadata,
    Rename,
    ChangePartitionFields,
    SetPartitionedBy,
    SetOptions,
    DropPartition,
    AttachTable,
    DetachPartition,
    CreateTag,
    DropTag,
    ReplaceTag,
    Rollback,
    CreateBranch,
    DropBranch,
    PublishBranch,
    Update,
    Delete,
    Merge,
    Truncate,
    CommitWrite,
    *OPERATION_STATEMENTS,
)
