"""Saving of a backup: the snapshots that are selected, their files, and how these are copied once.

The files of a snapshot are those of `__manifest` or a plain table at one version, and of each partition table at its pin. Nothing that
lies in a target already is ever changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path, PurePosixPath

from lance import LanceDataset

from lance_flight.catalog.backup.backup_format import (
    BEGUN_FILE,
    FILES,
    MANIFEST_FILE,
    VIEW_FILE,
    BackupManifest,
    Journal,
    Progress,
    SavedFile,
    SavedTable,
    StoredBackup,
    backups_in,
    copy,
    digest_of,
    ids_in,
    in_parallel,
    is_whole,
    lock_file,
    moment_of,
    new_id,
    pieces,
    sizes_below,
)
from lance_flight.catalog.manifests.snapshot import BranchVersion, PartitionTable, Snapshot, Tag
from lance_flight.catalog.roots.directory import PUBLIC, Root
from lance_flight.catalog.storage.lance_columns import has_extension
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.storage.retries import RetryPolicy, retry
from lance_flight.catalog.storage.store import HERE, UNREADABLE, Store, tags_of
from lance_flight.catalog.storage.table_versions import LocationGuard, map_tables
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.partitions import open_at, path_of_base
from lance_flight.errors import Conflict, Corrupt, InvalidInput, LanceFlightError, NotFound, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import MANIFEST, PLAIN_SUFFIX, TableName

_LISTING = RetryPolicy(5, why="versions were removed meanwhile")
_CONTENT = frozenset({"data", "_deletions", "_indices", "_transactions"})
"""Directories of a Lance table whose files are never written again."""
_UNIQUE = re.compile(r"[0-9a-f]{24}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-\d{15,20}\.")
"""Matches what Lance, and this library, puts into the name of a file so that no other has it: random bits, in hex, as UUID or number."""
_BRANCH_REFS, _TAG_REFS = "_refs/branches", "_refs/tags"


@dataclass(slots=True)
class SnapshotFiles:
    """Files below a root, by path, with the size that the version which refers to them expects (None: it does not say).

    `base_paths` are the absolute addresses in version files, with the directories below the root that they mean.
    """

    root: Store
    files: dict[str, int | None] = field(default_factory=dict)
    base_paths: dict[str, str] = field(default_factory=dict)

    def add(self, other: SnapshotFiles) -> None:
        """Add what another listing found."""
        self.files |= other.files
        self.base_paths |= other.base_paths


def is_content(path: str) -> bool:
    """Return whether a file is never written again, so that another one with this path and size is the same."""
    names = path.split("/")
    return not _CONTENT.isdisjoint(names[:-1]) and any(map(_UNIQUE.search, names[-2:]))


def location_of(root: Store, place: Store) -> str:
    """Return the directory of a table below a root."""
    return place.uri.removeprefix(root.uri.rstrip("/")).lstrip("/") or HERE


def files_of(root: Store, table: Table, snapshot: Snapshot) -> SnapshotFiles:
    """Return the files of a snapshot of the main branch; `Unsupported` names a table with files in other places."""
    snapshot_files = SnapshotFiles(root)
    if table.is_partitioned:
        snapshot_files.add(version_files(root, table.log.store, table.log.store.open(snapshot.version)))
    for tag in tags_of(table.log.store.open()):
        if tag.branch is None and tag.version == snapshot.version:
            snapshot_files.files[_join(location_of(root, table.log.store), f"{_TAG_REFS}/{tag.name}.json")] = None
    for files in map_tables(partial(_pinned_files, root, table.store), snapshot.all_tables(), "backup-listing"):
        snapshot_files.add(files)
    return snapshot_files


def not_kept(table: Table, snapshot: Snapshot) -> Iterator[str]:
    """Yield what a table has beside a snapshot, for people, one line each."""
    versions = len(table.log.history()) - 1
    if versions:
        yield f"{versions:,} other snapshots"
    branches = [branch.name for branch in table.branches]
    if branches:
        yield f"branches {', '.join(branches)}"
    tags = [tag.name for tag in table.tags if tag.branch is not None or tag.version != snapshot.version]
    if tags:
        yield f"tags of other snapshots, {', '.join(tags)}"


def version_files(root: Store, place: Store, dataset: LanceDataset) -> SnapshotFiles:
    """Return the files of one version of the Lance table at a place, of its main branch or another."""
    location = location_of(root, place)
    snapshot_files = SnapshotFiles(root)
    for base in dataset.base_paths().values():
        snapshot_files.base_paths[base.path] = _below(root, place, base.path, location)
    place.check_files(dataset)
    stored = {
        PurePosixPath(file.path).name: file.file_size_bytes
        for fragment in dataset.get_fragments()
        for file in fragment.metadata.files
    }
    for base, path in _tracked_files(place, dataset):
        directory = snapshot_files.base_paths.get(base) or _below(root, place, base, location)
        snapshot_files.files[_join(directory, path)] = stored.get(PurePosixPath(path).name) if "data/" in path else None
    if has_extension(dataset):
        snapshot_files.files |= _blob_files(root, snapshot_files.files)
    return snapshot_files


def _pinned_files(root: Store, namespace: Store, table: PartitionTable) -> SnapshotFiles:
    """Return the files of a partition table at its pin, with what it takes to open it there."""
    place = namespace.child(table.location)
    dataset = open_at(place, table.pin)
    snapshot_files = version_files(root, place, dataset)
    location = location_of(root, place)
    match table.pin:
        case Tag(tag):
            snapshot_files.files[_join(location, f"{_TAG_REFS}/{tag}.json")] = None
        case BranchVersion(branch, _):
            _add_ancestors(snapshot_files, place, branch)
    return snapshot_files


def _add_ancestors(files: SnapshotFiles, place: Store, branch: str) -> None:
    """Add what opening a branch reads: its record, and the version of the main branch that it, or its parent, begins at."""
    newest = place.open()
    known = newest.branches.list()
    at: str | None = branch
    version = int(newest.version)
    while at is not None:
        if at not in known:
            raise Corrupt(f"partition table {place.name!r} has no record of its branch {at!r}")
        files.files[_join(location_of(files.root, place), f"{_BRANCH_REFS}/{at}.json")] = None
        version, at = int(known[at]["parent_version"]), known[at]["parent_branch"]
    with suppress(NotFound):
        newest = place.open(version)
    files.add(version_files(files.root, place, newest))


def _tracked_files(place: Store, dataset: LanceDataset) -> list[tuple[str, str]]:
    """Return the files that a version refers to, itself and its transaction among them: the address of a directory, and a path."""
    version = int(dataset.version)

    def listed(_: int) -> list[tuple[str, str]] | None:
        try:
            # Lance reads all later versions as well, of which some may be removed at this moment.
            table = dataset.tracked_files(min_version=version).read_all()
        except UNREADABLE:
            return None
        rows = table.to_pylist()
        return [(row["base_uri"], row["path"]) for row in rows if row["version"] == version] or None

    return retry(_LISTING, place.name, listed)


def _blob_files(root: Store, files: Iterable[str]) -> dict[str, int | None]:
    """Return the files of blobs beside data files: `data/<name>/*.blob` of `data/<name>.lance`."""
    sizes: dict[str, int | None] = {}
    for path in [path for path in files if path.endswith(".lance") and "/data/" in f"/{path}"]:
        directory = path.removesuffix(".lance")
        sizes |= {f"{directory}/{file.path}": file.size for file in root.child(directory).tree()}
    return sizes


def _below(root: Store, place: Store, address: str, location: str) -> str:
    """Return the directory below the root that an absolute address means; `Unsupported` outside of the table at `location`."""
    path_or_uri = path_of_base(address)
    if root.is_remote:
        path, top = path_or_uri.rpartition("://")[2].strip("/"), root.uri.rpartition("://")[2].strip("/")
        bucket, _, prefix = top.partition("/")
        path = path if path.startswith(f"{bucket}/") or not prefix else f"{bucket}/{path}"
        relative = path.removeprefix(top).lstrip("/") if f"{path}/".startswith(f"{top}/") else ".."
    else:
        relative = os.path.relpath(os.path.realpath(path_or_uri), os.path.realpath(root.uri))
    is_inside = location == HERE or f"{relative}/".startswith(f"{location}/")
    if not is_inside or relative.startswith(".."):
        raise Unsupported(
            f"table {location!r} has files outside of its directory (a shallow clone, or a base path), which are not backed up"
            " with it; expected a table of its own files: CREATE TABLE … AS SELECT, or leave it out with --exclude"
        )
    return relative


def _join(directory: str, path: str) -> str:
    return path if directory == HERE else f"{directory}/{path}"


KEEP_FILE = "keep.json"
"""The file of a backup that was made with `keep`: what it is of."""
LEAST_KEEP = 3600.0
"""The shortest time for which backups are kept, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRules:
    """Rules of a backup: one table (None: the whole root without those in `exclude`), at a version or tag of it (None: the newest).

    An `incremental` one leaves in earlier backups of the target what they have already. With `keep`, in seconds, older backups of the same
    selection that were made with it, too, are removed afterwards, but for files that younger ones need, and none is relied on that is older.
    """

    table: TableName | None = None
    at: int | str | None = None
    exclude: tuple[TableName, ...] = ()
    incremental: bool = False
    keep: float | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and not LEAST_KEEP <= self.keep < inf:
            raise InvalidInput(f"backups are to be kept for {self.keep:g} seconds; expected an hour or more")
        if self.at is not None and self.table is None:
            raise InvalidInput(f"snapshot {self.at!r} is one of a single table; expected --table with it")

    def request(self, root: Store) -> Mapping[str, object]:
        """Return what tells an unfinished backup from that of another command."""
        return {
            **self.selection(root),
            "incremental": self.incremental,
        }

    def selection(self, root: Store) -> Mapping[str, object]:
        """Return what is backed up, as JSON has it."""
        return {
            "root": root.uri,
            "table": None if self.table is None else str(self.table),
            "at": self.at,
            "exclude": sorted(map(str, self.exclude)),
        }


