"""Verification of a backup: every file read, and held against its size and SHA-256 in the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lance_flight.catalog.backup.backup_manifest import SavedFile
from lance_flight.catalog.backup.copying import Journal, Progress, digest_of, in_parallel, pieces
from lance_flight.catalog.backup.targets import StoredBackup
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Corrupt, LanceFlightError


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
                damaged.append(
                    f"{file.path!r} is not the file that backup {stored.manifest.id} holds: {size:,} bytes, of {file.size:,}"
                )
    return damaged


def _check(stored: StoredBackup, counter: Journal, damaged: list[str], file: SavedFile) -> None:
    place, path = stored.place_of(file)
    try:
        check_copy(file, *digest_of(pieces(place, path)))
    except LanceFlightError as exc:
        damaged.append(str(exc))
    counter.add(file, is_copied=False)
