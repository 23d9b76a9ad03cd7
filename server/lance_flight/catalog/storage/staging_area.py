"""Private places of a root: where a table is built before its name leads to it, and lies when it no longer does.

Each belongs to one operation for as long as that holds the lock of a file in it; the kernel lets go of it with the process.
A place that is not locked was left by a process that died: a table whose successor never came goes back, the rest is removed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.names import PRIVATE
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import StorageFull

log = logging.getLogger(__name__)

LOCK = "lock"
ORIGIN = "origin"
UNCLAIMED_SECONDS = 24 * 3600
"""A place without a lock is one that is just being made, or of a version that made none: time tells them apart."""
_NAME = re.compile(r"[0-9a-f]{16}")
"""Matches the names of private places: a root that is itself a table has its leases in the same directory."""


@dataclass(frozen=True, slots=True)
class StagingArea:
    """A directory of one operation: the table `new` is built there, and the table `old` is what goes away."""

    root: Store
    store: Store

    @property
    def new(self) -> Store:
        """The location at which a new table is built."""
        return self.store.child("new")

    @property
    def old(self) -> Store:
        """The location of the table that was taken out of its place."""
        return self.store.child("old")

    def is_unclaimed(self, now: float) -> bool:
        """Return whether no operation has ever locked it, and none is about to; False for one that is gone."""
        path = Path(self.store.uri)
        with suppress(FileNotFoundError):
            return not (path / LOCK).exists() and path.stat().st_mtime < now - UNCLAIMED_SECONDS
        return False

    def take(self, table: Store) -> None:
        """Move a table of the root to where no name leads; do nothing if it is not there."""
        self.store.write(ORIGIN, table.uri.removeprefix(f"{self.root.uri}/").encode())
        flush(self.store.uri)
        with suppress(FileNotFoundError):
            table.move_to(self.old)

    def give_back(self) -> None:
        """Move the table that was taken back into its place, unless something else lies there by now."""
        if self.old.exists():
            origin = self.root.child(self.store.read(ORIGIN).decode())
            if not origin.exists():
                self.old.move_to(origin)

    def settle(self) -> None:
        """End the operation wherever it stopped: one table has the name, and nothing else is left."""
        if self.new.exists():
            self.give_back()
            # From here on nothing goes back, wherever the removal stops.
            self.new.remove()
        self.store.remove()


@contextmanager
def private_place(root: Store) -> Iterator[StagingArea]:
    """Make a private place for one operation, and settle it when that ends."""
    store, lock = _claim(root)
    place = StagingArea(root, store)
    try:
        yield place
    finally:
        try:
            place.settle()
        except OSError:
            log.warning("a private place could not be removed, and waits for the next start", exc_info=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def place_of_removal(root: Store) -> Iterator[Store]:
    """Yield the place to which a dropped table is moved, and remove it at the end.

    It needs no room, so that a table can be dropped to make some: on a full device it is a private place without a lock.
    """
    with ExitStack() as stack:
        try:
            place = stack.enter_context(private_place(root)).old
        except OSError as exc:
            if StorageFull.of(exc, "the root") is None:
                raise
            place = root.child(PRIVATE, secrets.token_hex(8))
            stack.callback(place.remove)
        yield place


def private_places(root: Store) -> list[StagingArea]:
    """Return the private places in a root, of operations that run and of those that were stopped."""
    names = root.child(PRIVATE).directories()
    return [StagingArea(root, root.child(PRIVATE, name)) for name in names if _NAME.fullmatch(name)]


def settle_abandoned(root: Store) -> None:
    """Settle the private places of processes that have ended; leave those of running processes alone."""
    if root.is_remote:
        return
    root.child(PRIVATE).check_way()
    for place in private_places(root):
        if place.store.is_link:
            log.warning("the private place %s is a symbolic link, which is not followed", place.store.name)
            continue
        try:
            _settle_if_abandoned(place)
        except OSError:
            log.warning("the private place %s could not be settled", place.store.name, exc_info=True)


def _settle_if_abandoned(place: StagingArea) -> None:
    try:
        lock = os.open(Path(place.store.uri, LOCK), os.O_RDWR)
    except FileNotFoundError:
        if place.is_unclaimed(time.time()):
            place.store.remove()
        return
    try:
        if _is_locked(lock):
            place.settle()
    finally:
        os.close(lock)


def _claim(root: Store) -> tuple[Store, int | None]:
    """Return a new private place, and the lock on it where the file system has such."""
    while True:
        store = root.child(PRIVATE, secrets.token_hex(8))
        if root.is_remote:
            return store, None
        store.check_way()
        path = Path(store.uri)
        path.mkdir(parents=True)
        try:
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            with suppress(OSError):
                path.rmdir()
            raise
        # A server that starts at this moment may have taken it for abandoned.
        if _is_locked(lock) and os.fstat(lock).st_nlink:
            return store, lock
        os.close(lock)


def _is_locked(lock: int) -> bool:
    """Take the lock; return False where another process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
