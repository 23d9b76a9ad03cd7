"""Processes that do large pieces of work: one that hangs, dies or is killed leaves the server, its memory and its readers as they were.

    python -m lance_flight.catalog.bulk.piece_processes

reads pickled pieces from its standard input, and writes the outcome of each to its standard output. None ends the piece that runs, and the
end of the input ends the process, wherever it is.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, NoReturn

from lance_flight.catalog.bulk.pieces import (
    BY_THREADS,
    CHECK_SECONDS,
    Piece,
    PieceWork,
    R,
    Threads,
    Watch,
    run_here,
    stop_where,
    workers_beside_queries,
)
from lance_flight.errors import Cancelled, OutOfMemory, QueryFailed

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
            [sys.executable, "-m", __spec__.name],
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


def _do_pieces() -> None:
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


if __name__ == "__main__":
    _do_pieces()
