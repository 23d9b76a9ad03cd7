"""The multi-partition commit: stage a version on every table concerned, then one `__manifest` commit.

Spec: Multi-Partition Transaction, Conflict Resolution; decisions 12 to 16. An append always rebases: what is still
based on the right pin is kept, the rest is staged again, and data files are never written twice.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import pyarrow as pa

from lance_flight.catalog import partitions
from lance_flight.catalog.data_files import DATA
from lance_flight.catalog.grouping import match
from lance_flight.catalog.manifest import Manifest
from lance_flight.catalog.new_partitions import NewPartitions
from lance_flight.catalog.snapshot import PIN_COLUMNS, PartitionTable, Snapshot
from lance_flight.catalog.writer import PendingAppend
from lance_flight.errors import Conflict
from lance_flight.model.pins import Pin

log = logging.getLogger(__name__)

COMMIT_ATTEMPTS = 40
MAX_PAUSE = 0.5
STAGERS = 4


@dataclass(frozen=True, slots=True)
class _Staged:
    """A version that was put on a table: on top of which pin, and the pin to it."""

    location: str
    base: Pin | None
    pin: Pin


class AppendTransaction:
    """Makes pending appends visible together, or not at all."""

    def __init__(self, manifest: Manifest, key: bytes, pending: Sequence[PendingAppend]) -> None:
        self._manifest = manifest
        self._root = manifest.store.parent
        self._key = key
        self._pending = list(pending)
        self._staged: dict[int, _Staged] = {}

    def commit(self, operation: str) -> int:
        """Commit and return the new snapshot's version; `Conflict` after the last attempt, with nothing visible."""
        if not self._pending:
            return self._manifest.snapshot().version
        for attempt in range(COMMIT_ATTEMPTS):
            snapshot = self._manifest.snapshot()
            try:
                rows = self._rows(snapshot)
                return self._manifest.commit(snapshot, rows, operation)
            except Conflict:
                log.info("commit to %s met another writer, attempt %d", self._root.uri, attempt + 1)
                time.sleep(random.uniform(0, min(MAX_PAUSE, 0.01 * 2**attempt)))  # noqa: S311 - jitter, not a secret
        raise Conflict(
            f"{self._root.uri!r}: gave up after {COMMIT_ATTEMPTS} attempts against other writers; nothing was stored"
        )

    def abort(self) -> None:
        """Delete what was written; only for a transaction that certainly did not commit."""
        for pending in self._pending:
            place = self._root.child(pending.place)
            if pending.table is None:
                place.remove()
            else:
                written = {file.path for fragment in pending.fragments for file in fragment.files}
                place.remove_files(f"{DATA}/{name}" for name in written.union(pending.files))

    def _rows(self, snapshot: Snapshot) -> pa.Table:
        """Stage everything on the pins of `snapshot` and return the manifest rows that make it visible."""
        changed: list[pa.Table] = []
        for spec in {pending.spec.id: pending.spec for pending in self._pending}.values():
            mine = [i for i, pending in enumerate(self._pending) if pending.spec.id == spec.id]
            wanted = pa.concat_tables([self._pending[i].values for i in mine])
            tables = snapshot.tables_of(spec.id)
            found = match(wanted, tables.values)
            at = {i: int(row) for i, row in zip(mine, found, strict=True)}
            current = {i: tables.table(row) if row >= 0 else None for i, row in at.items()}
            with ThreadPoolExecutor(STAGERS) as pool:
                staged = pool.map(self._stage, mine, current.values(), repeat(snapshot))
                pins = dict(zip(mine, staged, strict=True))
            old = [i for i in mine if at[i] >= 0]
            new = [i for i in mine if at[i] < 0]
            if old:
                changed.append(_repinned(tables.rows.take([at[i] for i in old]), [pins[i] for i in old]))
            if new:
                builder = NewPartitions(snapshot, spec, self._key)
                values = wanted.take([mine.index(i) for i in new])
                changed.append(builder.rows(values, [self._pending[i].location for i in new], [pins[i] for i in new]))
        return pa.concat_tables(changed)

    def _stage(self, index: int, table: PartitionTable | None, snapshot: Snapshot) -> Pin:
        """The pin of this append on top of `table` as it is in `snapshot`; staged again only where that changed."""
        pending, done = self._pending[index], self._staged.get(index)
        if table is None and pending.table is not None:
            raise Conflict(f"partition table {pending.table.object_id!r} was dropped by another writer")
        base = None if table is None else partitions.resolve(self._root.child(table.location), table.pin)
        location = pending.location if table is None else table.location
        if done is not None and (done.location, done.base) == (location, base):
            return done.pin
        place = partitions.place_of_files(location, base)
        if table is not None and place != pending.place:
            self._move(pending, table, place)
        store = self._root.child(location)
        if base is None:
            pin: Pin = partitions.create(store, snapshot.schema.table, pending.fragments)
        else:
            pin = partitions.stage_append(store, base, pending.fragments)
        self._staged[index] = _Staged(location, base, pin)
        return pin

    def _move(self, pending: PendingAppend, table: PartitionTable, place: str) -> None:
        """Take files written for a new table into the one that somebody else created first for the same values."""
        if pending.table is not None:
            raise Conflict(f"partition table {table.object_id!r} was pinned to another branch by another writer")
        source = self._root.child(pending.location)
        made = partitions.open_at(source, partitions.create(source, pending.schema, pending.fragments))
        pending.fragments = partitions.write_files(self._root.child(place), made.scanner().to_reader())
        pending.location, pending.place, pending.table = table.location, place, table
        source.remove()


def _repinned(rows: pa.Table, pins: Sequence[Pin]) -> pa.Table:
    """The same manifest rows with other pins."""
    for name in PIN_COLUMNS:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(
            at,
            rows.schema.field(at),
            pa.array([getattr(pin.columns, name) for pin in pins], rows.schema.field(at).type),
        )
    return rows
