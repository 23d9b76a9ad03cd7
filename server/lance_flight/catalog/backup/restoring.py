"""Restoring of a root from a backup, whose files are checked, with the addresses in version files.

Lance names the directories that a version of a branch reads from (base paths) by absolute addresses.

A local root is made beside its place and renamed. In an object store the files that make tables visible, those of their
versions, are written last, and `.lance-flight/restore-begun.json` marks the root as unfinished until then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

from lance_flight.catalog.backup.backup_format import (
    BackupManifest,
    Journal,
    Progress,
    SavedFile,
    StoredBackup,
    copy,
    digest_of,
    in_parallel,
    lock_file,
    pieces,
    sizes_below,
)
from lance_flight.catalog.plain_table import table_at
from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.formats import RESTORING
from lance_flight.catalog.storage.store import FOR_SMALL_FILES, HERE, Store
from lance_flight.catalog.storage.whole_files import (
    LENGTH,
    MALFORMED,
    MESSAGES,
    PRIVATE,
    VERSIONS,
    is_version_name,
    locate_message,
)
from lance_flight.errors import AlreadyExists, Conflict, Corrupt, LanceFlightError, NotFound
from lance_flight.faults import failpoint
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import MANIFEST, TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Report of a verified backup: the files and bytes that were read, and each damaged file with what is wrong with it, by path."""

    files: int
    bytes: int
    damaged: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """True if every file is there as it was written."""
        return not self.damaged


def check_backup(stored: StoredBackup, progress: Progress | None = None) -> CheckReport:
    """Read every file of a backup, those that earlier backups hold for it too."""
    damaged: list[str] = []
    counter = Journal(stored.target, "", "backup_journaled", progress)
    in_parallel(partial(_check, stored, counter, damaged), stored.manifest.files)
    return CheckReport(files=len(stored.manifest.files), bytes=stored.manifest.size, damaged=tuple(sorted(damaged)))


def check_copy(file: SavedFile, size: int, digest: str) -> None:
    """Raise `Corrupt` unless what was read of a file has the size and the SHA-256 that the manifest says."""
    if size != file.size:
        raise Corrupt(f"{file.path!r} has {size:,} bytes in the backup; expected {file.size:,}")
    if digest != file.sha256:
        raise Corrupt(f"{file.path!r} has the SHA-256 {digest} in the backup; expected {file.sha256}")


def compare_with(stored: StoredBackup, table: Store) -> list[str]:
    """Return what is different in the files of a table that a backup holds, too; no file of a table changes once it is written."""
    damaged = []
    for file in stored.manifest.files:
        location, _, path = file.path.partition("/")
        if location == table.name and path and table.has(path):
            size, digest = digest_of(pieces(table, path))
            if (size, digest) != (file.size, file.sha256):
                difference = f"{size:,} bytes, of {file.size:,}" if size != file.size else "another SHA-256"
                damaged.append(f"{file.path!r} is not the file that backup {stored.manifest.id} holds: {difference}")
    return damaged


def _check(stored: StoredBackup, counter: Journal, damaged: list[str], file: SavedFile) -> None:
    place, path = stored.place_of(file)
    try:
        check_copy(file, *digest_of(pieces(place, path)))
    except LanceFlightError as exc:
        damaged.append(str(exc))
    counter.add(file, is_copied=False)


def with_base_paths(content: bytes, name: str, moved: Callable[[str], str]) -> bytes:
    """Return a version file in which each absolute address is what `moved` makes of it; the same bytes where none changes."""
    try:
        start, end = locate_message(content)
        manifest = MESSAGES.Manifest.FromString(content[start:end])
    except MALFORMED as exc:
        raise Corrupt(f"{name!r} is no version of a Lance table: {exc}") from exc
    before = [base.path for base in manifest.base_paths]
    after = [moved(path) for path in before]
    if after == before:
        return content
    for base, path in zip(manifest.base_paths, after, strict=True):
        base.path = path
    message: bytes = manifest.SerializeToString()
    return content[: start - LENGTH.size] + LENGTH.pack(len(message)) + message + content[end:]


