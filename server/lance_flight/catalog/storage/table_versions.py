"""Versions of tables: their files, by which the newest one is found without a listing of all, and opened versions that are kept.

A local directory is listed whole, a quarter of a millisecond for every thousand versions, however few are new. Versions
follow each other without a gap at the head, so it is enough to look for the one after the version that was the newest a
moment ago. Object stores list the newest first anyway.

Lance commits wherever it is told to, and makes the directories: to a table that was renamed or dropped meanwhile it commits
without a word, and nobody finds what was written. So each commit looks once more whether the version it went on top of
is still there.

In a cache a version is told by its file, so that a table which was made again in the same place is another one; in an object store, where to
look at the file is a request, by the moment of its commit, or by a place that no other table ever has.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from lance import LanceDataset

from lance_flight.catalog.storage.leases import GRACE
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import (
    VERSIONS,
    is_version_name,
    locate_message,
    version_name,
    version_names,
)
from lance_flight.errors import Corrupt, NotFound, OutcomeUnknown, SerializationFailure
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
