"""Open streams: results that clients read, the bytes that these hold, and since when each of them waits for its client.

A stream that waits for its client is in a call of gRPC's, which cannot be woken. Its query is ended beside that call: what is left is
the message that is being sent, with the batch that this is a part of, until the client goes on reading and gets the error. Where
there is no room for other streams, the connection is closed, and nothing is left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from inspect import GEN_CLOSED, getgeneratorstate

import pyarrow as pa

from lance_flight.allocators import release_unused
from lance_flight.connections import close_connection
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.limits import NO_LIMITS, Limits
from lance_flight.errors import LanceFlightError, LimitExceeded

STREAM_BYTES = 1 << 20
"""Bytes that an open stream counts for beside its rows: a thread of gRPC's, its buffers, and a plan."""
PRESSED_SECONDS = 10.0
"""Seconds that a client may take over one message while others wait for room, unless no client may take as long."""
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


class OpenStream:
    """Stream of the rows of one query to the client at `peer`; `ahead` counts what the query has read before it is asked for it."""

    def __init__(
        self,
        streams: OpenStreams,
        batches: Generator[pa.RecordBatch],
        ahead: HeldBytes,
        cancellation: Cancellation,
        peer: str = "",
    ) -> None:
        self._streams = streams
        self._peer = peer
        self.cancellation = cancellation
        self._batches = batches
        self._ahead = ahead
        self._held = streams.held.part()
        self._messages: Generator[pa.RecordBatch] | None = None
        self._since: float | None = None
        self._reason: Reason | None = None
        self._lock = threading.Lock()

    def sent(self, messages: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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

    def waited(self, now: float) -> float:
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
    """All open streams of a server, and the bound on the bytes that they hold together. Safe to share among threads."""

    def __init__(self, limits: Limits = NO_LIMITS) -> None:
        self.held = HeldBytes()
        self._streams: dict[int, OpenStream] = {}
        self._waiting = 0
        self._most_held, self._released = 0, 0.0
        self._changed = threading.Condition()
        self.apply(limits)

    def __len__(self) -> int:
        return len(self._streams)

    def apply(self, limits: Limits) -> None:
        """Hold streams to other limits from now on; those that are open beyond a lower bound stay."""
        self._most, self._most_waiting = limits.stream_memory, limits.waiting_statements
        self._idle_seconds = limits.stream_idle_timeout

    def opened(
        self, batches: Generator[pa.RecordBatch], ahead: HeldBytes, cancellation: Cancellation, peer: str = ""
    ) -> OpenStream:
        """Return a new stream, which counts from its first message on."""
        return OpenStream(self, batches, ahead, cancellation, peer)

    def enter(self, stream: OpenStream) -> None:
        """Count a stream as open."""
        with self._changed:
            self._streams[id(stream)] = stream

    def leave(self, stream: OpenStream) -> None:
        """Count a stream as open no more."""
        with self._changed:
            self._streams.pop(id(stream), None)

    def wait_for_room(self, cancellation: Cancellation) -> None:
        """Wait until the open streams hold less than they may; `LimitExceeded` if that takes too long, or too many wait for it."""
        if self._has_room:
            return
        with cancellation.waking(self._wake), self._changed:
            if self._waiting >= self._most_waiting:
                raise self._refusal()
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._has_room or cancellation.is_cancelled, QUEUE_SECONDS)
            finally:
                self._waiting -= 1
        cancellation.check()
        if not self._has_room:
            raise self._refusal()

    def watch(self) -> None:
        """End the streams that were cancelled, whose clients have taken nothing for too long, and that others have no room for."""
        seconds, now = self._idle_seconds, time.monotonic()
        for stream in self._listed():
            cancelled = stream.cancellation.reason
            if cancelled is not None:
                stream.end(cancelled)
            elif seconds and stream.waited(now) > seconds:
                stream.end(_Ended(seconds, "stream_idle_timeout"))
        self._release_unused(now)
        if self._waiting:
            self._make_room(now)
            with self._changed:
                self._changed.notify()  # one at a time: what a stream holds is known when it has begun

    @property
    def _has_room(self) -> bool:
        return self._most is None or self.held.size < self._most

    def _make_room(self, now: float) -> None:
        """Close connections whose clients have not taken a message for a while, those first that have waited longest."""
        patience = min(PRESSED_SECONDS, self._idle_seconds or PRESSED_SECONDS)
        size = self.held.size
        for stream in sorted(self._listed(), key=lambda each: -each.waited(now)):
            seconds = stream.waited(now)
            if seconds < patience or self._most is None or size < self._most:
                return
            stream.end(_Ended(seconds, "stream_memory_limit"))
            size -= stream.abort()

    def _release_unused(self, now: float) -> None:
        """Give memory back to the system once streams hold far less than they did."""
        size = self.held.size
        self._most_held = max(self._most_held, size)
        if self._most_held - size > max(RELEASED_BYTES, size) and now - self._released > RELEASE_SECONDS:
            self._most_held, self._released = size, now
            threading.Thread(target=release_unused, name="releasing memory", daemon=True).start()

    def _refusal(self) -> LimitExceeded:
        return LimitExceeded(
            f"{len(self)} open streams hold {self.held.size} bytes that their clients have not taken, of {self._most}"
            " (stream_memory_limit); expected a later try"
        )

    def _listed(self) -> list[OpenStream]:
        with self._changed:
            return list(self._streams.values())

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class _Ended:
    """Makes the error of a stream that was ended while it waited for its client."""

    def __init__(self, seconds: float, why: str) -> None:
        self._text = f"the client has taken no rows for {seconds:.3g} seconds ({why}); expected the statement once more"

    def __call__(self) -> LimitExceeded:
        return LimitExceeded(self._text)