JOURNAL = "restore-journal-"
"""Files of `.lance-flight/` while a root is restored; the names of directories there mean staging areas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """Report of a restore: the manifest of what is restored, and the files and bytes that this run copied, or would (`dry_run`)."""

    manifest: BackupManifest
    copied_files: int
    copied_bytes: int
    resumed: bool
    dry_run: bool


def restore(
    stored: StoredBackup,
    root: Store,
    only: TableName | None = None,
    progress: Progress | None = None,
    *,
    dry_run: bool = False,
) -> RestoreReport:
    """Make a root of a backup, or of one of its tables, at a place where nothing is; go on with one that was not finished.

    `Corrupt` names the first file that is missing or altered: nothing is visible then.
    """
    manifest = stored.manifest if only is None else _only(stored.manifest, only)
    request = {"backup": manifest.id, "target": stored.target.uri, "table": None if only is None else str(only)}
    run = _Run(stored, manifest, root, request)
    resumed = run.find()
    if not dry_run:
        with run.claim():
            failpoint("restore_begun")
            run.copy(progress)
            run.show()
    missing = [file for file in manifest.files if dry_run or file.path in run.copied]
    return RestoreReport(
        manifest=manifest,
        copied_files=len(missing),
        copied_bytes=sum(file.size for file in missing),
        resumed=resumed,
        dry_run=dry_run,
    )


def _only(manifest: BackupManifest, name: TableName) -> BackupManifest:
    known = [str(table.table_name) for table in manifest.tables]
    if str(name) not in known:
        raise NotFound.named("table", str(name), known)
    return manifest.only(name)


@dataclass(slots=True)
class _Run:
    """One run that copies the files of a backup to a new root."""

    stored: StoredBackup
    manifest: BackupManifest
    root: Store
    request: Mapping[str, object]
    work: Store = field(init=False)
    copied: set[str] = field(default_factory=set)

    def find(self) -> bool:
        """Choose where to work, and return whether an earlier run has begun there; `AlreadyExists` for a place that is taken."""
        self.work = self.root
        if RESTORING in self.root.child(PRIVATE).files():
            self._check_same()
            return True
        place = self.root.uri.rstrip("/")
        if self.root.is_link or Path(place).is_file() or self.root.directories() or self.root.files():
            raise AlreadyExists(f"{self.root.name!r} is not empty; expected a new place for the restored root")
        if self.root.is_remote:
            return False
        above, _, name = place.rpartition("/")
        self.work = Store(f"{above}/.{name}.restoring")
        if RESTORING in self.work.child(PRIVATE).files():
            self._check_same()
            return True
        if any(not path.startswith(f"{PRIVATE}/{RESTORING}") for path in sizes_below(self.work)):
            raise AlreadyExists(f"{self.work.name!r} is no unfinished restore; expected it to be removed, or renamed")
        return False

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Begin, or take over what an earlier run began; `Conflict` where another process of this machine is at work on it."""
        place = self.work.child(PRIVATE)
        place.check_way(RESTORING)
        if not self.work.is_remote:
            if self.work.is_link:
                raise Conflict(
                    f"{self.work.name!r} is a symbolic link; expected a directory of an earlier restore, or nothing"
                )
            Path(place.uri).mkdir(parents=True, exist_ok=True)
        if RESTORING not in place.files():
            place.put(RESTORING, json.dumps(self.request).encode())
        with lock_file(place, RESTORING, f"the restore of {self.root.name!r}"):
            yield

    def copy(self, progress: Progress | None) -> None:
        """Copy all files that an earlier run has not, those last that make tables visible, and look whether the tables can be read."""
        place = self.work.child(PRIVATE)
        journal = Journal(place, JOURNAL, "restore_journaled", progress)
        there = sizes_below(self.work)
        done = {path: file for path, file in journal.read().items() if path in there}
        if self.work != self.root:
            self._remove_others(there)
        content = [file for file in self.manifest.files if not _is_version(file.path)]
        versions = sorted((file for file in self.manifest.files if _is_version(file.path)), key=self._order)
        try:
            in_parallel(partial(self._copy, journal, done), content)
            flush(self.work.uri)
            failpoint("restore_copied")
            for file in versions:
                self._copy(journal, done, file)
        finally:
            journal.flush()
        self._check_tables()

    def show(self) -> None:
        """Make the root visible under its name."""
        self._make_schemas()
        if self.work != self.root:
            flush(self.work.uri)
            failpoint("restore_ready")
            try:
                Path(self.work.uri).rename(self.root.uri)
            except OSError as exc:
                raise AlreadyExists(f"{self.root.name!r} is not empty any more: {exc.strerror}") from exc
            flush(self.root.uri)
            self.work = self.root
        failpoint("restore_shown")
        place = self.root.child(PRIVATE)
        Journal(place, JOURNAL, "restore_journaled").remove()
        flush(self.root.uri)
        place.remove_files([RESTORING])

    def _order(self, file: SavedFile) -> tuple[int, str]:
        """Return when a version is written: those of partition tables first, then those of tables, that of a root's list last."""
        above = file.path.partition(f"{VERSIONS}/")[0].rstrip("/")
        shown = {
            "/".join(name for name in (table.location, MANIFEST * table.partitioned) if name not in {"", HERE})
            for table in self.manifest.tables
        }
        return (1 if above in shown else 2 * (above == MANIFEST)), file.path

    def _remove_others(self, there: Mapping[str, int]) -> None:
        """Delete what no file of the backup is, such as drafts of a run that died."""
        listed = {file.path for file in self.manifest.files}
        ours = (f"{PRIVATE}/{RESTORING}", f"{PRIVATE}/{JOURNAL}")
        self.work.remove_files(path for path in there if path not in listed and not path.startswith(ours))

    def _check_same(self) -> None:
        """Raise `Conflict` unless what was begun where this run works is the same restore."""
        try:
            begun = read_json(self.work.child(PRIVATE).read(RESTORING))
        except ValueError:
            begun = None
        if begun != self.request:
            raise Conflict(
                f"{self.work.name!r} is what a restore of {begun!r} has left; expected the same restore again, or the directory to be"
                " removed first"
            )

    def _copy(self, journal: Journal, done: Mapping[str, SavedFile], file: SavedFile) -> None:
        if done.get(file.path) == file:
            journal.add(file, is_copied=False)
            return
        place, path = self.stored.place_of(file)
        if _is_version(file.path):
            self._copy_version(file, place, path)
        else:
            check_copy(file, *copy(place, self.work, path, file.path))
        self.copied.add(file.path)
        failpoint("restore_file_copied")
        journal.add(file)

    def _copy_version(self, file: SavedFile, place: Store, path: str) -> None:
        """Copy the file of a version, which names the directories that it reads from by their addresses in the old root."""
        content = b"".join(pieces(place, path))
        check_copy(file, *digest_of([content]))
        self.work.put(file.path, with_base_paths(content, file.path, partial(self._moved_address, file)))

    def _moved_address(self, file: SavedFile, address: str) -> str:
        """Return the address in the new root of a directory of the old one."""
        relative = self.manifest.base_paths.get(address)
        table = file.path.partition(f"{VERSIONS}/")[0].partition("/tree/")[0].rstrip("/")
        if relative is None or (table and not f"{relative}/".startswith(f"{table}/")):
            raise Corrupt(f"{file.path!r} reads from {address!r}, which is no directory of its table in the backup")
        uri = self.root.child(relative).uri
        is_quoted = address.startswith(FOR_SMALL_FILES) and not self.root.is_remote
        return f"{FOR_SMALL_FILES}{quote(uri)}" if is_quoted else uri

    def _check_tables(self) -> None:
        """Raise an error unless the snapshot of each table can be read where it is restored."""
        for table in self.manifest.tables:
            table_at(self.work if table.location == HERE else self.work.child(table.location)).snapshot(table.snapshot)

    def _make_schemas(self) -> None:
        for name in self.manifest.schemas:
            if not self.work.is_remote and not self.work.has(name):
                self.work.child(name).make()


def _is_version(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return directory.rpartition("/")[2] == VERSIONS and is_version_name(name)
