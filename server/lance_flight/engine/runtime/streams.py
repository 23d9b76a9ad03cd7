"""Streams of DataFusion that can be cancelled while they compute their next batch.

Only a batch that is awaited can be given up from outside: DataFusion then drops what it runs, at the next point where its
tasks yield. A thread that waits in the ordinary iterator cannot be woken.
"""

from __future__ import annotations

import atexit
import time
from asyncio import _set_running_loop
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
from datafusion import RecordBatchStream

from lance_flight.engine.runtime.cancellation import Cancellation

SETTLING_SECONDS = 0.05

# Threads of DataFusion's let go of a task some moments after it is done, which they must not do in an interpreter that ends.
atexit.register(time.sleep, SETTLING_SECONDS)


def cancellable(start: Callable[[], RecordBatchStream], cancellation: Cancellation) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the stream that `start` opens, until the statement is cancelled.

    A reference to the stream keeps it running, so that this function holds the only one.
    """
    waiting = _Waiting()
    stream: RecordBatchStream | None = None
    try:
        with cancellation.waking(waiting.cancel):
            stream = start()
            while True:
                cancellation.check()
                batch = waiting.next_of(stream)
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
        del stream


class _Waiting:
    """Waits in one thread for the batches of one stream, until it is cancelled from another.

    DataFusion asks for the running event loop and a future of it. It is given this, which is both: a loop of asyncio's takes
    three times as long over one batch, for selectors and sockets that nothing here has a use for.
    """

    __slots__ = ("_done", "_given", "_is_cancelled")

    def __init__(self) -> None:
        self._given: SimpleQueue[Any] = SimpleQueue()
        self._is_cancelled = False
        self._done: Callable[[_Waiting], object] = _ignore

    def next_of(self, stream: RecordBatchStream) -> pa.RecordBatch | BaseException | None:
        """Return the next batch; None at the end and after a cancellation; an error, which must not reference the stream."""
        _set_running_loop(self)  # type: ignore[arg-type]
        try:
            asked = stream.__anext__()
            asked.send(None)
        finally:
            _set_running_loop(None)
        given = self._given.get()
        if self._is_cancelled:
            self._done(self)
            asked.close()
            return None
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

    def cancel(self) -> None:
        """Stop waiting."""
        self._is_cancelled = True
        self._given.put(None)

    def call_soon_threadsafe(self, call: Callable[..., object], *arguments: object, context: object = None) -> None:
        """Call at once the function that signals a batch, which does no further work."""
        call(*arguments)

    def create_future(self) -> _Waiting:
        return self

    def add_done_callback(self, call: Callable[[_Waiting], object]) -> None:
        """Keep the callback that tells DataFusion to stop waiting."""
        self._done = call

    def cancelled(self) -> bool:
        return self._is_cancelled

    def set_result(self, batch: object) -> None:
        self._given.put(batch)

    def set_exception(self, error: BaseException) -> None:
        self._given.put(error)

    def __await__(self) -> Iterator[Any]:
        return (yield)


def _ignore(_: _Waiting) -> None:
    """Ignore a callback that has no receiver."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchStream:
    """Batches of one schema, each made when it is asked for.

    A reader of Arrow's would hand each of them from Python to Arrow and back once more, and let go of Python's lock on both ways.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches
