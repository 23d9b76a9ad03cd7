"""Caches of tables, as this process has committed and scans have opened them, and work on many tables at a time.

A version is told by its file, so that a table which was made again in the same place is another one; in an object store, where to look at
the file is a request, by the moment of its commit, or by a place that no other table ever has. Each caller gets an object of its own
on what is in memory: a restore moves the very dataset that it is called on, and reading a transaction locks it for all other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from lance import LanceDataset

from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.version_files import VersionFile, version_file
from lance_flight.catalog.storage.whole_files import locate_message
from lance_flight.lru_cache import IDLE_SECONDS, LruCache, VersionCache
from lance_flight.model.naming import is_table_directory

MOST_TABLES = 1024
MOST_MANIFEST_BYTES = 16 << 10
"""A dataset holds its manifest in memory, which lists every file of the table."""
_MOST_CONTENT_BYTES = 16 << 20
_BYTES_OF_A_FRAGMENT = 256


class TableCache:
    """Datasets at the versions that this process has committed last. Safe to share among threads."""

    def __init__(self) -> None:
        self._found = LruCache[tuple[str, int], tuple[VersionFile, LanceDataset]](
            MOST_TABLES, idle_seconds=IDLE_SECONDS
        )
        self._contents = LruCache[tuple[str, int], tuple[str, bytes]](
            MOST_TABLES,
            most_weight=_MOST_CONTENT_BYTES,
            weigh=lambda kept: len(kept[1]),
            idle_seconds=IDLE_SECONDS,
        )

    def keep(self, table: Store, dataset: LanceDataset) -> None:
        """Remember a dataset that was just committed; one with many files is left out."""
        version = int(dataset.version)
        file = _remote_file(dataset) if table.is_remote else version_file(table.uri, version)
        if file is None or file[-1] > MOST_MANIFEST_BYTES:
            return
        self._found.pop((table.uri, version - 1))
        self._found.put((table.uri, version), (file, dataset if table.is_remote else dataset.checkout_version(version)))

    def keep_content(self, table: Store, version: int, content: bytes) -> None:
        """Remember the file of a version of a partition table in an object store."""
        for kept in (self._found, self._contents):
            kept.pop((table.uri, version - 1))
        self._contents.put((table.uri, version), (table.uri, content))

    def content(self, table: Store, version: int) -> bytes | None:
        """Return the file of a version that was kept; None where it is not known."""
        known = self._contents.get((table.uri, version))
        return None if known is None else known[1]

    def forget(self, table: Store) -> None:
        """Forget the versions of a table whose directory this process is about to remove: another one may make it again."""
        if table.is_remote:
            self._found.discard(lambda kept: kept[1].uri == table.uri)
            self._contents.discard(lambda kept: kept[0] == table.uri)

    def open(self, table: Store, version: int, committed_at: datetime | None = None) -> LanceDataset:
        """Return the dataset at a version, from memory where it lies there still; raises as `Store.open` does.

        In an object store `committed_at` tells a version from the same one of a table that was made again in this place.
        """
        if table.is_remote:
            dataset = self.recall(table, version, committed_at)
            if dataset is None:
                dataset = table.open(version, to_commit=True, manifest=self.manifest(table, version))
                self.keep(table, dataset)
            return dataset
        known = self._found.get((table.uri, version))
        if known is None or version_file(table.uri, version) != known[0]:
            return table.open(version, to_commit=True)
        # Its files are not read again: they were examined when they were.
        table.check_place()
        return known[1].checkout_version(version)

    def recall(self, table: Store, version: int, committed_at: datetime | None) -> LanceDataset | None:
        """Return the dataset at a version of a table in an object store from memory; None where that may be another table's."""
        known = self._found.get((table.uri, version))
        return known[1] if known is not None and _is_of(table, known[1], committed_at) else None

    def manifest(self, table: Store, version: int) -> bytes | None:
        """Return the manifest of a version whose file was kept, with which it is opened by one request, not two."""
        content = self.content(table, version)
        return None if content is None else content[slice(*locate_message(content))]


class OpenedTables:
    """Versions of tables that scans have opened, which the next scans read, too: nothing may be called on them that changes a dataset."""

    def __init__(self) -> None:
        self._known = VersionCache[tuple[str, str | None], VersionFile, LanceDataset](MOST_TABLES, most_versions=2)

    def open(self, table: Store, version: int, committed_at: datetime | None = None) -> LanceDataset:
        """Return the dataset at a version, from memory where it lies there still; raises as `Store.open` does.

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
        return self._known.find((table.uri, table.top), file, partial(table.open, version))

    def _open_remote(self, table: Store, version: int, committed_at: datetime | None) -> LanceDataset:
        place, key = (table.uri, table.top), (version, 0, 0, 0)
        known = self._known.get(place, key)
        if known is not None and _is_of(table, known[0], committed_at):
            return known[0]
        dataset = kept_tables.recall(table, version, committed_at)
        if dataset is None:
            dataset = table.open(version, manifest=kept_tables.manifest(table, version))
        if _remote_file(dataset)[-1] <= MOST_MANIFEST_BYTES:
            self._known.put(place, key, dataset)
        return dataset


def _is_of(table: Store, dataset: LanceDataset, committed_at: datetime | None) -> bool:
    """Return whether a version in an object store that was read once is the one that lies there now; nothing is asked for.

    It is if it was committed at the moment that is known of it. The directory of a partition table has a random name, and is not made
    again once a table in it was shown.
    """
    if committed_at is None:
        return is_table_directory(table.name)
    moment: datetime = dataset.get_version()["timestamp"]
    return moment.astimezone(UTC) == committed_at


def _remote_file(dataset: LanceDataset) -> VersionFile:
    """Return the version of a dataset in an object store, and about the size of its file."""
    fragments = int(dataset.get_version()["metadata"]["total_fragments"])
    return int(dataset.version), 0, 0, fragments * _BYTES_OF_A_FRAGMENT


kept_tables, opened_tables = TableCache(), OpenedTables()
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
