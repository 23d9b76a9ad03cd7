"""Streams of DataFusion that can be cancelled while they compute their next batch.

Only a batch that is awaited can be given up from outside: DataFusion then drops what it runs, at the next point where its
tasks yield. A thread that waits in the ordinary iterator cannot be woken.
"""

from __future__ import annotations

import atexit
import time
from asyncio import _set_running_loop
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
from datafusion import RecordBatchStream

from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.open_streams import HeldBytes, OpenStream

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
        reading.end()


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

    def end(self) -> None:
        """Give up what is being computed, and let go of the streams."""
        for partition in (*self._asked, *self._idle):
            partition.end()
        self._asked.clear()
        self._idle.clear()
        self._ahead.change(-self._ahead.size)

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

    __slots__ = ("_asked", "_done", "_is_cancelled", "_ready", "_stream")

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

    def sent(self, messages: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the messages that are made of the batches, as an open stream."""
        return messages if self.open_stream is None else self.open_stream.sent(messages)
