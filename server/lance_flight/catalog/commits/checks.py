"""Conflict checks of a transaction before its commit, against the commits of concurrent transactions.

Decisions 15 and 16. Additions rest on nothing but the namespace; what rewrites a table rests on the version that it read,
and a serialisable transaction on all that it read.
"""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from lance_flight.catalog.commits.table_updates import TableUpdate
from lance_flight.catalog.commits.transaction import PartitionChange, Transaction
from lance_flight.catalog.manifests.properties import NAMESPACE_KEY, SCHEMA_KEY
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.durability import check_kept
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import DATA
from lance_flight.catalog.tables import partitions
from lance_flight.errors import NotFound, SerializationFailure
from lance_flight.model.pins import Latest

DELETIONS = "_deletions"
OLD_SECONDS = 3600.0
"""Age from which on a transaction looks for its files before it commits: vacuum removes what is a day old and visible nowhere."""


class Before:
    """Changes by the transactions of a group that come before the one checked."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.once: set[str] = set()
        self.created = False

    def add(self, transaction: Transaction) -> None:
        """Count a transaction that goes along."""
        self.touched.update(transaction.parts)
        if transaction.once is not None:
            self.once.add(transaction.once.name)
        self.created |= any(part.table is None for part in transaction.parts.values())


def check(transaction: Transaction, newest: Snapshot, before: Before) -> None:
    """Raise `SerializationFailure` for a transaction that is out of date, and `AlreadyExists` as `Once.check` does."""
    _check_once(transaction, newest, before.once)
    _check_namespace(transaction.base, newest)
    _check_parts(transaction, newest, before.touched)
    if transaction.serializable and transaction.has_read:
        _check_reads(transaction, newest, before)


def check_files(transaction: Transaction, root: Store) -> None:
    """Raise `SerializationFailure` for an old transaction whose files were vacuumed: its process was stopped for long.

    So for one that wrote before the disk failed to store something.
    """
    check_kept(root.uri, transaction.began)
    if not is_old(transaction.began):
        return
    for object_id, part in transaction.parts.items():
        if not part.drops and not _has_files(part, root):
            raise SerializationFailure(
                f"what was written for partition table {object_id!r} was vacuumed before its commit: the transaction began too long ago"
            )


def is_old(began: float) -> bool:
    """Return whether files that were written since a moment of the monotonic clock may have been vacuumed."""
    return time.monotonic() - began >= OLD_SECONDS


def has_data(update: TableUpdate, root: Store) -> bool:
    """Return whether the data files that an update adds are there."""
    return _has(update, root, DATA, {PurePosixPath(file.path).name for each in update.fragments for file in each.files})


def _has_files(part: PartitionChange, root: Store) -> bool:
    if part.staged is not None:
        try:
            partitions.open_at(root.child(part.staged.location), part.staged.pin)
        except NotFound:
            return False
    left_out = {
        PurePosixPath(fragment.deletion_file.path(fragment.id)).name
        for update in part.waiting
        if update.removal is not None
        for fragment in update.removal.updated
        if fragment.deletion_file is not None
    }
    return has_data(part.added, root) and _has(part.added, root, DELETIONS, left_out)


def _has(update: TableUpdate, root: Store, directory: str, names: set[str]) -> bool:
    return not names or names <= set(root.child(update.place).child(directory).files())


def _check_once(transaction: Transaction, newest: Snapshot, names: set[str]) -> None:
    once = transaction.once
    if once is None:
        return
    once.check(newest)
    if once.name in names:
        raise SerializationFailure(f"{once.name} is being committed by another writer")


def _check_namespace(base: Snapshot, newest: Snapshot) -> None:
    """Check that the namespace and its schema are those of the transaction's base; an older spec stays valid."""
    if any(base.metadata.get(key) != newest.metadata.get(key) for key in (NAMESPACE_KEY, SCHEMA_KEY)):
        raise SerializationFailure("the table was dropped, replaced or changed in its schema by another writer")


def _check_parts(transaction: Transaction, newest: Snapshot, touched: set[str]) -> None:
    known = {object_id: part for object_id, part in transaction.parts.items() if part.table is not None}
    found = newest.tables_named(list(transaction.parts))
    for object_id, part in transaction.parts.items():
        # What it has taken away again of its own new partition must not come back with the files of others.
        if part.table is None and part.rewrites and (object_id in found or object_id in touched):
            raise SerializationFailure(f"partition table {object_id!r} was made by another writer")
    for object_id, part in known.items():
        table = found.get(object_id)
        if table is None:
            raise SerializationFailure(f"partition table {object_id!r} was dropped by another writer")
        if isinstance(table.pin, Latest):
            raise SerializationFailure(f"partition table {object_id!r} lost its pin to another writer")
        if part.rewrites and (table != part.table or object_id in touched):
            raise SerializationFailure(f"the rows of partition table {object_id!r} were changed by another writer")


def _check_reads(transaction: Transaction, newest: Snapshot, before: Before) -> None:
    read = list(transaction.reads)
    then, now = transaction.base.tables_named(read), newest.tables_named(read)
    changed = sorted(name for name in read if then.get(name) != now.get(name) or name in before.touched)
    if changed:
        raise SerializationFailure(f"partition table {changed[0]!r}, which was read, was changed by another writer")
    if before.created or newest.table_ids != transaction.base.table_ids:
        raise SerializationFailure(
            "partitions were created by another writer after this transaction had read the table"
        )
