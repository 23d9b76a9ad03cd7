"""Long work in pieces: each is done by itself, by a thread of this process, a process of its own, or any other one that sees the root.

A piece is plain, and so is what it gives back: both can be pickled, and it opens by itself what it needs. What it has
written is part of no version until the caller commits it.

A large piece that hangs, dies or is killed leaves the server, its memory and its readers as they were: its process reads pickled pieces from
its standard input, and writes the outcome of each to its standard output. None ends the piece that runs, and the end of the input ends the
process, wherever it is.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import IO, Any, NoReturn, Protocol, TypeVar

from lance_flight.errors import Cancelled, OutOfMemory, QueryFailed
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


LARGE_BYTES = 8 << 20
"""Bytes of files from which on a piece is worth the start of a process, which takes a second."""
STOP_SECONDS = 2.0
"""Time that a piece has to end by itself, and to remove what it has written, before its process is killed."""
IDLE_SECONDS = 30.0
"""Time that a process waits for another piece."""
NICENESS = 5
"""Queries come before maintenance."""
OOM_SCORE = 500
"""Where the system is short of memory it ends a build before the server."""
_SIZE = 8
"""Bytes in front of a message, which are its size."""


@dataclass(slots=True)
class Process:
    """A process, and what has come of its pieces."""

    child: subprocess.Popen[bytes]
    outcomes: SimpleQueue[tuple[bool, Any] | None] = field(default_factory=SimpleQueue)

    @classmethod
    def start(cls) -> Process:
        # In a session of its own, so that it ends with the input alone and not with a terminal's Ctrl-C.
        child = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-c", f"from {__name__} import do_pieces; do_pieces()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        process = cls(child)
        threading.Thread(target=process._read, name="outcomes", daemon=True).start()
        return process

    def send(self, message: object) -> None:
        """Send a piece, or None to end the one that runs; nothing where the process has ended."""
        if self.child.stdin is not None:
            with suppress(BrokenPipeError):
                _write(self.child.stdin, pickle.dumps(message))

    def _read(self) -> None:
        while self.child.stdout is not None and (content := _next(self.child.stdout)) is not None:
            self.outcomes.put(pickle.loads(content))  # noqa: S301 - of our own process
        self.child.wait()
        self.outcomes.put(None)


class PieceProcesses:
    """The processes of this one that do pieces of `least` bytes or more (None: none do any). Safe to share among threads."""

    def __init__(self, least: int | None = None) -> None:
        self.least = least
        self._idle: list[Process] = []
        self._lock = threading.Lock()

    def run(self, piece: Piece[R], is_stopped: Callable[[], bool]) -> R:
        """Return the result of a piece, or raise its error; `Cancelled` soon after it `is_stopped`, wherever a large one is by then."""
        if self.least is None or getattr(piece, "size", 0) < self.least:
            return run_here(piece, is_stopped)
        process = self._take_process()
        process.send(piece)
        end = inf
        while True:
            with suppress(Empty):
                outcome = process.outcomes.get(timeout=CHECK_SECONDS)
                break
            if is_stopped() and end == inf:
                process.send(None)
                end = time.monotonic() + STOP_SECONDS
            if time.monotonic() >= end:
                process.child.kill()
        if outcome is None:
            if is_stopped():
                raise Cancelled("the work was given up")
            status = process.child.wait()
            # One that ended because it had nothing to do has not begun with this piece.
            return self.run(piece, is_stopped) if status == 0 else _raise_death(status)
        with self._lock:
            self._idle.append(process)
        is_done, result = outcome
        if not is_done:
            raise result
        done: R = result
        return done

    def _take_process(self) -> Process:
        with self._lock:
            self._idle = [process for process in self._idle if process.child.poll() is None]
            return self._idle.pop() if self._idle else Process.start()


def _raise_death(status: int) -> NoReturn:
    if status == -signal.SIGKILL:
        raise OutOfMemory(
            "the process of this work was killed, as the system does where memory is short; nothing of it is visible"
        )
    raise QueryFailed(f"the process of this work ended with status {status}; nothing of it is visible")


processes = PieceProcesses()
"""The processes of this one; a server says from which size on they are used."""


def work_beside_queries(watch: Watch | None, *, is_remote: bool) -> PieceWork:
    """Return how the work of a statement is done, which its watch counts and may end."""
    if watch is None:
        return BY_THREADS
    run = Threads(workers_beside_queries(is_remote=is_remote), watch.check, processes.run)
    return PieceWork(run=run, progress=watch, add_rows=watch.add_rows, check=watch.check)


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(_SIZE) + content)
    stream.flush()


def _next(stream: IO[bytes]) -> bytes | None:
    """Return the next message of a stream; None at its end."""
    head = stream.read(_SIZE)
    return stream.read(int.from_bytes(head)) if len(head) == _SIZE else None


def do_pieces() -> None:
    """Do the pieces that come, until none has come for a while."""
    # What libraries print must not come among the outcomes.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    waiting = SimpleQueue[Piece[Any]]()
    stopped = threading.Event()
    threading.Thread(target=_receive, args=(waiting, stopped), daemon=True).start()
    stop_where(stopped.is_set)
    while True:
        try:
            piece = waiting.get(timeout=IDLE_SECONDS)
        except Empty:
            return
        try:
            outcome: tuple[bool, Any] = True, piece.run()
        except Exception as exc:  # noqa: BLE001 - raised in the other process
            outcome = False, exc
        _write(out, pickle.dumps(outcome))


def _receive(waiting: SimpleQueue[Piece[Any]], stopped: threading.Event) -> None:
    while (content := _next(sys.stdin.buffer)) is not None:
        message = pickle.loads(content)  # noqa: S301 - of the process that has started this one
        if message is None:
            stopped.set()
        else:
            stopped.clear()
            waiting.put(message)
    os._exit(0)
