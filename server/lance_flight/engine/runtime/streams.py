"""Streams of DataFusion that can be ended while they compute their next batch.

Only a batch that is awaited can be given up from outside: DataFusion then drops what it runs, at the next point where its
tasks yield. A thread that waits in the ordinary iterator cannot be woken.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from datafusion import RecordBatchStream

from lance_flight.engine.runtime.cancellation import Cancellation

SETTLING_SECONDS = 0.05

# Threads of DataFusion's let go of a task some moments after it is done, which they must not do in an interpreter that ends.
atexit.register(time.sleep, SETTLING_SECONDS)


def cancellable(start: Callable[[], RecordBatchStream], cancellation: Cancellation) -> Iterator[pa.RecordBatch]:
    """The batches of the stream that `start` begins, until the statement is cancelled.

    Whoever has a reference to the stream keeps it running, so that there is none but the one in here.
    """
    loop = asyncio.new_event_loop()
    waiting: list[asyncio.Task[pa.RecordBatch | Exception | None]] = []

    def wake() -> None:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in waiting])

    stream: RecordBatchStream | None = None
    try:
        with cancellation.waking(wake):
            stream = start()
            while True:
                cancellation.check()
                waiting[:] = [loop.create_task(_next(stream))]
                batch = loop.run_until_complete(waiting[0])
                if batch is None:
                    cancellation.check()
                    return
                if isinstance(batch, Exception):
                    try:
                        raise batch
                    finally:
                        # Else the error and this frame keep each other.
                        del batch
                yield batch
    finally:
        del stream
        waiting.clear()
        loop.close()


async def _next(stream: RecordBatchStream) -> pa.RecordBatch | Exception | None:
    """The next batch; None at the end, and where the task was cancelled; an error, which may not keep the stream."""
    try:
        batch = await anext(stream)
    except (StopAsyncIteration, asyncio.CancelledError):
        return None
    except Exception as error:  # noqa: BLE001 - raised where the stream is dropped
        return error.with_traceback(None)
    return batch.to_pyarrow()