@dataclass(slots=True)
class BackupSelection:
    """Tables at their snapshots, held by leases while this is referenced, and the files of all of them."""

    found: SnapshotFiles
    tables: list[SavedTable] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    not_kept: list[str] = field(default_factory=list)
    leases: list[SnapshotLease] = field(default_factory=list)
    guards: list[tuple[str, LocationGuard]] = field(default_factory=list)

    def check(self) -> None:
        """Raise `Conflict` where a table was dropped, replaced or renamed since its snapshot was read."""
        for name, guard in self.guards:
            if not guard.is_there:
                raise Conflict(f"table {name!r} was dropped or renamed while it was backed up; run the backup again")


def select(root: Root, rules: BackupRules) -> BackupSelection:
    """Read and lease the snapshots of all tables first, then list their files."""
    names = [rules.table] if rules.table is not None else [n for n in root.tables() if n not in rules.exclude]
    for name in rules.exclude:
        root.table(name)
    selection = BackupSelection(SnapshotFiles(root.store))
    read = [(name, *_lease_snapshot(root, name, rules.at, selection)) for name in names]
    for name, table, snapshot in read:
        selection.not_kept += (f"{name}: {line}" for line in not_kept(table, snapshot))
        selection.found.add(files_of(root.store, table, snapshot))
    if rules.table is None:
        _add_root(root, selection)
        selection.not_kept += (f"{name}: excluded" for name in rules.exclude)
    elif read[0][1].store.uri != _directory_of(root, rules.table, read[0][1]):
        raise Unsupported(
            f"table {str(rules.table)!r} lies in a directory that only the root's __manifest gives its name; expected a backup of"
            " the whole root, without --table"
        )
    return selection


