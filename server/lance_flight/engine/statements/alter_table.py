"""ALTER TABLE over a whole table, or over partitions by their values: branches, tags, options, partitioning, attached tables and the name."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Self

import numpy as np
import pyarrow as pa

from lance_flight.catalog.commits.transaction import removed_rows
from lance_flight.catalog.commits.writer import drop_rows
from lance_flight.catalog.maintenance.survey import PolicyValue, set_policy
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import Revision
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.publication import publish, replace_branch
from lance_flight.catalog.roots.attachments import Attachment, detach, detached_rows, show_values
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.formats import unstorable_in
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace, Table, display, require_partitions
from lance_flight.catalog.tables.partitions import open_table
from lance_flight.engine.query.access import Access, Privilege
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import (
    Cursor,
    Point,
    TableRef,
    naming,
    read_as_of,
    read_bracketed_options,
    read_point,
    table_name,
)
from lance_flight.engine.statements.kinds import (
    MAKING,
    NOT_ALTERED,
    REMOVING,
    Alteration,
    Changes,
    HistoryAlteration,
    Required,
    on,
)
from lance_flight.engine.translation.evaluation import cast, evaluate
from lance_flight.engine.writes import definitions
from lance_flight.engine.writes.definitions import PartitionDef, changed_fields, partition_spec
from lance_flight.errors import AlreadyExists, Conflict, NotFound, OutcomeUnknown, SqlError, Unsupported
from lance_flight.model.file_versions import FILE_VERSIONS
from lance_flight.model.hashing import match
from lance_flight.model.naming import PLAIN_SUFFIX
from lance_flight.model.spec import PartitionField, PartitionSpec

MOST_RETAINED = 36500 * 86400.0
"""Seconds of a century: the moment at which the time of a tag or branch ends is one that Arrow and clients have."""


class _BranchAlteration(HistoryAlteration):
    """Alteration of the branches of a table, independent of the session's branch."""

    __slots__ = ()

    def root_of(self, changes: Changes) -> Root:
        return changes.root.on_branch(None)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        self.alter_branches(name, require_partitions(table, "has no branches"))

    @abstractmethod
    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        """Execute the alteration."""


@dataclass(frozen=True, slots=True)
class CreateBranch(_BranchAlteration):
    """ALTER TABLE t CREATE BRANCH name [AS OF point] [RETAIN n DAYS]."""

    forms = ("ALTER TABLE t CREATE BRANCH",)

    table: TableRef
    branch: str
    at: Point | None = None
    retain: float | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Self:
        branch, at = _branch(cursor), read_as_of(cursor)
        return cls(table, branch, at, _read_retain(cursor))

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        with naming(name, self.at):
            table.create_branch(self.branch, self.at, self.retain)


@dataclass(frozen=True, slots=True)
class ReplaceBranch(CreateBranch):
    """ALTER TABLE t REPLACE BRANCH name [AS OF point] [RETAIN n DAYS]: the branch equals the main one, in one commit."""

    forms = ("ALTER TABLE t REPLACE BRANCH",)

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        known = [each.name for each in table.branches]
        if self.branch not in known:
            raise NotFound.named("branch", self.branch, known)
        with naming(name, self.at):
            replace_branch(table, self.branch, self.at, self.retain)


@dataclass(frozen=True, slots=True)
class CreateOrReplaceBranch(ReplaceBranch):
    """ALTER TABLE t CREATE OR REPLACE BRANCH name [AS OF point] [RETAIN n DAYS]."""

    forms = ("ALTER TABLE t CREATE OR REPLACE BRANCH",)

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        is_there = self.branch in {each.name for each in table.branches}
        alter = ReplaceBranch.alter_branches if is_there else CreateBranch.alter_branches
        alter(self, name, table)


@dataclass(frozen=True, slots=True)
class DropBranch(_BranchAlteration):
    """ALTER TABLE t DROP BRANCH name."""

    forms = ("ALTER TABLE t DROP BRANCH",)
    frees_room = True

    table: TableRef
    branch: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropBranch:
        return cls(table, _branch(cursor))

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        table.drop_branch(self.branch)


@dataclass(frozen=True, slots=True)
class PublishBranch(_BranchAlteration):
    """ALTER TABLE t PUBLISH BRANCH name."""

    forms = ("ALTER TABLE t PUBLISH BRANCH",)
    # The partitions that two branches have changed are named.
    needs = (Privilege.SELECT,)

    table: TableRef
    branch: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> PublishBranch:
        return cls(table, _branch(cursor))

    def alter_branches(self, name: TableName, table: PartitionedNamespace) -> None:
        publish(table, self.branch)


