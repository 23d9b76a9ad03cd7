"""Registry of running statements, with their issuers, states and progress, cancellation and timeouts; and the door to those of other servers.

A query is one statement from its planning until each of its endpoints was read; between, it waits for its reader. Tickets
carry its id, so that another server that is given one knows it by the same id.
"""

from __future__ import annotations

import logging
import secrets
import sys
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import count, islice
from typing import Any, Protocol

import pyarrow as pa

from lance_flight.audit import record_refusal
from lance_flight.backend_values import CancelStatus, PeerRequest
from lance_flight.catalog.storage.retries import looking_since
from lance_flight.connections import holder_of
from lance_flight.engine.runtime.admission import (
    NO_LIMITS,
    AdmissionQueue,
    AdmissionSlot,
    Limits,
    QuotaBook,
    QuotaUsage,
)
from lance_flight.engine.runtime.memory import MemoryWatch
from lance_flight.engine.runtime.running_statement import Issuer, Record, RunningStatement, State, StatementKind
from lance_flight.engine.runtime.streams import OpenStreams
from lance_flight.errors import Cancelled, LanceFlightError, NotFound, Refused, StorageFull
from lance_flight.lru_cache import LruCache


class Peers(Protocol):
    """The other servers; one that does not answer in time is left out, with a warning in the log."""

    def rows(self, table: str, principal: str | None) -> Iterable[pa.Table]:
        """Return the rows of a system table at each of them, as a principal may see them (None: an administrator)."""
        ...

    def kill(self, statement: str, principal: str | None) -> CancelStatus | None:
        """Cancel a statement wherever it runs, if it is the principal's (None: an administrator); None if it runs nowhere."""
        ...

    def cancel(self, statement: str, principal: str) -> Iterable[CancelStatus]:
        """Refuse the tickets of a principal's query everywhere, and cancel what is read of it; return what became of it where."""
        ...

    def local(self, request: PeerRequest) -> Peers | None:
        """Return the peers to which a question is passed on: the other replicas of this machine, if it is to reach them.

        None is for a question that this machine has asked: what it reaches is asked without it.
        """
        ...


class _NoPeers:
    def rows(self, table: str, principal: str | None) -> Iterable[pa.Table]:
        return ()

    def kill(self, statement: str, principal: str | None) -> CancelStatus | None:
        return None

    def cancel(self, statement: str, principal: str) -> Iterable[CancelStatus]:
        return ()

    def local(self, request: PeerRequest) -> Peers | None:
        return self


NO_PEERS: Peers = _NoPeers()
"""Of a server that is alone."""


ID_BYTES = 8
MOST_WAITING = 10_000
"""Most queries that wait for their readers; beyond that the oldest ones count as abandoned."""
MOST_WATCHING = 2
"""Most queries of one holder about what the server does that run at the same time, beside all other statements."""
ABANDONED = 0.1
"""Share of a holder's waiting queries that are given up at once where there are too many."""
MOST_CANCELLED = 100_000
MOST_ENDED = 10_000
"""Most statements that have ended and are remembered."""
MOST_TEXT = 2_000
"""Most characters of the text of each of them."""
TICK = 0.1
"""Seconds between two checks of the running statements."""
MEMORY_TICK = 0.02
"""Seconds between two looks at the memory of the process where it is short."""
OVERDUE_SECONDS = 10.0
"""Seconds after which a statement that was cancelled and is still at work is logged."""
PATIENCE = 1.0
"""Seconds that a cancellation waits for its statement to end."""

log = logging.getLogger(__name__)


Ended = Callable[[Record], None]


