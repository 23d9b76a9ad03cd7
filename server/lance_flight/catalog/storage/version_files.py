"""Files of versions: the newest one is found without a listing of all, and a table is seen to be still where it was opened.

A local directory is listed whole, a quarter of a millisecond for every thousand versions, however few are new. Versions
follow each other without a gap at the head, so it is enough to look for the one after the version that was the newest a
moment ago. Object stores list the newest first anyway.

Lance commits wherever it is told to, and makes the directories: to a table that was renamed or dropped meanwhile it commits
without a word, and nobody finds what was written. So each commit looks once more whether the version it went on top of
is still there.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from lance_flight.catalog.storage.leases import GRACE
from lance_flight.catalog.storage.names import VERSIONS, is_version_name, version_name, version_names
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.errors import Corrupt, NotFound, OutcomeUnknown, SerializationFailure
from lance_flight.model.naming import MANIFEST

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