def _branch(cursor: Cursor) -> str:
    return cursor.word("the name of a branch")


@dataclass(frozen=True, slots=True)
class SetOptions(HistoryAlteration):
    """ALTER TABLE t SET (compact_files = 8, retain = '7d', …): options of its maintenance policy; DEFAULT takes one back."""

    forms = ("ALTER TABLE t SET",)

    table: TableRef
    options: Mapping[str, PolicyValue | None]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> SetOptions:
        return cls(table, definitions.parse_maintenance_options(read_bracketed_options(cursor)))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        set_policy(table, self.options)


@dataclass(frozen=True, slots=True)
class SetPartitionedBy(HistoryAlteration):
    """ALTER TABLE t SET PARTITIONED BY (fields): a new spec version for what is written from now on.

    Without fields it is written to one partition.
    """

    forms = ("ALTER TABLE t SET PARTITIONED BY",)

    table: TableRef
    fields: tuple[PartitionDef, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> SetPartitionedBy:
        return cls(table, definitions.any_in_brackets(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        require_partitions(table, "cannot become so").evolve(self._evolution)

    def _evolution(self, snapshot: Snapshot) -> Revision | None:
        """Return the next spec version; None if its fields equal those of the current one."""
        spec = partition_spec(snapshot.schema, self.fields, earlier=snapshot.specs)
        return new_spec(snapshot, spec.fields)


@dataclass(frozen=True, slots=True)
class ChangePartitionFields(HistoryAlteration):
    """ALTER TABLE t ADD, DROP or REPLACE PARTITION FIELD field, … [WITH field, …]: a new spec that differs from the current one by these.

    A field that goes is named by its derivation, or by its name.
    """

    forms = (
        "ALTER TABLE t ADD PARTITION FIELD",
        "ALTER TABLE t DROP PARTITION FIELD",
        "ALTER TABLE t REPLACE PARTITION FIELD",
    )

    table: TableRef
    dropped: tuple[PartitionDef, ...] = ()
    added: tuple[PartitionDef, ...] = ()

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> ChangePartitionFields:
        cursor.at -= 3
        if cursor.accept("ADD", "PARTITION", "FIELD"):
            return cls(table, added=definitions.field_list(cursor))
        is_replaced = cursor.accept("REPLACE", "PARTITION", "FIELD")
        if not is_replaced:
            cursor.expect("DROP", "PARTITION", "FIELD")
        dropped = definitions.field_list(cursor)
        if not is_replaced:
            return cls(table, dropped)
        cursor.expect("WITH")
        return cls(table, dropped, definitions.field_list(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        require_partitions(table, "cannot become so").evolve(self._evolution)

    def _evolution(self, snapshot: Snapshot) -> Revision | None:
        fields = changed_fields(snapshot, self.dropped, self.added)
        return new_spec(snapshot, fields)


def new_spec(snapshot: Snapshot, fields: tuple[PartitionField, ...]) -> Revision | None:
    """Return the commit of a spec with these fields; None if the current one has the same."""
    if fields == snapshot.current_spec.fields:
        return None
    spec = PartitionSpec(id=snapshot.current_spec.id + 1, fields=fields)
    spec.check(snapshot.schema, snapshot.specs)
    return Revision(operation=f"partition spec v{spec.id}", specs=(spec,))


@dataclass(frozen=True, slots=True)
class DropPartition(Alteration):
    """ALTER TABLE t DROP PARTITION (field = value, …)."""

    forms = ("ALTER TABLE t DROP PARTITION",)
    frees_room = True
    needs = REMOVING

    table: TableRef
    values: tuple[PartitionValue, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropPartition:
        return cls(table, partition_values(cursor))

    def run(self, changes: Changes) -> int:
        changes.check_alone(NOT_ALTERED)
        return changes.together(partial(drop_partition, table_name(self.table), self.values))


@dataclass(frozen=True, slots=True)
class AttachTable(Alteration):
    """ALTER TABLE t ATTACH TABLE 'path' PARTITION (field = value, …) [TRUSTED]."""

    forms = ("ALTER TABLE t ATTACH TABLE",)
    # The error for an existing partition reveals that it exists.
    needs = (Privilege.INSERT, Privilege.SELECT)

    table: TableRef
    path: str
    values: tuple[PartitionValue, ...]
    trusted: bool = False

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AttachTable:
        path = cursor.text_or_name("the name of a table, or its path")
        cursor.expect("PARTITION")
        values = partition_values(cursor)
        trusted = cursor.accept("TRUSTED")
        return cls(table, path, values, trusted)

    def also(self, name: TableName) -> Iterable[Required]:
        return on(plain_name(self.path), Privilege.DDL, *REMOVING)

    def run(self, changes: Changes) -> int:
        changes.check_alone(NOT_ALTERED)
        name = table_name(self.table)
        _check_lasting(changes.root, name, plain_name(self.path))
        changes.root.table(name).snapshot()
        changes.cancellation.begin_commit()
        return attach_table(changes.root, name, self.path, self.values, trusted=self.trusted)


@dataclass(frozen=True, slots=True)
class DetachPartition(Alteration):
    """ALTER TABLE t DETACH PARTITION (field = value, …) [TO name]."""

    forms = ("ALTER TABLE t DETACH PARTITION",)
    needs = REMOVING

    table: TableRef
    values: tuple[PartitionValue, ...]
    to: str | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DetachPartition:
        values = partition_values(cursor)
        to = cursor.text_or_name("the name of a new table") if cursor.accept("TO") else None
        return cls(table, values, to)

    def also(self, name: TableName) -> Iterable[Required]:
        return () if self.to is None else on(TableName(name.db_schema, self.to), *MAKING)

    def run(self, changes: Changes) -> int:
        changes.check_alone(NOT_ALTERED)
        name = table_name(self.table)
        _check_lasting(changes.root, name)
        changes.root.table(name).snapshot()
        changes.cancellation.begin_commit()
        check_target = partial(changes.access.check_all_rows, Privilege.INSERT)
        return detach_partition(changes.root, name, self.values, self.to, check_target)


def _check_lasting(root: Root, *moved: TableName) -> None:
    """Refuse to move rows between temporary and lasting tables as files."""
    for name in moved:
        if root.is_temporary(name):
            raise Unsupported(f"table {name.name!r} is temporary, and neither gives partitions away nor becomes one")


@dataclass(frozen=True, slots=True)
class Rename(HistoryAlteration):
    """ALTER TABLE t RENAME TO name: another name within its schema."""

    forms = ("ALTER TABLE t RENAME TO",)
    needs = (Privilege.SELECT,)

    table: TableRef
    name: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Rename:
        return cls(table, cursor.name("the new name of the table, without a schema"))

    def also(self, name: TableName) -> Iterable[Required]:
        return on(TableName(name.db_schema, self.name), *MAKING)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        root.rename(name, self.name)


@dataclass(frozen=True, slots=True)
class CreateTag(HistoryAlteration):
    """ALTER TABLE t CREATE TAG name [AS OF point] [RETAIN n DAYS]."""

    forms = ("ALTER TABLE t CREATE TAG",)

    table: TableRef
    tag: str
    at: Point | None = None
    retain: float | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Self:
        tag, at = _tag(cursor), read_as_of(cursor)
        return cls(table, tag, at, _read_retain(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        with naming(name, self.at):
            table.create_tag(self.tag, self.at, self.retain)


@dataclass(frozen=True, slots=True)
class ReplaceTag(CreateTag):
    """ALTER TABLE t REPLACE TAG name [AS OF point] [RETAIN n DAYS]: the name goes to another version in one step."""

    forms = ("ALTER TABLE t REPLACE TAG",)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        known = [each.name for each in table.tags]
        if self.tag not in known:
            raise NotFound.named("tag", self.tag, known)
        with naming(name, self.at):
            table.replace_tag(self.tag, self.at, self.retain)


@dataclass(frozen=True, slots=True)
class CreateOrReplaceTag(ReplaceTag):
    """ALTER TABLE t CREATE OR REPLACE TAG name [AS OF point] [RETAIN n DAYS]."""

    forms = ("ALTER TABLE t CREATE OR REPLACE TAG",)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        is_there = self.tag in {each.name for each in table.tags}
        alter = ReplaceTag.alter if is_there else CreateTag.alter
        alter(self, root, name, table)


@dataclass(frozen=True, slots=True)
class DropTag(HistoryAlteration):
    """ALTER TABLE t DROP TAG name."""

    forms = ("ALTER TABLE t DROP TAG",)
    frees_room = True

    table: TableRef
    tag: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropTag:
        return cls(table, _tag(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        table.drop_tag(self.tag)


@dataclass(frozen=True, slots=True)
class Rollback(HistoryAlteration):
    """ALTER TABLE t ROLLBACK TO point."""

    forms = ("ALTER TABLE t ROLLBACK TO",)

    table: TableRef
    at: Point

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Rollback:
        return cls(table, read_point(cursor))

    def check_columns(self, access: Access, name: TableName) -> None:
        # The columns of a grant are those of the newest schema: an older one may have called others so.
        if access.lists_columns(name):
            access.check_all_columns(name, "ROLLBACK gives columns the names that they had")

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        with naming(name, self.at):
            table.rollback(self.at)


def _tag(cursor: Cursor) -> str:
    return cursor.word("the name of a tag")


_SECONDS = {"DAY": 86400.0, "DAYS": 86400.0, "HOUR": 3600.0, "HOURS": 3600.0, "MINUTE": 60.0, "MINUTES": 60.0}


def _read_retain(cursor: Cursor) -> float | None:
    """Read `[RETAIN n DAYS | HOURS | MINUTES]`, how long a tag or branch is kept, in seconds."""
    if not cursor.accept("RETAIN"):
        return None
    number = cursor.number("a number of days, hours or minutes")
    unit = next((word for word in _SECONDS if cursor.accept(word)), None)
    if unit is None:
        raise cursor.error("DAYS, HOURS or MINUTES")
    seconds = number * _SECONDS[unit]
    if not 0 < seconds <= MOST_RETAINED:
        raise SqlError(f"RETAIN {number} {unit}: expected a minute to {MOST_RETAINED / 86400:,.0f} days")
    return seconds


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """`field = literal`: the text or bytes of the literal, None for NULL."""

    field_id: str
    literal: str | bytes | None


def partition_values(cursor: Cursor) -> tuple[PartitionValue, ...]:
    """Read `(field = value, …)`."""
    cursor.expect("(")
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    cursor.expect(")")
    named = [value.field_id for value in values]
    for name in named:
        if named.count(name) > 1:
            raise SqlError(f"partition field {name!r} is given twice; expected one value for it")
    return tuple(values)


def _value(cursor: Cursor) -> PartitionValue:
    field_id = cursor.name("the id of a partition field")
    if cursor.accept("IS"):
        cursor.expect("NULL")
        return PartitionValue(field_id, None)
    cursor.expect("=")
    return PartitionValue(field_id, _literal(cursor, f"a literal for {field_id!r}"))


def _literal(cursor: Cursor, what: str) -> str | bytes | None:
    if cursor.accept("NULL"):
        return None
    return _bytes(cursor.string(what)) if cursor.accept("X") else cursor.literal(what)


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError as exc:
        raise SqlError(f"X{digits!r} is no binary literal; expected hexadecimal digits, two for each byte") from exc


SCHEMA_AND_TABLE = 2


def drop_partition(name: TableName, given: Sequence[PartitionValue], transaction: SqlTransaction) -> int:
    """Remove the rows of some partition values, with the tables that hold no other rows; return the number of rows."""
    table = require_partitions(transaction.table(name))
    inner = transaction.writing(table)
    edits = drop_rows(table.store, inner.snapshot, values_of(inner.snapshot.current_spec, given), evaluate)
    rows = removed_rows(edits)
    if edits:
        tables = sum(edit.drops for edit in edits)
        inner.add(edits, f"drop {tables} partitions and rewrite {len(edits) - tables}, {rows} rows less")
    return rows


def attach_table(root: Root, name: TableName, path: str, given: Sequence[PartitionValue], *, trusted: bool) -> int:
    """Make a plain table of the root a partition, and return its number of rows; `trusted` skips checking their values."""
    table = require_partitions(root.table(name))
    spec = table.snapshot().current_spec
    root.store.child(path)  # `Corrupt` for a path that leaves the root
    source = plain_name(path)
    plain = root.table(source)
    if not isinstance(plain, PlainTable):
        raise Unsupported(f"table {source.name!r} is partitioned, and no partition of another one")
    attachment = Attachment(
        namespace=table, table=plain, name=source.name, values=_all_values(spec, given), evaluate=evaluate
    )
    rows, version = attachment.commit(trusted=trusted)

    def check_unchanged(store: Store) -> None:
        if int(store.open().version) != version:
            raise Conflict(
                f"table {source.name!r} was written while it was attached: its version {version} is in {name.name!r},"
                " and the table has stayed"
            )

    check_unchanged(plain.store)
    root.drop(source, check=check_unchanged)
    return rows


def detach_partition(
    root: Root,
    name: TableName,
    given: Sequence[PartitionValue],
    to: str | None,
    check_target: Callable[[TableName], None],
) -> int:
    """Make a partition a plain table of the root, remove it from its own table, and return its number of rows.

    The new table is called `to`, or after its values. `check_target` refuses it if the caller may store no rows in it.
    """
    table = require_partitions(root.table(name))
    if table.branch is not None:
        raise Unsupported(f"branch {table.branch.name!r}: partitions can be detached on the main branch only")
    transaction = table.begin()
    snapshot = transaction.snapshot
    spec = _spec_of(snapshot, given)
    values = _all_values(spec, given)
    tables = snapshot.tables_of(spec.id)
    partition_tables = tables.tables(np.flatnonzero(match(tables.values, values) >= 0))
    if len(partition_tables) != 1:
        raise NotFound(
            f"{len(partition_tables)} tables of {name.name!r} are the partition {show_values(values)}; expected one"
        )
    (partition,) = partition_tables
    target = TableName(name.db_schema, to or _default_name(name, values))
    check_target(target)
    if root.has(target):
        raise AlreadyExists(f"table {target.name!r} is there already")
    count = root.create(target, partial(_write_copy, table, snapshot, partition), partitioned=False)
    try:
        detach(table, transaction, partition, target.name)
    except OutcomeUnknown:
        raise
    except BaseException:
        root.drop(target)
        raise
    return count


def _write_copy(table: PartitionedNamespace, snapshot: Snapshot, partition: PartitionTable, place: Store) -> int:
    columns, version = snapshot.schema.plain, str(open_table(table.store, partition).data_storage_version)
    if version not in FILE_VERSIONS or unstorable_in(columns, version):
        version = snapshot.file_version
    rows = detached_rows(table, snapshot, partition)
    return write_plain(place, columns, rows, file_version=version, is_stored=True)


def plain_name(path: str) -> TableName:
    """Parse a path (`schema/x.lance`, `x.lance` or `x`) as the name of a table of the root."""
    parts = PurePosixPath(path).parts
    if not parts or "://" in path or PurePosixPath(path).is_absolute() or ".." in parts:
        raise NotFound(f"{path!r} does not stay inside the root; expected the name of a table of it, or its path")
    if not 0 < len(parts) <= SCHEMA_AND_TABLE:
        raise NotFound(f"no table {path!r}; expected the name of a table of the root, or its path")
    return TableName(PUBLIC if len(parts) == 1 else parts[0], parts[-1].removesuffix(PLAIN_SUFFIX))


def _spec_of(snapshot: Snapshot, given: Sequence[PartitionValue]) -> PartitionSpec:
    """Return the newest spec that has exactly these fields; the current one without any, for whose fields the errors are reported."""
    wanted = {value.field_id for value in given}
    specs = (spec for spec in reversed(snapshot.specs) if {field.field_id for field in spec.fields} == wanted)
    return next(specs, snapshot.current_spec)


def _all_values(spec: PartitionSpec, given: Sequence[PartitionValue]) -> pa.Table:
    """Return the values of one partition; raise `SqlError` that names the missing fields."""
    values = values_of(spec, given)
    missing = [field.field_id for field in spec.fields if field.column not in values.column_names]
    if missing:
        raise SqlError(f"the partition has no value for {', '.join(missing)}; expected one for each field of its spec")
    return values


def _default_name(name: TableName, values: pa.Table) -> str:
    """Derive a table name from the table and the values, in characters that need no quotes in SQL."""
    return re.sub(r"\W", "_", "_".join([name.name, *(display(column[0]) for column in values.columns)])).lower()


def values_of(spec: PartitionSpec, given: Sequence[PartitionValue]) -> pa.Table:
    """Return one row of partition values from a statement's literals, in the order of the spec's fields."""
    fields = {field.field_id: field for field in spec.fields}
    for value in given:
        if value.field_id not in fields:
            raise NotFound.named("partition field", value.field_id, fields)
    literals = {value.field_id: value.literal for value in given}
    return pa.table({f.column: _read(f, literals[f.field_id]) for f in spec.fields if f.field_id in literals})


def _read(field: PartitionField, literal: str | bytes | None) -> pa.Array:
    if literal is None:
        return pa.nulls(1, field.result_type)
    try:
        return cast(pa.array([literal]), field.result_type)
    except SqlError as exc:
        raise SqlError(f"partition field {field.field_id!r} is {field.result_type}, not {literal!r}: {exc}") from exc
