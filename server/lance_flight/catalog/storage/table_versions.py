"""Versions of tables: their files, the newest of which is found without a listing, opened ones that are kept, and new ones.

A local directory is listed whole, a quarter of a millisecond for every thousand versions, however few are new. Versions
follow each other without a gap at the head, so it is enough to look for the one after the version that was the newest a
moment ago. Object stores list the newest first anyway.

Lance commits wherever it is told to, and makes the directories: to a table that was renamed or dropped meanwhile it commits
without a word, and nobody finds what was written. So each commit looks once more whether the version it went on top of
is still there.

In a cache a version is told by its file, so that a table which was made again in the same place is another one; in an object store, where to
look at the file is a request, by the moment of its commit, or by a place that no other table ever has.

A version with other files or deleted rows is written as Lance writes it, byte for byte, in a fifth of its time. A version file is the indices, the transaction and the manifest, each a protobuf message after its length, and a footer. The next version
copies all of the one before but its fragments, and says another number, moment and transaction. Whatever else a version may say is
left to Lance: metadata, base paths, stable row ids, and a version that another release has written.

In an object store two requests write a version, where Lance lists all versions in a third one. Of tables there only those of partitions are
written: their directories are never made again, so that what is known of a version stays true.
"""

from __future__ import annotations

import os
import stat
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import lance
from google.protobuf.unknown_fields import UnknownFieldSet
from lance import FragmentMetadata, LanceDataset, LanceOperation

from lance_flight.catalog.storage.filesystems import PutClient, put_client
from lance_flight.catalog.storage.leases import GRACE
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import (
    LENGTH,
    MALFORMED,
    MESSAGES,
    VERSIONS,
    is_version_name,
    locate_message,
    version_name,
    version_names,
)
from lance_flight.errors import Conflict, Corrupt, NotFound, OutcomeUnknown, SerializationFailure, storage_error
from lance_flight.lru_cache import IDLE_SECONDS, LruCache, VersionCache
from lance_flight.model.naming import MANIFEST, is_table_directory

TRUSTED_SECONDS = GRACE / 2
"""Vacuum leaves what was the newest version within `GRACE`: for less than that, nothing behind it can be missing."""

VersionFile: TypeAlias = tuple[int, int, int, int]
"""A version, and what tells its file from that of the same version of a table that was made again."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The version that was the newest one at a moment."""

    file: VersionFile
    at: float

    @property
    def version(self) -> int:
        return self.file[0]


