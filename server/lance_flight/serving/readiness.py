"""Readiness told to others: to systemd by datagrams (sd_notify), and to programs by a file with the address of the server."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path

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
