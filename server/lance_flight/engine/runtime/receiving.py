"""Receives a client's rows on one thread and stores them on another.

A thread that waits for a client's next message cannot be woken before it comes. So it does nothing else: what is done with
the rows has a thread of its own, which ends, and lets go of all that it holds, when it has waited for too long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import TypeAlias, TypeVar

import pyarrow as pa

from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import LimitExceeded

T = TypeVar("T")

_Item: TypeAlias = pa.RecordBatch | BaseException | None


class Receiver:
    """Passes batches from the thread that receives them to the one that processes them, each on demand.

    The work fails if no batch arrives for `idle_seconds` (0: any number).
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], *, idle_seconds: float) -> None:
        self._batches = batches
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._is_wanted = False
        self._has_ended = False
        self._given: list[_Item] = []

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` on another thread, which reads `batches`, while this one receives; return its result."""
        outcome: list[T] = []
        errors: list[BaseException] = []

        def do() -> None:
            try:
                outcome.append(work())
            except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
                errors.append(error)
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

        worker = threading.Thread(target=copy_context().run, args=[do], name="ingest", daemon=True)
        worker.start()
        while self._wait_for_request():
            self._give(self._receive())
        worker.join()
        if errors:
            raise errors[0]
        return outcome[0]

    def batches(self, cancellation: Cancellation) -> Iterator[pa.RecordBatch]:
        """Yield the batches to the working thread; raise the reason of a cancellation while waiting for one."""
        while True:
            with cancellation.waking(self._wake), self._changed:
                self._is_wanted = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._given or cancellation.is_cancelled, self._idle_seconds or None)
                cancellation.check()
                if not self._given:
                    raise LimitExceeded(
                        f"the client has sent no rows for {self._idle_seconds:g} seconds (ingest_idle_timeout);"
                        " nothing was stored"
                    )
                item = self._given.pop()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _receive(self) -> _Item:
        try:
            return next(self._batches, None)
        except BaseException as error:  # noqa: BLE001 - the thread that works raises it
            return error

    def _wait_for_request(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_wanted or self._has_ended)
            self._is_wanted = False
            return not self._has_ended

    def _give(self, item: _Item) -> None:
        with self._changed:
            self._given.append(item)
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
