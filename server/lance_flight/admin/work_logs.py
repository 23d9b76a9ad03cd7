"""Logs of work that has ended: statements and maintenance as log lines, and the audit trail in a file, which is opened again when it was moved."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lance_flight.admin.logs import FIELDS
from lance_flight.engine.runtime.running_statement import OK, MaintenanceRecord, Record, StatementKind
from lance_flight.errors import InvalidInput

_statements = logging.getLogger("lance_flight.statements")
_maintenance = logging.getLogger("lance_flight.maintenance")
_EXPECTED = frozenset({OK, "cancelled", "conflict", "serialization_failure"})
"""Outcomes of which nobody needs to be warned: writers came first, or the server was stopped."""


class StatementLog:
    """Logs statements that have ended, with up to `sql_characters` of their text (0: without it), at level INFO.

    A statement that was merely prepared is logged where that failed: otherwise its execution is.
    """

    def __init__(self, sql_characters: int) -> None:
        self._sql_characters = sql_characters
        _statements.setLevel(logging.INFO)

    def log_end(self, record: Record) -> None:
        """Log one statement."""
        if record.kind is not StatementKind.PREPARE or record.outcome != "ok":
            _statements.info("ended", extra={FIELDS: self._fields(record)})

    def _fields(self, record: Record) -> dict[str, object]:
        fields: dict[str, object] = {
            "id": record.id,
            "kind": record.kind.value,
            "outcome": record.outcome,
            "principal": record.principal,
            "session": record.session,
            "peer": record.peer,
            "snapshots": dict(record.snapshots),
            "partitions_scanned": record.partitions_scanned,
            "partitions_total": record.partitions_total,
            "rows": record.rows,
            "bytes": record.size,
            "queued_ms": _milliseconds(record.queued_seconds),
            "planning_ms": _milliseconds(record.planning_seconds),
            "total_ms": _milliseconds(record.seconds),
        }
        return fields | ({"sql": shorten_text(record.sql, self._sql_characters)} if self._sql_characters else {})


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def shorten_text(text: str, characters: int) -> str:
    """Truncate a text to a number of characters, ending with an ellipsis if it was longer."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


class MaintenanceLog:
    """Logs maintenance that has ended, at level INFO, and as a warning where it has failed."""

    def __init__(self) -> None:
        _maintenance.setLevel(logging.INFO)

    def log_end(self, record: MaintenanceRecord) -> None:
        """Log one piece of work."""
        fields = {
            "table": f"{record.db_schema}.{record.table}",
            "kind": record.kind,
            "outcome": record.outcome,
            "reason": record.reason,
            "result": record.result,
            "total_ms": round(record.seconds * 1000, 3),
        }
        _maintenance.log(
            logging.INFO if record.outcome in _EXPECTED else logging.WARNING, "ended", extra={FIELDS: fields}
        )


STANDARD_OUTPUT = "-"
MOST_PENDING = 10_000
"""Most lines that wait to be written; further ones are lost."""
CLOSING_SECONDS = 5.0

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Line:
    text: str
    is_done: threading.Event = field(default_factory=threading.Event)
    is_written: bool = False
    is_withdrawn: bool = False

    def wait(self, seconds: float) -> bool:
        """Wait until the line is written, and return whether it is; one that is not in time is withdrawn."""
        self.is_withdrawn = not self.is_done.wait(seconds)
        return self.is_written and not self.is_withdrawn


class AuditLog:
    """Appends lines to a file, or to standard output for the path `-`, on a thread of its own. Safe to share among threads.

    The constructor raises `InvalidInput` for a file that cannot be opened. A line that cannot be written later is lost: the server's log says so once,
    and the file itself how many when it can be written again. Several processes may append to one file. A file that was moved
    away or replaced is opened anew under its path before the next line.
    """

    def __init__(self, path: str) -> None:
        self._path = None if path == STANDARD_OUTPUT else path
        self._lines: queue.Queue[_Line | None] = queue.Queue(MOST_PENDING)
        self._lost = 0
        self._unsaid = 0
        self._is_torn = False
        self._is_failing = False
        self._counting = threading.Lock()
        try:
            self._file = self._open()
        except OSError as exc:
            raise InvalidInput(f"setting 'audit_log' is {path!r}, which cannot be written: {exc.strerror}") from exc
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Return the number of lines that could not be written."""
        return self._lost

    def put(self, line: str) -> Callable[[float], bool]:
        """Take a line, and return what waits for so many seconds at most until it is written, and says whether it is."""
        taken = _Line(line)
        try:
            self._lines.put_nowait(taken)
        except queue.Full:
            self._lose("too many lines wait to be written")
            taken.is_done.set()
        return taken.wait

    def close(self) -> None:
        """Write the lines that wait, for a few seconds at most."""
        try:
            self._lines.put(None, timeout=CLOSING_SECONDS)
        except queue.Full:
            return
        self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            line.is_written = not line.is_withdrawn and self._write(line.text)
            line.is_done.set()

    def _write(self, text: str) -> bool:
        """Append a line, after one that says how many were lost before it; return whether that was possible."""
        try:
            self._follow()
            with self._counting:
                unsaid = self._unsaid
            if unsaid:
                self._append(_lost_line(unsaid))
                with self._counting:
                    self._unsaid -= unsaid
            self._append(text)
        except OSError as exc:
            self._lose(exc.strerror or str(exc))
            return False
        if self._is_failing:
            self._is_failing = False
            _log.warning("the audit log %s is written again", self._path or "on standard output")
        return True

    def _append(self, text: str) -> None:
        """Append a line; what was written of one before is ended first."""
        data = f"{text}\n".encode()
        if self._is_torn:
            data = b"\n" + data
        while data:
            written = os.write(self._file, data)
            data = data[written:]
            self._is_torn = bool(data)

    def _follow(self) -> None:
        """Open the file anew if another one, or none, is under its path."""
        if self._path is None:
            return
        mine = os.fstat(self._file)
        try:
            there = os.stat(self._path)  # noqa: PTH116
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            before, self._file = self._file, self._open()
            os.close(before)
            self._is_torn = False

    def _open(self) -> int:
        if self._path is None:
            return os.dup(1)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _lose(self, why: str) -> None:
        with self._counting:
            self._lost += 1
            self._unsaid += 1
            is_first, self._is_failing = not self._is_failing, True
        if is_first:
            where = self._path or "on standard output"
            _log.error("the audit log %s cannot be written: %s; events are lost until it can", where, why)


def _lost_line(count: int) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, "event": "lost", "count": count})
