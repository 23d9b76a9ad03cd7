"""Backups are made: snapshots are leased, their files listed and copied, and a manifest written last (server/docs/backup.md).

Nothing that lies in a target already is ever changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lance_flight.catalog.backup.backup_manifest import BackupManifest, SavedFile, new_id
from lance_flight.catalog.backup.copying import (
    Journal,
    Progress,
    copy,
    digest_of,
    in_parallel,
    locked,
    pieces,
    put,
    sizes_below,
)
from lance_flight.catalog.backup.selection import BackupRules, BackupSelection, select, sizes_of
from lance_flight.catalog.backup.snapshot_files import is_content
from lance_flight.catalog.backup.targets import BEGUN_FILE, FILES, MANIFEST_FILE, backups_in, ids_in, is_whole
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Conflict, Corrupt, InvalidInput
from lance_flight.faults import failpoint

JOURNAL = "journal-"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """Report of a backup: its manifest, and how many files with how many bytes it copied, or would (`dry_run`).

    `resumed` is True where an earlier run had begun it.
    """

    manifest: BackupManifest
    copied_files: int
    copied_bytes: int
    resumed: bool
    dry_run: bool


def backup(
    root: Root,
    target: Store,
    rules: BackupRules,
    progress: Progress | None = None,
    *,
    dry_run: bool = False,
    on_total: Progress | None = None,
) -> BackupReport:
    """Copy the snapshots that `rules` say to a new backup in `target`, or go on with one that was not finished.

    `on_total` is told the bytes and files of the whole before the first is copied.
    """
    _check_apart(root.store, target)
    selection = select(root, rules)
    sizes = sizes_of(root.store, selection)
    if on_total is not None:
        on_total(sum(sizes.values()), len(sizes))
    earlier = _held_earlier(target) if rules.incremental else {}
    backup_id = _unfinished(target, rules.request(root.store))
    run = _Run(
        root=root.store,
        target=target,
        id=backup_id or new_id(datetime.now(UTC), ids_in(target)),
        selection=selection,
        sizes=sizes,
        earlier=earlier,
    )
    if dry_run:
        return run.report(run.planned(), resumed=backup_id is not None, dry_run=True)
    _remove_leftovers(target)
    with _claimed(run.place, rules.request(root.store)):
        failpoint("backup_begun")
        manifest = run.copy(progress)
        put(run.place, MANIFEST_FILE, manifest.to_bytes())
        failpoint("backup_listed")
        run.journal(None).remove()
        run.place.remove_files([BEGUN_FILE])
    return run.report(manifest, resumed=backup_id is not None, dry_run=False)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run that copies the files of a backup: `ours` are those that an earlier run has copied, `earlier` those of other backups."""

    root: Store
    target: Store
    id: str
    selection: BackupSelection
    sizes: Mapping[str, int]
    earlier: Mapping[str, SavedFile]
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

    def planned(self) -> BackupManifest:
        """Return the manifest without checksums, and count what would be copied."""
        self.copied = {path: size for path, size in self.sizes.items() if self.held(path) is None}
        return self.manifest(SavedFile(path=path, size=size, sha256="") for path, size in self.sizes.items())

    def report(self, manifest: BackupManifest, *, resumed: bool, dry_run: bool) -> BackupReport:
        """Return the report of this run."""
        return BackupReport(
            manifest=manifest,
            copied_files=len(self.copied),
            copied_bytes=sum(self.copied.values()),
            resumed=resumed,
            dry_run=dry_run,
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


def _held_earlier(target: Store) -> dict[str, SavedFile]:
    """Return the files that whole backups of a target hold, each under the id of that backup; the newest for each path."""
    found: dict[str, SavedFile] = {}
    for stored in backups_in(target):
        there = sizes_below(target.child(stored.manifest.id, FILES))
        for file in stored.manifest.files:
            if file.backup is None and there.get(file.path) == file.size:
                found[file.path] = SavedFile(
                    path=file.path, size=file.size, sha256=file.sha256, backup=stored.manifest.id
                )
    return found


def _unfinished(target: Store, request: Mapping[str, object]) -> str | None:
    """Return the newest unfinished backup of the same command."""
    for backup_id in reversed(ids_in(target)):
        place = target.child(backup_id)
        if not is_whole(target, backup_id) and BEGUN_FILE in place.files():
            try:
                if json.loads(place.read(BEGUN_FILE)) == request:
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
def _claimed(place: Store, request: Mapping[str, object]) -> Iterator[None]:
    """Begin or take over an unfinished backup; `Conflict` where another process of this machine is at work on it."""
    if not place.is_remote:
        Path(place.uri).mkdir(parents=True, exist_ok=True)
    if BEGUN_FILE not in place.files():
        put(place, BEGUN_FILE, json.dumps(request).encode())
    with locked(place, BEGUN_FILE, f"backup {place.name!r}"):
        if MANIFEST_FILE in place.files():
            raise Conflict(
                f"another process has just finished backup {place.name!r}; expected the command to be run again"
            )
        yield
