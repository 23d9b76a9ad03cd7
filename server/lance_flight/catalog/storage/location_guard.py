"""Guard that checks that a table is still where a writer opened it.

Lance commits wherever it is told to, and makes the directories: to a table that was renamed or dropped meanwhile it commits
without a word, and nobody finds what was written. So each commit looks once more whether the version it went on top of
is still there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lance_flight.catalog.storage.names import VERSIONS, is_version_name, version_name, version_names
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import NotFound, SerializationFailure
from lance_flight.model.naming import MANIFEST


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

    def check(self, table: str) -> None:
        """Raise `SerializationFailure` after a commit whose base was removed, and remove what the commit has made."""
        if self.is_there:
            return
        if self.place.is_remote:
            # Nobody else can have made a version of this number: that is what a commit to an object store rests on.
            self.place.remove_files([f"{VERSIONS}/{version_name(self.version + 1)}"])
            raise SerializationFailure(f"table {table!r} was dropped or replaced by another writer")
        made = [name for name in self.place.child(VERSIONS).files() if is_version_name(name)]
        # What Lance has made of an empty place is nobody's; where another table lies by now there are its own versions.
        if made == [version_name(self.version + 1)]:
            self.place.remove()
            if self.place.name == MANIFEST:
                with suppress(OSError):
                    Path(self.place.parent.uri).rmdir()
        raise SerializationFailure(f"table {table!r} was dropped or renamed by another writer")


def _moment(place: Store, version: int) -> datetime | None:
    """Return when a version in an object store was committed; None where it is not there any more."""
    try:
        moment: datetime = place.open(version).get_version()["timestamp"]
    except NotFound:
        return None
    return moment.astimezone(UTC)


def _file(place: Store, version: int) -> tuple[int, int] | None:
    for name in version_names(version):
        with suppress(OSError):
            found = os.stat(f"{place.uri}/{VERSIONS}/{name}")  # noqa: PTH116 - several times quicker
            return found.st_ino, found.st_mtime_ns
    return None
