"""Leases: of the snapshots that this process is reading, which vacuum keeps (decision 19), and of the maintenance of a root.

A reader that takes the newest snapshot tells nobody: vacuum keeps every snapshot that was the newest one within the
last `GRACE` seconds, and long before that is over a thread has put all that is still being read into one file for each
process and namespace, which it renews for as long as that lasts. Only who reads an old snapshot has to say so first.
Vacuum says what it is about to remove, and then reads the leases; such a reader writes its lease, and then reads what
is about to be removed. So at least one of the two sees the other.

Of several servers over a root one maintains it at a time. In a directory its lease is the lock of a file, of which the kernel lets go with the process. Object stores have no locks: there the lease is a file that its
holder writes anew, and that another server takes over once it has seen it unchanged for `LEASE_SECONDS`, by its own clock alone. Two that take it
over in the same moment may both work for a while; their commits conflict as those of any two writers, and one of them gives up its work.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from lance_flight.catalog.storage.formats import LEASE
from lance_flight.catalog.storage.staging_area import note_full
from lance_flight.catalog.storage.store import Store, StoredFile
from lance_flight.catalog.storage.whole_files import PRIVATE, VERSIONS
from lance_flight.errors import Corrupt, NotFound, OutsideRoot, StorageFull
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import MANIFEST

LEASES = "leases"
EXPIRING = "expiring"
SUFFIX = ".json"
FORMAT_OF_LEASES = "lance_flight_format"
"""The key of a lease's version, of which the first has none; the other keys are branches."""
CONFIRMED = f".confirmed{SUFFIX}"
"""Ending of the announcement that vacuum writes once it has read the leases: what stands in it is removed, whoever reads it by then."""
GRACE = 60.0
"""Seconds for which a snapshot stays that was the newest one, and a lease that is not renewed."""
INTERVAL = 10.0
"""Seconds between two renewals, and those that a renewal waits for stores."""
SIDE_BY_SIDE = 16
"""Leases that are renewed at once in one object store: a request to one that is away takes up to 15 seconds."""
SETTLED = GRACE / 2
"""Seconds after its commit from which on a snapshot may be one that was replaced long ago."""

ROUNDING = 2.0
"""Seconds by which the time of a file may differ from the clock that it is of."""

