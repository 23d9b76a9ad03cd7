"""Lease of the maintenance of a root: of several servers over it, one works at a time.

In a directory it is the lock of a file, of which the kernel lets go with the process. Object stores have no locks: there the lease is a file that its
holder writes anew, and that another server takes over once it has seen it unchanged for `LEASE_SECONDS`, by its own clock alone. Two that take it
over in the same moment may both work for a while; their commits conflict as those of any two writers, and one of them gives up its work.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lance_flight.catalog.storage.names import PRIVATE
from lance_flight.catalog.storage.store import Store

LEASE_FILE = "maintenance.lease"
LEASE_SECONDS = 120.0
"""Time without a renewal after which a lease in an object store is taken over."""
RENEWAL_SECONDS = LEASE_SECONDS / 6
SETTLING_SECONDS = 2.0
"""Time between writing a lease and finding out whether another server wrote it, too."""


class RootLease:
    """Lease of one root. For one thread."""

    def __init__(
        self, root: Store, *, now: Callable[[], float] = time.monotonic, pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._lease = _FileLease(root, now, pause) if root.is_remote else _LockLease(root)

    def hold(self) -> bool:
        """Take the lease, or renew it; return False where another server has it."""
        return self._lease.hold()

    def release(self) -> None:
        """Let another server have the lease at once."""
        self._lease.release()


class _LockLease:
    """The lock of a file in a directory."""

    def __init__(self, root: Store) -> None:
        self._place = root.child(PRIVATE)
        self._handle: int | None = None

    def hold(self) -> bool:
        if self._handle is not None and os.fstat(self._handle).st_nlink:
            return True
        self.release()
        self._place.check_way(LEASE_FILE)
        Path(self._place.uri).mkdir(mode=0o700, exist_ok=True)
        handle = os.open(Path(self._place.uri, LEASE_FILE), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class _FileLease:
    """A file in an object store, which its holder writes anew again and again."""

    def __init__(self, root: Store, now: Callable[[], float], pause: Callable[[float], object]) -> None:
        self._place = root.child(PRIVATE)
        self._now, self._pause = now, pause
        self._mine: bytes | None = None
        self._renewed = 0.0
        self._seen: bytes | None = None
        self._since = 0.0

    def hold(self) -> bool:
        if self._mine is not None:
            return self._renew(self._mine)
        lease = self._read()
        if lease is not None:
            if lease != self._seen:
                self._seen, self._since = lease, self._now()
            if self._now() - self._since < LEASE_SECONDS:
                return False
        mine = self._write()
        self._pause(SETTLING_SECONDS)
        if self._read() == mine:
            self._mine = mine
        return self._mine is not None

    def release(self) -> None:
        mine, self._mine = self._mine, None
        if mine is not None and self._read() == mine:
            self._place.remove_files([LEASE_FILE])

    def _renew(self, mine: bytes) -> bool:
        if self._now() - self._renewed < RENEWAL_SECONDS:
            return True
        self._mine = self._write() if self._read() == mine else None
        return self._mine is not None

    def _read(self) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._place.read(LEASE_FILE)
        return None

    def _write(self) -> bytes:
        content = secrets.token_hex(16).encode()
        self._place.write(LEASE_FILE, content)
        self._renewed = self._now()
        return content
