"""Copying of files to and from the places of backups.

`<id>/backup.jsonl` is the manifest, `<id>/files/` has the files; while it is being made there are `<id>/begun.json` and a journal.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lance_flight.catalog.backup.backup_manifest import BackupManifest, SavedFile, is_id, to_lines
from lance_flight.catalog.storage.filesystems import filesystem
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Conflict, Corrupt, NotFound
from lance_flight.faults import failpoint
from lance_flight.model.json_documents import read_json

WORKERS = 4
PIECE = 4 << 20
"""Bytes that are read, hashed and written at a time."""
BATCH_FILES, BATCH_BYTES = 64, 256 << 20
"""Files, and bytes of them, after which the journal is written: what a run that dies copies again at most."""

Progress = Callable[[int, int], None]
"""Told how many bytes of how many files are done, together."""


def pieces(place: Store, path: str) -> Iterator[bytes]:
    """Yield the content of a file below a place; `Corrupt` where it is missing, or a link leads to it."""
    place.check_way(*path.split("/"))
    try:
        with closing(_reader(place, path)) as stream:
            while piece := stream.read(PIECE):
                yield piece
    except FileNotFoundError:
        raise Corrupt(f"{path!r} is missing in {place.name!r}") from None


def digest_of(content: Iterable[bytes]) -> tuple[int, str]:
    """Return the size and the SHA-256 of some content."""
    size, digest = 0, hashlib.sha256()
    for piece in content:
        size += len(piece)
        digest.update(piece)
    return size, digest.hexdigest()


def copy(source: Store, target: Store, path: str, target_path: str) -> tuple[int, str]:
    """Copy a file and return its size and SHA-256; it is durable once `Store.put` has written a file that lists it."""
    size, digest = 0, hashlib.sha256()
    with _writer(target, target_path) as stream:
        for piece in pieces(source, path):
            stream.write(piece)
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def sizes_below(place: Store) -> dict[str, int]:
    """Return the size of each file below a place, by its path; links are left out."""
    return {file.path: file.size for file in place.tree()}


def in_parallel(work: Callable[[Any], object], items: Sequence[Any]) -> None:
    """Run `work` on each item in a few threads, and raise its first error once those that have begun are over."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="backup") as pool:
        begun = [pool.submit(work, item) for item in items]
        wait(begun, return_when=FIRST_EXCEPTION)
        failed = next(
            (future for future in begun if future.done() and not future.cancelled() and future.exception()), None
        )
        if failed is not None:
            pool.shutdown(cancel_futures=True)
            failed.result()


@contextmanager
def lock_file(place: Store, name: str, what: str) -> Iterator[None]:
    """Hold the lock on a file of a local place; `Conflict` where another process has it. Object stores have no locks."""
    if place.is_remote:
        yield
        return
    handle = os.open(Path(place.uri, name), os.O_RDWR | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another process is at work on {what}; expected it to end first") from None
        yield
    finally:
        os.close(handle)


@dataclass(slots=True)
class Journal:
    """List of the files that are copied whole, written to `place` in batches, each a file `<prefix><hex>.jsonl`. Safe to share among threads.

    `point` is the failpoint of a batch that is written.
    """

    place: Store
    prefix: str
    point: str
    progress: Progress | None = None
    _waiting: list[SavedFile] = field(default_factory=list)
    _done: list[int] = field(default_factory=lambda: [0, 0])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> dict[str, SavedFile]:
        """Return what earlier runs have copied, by path; a batch that cannot be read counts as not there."""
        files: dict[str, SavedFile] = {}
        for name in self._names():
            with suppress(Corrupt, ValueError):
                lines = self.place.read(name).splitlines()
                files |= {file.path: file for file in map(SavedFile.from_json, map(read_json, lines))}
        return files

    def add(self, file: SavedFile, *, is_copied: bool = True) -> None:
        """Count a file that is done, and list it unless it was listed or is in another place (`is_copied` False)."""
        with self._lock:
            self._done[0] += file.size
            self._done[1] += 1
            if self.progress is not None:
                self.progress(*self._done)
            if is_copied:
                self._waiting.append(file)
            if len(self._waiting) >= BATCH_FILES or sum(saved_file.size for saved_file in self._waiting) >= BATCH_BYTES:
                self._write()

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            self._write()

    def remove(self) -> None:
        """Delete all batches."""
        self.place.remove_files(self._names())

    def _write(self) -> None:
        if self._waiting:
            content = to_lines(file.to_json() for file in self._waiting)
            self.place.put(f"{self.prefix}{secrets.token_hex(8)}.jsonl", content)
            self._waiting.clear()
            failpoint(self.point)

    def _names(self) -> list[str]:
        return [name for name in self.place.files() if name.startswith(self.prefix) and name.endswith(".jsonl")]


def _reader(place: Store, path: str) -> IO[bytes]:
    if not place.is_remote:
        return Path(place.uri, path).open("rb")
    files, top = filesystem(place.uri, place.storage_options)
    stream: IO[bytes] = files.open_input_stream(f"{top}/{path}")
    return stream


def _writer(place: Store, path: str) -> IO[bytes]:
    place.check_way(*path.split("/"))
    if not place.is_remote:
        local = Path(place.uri, path)
        local.parent.mkdir(parents=True, exist_ok=True)
        return local.open("wb")
    files, top = filesystem(place.uri, place.storage_options)
    stream: IO[bytes] = files.open_output_stream(f"{top}/{path}")
    return stream


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
    manifest = BackupManifest.from_bytes(target.child(backup_id).read(MANIFEST_FILE), backup_id)
    if manifest.id != backup_id:
        raise Corrupt(f"backup {backup_id!r} has the manifest of {manifest.id!r}")
    return StoredBackup(target, manifest)


def backups_in(target: Store) -> Iterator[StoredBackup]:
    """Yield all whole backups of a target, oldest first."""
    return (read_backup(target, backup_id) for backup_id in ids_in(target) if is_whole(target, backup_id))


def backup_at(place: Store, backup_id: str | None = None) -> StoredBackup:
    """Return the backup at a place, which is itself one or a target; of a target the one with an id, or the newest whole one."""
    if backup_id is None and MANIFEST_FILE in place.files() and is_id(place.name):
        return read_backup(place.parent, place.name)
    if backup_id is not None:
        return read_backup(place, backup_id)
    whole = [identifier for identifier in ids_in(place) if is_whole(place, identifier)]
    if not whole:
        raise NotFound(
            f"there is no backup in {place.name!r}; expected a directory that `lance-flight backup` wrote to"
        )
    return read_backup(place, whole[-1])