SnapshotId = tuple[str | None, int]
"""A branch of `__manifest` (None: the main one) and a version on it."""

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, weakref_slot=True)
class SnapshotLease:
    """Lease on a snapshot that is being read, for as long as this object is referenced, be it by a `with`.

    It is the same one for all in a process who read the snapshot; `is_safe` once vacuum leaves it alone.
    """

    namespace: Store
    snapshot: SnapshotId
    is_safe: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the lease as it is: another holder may keep it."""


class Leases:
    """Snapshots that one process reads. Safe to share among threads."""

    def __init__(self) -> None:
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._holds: WeakValueDictionary[tuple[str, SnapshotId], SnapshotLease] = WeakValueDictionary()
        self._kept: dict[SnapshotLease, float] = {}
        self._published: dict[str, Store] = {}
        self._lock = threading.Lock()
        self._writing: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._renewing: set[str] = set()
        self._renewer: threading.Thread | None = None

    def hold(self, namespace: Store, snapshot: SnapshotId, committed_at: datetime, *, is_newest: bool) -> SnapshotLease:
        """Hold a snapshot that was just read; `NotFound` where vacuum is removing it already.

        Costs microseconds; for an old snapshot that this process does not hold yet, one small file.
        """
        (hold,) = self._lease_objects(namespace, [snapshot])
        # The committer's clock may be another one: an age far below zero says nothing.
        if is_newest or abs((datetime.now(UTC) - committed_at).total_seconds()) < SETTLED:
            hold.is_safe = True
        self._lease(namespace, [hold])
        return hold

    def hold_all(self, namespace: Store, snapshots: Iterable[SnapshotId]) -> list[SnapshotLease]:
        """Hold snapshots of which any may be old, before they are read."""
        holds = self._lease_objects(namespace, snapshots)
        self._lease(namespace, holds)
        return holds

    def _lease_objects(self, namespace: Store, snapshots: Iterable[SnapshotId]) -> list[SnapshotLease]:
        with self._lock:
            if self._renewer is None:
                self._renewer = threading.Thread(target=self._renew, name="leases", daemon=True)
                self._renewer.start()
            # Each is in hand before it is looked up again: nothing else references it.
            return [
                self._holds.setdefault((namespace.uri, snapshot), SnapshotLease(namespace, snapshot))
                for snapshot in snapshots
            ]

    def _lease(self, namespace: Store, holds: Sequence[SnapshotLease]) -> None:
        """Publish the leases that are not published yet, then check that vacuum has not begun to remove their snapshots."""
        unsafe = [hold for hold in holds if not hold.is_safe]
        if not unsafe:
            return
        self.publish(namespace)
        gone = expiring_snapshots(namespace).intersection(hold.snapshot for hold in unsafe)
        for hold in unsafe:
            hold.is_safe = hold.snapshot not in gone
        if gone:
            with self._lock:
                for snapshot in gone:
                    self._holds.pop((namespace.uri, snapshot), None)
            self.publish(namespace)
            raise NotFound(f"snapshot {min(version for _, version in gone)} of {namespace.name!r} has expired")

    def keep(self, holds: Iterable[SnapshotLease], seconds: float) -> None:
        """Keep leases for some time, even if every other holder releases them: for tickets that are not redeemed yet."""
        until = time.monotonic() + seconds
        with self._lock:
            self._kept.update(dict.fromkeys(holds, until))

    def publish(self, namespace: Store) -> None:
        """Write what this process reads of a namespace to its lease, or remove the lease."""
        with self._lock:
            writing = self._writing.setdefault(namespace.uri, threading.Lock())
        # Not under the lock of all: a store that is away answers after many seconds, and readers of others go on.
        with writing:
            snapshots = self.held(namespace)
            place = namespace.child(PRIVATE, LEASES)
            try:
                if snapshots:
                    make_private(namespace, LEASES)
                    put(place, self._name, snapshots)
                else:
                    place.remove_files([self._name])
            except (OSError, OutsideRoot) as exc:
                # The table was dropped, or is read-only here: the retention floor protects the reader all the same.
                log.debug("no lease on %s: %s", namespace.uri, exc)
                if StorageFull.of(exc, "the root") is not None:
                    note_full(namespace)
                    # What is published stays valid, though it names nothing new.
                    with suppress(OSError):
                        os.utime(Path(place.uri, self._name))
                return
            with self._lock:
                if snapshots:
                    self._published[namespace.uri] = namespace
                else:
                    self._published.pop(namespace.uri, None)

    def held(self, namespace: Store) -> set[SnapshotId]:
        """Return the snapshots of a namespace that this process reads, published or not."""
        with self._lock:
            return {snapshot for uri, snapshot in self._holds if uri == namespace.uri}

    def publish_all(self) -> None:
        """Renew every lease, and remove those that have ended; a store that has not answered within `INTERVAL` is left to go on beside the caller.

        So a store that is away delays no lease in another one: each has threads of its own.
        """
        now = time.monotonic()
        with self._lock:
            self._kept = {hold: until for hold, until in self._kept.items() if until > now}
            namespaces = {hold.namespace.uri: hold.namespace for hold in self._holds.values()} | self._published
            for uri in self._renewing:
                namespaces.pop(uri, None)
            self._renewing.update(uri for uri, namespace in namespaces.items() if namespace.is_remote)
        waiting: dict[str, SimpleQueue[Store]] = {}
        for namespace in namespaces.values():
            waiting.setdefault(urlsplit(namespace.uri).netloc if namespace.is_remote else "", SimpleQueue()).put(
                namespace
            )
        here = waiting.pop("", None)
        threads = [
            threading.Thread(target=self._publish_each, args=[tables], name="lease", daemon=True)
            for tables in waiting.values()
            for _ in range(min(tables.qsize(), SIDE_BY_SIDE))
        ]
        for thread in threads:
            thread.start()
        if here is not None:
            self._publish_each(here)
        for thread in threads:
            thread.join(max(0.0, now + INTERVAL - time.monotonic()))

    def _publish_each(self, namespaces: SimpleQueue[Store]) -> None:
        with suppress(Empty):
            while True:
                namespace = namespaces.get_nowait()
                try:
                    self.publish(namespace)
                except Exception:
                    # Of any kind: the other leases are renewed, and this one the next time, as long as this thread goes on.
                    log.exception("the lease on %s was not renewed", namespace.uri)
                with self._lock:
                    self._renewing.discard(namespace.uri)

    def _renew(self) -> None:
        while True:
            time.sleep(INTERVAL)
            self.publish_all()


leases = Leases()
"""The leases of this process."""


def put(place: Store, name: str, snapshots: Iterable[SnapshotId]) -> None:
    """Write a list of snapshots that is never seen half written; the directory has to be there."""
    content = to_bytes(snapshots)
    if place.is_remote:
        place.write(name, content)
        return
    draft = Path(place.uri, f"{name}.{secrets.token_hex(4)}")
    try:
        draft.write_bytes(content)
        draft.replace(Path(place.uri, name))
    except OSError:
        # On a full disk a renewal every few seconds would leave a file each time.
        draft.unlink(missing_ok=True)
        raise


def to_bytes(snapshots: Iterable[SnapshotId]) -> bytes:
    """Return snapshots as they stand in a lease, and in what is about to be removed.

    >>> to_bytes([(None, 2), (None, 1), ("b", 4)])
    b'{"":[1,2],"b":[4]}'
    """
    by_branch: dict[str, list[int]] = {}
    for branch, version in sorted(snapshots, key=lambda pair: (pair[0] or "", pair[1])):
        by_branch.setdefault(branch or "", []).append(version)
    return json.dumps(by_branch, separators=(",", ":")).encode()


def from_bytes(content: bytes, name: str) -> set[SnapshotId]:
    """Return what `to_bytes` wrote; `NewerFormat` for a lease with another version, and `Corrupt` for none: no vacuum may ignore them."""
    try:
        document = read_json(content)
        if FORMAT_OF_LEASES in document:
            LEASE.check(document.pop(FORMAT_OF_LEASES), "the lease of another server")
        pairs = [(branch or None, number) for branch, numbers in document.items() for number in numbers]
    except (ValueError, TypeError, AttributeError) as exc:
        raise Corrupt(f"lease {name} cannot be read: {exc}; expected a file of snapshots, or none") from exc
    for _, number in pairs:
        if not isinstance(number, int):
            raise Corrupt(f"lease {name} has snapshot {number!r}; expected a number")
    return set(pairs)


def leased_snapshots(namespace: Store, now: float) -> set[SnapshotId]:
    """Return every snapshot that some process holds at the moment `now`, in seconds since 1970."""
    return _list_leases(namespace.child(PRIVATE, LEASES), since=now - GRACE)


def expiring_snapshots(namespace: Store) -> set[SnapshotId]:
    """Return the snapshots that vacuum is removing, or was removing when it died."""
    return _list_leases(namespace.child(PRIVATE, EXPIRING))


def _list_leases(place: Store, *, since: float = 0) -> set[SnapshotId]:
    return snapshots_in(place, (file for file in place.tree() if file.modified > since))


def snapshots_in(place: Store, files: Iterable[StoredFile]) -> set[SnapshotId]:
    """Return the snapshots that stand in some of the files at a place; one that has gone by now says nothing."""
    snapshots: set[SnapshotId] = set()
    for file in files:
        if file.path.endswith(SUFFIX):
            with suppress(FileNotFoundError):
                snapshots |= from_bytes(place.read(file.path), f"{file.path!r} of {place.parent.parent.name!r}")
    return snapshots


def clock_of(namespace: Store) -> float:
    """Return the time in seconds since 1970 by the clock that the times of files are of; a file is written to learn it.

    That is the time of this machine, unless both differ by more than object stores round the times of files.
    """
    make_private(namespace, EXPIRING)
    place, name = namespace.child(PRIVATE, EXPIRING), f"{secrets.token_hex(8)}.clock"
    began = time.time()
    place.write(name, b"")
    took = time.time() - began
    (written,) = [file.modified for file in place.tree() if file.path == name]
    place.remove_files([name])
    return time.time() if abs(written - began) < ROUNDING + took else written


def make_private(namespace: Store, name: str) -> None:
    """Make a directory in the namespace's private one; raise `FileNotFoundError` if the namespace was dropped."""
    if namespace.is_remote:
        return
    if not (namespace.has(MANIFEST) or namespace.has(VERSIONS)):
        raise FileNotFoundError(f"{namespace.name} is not there")
    namespace.check_way(PRIVATE, name)
    for place in (namespace.child(PRIVATE), namespace.child(PRIVATE, name)):
        with suppress(FileExistsError):
            Path(place.uri).mkdir()


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
