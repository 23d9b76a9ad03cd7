"""The format of backups: the manifest with each file and its SHA-256, and where and how files are copied.

`<id>/backup.jsonl` is the manifest, `<id>/files/` has the files; while it is being made there are `<id>/begun.json` and a journal.

The manifest is JSON lines: a header, one line for each file, and an end with the counts and the SHA-256 of all lines before it. What is
parsed is not trusted: a path leads nowhere but to a file of a table that the header names, or to a view.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct

from lance_flight.catalog.storage.filesystems import filesystem
from lance_flight.catalog.storage.formats import BACKUP
from lance_flight.catalog.storage.store import HERE, Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.errors import Conflict, Corrupt, NotFound
from lance_flight.faults import failpoint
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import LONGEST_FILE_NAME, MANIFEST, TableName

FORMAT_KEY = "lance_flight_backup"
BACKUP_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{4}")
_MOMENT = "%Y%m%dT%H%M%S.%fZ"
VIEW_FILE = re.compile(rf"{re.escape(PRIVATE)}/view-[0-9a-f]{{32}}\.json")
_REFUSED = re.compile(r"[\x00-\x1f\x7f\\]")
"""Matches characters that no path of ours has, and that other systems read as more than part of a name."""


class SavedFile(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One file: its path below the root, its bytes, its SHA-256, and the earlier backup of the target that holds it (None: this one)."""

    path: str
    size: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    backup: str | None = None

    def __post_init__(self) -> None:
        checked_path(self.path)
        if self.backup is not None and not is_id(self.backup):
            raise Corrupt(f"a backup names {self.backup!r}; expected the id of another backup")


class SavedTable(Struct, frozen=True, kw_only=True):
    """One table: its name, its directory below the root, the version that is its snapshot, and when that was committed."""

    db_schema: str
    name: str
    location: str
    partitioned: bool
    snapshot: int
    committed_at: str

    def __post_init__(self) -> None:
        if self.location != HERE:
            checked_path(self.location)

    @property
    def table_name(self) -> TableName:
        """The name that SQL has for it."""
        return TableName(self.db_schema, self.name)

    def holds(self, path: str) -> bool:
        """Return whether a path is that of a file of this table."""
        return self.location == HERE or path.startswith(f"{self.location}/")


