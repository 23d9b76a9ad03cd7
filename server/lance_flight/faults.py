"""Failpoints between the first byte of a write and its acknowledgement, at which a process can be killed or a write fail.

Tests kill a server at each of them, by name, and check the state that is left. Failpoints are inactive without
`LANCE_FLIGHT_FAULT`; with `LANCE_FLIGHT_FAULT=<point>` or `<point>:<n>` the process kills itself when it reaches the point the
n-th time, and with `<point>:<n>:error` the write fails there once as on a full disk.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Mapping
from types import MappingProxyType

VARIABLE = "LANCE_FLIGHT_FAULT"
ERROR = "error"

POINTS: Mapping[str, str] = MappingProxyType(
    {
        "rows_received": "rows of a stream are here, nothing of them is written",
        "file_written": "one of several data files is written to its end",
        "data_written": "all data files are written, none is part of any version",
        "rows_removed": "a deletion file is written, which is part of no version",
        "files_moved": "rows for a partition that another one made first are in its table's files, and in their own still",
        "pin_restored": "the pinned version is back on top of a table that others have staged on, and nothing on it",
        "table_linked": "the files of a table that is attached are in the namespace, and part of no partition",
        "segment_built": "the segment of an index is written for one of several partition tables, and part of no version",
        "table_begun": "a new partition table has an empty version, and nothing in it yet",
        "table_staged": "a version is staged on one of several partition tables",
        "all_staged": "a version is staged on every partition table concerned",
        "columns_added": "__manifest has the columns of a new spec, and the spec is not committed",
        "manifest_written": "the files of the next version of __manifest are written, and it is not committed",
        "committed": "__manifest is committed, and no client has an answer yet",
        "evolved": "a change of specs or schema is committed, and the table metadata has not followed",
        "part_removed": "the files of one of several partitions of a write that was given up are deleted",
        "manifest_made": "a new table has an empty __manifest, and nothing says how it is partitioned",
        "namespace_made": "a new table is whole in its private place",
        "table_replaced": "the replaced table is out of the way, the new one is not in its place yet",
        "table_moved": "a new table has its name, and no client has an answer yet",
        "table_dropped": "a dropped table is out of the way, and its data is still there",
        "expiry_announced": "vacuum has announced the snapshots that it removes, and removed nothing",
        "tables_trimmed": "vacuum has removed what the expired snapshots pinned, and not yet those themselves",
        "snapshots_removed": "vacuum has removed everything, and has not taken back its announcement",
    }
)

BACKUP_POINTS: Mapping[str, str] = MappingProxyType(
    {
        "backup_begun": "a backup has its directory, and no file in it",
        "backup_file_copied": "one of several files is copied to a backup, and stands in no journal",
        "backup_journaled": "some files of a backup are copied, and stand in its journal",
        "backup_copied": "all files of a backup are copied, and no manifest lists them",
        "backup_listed": "the manifest of a backup is written, and its journal is still there",
        "restore_begun": "a root that is restored has its place, and no file in it",
        "restore_file_copied": "one of several files of a root is restored, and stands in no journal",
        "restore_journaled": "some files of a root are restored, and stand in its journal",
        "restore_copied": "all files of a root are restored, but those of the versions that show its tables",
        "restore_ready": "a root is restored whole beside its place",
        "restore_shown": "a restored root is in its place, and still marked as unfinished",
    }
)
"""Failpoints of `lance-flight backup` and `lance-flight restore`, which no write of a server comes by."""

MAINTENANCE_POINTS: Mapping[str, str] = MappingProxyType(
    {
        "maintenance_leased": "a server has the lease of the maintenance of its root, and has looked at no table",
        "maintenance_chosen": "a server has chosen what it maintains next, and done nothing",
        "maintenance_done": "what a server has chosen to maintain is done, and recorded nowhere",
    }
)
"""Failpoints of the maintenance that a server does by itself, beside those of the work that it does."""

MIGRATION_POINTS: Mapping[str, str] = MappingProxyType(
    {
        "format_rows_moved": "the rows of a table are where its next format wants them, and the table is of the old one",
        "format_raised": "a table is of its next format, and its table metadata says so or will",
        "formats_drafted": "all tables of a root are migrated, and its record is written beside its place",
        "formats_recorded": "the record of a root says which formats new tables have, and nothing was reported",
    }
)
"""Failpoints of `lance-flight migrate`, beside those of its commits."""


class _Fault:
    """A fault to inject: its failpoint, the pass at which it happens, and whether it kills the process or raises an error."""

    def __init__(self, text: str) -> None:
        self.point, number, how = (*text.split(":"), "", "")[:3]
        self._left = int(number or 1)
        self._lock = threading.Lock()
        self._dies = how != ERROR
        known = [*POINTS, *BACKUP_POINTS, *MAINTENANCE_POINTS, *MIGRATION_POINTS]
        if self.point not in known:
            raise ValueError(f"{VARIABLE} names {self.point!r}; expected one of {', '.join(known)}")
        if how not in {"", ERROR}:
            raise ValueError(f"{VARIABLE} ends in {how!r}; expected {ERROR!r} or nothing after the number")

    def pass_by(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left != 0:
                return
        if self._dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_fault = _Fault(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def failpoint(point: str) -> None:
    """Trigger the configured fault if it is at this one of the points above; called by what reaches the point."""
    if _fault is not None and _fault.point == point:
        _fault.pass_by()
