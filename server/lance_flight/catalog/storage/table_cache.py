"""Caches of tables: as this process has just committed them, for the next write on top of one, and as scans have opened them.

A version is told by its file, so that a table which was made again in the same place is another one. Each caller gets an object of its own
on what is in memory: a restore moves the very dataset that it is called on, and reading a transaction locks it for all other threads.
"""

from __future__ import annotations

from functools import partial

from lance import LanceDataset

from lance_flight.catalog.storage.latest_version import VersionFile, version_file
from lance_flight.catalog.storage.store import Store
from lance_flight.lru_cache import IDLE_SECONDS, LruCache, VersionCache

MOST_TABLES = 1024
MOST_MANIFEST_BYTES = 16 << 10
"""A dataset holds its manifest in memory, which lists every file of the table."""


class TableCache:
    """Datasets at the versions that this process has committed last. Safe to share among threads."""

    def __init__(self) -> None:
        self._found = LruCache[tuple[str, int], tuple[VersionFile, LanceDataset]](
            MOST_TABLES, idle_seconds=IDLE_SECONDS
        )

    def keep(self, table: Store, dataset: LanceDataset) -> None:
        """Remember a dataset that was just committed; one in an object store, or with many files, is left out."""
        version = int(dataset.version)
        file = None if table.is_remote else version_file(table.uri, version)
        if file is None or file[-1] > MOST_MANIFEST_BYTES:
            return
        self._found.pop((table.uri, version - 1))
        self._found.put((table.uri, version), (file, dataset.checkout_version(version)))

    def open(self, table: Store, version: int) -> LanceDataset:
        """Return the dataset at a version, from memory where it lies there still; raises as `Store.open` does."""
        known = self._found.get((table.uri, version))
        if known is None or version_file(table.uri, version) != known[0]:
            return table.open(version, to_commit=True)
        # Its files are not read again: they were examined when they were.
        table.check_place()
        return known[1].checkout_version(version)


class OpenedTables:
    """Versions of tables that scans have opened, which the next scans read, too: nothing may be called on them that changes a dataset."""

    def __init__(self) -> None:
        self._known = VersionCache[tuple[str, str | None], VersionFile, LanceDataset](MOST_TABLES, most_versions=2)

    def open(self, table: Store, version: int) -> LanceDataset:
        """Return the dataset at a version, from memory where it lies there still; raises as `Store.open` does."""
        file = None if table.is_remote or table.session is not None else version_file(table.uri, version)
        if file is None or file[-1] > MOST_MANIFEST_BYTES:
            return table.open(version)
        table.check_links()
        return self._known.find((table.uri, table.top), file, partial(table.open, version))


kept_tables, opened_tables = TableCache(), OpenedTables()
"""Those of this process."""
