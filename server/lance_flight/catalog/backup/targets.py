"""The backups in a target: each a directory called after its id, which is one from the moment its manifest is there.

`<id>/backup.jsonl` is the manifest, `<id>/files/` has the files; while it is being made there are `<id>/begun.json` and a journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lance_flight.catalog.backup.backup_manifest import BackupManifest, SavedFile, is_id
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Corrupt, NotFound

MANIFEST_FILE = "backup.jsonl"
BEGUN_FILE = "begun.json"
FILES = "files"


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A whole backup: the target that it is in, and its manifest."""

    target: Store
    manifest: BackupManifest

    def place_of(self, file: SavedFile) -> tuple[Store, str]:
        """Return where a file lies: the target, and its path there."""
        return self.target, f"{file.backup or self.manifest.id}/{FILES}/{file.path}"


def ids_in(target: Store) -> list[str]:
    """Return the ids in a target, of unfinished backups too, oldest first."""
    return [name for name in target.directories() if is_id(name)]


def is_whole(target: Store, backup_id: str) -> bool:
    """Return whether a backup has its manifest."""
    return MANIFEST_FILE in target.child(backup_id).files()


def read_backup(target: Store, backup_id: str) -> StoredBackup:
    """Return a backup of a target; `NotFound` where it is not there or was not finished, `Corrupt` where it was altered."""
    if backup_id not in ids_in(target):
        raise NotFound.named("backup", backup_id, ids_in(target))
    if not is_whole(target, backup_id):
        raise NotFound(f"backup {backup_id!r} was not finished: it has no {MANIFEST_FILE}; run the same backup again")
    found = BackupManifest.from_bytes(target.child(backup_id).read(MANIFEST_FILE), backup_id)
    if found.id != backup_id:
        raise Corrupt(f"backup {backup_id!r} has the manifest of {found.id!r}")
    return StoredBackup(target, found)


def backups_in(target: Store) -> Iterator[StoredBackup]:
    """Yield all whole backups of a target, oldest first."""
    return (read_backup(target, each) for each in ids_in(target) if is_whole(target, each))


def backup_at(place: Store, backup_id: str | None = None) -> StoredBackup:
    """Return the backup at a place, which is itself one or a target; of a target the one with an id, or the newest whole one."""
    if backup_id is None and MANIFEST_FILE in place.files() and is_id(place.name):
        return read_backup(place.parent, place.name)
    if backup_id is not None:
        return read_backup(place, backup_id)
    whole = [each for each in ids_in(place) if is_whole(place, each)]
    if not whole:
        raise NotFound(
            f"there is no backup in {place.name!r}; expected a directory that `lance-flight backup` wrote to"
        )
    return read_backup(place, whole[-1])
