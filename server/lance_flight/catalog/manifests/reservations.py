"""Reservations of the next commits of a namespace: a note in the guard row that other writers wait for, some seconds at most.

Work that takes long from its snapshot to its commit never is the first one beside a writer that commits all the time. It reserves
the namespace instead: writers that see the note begin no commit until it has gone, or its time is over. A reservation promises
nothing: who does not know of it, or has waited for long enough, commits all the same, and conflicts are found as ever.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial

from lance_flight.catalog.manifests.differences import Difference
from lance_flight.catalog.manifests.guard_notes import notes_of, with_note
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.new_partitions import guard_row
from lance_flight.catalog.manifests.row_commits import commit_rows
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import VersionLog
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.errors import LanceFlightError

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
def reserved(manifest: Manifest, seconds: float) -> Iterator[str]:
    """Keep other writers from beginning commits during the block; yields the name by which commits in the block pass.

    The reservation lasts for about `seconds`, `LEAST_SECONDS` to `MOST_SECONDS`, and no longer than the block.
    """
    holder = secrets.token_hex(8)
    bounded = min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
    note = asdict(Reservation(holder=holder, since=time.time(), seconds=bounded))
    commit_rows(manifest, lambda snapshot: _with_reservation(snapshot, note), "reserve the next commit")
    try:
        yield holder
    finally:
        # Where it stays, writers wait until its time is over.
        with suppress(LanceFlightError, *UNREADABLE):
            commit_rows(manifest, partial(_released, holder), "release the reservation")


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
        found = reservation_of(log.snapshot())
        if found is None or found.holder == holder:
            return
        age = time.time() - found.since
        # The clock of the holder may be another one: one that is far ahead would keep others waiting after it has died.
        if not -MOST_SECONDS <= age <= found.seconds or time.monotonic() > began + found.seconds:
            return
        time.sleep(TICK)


def _with_reservation(snapshot: Snapshot, note: object) -> Difference:
    return Difference(with_note(guard_row(snapshot), NOTE, note), ())


def _released(holder: str, snapshot: Snapshot) -> Difference:
    found = reservation_of(snapshot)
    if found is None or found.holder != holder:
        return Difference(snapshot.rows.slice(0, 0), ())
    return _with_reservation(snapshot, None)
