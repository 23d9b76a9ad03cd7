"""A partitioned namespace: created, opened, described, written to.

Spec: Metadata Definition, Physical Layout, Runtime Namespace Properties; decisions 3, 4 and 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.commits.commit import Commits
from lance_flight.catalog.commits.staging import namespace_key, pinned_rows
from lance_flight.catalog.commits.table_updates import TableUpdate
from lance_flight.catalog.commits.transaction import Transaction
from lance_flight.catalog.commits.writer import PartitionWriter
from lance_flight.catalog.manifests.branch_publishing import publish
from lance_flight.catalog.manifests.evolution import Change, Evolutions, namespace_metadata, schema_text
from lance_flight.catalog.manifests.manifest import (
    FENCE,
    FENCE_KEY,
    PIN_FIELDS,
    Manifest,
    create_table,
    manifest_schema,
)
from lance_flight.catalog.manifests.new_partitions import version_rows
from lance_flight.catalog.manifests.properties import (
    DERIVED_VALUES,
    FILE_VERSION,
    NAMESPACE_KEY,
    SCHEMA_KEY,
    STABLE_ROW_IDS,
    check_in_place,
)
from lance_flight.catalog.manifests.rollback import back_to
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.branches import BranchRef, branches_of, create_branch, drop_branch
from lance_flight.catalog.storage.leases import SnapshotLease, leases
from lance_flight.catalog.storage.retries import ADOPT, retry
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.tags import TagRef, create_tag, drop_tag, tags_of
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.lineage import NumberOf, conform
from lance_flight.errors import Conflict, NotFound, OutcomeUnknown, SerializationFailure, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.naming import MANIFEST, new_key, object_id, spec_id_of
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, PartitionSpec


class PartitionedNamespace:
    """One partitioned namespace at one place. Safe to share among threads.

    >>> namespace = PartitionedNamespace.open(Store("/data/events"))            # doctest: +SKIP
    >>> namespace.snapshot().table_count                                        # doctest: +SKIP
    1200
    """

    def __init__(self, store: Store, branch: BranchRef | None = None) -> None:
        self.store = store
        self.branch = branch
        self.manifest = Manifest(store.child(MANIFEST), branch)
        self.commits = Commits(self.manifest)
        self._branches: dict[BranchRef, PartitionedNamespace] = {}

    @classmethod
    def open(cls, store: Store) -> PartitionedNamespace:
        """The namespace at `store`; `NotFound` where there is none, `Corrupt` where it is broken."""
        namespace = cls(store)
        namespace.manifest.snapshot()
        return namespace

    @classmethod
    def create(
        cls,
        store: Store,
        schema: NamespaceSchema,
        spec: PartitionSpec,
        *,
        fence: bool = True,
        stable_row_ids: bool = False,
        file_version: str | None = None,
    ) -> PartitionedNamespace:
        """An empty namespace with one spec version; its rows keep their ids where `stable_row_ids` says so.

        Its data files are of `file_version` (None: the newest).

        It exists from the moment its metadata is set, in one commit, the last; what is there before that is not a
        partitioned namespace to anybody. `fence` keeps stock writers from destroying its columns.
        """
        spec.check(schema)
        columns = manifest_schema([spec])
        dataset = create_table(store.child(MANIFEST), columns)
        dataset.merge_insert("object_id").when_not_matched_insert_all().execute(version_rows([spec], columns))
        failpoint("manifest_made")
        metadata = {**namespace_metadata(spec, schema), **_new_properties()}
        chosen = {STABLE_ROW_IDS: str(True)} if stable_row_ids else {}
        chosen |= {FILE_VERSION: file_version} if file_version is not None else {}
        dataset.update_metadata(metadata | chosen | ({FENCE_KEY: FENCE} if fence else {}))
        return cls.open(store)

    def snapshot(self, at: int | str | datetime | None = None) -> Snapshot:
        """The newest snapshot, or the one with a version, a tag, or the newest one as old as a moment."""
        match at:
            case str(name):
                return self._tagged(name)
            case datetime():
                return self.manifest.snapshot(self.manifest.version_at(at))
            case _:
                return self.manifest.snapshot(at)

    def rollback(self, at: int | str | datetime) -> int:
        """Make the newest snapshot equal to an old one, in one commit, and return its version."""
        old = self.snapshot(at)
        with self.hold(old, is_newest=False):
            return Evolutions(self.manifest, self._writable).commit(back_to(old))

    @property
    def place(self) -> str:
        """What tells a branch of a namespace from all others of one root."""
        return (
            self.store.uri if self.branch is None else f"{self.store.uri}@{self.branch.name}-{self.branch.identifier}"
        )

    @property
    def tags(self) -> list[TagRef]:
        """The names that snapshots have."""
        return tags_of(self._main())

    def create_tag(self, name: str, at: int | str | datetime | None = None) -> None:
        """Name a snapshot (None: the newest one), so that `snapshot(name)` finds it."""
        self._refuse_on_branch("be given tags")
        snapshot = self.snapshot(at)
        with self.hold(snapshot, is_newest=at is None):
            create_tag(self._main(), name, snapshot.version)

    def drop_tag(self, name: str) -> None:
        """Forget the name of a snapshot."""
        drop_tag(self._main(), name)

    @property
    def branches(self) -> list[BranchRef]:
        """The branches, by name."""
        return list(branches_of(self._main()).values())

    def on_branch(self, name: str) -> PartitionedNamespace:
        """Return the same namespace as one of its branches shows it; what is written there stays there until it is published."""
        known = branches_of(self._main())
        if name not in known:
            raise NotFound.named("branch", name, known)
        return self._branches.setdefault(known[name], PartitionedNamespace(self.store, known[name]))

    def create_branch(self, name: str, at: int | str | datetime | None = None) -> None:
        """Begin a branch at a snapshot (None: the newest one)."""
        self._refuse_on_branch("have branches of their own")
        snapshot = self._writable() if at is None else self.snapshot(at)
        if snapshot.floating or NAMESPACE_KEY not in snapshot.metadata:
            raise Unsupported(
                f"no branch can begin at snapshot {snapshot.version}: it is older than the first write of this"
                " library, and some of its tables have no fixed version"
            )
        with self.hold(snapshot, is_newest=at is None):
            create_branch(self._main(), name, snapshot.version)

    def drop_branch(self, name: str) -> None:
        """Forget a branch; what main shows of it since it was published stays."""
        drop_branch(self._main(), name)

    def publish(self, name: str) -> int:
        """Make the newest snapshot equal to a branch in all that the branch changed, and return its version."""
        self._refuse_on_branch("be published to")
        branch = self.on_branch(name)
        if branch.branch is None:
            raise AssertionError(name)
        return publish(self.manifest, branch.manifest, branch.branch)

    def evolve(self, change: Change) -> int:
        """Change specs, schema or both in one commit (`evolution.py`), and return the version in which that is visible."""
        self._refuse_on_branch("change their partitioning or columns")
        return Evolutions(self.manifest, self._writable).commit(change)

    def rows(self) -> Iterator[pa.Table]:
        """All rows of the newest snapshot, one partition table after another."""
        for table in self.snapshot().all_tables():
            for batch in partitions.open_table(self.store, table).to_batches():
                yield pa.Table.from_batches([batch])

    def append(self, tables: Iterable[pa.Table], evaluate: Evaluate, *, operation: str = "append") -> int:
        """Store rows (tables of exactly the namespace schema) in one commit and return how many they were.

        Nothing is visible unless all of it is; what was written by a failed append is deleted again.
        """
        transaction = self.begin()
        with self.changing(transaction):
            count = self.write(transaction, tables, evaluate, operation=operation)
            self.commits.commit(transaction)
        return count

    def begin(self, base: Snapshot | None = None, *, serializable: bool = False) -> Transaction:
        """A transaction on the newest snapshot, or on one that was read before.

        What a foreign namespace lacks for our writes is added first.
        """
        newest = self._writable()
        if base is None or base.version == newest.version:
            transaction = Transaction(newest, serializable=serializable)
            transaction.hold = self.hold(newest, is_newest=True)
            return transaction
        if NAMESPACE_KEY not in base.metadata or base.floating:
            raise SerializationFailure(f"table {self.store.name!r} was made ready for writing after it had been read")
        return Transaction(base, serializable=serializable)

    def hold(self, snapshot: Snapshot, *, is_newest: bool) -> SnapshotLease:
        """Keep a snapshot that was just read from being vacuumed, in this process or another, while the result lives.

        `is_newest` says that it was read as the newest one; `NotFound` where an older one is being removed already.
        """
        return leases.hold(self.store, (self._chain, snapshot.version), snapshot.committed_at, is_newest=is_newest)

    def hold_between(self, first: int, last: int) -> list[SnapshotLease]:
        """Return the same for a stretch of history that is still to be read."""
        return leases.hold_all(self.store, [(self._chain, version) for version in range(first, last + 1)])

    @contextmanager
    def changing(self, transaction: Transaction) -> Iterator[None]:
        """Take away what a transaction has written when it fails in here, unless it may have been committed."""
        try:
            yield
        except OutcomeUnknown:
            raise
        except BaseException:
            transaction.abort(self.store)
            raise

    def write(
        self, transaction: Transaction, tables: Iterable[pa.Table], evaluate: Evaluate, *, operation: str = "append"
    ) -> int:
        """Write rows (tables of exactly the namespace schema) as a part of a transaction and return how many they were."""
        edits = self.written(transaction.snapshot, tables, evaluate)
        count = sum(edit.rows for edit in edits)
        transaction.add(edits, f"{operation} {count} rows into {len(edits)} partitions")
        return count

    def written(
        self,
        snapshot: Snapshot,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        mark: str | None = None,
        number_of: NumberOf | None = None,
        is_stored: bool = False,
    ) -> list[TableUpdate]:
        """Write rows as data files, one edit for each partition; nothing is left of them if that fails.

        Others who write with the same `mark` have the directories of new partitions in common with this one. Rows may have
        `lineage.ORIGIN_FIELDS` where `number_of` says which number the table with an object id has there. Rows that are stored
        already are moved as they are.
        """
        key = namespace_key(snapshot)
        with PartitionWriter(self.store, snapshot, key, evaluate, mark=mark, number_of=number_of) as writer:
            try:
                target, defaults = snapshot.schema.plain, snapshot.schema.defaults
                writer.write_all(conform(table, target, defaults, is_stored=is_stored) for table in tables)
                failpoint("data_written")
            except BaseException:
                writer.cancel()
                if mark is None:
                    self.discard(snapshot, writer.edits)
                else:
                    self.discard_files(writer.edits)
                raise
        return writer.edits

    @contextmanager
    def discarding(self, snapshot: Snapshot, written: Sequence[TableUpdate]) -> Iterator[None]:
        """Delete data files where it fails in here, before a transaction takes them over."""
        try:
            yield
        except BaseException:
            self.discard(snapshot, written)
            raise

    def discard(self, snapshot: Snapshot, written: Sequence[TableUpdate]) -> None:
        """Delete data files that no transaction took over."""
        failed = Transaction(snapshot)
        failed.add(written, "discard")
        failed.abort(self.store)

    def discard_files(self, written: Iterable[TableUpdate]) -> None:
        """The same for data files that may lie among those of others: their directories stay."""
        for edit in written:
            self.store.child(edit.place).remove_files(edit.data_files)

    def describe(self, path: Sequence[str]) -> dict[str, str]:
        """The runtime properties of a namespace below this one (spec: Appendix E).

        `["v1"]` has its `partition_spec`; a partition namespace has `partition.<field_id>` of its own level; without a
        path it is the specs and the schema of the whole.
        """
        snapshot = self.snapshot()
        if not path:
            specs = {spec.key: spec.to_text() for spec in snapshot.specs}
            return specs | {SCHEMA_KEY: schema_text(snapshot.schema)}
        name = object_id(path)
        spec_id = spec_id_of(name)
        row = snapshot.row(name)
        if spec_id is None or not row.num_rows or row["object_type"][0].as_py() != "namespace":
            raise NotFound(f"no namespace {name!r} in {self.store.name!r}")
        spec = snapshot.spec(spec_id)
        if len(path) == 1:
            return {"partition_spec": spec.to_text()}
        field = spec.fields[len(path) - 2]
        return {f"partition.{field.field_id}": display(row[field.column][0])}

    @property
    def _chain(self) -> str | None:
        """The branch of `__manifest` that the snapshots are versions of."""
        return None if self.branch is None else self.branch.name

    def _main(self) -> LanceDataset:
        return self.manifest.store.open()

    def _tagged(self, name: str) -> Snapshot:
        tags = {tag.name: tag for tag in self.tags}
        if name not in tags:
            raise NotFound.named("snapshot tag", name, tags)
        if tags[name].branch is not None:
            raise Unsupported(
                f"tag {name!r} is on branch {tags[name].branch!r}; only tags of the main branch can be read"
            )
        return self.manifest.snapshot(tags[name].version)

    def _refuse_on_branch(self, what: str) -> None:
        if self.branch is not None:
            raise Unsupported(f"branch {self.branch.name!r}: branches cannot {what}; only the main branch can")

    def _writable(self) -> Snapshot:
        """The newest snapshot, once it has what our writes need: the columns of pins, a key, a pin in every row."""
        return retry(ADOPT, self.store.name, self._adopted, on=Conflict)

    def _adopted(self, _: int) -> Snapshot | None:
        """The newest snapshot if it has all of that; None once one thing has been added."""
        snapshot = self.snapshot()
        check_in_place(self.store.name, snapshot.misplaced)
        missing = [field for field in PIN_FIELDS if field.name not in snapshot.rows.column_names]
        if missing:
            self.manifest.add_columns(missing)
        elif NAMESPACE_KEY not in snapshot.metadata:
            self.manifest.update_metadata(snapshot, _new_properties())
        elif snapshot.floating:
            self.manifest.commit(snapshot, pinned_rows(self.store, snapshot), "pin floating tables")
        elif snapshot.pending:
            self.manifest.follow(snapshot)
        else:
            return snapshot
        return None


def _new_properties() -> dict[str, str]:
    """Return what the metadata of a namespace has from our first write on."""
    return {NAMESPACE_KEY: new_key().hex(), DERIVED_VALUES: str(True)}


def display(value: pa.Scalar) -> str:
    """A partition value as the spec's runtime properties show it; NULL as `NULL`."""
    if not value.is_valid:
        return "NULL"
    return str(value.cast(pa.utf8()).as_py()) if not pa.types.is_binary(value.type) else value.as_py().hex()
