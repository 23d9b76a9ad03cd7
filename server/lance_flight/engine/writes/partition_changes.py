"""Execution of ALTER TABLE over whole partitions, which statements name by their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa

from lance_flight.catalog.commits.removals import drop_rows
from lance_flight.catalog.commits.transaction import removed_rows
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.roots.attachments import Attachment, detach, detached_rows, show_values
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.formats import unstorable_in
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace, display, require_partitions
from lance_flight.catalog.tables.partitions import open_table
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.translation.evaluation import cast, evaluate
from lance_flight.errors import AlreadyExists, Conflict, NotFound, OutcomeUnknown, SqlError, Unsupported
from lance_flight.model.file_versions import FILE_VERSIONS
from lance_flight.model.grouping import match
from lance_flight.model.naming import PLAIN_SUFFIX
from lance_flight.model.spec import PartitionField, PartitionSpec


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
