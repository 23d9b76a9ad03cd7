"""The reserve of a root: room that is given back on a full disk, so that statements which free room can run.

Small files in `.lance-flight/reserve/`, which hold nothing: several of them, since a disk may also run out of files.
The time of that directory is when the disk was last found full, since no room is needed to set it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lance_flight.catalog.storage.names import PRIVATE
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import LanceFlightError, StorageFull

T = TypeVar("T")

RESERVE = "reserve"
PIECES, PIECE_BYTES = 32, 32 << 10
"""1 MiB in all."""
FOR_VACUUM = 8
"""Pieces that only a vacuum uses: others free room once one has run, and may have run many times before it."""

log = logging.getLogger(__name__)

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
