"""Plain Lance tables: read, written and changed as namespaces of one partition, and made in one commit.

The table is the one partition of a spec without fields. Nothing of this is stored. A version that is staged on a plain table is
visible at once, so that nothing is left to do for the commit after it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from lance_flight.catalog.manifests.manifest import manifest_schema
from lance_flight.catalog.manifests.manifest_rows import NOTES, guard_row, notes_text, with_note
from lance_flight.catalog.manifests.snapshot import FILE_VERSION, NAMESPACE_KEY, SCHEMA_KEY, STABLE_ROW_IDS, Snapshot
from lance_flight.catalog.manifests.version_log import OPERATION, Change, Revision, VersionLog, commit, transactions_of
from lance_flight.catalog.storage.durability import committing, hold_place
from lance_flight.catalog.storage.formats import PLAIN_TABLE, check_table, check_values, chosen_version
from lance_flight.catalog.storage.lance_columns import new_schema, numbered_columns
from lance_flight.catalog.storage.retries import conflicts, looks
from lance_flight.catalog.storage.store import HERE, UNREADABLE, BranchRef, Store, shared_session, unreadable
from lance_flight.catalog.storage.table_versions import kept_tables
from lance_flight.catalog.storage.whole_files import VERSIONS, is_version_name, seal_fragments
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables import rows
from lance_flight.catalog.tables.indices import INDICES_NOTE, IndexDefinition, definitions
from lance_flight.errors import Conflict, Corrupt, LanceFlightError, NotFound
from lance_flight.faults import failpoint
from lance_flight.model.arrow_types import align_buffers
from lance_flight.model.file_versions import FILE_VERSIONS
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import MANIFEST, PLAIN_SUFFIX, SEPARATOR, TABLE, spec_namespace
from lance_flight.model.schema import NamespaceSchema, descriptions_of, table_field_id, with_field_ids
from lance_flight.model.spec import PartitionSpec

UNPARTITIONED = PartitionSpec(id=1, fields=())
"""The spec that every plain table has."""
OBJECT_ID = SEPARATOR.join([spec_namespace(UNPARTITIONED.id), TABLE])
"""The object id of a plain table as its own partition."""

_ROWS = manifest_schema([UNPARTITIONED])


TRANSACTIONS, _MAKING = "_transactions", "0-"
"""Directory of what each commit did, and the beginning of the file of the one that made the table: the version that it read."""
_MADE_WITHIN = 60.0
"""Seconds within which a table has a version, once its transaction is written."""


def has_lost_versions(place: Store) -> bool:
    """Return whether a plain table lies in a directory without a version: the transaction that made it is there.

    False where a table may be made at this moment, or was dropped under its writers, which have not made it.
    """
    if any(map(is_version_name, place.child(VERSIONS).files())):
        return False
    files = list(place.child(TRANSACTIONS).tree())
    if not any(file.path.startswith(_MAKING) for file in files):
        return False
    return len(files) > 1 or time.time() - files[0].modified > _MADE_WITHIN


@contextmanager
def naming_lost_versions(place: Store) -> Iterator[None]:
    """Raise `Corrupt` for a plain table that is not found since its versions are lost."""
    try:
        yield
    except NotFound as exc:
        if has_lost_versions(place):
            raise Corrupt(
                f"table {place.name!r} has files, and its _versions are lost; expected a restore from a backup, or DROP TABLE"
            ) from exc
        raise


class PlainLog(VersionLog):
    """The history of a plain table."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, store)

    def open(self, version: int | None = None) -> LanceDataset:
        # In an object store it takes requests to look, and commits ask for versions that nobody has made yet.
        is_looked_for = version is None or not self.root.is_remote
        with naming_lost_versions(self.root) if is_looked_for else nullcontext():
            return super().open(version)

    def parse(self, dataset: LanceDataset) -> Snapshot | NotFound:
        check_table(dataset.metadata, self.root, PLAIN_TABLE)
        try:
            return plain_snapshot(dataset)
        except UNREADABLE as exc:
            # Its transaction is read from a file, which is gone when another table has taken this one's place.
            raise unreadable(
                exc, f"table {self.root.name!r} has a version that cannot be read: {self.root.words(exc)}"
            ) from exc

    def operations(self, after: int = 0, until: int | None = None) -> dict[int, str]:
        """Return the operation of each version: as its writer recorded it, or else the name of Lance's operation."""
        return {
            version: (done.transaction_properties or {}).get(OPERATION) or _name_of(done.operation)
            for version, done in transactions_of(self.open(until), after)
        }

    def rows_at(self, version: int) -> pa.Table:
        return self.snapshot(version).rows

    def make_visible(self, base: Snapshot, revision: Revision, mark: str) -> int | None:
        # What was staged is visible; rows say which version that is, if anything was. One without a version is the guard row.
        pins = [] if revision.rows is None else revision.rows["read_version"].to_pylist()
        visible: int = max([base.version, *(version for version in pins if version is not None)])
        if None in pins:
            # It is committed, whatever comes of this: the next writer finds what is still missing.
            with suppress(LanceFlightError, *UNREADABLE):
                self.follow(self.snapshot(visible))
        if not revision.notes:
            return visible
        newest = self.snapshot()
        head = guard_row(newest)
        for key, note in revision.notes.items():
            head = with_note(head, key, note)
        self.update_metadata(newest, {NOTES: notes_text(head)})
        return self.snapshot().version

    def open_known(self, version: int) -> LanceDataset:
        return kept_tables.open_to_commit(self.store, version)

    def follow(self, snapshot: Snapshot) -> None:
        # The properties of its commit: later versions have them, too.
        if snapshot.pending:
            self.update_metadata(snapshot, snapshot.pending)


