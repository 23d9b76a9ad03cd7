"""Plain Lance tables: read, written and changed as namespaces of one partition, and made in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from lance_flight.catalog.manifests.commit_loop import commit
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import Change
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.branches import BranchRef
from lance_flight.catalog.storage.durability import committing
from lance_flight.catalog.storage.formats import check_values, chosen_version
from lance_flight.catalog.storage.lance_fields import new_schema
from lance_flight.catalog.storage.looks import looks
from lance_flight.catalog.storage.names import VERSIONS
from lance_flight.catalog.storage.retries import conflicts
from lance_flight.catalog.storage.store import Store, shared_session
from lance_flight.catalog.storage.whole_files import sealed
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import rows
from lance_flight.catalog.tables.plain_log import PlainLog, naming_lost_versions
from lance_flight.errors import Conflict, NotFound
from lance_flight.faults import failpoint
from lance_flight.model.naming import MANIFEST, PLAIN_SUFFIX


class PlainTable(Table):
    """A Lance table that is not partitioned: its own versions are its snapshots, and each commit to it is one of Lance's.

    It is read and written as a namespace of one partition (`plain_log.py`).
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
        old = self.open(self.snapshot(at).version)
        if int(old.version) != int(old.latest_version):
            said = f"another writer changed table {self.store.name!r} first"
            with committing(self.store.uri, int(old.latest_version)), conflicts(said):
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
                LanceOperation.Overwrite(new_schema(schema), sealed(place.uri, files)),
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
                yield from map(rows.aligned, stored.to_batches())
        except Exception as exc:
            self.error = exc
            raise
