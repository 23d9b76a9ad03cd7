"""A partitioned namespace: created, opened, described, written to.

Spec: Metadata Definition, Physical Layout, Runtime Namespace Properties; decisions 3, 4 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from lance_flight.catalog.commits.staging import pinned_rows
from lance_flight.catalog.manifests.differences import back_to
from lance_flight.catalog.manifests.manifest import (
    FENCE,
    FENCE_KEY,
    PIN_FIELDS,
    Manifest,
    create_table,
    manifest_schema,
)
from lance_flight.catalog.manifests.manifest_rows import version_rows
from lance_flight.catalog.manifests.snapshot import (
    DERIVED_VALUES,
    FILE_VERSION,
    NAMESPACE_KEY,
    SCHEMA_KEY,
    STABLE_ROW_IDS,
    Snapshot,
    check_in_place,
)
from lance_flight.catalog.manifests.version_log import Change, Revision, evolve, namespace_metadata, schema_text
from lance_flight.catalog.storage.branches import BranchRef, branches_of, create_branch, drop_branch
from lance_flight.catalog.storage.formats import chosen_version
from lance_flight.catalog.storage.retries import ADOPT, retry
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.errors import Conflict, Corrupt, NotFound, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.naming import MANIFEST, new_key, object_id, spec_id_of
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec


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
            return evolve(self.log, back_to(old), self._writable)

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
        self.refuse_on_branch("have branches of their own")
        if "?" in self.store.uri:
            raise Unsupported(
                f"{self.store.name!r} cannot have branches: Lance takes what follows a ? in a path for a query; expected a"
                " table, and a root, without ? in its name"
            )
        snapshot = self._writable() if at is None else self.snapshot(at)
        if snapshot.floating or NAMESPACE_KEY not in snapshot.metadata:
            raise Unsupported(
                f"no branch can begin at snapshot {snapshot.version}: it is older than the first write of this"
                " library, and some of its tables have no fixed version"
            )
        with self.hold(snapshot, is_newest=at is None), self.log.changing_references(snapshot) as main:
            create_branch(main, name, snapshot.version, self.log.store)

    def drop_branch(self, name: str) -> None:
        """Forget a branch; what main shows of it since it was published stays."""
        with self.log.changing_references(self.snapshot()) as main:
            drop_branch(main, name)

    def evolve(self, change: Change) -> int:
        """Change specs, schema or both in one commit, and return the version in which that is visible.

        New columns get ids that no column of another branch has: both may come to be in one schema.
        """

        def newest() -> Snapshot:
            snapshot = self._writable()
            free = self._free_field_id()
            if free <= snapshot.schema.next_field_id:
                return snapshot
            return replace(snapshot, schema=replace(snapshot.schema, next_field_id=free))

        def change_with_free_ids(snapshot: Snapshot) -> Revision | None:
            revision, first = change(snapshot), snapshot.schema.next_field_id
            has_new = revision is not None and revision.schema is not None and revision.schema.next_field_id > first
            if has_new and self._free_field_id() > first:
                raise Conflict(f"another branch of {self.name!r} has columns of these ids by now")
            return revision

        return evolve(self.log, change_with_free_ids, newest)

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
