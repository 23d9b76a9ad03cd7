"""Lookup of the newest version of a table without listing all of them.

A local directory is listed whole, a quarter of a millisecond for every thousand versions, however few are new. Versions
follow each other without a gap at the head, so it is enough to look for the one after the version that was the newest a
moment ago. Object stores list the newest first anyway.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lance_flight.catalog.storage.leases import GRACE
from lance_flight.catalog.storage.names import VERSIONS, version_name
from lance_flight.catalog.storage.store import Store

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
        found = os.lstat(f"{table}/{VERSIONS}/{version_name(version)}")
    except OSError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return None
    return version, found.st_ino, found.st_mtime_ns, found.st_size


def is_followed(table: Store, version: int) -> bool | None:
    """Return whether a version of a table has a next one; None where files cannot tell: they are not local, or of other names."""
    if table.is_remote or version_file(table.uri, version) is None:
        return None
    return version_file(table.uri, version + 1) is not None
