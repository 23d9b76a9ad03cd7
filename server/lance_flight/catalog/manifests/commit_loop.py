"""The loop of every commit: what is to change is worked out on the newest snapshot, again and again until no other writer is first.

Work that takes long from its snapshot to its commit never is the first one beside a writer that commits all the time. It reserves
the namespace instead: writers that see the note begin no commit until it has gone, or its time is over. A reservation promises
nothing: who does not know of it, or has waited for long enough, commits all the same, and conflicts are found as ever.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol, TypeVar

from lance_flight.catalog.manifests.manifest_rows import guard_row, notes_of
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import Change, Revision, VersionLog
from lance_flight.catalog.storage.retries import COMMIT, retry
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.errors import Conflict, LanceFlightError, SerializationFailure
from lance_flight.faults import failpoint


class Versioned(Protocol):
    """State that a change is worked out on: a snapshot, or the list of a root."""

    @property
    def version(self) -> int:
        """Its version, which a change that has nothing to do returns."""
        ...


State = TypeVar("State", bound=Versioned)
Revision_contra = TypeVar("Revision_contra", contravariant=True)
Base_contra = TypeVar("Base_contra", bound=Versioned, contravariant=True)
Revised = TypeVar("Revised")


class Log(Protocol[Base_contra, Revision_contra]):
    """Log that is committed to, version by version."""

    @property
    def root(self) -> Store:
        """The directory that errors name."""
        ...

    def make_visible(self, base: Base_contra, revision: Revision_contra, mark: str) -> int | None:
        """Commit on top of exactly `base`, and return the version in which it is visible, whatever answer came.

        None where another writer was first; `OutcomeUnknown` where an object store did not say.
        """
        ...


def commit(
    log: Log[State, Revised],
    change: Callable[[State], Revised | None],
    newest: Callable[[], State],
    attempting: Callable[[int], AbstractContextManager[object]] = nullcontext,
) -> int:
    """Commit what `change` makes of the `newest` state, and return the version in which it is visible.

    It is worked out again on each newer state after a `Conflict`. None changes nothing; `SerializationFailure` says that it cannot
    be worked out any more. Each attempt runs within `attempting`, which is called with its number.
    """
    mark = secrets.token_hex(16)

    def attempt(number: int) -> int | None:
        with attempting(number):
            base = newest()
            try:
                revision = change(base)
                return base.version if revision is None else log.make_visible(base, revision, mark)
            except SerializationFailure:
                raise
            except Conflict:
                return None

    return retry(COMMIT, log.root.name, attempt)


NOTE = "lance_flight:reserved"
LEAST_SECONDS = 1.0
MOST_SECONDS = 30.0
"""A holder that dies has others wait for that long at most; one that lives releases it as soon as it has committed."""
TICK = 0.05
"""Seconds between two looks of a writer that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Reservation of a namespace: its holder, its begin (seconds since 1970), and its length in seconds."""

    holder: str
    since: float
    seconds: float


@contextmanager
def reserve_turn(log: VersionLog, seconds: float) -> Iterator[str]:
    """Keep other writers from beginning commits during the block; yields the name by which commits in the block pass.

    The reservation lasts for about `seconds`, `LEAST_SECONDS` to `MOST_SECONDS`, and no longer than the block.
    """
    holder = secrets.token_hex(8)
    bounded = min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
    note = asdict(Reservation(holder=holder, since=time.time(), seconds=bounded))
    commit(log, lambda _: Revision(operation="reserve the next commit", notes={NOTE: note}), log.snapshot)
    try:
        yield holder
    finally:
        # Where it stays, writers wait until its time is over.
        with suppress(LanceFlightError, *UNREADABLE):
            commit(log, partial(_release_turn, holder), log.snapshot)


def reservation_of(snapshot: Snapshot) -> Reservation | None:
    """Return the reservation that a snapshot tells of."""
    note = notes_of(guard_row(snapshot)).get(NOTE)
    match note:
        case {"holder": str(holder), "since": int() | float() as since, "seconds": int() | float() as seconds}:
            return Reservation(holder=holder, since=since, seconds=min(seconds, MOST_SECONDS))
    return None


def wait_for_release(log: VersionLog, holder: str | None = None) -> None:
    """Wait while another writer than `holder` has reserved the namespace, and no longer than the reservation lasts."""
    began = time.monotonic()
    while True:
        reservation = reservation_of(log.snapshot())
        if reservation is None or reservation.holder == holder:
            return
        age = time.time() - reservation.since
        # The clock of the holder may be another one: one that is far ahead would keep others waiting after it has died.
        if not -MOST_SECONDS <= age <= reservation.seconds or time.monotonic() > began + reservation.seconds:
            return
        time.sleep(TICK)


def _release_turn(holder: str, snapshot: Snapshot) -> Revision | None:
    reservation = reservation_of(snapshot)
    is_mine = reservation is not None and reservation.holder == holder
    return Revision(operation="release the reservation", notes={NOTE: None}) if is_mine else None


UNRESERVED_ATTEMPTS = 2
"""After so many attempts that came too late others are asked to wait."""


def evolve(log: VersionLog, change: Change, newest: Callable[[], Snapshot]) -> int:
    """Commit a change of specs, schema or notes, and return the version in which it is visible.

    `newest` gives a snapshot that is ready for our writes. Beside others who are always first the namespace is reserved.
    """
    seconds, is_changed = 0.0, False

    @contextmanager
    def attempting(number: int) -> Iterator[None]:
        nonlocal seconds
        wait_for_release(log)
        began = time.monotonic()
        with reserve_turn(log, 2 * seconds) if number >= UNRESERVED_ATTEMPTS else nullcontext():
            yield
        seconds = time.monotonic() - began

    def changed(snapshot: Snapshot) -> Revision | None:
        nonlocal is_changed
        revision = change(snapshot)
        is_changed = revision is not None
        return revision

    version = commit(log, changed, newest, attempting)
    if is_changed:
        # The change is committed, whatever comes of this: the next writer finds what is still missing.
        with suppress(LanceFlightError, *UNREADABLE):
            failpoint("evolved")
            log.follow(log.snapshot())
    return version