def _lease_snapshot(
    root: Root, name: TableName, at: int | str | None, selection: BackupSelection
) -> tuple[Table, Snapshot]:
    table = root.table(name)
    if table.branch is not None:
        raise Unsupported(
            f"{name.name!r} is a branch; expected a table: what is published is in a backup of the main branch"
        )
    if isinstance(at, int) and at not in (known := [version for version, _ in table.log.history()]):
        raise NotFound(f"table {name.name!r} has no snapshot {at}; expected {known[0]} to {known[-1]}")
    snapshot = table.snapshot(at)
    selection.leases.append(table.hold(snapshot, is_newest=at is None))
    # As it lies there then: what this process remembers of an object store would say that it is.
    guard = LocationGuard.of(table.log.store.uncached, snapshot.version, snapshot.committed_at)
    selection.guards.append((name.name, guard))
    selection.tables.append(
        SavedTable(
            db_schema=name.db_schema,
            name=name.name,
            location=location_of(root.store, table.store),
            partitioned=table.is_partitioned,
            snapshot=snapshot.version,
            committed_at=snapshot.committed_at.isoformat(),
        )
    )
    return table, snapshot


def _add_root(root: Root, selection: BackupSelection) -> None:
    """Add what belongs to no table: views, schemas, and the `__manifest` that lists tables by other names than their directories'."""
    private = root.store.child(PRIVATE)
    views = [f"{PRIVATE}/{name}" for name in private.files()]
    selection.found.files |= {path: None for path in views if VIEW_FILE.fullmatch(path)}
    if any(table.location == HERE for table in selection.tables):
        return
    if root.store.has(MANIFEST):
        place = root.store.child(MANIFEST)
        selection.found.add(version_files(root.store, place, place.open()))
    directories = set(root.store.directories())
    selection.schemas += [name for name in root.schemas() if name in directories and name != PUBLIC]


