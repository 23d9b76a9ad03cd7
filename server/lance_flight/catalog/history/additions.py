"""Rows added to a namespace, snapshot by snapshot, for a stream of its rows.

Rows that were only written anew are no additions. A snapshot that removes or changes rows is another matter: whoever has
been given them already is not told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_flight.catalog.history.row_history import DELETE, INSERT, RowsMoved, Step, pinned, steps_between
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.opening import OPENERS
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.errors import NotFound, QueryFailed, Unsupported

MayHold = Callable[[Snapshot], Collection[str]]
"""The object ids of those partition tables of a snapshot that can hold rows which are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Rows of one fragment of a partition table, as they were when they came: those at `addresses` (None: all)."""

    table: PinnedTable
    fragment: int
    rows: int
    addresses: np.ndarray | None = field(default=None, repr=False)

    def read(self, schema: pa.Schema, ids: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Return the rows with these columns, by their field ids."""
        source = self.table.source
        source = replace(source, fragments=(source.dataset.get_fragment(self.fragment),))
        return RowsMoved(change=INSERT, source=source, addresses=self.addresses).read(schema, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Reader of the additions to one namespace, in the tables that `may_hold` leaves (None: all).

    With `allows_changes` the rows that a change brings are additions as well, and nothing is said of those that go.
    """

    namespace: Table
    may_hold: MayHold | None = None
    allows_changes: bool = False

    def all_of(self, version: int) -> list[Added]:
        """Return every row of a snapshot."""
        snapshot = self.snapshot(version)
        kept = None if self.may_hold is None else self.may_hold(snapshot)
        tables = snapshot.all_tables()
        steps = [
            Step(
                snapshot=version,
                partition=each.object_id,
                before=None,
                after=pinned(self.namespace.store, each, snapshot),
            )
            for each in tables
            if kept is None or each.object_id in kept
        ]
        return [added for moved in self._moved(steps, snapshot) for added in moved.rows]

    def between(self, first: int, last: int) -> list[Added]:
        """Return the rows that each snapshot after `first`, up to `last`, added, in this order.

        `QueryFailed` names the first that removed or changed rows, and what it did; `NotFound` one that has expired.
        """
        did = self.namespace.log.operations(first, last)
        return [
            added for old, new in pairwise(range(first, last + 1)) for added in self._added(old, new, did.get(new, ""))
        ]

    def snapshot(self, version: int) -> Snapshot:
        """Return a snapshot whose rows can be streamed.

        `NotFound` for one that has expired, `Unsupported` for one that is not fixed.
        """
        try:
            snapshot = self.namespace.snapshot(version)
        except NotFound as exc:
            raise NotFound(
                f"snapshot {version} of {self.namespace.store.name!r} is not there any more, and what it added was not"
                " read yet: VACUUM keeps snapshots for as long as it is told, and for those who read them"
            ) from exc
        if snapshot.floating:
            # What comes to such a table comes without a snapshot.
            raise Unsupported(
                f"snapshot {version} of {self.namespace.store.name!r} has tables without a fixed version, such as"
                f" {snapshot.floating[0].object_id!r}; the first write of this library gives them one"
            )
        return snapshot

    def _added(self, old: int, new: int, operation: str) -> Iterator[Added]:
        before, after = self.snapshot(old), self.snapshot(new)
        steps = list(steps_between(self.namespace, old, new, operation))
        if self.may_hold is not None and steps:
            kept = {*self.may_hold(before), *self.may_hold(after)}
            steps = [step for step in steps if step.partition in kept]
        for moved in self._moved(steps, after):
            if moved.removes and not self.allows_changes:
                raise QueryFailed(
                    f"snapshot {new} of {self.namespace.store.name!r} removed or changed rows that were there before:"
                    f" {operation or 'done by another writer'}"
                )
            yield from moved.rows

    def _moved(self, steps: Sequence[Step], snapshot: Snapshot) -> Iterator[_Moved]:
        """Return what each step did, several tables at a time."""
        columns = pa.schema([each.with_nullable(nullable=True) for each in snapshot.schema.arrow])
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="additions") as pool:
            yield from pool.map(lambda step: _Moved.by(step, columns, snapshot.schema.ids), steps)


@dataclass(frozen=True, slots=True)
class _Moved:
    """The rows that a step added, and whether it removed any."""

    rows: tuple[Added, ...]
    removes: bool

    @classmethod
    def by(cls, step: Step, columns: pa.Schema, ids: Mapping[str, int]) -> _Moved:
        moved = step.moved(columns, ids)
        came = [_added(step.after, each) for each in moved if each.change == INSERT and step.after is not None]
        return cls(tuple(came), any(each.change == DELETE for each in moved))


def _added(table: PinnedTable, moved: RowsMoved) -> Added:
    (fragment,) = moved.source.fragments or ()
    rows = fragment.count_rows() if moved.addresses is None else len(moved.addresses)
    return Added(table=table, fragment=fragment.fragment_id, rows=rows, addresses=moved.addresses)
