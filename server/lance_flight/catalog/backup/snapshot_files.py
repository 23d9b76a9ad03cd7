"""Lists the files of a snapshot: of `__manifest` or a plain table at one version, and of each partition table at its pin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from lance import LanceDataset

from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.storage.blobs import has_extension
from lance_flight.catalog.storage.branches import tags_of
from lance_flight.catalog.storage.retries import RetryPolicy, retry
from lance_flight.catalog.storage.store import HERE, UNREADABLE, Store
from lance_flight.catalog.storage.table_cache import map_tables
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.partitions import open_at, path_of_base
from lance_flight.errors import Corrupt, NotFound, Unsupported
from lance_flight.model.pins import BranchVersion, Tag

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