def _directory_of(root: Root, name: TableName, table: Table) -> str:
    """Return the address at which a table of this name is found without being listed."""
    if location_of(root.store, table.store) == HERE:
        return table.store.uri
    place = root.store if name.db_schema == PUBLIC else root.store.child(name.db_schema)
    return place.child(name.name + PLAIN_SUFFIX * (not table.is_partitioned)).uri


def sizes_of(root: Store, selection: BackupSelection) -> dict[str, int]:
    """Return the size of each file of a selection; `Corrupt` names the first that is missing or cut short."""
    there: dict[str, int] = {}
    for directory in {PRIVATE, MANIFEST, *(table.location for table in selection.tables)}:
        prefix = "" if directory == HERE else f"{directory}/"
        there |= {f"{prefix}{path}": size for path, size in sizes_below(root.child(directory)).items()}
    sizes = {}
    for path, expected in sorted(selection.found.files.items()):
        size = there.get(path)
        if size is None and "/_transactions/" in f"/{path}":
            continue  # it says how a version came to be, and no reader of the version needs it
        if size is None or (expected is not None and size != expected):
            selection.check()
            what = "is missing" if size is None else f"has {size:,} bytes; expected {expected:,}"
            raise Corrupt(
                f"{path!r}, which a snapshot refers to, {what}; `lance-flight verify` says which rows are concerned"
            )
        sizes[path] = size
    return sizes


JOURNAL = "journal-"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """Report of a backup: its manifest, and how many files with how many bytes it copied, or would (`dry_run`).

    `resumed` is True where an earlier run had begun it; `removed` are older backups that were removed, or would be.
    """

    manifest: BackupManifest
    copied_files: int
    copied_bytes: int
    resumed: bool
    dry_run: bool
    removed: tuple[str, ...] = ()


