"""Long work in pieces: each is done by itself, by a thread of this process or by any other one that sees the root.

A piece is plain, and so is what it gives back: both can be pickled, and it opens by itself what it needs. What it has
written is part of no version until the caller commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

WORKERS = 4

R = TypeVar("R")

Told = Callable[[int, int], None]
"""Told how many of how many pieces are done."""

Progress = Callable[[int, int], None]
"""Told how many of how many tables are done."""


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

    def __call__(self, pieces: Sequence[Piece[R]], told: Told | None = None) -> list[R]:
        """Return the results of all pieces, in their order; if one fails, raise its error and stop the remaining ones."""
        ...


@dataclass(frozen=True, slots=True)
class Threads:
    """Executor of pieces in threads of this process; if one fails, the work of all is undone.

    >>> Threads()([])
    []
    """

    workers: int = WORKERS

    def __call__(self, pieces: Sequence[Piece[R]], told: Told | None = None) -> list[R]:
        done = []
        with ThreadPoolExecutor(self.workers, thread_name_prefix="piece") as pool:
            running = [pool.submit(piece.run) for piece in pieces]
            try:
                for number, future in enumerate(running, 1):
                    done.append(future.result())
                    if told is not None:
                        told(number, len(pieces))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                for piece, future in zip(pieces, running, strict=True):
                    if not future.cancelled() and future.exception() is None:
                        piece.undo(future.result())
                raise
        return done


THREADS = Threads()


def of_tables(progress: Progress | None, before: int, tables: int, total: int) -> Told | None:
    """Return a callback that reports pieces to `progress` as tables: all make up `tables` of a `total`, after `before`."""
    if progress is None:
        return None
    return lambda done, pieces: progress(before + tables * done // pieces, total)
