"""Long work in pieces: each is done by itself, by a thread of this process or by any other one that sees the root.

A piece is plain, and so is what it gives back: both can be pickled, and it opens by itself what it needs. What it has
written is part of no version until the caller commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol, TypeVar

from lance_flight.errors import Cancelled
from lance_flight.machine import cores

WORKERS = 4
CHECK_SECONDS = 0.1
"""Seconds between two looks at whether work in threads should go on."""

R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Told how many of how many pieces, or tables, are done."""

Keep = Callable[[int, R], None]
"""Given the result of a piece as soon as it is there, by its place among the pieces; from then on it is the caller's to undo."""


class Watch(Protocol):
    """Observer of the work of a statement: a `Progress` that counts rows as well, and may end the work."""

    def __call__(self, done: int, total: int) -> None:
        """Be told how many of how many tables are done."""
        ...

    def add_rows(self, rows: int) -> None:
        """Be told that so many more rows are done."""
        ...

    def check(self) -> None:
        """Raise `Cancelled` if the work should end."""
        ...


class Piece(Protocol[R]):
    """A part of some work."""

    def run(self) -> R:
        """Do the work of the piece, and return its result."""
        ...

    def undo(self, result: R) -> None:
        """Delete what the piece has written, after the rest of the work has failed."""
        ...


class Runner(Protocol):
    """Executor of pieces."""

    def __call__(
        self, pieces: Sequence[Piece[R]], told: Progress | None = None, keep: Keep[R] | None = None
    ) -> list[R]:
        """Return the results of all pieces, in their order; if one fails, raise its error and stop the remaining ones.

        What was done by then is undone, except results that `keep` was given.
        """
        ...


_is_stopped: ContextVar[Callable[[], bool]] = ContextVar("is_stopped", default=lambda: False)


def stop_where(is_stopped: Callable[[], bool]) -> None:
    """End pieces of this context at their next `check_stopped` once a function says so."""
    _is_stopped.set(is_stopped)


def check_stopped() -> None:
    """Raise `Cancelled` in a piece of work that was given up; a piece that takes long calls it on its way."""
    if _is_stopped.get()():
        raise Cancelled("the work was given up")


RunPiece = Callable[[Piece[Any], Callable[[], bool]], Any]
"""Function that does a piece by itself, and ends it where the second argument says so."""


def run_here(piece: Piece[R], is_stopped: Callable[[], bool]) -> R:
    """Do a piece in this thread."""
    stop_where(is_stopped)
    check_stopped()
    return piece.run()


@dataclass(frozen=True, slots=True)
class Threads:
    """Executor of pieces in threads of this process; if one fails, the work of all is undone.

    `check` is called several times a second meanwhile, and ends the work by an error: pieces that have begun end at their next
    `check_stopped`, or at their own end. `run` does each.

    >>> Threads()([])
    []
    """

    workers: int = WORKERS
    check: Callable[[], None] | None = None
    run: RunPiece = run_here

    def __call__(
        self, pieces: Sequence[Piece[R]], told: Progress | None = None, keep: Keep[R] | None = None
    ) -> list[R]:
        stopped = Event()
        done: dict[int, R] = {}
        with ThreadPoolExecutor(self.workers, thread_name_prefix="piece") as pool:
            running = {pool.submit(self.run, piece, stopped.is_set): number for number, piece in enumerate(pieces)}
            try:
                for future in self._completed_pieces(list(running)):
                    number = running[future]
                    done[number] = future.result()
                    if keep is not None:
                        keep(number, done[number])
                    if told is not None:
                        told(len(done), len(pieces))
            except BaseException:
                stopped.set()
                pool.shutdown(wait=True, cancel_futures=True)
                _undo(pieces, running, {} if keep is None else done)
                raise
        return [done[number] for number in range(len(pieces))]

    def _completed_pieces(self, running: Sequence[Future[R]]) -> Iterator[Future[R]]:
        """Yield pieces as they end, and check between them whether to go on."""
        waiting = set(running)
        while waiting:
            if self.check is not None:
                self.check()
            ended, waiting = wait(waiting, CHECK_SECONDS if self.check else None, FIRST_COMPLETED)
            yield from ended


def _undo(pieces: Sequence[Piece[R]], running: Mapping[Future[R], int], kept: Mapping[int, R]) -> None:
    for future, number in running.items():
        if number not in kept and not future.cancelled() and future.exception() is None:
            pieces[number].undo(future.result())


THREADS = Threads()


def workers_beside_queries(*, is_remote: bool) -> int:
    """Return how many pieces a server computes at once, so that its queries have half of the cores.

    Pieces of an object store (`is_remote`) wait for it most of the time: as many as anywhere are under way.
    """
    return WORKERS if is_remote else max(1, min(WORKERS, cores() // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceWork:
    """Runner and observers of long work: `run` does its pieces, `progress` counts tables and `add_rows` rows, and `check` may end it by an error."""

    run: Runner = THREADS
    progress: Progress | None = None
    add_rows: Callable[[int], None] = lambda _: None
    check: Callable[[], None] = lambda: None

    def do(
        self, pieces: Sequence[Piece[R]], before: int, tables: int, total: int, keep: Keep[R] | None = None
    ) -> list[R]:
        """Return the results of pieces, which all make up `tables` of a `total`, after `before`."""
        count_tables = self.progress
        if count_tables is None:
            return self.run(pieces, None, keep)
        return self.run(pieces, lambda done, of: count_tables(before + tables * done // of, total), keep)


BY_THREADS = PieceWork()
