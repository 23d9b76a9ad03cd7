"""Private places of a root: where tables are built before their names lead to them, and room that is kept for a full disk.

Each belongs to one operation for as long as that holds the lock of a file in it; the kernel lets go of it with the process.
A place that is not locked was left by a process that died: a table whose successor never came goes back, the rest is removed.

The reserve of a root: room that is given back on a full disk, so that statements which free room can run.

Small files in `.lance-flight/reserve/`, which hold nothing: several of them, since a disk may also run out of files.
The time of that directory is when the disk was last found full, since no room is needed to set it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.errors import LanceFlightError, StorageFull

T = TypeVar("T")

RESERVE = "reserve"
PIECES, PIECE_BYTES = 32, 32 << 10
"""1 MiB in all."""
FOR_VACUUM = 8
"""Pieces that only a vacuum uses: others free room once one has run, and may have run many times before it."""


_incomplete: set[str] = set()
"""Roots of this process whose reserve waits for room."""


def fill_reserve(store: Store) -> None:
    """Make the files that are missing of the reserve of a store's root, as far as there is room; on disks alone."""
    root = _root_of(store)
    if root.is_remote:
        return
    root.check_way(PRIVATE, RESERVE)
    place = _place(root)
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        is_new = not place.exists()
        place.mkdir(mode=0o700, exist_ok=True)
        for number in range(PIECES):
            _fill(place / str(number))
        if is_new:
            os.utime(place, (0, 0))
    except OSError as exc:
        # A root that is only read has none, and a full disk gets it back later.
        log.debug("the reserve of %s is not complete: %s", root.name, exc)
        _incomplete.add(root.uri)
    else:
        _incomplete.discard(root.uri)


def note_full(store: Store) -> None:
    """Record that a reader found no room to say what it reads."""
    with suppress(OSError):
        os.utime(_place(_root_of(store)))


def last_full(store: Store) -> float:
    """Return when the disk of a root was last found full, in seconds since 1970; 0 if it never was, and for an object store."""
    root = _root_of(store)
    if root.is_remote:
        return 0.0
    try:
        return _place(root).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def run_with_reserve(store: Store, work: Callable[[], T], *, kept: int = FOR_VACUUM) -> T:
    """Run work that frees room; on a full disk give the reserve back, all but some pieces that are `kept`, and run it once more.

    The work stores all or nothing. The reserve is filled again afterwards, if there is room by then.
    """
    root = _root_of(store)
    try:
        result = work()
    except (LanceFlightError, OSError, RuntimeError, ValueError) as exc:
        if not (_is_full(exc) and _give_back(root, kept)):
            raise
        log.warning("the disk of %s is full: its reserve was given back", root.name)
    else:
        if root.uri in _incomplete:
            fill_reserve(root)
        return result
    try:
        return work()
    finally:
        fill_reserve(root)


def _root_of(store: Store) -> Store:
    return store if store.top is None else Store(store.top, store.storage_options)


def _place(root: Store) -> Path:
    return Path(root.uri, PRIVATE, RESERVE)


def _is_full(error: Exception) -> bool:
    return isinstance(error, StorageFull) or StorageFull.of(error, "the root") is not None


def _give_back(root: Store, kept: int) -> bool:
    """Remove the files of the reserve, all but the first ones that are `kept`; return whether there was one."""
    if root.is_remote:
        return False
    root.check_way(PRIVATE, RESERVE)
    given = False
    for number in range(kept, PIECES):
        with suppress(FileNotFoundError):
            (_place(root) / str(number)).unlink()
            given = True
    return given


def _fill(piece: Path) -> None:
    """Make one file, whole or not at all; random bytes, which no file system stores in less."""
    with suppress(FileNotFoundError):
        if piece.stat().st_size == PIECE_BYTES:
            return
    try:
        piece.write_bytes(os.urandom(PIECE_BYTES))
    except OSError:
        piece.unlink(missing_ok=True)
        raise


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
