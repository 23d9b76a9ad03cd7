"""In-memory cache of the snapshots used last."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from threading import Lock
from typing import TypeAlias

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.latest_version import VersionFile
from lance_flight.errors import NotFound

MOST_SNAPSHOTS = 8

Key: TypeAlias = tuple[int, datetime] | VersionFile
"""A version with the moment of its commit, or with its file: one of a table that was dropped and made again is another one."""


class SnapshotCache:
    """Cache of the snapshots read last; `NotFound` for a version that is no partitioned namespace. Safe to share among threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, Snapshot | NotFound] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Key) -> Snapshot | NotFound | None:
        """Return what is known of a version."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: Key, found: Snapshot | NotFound) -> None:
        """Cache a snapshot, and evict the least recently used ones."""
        with self._lock:
            self._found[key] = found
            self._found.move_to_end(key)
            while len({id(each) for each in self._found.values()}) > MOST_SNAPSHOTS:
                self._found.popitem(last=False)
