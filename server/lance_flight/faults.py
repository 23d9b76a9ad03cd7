"""Places between the first byte of a write and its acknowledgement where a process can be made to die.

Tests kill a server at each of them, by name, and look at what is left. Without `LANCE_FLIGHT_FAULT` nothing here does
anything; with `LANCE_FLIGHT_FAULT=<point>` or `<point>:<n>` the process kills itself when it comes there the n-th time.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from types import MappingProxyType

VARIABLE = "LANCE_FLIGHT_FAULT"

POINTS: Mapping[str, str] = MappingProxyType(
    {
        "rows_received": "the first rows of a stream are here, nothing of them is written",
        "data_written": "all data files are written, none is part of any version",
        "table_staged": "a version is staged on one of several partition tables",
        "all_staged": "a version is staged on every partition table concerned",
        "manifest_written": "the new rows of __manifest are in a data file, which is not committed",
        "committed": "__manifest is committed, and nobody has been told",
        "namespace_made": "a new table is whole in its private place",
        "table_moved": "a new table has its name, and nobody has been told",
        "table_dropped": "a dropped table is out of the way, and its data is still there",
        "expiry_announced": "vacuum has said which snapshots go, and removed nothing",
        "tables_trimmed": "vacuum has removed what the expired snapshots pinned, and not yet those themselves",
        "snapshots_removed": "vacuum has removed everything, and has not taken back its announcement",
        "table_replaced": "the replaced table is out of the way, the new one is not in its place yet",
    }
)


class _Fault:
    """One point, and how many times it is passed before the process dies there."""

    def __init__(self, text: str) -> None:
        self.point, _, number = text.partition(":")
        self._left = int(number or 1)
        self._lock = threading.Lock()
        if self.point not in POINTS:
            raise ValueError(f"{VARIABLE} names {self.point!r}; expected one of {', '.join(POINTS)}")

    def passed(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_fault = _Fault(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def reached(point: str) -> None:
    """Say that a write has come to one of `POINTS`."""
    if _fault is not None and _fault.point == point:
        _fault.passed()
