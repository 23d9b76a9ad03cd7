"""Statements that outlive the call that began them: PollFlightInfo.

The first poll begins a statement on a thread of its own, and names a descriptor to poll again while it is not done. A query is done once
its rows can be read; any other statement once it has run. A statement that its client does not poll for a minute ends, as if the client were gone.

A statement counts as a running call of its holder until it is done (`calls.InFlight`). What was answered is kept for clients that have
lost the answer, for as long as there is room.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from google.protobuf.timestamp_pb2 import Timestamp
from pyarrow import flight

from lance_flight.backend_values import CancelStatus
from lance_flight.errors import Cancelled, NotFound
from lance_flight.flight.calls import Call, InFlight
from lance_flight.flight.dispatch import Dispatch, command_of
from lance_flight.flight.protocol.flight_messages_pb2 import PollInfo
from lance_flight.flight.wire import TicketStatementQuery, encode_command
from lance_flight.lru_cache import LruCache

FIRST_SECONDS, NEXT_SECONDS = 1.0, 2.0
"""Longest time that the first poll of a statement waits for it, and a later one: some clients poll again at once."""
IDLE_SECONDS = 60.0
"""Time without a poll after which a statement ends, and after which what became of it is forgotten."""
MOST_RUNNING = 1000
"""Most statements that run at the same time; `running_calls` bounds them, too."""
MOST_ANSWERS, MOST_ANSWER_BYTES = 1024, 64 << 20
"""Most answers that are kept, and most bytes of them together."""
_HANDLE_BYTES = 24


class Polls:
    """Polls of one statement, and what the engine asks and tells while it runs: it keeps this long after, and never the answer."""

    def __init__(self) -> None:
        self.progress = 0.0
        self.is_cancelled = False
        self._running, self._last = 0, time.monotonic()
        self._lock = threading.Lock()

    def is_gone(self) -> bool:
        """Return whether the statement was cancelled, or its client has stopped polling."""
        with self._lock:
            is_idle = not self._running and time.monotonic() - self._last > IDLE_SECONDS
        return self.is_cancelled or is_idle

    def report_progress(self, progress: float) -> None:
        """Note how much of the work is done."""
        self.progress = min(max(progress, 0.0), 1.0)

    def count(self, by: int) -> None:
        """Count a poll that begins, or ends."""
        with self._lock:
            self._running += by
            self._last = time.monotonic()


class PolledStatement:
    """A statement that a client polls: who began it, its polls, and its `outcome` once it is known, a FlightInfo in bytes or an error."""

    def __init__(self, call: Call) -> None:
        self.handle = secrets.token_bytes(_HANDLE_BYTES)
        self.principal, self.holder = call.caller.principal, call.caller.holder
        self.polls = Polls()
        self.outcome: bytes | Exception | None = None
        self._done = threading.Event()

    @property
    def descriptor(self) -> flight.FlightDescriptor:
        """Return the descriptor to poll again."""
        return flight.FlightDescriptor.for_command(encode_command(TicketStatementQuery(statement_handle=self.handle)))

    def wait(self, seconds: float) -> None:
        """Wait for the outcome, at most so long."""
        self.polls.count(1)
        try:
            self._done.wait(seconds)
        finally:
            self.polls.count(-1)

    @property
    def size(self) -> int:
        """Return the bytes of the outcome."""
        return len(self.outcome) if isinstance(self.outcome, bytes) else 0

    def end(self, outcome: bytes | Exception) -> None:
        """Set the outcome."""
        if isinstance(outcome, Exception):
            outcome = (
                Cancelled("the statement was cancelled") if self.polls.is_cancelled else outcome.with_traceback(None)
            )
        self.outcome = outcome
        self._done.set()

    def answer(self) -> PollInfo:
        """Return what a poll is told; raise the error by which the statement has failed."""
        outcome = self.outcome
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        if outcome is not None:
            return PollInfo(info=outcome, progress=1.0)
        # Some clients want an info from the beginning: it is what they can cancel.
        begun = flight.FlightInfo(None, self.descriptor, [], -1, -1)
        return PollInfo(
            info=begun.serialize(),
            flight_descriptor=self.descriptor.serialize(),
            progress=self.polls.progress,
            expiration_time=Timestamp(seconds=int(time.time() + IDLE_SECONDS)),
        )


class PolledStatements:
    """All statements that clients poll, each found by its random handle and for its own principal alone."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._running: dict[bytes, PolledStatement] = {}
        self._answered: LruCache[bytes, PolledStatement] = LruCache(
            MOST_ANSWERS, most_weight=MOST_ANSWER_BYTES, weigh=lambda item: item.size, idle_seconds=IDLE_SECONDS
        )
        self._threads = ThreadPoolExecutor(min(in_flight.most, MOST_RUNNING), "polled-statement")
        self._changed = threading.Lock()

    def poll(self, dispatch: Dispatch, call: Call, descriptor: flight.FlightDescriptor) -> PollInfo:
        """Begin the statement of a descriptor, or return the state of one that has begun."""
        command = command_of(descriptor)
        if isinstance(command, TicketStatementQuery):
            statement = self._find(command.statement_handle, call.caller.principal)
            if statement is None:
                raise NotFound(
                    f"no statement to poll: it was begun by another principal or on another server, or nobody polled it for {IDLE_SECONDS:g}"
                    " seconds; expected a new one"
                )
            statement.wait(NEXT_SECONDS)
            return statement.answer()
        statement = self._begin(call, lambda begun: dispatch.flight_info(begun, descriptor, lambda _: None))
        statement.wait(FIRST_SECONDS)
        return statement.answer()

    def cancel(self, call: Call, info: flight.FlightInfo) -> CancelStatus | flight.FlightInfo | None:
        """Cancel the statement that a poll has told of with an info; its final info if it is done, None for an info of another kind."""
        descriptor = info.descriptor
        if descriptor.descriptor_type != flight.DescriptorType.CMD or info.endpoints:
            return None
        command = command_of(descriptor)
        if not isinstance(command, TicketStatementQuery):
            return None
        statement = self._find(command.statement_handle, call.caller.principal)
        if statement is None or isinstance(statement.outcome, Exception):
            return CancelStatus.NOT_CANCELLABLE
        if statement.outcome is not None:
            return flight.FlightInfo.deserialize(statement.outcome)
        statement.polls.is_cancelled = True
        return CancelStatus.CANCELLING

    def close(self) -> None:
        """Cancel all running statements."""
        with self._changed:
            for statement in self._running.values():
                statement.polls.is_cancelled = True

    def _find(self, handle: bytes, principal: str) -> PolledStatement | None:
        with self._changed:
            statement = self._running.get(handle) or self._answered.get(handle)
        return statement if statement is not None and statement.principal == principal else None

    def _begin(self, call: Call, run: Callable[[Call], flight.FlightInfo]) -> PolledStatement:
        statement = PolledStatement(call)
        polls = statement.polls
        caller = dataclasses.replace(call.caller, is_gone=polls.is_gone, progressed=polls.report_progress)
        begun = dataclasses.replace(call, caller=caller, is_cancelled=polls.is_gone, offered=None)
        self._in_flight.enter()
        try:
            self._in_flight.hold(statement.holder)
        except BaseException:
            self._in_flight.leave()
            raise
        with self._changed:
            self._running[statement.handle] = statement
        # Threads that are used again have one arena of the allocator each, and not one a statement.
        self._threads.submit(self._run, statement, begun, run)
        return statement

    def _run(self, statement: PolledStatement, call: Call, run: Callable[[Call], flight.FlightInfo]) -> None:
        outcome: bytes | Exception = Cancelled("the statement was cancelled")
        try:
            outcome = run(call).serialize()
        except Exception as error:  # noqa: BLE001 - who polls gets it, and it is logged there
            outcome = error
        finally:
            statement.end(outcome)
            with self._changed:
                self._running.pop(statement.handle, None)
                self._answered.put(statement.handle, statement, owner=statement.holder)
            self._in_flight.leave(statement.holder)
