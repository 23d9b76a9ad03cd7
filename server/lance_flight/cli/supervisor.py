"""Supervisor of a server process: restarts it after a crash, or after it has stopped answering.

The parent forks before anything heavy is imported: it stays as small as an interpreter, and a start takes no longer. The server writes a
line to a pipe when it accepts connections, and again each time that it has answered a call of its own; the pipe's end is the server's.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType, MappingProxyType

from lance_flight.cli.service_manager import NO_MANAGER, ServiceManager

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
ENDING = STOPPING | {signal.SIGHUP}
"""Signals that end a server without a fault of its own; the supervisor then ends itself by the same signal."""

QUICK_SECONDS = 10.0
"""Lifetime below which a server counts as failed at start."""
MOST_QUICK = 5
"""Consecutive failures at start after which the supervisor gives up."""
BACKOFF_SECONDS = 0.05
"""Pause before the second start; doubled before each further one."""
LOOKS = 8
"""Polls of the pipe without a heartbeat before a server is ended: time in which the parent itself was stopped counts as one poll."""
DUMP_SECONDS = 0.5
"""Seconds that an unresponsive server has for writing the stacks of its threads."""
REPEAT_SECONDS = 0.05
"""Time within which a repeated SIGINT counts as the same one: it was seen to arrive twice, a millisecond apart."""
_PR_SET_PDEATHSIG = 1

log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Reason for a restart of the server."""

    CRASH = "crash"
    UNRESPONSIVE = "unresponsive"


@dataclass(frozen=True, slots=True)
class Life:
    """State of one server process: the restarts before it, the ports of its predecessor, and the pipe to the parent.

    A server without a parent reports to the service `manager` itself; elsewhere the parent does, whose process the manager knows.
    """

    restarts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    channel: int | None = None
    manager: ServiceManager = NO_MANAGER

    def report_ready(self, ports: Mapping[str, int]) -> None:
        """Report that connections are accepted, with the ports by the names of their settings."""
        self.manager.notify_ready()
        if self.channel is not None:
            os.write(self.channel, (" ".join(f"{name}={port}" for name, port in ports.items()) + "\n").encode())

    def report_stopping(self) -> None:
        """Report that new calls are refused; a parent knows it, since the signal came through it."""
        self.manager.notify_stopping()

    def beat(self) -> None:
        """Send a heartbeat to the parent."""
        if self.channel is not None:
            os.write(self.channel, b"\n")


def supervise(serve: Callable[[Life], int], *, unresponsive_after: float, manager: ServiceManager = NO_MANAGER) -> int:
    """Run `serve` in a child process, restart it when it fails, and return the exit status of the last one.

    In the child this returns what `serve` does. A child that was ready and is then silent for `unresponsive_after` seconds (0: any
    number) is ended.
    """
    return Supervisor(serve, unresponsive_after, manager).run()


class Supervisor:
    """Forks servers, forwards signals to them, and waits for their end."""

    def __init__(self, serve: Callable[[Life], int], unresponsive_after: float, manager: ServiceManager) -> None:
        self._serve = serve
        self._manager = manager
        self._look = unresponsive_after / LOOKS or None
        self._restarts: dict[str, int] = dict.fromkeys(Reason, 0)
        self._ports: dict[str, int] = {}
        self._pid = 0
        self._stopped_by: int | None = None
        self._stopped_at = 0.0
        self._is_ready = False
        self._woken, self._wake = os.pipe()

    def run(self) -> int:
        """Restart the server until one ends normally, or too many fail at start."""
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in FORWARDED:
            signal.signal(number, self._forward)
        deaths = 0
        while True:
            begun = time.monotonic()
            channel = self._fork()
            if channel is None:
                return self._serve(self._life)
            reason = self._watch(channel)
            status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            self._pid = 0
            if self._is_over(status):
                return self._exit_status(status)
            deaths = deaths + 1 if time.monotonic() - begun < QUICK_SECONDS else 0
            if deaths == MOST_QUICK:
                log.error("the server %s, %d times at once: it is not started again", _how(status), deaths)
                return status if status >= 0 else 128 - status
            self._restarts[reason] += 1
            log.error("the server %s; it is started again, restart %d", _how(status), sum(self._restarts.values()))
            self._manager.notify_restarting(f"the server {_how(status)}; it is started again")
            self._pause(BACKOFF_SECONDS * 2**deaths if deaths else 0.0)
            if self._stopped_by is not None:
                return self._exit_status(status)

    def _is_over(self, status: int) -> bool:
        """Return whether a server with this status is not restarted: it ended normally, was stopped, or refused to start at first."""
        is_refused = status > 0 and not self._is_ready and not any(self._restarts.values())
        return self._stopped_by is not None or status == 0 or is_refused or -status in ENDING

    def _exit_status(self, status: int) -> int:
        """Exit with the status of the server; if a signal ended it, end this process by that signal."""
        if -status in ENDING:
            number = self._stopped_by or -status
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return status if status >= 0 else 128 - status

    def _fork(self) -> int | None:
        """Start a server; return the reading end of its pipe in the parent, None in the child."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(reading)
            self._life = Life(dict(self._restarts), self._ports, writing)
            _leave_parent(parent)
        else:
            os.close(writing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        return reading if self._pid else None

    def _watch(self, channel: int) -> Reason:
        """Wait until the pipe of a server closes; kill a server that is silent for too long."""
        is_answering, silent = False, 0
        try:
            while silent < LOOKS:
                found, _, _ = select.select([channel, self._woken], [], [], self._look if is_answering else None)
                if self._woken in found:
                    os.read(self._woken, 4096)
                if channel in found:
                    said = os.read(channel, 4096)
                    if not said:
                        return Reason.CRASH
                    self._note(said)
                    if not is_answering and self._stopped_by is None:
                        self._manager.notify_ready()
                    is_answering, silent = True, 0
                elif not found:
                    silent += 1
        finally:
            os.close(channel)
        self._end_silent()
        return Reason.UNRESPONSIVE

    def _note(self, said: bytes) -> None:
        """Keep the ports that a server reports, for its successor."""
        for pair in said.decode().split():
            name, _, port = pair.partition("=")
            self._ports[name] = int(port)
        self._is_ready = True

    def _end_silent(self) -> None:
        """Kill an unresponsive server, after it was asked to dump the stacks of its threads."""
        log.error("the server has not answered for %g seconds (unresponsive_after)", (self._look or 0.0) * LOOKS)
        for number, seconds in ((signal.SIGUSR1, DUMP_SECONDS), (signal.SIGKILL, 0.0)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)
            self._pause(seconds)

    def _pause(self, seconds: float) -> None:
        """Wait, unless a signal stops the supervisor."""
        until = time.monotonic() + seconds
        while self._stopped_by is None and (left := until - time.monotonic()) > 0:
            if select.select([self._woken], [], [], left)[0]:
                os.read(self._woken, 4096)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal; the first one that stops the server is sent as SIGTERM."""
        is_first = number in STOPPING and self._stopped_by is None
        if is_first:
            self._stopped_by, self._stopped_at = number, time.monotonic()
            self._manager.notify_stopping()
        elif number == signal.SIGINT == self._stopped_by and time.monotonic() - self._stopped_at < REPEAT_SECONDS:
            return
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM if is_first else number)


def _leave_parent(parent: int) -> None:
    """Detach the child: signals reach it through its parent alone, and it dies with the parent."""
    signal.set_wakeup_fd(-1)
    for number in FORWARDED:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _how(status: int) -> str:
    return f"ended with {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"
