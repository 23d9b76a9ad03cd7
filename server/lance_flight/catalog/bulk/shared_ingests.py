"""Shared ingests: rows that several ingests of one session store for one commit.

Each ingest writes its rows as invisible data files, under the name of its part. `COMMIT WRITE` makes those of some parts visible. Files
of the other parts, and of a session that ends without one, belong to no version: vacuum removes what is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from lance_flight.catalog.bulk.shared_writes import SharedWrite, WrittenFiles
from lance_flight.catalog.commits.transaction import TableUpdate
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.table import Table
from lance_flight.errors import Conflict, InvalidInput, LimitExceeded
from lance_flight.model.spec import Evaluate

MOST_WRITES = 8
"""Most shared ingests of a session that have not ended."""
MOST_UPDATES = 16_384
"""Most files and names of parts that a shared ingest keeps in memory, some KiB each."""


@dataclass(slots=True, eq=False)
class SharedIngest:
    """Parts of one write to the table `place`, on top of `snapshot`, which is kept from vacuum meanwhile. Safe to share among threads."""

    place: str
    snapshot: Snapshot
    shared: SharedWrite
    lease: SnapshotLease
    _parts: dict[str, WrittenFiles | None] = field(default_factory=dict)
    _size: int = 0
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def begin(cls, table: Table, version: int | None) -> SharedIngest:
        """Return a write on top of a version of a table, or of its newest one."""
        begun = table.begin(None if version is None else table.snapshot(version))
        lease = begun.hold or table.hold(begun.base, is_newest=False)
        return cls(table.place, begun.base, SharedWrite.of(table, begun.base), lease)

    def write(self, part: str, rows: Iterable[pa.Table], evaluate: Evaluate, check: Callable[[], None]) -> None:
        """Store the rows of a part; `InvalidInput` for one that was stored before, and nothing is left of one that fails."""
        with self._lock:
            if part in self._parts:
                raise InvalidInput(f"part {part!r} of the shared ingest was stored before; expected another name")
            self._keep(part, None)
        try:
            files = self.shared.write(rows, evaluate, check=check)
        except BaseException:
            with self._lock:
                self._parts.pop(part, None)
            raise
        try:
            with self._lock:
                self._keep(part, files)
        except LimitExceeded:
            self.shared.remove(files)
            raise

    def _keep(self, part: str, files: WrittenFiles | None) -> None:
        self._size += len(files or ()) or 1
        if self._size > MOST_UPDATES:
            raise LimitExceeded(
                f"a shared ingest of more than {MOST_UPDATES} files; expected fewer parts, or rows in the order of their partitions"
            )
        self._parts[part] = files

    def updates(self, parts: Sequence[str]) -> list[TableUpdate]:
        """Return the files of some parts; `InvalidInput` for one that was not stored."""
        with self._lock:
            updates: list[TableUpdate] = []
            for part in dict.fromkeys(parts):
                files = self._parts.get(part)
                if files is None:
                    raise InvalidInput(f"part {part!r} of the shared ingest was not stored")
                updates += files
            return updates

    def discard(self) -> None:
        """Remove the files of all parts, none of which was committed."""
        with self._lock:
            self.shared.discard(update for files in self._parts.values() for update in files or ())


class SharedIngests:
    """Shared ingests of one session, by the names that its client gives them. Safe to share among threads."""

    def __init__(self) -> None:
        self._ingests: dict[str, SharedIngest] = {}
        self._lock = Lock()

    @property
    def has_begun(self) -> bool:
        """True while one is there that has not ended."""
        return bool(self._ingests)

    def find(self, name: str, table: Table, version: int | None) -> SharedIngest:
        """Return the shared ingest of a name into a table, which begins on top of a version with its first part."""
        with self._lock:
            found = self._ingests.get(name)
            if found is None:
                if len(self._ingests) >= MOST_WRITES:
                    raise LimitExceeded(f"a session has {MOST_WRITES} shared ingests; expected COMMIT WRITE of one")
                found = self._ingests[name] = SharedIngest.begin(table, version)
            if found.place != table.place or version not in (None, found.snapshot.version):
                raise InvalidInput(
                    f"shared ingest {name!r} is one into {found.place!r} at version {found.snapshot.version},"
                    f" not into {table.place!r} at {version}"
                )
            return found

    def take(self, name: str, table: Table) -> SharedIngest:
        """End a shared ingest, which is to be committed to a table, and return it; `Conflict` for one that is not there."""
        with self._lock:
            found = self._ingests.get(name)
            if found is None or found.place != table.place:
                raise Conflict(
                    f"the session has no shared ingest {name!r} into table {table.name!r}: it was committed, or the session is a new one"
                )
            return self._ingests.pop(name)

    def close(self) -> None:
        """Remove the files of all that have not ended."""
        with self._lock:
            left, self._ingests = list(self._ingests.values()), {}
        for ingest in left:
            ingest.discard()
