"""A server whose memory is capped, and what an attack on it may cost: memory, threads, and the time that another client waits."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server, serving

ROOM = 4 << 30
"""Bytes that a capped server may map beyond those it starts with: an attack ends the process, never the machine."""
LONGEST_SILENCE = 5.0
"""Seconds within which another client is answered, whatever one of them does."""
MOST_BYTES, MOST_THREADS = 1 << 30, 100
_PAUSE = 0.05


@contextmanager
def capped(root: Path, *arguments: str, room: int = ROOM, is_forked: bool = True) -> Iterator[Server]:
    """Serve `root` in a process that ends where it maps more than `room` more bytes."""
    with serving(root, *arguments, is_forked=is_forked) as server:
        cap(server.process.pid, room)
        yield server


def cap(process: int, room: int = ROOM) -> None:
    """Cap the address space of a process that runs."""
    most = status(process, "VmSize") + room
    resource.prlimit(process, resource.RLIMIT_AS, (most, most))


def status(process: int, name: str) -> int:
    """Return a number of a process's status: bytes of VmSize, VmRSS, VmHWM …, or its Threads."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            number, *unit = line.split()[1:]
            return int(number) << (10 if unit else 0)
    raise KeyError(name)


@dataclass
class Cost:
    """What a server paid for a block: most bytes and threads beyond those before it, and another client's longest wait."""

    memory: int = 0
    threads: int = 0
    silence: float = 0.0
    failure: str = ""


@contextmanager
def bounded(
    server: Server,
    *,
    memory: int = MOST_BYTES,
    threads: int = MOST_THREADS,
    silence: float = LONGEST_SILENCE,
    asks: Callable[[], object] | None = None,
) -> Iterator[Cost]:
    """Check what a block costs a server, and that another client is answered all the while.

    `asks` is what the other client does again and again; without it, `SELECT 1` over a connection of its own.
    """
    process, ended, cost = server.process.pid, threading.Event(), Cost()
    Path(f"/proc/{process}/clear_refs").write_text("5")  # VmHWM begins anew
    memory_before, threads_before = status(process, "VmRSS"), status(process, "Threads")

    def ask_in_turn(ask: Callable[[], object]) -> None:
        is_last = False
        while not is_last:
            is_last = ended.wait(_PAUSE)
            began = time.monotonic()
            ask()
            cost.silence = max(cost.silence, time.monotonic() - began)
            cost.threads = max(cost.threads, status(process, "Threads") - threads_before)

    def watch() -> None:
        try:
            if asks is not None:
                ask_in_turn(asks)
                return
            with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
                ask_in_turn(lambda: cursor.execute("SELECT 1").fetchall())
        except (Error, OSError) as exc:
            cost.failure = str(exc)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield cost
    finally:
        ended.set()
        watcher.join(6 * silence)
    assert server.process.poll() is None, f"the server has ended with {server.process.poll()}"
    assert not watcher.is_alive(), "another client is not answered"
    assert not cost.failure, cost.failure
    cost.memory = status(process, "VmHWM") - memory_before
    assert cost.silence < silence, f"another client waited {cost.silence:.1f} s"
    assert cost.threads < threads, f"{cost.threads} threads, {cost.silence} s"
    assert cost.memory < memory, f"{cost.memory >> 20} MiB"