class LatestVersion:
    """Memory of the version of one table that was the newest. Safe to share among threads."""

    def __init__(self, table: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = None if table.is_remote else table.uri
        self._clock = clock
        self._seen: _Seen | None = None

    def look(self) -> int | None:
        """Return the newest version; None where only a listing can tell."""
        head = self.head()
        return None if head is None else head[0]

    def head(self) -> VersionFile | None:
        """Return the newest version with its file; None where only a listing can tell."""
        now, seen = self._clock(), self._seen
        if seen is None or now - seen.at > TRUSTED_SECONDS or self.file(seen.version) != seen.file:
            return None
        file = seen.file
        while (following := self.file(file[0] + 1)) is not None:
            file = following
        self._seen = _Seen(file, now)
        return file

    def saw(self, version: int, at: float) -> None:
        """Remember what a listing that began at a moment of the clock has found."""
        file = self.file(version)
        self._seen = None if file is None else _Seen(file, at)

    def now(self) -> float:
        """Return the moment, by the clock that `saw` takes it from."""
        return self._clock()

    def file(self, version: int) -> VersionFile | None:
        """Return the file of a version; None where there is none of our naming, or it is not a local one."""
        return None if self._place is None else version_file(self._place, version)


def version_file(table: str, version: int) -> VersionFile | None:
    """Return the file of a version of the table in a local directory.

    None where there is none of our naming, or it is a link.
    """
    try:
        state = os.lstat(f"{table}/{VERSIONS}/{version_name(version)}")
    except OSError:
        return None
    if stat.S_ISLNK(state.st_mode):
        return None
    return version, state.st_ino, state.st_mtime_ns, state.st_size


def is_followed(table: Store, version: int) -> bool | None:
    """Return whether a version of a table has a next one; None where files cannot tell: they are not local, or of other names."""
    if table.is_remote or version_file(table.uri, version) is None:
        return None
    return version_file(table.uri, version + 1) is not None


@dataclass(frozen=True, slots=True)
class LocationGuard:
    """A version of a table, as the file of it that lay there; in object stores, as the moment of its commit."""

    place: Store
    version: int
    file: tuple[int, int] | None
    committed_at: datetime | None = None

    @classmethod
    def of(cls, place: Store, version: int, committed_at: datetime | None = None) -> LocationGuard:
        """Record the version as it lies there now; in an object store it is guarded if its moment is given."""
        return cls(place, version, None if place.is_remote else _file(place, version), committed_at)

    @property
    def is_there(self) -> bool:
        """True if the version is still at this location, and no other table's."""
        if self.place.is_remote:
            return self.committed_at is None or _moment(self.place, self.version) == self.committed_at
        return self.file is None or _file(self.place, self.version) == self.file

    def check(self, table: str, made: int, transaction: str) -> None:
        """Raise `SerializationFailure` after a commit whose base was removed, and remove the version that Lance's `transaction` has `made`.

        `OutcomeUnknown` where that is not here: the table had it already when it was dropped or renamed.
        """
        if self.is_there:
            return
        gone = "was dropped or replaced" if self.place.is_remote else "was dropped or renamed"
        if not self._is_made_by(transaction, made):
            raise OutcomeUnknown(f"a commit to {table!r} was made, and the table {gone} by another writer")
        versions = [name for name in self.place.child(VERSIONS).files() if is_version_name(name)]
        # What Lance has made of an empty place is nobody's; where another table lies by now there are its own versions.
        if versions == [version_name(made)] and not self.place.is_remote:
            self.place.remove()
            if self.place.name == MANIFEST:
                with suppress(OSError):
                    Path(self.place.parent.uri).rmdir()
        else:
            self.place.remove_files([f"{VERSIONS}/{version_name(made)}"])
        raise SerializationFailure(f"table {table!r} {gone} by another writer")

    def _is_made_by(self, transaction: str, made: int) -> bool:
        """Return whether a version of the table that has the place by now comes from a transaction of Lance."""
        try:
            done = self.place.uncached.open(made).read_transaction(made)
        except (NotFound, Corrupt, *UNREADABLE):
            return False
        return done is not None and done.uuid == transaction


def _moment(place: Store, version: int) -> datetime | None:
    """Return when a version in an object store was committed; None where it is not there any more."""
    try:
        moment: datetime = place.open(version).get_version()["timestamp"]
    except (NotFound, Corrupt):
        return None
    return moment.astimezone(UTC)


def _file(place: Store, version: int) -> tuple[int, int] | None:
    for name in version_names(version):
        with suppress(OSError):
            state = os.stat(f"{place.uri}/{VERSIONS}/{name}")  # noqa: PTH116 - several times quicker
            return state.st_ino, state.st_mtime_ns
    return None


MOST_TABLES = 1024
MOST_MANIFEST_BYTES = 16 << 10
"""A dataset holds its manifest in memory, which lists every file of the table."""
_MOST_CONTENT_BYTES = 16 << 20
_BYTES_OF_A_FRAGMENT = 256


class TableCache:
    """Versions of tables that scans have opened, and in object stores also those that this process has committed last.

    The scans of a version share its dataset: nothing may be called on it that changes a dataset. Safe to share among threads.
    """

    def __init__(self) -> None:
        self._opened = VersionCache[tuple[str, str | None], VersionFile, LanceDataset](MOST_TABLES, most_versions=2)
        self._contents = LruCache[tuple[str, int], tuple[str, bytes]](
            MOST_TABLES,
            most_weight=_MOST_CONTENT_BYTES,
            weigh=lambda kept: len(kept[1]),
            idle_seconds=IDLE_SECONDS,
        )

    def open(self, table: Store, version: int, committed_at: datetime | None = None) -> LanceDataset:
        """Return the dataset at a version, for a scan, from memory where it lies there still; raises as `Store.open` does.

        In an object store `committed_at` tells a version from the same one of a table that was made again in this place.
        """
        if table.session is not None:
            return table.open(version)
        if table.is_remote:
            return self._open_remote(table, version, committed_at)
        file = version_file(table.uri, version)
        if file is None or file[-1] > MOST_MANIFEST_BYTES:
            return table.open(version)
        table.check_links()
        return self._opened.find((table.uri, table.top), file, partial(table.open, version))

    def open_to_commit(self, table: Store, version: int, committed_at: datetime | None = None) -> LanceDataset:
        """Return the same for a commit, as an object of its own but in an object store: to open a local table costs what to look it up does."""
        if table.is_remote:
            return self._open_remote(table, version, committed_at)
        return table.open(version, to_commit=True)

    def _open_remote(self, table: Store, version: int, committed_at: datetime | None) -> LanceDataset:
        dataset = self.recall(table, version, committed_at)
        if dataset is None:
            dataset = table.open(version, manifest=self.manifest(table, version))
            self.keep(table, dataset)
        return dataset

    def recall(self, table: Store, version: int, committed_at: datetime | None) -> LanceDataset | None:
        """Return the dataset at a version of a table in an object store from memory; None where that may be another table's."""
        known = self._opened.get((table.uri, table.top), _remote_file(version))
        return known[0] if known is not None and _is_of(table, known[0], committed_at) else None

    def keep(self, table: Store, dataset: LanceDataset) -> None:
        """Remember a version of a table in an object store that was just committed or opened; one with many files is left out."""
        fragments = int(dataset.get_version()["metadata"]["total_fragments"]) if table.is_remote else 0
        if table.is_remote and fragments * _BYTES_OF_A_FRAGMENT <= MOST_MANIFEST_BYTES:
            self._opened.put((table.uri, table.top), _remote_file(int(dataset.version)), dataset)

    def keep_content(self, table: Store, version: int, content: bytes) -> None:
        """Remember the file of a version of a partition table in an object store."""
        self._contents.pop((table.uri, version - 1))
        self._contents.put((table.uri, version), (table.uri, content))

    def content(self, table: Store, version: int) -> bytes | None:
        """Return the file of a version that was kept; None where it is not known."""
        known = self._contents.get((table.uri, version))
        return None if known is None else known[1]

    def manifest(self, table: Store, version: int) -> bytes | None:
        """Return the manifest of a version whose file was kept, with which it is opened by one request, not two."""
        content = self.content(table, version)
        return None if content is None else content[slice(*locate_message(content))]

    def forget(self, table: Store) -> None:
        """Forget the versions of a table whose directory this process is about to remove: another one may make it again."""
        if table.is_remote:
            self._opened.forget((table.uri, table.top))
            self._contents.discard(lambda kept: kept[0] == table.uri)


def _is_of(table: Store, dataset: LanceDataset, committed_at: datetime | None) -> bool:
    """Return whether a version in an object store that was read once is the one that lies there now; nothing is asked for.

    It is if it was committed at the moment that is known of it. The directory of a partition table has a random name, and is not made
    again once a table in it was shown.
    """
    if committed_at is None:
        return is_table_directory(table.name)
    moment: datetime = dataset.get_version()["timestamp"]
    return moment.astimezone(UTC) == committed_at


def _remote_file(version: int) -> VersionFile:
    """Return what stands for the file of a version in an object store, where to look at it is a request."""
    return version, 0, 0, 0


kept_tables = TableCache()
"""Those of this process."""


S = TypeVar("S")
T = TypeVar("T")

OPENERS = 8
"""Threads of one piece of work that open tables at once."""


def map_tables(work: Callable[[S], T], tables: Iterable[S], name: str) -> list[T]:
    """Call `work` with each table, `OPENERS` at a time in threads of a `name`, and return the results in order."""
    context = copy_context()
    with ThreadPoolExecutor(OPENERS, thread_name_prefix=name) as pool:
        return list(pool.map(lambda table: context.copy().run(work, table), tables))


LONGEST = 256 << 10
"""Bytes of a version file from which on it is left to Lance: to read one the first time takes a microsecond for each hundred bytes."""
MOST_KNOWN, MOST_KNOWN_BYTES = 1024, 16 << 20
_LEFT_VERSIONS = 32
"""Versions of a table in an object store that are left to Lance once one of them was, before another one is read."""
_TRANSACTIONS, _HINT = "_transactions", "latest_version_hint.json"

_HAS_DELETIONS = 1
"""The only feature of a table that is known here: files that say which rows are deleted."""
_FOOTER = struct.Struct("<QHH4s")

WRITER: bytes = MESSAGES.WriterVersion(library="lance", version=lance.__version__).SerializeToString()
"""What a version says that this release of Lance has written."""


@dataclass(frozen=True, slots=True)
class _Version:
    """Content of a version file: its manifest, and its `indices` with their length, empty where there are none."""

    manifest: Any
    indices: bytes

    @classmethod
    def read(cls, content: bytes) -> _Version | None:
        """Return what a version says; None where it says anything that is not known here."""
        try:
            start, end = locate_message(content)
            (length,) = LENGTH.unpack_from(content)
        except MALFORMED:
            return None
        return cls.of(content[start:end], content[: LENGTH.size + length])

    @classmethod
    def of(cls, message: bytes, indices: bytes) -> _Version | None:
        """Return what a manifest says; the `indices` of its file count where it says that there are some."""
        try:
            manifest = MESSAGES.Manifest.FromString(message)
        except MALFORMED:
            return None
        is_known = (
            not len(UnknownFieldSet(manifest))
            and not manifest.base_paths
            and manifest.writer_version == WRITER
            and bool(manifest.data_format)
            and {manifest.reader_feature_flags, manifest.writer_feature_flags} <= {0, _HAS_DELETIONS}
            and not manifest.index_section
        )
        if not is_known:
            return None
        return cls(manifest, indices if manifest.HasField("index_section") else b"")

    def next(self, change: _Change) -> _Version | None:
        """Return the next version, with the fragments after a change; None where one that goes or changes is not there.

        Added fragments of number 0 are numbered here.
        """
        manifest = MESSAGES.Manifest()
        manifest.CopyFrom(self.manifest)
        manifest.version += 1
        if change.changed or change.removed:
            waiting = {**change.changed, **dict.fromkeys(change.removed)}
            fragments = [(raw, MESSAGES.DataFragment.FromString(raw)) for raw in manifest.fragments]
            kept = [(raw, waiting.pop(fragment.id, fragment)) for raw, fragment in fragments]
            if waiting:
                return None
            flags = _HAS_DELETIONS * any(after is not None and after.HasField("deletion_file") for _, after in kept)
            manifest.reader_feature_flags = manifest.writer_feature_flags = flags
            manifest.fragments[:] = [
                after.SerializeToString() if after.id in change.changed else raw
                for raw, after in kept
                if after is not None
            ]
        last = manifest.max_fragment_id if manifest.HasField("max_fragment_id") else -1
        for fragment in change.added:
            numbered = MESSAGES.DataFragment()
            numbered.CopyFrom(fragment)
            numbered.id = fragment.id or last + 1
            last = max(last, numbered.id)
            manifest.fragments.append(numbered.SerializeToString())
        if last >= 0:
            manifest.max_fragment_id = last
        return _Version(manifest, self.indices)

    def to_bytes(self, transaction: bytes, name: str, moment: int) -> bytes:
        """Return the file of the version that a transaction of a file `name` has made at a moment, in nanoseconds since 1970."""
        above = self.indices + LENGTH.pack(len(transaction)) + transaction
        self.manifest.timestamp.seconds, self.manifest.timestamp.nanos = divmod(moment, 10**9)
        self.manifest.transaction_file, self.manifest.transaction_section = name, len(self.indices)
        message: bytes = self.manifest.SerializeToString()
        return above + LENGTH.pack(len(message)) + message + _FOOTER.pack(len(above), 0, 2, b"LANC")


_known = LruCache[tuple[str, int], tuple[VersionFile, _Version | None]](
    MOST_KNOWN, most_weight=MOST_KNOWN_BYTES, weigh=lambda known: known[0][-1], idle_seconds=IDLE_SECONDS
)
"""The versions that were written or read here (None: only Lance writes on top of it), told by their files, whose sizes they weigh."""
_left = LruCache[str, int](MOST_KNOWN, idle_seconds=IDLE_SECONDS)
"""The version up to which a table in an object store is left to Lance."""


def columns_of(table: Store, version: int) -> bytes | None:
    """Return what tells the columns of a version and its format of files from others; None where it is not known here.

    `OutsideRoot` where a symbolic link leads to the table, or lies in place of one of its directories.
    """
    parsed = _find(table, version)
    if parsed is None:
        return None
    table.check_place()
    columns = MESSAGES.Manifest(fields=parsed.manifest.fields, data_format=parsed.manifest.data_format)
    told: bytes = columns.SerializeToString()
    return told


def write_version(table: Store, base: int, operation: LanceOperation.BaseOperation) -> bool:
    """Write the version after `base` that an operation makes; False, and nothing is done, where only Lance can.

    `Conflict` where it is there already: Lance would put the files on top of whatever is the newest.
    """
    change = _Change.of(operation)
    before = None if change is None else _find(table, base)
    if change is None or before is None or before.manifest.version != base:
        return False
    version = before.next(change)
    if version is None:
        return False
    table.check_place()
    unique = str(uuid.uuid4())
    name, number, transaction = f"{base}-{unique}.txn", base + 1, change.transaction(base, unique)
    if table.is_remote:
        return _write_remote(table, name, transaction, version)
    if not _write(table.uri, name, transaction, number, version.to_bytes(transaction, name, time.time_ns())):
        return False
    _known.pop((table.uri, base))
    file = version_file(table.uri, number)
    if file is not None:
        _known.put((table.uri, number), (file, version))
    return True


def _find(table: Store, version: int) -> _Version | None:
    if table.is_remote:
        reached = put_client(table.uri, table.options) if is_table_directory(table.name) else None
        return None if reached is None else _find_remote(table, version, *reached)
    file = version_file(table.uri, version)
    if file is None or file[-1] > LONGEST:
        return None
    known = _known.get((table.uri, version))
    if known is not None and known[0] == file:
        return known[1]
    try:
        parsed = _Version.read(Path(table.uri, VERSIONS, version_name(version)).read_bytes())
    except FileNotFoundError:
        return None
    _known.put((table.uri, version), (file, parsed))
    return parsed


def _find_remote(table: Store, version: int, client: PutClient, key: str) -> _Version | None:
    """Return what a version says that lies in an object store: as it was written or read here, or else by one request."""
    content = kept_tables.content(table, version)
    if content is not None:
        return _Version.read(content)
    dataset = kept_tables.recall(table, version, None)
    if dataset is not None:
        parsed = _Version.of(dataset._ds.serialized_manifest(), b"")  # noqa: SLF001 - what a dataset is pickled by
        if parsed is None or not parsed.manifest.HasField("index_section"):
            return parsed
    if version < (_left.get(table.uri) or 0):
        return None
    try:
        content = client.read(f"{key}/{VERSIONS}/{version_name(version)}")
    except OSError as exc:
        if client.leave():
            return None
        raise storage_error(exc) or exc from exc
    if content is None:
        return None
    parsed = _Version.read(content) if len(content) <= LONGEST else None
    if parsed is None:
        _left.put(table.uri, version + _LEFT_VERSIONS)
    else:
        kept_tables.keep_content(table, version, content)
    return parsed


@dataclass(frozen=True, slots=True)
class _Change:
    """Change of the fragments of a version: messages of those that are added, and of those that are changed, by their numbers."""

    added: Sequence[Any]
    changed: Mapping[int, Any]
    removed: Sequence[int]
    is_append: bool

    @classmethod
    def of(cls, operation: LanceOperation.BaseOperation) -> _Change | None:
        """Return the change that an operation makes; None for one that does more than add, change and remove fragments."""
        match operation:
            case LanceOperation.Append(fragments=new):
                removed, updated = list[int](), list[FragmentMetadata]()
            case LanceOperation.Update(removed_fragment_ids=removed, updated_fragments=updated, new_fragments=new):
                if operation != LanceOperation.Update(removed, updated, new):
                    return None
            case _:
                return None
        changed = {fragment.id: fragment for fragment in updated}
        if (
            not (removed or changed or new)
            or set(removed) & changed.keys()
            or not all(map(_is_known, [*new, *updated]))
        ):
            return None
        messages = {number: _fragment(fragment) for number, fragment in changed.items()}
        return cls([*map(_fragment, new)], messages, removed, isinstance(operation, LanceOperation.Append))

    def transaction(self, base: int, unique: str) -> bytes:
        """Return the transaction that makes the change on top of a version."""
        made = MESSAGES.Transaction(read_version=base, uuid=unique)
        if self.is_append:
            made.append.fragments.extend(self.added)
        else:
            made.update.removed_fragment_ids.extend(self.removed)
            made.update.updated_fragments.extend(self.changed.values())
            made.update.new_fragments.extend(self.added)
        encoded: bytes = made.SerializeToString()
        return encoded


def _is_known(fragment: FragmentMetadata) -> bool:
    """Return whether a fragment says no more than its files, rows and deleted rows."""
    deletions = fragment.deletion_file
    return (
        bool(fragment.files)
        and fragment.row_id_meta is None
        and not fragment.overlays
        and fragment.created_at_version_meta is None
        and fragment.last_updated_at_version_meta is None
        and (deletions is None or deletions.base_id is None)
        and all(file.base_id is None and min(file.fields, default=0) >= 0 for file in fragment.files)
    )


def _fragment(fragment: FragmentMetadata) -> Any:
    """Return the message of a fragment."""
    made = MESSAGES.DataFragment(id=fragment.id, physical_rows=fragment.physical_rows)
    for file in fragment.files:
        made.files.add(
            path=file.path,
            fields=file.fields,
            column_indices=file.column_indices,
            file_major_version=file.file_major_version,
            file_minor_version=file.file_minor_version,
            file_size_bytes=file.file_size_bytes or 0,
        )
    deletions = fragment.deletion_file
    if deletions is not None:
        made.deletion_file.file_type = int(deletions.file_type == "bitmap")
        made.deletion_file.read_version, made.deletion_file.id = deletions.read_version, deletions.id
        made.deletion_file.num_deleted_rows = deletions.num_deleted_rows
    return made


def _write(table: str, name: str, transaction: bytes, version: int, content: bytes) -> bool:
    """Write both files; False, and neither is there, where the table is not."""
    first, final = f"{table}/{_TRANSACTIONS}/{name}", f"{table}/{VERSIONS}/{version_name(version)}"
    draft = f"{final}#{name}"
    is_written = False
    try:
        with suppress(FileNotFoundError):
            _put(first, transaction)
            _put(draft, content)
            os.link(draft, final)
            is_written = True
    except FileExistsError as exc:
        raise _staged_first(table) from exc
    finally:
        # The hint would say an older version, which a stock writer takes at its word.
        for path in (draft, f"{table}/{VERSIONS}/{_HINT}" if is_written else first):
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - several times quicker
    return is_written


def _write_remote(table: Store, name: str, transaction: bytes, version: _Version) -> bool:
    """Write both files by a request each; False where only Lance may reach the store."""
    reached = put_client(table.uri, table.options)
    if reached is None:
        return False
    client, key = reached
    content = version.to_bytes(transaction, name, time.time_ns())
    try:
        client.write(f"{key}/{_TRANSACTIONS}/{name}", transaction)
        is_written = client.make(f"{key}/{VERSIONS}/{version_name(version.manifest.version)}", content)
    except OSError:
        if client.leave():
            return False
        raise
    if not is_written:
        raise _staged_first(table.uri)
    kept_tables.keep_content(table, version.manifest.version, content)
    return True


def _staged_first(table: str) -> Conflict:
    return Conflict(f"another writer staged on {table.rpartition('/')[2]!r} first")


def _put(path: str, content: bytes) -> None:
    """Write a whole new file."""
    with open(path, "xb", buffering=0) as file:  # noqa: PTH123 - several times quicker
        while content:
            content = content[file.write(content) :]
