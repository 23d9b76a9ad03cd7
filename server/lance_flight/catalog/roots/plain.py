"""Plain Lance tables: opened at a version, a tag or a moment, and written in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import lance
import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.storage.conflicts import conflicts
from lance_flight.catalog.storage.file_versions import check_values
from lance_flight.catalog.storage.location_guard import LocationGuard
from lance_flight.catalog.storage.store import Store, shared_session
from lance_flight.catalog.storage.tags import TagRef, create_tag, drop_tag, tags_of
from lance_flight.catalog.tables import rows
from lance_flight.errors import Conflict, NotFound
from lance_flight.faults import failpoint
from lance_flight.model.file_versions import NEWEST


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A Lance table that is not partitioned."""

    store: Store

    def open(self, version: int | str | None = None) -> LanceDataset:
        """The table at a version, at a tag, or at its newest version."""
        return self.store.open(version)

    def open_at(self, at: int | str | datetime | None) -> LanceDataset:
        """The table at a version, at a tag, at a moment, or at its newest version."""
        if not isinstance(at, datetime):
            return self.open(at)
        known = [v["version"] for v in self.open().versions() if v["timestamp"].astimezone(UTC) <= at]
        if not known:
            raise NotFound(f"table {self.store.name!r} has no version as old as {at.isoformat()}")
        return self.open(int(max(known)))

    def rollback(self, at: int | str | datetime) -> int:
        """Make the newest version equal to an old one and return its number."""
        old = self.open_at(at)
        if int(old.version) != int(old.latest_version):
            with conflicts(f"another writer changed table {self.store.name!r} first"):
                old.restore()
        return int(old.version)

    @property
    def tags(self) -> list[TagRef]:
        """The names that versions have."""
        return tags_of(self.open())

    def create_tag(self, name: str, at: int | str | datetime | None = None) -> None:
        """Name a version (None: the newest one)."""
        create_tag(self.open(), name, int(self.open_at(at).version))

    def drop_tag(self, name: str) -> None:
        """Forget the name of a version."""
        drop_tag(self.open(), name)

    def rows(self) -> Iterator[pa.Table]:
        """All rows of the newest version."""
        for batch in self.open().to_batches():
            yield pa.Table.from_batches([batch])

    def append(self, tables: Iterable[pa.Table]) -> int:
        """Store rows in one commit of the table and return how many they were."""
        before = self.open()
        standing = LocationGuard.of(self.store, int(before.version))
        stream = _Stream(self.store, before.schema, tables, str(before.data_storage_version))
        count = _write(self.store, stream, before)
        standing.check(self.store.name)
        return count


def write_plain(
    place: Store,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    *,
    stable_row_ids: bool = False,
    file_version: str | None = None,
    is_stored: bool = False,
) -> int:
    """Write rows as a new plain Lance table and return how many they were; they keep their ids if `stable_row_ids`.

    Its data files are of `file_version` (None: the newest). Rows that are stored already, elsewhere, are moved as they are.
    """
    stream = _Stream(place, schema, tables, file_version or NEWEST, is_stored=is_stored)
    return _write(place, stream, None, stable_row_ids=stable_row_ids)


def _write(place: Store, stream: _Stream, onto: LanceDataset | None, *, stable_row_ids: bool = False) -> int:
    """Write rows in one commit, which makes a table or goes `onto` one."""
    try:
        lance.write_dataset(
            stream.reader(),
            # By its path a table that has gone would be made again.
            place.uri if onto is None else onto,
            mode="create" if onto is None else "append",
            storage_options=place.options or None,
            enable_v2_manifest_paths=True,
            enable_stable_row_ids=stable_row_ids,
            data_storage_version=stream.version,
            session=shared_session(),
        )
    except OSError as exc:
        if stream.error is not None:
            raise stream.error from None
        if "conflict" in str(exc).lower():
            raise Conflict(f"another writer changed {place.name!r} first") from exc
        raise
    return stream.rows


class _Stream:
    """Tables on their way into Lance: conformed, counted, and the error that ended them kept (Lance rewraps it)."""

    def __init__(
        self, place: Store, schema: pa.Schema, tables: Iterable[pa.Table], version: str, *, is_stored: bool = False
    ) -> None:
        self.rows = 0
        self.version = version
        self.error: Exception | None = None
        self._schema = schema
        self._tables = tables
        self._check = partial(check_values, version=version, what=f"table {place.name!r}")
        self._is_stored = is_stored

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for table in self._tables:
                failpoint("rows_received")
                self.rows += table.num_rows
                stored = rows.conform(table, self._schema, is_stored=self._is_stored)
                self._check(stored)
                yield from map(rows.aligned, stored.to_batches())
        except Exception as exc:
            self.error = exc
            raise
