"""Queries as they were planned a moment ago: most tickets are redeemed at once, by the server that gave them out.

Planning such a query again gives the same, as long as its tables are there and its reader may see as much of them. Whatever
is kept here is used once at most, and keeps no snapshot from being vacuumed: a ticket does that.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from lance_flight.catalog.storage.leases import Hold
from lance_flight.engine.query.policies.access import Access
from lance_flight.engine.query.tasks import Task
from lance_flight.engine.runtime.statement_runs import Record, RunningStatement
from lance_flight.engine.statements.answers import Answer, QueryAnswer
from lance_flight.errors import LanceFlightError

MOST_READY = 32
"""Each keeps the snapshots of its tables in memory."""

LONGEST_TEXT = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ready:
    running: RunningStatement
    task: Task
    access: Access
    answer: QueryAnswer


class ReadyAnswers:
    """The newest queries of one server that wait for their reader. Safe to share among threads."""

    def __init__(self) -> None:
        self._ready: OrderedDict[str, _Ready] = OrderedDict()
        self._lock = Lock()

    def keep(self, running: RunningStatement, task: Task, access: Access, answer: Answer) -> None:
        """Keep what a statement with one endpoint was planned to return, if nothing but its task decides about that."""
        if task.transaction is not None or task.temporary or not isinstance(answer, QueryAnswer):
            return
        if len(task.sql) > LONGEST_TEXT:
            return  # its plan takes hundreds of times the memory
        if not answer.session.named.can_be_opened_again:
            return
        with self._lock:
            self._ready[task.statement] = _Ready(running=running, task=task, access=access, answer=answer)
            while len(self._ready) > MOST_READY:
                self._ready.popitem(last=False)

    def taken(self, running: RunningStatement, task: Task, access: Access, holds: list[Hold]) -> QueryAnswer | None:
        """What a task returns, of snapshots that are held by `holds`; None where it has to be planned again."""
        with self._lock:
            found = self._ready.pop(task.statement, None)
        if found is None or found.running is not running or (found.task, found.access) != (task, access):
            return None
        try:
            found.answer.session.named.open_again(holds)
        except LanceFlightError:
            # Planning it says what is the matter.
            return None
        return found.answer

    def forget(self, ended: Record) -> None:
        """A statement has ended, read or not."""
        with self._lock:
            self._ready.pop(ended.id, None)