def plain_snapshot(dataset: LanceDataset) -> Snapshot:
    """Return a version of a plain table as a snapshot of one partition."""
    columns = numbered_columns(dataset)
    described = descriptions_of(dataset.schema) or None
    arrow = pa.schema([with_field_ids(field, table_field_id) for field in columns], described)
    version = dataset.get_version()
    metadata = {NAMESPACE_KEY: "", SCHEMA_KEY: arrow.to_string(show_field_metadata=True)}
    if dataset.has_stable_row_ids:
        metadata[STABLE_ROW_IDS] = str(True)
    if dataset.data_storage_version in FILE_VERSIONS:
        metadata[FILE_VERSION] = str(dataset.data_storage_version)
    done = dataset.read_transaction(int(dataset.version))
    properties = {} if done is None else done.transaction_properties or {}
    pending = {NOTES: properties[NOTES]} if NOTES in properties else {}
    return Snapshot(
        version=int(dataset.version),
        committed_at=version["timestamp"].astimezone(UTC),
        rows=_rows(int(dataset.version), _notes(dataset, pending.get(NOTES) or dataset.metadata.get(NOTES, "{}"))),
        pending=pending,
        metadata=metadata,
        specs=(UNPARTITIONED,),
        schema=NamespaceSchema(arrow, int(dataset.max_field_id) + 1, is_numbered_by_lance=True),
        is_partitioned=False,
    )


def _notes(dataset: LanceDataset, noted: str) -> str:
    """Return what is noted of a table, with the definitions of the indices that another writer has made."""
    notes = read_json(noted)
    if not dataset.has_index:
        return noted
    notes = notes if isinstance(notes, dict) else {}
    listed = notes.get(INDICES_NOTE)
    ours = listed if isinstance(listed, list) else []
    known = {IndexDefinition.from_json(entry).name for entry in ours}
    others = [definition.to_json() for definition in definitions(dataset) if definition.name not in known]
    return json.dumps(notes | {INDICES_NOTE: [*ours, *others]}) if others else noted


def _name_of(operation: LanceOperation.BaseOperation) -> str:
    """Return the name of an operation that another writer has committed.

    >>> _name_of(LanceOperation.CreateIndex([], [])), _name_of(LanceOperation.Append([]))
    ('create index', 'append')
    """
    if isinstance(operation, LanceOperation.Rewrite):
        return "compact by another writer"
    return re.sub("(?<!^)([A-Z])", r" \1", type(operation).__name__).lower()


def _rows(version: int, notes: str) -> pa.Table:
    head = {"object_id": spec_namespace(UNPARTITIONED.id), "object_type": "namespace", "metadata": notes}
    table = {"object_id": OBJECT_ID, "object_type": "table", "location": HERE, "read_version": version}
    return pa.Table.from_pylist([head, table], schema=_ROWS)


