"""The `__manifest` Lance table: its columns, one snapshot read wherever its writer has put specs and schema, one commit.

Spec: Manifest Table Schema, Metadata Definition, Transaction; decisions 1, 2, 3 and 14.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from itertools import count
from pathlib import Path
from types import MappingProxyType

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, Transaction

from lance_flight.catalog.manifests.manifest_rows import (
    PENDING,
    Rewrite,
    guard_row,
    note_values,
    pending_values,
    version_rows,
    with_note,
    write_retyped,
)
from lance_flight.catalog.manifests.references import replacement_of
from lance_flight.catalog.manifests.snapshot import SCHEMA_KEY, Snapshot, check_in_place, read_misplaced
from lance_flight.catalog.manifests.version_log import Revision, VersionLog, require_snapshot, said_of
from lance_flight.catalog.storage.durability import committing, hold_place
from lance_flight.catalog.storage.formats import check_table
from lance_flight.catalog.storage.lance_columns import Layout, numbers, write_file
from lance_flight.catalog.storage.retries import ANSWER, conflicts, looks, was_sent_once
from lance_flight.catalog.storage.store import UNREADABLE, BranchRef, Store, unreadable
from lance_flight.catalog.storage.table_versions import LocationGuard, kept_tables
from lance_flight.catalog.storage.whole_files import BRANCHES, ROW_ADDRESS, VERSIONS, is_version_name
from lance_flight.errors import (
    Conflict,
    Corrupt,
    InvalidInput,
    LanceFlightError,
    NotFound,
    OutcomeUnknown,
    SerializationFailure,
)
from lance_flight.faults import failpoint
from lance_flight.model.arrow_types import is_string
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import MANIFEST, PLAIN_SUFFIX, is_table_directory, spec_namespace
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import SPEC_KEY, PartitionSpec, check_any_spec, specs_from_metadata

FENCE_KEY = "lance.namespace.manifest.writer_feature_flags"
FENCE = str(1 << 62)
"""A writer feature that no stock writer knows: it refuses instead of dropping our columns (decision 3)."""

PIN_FIELDS = (
    pa.field("read_version", pa.uint64()),
    pa.field("read_branch", pa.utf8()),
    pa.field("read_tag", pa.utf8()),
)

BASE_FIELDS = (
    pa.field("object_id", pa.utf8(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}),
    pa.field("object_type", pa.utf8(), nullable=False),
    pa.field("location", pa.utf8()),
    pa.field("metadata", pa.utf8()),
    pa.field("base_objects", pa.list_(pa.field("object_id", pa.utf8()))),
)
_INDICES = (("object_id", "BTREE"), ("object_type", "BITMAP"), ("base_objects", "LABEL_LIST"))


UNSEEN = frozenset({"data", "_deletions", "_transactions"})
"""Directories of a Lance table whose files are written before the version that refers to them."""


def partition_columns(specs: Iterable[PartitionSpec]) -> dict[str, pa.Field]:
    """Return the columns of `__manifest` for the fields of specs, by name."""
    return {field.column: pa.field(field.column, field.result_type) for spec in specs for field in spec.fields}


def manifest_schema(specs: Iterable[PartitionSpec]) -> pa.Schema:
    """Return the columns of `__manifest` for these specs, in order (decision 2)."""
    return pa.schema([*BASE_FIELDS, *PIN_FIELDS, *partition_columns(specs).values()])


def revised_rows(base: Snapshot, revision: Revision) -> pa.Table:
    """Return the rows of `__manifest` that a revision changes, in the columns that it gives them.

    Its metadata is noted in the guard row (`manifest_rows.py`): rows and table metadata are two operations of Lance.
    """
    schema, head, rows = base.rows.schema, guard_row(base), revision.rows
    changed = [schema.empty_table()]
    if rows is not None and (revision.metadata or revision.notes):
        is_head = pc.equal(rows["object_id"], head["object_id"][0])
        # It remembers a commit that is made once.
        head = pa.concat_tables([rows.filter(is_head), head]).slice(0, 1)
        rows = rows.filter(pc.invert(is_head))
    for key, note in revision.notes.items():
        head = with_note(head, key, note)
    if revision.metadata:
        head = note_values(head, base.metadata, revision.metadata)
    if revision.metadata or revision.notes:
        changed.append(head)
    new = [spec for spec in revision.specs if not base.row(spec_namespace(spec.id)).num_rows]
    if new:
        changed.append(version_rows(new, schema))
    if rows is not None:
        changed.append(rows)
    columns = partition_columns(revision.specs)
    types = schema
    if columns:
        types = pa.schema([field.with_type(columns.get(field.name, field).type) for field in schema], schema.metadata)
    is_there = [row.schema.equals(types, check_metadata=True) for row in changed]
    return pa.concat_tables([row if same else row.cast(types) for row, same in zip(changed, is_there, strict=True)])


def create_table(store: Store, schema: pa.Schema) -> LanceDataset:
    """Create an empty `__manifest` with its three indices.

    A concurrent creation wins or loses as a whole.
    """
    try:
        dataset = lance.write_dataset(
            schema.empty_table(),
            store.uri,
            mode="create",
            storage_options=store.options or None,
            enable_v2_manifest_paths=True,
        )
    except OSError as exc:
        if "already exists" not in str(exc):
            raise
        raise Conflict(f"{store.parent.name!r} is a namespace already") from exc
    finally:
        looks.replace(store.uri)
    for column, kind in _INDICES:
        dataset.create_scalar_index(column, kind)
    return dataset


def has_lost_manifest(place: Store) -> bool:
    """Return whether partition tables lie in a directory without a version of a `__manifest`.

    False in object stores, where it looks like that while a table is dropped.
    """
    if place.is_remote or not place.exists() or any(map(is_version_name, place.child(MANIFEST, VERSIONS).files())):
        return False
    return any(is_table_directory(name) and place.child(name).has(VERSIONS) for name in place.directories())


def is_left_over(place: Store) -> bool:
    """Return whether a directory holds nothing but files of writes into a table that was dropped meanwhile: no version refers to them.

    No commit can show them either: it finds the table gone, or another one in its place.
    """
    names = [] if place.is_link else place.directories()
    tables = [place] if place.name.endswith(PLAIN_SUFFIX) else [place.child(name) for name in names]
    return (
        bool(names)
        and (tables == [place] or (all(map(is_table_directory, names)) and not place.files()))
        and all(UNSEEN.issuperset(table.directories()) and not table.files() for table in tables)
    )


def remove_left_over(place: Store) -> None:
    """Remove a local directory that `is_left_over`, and nothing of a table that another process moves there meanwhile."""
    listed = list(os.walk(place.uri))
    if not is_left_over(place):
        return
    for directory, _, names in reversed(listed):
        for name in names:
            Path(directory, name).unlink(missing_ok=True)
        with suppress(OSError):
            Path(directory).rmdir()


class Manifest(VersionLog):
    """One branch of a `__manifest`: the newest snapshots in memory, and the way to commit to it. Safe to share among threads."""

    def __init__(self, store: Store, branch: BranchRef | None = None) -> None:
        place = store if branch is None else store.child(BRANCHES, branch.name)
        super().__init__(store.parent, store, place, None if branch is None else branch.table_branch)
        self._branch = branch

    def parse(self, dataset: LanceDataset) -> Snapshot | NotFound:
        self.place.check_files(dataset)
        snapshot = read_snapshot(dataset, self.root, self.table_branch)
        if snapshot is None:
            return NotFound(f"{self.root.name!r} is not a partitioned namespace: its metadata has no {SPEC_KEY}<N>")
        replacement = None if self._branch is None else replacement_of(snapshot)
        if self._branch is None or replacement is None:
            return snapshot
        return replace(snapshot, table_branch=replacement.table_branch(self._branch.name))

    def is_namespace(self) -> bool:
        """Return whether a partitioned namespace lies here, be it a broken one; nothing is read where the newest version is in memory."""
        file = self._newest.head()
        known = None if file is None else self._snapshots.get(file)
        if known is not None:
            return isinstance(known, Snapshot)
        try:
            self.snapshot()
        except NotFound:
            return False
        except (LanceFlightError, OSError):
            return True
        return True

    def open(self, version: int | None = None) -> LanceDataset:
        try:
            return super().open(version)
        except Corrupt as exc:
            raise Corrupt(f"namespace {self.root.name!r}: {exc}") from exc
        except NotFound as exc:
            if version is not None or not has_lost_manifest(self.root):
                raise
            raise Corrupt(
                f"namespace {self.root.name!r} has partition tables, and its {MANIFEST} is lost; expected a restore from a backup, or"
                " lance-flight repair --partition-by"
            ) from exc

    def _open_to_commit(self, base: Snapshot) -> LanceDataset:
        """Return the version of a snapshot for what leaves the dataset itself as it is.

        In an object store it is not read where this process has just committed it.
        """
        try:
            return kept_tables.open_to_commit(self.place, base.version, base.committed_at)
        except Corrupt as exc:
            raise Corrupt(f"namespace {self.root.name!r}: {exc}") from exc
        except NotFound as exc:
            raise SerializationFailure(f"table {self.root.name!r} was dropped by another writer") from exc

    def commit(
        self,
        base: Snapshot,
        rows: pa.Table,
        operation: str,
        transactions: Sequence[str] = (),
        *,
        removed: Sequence[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> Snapshot:
        """Put `rows` in place of those with the same object id, or beside them: the commit point (decision 14).

        The rows of the objects `removed` go; `properties` are said of the new version beside what it did, and
        `transactions` are remembered with it. Where `rows` have columns of other types than `base` they give them to the table.

        Made from `base`, without retries: every commit writes the guard row back, so if anyone has committed rows since,
        this one fails with `Conflict` and nothing is visible.
        """
        check_in_place(self.root.name, base.misplaced)
        dataset = self._open_to_commit(base)
        standing = LocationGuard.of(self.place, base.version, base.committed_at)
        head = guard_row(base)
        changes_head = head["object_id"][0].as_py() in rows["object_id"].to_pylist()
        rewrite = Rewrite.of(base, rows if changes_head else pa.concat_tables([head.cast(rows.schema), rows]), removed)
        if rewrite.is_retyped:
            update = write_retyped(self.place, dataset, rewrite.rows)
        else:
            layout = Layout.of(rewrite.rows.schema, str(dataset.data_storage_version))
            layout = layout.with_field_numbers(numbers(dataset.lance_schema))
            written = write_file(self.place, layout, rewrite.rows)
            update = rewrite.operation(dataset, self.place.uri, written)
        failpoint("manifest_written")
        noted = {**said_of(operation, transactions), **properties}
        transaction = Transaction(base.version, update, transaction_properties=noted)
        with committing(self.place.uri, base.version), conflicts(f"another writer changed {self.root.name!r} first"):
            committed = LanceDataset.commit(
                dataset, transaction, max_retries=0, storage_options=self.store.options or None
            )
        standing.check(self.root.name, int(committed.version), transaction.uuid)
        if int(committed.version) != base.version + 1 or changes_head or rewrite.is_retyped:
            # Columns or metadata are others than those of the base: they have to be read.
            return self.snapshot(int(committed.version))
        kept_tables.keep(self.place, committed)
        snapshot = self._read(committed, rewrite.apply(base, committed))
        file = self._newest.file(int(committed.version))
        if file is not None:
            self._snapshots.put(file, snapshot)
        return require_snapshot(snapshot)

    def make_visible(self, base: Snapshot, revision: Revision, mark: str) -> int | None:
        if revision.stated:
            self.update_metadata(base, revision.stated)
            return self.snapshot().version
        if self._add_columns(base, revision.specs) or (base.pending and revision.metadata):
            # The guard row has room for one note of metadata.
            return None
        return self._send(base, revision, revision.transactions or (mark,))

    def _send(self, base: Snapshot, revision: Revision, transactions: Sequence[str]) -> int | None:
        """Commit, and return the version in which it is visible, whatever answer came; None where another one was first.

        One whose request broke is sent again: whichever arrives first makes the version after `base`, and no other one can.
        `OutcomeUnknown` where it cannot be known: an object store did not answer, or cannot be asked.
        """
        place, rows = self.root, revised_rows(base, revision)
        for attempt in count():
            try:
                made = self.commit(
                    base,
                    rows,
                    revision.operation,
                    transactions,
                    removed=revision.removed,
                    properties=revision.properties,
                )
                failpoint("committed")
            except (SerializationFailure, OutcomeUnknown):
                raise
            except Conflict:
                return self.note_commit(base, transactions[0])
            except BaseException as exc:
                # Whatever went wrong, the table says whether it did so before or after the commit.
                committed = self.note_commit(base, transactions[0])
                if committed is not None:
                    return committed
                if not place.is_remote or not isinstance(exc, OSError):
                    raise
                if not was_sent_once(exc) or attempt + 1 == ANSWER.attempts:
                    raise OutcomeUnknown(
                        f"a commit to {place.name!r} was sent and not answered: {place.words(exc)}"
                    ) from exc
                ANSWER.pause(attempt)
            else:
                return made.version
        raise AssertionError("attempts end with an error")

    def follow(self, snapshot: Snapshot) -> None:
        if snapshot.pending:
            with suppress(Conflict):
                self.update_metadata(snapshot, snapshot.pending)

    def _add_columns(self, base: Snapshot, specs: Sequence[PartitionSpec]) -> bool:
        """Add the columns that specs have and the table has not yet, and return whether there were any."""
        known = base.rows.column_names
        missing = [column for name, column in partition_columns(specs).items() if name not in known]
        if missing:
            # What is missing still shows in the next snapshot.
            with suppress(Conflict):
                self.add_columns(base, missing)
                failpoint("columns_added")
        return bool(missing)

    def add_columns(self, base: Snapshot, fields: Iterable[pa.Field]) -> None:
        """Add nullable columns, harmless to every reader; raise `Conflict` if another writer has committed since `base`."""
        conflict = f"another writer changed {self.root.name!r} first"
        with committing(self.place.uri, base.version), hold_place(self.store.uri), conflicts(conflict):
            self.open_same(base).add_columns(pa.schema(list(fields)))


def read_snapshot(dataset: LanceDataset, place: Store, table_branch: str | None = None) -> Snapshot | None:
    """Parse one version of the `__manifest` at `place`; None where it is no partitioned namespace.

    `Corrupt` where it is broken, `NewerFormat` where only newer releases read it.
    """
    name = place.name
    # Before its rows, which may mean something else in a newer one; the next line of a commit may say so as well.
    stated = dataset.metadata
    check_table(stated, place)
    rows, addresses = _rows(dataset, place)
    try:
        waiting = _pending_note(rows, stated)
        metadata = {**stated, **waiting}
        check_table(metadata, place)
        elsewhere = read_misplaced(metadata, dataset.schema, rows)
        texts = {prop.key: prop.text for prop in elsewhere} | metadata
        if not any(key.startswith(SPEC_KEY) for key in texts):
            return None
        check_any_spec(texts)
        _check_columns(name, rows.schema)
        if SCHEMA_KEY not in texts:
            raise Corrupt(f"namespace {name!r} has partition specs and no {SCHEMA_KEY!r} in its metadata")
        specs = [spec.with_stored_types(rows.schema) for spec in specs_from_metadata(texts)]
        schema = NamespaceSchema.from_json(read_json(texts[SCHEMA_KEY]))
    except (InvalidInput, ValueError) as exc:
        raise Corrupt(f"namespace {name!r} has metadata that cannot be read: {exc}") from exc
    _check_fields(name, specs, rows.column_names)
    return Snapshot(
        version=int(dataset.version),
        committed_at=dataset.get_version()["timestamp"].astimezone(UTC),
        rows=rows.combine_chunks(),
        metadata=metadata,
        specs=tuple(specs),
        schema=schema,
        addresses=addresses,
        table_branch=table_branch,
        pending=waiting,
        misplaced=elsewhere,
    )


def _rows(dataset: LanceDataset, place: Store) -> tuple[pa.Table, np.ndarray]:
    """Return all rows, and where each of them lies."""
    try:
        addressed = dataset.scanner(with_row_address=True).to_table()
    except UNREADABLE as exc:
        raise unreadable(
            exc, f"namespace {place.name!r} has a __manifest that cannot be read: {place.words(exc)}"
        ) from exc
    return addressed.drop_columns([ROW_ADDRESS]), addressed[ROW_ADDRESS].to_numpy()


def _pending_note(rows: pa.Table, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what the guard row says of the metadata, whichever of the `v<N>` rows it is."""
    if "metadata" not in rows.column_names or not is_string(rows.schema.field("metadata").type):
        return {}
    heads = rows.filter(pc.match_substring(rows["metadata"], PENDING))
    return pending_values(heads.slice(0, 1), metadata)


def _check_columns(name: str, schema: pa.Schema) -> None:
    """Raise `Corrupt` unless the columns that list the tables and their locations are there as text."""
    for column in ("object_id", "object_type", "location"):
        if column not in schema.names:
            raise Corrupt(f"namespace {name!r} has a __manifest without the column {column!r}")
        if not is_string(schema.field(column).type):
            raise Corrupt(
                f"namespace {name!r} has a __manifest whose column {column!r} is {schema.field(column).type}, not text"
            )


def _check_fields(name: str, specs: Sequence[PartitionSpec], columns: Sequence[str]) -> None:
    """Raise `Corrupt` unless every field of every spec has its column."""
    missing = [f.column for spec in specs for f in spec.fields if f.column not in columns]
    if missing:
        raise Corrupt(
            f"namespace {name!r} lost the columns {', '.join(missing)} of its __manifest (a writer that knows no"
            " partitions?); `lance-flight repair` restores them from an older version"
        )