def backup(
    root: Root,
    target: Store,
    rules: BackupRules,
    progress: Progress | None = None,
    *,
    dry_run: bool = False,
    on_total: Progress | None = None,
    now: datetime | None = None,
) -> BackupReport:
    """Copy the snapshots that `rules` say to a new backup in `target`, or go on with one that was not finished.

    `on_total` is told the bytes and files of the whole before the first is copied. `now` is this moment where none is given.
    """
    now = now or datetime.now(UTC)
    _check_apart(root.store, target)
    selection = select(root, rules)
    sizes = sizes_of(root.store, selection)
    if on_total is not None:
        on_total(sum(sizes.values()), len(sizes))
    since = None if rules.keep is None else now - timedelta(seconds=rules.keep)
    backup_id = _find_unfinished(target, rules.request(root.store))
    run = _Run(
        root=root.store,
        target=target,
        id=backup_id or new_id(now, ids_in(target)),
        selection=selection,
        sizes=sizes,
    )
    if dry_run:
        run.earlier = _held_earlier(target, since) if rules.incremental else {}
        over = [] if since is None else _find_outdated(target, rules.selection(root.store), since)
        removed = tuple(backup.manifest.id for backup in over)
        return run.report(run.plan(), resumed=backup_id is not None, dry_run=True, removed=removed)
    _remove_leftovers(target)
    with _claim(run.place, rules.request(root.store)):
        # Once it has begun: no other process removes files that it finds from here on.
        run.earlier = _held_earlier(target, since) if rules.incremental else {}
        failpoint("backup_begun")
        manifest = run.copy(progress)
        if since is not None:
            run.place.put(KEEP_FILE, json.dumps(rules.selection(root.store)).encode())
        run.place.put(MANIFEST_FILE, manifest.to_bytes())
        failpoint("backup_listed")
        run.journal(None).remove()
        run.place.remove_files([BEGUN_FILE])
    if rules.table is None:
        note_backup(root.store, manifest.id)
    removed = () if since is None else prune(target, rules.selection(root.store), since)
    return run.report(manifest, resumed=backup_id is not None, dry_run=False, removed=removed)


def prune(target: Store, selection: Mapping[str, object], since: datetime) -> tuple[str, ...]:
    """Remove backups of a selection from a target that began before a moment, all but the newest one, and return their ids.

    Files that others need stay. Nothing is removed while a backup that began since then is not finished: it may rely on any.
    """
    outdated = _find_outdated(target, selection, since)
    removed = tuple(stored.manifest.id for stored in outdated)
    for backup_id in removed:
        target.child(backup_id).remove_files([MANIFEST_FILE])
    # Backups that begin from here on rely on none of them; one that has begun meanwhile may, and leaves the files to the next one.
    if _is_any_unfinished(target, since):
        return removed
    kept = [stored.manifest for stored in backups_in(target)]
    needed = {(file.backup or manifest.id, file.path) for manifest in kept for file in manifest.files}
    for backup_id in ids_in(target):
        place = target.child(backup_id)
        if MANIFEST_FILE in place.files() or BEGUN_FILE in place.files():
            continue
        # What a backup without a manifest holds is there for others, or was being removed.
        files = place.child(FILES)
        over = [path for path in sizes_below(files) if (backup_id, path) not in needed]
        if any(held == backup_id for held, _ in needed):
            files.remove_files(over)
        else:
            place.remove()
    return removed


def _find_outdated(target: Store, selection: Mapping[str, object], since: datetime) -> list[StoredBackup]:
    """Return the backups of a selection that are over."""
    if _is_any_unfinished(target, since):
        return []
    ours = [stored for stored in backups_in(target) if _kept_selection(target.child(stored.manifest.id)) == selection]
    return [stored for stored in ours[:-1] if stored.manifest.created_at < since]


