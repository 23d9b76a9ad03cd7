"""Streams of DataFusion that can be cancelled, and the open ones: the bytes that they hold, and which wait for their client.

A stream that waits for its client is in a call of gRPC's, which cannot be woken. Its query is ended beside that call: what is left is
the message that is being sent, with the batch that this is a part of, until the client goes on reading and gets the error. Where
there is no room for other streams, the connection is closed, and nothing is left.

Only a batch that is awaited can be given up from outside: DataFusion then drops what it runs, at the next point where its
tasks yield. A thread that waits in the ordinary iterator cannot be woken.

Memory that nothing uses is given back to the system as far as allocators can be asked. The C library's has what Python and Lance use, Arrow's the buffers of pyarrow; DataFusion's cannot be asked from outside, and gives
back by itself, while it is used.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import sys
import threading
import time
import weakref
from asyncio import _set_running_loop
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import GEN_CLOSED, getgeneratorstate
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
from datafusion import RecordBatchStream

from lance_flight.connections import ANONYMOUS, SHARE, close_connection
from lance_flight.engine.runtime.admission import NO_LIMITS, Limits
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import LanceFlightError, LimitExceeded


def release_unused() -> None:
    """Give back what the C library's allocator and Arrow's pool keep for later; this takes up to some hundredths of a second."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)
    pa.default_memory_pool().release_unused()


STREAM_BYTES = 1 << 20
"""Bytes that an open stream counts for beside its rows: a thread of gRPC's, its buffers, and a plan."""
PRESSED_SECONDS = 10.0
"""Seconds that a client may take over one message while others wait for room, unless no client may take as long."""
FAIR_SECONDS = 2.0
"""Seconds that a new stream waits for room before those make some whose clients hold more than its own."""
QUEUE_SECONDS = 15.0
"""Seconds that a new stream waits for room: those that hold it while their clients do nothing are ended in less."""

RELEASED_BYTES, RELEASE_SECONDS = 64 << 20, 5.0
"""How much less streams must hold for unused memory to be given back to the system, and the least time between two such times."""

log = logging.getLogger(__name__)

Reason = Callable[[], LanceFlightError]
"""Factory of the error that ends a stream: a new one for each thread, since an error keeps its frames alive."""


class HeldBytes:
    """Number of bytes that one holder, or all of them together (`whole`), have in memory. Safe to share among threads."""

    def __init__(self, whole: HeldBytes | None = None) -> None:
        self._whole = whole
        self._lock = threading.Lock()
        self.size = 0

    def change(self, by: int) -> None:
        """Count so many bytes more, or fewer."""
        with self._lock:
            self.size += by
        if self._whole is not None:
            self._whole.change(by)

    def part(self) -> HeldBytes:
        """Return the counter of one further holder."""
        return HeldBytes(self)


@dataclass(slots=True, eq=False)
class _Waiter:
    """New stream of a holder that waits for room."""

    holder: str
    since: float = field(default_factory=time.monotonic)
    woken: threading.Event = field(default_factory=threading.Event)
    is_admitted: bool = False