class PlainTable(Table):
    """A Lance table that is not partitioned: its own versions are its snapshots, and each commit to it is one of Lance's.

    It is read and written as a namespace of one partition (`PlainLog`).
    """

    is_partitioned = False

    def __init__(self, store: Store) -> None:
        self.log: PlainLog
        super().__init__(store, PlainLog(store))

    @property
    def name(self) -> str:
        return self.store.name.removesuffix(PLAIN_SUFFIX)

    def open(self, version: int | str | None = None) -> LanceDataset:
        """Return the Lance table itself, at a version, at a tag, or at its newest version."""
        with naming_lost_versions(self.store):
            return self.store.open(version)

    def rollback(self, at: int | str | datetime) -> int:
        snapshot = self.snapshot(at)
        newest = int(self.open().version)
        if snapshot.version == newest:
            return newest
        conflict = f"another writer changed table {self.store.name!r} first"
        with committing(self.store.uri, newest), hold_place(self.store.uri), conflicts(conflict):
            old = self.log.open_same(snapshot)
            old.restore()
        return int(old.version)

    def evolve(self, change: Change) -> int:
        return commit(self.log, change, self.snapshot)

    @property
    def branches(self) -> list[BranchRef]:
        return []

    def on_branch(self, name: str) -> Table:
        raise NotFound.named("branch", name, [])

    def _writable(self) -> Snapshot:
        self.log.follow(self.snapshot())
        return self.snapshot()


def table_at(place: Store) -> Table:
    """Return the table that lies at a place, partitioned or plain."""
    return PartitionedNamespace(place) if place.has(MANIFEST) else PlainTable(place)


def write_plain(
    place: Store,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    *,
    stable_row_ids: bool = False,
    file_version: str | None = None,
    is_stored: bool = False,
) -> int:
    """Write rows as a new plain Lance table and return how many they were; they keep their ids if `stable_row_ids`.

    Its data files are of `file_version` (None: the newest that holds the columns). Rows that are stored already, elsewhere, are moved as they are.
    """
    stream = _Stream(place, schema, tables, chosen_version(file_version, schema), is_stored=is_stored)
    options = place.options or None
    try:
        # Its files have their names before the version that refers to them.
        files = write_fragments(
            stream.reader(),
            place.uri,
            schema=schema,
            mode="create",
            data_storage_version=stream.version,
            enable_stable_row_ids=stable_row_ids,
            storage_options=options,
            session=shared_session(),
        )
        if files:
            LanceDataset.commit(
                place.uri,
                LanceOperation.Overwrite(new_schema(schema), seal_fragments(place.uri, files)),
                storage_options=options,
                enable_v2_manifest_paths=True,
                enable_stable_row_ids=stable_row_ids,
                max_retries=0,
            )
        else:
            lance.write_dataset(
                schema.empty_table(),
                place.uri,
                mode="create",
                storage_options=options,
                enable_v2_manifest_paths=True,
                enable_stable_row_ids=stable_row_ids,
                data_storage_version=stream.version,
                session=shared_session(),
            )
        looks.replace(place.uri)
    except OSError as exc:
        if stream.error is not None:
            raise stream.error from None
        # Of two that make a table Lance looks for the version before the other's.
        if "conflict" in str(exc).lower() or f"{VERSIONS}/0.manifest" in str(exc):
            raise Conflict(f"another writer changed {place.name!r} first") from exc
        raise
    return stream.rows


class _Stream:
    """Tables on their way into Lance: conformed, counted, and the error that ended them kept (Lance rewraps it)."""

    def __init__(
        self, place: Store, schema: pa.Schema, tables: Iterable[pa.Table], version: str, *, is_stored: bool = False
    ) -> None:
        self.rows = 0
        self.version = version
        self.error: Exception | None = None
        self._schema = schema
        self._tables = tables
        self._check = partial(check_values, version=version, what=f"table {place.name!r}")
        self._is_stored = is_stored

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for table in rows.in_parts(self._tables, self._schema):
                failpoint("rows_received")
                self.rows += table.num_rows
                stored = rows.conform(table, self._schema, is_stored=self._is_stored)
                self._check(stored)
                yield from map(align_buffers, stored.to_batches())
        except Exception as exc:
            self.error = exc
            raise
