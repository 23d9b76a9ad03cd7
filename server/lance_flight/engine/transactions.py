"""A transaction as SQL knows it: what its statements read, and the one table whose partitions they change.

Each table is read at the snapshot at which the transaction first met it, with the transaction's own changes; a single
statement is a transaction of its own. Everything it changes lies under one `__manifest`, whose commit is the atom.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.catalog.transaction import Transaction
from lance_flight.errors import OutcomeUnknown, SerializationFailure, Unsupported

RUNS = 20
FIRST_PAUSE = 0.01
MAX_PAUSE = 0.5


class SqlTransaction:
    """What the statements of one transaction share. Not safe to share among threads.

    With `explicit` each change is staged at once, so that the next statement sees it. `serializable` ones are refused
    at their commit where another transaction has changed what they read.
    """

    def __init__(self, *, explicit: bool = False, serializable: bool = False) -> None:
        self.explicit = explicit
        self.serializable = serializable
        self._snapshots: dict[str, Snapshot] = {}
        self._versions: dict[str, int] = {}
        self._reads: dict[str, set[str]] = defaultdict(set)
        self._namespace: PartitionedNamespace | None = None
        self._inner: Transaction | None = None

    def snapshot(self, namespace: PartitionedNamespace) -> Snapshot:
        """What this transaction sees of a partitioned table."""
        place = namespace.store.uri
        if self._inner is not None and self._writes(namespace):
            return self._inner.snapshot
        if place not in self._snapshots:
            self._snapshots[place] = namespace.snapshot()
        return self._snapshots[place]

    def version(self, table: PlainTable) -> int:
        """The version of a plain table that this transaction sees."""
        place = table.store.uri
        if place not in self._versions:
            self._versions[place] = int(table.open().version)
        return self._versions[place]

    def read(self, namespace: PartitionedNamespace, object_ids: Sequence[str]) -> None:
        """Remember partition tables that a statement read, for the commit of a serialisable transaction."""
        if self._inner is not None and self._writes(namespace):
            self._inner.read(object_ids)
        else:
            self._reads[namespace.store.uri].update(object_ids)

    def writing(self, namespace: PartitionedNamespace) -> Transaction:
        """The changes to a partitioned table; `Unsupported` where another one was changed before."""
        if self._inner is None:
            place = namespace.store.uri
            self._inner = namespace.begin(self._snapshots.get(place), serializable=self.serializable)
            self._inner.read(self._reads.pop(place, ()))
            self._namespace = namespace
        elif not self._writes(namespace):
            raise Unsupported(
                f"this transaction has changed table {self._written_name!r} and cannot change {namespace.store.name!r}"
                " as well: one table is what commits as a whole; commit first"
            )
        return self._inner

    def stage(self) -> None:
        """Make what was changed last visible to the next statement of this transaction."""
        if self._inner is not None and self._namespace is not None:
            self._namespace.commits.stage(self._inner)

    def commit(self) -> None:
        """Make all changes visible."""
        if self._inner is not None and self._namespace is not None:
            self._namespace.commits.commit(self._inner)

    def rollback(self) -> None:
        """Give all changes up; only for a transaction that certainly did not commit."""
        if self._inner is not None and self._namespace is not None:
            self._inner.abort(self._namespace.store)

    def _writes(self, namespace: PartitionedNamespace) -> bool:
        return self._namespace is not None and self._namespace.store.uri == namespace.store.uri

    @property
    def _written_name(self) -> str:
        return "" if self._namespace is None else self._namespace.store.name


def autocommit(work: Callable[[SqlTransaction], int], *, serializable: bool = False, runs: int = RUNS) -> int:
    """Run one statement as a transaction of its own, again where others have changed what it read."""
    for run in range(1, runs + 1):
        transaction = SqlTransaction(serializable=serializable)
        try:
            count = work(transaction)
            transaction.commit()
        except OutcomeUnknown:
            raise
        except BaseException as exc:
            transaction.rollback()
            if not isinstance(exc, SerializationFailure) or run == runs:
                raise
        else:
            return count
        time.sleep(random.uniform(0, min(MAX_PAUSE, FIRST_PAUSE * 2**run)))  # noqa: S311 - jitter, no secret
    raise AssertionError("unreachable")
