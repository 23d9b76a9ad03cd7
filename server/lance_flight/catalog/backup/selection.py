"""Selects what is backed up: tables at leased snapshots, and the files that these, and the root itself, consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lance_flight.catalog.backup.backup_manifest import VIEW_FILE, SavedTable
from lance_flight.catalog.backup.copying import sizes_below
from lance_flight.catalog.backup.snapshot_files import (
    SnapshotFiles,
    files_of,
    location_of,
    not_kept,
    version_files,
)
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import PUBLIC, Root
from lance_flight.catalog.roots.table_name import TableName
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.storage.location_guard import LocationGuard
from lance_flight.catalog.storage.private_directory import PRIVATE
from lance_flight.catalog.storage.store import HERE, Store
from lance_flight.catalog.table import Table
from lance_flight.errors import Conflict, Corrupt, InvalidInput, NotFound, Unsupported
from lance_flight.model.naming import MANIFEST, PLAIN_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRules:
    """Rules of a backup: one table (None: the whole root without those in `exclude`), at a version or tag of it (None: the newest).

    An `incremental` one leaves in earlier backups of the target what they have already.
    """

    table: TableName | None = None
    at: int | str | None = None
    exclude: tuple[TableName, ...] = ()
    incremental: bool = False

    def __post_init__(self) -> None:
        if self.at is not None and self.table is None:
            raise InvalidInput(f"snapshot {self.at!r} is one of a single table; expected --table with it")

    def request(self, root: Store) -> Mapping[str, object]:
        """Return what tells an unfinished backup from that of another command."""
        return {
            "root": root.uri,
            "table": None if self.table is None else str(self.table),
            "at": self.at,
            "exclude": sorted(map(str, self.exclude)),
            "incremental": self.incremental,
        }


@dataclass(slots=True)
class BackupSelection:
    """Tables at their snapshots, held by leases while this is referenced, and the files of all of them."""

    found: SnapshotFiles
    tables: list[SavedTable] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    not_kept: list[str] = field(default_factory=list)
    leases: list[SnapshotLease] = field(default_factory=list)
    guards: list[_TableGuard] = field(default_factory=list)

    def check(self) -> None:
        """Raise `Conflict` where a table was dropped, replaced or renamed since its snapshot was read."""
        for guard in self.guards:
            guard.check()


@dataclass(frozen=True, slots=True)
class _TableGuard:
    """Guard of a version of a table at its place: the file of it on a local disk, its time in an object store."""

    name: str
    place: Store
    version: int
    committed_at: datetime
    file: LocationGuard

    def check(self) -> None:
        """Raise `Conflict` unless the version is still there, and no other table's."""
        is_there = self.file.is_there
        if self.place.is_remote:
            try:
                found = self.place.uncached.open(self.version).get_version()["timestamp"].astimezone(UTC)
            except (NotFound, Corrupt):
                is_there = False
            else:
                is_there = found == self.committed_at
        if not is_there:
            raise Conflict(f"table {self.name!r} was dropped or renamed while it was backed up; run the backup again")


def select(root: Root, rules: BackupRules) -> BackupSelection:
    """Read and lease the snapshots of all tables first, then list their files."""
    names = [rules.table] if rules.table is not None else [n for n in root.tables() if n not in rules.exclude]
    for name in rules.exclude:
        root.table(name)
    selection = BackupSelection(SnapshotFiles(root.store))
    read = [(name, *_leased(root, name, rules.at, selection)) for name in names]
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


def _leased(root: Root, name: TableName, at: int | str | None, selection: BackupSelection) -> tuple[Table, Snapshot]:
    table = root.table(name)
    if table.branch is not None:
        raise Unsupported(
            f"{name.name!r} is a branch; expected a table: what is published is in a backup of the main branch"
        )
    if isinstance(at, int) and at not in (known := [version for version, _ in table.log.history()]):
        raise NotFound(f"table {name.name!r} has no snapshot {at}; expected {known[0]} to {known[-1]}")
    snapshot = table.snapshot(at)
    selection.leases.append(table.hold(snapshot, is_newest=at is None))
    place, version = table.log.store, snapshot.version
    guard = _TableGuard(name.name, place, version, snapshot.committed_at, LocationGuard.of(place, version))
    selection.guards.append(guard)
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