class BackupManifest(Struct, frozen=True, kw_only=True):
    """Manifest of one backup.

    `base_paths` maps the absolute addresses that version files name to the directories below the root that they mean;
    `not_kept` says, one line each, what the root had and the backup has not.
    """

    id: str
    root: str
    tables: tuple[SavedTable, ...]
    schemas: tuple[str, ...] = ()
    base_paths: Mapping[str, str] = msgspec.field(default_factory=dict)
    not_kept: tuple[str, ...] = ()
    files: tuple[SavedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the earlier backups that hold files of this one."""
        return tuple(sorted({file.backup for file in self.files if file.backup is not None}))

    @property
    def created_at(self) -> datetime:
        """The moment at which the backup began."""
        return moment_of(self.id)

    def to_bytes(self) -> bytes:
        """Return the manifest as it is stored."""
        header = {FORMAT_KEY: BACKUP.newest, **msgspec.to_builtins(self)}
        content = to_lines([header, *header.pop("files")])
        end = {"files": len(self.files), "bytes": self.size, "sha256": hashlib.sha256(content).hexdigest()}
        return content + to_lines([end])

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Parse a stored manifest; `Corrupt` where it was altered, `NewerFormat` for one of a newer format."""
        *lines, last = content.splitlines(keepends=True) or [b""]
        before = b"".join(lines)
        try:
            header, *files = [read_json(line) for line in lines]
            end = read_json(last)
            BACKUP.check(header[FORMAT_KEY], f"backup {name!r}")
            if end["sha256"] != hashlib.sha256(before).hexdigest() or end["files"] != len(files):
                raise Corrupt(f"the manifest of backup {name!r} was altered: its checksum is another one")
            manifest = msgspec.convert({**header, "files": files}, cls)
        except (ValueError, KeyError, TypeError, AttributeError, msgspec.ValidationError) as exc:
            raise Corrupt(f"the manifest of backup {name!r} cannot be read: {exc!r}") from exc
        manifest.check()
        return manifest

    def check(self) -> None:
        """Raise `Corrupt` unless every file belongs to a table or is a view, and no path is there twice or inside another one."""
        if not is_id(self.id):
            raise Corrupt(f"a backup has the id {self.id!r}; expected a time and four digits, {BACKUP_ID.pattern}")
        for path in (*self.schemas, *self.base_paths.values()):
            checked_path(path)
        paths = {file.path for file in self.files}
        if len(paths) != len(self.files):
            raise Corrupt(f"backup {self.id} lists a path twice")
        for path in paths:
            names = path.split("/")
            if any("/".join(names[:depth]) in paths for depth in range(1, len(names))):
                raise Corrupt(f"backup {self.id} lists {path!r} below a file")
            is_listing = names[0] == MANIFEST
            is_private = PRIVATE in names
            if VIEW_FILE.fullmatch(path) is None and (
                is_private or not (is_listing or any(table.holds(path) for table in self.tables))
            ):
                raise Corrupt(f"backup {self.id} lists {path!r}; expected a file of one of its tables, or a view")

    def only(self, name: TableName) -> BackupManifest:
        """Return the manifest of one of its tables alone."""
        (table,) = (table for table in self.tables if table.table_name == name)
        files = tuple(file for file in self.files if table.holds(file.path))
        return msgspec.structs.replace(self, tables=(table,), files=files, schemas=(), not_kept=())


def new_id(now: datetime, known: Sequence[str] = ()) -> str:
    """Return the id of a backup that begins at a moment, or just after the newest of those `known`: ids sort by time.

    >>> new_id(datetime(2026, 3, 1, tzinfo=UTC), ["20260301T020000.000000Z-1f3c"])[:-4]
    '20260301T020000.000001Z-'
    """
    moment = max([now.astimezone(UTC), *(moment_of(backup_id) + timedelta(microseconds=1) for backup_id in known)])
    return f"{moment.strftime(_MOMENT)}-{secrets.token_hex(2)}"


def is_id(name: str) -> bool:
    """Return whether a name is the id of a backup.

    >>> is_id("20260301T020000.000000Z-1f3c"), is_id("20261301T020000.000000Z-1f3c")
    (True, False)
    """
    try:
        moment_of(name)
    except ValueError:
        return False
    return BACKUP_ID.fullmatch(name) is not None


def moment_of(backup_id: str) -> datetime:
    """Return the moment at which a backup began."""
    return datetime.strptime(backup_id.partition("-")[0], _MOMENT).replace(tzinfo=UTC)


def checked_path(path: Any) -> str:
    """Return a path itself if it stays below the directory that it is in, however that is called, else `Corrupt`.

    >>> checked_path("t.lance/data/a.lance")
    't.lance/data/a.lance'
    """
    names = path.split("/") if isinstance(path, str) else [""]
    is_long = any(len(name.encode(errors="replace")) > LONGEST_FILE_NAME for name in names)
    if is_long or any(name in {"", ".", ".."} or _REFUSED.search(name) for name in names) or "://" in str(path):
        raise Corrupt(f"a backup names {path!r}; expected a relative path without '.', '..' and empty parts")
    return str(path)


def to_lines(values: Iterable[Any]) -> bytes:
    """Return values as JSON lines."""
    return b"".join(json.dumps(value, separators=(",", ":")).encode() + b"\n" for value in values)


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
            with suppress(Corrupt, ValueError, msgspec.ValidationError):
                lines = map(read_json, self.place.read(name).splitlines())
                files |= {file.path: file for file in msgspec.convert([*lines], list[SavedFile])}
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
            content = to_lines(map(msgspec.to_builtins, self._waiting))
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