def _is_any_unfinished(target: Store, since: datetime) -> bool:
    """Return whether a backup that began since a moment is not finished."""
    begun = [name for name in ids_in(target) if moment_of(name) >= since and BEGUN_FILE in target.child(name).files()]
    return not all(is_whole(target, name) for name in begun)


def _kept_selection(place: Store) -> object:
    """Return what a backup that was made to be kept for some time is of; None for any other one."""
    with suppress(FileNotFoundError, ValueError):
        return read_json(place.read(KEEP_FILE))
    return None


BACKED_UP = "backup.json"
"""The file in the private place of a root that says which backup of the whole was its last."""


def note_backup(root: Store, backup_id: str) -> None:
    """Note in a root that it was backed up; not in one that may not be written."""
    with suppress(LanceFlightError, *UNREADABLE):
        if not root.is_remote:
            Path(root.uri, PRIVATE).mkdir(mode=0o700, exist_ok=True)
        root.child(PRIVATE).write(BACKED_UP, json.dumps({"id": backup_id}).encode())


def last_backup(root: Store) -> datetime | None:
    """Return when the last backup of a whole root began; None where none is known."""
    try:
        return moment_of(read_json(root.child(PRIVATE).read(BACKED_UP))["id"])
    except (LanceFlightError, ValueError, KeyError, TypeError, *UNREADABLE):
        return None


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run that copies the files of a backup: `ours` are those that an earlier run has copied, `earlier` those of other backups."""

    root: Store
    target: Store
    id: str
    selection: BackupSelection
    sizes: Mapping[str, int]
    earlier: Mapping[str, SavedFile] = field(default_factory=dict)
    ours: dict[str, SavedFile] = field(init=False)
    copied: dict[str, int] = field(default_factory=dict)
    files: dict[str, SavedFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        there = sizes_below(self.place.child(FILES)) if self.id in ids_in(self.target) else {}
        self.ours = {path: file for path, file in self.journal(None).read().items() if there.get(path) == file.size}

    @property
    def place(self) -> Store:
        """The directory of the backup."""
        return self.target.child(self.id)

    def journal(self, progress: Progress | None) -> Journal:
        """Return the journal of this backup."""
        return Journal(self.place, JOURNAL, "backup_journaled", progress)

    def held(self, path: str) -> SavedFile | None:
        """Return the copy of a file that is there already: told by name and size, or read where those say nothing of its content."""
        if not is_content(path):
            return self._same(path)
        for known in (self.ours.get(path), self.earlier.get(path)):
            if known is not None and known.size == self.sizes[path]:
                return known
        return None

    def copy(self, progress: Progress | None) -> BackupManifest:
        """Copy what is missing, and return the manifest of all."""
        journal = self.journal(progress)
        try:
            in_parallel(partial(self._copy, journal), sorted(self.sizes))
        finally:
            journal.flush()
        self.selection.check()
        self._remove_others()
        failpoint("backup_copied")
        return self.manifest([self.files[path] for path in sorted(self.files)])

    def plan(self) -> BackupManifest:
        """Return the manifest without checksums, and count what would be copied."""
        self.copied = {path: size for path, size in self.sizes.items() if self.held(path) is None}
        return self.manifest(SavedFile(path=path, size=size, sha256="") for path, size in self.sizes.items())

    def report(
        self, manifest: BackupManifest, *, resumed: bool, dry_run: bool, removed: tuple[str, ...] = ()
    ) -> BackupReport:
        """Return the report of this run."""
        return BackupReport(
            manifest=manifest,
            copied_files=len(self.copied),
            copied_bytes=sum(self.copied.values()),
            resumed=resumed,
            dry_run=dry_run,
            removed=removed,
        )

    def manifest(self, files: Iterable[SavedFile]) -> BackupManifest:
        """Return the manifest of this backup with some files."""
        return BackupManifest(
            id=self.id,
            root=self.root.uri,
            tables=tuple(self.selection.tables),
            files=tuple(files),
            schemas=tuple(self.selection.schemas),
            base_paths=self.selection.found.base_paths,
            not_kept=tuple(self.selection.not_kept),
        )

    def _copy(self, journal: Journal, path: str) -> None:
        known = self.held(path)
        if known is not None:
            self.files[path] = known
            journal.add(known, is_copied=False)
            return
        size, digest = copy(self.root, self.place, path, f"{FILES}/{path}")
        if is_content(path) and size != self.sizes[path]:
            raise Corrupt(
                f"{path!r} has {size:,} bytes; expected {self.sizes[path]:,}: it was changed while it was read"
            )
        self.files[path] = SavedFile(path=path, size=size, sha256=digest)
        self.copied[path] = size
        failpoint("backup_file_copied")
        journal.add(self.files[path])

    def _same(self, path: str) -> SavedFile | None:
        """Return the copy in an earlier backup of a file whose name says nothing of its content, where it is the same."""
        known = self.earlier.get(path)
        if known is not None and digest_of(pieces(self.root, path)) == (known.size, known.sha256):
            return known
        return None

    def _remove_others(self) -> None:
        """Delete what an earlier run copied of snapshots that are not the newest ones any more; not where two may run at once."""
        if not self.place.is_remote:
            kept = {path for path, file in self.files.items() if file.backup is None}
            files = self.place.child(FILES)
            files.remove_files(path for path in sizes_below(files) if path not in kept)


def _held_earlier(target: Store, since: datetime | None) -> dict[str, SavedFile]:
    """Return the files that whole backups of a target hold that began `since` then, each under the id of that backup; the newest for each path."""
    files: dict[str, SavedFile] = {}
    for stored in backups_in(target):
        if since is not None and stored.manifest.created_at < since:
            continue
        there = sizes_below(target.child(stored.manifest.id, FILES))
        for file in stored.manifest.files:
            if file.backup is None and there.get(file.path) == file.size:
                files[file.path] = SavedFile(
                    path=file.path, size=file.size, sha256=file.sha256, backup=stored.manifest.id
                )
    return files


def _find_unfinished(target: Store, request: Mapping[str, object]) -> str | None:
    """Return the newest unfinished backup of the same command."""
    for backup_id in reversed(ids_in(target)):
        place = target.child(backup_id)
        if not is_whole(target, backup_id) and BEGUN_FILE in place.files():
            try:
                if read_json(place.read(BEGUN_FILE)) == request:
                    return backup_id
            except ValueError:
                continue
    return None


def _remove_leftovers(target: Store) -> None:
    """Remove the journals of whole backups, which runs that were killed at their end have left."""
    for backup_id in ids_in(target):
        place = target.child(backup_id)
        if is_whole(target, backup_id) and BEGUN_FILE in place.files():
            Journal(place, JOURNAL, "backup_journaled").remove()
            place.remove_files([BEGUN_FILE])


def _check_apart(root: Store, target: Store) -> None:
    """Refuse a target in the root, whose tables it would seem to be, and a root in the target."""
    ours, theirs = f"{root.uri.rstrip('/')}/", f"{target.uri.rstrip('/')}/"
    if ours.startswith(theirs) or theirs.startswith(ours):
        raise InvalidInput(f"target {target.name!r} and root {root.name!r} lie in one another; expected a place apart")


@contextmanager
def _claim(place: Store, request: Mapping[str, object]) -> Iterator[None]:
    """Begin or take over an unfinished backup; `Conflict` where another process of this machine is at work on it."""
    if not place.is_remote:
        Path(place.uri).mkdir(parents=True, exist_ok=True)
    if BEGUN_FILE not in place.files():
        place.put(BEGUN_FILE, json.dumps(request).encode())
    with lock_file(place, BEGUN_FILE, f"backup {place.name!r}"):
        if MANIFEST_FILE in place.files():
            raise Conflict(
                f"another process has just finished backup {place.name!r}; expected the command to be run again"
            )
        yield