class StatementRegistry:
    """Registry of all statements of one server. Safe to share among threads.

    `observe` subscribes to statements that end: each is told once, on the thread that ended it.
    """

    def __init__(self, limits: Limits = NO_LIMITS) -> None:
        self._limits = limits
        self.quotas = QuotaBook()
        self.open_streams = OpenStreams(limits)
        self._turns = AdmissionQueue(limits.running_statements, limits.waiting_statements, self.quotas)
        self._watching = AdmissionQueue(
            sys.maxsize, limits.waiting_statements, self.quotas, may_hold=lambda held, _: held < MOST_WATCHING
        )
        self._watcher: threading.Thread | None = None
        self._memory = MemoryWatch()
        self._statements: OrderedDict[str, RunningStatement] = OrderedDict()
        self._left: list[RunningStatement] = []
        self._overdue: frozenset[str] = frozenset()
        self._cancelled = LruCache[str, str](MOST_CANCELLED)
        self._ended = LruCache[int, Record](MOST_ENDED)
        self._numbers = count()
        self._observers: list[Ended] = []
        self._changed = threading.Condition(threading.RLock())

    def apply(self, limits: Limits) -> None:
        """Hold statements to other limits from now on; those that run keep their timeout."""
        self._limits = limits
        self._turns.resize(limits.running_statements, limits.waiting_statements)
        self._watching.resize(sys.maxsize, limits.waiting_statements)
        self.open_streams.apply(limits)

    def observe(self, ended: Ended) -> None:
        """Call `ended` for every statement that ends from now on."""
        self._observers.append(ended)

    def records(self) -> list[Record]:
        """Return a record of every statement that has not ended."""
        with self._changed:
            return [statement.record() for statement in self._statements.values()]

    def measured(self) -> list[tuple[RunningStatement, list[Any]]]:
        """Return the statements that have not ended and measure their plans, with these."""
        with self._changed:
            return [(each, list(each.measured)) for each in self._statements.values() if each.measured]

    @property
    def overdue(self) -> int:
        """Return the number of statements that were cancelled a while ago and are still at work."""
        return len(self._overdue)

    def ended_records(self) -> list[Record]:
        """Return the records of the statements that ended last, in the order of their ends; long texts are cut."""
        return self._ended.values()

    def quota_usage(self, principal: str | None) -> list[QuotaUsage]:
        """Return the quotas that have counted for a principal (None: for any) within the last hour, with their use now."""
        return self.quotas.usage(self._turns.running, principal)

    @contextmanager
    def enter(self, kind: StatementKind, sql: str, issuer: Issuer) -> Iterator[RunningStatement]:
        """A new statement, which ends with the block unless its endpoints are awaited by then."""
        meter = self.quotas.meter(issuer.allowance, issuer.principal)
        statement = RunningStatement(
            secrets.token_hex(ID_BYTES), kind, sql, issuer, meter, ahead=self.open_streams.held_by(issuer.holder).part()
        )
        with self._changed:
            self._enter(statement)
        with self.working(statement, issuer), looking_since(statement.started):
            yield statement

    def of_ticket(
        self, statement_id: str, part: int, sql: str, issuer: Issuer, began: datetime | None = None
    ) -> RunningStatement:
        """Return the query that a ticket belongs to, registering one planned on another server; `Cancelled` if it was cancelled.

        All its parts have the moment at which it `began`, wherever they run: that is what `now()` gives.
        """
        with self._changed:
            if self._cancelled.get(statement_id):
                raise Cancelled("the statement of this ticket was cancelled")
            statement = self._statements.get(statement_id)
            if statement is None or statement.was_left:
                meter = self.quotas.meter(issuer.allowance, issuer.principal)
                statement = RunningStatement(
                    statement_id or secrets.token_hex(ID_BYTES),
                    StatementKind.QUERY,
                    sql,
                    issuer,
                    meter,
                    ahead=self.open_streams.held_by(issuer.holder).part(),
                )
                statement.began = began or statement.began
                statement.awaited.add(part)
                statement.keep(self._limits.ticket_lifetime)
                self._enter(statement)
            return statement

    @contextmanager
    def working(self, statement: RunningStatement, issuer: Issuer) -> Iterator[None]:
        """Mark a call as working for a statement; an error ends the statement, as does the end of its last part."""
        with self._changed:
            statement.active.append(issuer)
        is_closed = False
        try:
            yield
        except GeneratorExit:
            is_closed = True
            raise
        except LanceFlightError as error:
            record_refusal(error, statement.subject)
            statement.failure = statement.failure or error.code
            raise
        except BaseException as error:
            full = StorageFull.of(error, "the root")
            statement.failure = statement.failure or ("internal" if full is None else full.code)
            raise
        finally:
            with self._changed:
                statement.active.remove(issuer)
                self._changed.notify_all()
            self._settle(statement, "closed" if is_closed else "ok")

    @contextmanager
    def turn(self, statement: RunningStatement, issuer: Issuer, *, is_new: bool = True) -> Iterator[AdmissionSlot]:
        """Hold an admission slot inside the block, after waiting for it; the slot may be paused.

        A new statement is refused with `QuotaExceeded` once the bytes of its principal's quota are used up.
        """
        statement.at(State.QUEUED)
        if is_new:
            statement.meter.charge(statement.uncounted)
            statement.uncounted = 0
        quotas = () if statement.watches else issuer.allowance.slot_quotas(self._limits.statement_memory)
        turns = self._watching if statement.watches else self._turns
        turn = AdmissionSlot(turns, issuer.holder, issuer.session, statement.cancellation, quotas)
        turn.take(is_new=is_new)
        try:
            yield turn
        finally:
            turn.leave()

    def stream(
        self, statement: RunningStatement, part: int, issuer: Issuer, batches: Generator[pa.RecordBatch]
    ) -> Generator[pa.RecordBatch]:
        """Yield the batches of one endpoint as they are sent; the statement ends with its last endpoint.

        `batches` are closed in every case: the error of a cancelled statement would keep them alive.
        """
        with self.working(statement, issuer), closing(batches), self.turn(statement, issuer, is_new=False) as turn:
            statement.at(State.RUNNING)
            try:
                for batch in statement.count_sent(batches):
                    statement.at(State.STREAMING)
                    turn.leave()
                    yield batch
                    turn.take()
                    statement.at(State.RUNNING)
            finally:
                with self._changed:
                    statement.awaited.discard(part)

    def kill(self, statement_id: str, principal: str | None) -> CancelStatus:
        """Cancel a statement of the principal (None: any, for an administrator); raise `NotFound` if none is registered here."""
        with self._changed:
            statement = self._statements.get(statement_id)
            if statement is None or principal not in (None, statement.issuer.principal):
                raise NotFound(f"no statement {statement_id!r} is running; expected the id of one in system.queries")
        return self.cancel(statement_id, statement.issuer)

    def cancel(self, statement_id: str, issuer: Issuer, *, seconds: float = PATIENCE) -> CancelStatus:
        """Cancel a statement of the same principal, and wait briefly for its end; its tickets are refused from now on."""
        with self._changed:
            statement = self._statements.get(statement_id)
            if statement is None:
                self._cancelled.put(statement_id, Cancelled.code, owner=issuer.holder)
                return CancelStatus.CANCELLED
            if statement.issuer.principal != issuer.principal:
                raise Refused(f"statement {statement_id!r} was begun by another principal")
            if not statement.cancellation.cancel(lambda: Cancelled("the statement was cancelled")):
                return CancelStatus.NOT_CANCELLABLE
            self._cancelled.put(statement_id, Cancelled.code, owner=issuer.holder)
            has_ended = self._changed.wait_for(lambda: not statement.active, seconds)
        if not has_ended:
            return CancelStatus.CANCELLING
        statement.failure = statement.failure or Cancelled.code
        self._settle(statement, Cancelled.code)
        return CancelStatus.CANCELLED

    def _enter(self, statement: RunningStatement) -> None:
        statement.limit(self._limits.statement_timeout)
        self._statements[statement.id] = statement
        if self._watcher is None:
            self._watcher = threading.Thread(target=_watch, args=[weakref.ref(self)], name="statements", daemon=True)
            self._watcher.start()

    def watch_memory(self) -> bool:
        """End the statement that takes more memory than there is; return whether it is short."""
        with self._changed:
            running = [
                statement
                for statement in self._statements.values()
                if statement.state in {State.PLANNING, State.RUNNING}
            ]
        return self._memory.watch(running, self._limits.process_memory)

    def watch(self) -> None:
        """Cancel statements that timed out or whose clients disconnected or take nothing, and forget planned ones that were never read."""
        self.open_streams.watch()
        with self._changed:
            statements = list(self._statements.values())
        now = time.monotonic()
        for statement in statements:
            if statement.active:
                # A call leaves its statement before it ends: one that is answered at this moment must not count as disconnected.
                with self._changed:
                    statement.watch()
            elif statement.expires < now:
                self._settle(statement, "abandoned", is_over=True)
        self._watch_ends(statements, now)

    def _watch_ends(self, statements: Iterable[RunningStatement], now: float) -> None:
        """Log each statement that was cancelled and is still at work after `OVERDUE_SECONDS`, which nothing but a restart may end."""
        with self._changed:
            self._left = [
                running_statement for running_statement in self._left if running_statement.cancellation.is_at_work
            ]
            at_work = [
                *self._left,
                *(running_statement for running_statement in statements if running_statement.active),
            ]
        overdue = {
            running_statement.id: running_statement
            for running_statement in at_work
            if running_statement.cancellation.overdue(now) > OVERDUE_SECONDS
        }
        for statement_id in overdue.keys() - self._overdue:
            statement = overdue[statement_id]
            log.warning(
                "statement %s of %s was cancelled %.0f seconds ago and is still at work; it may last until the server is restarted",
                statement_id,
                statement.issuer.principal,
                statement.cancellation.overdue(now),
            )
        self._overdue = frozenset(overdue)

    def _settle(self, statement: RunningStatement, outcome: str, *, is_over: bool = False) -> None:
        """Report a statement that has ended; keep one that waits for its reader, unless too many wait."""
        ended = []
        with self._changed:
            if not statement.active and statement.awaited and statement.failure is None and not is_over:
                statement.at(State.PLANNED)
            elif not statement.active and not statement.has_ended:
                ended.append(self._forget(statement, outcome))
            if len(self._statements) > MOST_WAITING:
                ended += [self._forget(running_statement, "abandoned") for running_statement in self._too_many()]
        for record in ended:
            self._remember(record)
            self._tell(record)

    def _too_many(self) -> list[RunningStatement]:
        """Return the oldest queries that wait for their readers, of the holder that has most of them."""
        waiting = [statement for statement in self._statements.values() if not statement.active]
        counts = Counter(statement.issuer.holder for statement in waiting)
        if not counts:
            return []
        ((holder, most),) = counts.most_common(1)
        return list(
            islice(
                (statement for statement in waiting if statement.issuer.holder == holder), max(1, int(ABANDONED * most))
            )
        )

    def _forget(self, statement: RunningStatement, outcome: str) -> Record:
        """Mark a statement as ended; another one under its id, begun by a client's retry, stays registered."""
        statement.has_ended = True
        if statement.cancellation.is_at_work:
            self._left.append(statement)
        if self._statements.get(statement.id) is statement:
            del self._statements[statement.id]
        return statement.record(statement.failure or outcome)

    def _remember(self, record: Record) -> None:
        text = record.sql if len(record.sql) <= MOST_TEXT else f"{record.sql[:MOST_TEXT]}…"
        # What traces it is another program's, and may hold much.
        remembered = replace(record, sql=text, trace=None)
        self._ended.put(next(self._numbers), remembered, owner=holder_of(record.principal, record.peer))

    def _tell(self, record: Record) -> None:
        for observer in self._observers:
            try:
                observer(record)
            except Exception:
                log.exception("an observer of statements failed")


def _watch(watched: weakref.ref[StatementRegistry]) -> None:
    due = time.monotonic() + TICK
    while (statements := watched()) is not None:
        is_short = statements.watch_memory()
        if due <= time.monotonic():
            due = time.monotonic() + TICK
            statements.watch()
        del statements
        time.sleep(MEMORY_TICK if is_short else TICK)