class OpenStream:
    """Stream of the rows of one query to the client at `peer`, which count for a `holder`; `ahead` counts what the query has read before it is asked for it."""

    def __init__(
        self,
        streams: OpenStreams,
        batches: Generator[pa.RecordBatch],
        ahead: HeldBytes,
        cancellation: Cancellation,
        *,
        peer: str = "",
        holder: str = ANONYMOUS,
    ) -> None:
        self._streams = streams
        self._peer, self.holder = peer, holder
        self.cancellation = cancellation
        self._batches = batches
        self._ahead = ahead
        self._held = streams.held_by(holder).part()
        self._messages: Generator[pa.RecordBatch] | None = None
        self._since: float | None = None
        self._reason: Reason | None = None
        self._lock = threading.Lock()

    def send(self, messages: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages that are made of the batches; raise the error by which the stream was ended while it waited for its client."""
        self._messages = messages
        self._held.change(STREAM_BYTES)
        self._streams.enter(self)
        try:
            for message in messages:
                # Nothing here may keep the rows: gRPC has them until they are sent.
                sending = [message]
                del message
                self._wait(sending[0].get_total_buffer_size())
                yield sending.pop()
                self._go_on()
        finally:
            self._streams.leave(self)
            with self._lock:
                messages.close()
                self._batches.close()
            self._held.change(-self._held.size)

    def seconds_waited(self, now: float) -> float:
        """Return for how many seconds the stream has waited for its client; 0 while its query is at work."""
        since = self._since
        return 0.0 if since is None else now - since

    def end(self, reason: Reason) -> None:
        """End the query of a stream that waits for its client, if it is not over."""
        with self._lock:
            if self._since is None or self._reason is not None or getgeneratorstate(self._batches) == GEN_CLOSED:
                return
            self._reason = reason
        # What a query lets go of may take its time, which others who are watched do not have.
        threading.Thread(target=self._release, args=[reason], name="ending a stream", daemon=True).start()

    def abort(self) -> int:
        """Close the connection of the client, and return how many bytes that releases."""
        if not close_connection(self._peer):
            return 0
        log.warning("the connection of %s is closed: its client takes no rows, and others have no room", self._peer)
        return self._held.size + self._ahead.size

    def _release(self, reason: Reason) -> None:
        with self._lock:
            with suppress(LanceFlightError, StopIteration):
                self._batches.throw(reason())
            if self._messages is not None:
                self._messages.close()

    def _wait(self, size: int) -> None:
        with self._lock:
            self._held.change(STREAM_BYTES + size - self._held.size)
            self._since = time.monotonic()

    def _go_on(self) -> None:
        with self._lock:
            self._since = None
            if self._reason is not None:
                raise self._reason()


class OpenStreams:
    """All open streams of a server, and the bound on the bytes that they hold together. Safe to share among threads.

    The streams of one holder have at most three times as much as they leave to others.
    """

    def __init__(self, limits: Limits = NO_LIMITS) -> None:
        self.held = HeldBytes()
        self._held_by: weakref.WeakValueDictionary[str, HeldBytes] = weakref.WeakValueDictionary()
        self._streams: dict[int, OpenStream] = {}
        self._waiting: list[_Waiter] = []
        self._most_held, self._released = 0, 0.0
        self._changed = threading.Lock()
        self.apply(limits)

    def __len__(self) -> int:
        return len(self._streams)

    def apply(self, limits: Limits) -> None:
        """Hold streams to other limits from now on; those that are open beyond a lower bound stay."""
        self._most, self._most_waiting = limits.stream_memory, limits.waiting_statements
        self._idle_seconds = limits.stream_idle_timeout

    def held_by(self, holder: str) -> HeldBytes:
        """Return the counter of all that is held for the clients of one holder."""
        with self._changed:
            held_bytes = self._held_by.get(holder)
            if held_bytes is None:
                held_bytes = self._held_by[holder] = self.held.part()
            return held_bytes

    def open(
        self,
        batches: Generator[pa.RecordBatch],
        ahead: HeldBytes,
        cancellation: Cancellation,
        *,
        peer: str = "",
        holder: str = ANONYMOUS,
    ) -> OpenStream:
        """Return a new stream, which counts from its first message on."""
        return OpenStream(self, batches, ahead, cancellation, peer=peer, holder=holder)

    def enter(self, stream: OpenStream) -> None:
        """Count a stream as open."""
        with self._changed:
            self._streams[id(stream)] = stream

    def leave(self, stream: OpenStream) -> None:
        """Count a stream as open no more."""
        with self._changed:
            self._streams.pop(id(stream), None)

    def wait_for_room(self, cancellation: Cancellation, holder: str = ANONYMOUS) -> None:
        """Wait until a holder may open a stream; `LimitExceeded` if that takes too long, or too many wait for it."""
        if self._has_room(holder):
            return
        waiter = _Waiter(holder)
        with self._changed:
            if len(self._waiting) >= self._most_waiting:
                raise self._refusal(holder)
            self._waiting.append(waiter)
        try:
            with cancellation.waking(waiter.woken.set):
                waiter.woken.wait(QUEUE_SECONDS)
        finally:
            with self._changed:
                self._waiting.remove(waiter)
        cancellation.check()
        if not (waiter.is_admitted or self._has_room(holder)):
            raise self._refusal(holder)

    def watch(self) -> None:
        """End the streams that were cancelled, whose clients have taken nothing for too long, and that others have no room for."""
        seconds, now = self._idle_seconds, time.monotonic()
        for stream in self._list():
            cancelled = stream.cancellation.reason
            if cancelled is not None:
                stream.end(cancelled)
            elif seconds and stream.seconds_waited(now) > seconds:
                stream.end(_Ended(seconds, "stream_idle_timeout"))
        self._release_unused(now)
        self._serve_waiters(now)

    def _has_room(self, holder: str) -> bool:
        """Return whether a holder may open one more stream: what that holds is known when it has begun."""
        free = sys.maxsize if self._most is None else self._most - self.held.size
        return free > 0 and self._size_of(holder) <= SHARE * free

    def _size_of(self, holder: str) -> int:
        held_bytes = self._held_by.get(holder)
        return 0 if held_bytes is None else held_bytes.size

    def _serve_waiters(self, now: float) -> None:
        """Make room for those who wait, and admit the one of them whose holder has least: one at a time, since its stream is not counted yet."""
        with self._changed:
            waiting = sorted(self._waiting, key=lambda item: (self._size_of(item.holder), item.since))
        without = next((waiter for waiter in waiting if not self._has_room(waiter.holder)), None)
        if without is not None:
            self._make_room(without, now)
        admitted = next(
            (waiter for waiter in waiting if not waiter.is_admitted and self._has_room(waiter.holder)), None
        )
        if admitted is not None:
            admitted.is_admitted = True
            admitted.woken.set()

    def _make_room(self, waiter: _Waiter, now: float) -> None:
        """Close connections whose clients have not taken a message for a while, those first that have waited longest.

        One that waits for longer than is fair gets the room of the holder that has most, however fast that reads.
        """
        patience = min(PRESSED_SECONDS, self._idle_seconds or PRESSED_SECONDS)
        with self._changed:
            largest = max(self._held_by, key=self._size_of, default=waiter.holder)
        own, is_full = self._size_of(waiter.holder), self._most is not None and self.held.size >= self._most
        is_unfair = now - waiter.since > FAIR_SECONDS and self._size_of(largest) > own
        size = 0
        for stream in sorted(self._list(), key=lambda item: -item.seconds_waited(now)):
            seconds = stream.seconds_waited(now)
            is_stalled = seconds >= patience and (is_full or stream.holder == waiter.holder)
            if is_stalled or (is_unfair and seconds and stream.holder == largest):
                stream.end(_Ended(seconds, "stream_memory_limit"))
                size += stream.abort()
            if self._most is None or self.held.size - size < self._most:
                return

    def _release_unused(self, now: float) -> None:
        """Give memory back to the system once streams hold far less than they did."""
        size = self.held.size
        self._most_held = max(self._most_held, size)
        if self._most_held - size > max(RELEASED_BYTES, size) and now - self._released > RELEASE_SECONDS:
            self._most_held, self._released = size, now
            threading.Thread(target=release_unused, name="releasing memory", daemon=True).start()

    def _refusal(self, holder: str) -> LimitExceeded:
        return LimitExceeded(
            f"{len(self)} open streams hold {self.held.size} bytes that their clients have not taken, {self._size_of(holder)} of them"
            f" for {holder!r}, of {self._most} (stream_memory_limit); expected a later try"
        )

    def _list(self) -> list[OpenStream]:
        with self._changed:
            return list(self._streams.values())


class _Ended:
    """Makes the error of a stream that was ended while it waited for its client."""

    def __init__(self, seconds: float, why: str) -> None:
        self._text = f"the client has taken no rows for {seconds:.3g} seconds ({why}); expected the statement once more"

    def __call__(self) -> LimitExceeded:
        return LimitExceeded(self._text)


SETTLING_SECONDS = 0.05
AHEAD_BYTES = 32 << 20
"""Bytes that the partitions of one query compute ahead of a client that is slower than they are, beyond one batch."""

# Threads of DataFusion's let go of a task some moments after it is done, which they must not do in an interpreter that ends.
atexit.register(time.sleep, SETTLING_SECONDS)


def cancellable(
    start: Callable[[], Sequence[RecordBatchStream]], cancellation: Cancellation, ahead: HeldBytes | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the streams that `start` opens, one for each partition, as they come, until the statement is cancelled.

    Of several partitions each computes its next batch while the client takes one: as many as DataFusion would, or fewer where the client
    is slower than they are and they hold more than `AHEAD_BYTES`. `ahead` counts these bytes.
    A reference to a stream keeps it running, so that this function holds the only ones.
    """
    reading = _Reading(HeldBytes(ahead))
    try:
        with cancellation.waking(reading.cancel):
            reading.begin(start())
            while True:
                cancellation.check()
                batch = reading.next()
                if batch is None:
                    cancellation.check()
                    return
                if isinstance(batch, BaseException):
                    try:
                        raise batch
                    finally:
                        # Else the error and this frame keep each other.
                        del batch
                yield batch
    finally:
        cancellation.leave(reading.end())


class _Reading:
    """Reads the partitions of one query in one thread, until it is cancelled from another."""

    __slots__ = ("_ahead", "_asked", "_count", "_idle", "_ready", "_size", "_window")

    def __init__(self, ahead: HeldBytes) -> None:
        self._ready: SimpleQueue[tuple[_Partition, Any] | None] = SimpleQueue()
        self._idle: deque[_Partition] = deque()
        self._asked: set[_Partition] = set()
        self._ahead = ahead
        self._count = self._window = 0
        self._size = 0

    def begin(self, streams: Sequence[RecordBatchStream]) -> None:
        """Read these streams."""
        self._idle.extend(_Partition(stream, self._ready) for stream in streams)
        self._count = self._window = len(self._idle)

    def next(self) -> pa.RecordBatch | BaseException | None:
        """Return the next batch; None at the end and after a cancellation; an error, which must not reference a stream."""
        if self._ready.empty():
            self._window = self._count  # the client is faster
        elif self._size:
            self._window = min(self._count, max(1, AHEAD_BYTES // self._size))
        while True:
            self._ask()
            if not self._asked:
                return None
            item = self._ready.get()
            if item is None:
                return None
            partition, given = item
            self._asked.discard(partition)
            answer = partition.answer(given)
            if answer is None:
                continue
            if isinstance(answer, BaseException):
                return answer
            self._idle.append(partition)
            self._size = answer.nbytes
            if self._count > 1:
                self._ask()
                self._ahead.change(len(self._asked) * self._size - self._ahead.size)
            return answer

    def cancel(self) -> None:
        """Stop waiting."""
        self._ready.put(None)

    def end(self) -> list[_Partition]:
        """Give up what is being computed, which is returned, and let go of the streams."""
        given_up = list(self._asked)
        for partition in (*given_up, *self._idle):
            partition.end()
        self._asked.clear()
        self._idle.clear()
        self._ahead.change(-self._ahead.size)
        return given_up

    def _ask(self) -> None:
        while self._idle and len(self._asked) < self._window:
            partition = self._idle.popleft()
            self._asked.add(partition)
            partition.ask()


class _Partition:
    """Asks one stream for its next batch, which is put into a queue.

    DataFusion asks for the running event loop and a future of it. It is given this, which is both: a loop of asyncio's takes
    three times as long over one batch, for selectors and sockets that nothing here has a use for.
    """

    __slots__ = ("__weakref__", "_asked", "_done", "_is_cancelled", "_ready", "_stream")

    def __init__(self, stream: RecordBatchStream, ready: SimpleQueue[tuple[_Partition, Any] | None]) -> None:
        self._stream: Any = stream
        self._ready = ready
        self._asked: Any = None
        self._is_cancelled = False
        self._done: Callable[[_Partition], object] = _ignore

    def ask(self) -> None:
        """Begin to compute the next batch."""
        _set_running_loop(self)  # type: ignore[arg-type]
        try:
            self._asked = self._stream.__anext__()
            self._asked.send(None)
        finally:
            _set_running_loop(None)

    def answer(self, given: Any) -> pa.RecordBatch | BaseException | None:
        """Return the batch that was asked for; None at the end of the stream, or its error."""
        asked, self._asked = self._asked, None
        if isinstance(given, StopAsyncIteration):
            return None
        if isinstance(given, BaseException):
            return given.with_traceback(None)
        try:
            asked.send(given)
        except StopIteration as answered:
            batch: pa.RecordBatch = answered.value.to_pyarrow()
            return batch
        raise RuntimeError("a stream of DataFusion waits for something else than its next batch")

    def end(self) -> None:
        """Stop computing the batch that was asked for, and let go of the stream: one that waits in the queue refers to itself by that."""
        self._is_cancelled = True
        if self._asked is not None:
            self._done(self)
            self._asked.close()
        self._asked = self._stream = None

    def call_soon_threadsafe(self, call: Callable[..., object], *arguments: object, context: object = None) -> None:
        """Call at once the function that signals a batch, which does no further work."""
        call(*arguments)

    def create_future(self) -> _Partition:
        return self

    def add_done_callback(self, call: Callable[[_Partition], object]) -> None:
        """Keep the callback that tells DataFusion to stop waiting."""
        self._done = call

    def cancelled(self) -> bool:
        return self._is_cancelled

    def set_result(self, batch: object) -> None:
        self._ready.put((self, batch))

    def set_exception(self, error: BaseException) -> None:
        self._ready.put((self, error))

    def __await__(self) -> Iterator[Any]:
        return (yield)


def _ignore(_: _Partition) -> None:
    """Ignore a callback that has no receiver."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchStream:
    """Batches of one schema, each made when it is asked for; an `open_stream` counts what is held for its client.

    A reader of Arrow's would hand each of them from Python to Arrow and back once more, and let go of Python's lock on both ways.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    open_stream: OpenStream | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches

    def send(self, messages: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages that are made of the batches, as an open stream."""
        return messages if self.open_stream is None else self.open_stream.send(messages)
