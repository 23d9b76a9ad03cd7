"""Tables with snapshots to read, and transactions that make the next one: what all have in common, and partitioned namespaces.

`plain_table.py` has the tables without partitions. Spec: Metadata Definition, Physical Layout, Runtime Namespace Properties;
decisions 3, 4 and 12 to 16.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.commits.commit import Commits
from lance_flight.catalog.commits.once import Once
from lance_flight.catalog.commits.transaction import CommitGuard, TableUpdate, Transaction, namespace_key, pinned_rows
from lance_flight.catalog.commits.writer import PartitionWriter
from lance_flight.catalog.manifests.manifest import (
    FENCE,
    FENCE_KEY,
    PIN_FIELDS,
    Manifest,
    create_table,
    manifest_schema,
)
from lance_flight.catalog.manifests.manifest_rows import version_rows
from lance_flight.catalog.manifests.references import Retention, change_retention, retention_of, retentions_of
from lance_flight.catalog.manifests.snapshot import (
    DERIVED_VALUES,
    FILE_VERSION,
    NAMESPACE_KEY,
    SCHEMA_KEY,
    STABLE_ROW_IDS,
    Snapshot,
    check_in_place,
)
from lance_flight.catalog.manifests.version_log import (
    Change,
    Revision,
    VersionLog,
    back_to,
    evolve,
    namespace_metadata,
    schema_text,
)
from lance_flight.catalog.storage.formats import chosen_version
from lance_flight.catalog.storage.lance_columns import all_rows
from lance_flight.catalog.storage.leases import SnapshotLease, expiring_snapshots, leases
from lance_flight.catalog.storage.retries import ADOPT, retry
from lance_flight.catalog.storage.store import (
    BranchRef,
    Store,
    TagRef,
    branches_of,
    create_branch,
    create_tag,
    drop_branch,
    drop_tag,
    replace_tag,
    tags_of,
)
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.rows import NumberOf, conform_with_lineage, in_parts
from lance_flight.errors import (
    Conflict,
    Corrupt,
    LanceFlightError,
    NotFound,
    OutcomeUnknown,
    SerializationFailure,
    Unsupported,
)
from lance_flight.faults import failpoint
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.naming import MANIFEST, new_key, object_id, spec_id_of
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, PartitionSpec


@dataclass(frozen=True, slots=True)
class KeptReference:
    """A tag or branch of a table with the seconds for which it is kept, and the moment `ends`, in seconds since 1970, of their end (None: it is kept)."""

    ref: TagRef | BranchRef
    retain: float | None = None
    ends: float | None = None


class Table(ABC):
    """One table at one place, on its main branch or on another. Safe to share among threads."""

    is_partitioned: ClassVar[bool]

    def __init__(self, store: Store, log: VersionLog, branch: BranchRef | None = None) -> None:
        self.store = store
        self.branch = branch
        self.log = log
        self.commits = Commits(log)

    @property
    @abstractmethod
    def name(self) -> str:
        """Return what messages call it."""

    @abstractmethod
    def rollback(self, at: int | str | datetime) -> int:
        """Make the newest snapshot equal to an old one, in one commit, and return its version."""

    @abstractmethod
    def evolve(self, change: Change) -> int:
        """Change specs, schema or indices, and return the version in which that is visible."""

    @property
    @abstractmethod
    def branches(self) -> list[BranchRef]:
        """The branches, by name."""

    @abstractmethod
    def on_branch(self, name: str) -> Table:
        """Return the same table as one of its branches shows it; what is written there stays there until it is published."""

    @abstractmethod
    def _writable(self) -> Snapshot:
        """Return the newest snapshot, once it has what our writes need."""

    def snapshot(self, at: int | str | datetime | None = None) -> Snapshot:
        """Return the newest snapshot, or the one with a version, a tag, or the newest one as old as a moment."""
        match at:
            case str(name):
                return self._tagged_snapshot(name)
            case datetime():
                return self._old_snapshot(self.log.version_at(at))
            case int():
                return self._old_snapshot(at)
        return self.log.snapshot()

    def _old_snapshot(self, version: int) -> Snapshot:
        """Return a snapshot; `NotFound` for one of which vacuum has removed a part, where it was stopped then."""
        try:
            return self.log.snapshot(version)
        except Corrupt as exc:
            if (self._chain, version) not in expiring_snapshots(self.store):
                raise
            raise NotFound(f"snapshot {version} of {self.name!r} has expired") from exc

    @property
    def place(self) -> str:
        """The key of a branch of a namespace, unique below a root."""
        return (
            self.store.uri if self.branch is None else f"{self.store.uri}@{self.branch.name}-{self.branch.identifier}"
        )

    @property
    def tags(self) -> list[TagRef]:
        """The names that snapshots have."""
        return tags_of(self._main())

    def create_tag(self, name: str, at: int | str | datetime | None = None, retain: float | None = None) -> None:
        """Name a snapshot (None: the newest one), so that `snapshot(name)` finds it, for so many seconds (None: until it is dropped)."""
        self.refuse_on_branch("be given tags")
        snapshot = self.snapshot(at)
        with (
            self._retaining(TagRef(name, snapshot.version), retain),
            self.hold(snapshot, is_newest=at is None),
            self.log.changing_references(snapshot) as main,
        ):
            create_tag(main, name, snapshot.version)

    def replace_tag(self, name: str, at: int | str | datetime | None = None, retain: float | None = None) -> None:
        """Have a tag name another snapshot (None: the newest one), for so many seconds (None: for as long as it said before)."""
        self.refuse_on_branch("be given tags")
        known = {tag.name: tag for tag in self.tags}
        if name not in known:
            raise NotFound.named("tag", name, known)
        snapshot = self.snapshot(at)
        before = retention_of(self.snapshot(), known[name])
        seconds = before.seconds if before is not None and retain is None else retain
        if seconds is not None:
            # For as long as the tag has another version it is kept.
            self.retain(TagRef(name, snapshot.version), seconds)
        with self.hold(snapshot, is_newest=at is None), self.log.changing_references(snapshot) as main:
            replace_tag(main, name, snapshot.version)

    @contextmanager
    def _retaining(self, ref: TagRef | BranchRef, seconds: float | None) -> Iterator[None]:
        """Note for how long the tag or branch that the block makes is kept; it is dropped again where that cannot be noted."""
        tags, branches = ([each.name for each in refs] for refs in (self.tags, self.branches))
        if ref.name not in {*tags, *branches} and ref.name in retentions_of(self.snapshot()):
            # Of one that was dropped, which may have begun at the same version.
            self.evolve(change_retention(ref.name, None))
        yield
        if seconds is not None:
            try:
                self.retain(ref, seconds)
            except BaseException:
                with suppress(LanceFlightError):
                    self.drop_reference(ref)
                raise

    def retain(self, ref: TagRef | BranchRef, seconds: float) -> None:
        """Note for how many seconds from now on a tag or branch is kept."""
        self.evolve(change_retention(ref.name, Retention(ref.begins, seconds, time.time())))

    def references(self) -> list[KeptReference]:
        """Return the tags and branches of the table, each with the moment at which its time is over; a branch counts from its newest commit."""
        snapshot = self.snapshot()

        def kept(ref: TagRef | BranchRef) -> KeptReference:
            retention = retention_of(snapshot, ref)
            if retention is None:
                return KeptReference(ref)
            is_branch = isinstance(ref, BranchRef)
            used = self.on_branch(ref.name).snapshot().committed_at.timestamp() if is_branch else 0.0
            return KeptReference(ref, retention.seconds, retention.end(used))

        refs: list[TagRef | BranchRef] = [*self.tags, *self.branches]
        return [kept(ref) for ref in refs]

    def drop_tag(self, name: str) -> None:
        """Delete the tag of a snapshot."""
        with self.log.changing_references(self.snapshot()) as main:
            drop_tag(main, name)

    def drop_reference(self, ref: TagRef | BranchRef) -> None:
        """Delete a tag or a branch of the table."""
        with self.log.changing_references(self.snapshot()) as main:
            (drop_tag if isinstance(ref, TagRef) else drop_branch)(main, ref.name)

    def rows(self) -> Iterator[pa.Table]:
        """Yield all rows of the newest snapshot, one partition table after another."""
        for table in self.snapshot().all_tables():
            for batch in all_rows(partitions.open_table(self.store, table)):
                yield pa.Table.from_batches([batch])

    def append(
        self,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        operation: str = "append",
        once: Callable[[int], Once] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Store rows (tables of exactly the namespace schema) in one commit and return how many they were.

        Nothing is visible unless all of it is; what was written by a failed append is deleted again. `once` names the commit
        of that many rows, which is not made twice.
        """
        transaction = self.begin()
        transaction.guard = CommitGuard(check)
        with self.changing(transaction):
            count = self.write(transaction, tables, evaluate, operation=operation, check=check)
            transaction.once = None if once is None else once(count)
            self.commits.commit(transaction)
        return count

    def begin(self, base: Snapshot | None = None, *, serializable: bool = False) -> Transaction:
        """Return a transaction on the newest snapshot, or on one that was read before.

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

    def has_expired(self, version: int, key: str | None) -> bool:
        """Return whether vacuum has removed a snapshot, or is about to; `key` is that of the table that it is of.

        False for a table that was dropped or replaced, and where the table has no key.
        """
        if (self._chain, version) in expiring_snapshots(self.store):
            return True
        with suppress(NotFound):
            self.snapshot(version)
            return False
        return key is not None and self.snapshot().metadata.get(NAMESPACE_KEY) == key

    def hold_between(self, first: int, last: int) -> list[SnapshotLease]:
        """Return the same for a stretch of history that is still to be read."""
        return leases.hold_all(self.store, [(self._chain, version) for version in range(first, last + 1)])

    @contextmanager
    def changing(self, transaction: Transaction) -> Iterator[None]:
        """Delete what a transaction has written if the block fails, unless it may have been committed."""
        try:
            yield
        except OutcomeUnknown:
            raise
        except NotFound as exc:
            transaction.abort(self.store)
            raise self._damage_of(transaction.base, exc) from exc
        except BaseException:
            transaction.abort(self.store)
            raise

    def _damage_of(self, snapshot: Snapshot, missing: NotFound) -> LanceFlightError:
        """Return `Corrupt` for something missing that a snapshot names, while that snapshot is there."""
        try:
            is_there = self.snapshot(snapshot.version).committed_at == snapshot.committed_at
            if not is_there or self.has_expired(snapshot.version, snapshot.metadata.get(NAMESPACE_KEY)):
                return missing
        except LanceFlightError:
            return missing
        return Corrupt(f"{missing}; expected lance-flight verify and repair, or a restore from a backup")

    def write(
        self,
        transaction: Transaction,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        operation: str = "append",
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Write rows (tables of exactly the namespace schema) as a part of a transaction and return how many they were."""
        edits = self.write_files(transaction.snapshot, tables, evaluate, check=check)
        count = sum(edit.rows for edit in edits)
        transaction.add(edits, f"{operation} {count} rows into {len(edits)} partitions")
        return count

    def write_files(
        self,
        snapshot: Snapshot,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        mark: str | None = None,
        number_of: NumberOf | None = None,
        is_stored: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> list[TableUpdate]:
        """Write rows as data files, one edit for each partition; delete them if that fails.

        Others who write with the same `mark` have the directories of new partitions in common with this one. Rows may have
        `rows.ORIGIN_FIELDS` where `number_of` says which number the table with an object id has there. Rows that are stored
        already are moved as they are. `check` is called meanwhile, and ends it by an error.
        """
        key = namespace_key(snapshot)
        with PartitionWriter(
            self.store, snapshot, key, evaluate, mark=mark, number_of=number_of, check=check
        ) as writer:
            try:
                target, defaults = snapshot.schema.plain, snapshot.schema.defaults
                parts = in_parts(tables, target, defaults)
                writer.write_all(conform_with_lineage(table, target, defaults, is_stored=is_stored) for table in parts)
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
        """Delete data files if the block fails, before a transaction takes them over."""
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
        """Delete data files that may lie among those of another table: their directories stay."""
        for edit in written:
            self.store.child(edit.place).remove_files(edit.data_files)

    @property
    def _chain(self) -> str | None:
        """The branch of `__manifest` that the snapshots are versions of."""
        return None if self.branch is None else self.branch.name

    def _main(self) -> LanceDataset:
        return self.log.store.open()

    def _tagged_snapshot(self, name: str) -> Snapshot:
        tags = {tag.name: tag for tag in self.tags}
        if name not in tags:
            raise NotFound.named("snapshot tag", name, tags)
        if tags[name].branch is not None:
            raise Unsupported(
                f"tag {name!r} is on branch {tags[name].branch!r}; only tags of the main branch can be read"
            )
        return self.log.snapshot(tags[name].version)

    def refuse_on_branch(self, what: str) -> None:
        """Raise `Unsupported` on a branch: branches cannot do `what`."""
        if self.branch is not None:
            raise Unsupported(f"branch {self.branch.name!r}: branches cannot {what}; only the main branch can")


class PartitionedNamespace(Table):
    """One partitioned namespace at one place. Safe to share among threads.

    >>> namespace = PartitionedNamespace.open(Store("/data/events"))            # doctest: +SKIP
    >>> namespace.snapshot().table_count                                        # doctest: +SKIP
    1200
    """

    is_partitioned = True

    def __init__(self, store: Store, branch: BranchRef | None = None) -> None:
        self.log: Manifest
        super().__init__(store, Manifest(store.child(MANIFEST), branch), branch)
        self._branches: dict[BranchRef, PartitionedNamespace] = {}

    @property
    def name(self) -> str:
        return self.store.name

    @classmethod
    def open(cls, store: Store) -> PartitionedNamespace:
        """Return the namespace at `store`; `NotFound` where there is none, `Corrupt` where it is broken."""
        namespace = cls(store)
        namespace.log.snapshot()
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
        """Return an empty namespace with one spec version; its rows keep their ids where `stable_row_ids` says so.

        Its data files are of `file_version` (None: the newest that holds the columns).

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
        version = chosen_version(file_version, schema.arrow)
        chosen |= {FILE_VERSION: version} if file_version is not None or version != NEWEST else {}
        dataset.update_metadata(metadata | chosen | ({FENCE_KEY: FENCE} if fence else {}))
        return cls.open(store)

    def rollback(self, at: int | str | datetime) -> int:
        """Make the newest snapshot equal to an old one, in one commit, and return its version."""
        old = self.snapshot(at)
        with self.hold(old, is_newest=False):
            return self.commit_change(back_to(old))

    def commit_change(self, change: Change) -> int:
        """Commit a change that brings back columns which are known by their ids, and return its version."""
        return evolve(self.log, change, self._writable)

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

    def create_branch(self, name: str, at: int | str | datetime | None = None, retain: float | None = None) -> None:
        """Begin a branch at a snapshot (None: the newest one), for so many seconds since it was written (None: until it is dropped)."""
        if "?" in self.store.uri:
            raise Unsupported(
                f"{self.store.name!r} cannot have branches: Lance takes what follows a ? in a path for a query; expected a"
                " table, and a root, without ? in its name"
            )
        snapshot = self.snapshot_to_branch(at)
        with (
            self._retaining(BranchRef(name, snapshot.version, ""), retain),
            self.hold(snapshot, is_newest=at is None),
            self.log.changing_references(snapshot) as main,
        ):
            create_branch(main, name, snapshot.version, self.log.store)

    def snapshot_to_branch(self, at: int | str | datetime | None) -> Snapshot:
        """Return the snapshot that a branch is to begin at (None: the newest one); `Unsupported` for one that none can begin at."""
        self.refuse_on_branch("have branches of their own")
        snapshot = self._writable() if at is None else self.snapshot(at)
        if snapshot.floating or NAMESPACE_KEY not in snapshot.metadata:
            raise Unsupported(
                f"no branch can begin at snapshot {snapshot.version}: it is older than the first write of this"
                " library, and some of its tables have no fixed version"
            )
        return snapshot

    def drop_branch(self, name: str) -> None:
        """Forget a branch; what main shows of it since it was published stays."""
        with self.log.changing_references(self.snapshot()) as main:
            drop_branch(main, name)

    def evolve(self, change: Change) -> int:
        """Change specs, schema or both in one commit, and return the version in which that is visible.

        New columns get ids that no column of another branch has: both may come to be in one schema.
        """

        def change_with_free_ids(snapshot: Snapshot) -> Revision | None:
            revision = change(snapshot)
            if revision is not None and revision.schema is not None:
                self.check_free_ids(snapshot.schema, revision.schema)
            return revision

        return evolve(self.log, change_with_free_ids, lambda: self.with_free_ids(self._writable()))

    def with_free_ids(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot whose next column gets an id that no column of another branch has."""
        free = self._free_field_id()
        if free <= snapshot.schema.next_field_id:
            return snapshot
        return replace(snapshot, schema=replace(snapshot.schema, next_field_id=free))

    def check_free_ids(self, before: NamespaceSchema, after: NamespaceSchema) -> None:
        """Raise `Conflict` if another branch has by now columns of ids that were free before a change of columns."""
        if after.next_field_id > before.next_field_id and self._free_field_id() > before.next_field_id:
            raise Conflict(f"another branch of {self.name!r} has columns of these ids by now")

    def _free_field_id(self) -> int:
        """Return the first id that no column of another branch has or had; 0 where there is no branch."""
        refs = self.branches
        return max((self._next_field_id(ref) for ref in (None, *refs) if refs and ref != self.branch), default=0)

    def _next_field_id(self, branch: BranchRef | None) -> int:
        """Return the next id of a column of a branch (None: main); 0 for one that another writer has dropped meanwhile."""
        try:
            return Manifest(self.log.store, branch).snapshot().schema.next_field_id
        except (NotFound, Corrupt):
            if branch is None or branch in self.branches:
                raise
            return 0

    def describe(self, path: Sequence[str]) -> dict[str, str]:
        """Return the runtime properties of a namespace below this one (spec: Appendix E).

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

    def _writable(self) -> Snapshot:
        """Return the newest snapshot, once it has what our writes need.

        The columns of pins, a key, a pin in every row.
        """
        return retry(ADOPT, self.store.name, self._adopt, on=Conflict)

    def _adopt(self, _: int) -> Snapshot | None:
        """Return the newest snapshot if it has all of that; None once one thing has been added."""
        snapshot = self.snapshot()
        check_in_place(self.store.name, snapshot.misplaced)
        missing = [field for field in PIN_FIELDS if field.name not in snapshot.rows.column_names]
        if missing:
            self.log.add_columns(snapshot, missing)
        elif NAMESPACE_KEY not in snapshot.metadata:
            self.log.update_metadata(snapshot, _new_properties())
        elif snapshot.floating:
            self.log.commit(snapshot, pinned_rows(self.store, snapshot), "pin floating tables")
        elif snapshot.pending:
            self.log.follow(snapshot)
        else:
            return snapshot
        return None


def require_partitions(table: Table, why: str = "has no partitions") -> PartitionedNamespace:
    """Return a table that has partitions; `Unsupported` for a plain one, with `why` it cannot be meant."""
    if not isinstance(table, PartitionedNamespace):
        raise Unsupported(f"table {table.name!r} is not partitioned and {why}")
    return table


def _new_properties() -> dict[str, str]:
    """Return what the metadata of a namespace has from our first write on."""
    return {NAMESPACE_KEY: new_key().hex(), DERIVED_VALUES: str(True)}


def display(value: pa.Scalar) -> str:
    """Return a partition value as the spec's runtime properties show it; NULL as `NULL`."""
    if not value.is_valid:
        return "NULL"
    return str(value.cast(pa.utf8()).as_py()) if not pa.types.is_binary(value.type) else value.as_py().hex()
