"""Processes below a supervisor: what each is to run, the state that the supervisor keeps of it, and how others learn that it is ready.

systemd is told by datagrams (sd_notify), and programs by a file with the address of the server.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from lance_flight.errors import InvalidInput

NOTIFY_SOCKET = "NOTIFY_SOCKET"
"""Environment variable with the path of the socket; a name that begins with @ is in the abstract namespace."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceManager:
    r"""Socket of a service manager; without an `address` nothing is sent.

    >>> ServiceManager.from_environment({"NOTIFY_SOCKET": "@manager"}).address
    '\x00manager'
    """

    address: str = ""

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """Take the socket out of the environment: child processes are not the main process of the service."""
        path = environment.pop(NOTIFY_SOCKET, "")
        return cls("\0" + path[1:] if path.startswith("@") else path)

    def notify_ready(self) -> None:
        """Report that connections are accepted."""
        self._send(b"READY=1\nSTATUS=serving")

    def notify_stopping(self) -> None:
        """Report that the service was asked to end, and that running calls are waited for."""
        self._send(b"STOPPING=1\nSTATUS=stopping: running calls have `grace` seconds to end")

    def notify_restarting(self, status: str) -> None:
        """Report why no connections are accepted at the moment; the service itself goes on."""
        self._send(f"STATUS={status}".encode())

    def _send(self, message: bytes) -> None:
        """Send a datagram without waiting; a manager that cannot be reached is no reason to stop serving."""
        if not self.address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.settimeout(0)
                sending.sendto(message, self.address)
        except OSError as exc:
            log.warning("the service manager at %r cannot be notified: %s", self.address, exc.strerror)


NO_MANAGER = ServiceManager()
"""Service manager of a process that was started by none."""


def check_ready_file(path: str) -> None:
    """Raise `InvalidInput` where the file could not be written later; no path is no file."""
    if path and not Path(path).parent.is_dir():
        raise InvalidInput(f"ready file {path!r} cannot be written: {str(Path(path).parent)!r} is no directory")


def write_ready_file(path: str, uri: str) -> None:
    """Write the address, whole or not at all; no path is no file."""
    if path:
        file = Path(path)
        draft = file.with_name(file.name + ".part")
        draft.write_text(uri)
        draft.replace(file)


log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Reason for a restart of the server."""

    CRASH = "crash"
    UNRESPONSIVE = "unresponsive"


@dataclass(frozen=True, slots=True)
class Life:
    """State of one server process: the restarts before it, the ports of its predecessor, and the pipe to the parent.

    A server without a parent reports to the service `manager` itself; elsewhere the parent does, whose process the manager knows.
    One of several has a `name`, and `siblings`: the addresses of the other replicas on the same `machine`, which has a random name.
    `settings` receives those that change, from the parent.
    """

    name: str = ""
    restarts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    channel: int | None = None
    manager: ServiceManager = NO_MANAGER
    settings: socket.socket | None = None
    machine: str = ""
    siblings: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A process that a supervisor keeps running: its name, and `run`, which is called in it and gives its exit status.

    One that `is_front` listens for the others: it is started once they are ready, and ends after them. It sends nothing: its `probe` tells
    that it is ready, and that it still answers. `joins` is called each time that a child is ready, and `leaves` before it is replaced.
    `settings` gives the message that it is sent when settings have changed. `tend` is called every few seconds while it is ready.
    """

    name: str
    run: Callable[[Life], int]
    is_front: bool = False
    probe: Callable[[], bool] | None = None
    joins: Callable[[], None] = lambda: None
    leaves: Callable[[], None] = lambda: None
    settings: Callable[[], bytes] | None = None
    tend: Callable[[], None] | None = None


@dataclass(slots=True, kw_only=True)
class Child:
    """State of the process of a `spec`, which another one follows when it ends; times are those of the monotonic clock."""

    spec: ChildSpec
    pid: int = 0
    channel: int | None = None
    control: socket.socket | None = None
    ports: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    status: int = 0
    is_ready: bool = False
    was_ready: bool = False
    is_replaced: bool = False
    reason: Reason = Reason.CRASH
    deaths: int = 0
    silent: int = 0
    begun: float = 0.0
    start_at: float | None = None
    look_at: float | None = None
    kill_at: float | None = None

    @property
    def name(self) -> str:
        """Return the name of the process in the log."""
        return self.spec.name

    @property
    def wakes_at(self) -> float | None:
        """The moment at which something is to be done about it: to start it, to look for a heartbeat, or to kill it."""
        if not self.pid:
            return self.start_at
        return self.look_at if self.kill_at is None else self.kill_at

    def send(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def send_settings(self) -> None:
        """Send it the settings as they are now, if it runs and takes any."""
        if self.control is None or self.spec.settings is None:
            return
        try:
            self.control.send(self.spec.settings())
        except OSError as exc:
            # It reads none, or is about to end: the one that follows begins with them.
            log.warning("%s is not sent its settings: %s", self.name, exc.strerror)

    def close(self) -> None:
        """Close the parent's ends of what connects it with the process."""
        if self.channel is not None:
            os.close(self.channel)
        if self.control is not None:
            self.control.close()
        self.channel, self.control = None, None
