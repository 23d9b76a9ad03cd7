"""Supervisor of server processes: restarts them after a crash, or after they have stopped answering, and reloads their settings.

The parent forks before anything heavy is imported: it stays as small as an interpreter, and a start takes no longer. The server writes a
line to a pipe when it accepts connections, and again each time that it has answered a call of its own; the pipe's end is the server's.

Processes below a supervisor: what each is to run, the state that the supervisor keeps of it, and how others learn that it is ready.

systemd is told by datagrams (sd_notify), and programs by a file with the address of the server.

Settings of a running server: loaded anew at SIGHUP, and when the configuration file changes.

One process loads them and says what came of it: the supervising parent, which sends each of its servers the values that are its own, or
the server itself where it has no parent. A configuration that is not valid changes nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from lance_flight.admin import logs
from lance_flight.config import ServerConfig, is_reloadable, reloadable_values, settings
from lance_flight.errors import InvalidInput, LanceFlightError
from lance_flight.file_reloading import WatchedFile
from lance_flight.threads import SignalEvent

WATCH_SECONDS = 2.0
"""Time between two looks at the configuration file."""
_MOST_BYTES = 1 << 20
"""Bound of a message with settings, which has a few hundred bytes and the text of `peers`."""

log = logging.getLogger("lance_flight.settings")


class Reloader:
    """The settings that run, and how they are loaded anew. For one thread.

    `load` gives the whole configuration, or raises why it cannot be; `file` is the configuration file, if there is one. What changes is
    logged at level INFO, whatever the configured level is: who changes a setting looks there.
    """

    def __init__(self, running: ServerConfig, load: Callable[[], ServerConfig], file: str | None = None) -> None:
        self.settings = running
        self._load = load
        self._file = None if file is None else WatchedFile(file)
        self._last: ServerConfig | str = running
        log.setLevel(logging.INFO)

    @property
    def is_watching(self) -> bool:
        """True if there is a file to look at every `WATCH_SECONDS`."""
        return self._file is not None

    def reload(self, *, is_asked: bool) -> bool:
        """Load the configuration if that is asked for, or its file may have changed; return whether settings that run have changed.

        The same configuration, or the same error, is told again only to one that asks.
        """
        may_have_changed = self._file is not None and self._file.may_have_changed()
        if not is_asked and not may_have_changed:
            return False
        configuration = self._read_configuration()
        if configuration == self._last and not is_asked:
            return False
        self._last = configuration
        if isinstance(configuration, str):
            log.error("the configuration is not valid, and the settings stay as they are: %s", configuration)
            return False
        running, self.settings = self.settings, dataclasses.replace(self.settings, **reloadable_values(configuration))
        _report(running, configuration)
        logs.reconfigure(self.settings.log_level, logs.LogFormat(self.settings.log_format.lower()))
        return self.settings != running

    def _read_configuration(self) -> ServerConfig | str:
        """Return the configuration as it is now, or why it cannot be."""
        try:
            return self._load()
        except LanceFlightError as exc:
            return str(exc)
        except Exception as exc:
            # Whatever it is, what serves goes on.
            log.exception("the configuration cannot be loaded")
            return f"{type(exc).__name__}: {exc}"


def _report(running: ServerConfig, configuration: ServerConfig) -> None:
    """Log each setting that has changed, and what becomes of it."""
    changed = [field for field in settings() if getattr(running, field.name) != getattr(configuration, field.name)]
    for setting in changed:
        before, after = (_show(setting, getattr(config, setting.name)) for config in (running, configuration))
        if is_reloadable(setting):
            log.info("setting %s is %s now, and was %s", setting.name, after, before)
        else:
            log.warning("setting %s stays %s: its new value %s needs a restart", setting.name, before, after)
    if not changed:
        log.info("the configuration is the one that runs")


def _show(setting: dataclasses.Field[Any], value: Any) -> str:
    return "(hidden)" if setting.metadata.get("is_secret") else repr(value)


def asked_for(reloader: Reloader, asked: SignalEvent) -> Iterator[ServerConfig]:
    """Yield the settings of a server without a parent each time that they change, by its file or after `asked` was set."""
    while True:
        is_asked = asked.wait(WATCH_SECONDS if reloader.is_watching else None)
        asked.clear()
        if reloader.reload(is_asked=is_asked):
            yield reloader.settings


def message_of(config: ServerConfig) -> bytes:
    """Return the message by which a parent sends a server its settings."""
    return json.dumps(reloadable_values(config)).encode()


def sent_by_parent(config: ServerConfig, channel: socket.socket) -> Iterator[ServerConfig]:
    """Yield the settings of a server, which began with `config`, each time that its parent sends them."""
    while message := channel.recv(_MOST_BYTES):
        config = dataclasses.replace(config, **json.loads(message))
        yield config


def has_terminal() -> bool:
    """Return whether this process belongs to a terminal that is there: SIGHUP without it says that it was closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


NOTIFY_SOCKET = "NOTIFY_SOCKET"
"""Environment variable with the path of the socket; a name that begins with @ is in the abstract namespace."""


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


FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})
"""Signals that end a server without a fault of its own; the supervisor then ends itself by the same signal."""
REPLACING = signal.SIGUSR2
"""Signal that replaces one server after another, of several; each of them ends by it when its running calls have."""
STACKS = signal.SIGQUIT
"""Signal at which a server that does not answer writes where its threads are, before it is killed."""
RELOADING = signal.SIGHUP
"""Signal at which the configuration is loaded anew; servers are sent what has changed."""
HANDLED = (*FORWARDED, REPLACING, RELOADING)

QUICK_SECONDS = 10.0
"""Lifetime below which a server counts as failed at start."""
MOST_QUICK = 5
"""Consecutive failures at start after which the supervisor gives up."""
BACKOFF_SECONDS = 0.05
"""Pause before the second start; doubled before each further one."""
MOST_BACKOFF_SECONDS = 30.0
LOOKS = 8
"""Polls of the pipe without a heartbeat before a server is ended: time in which the parent itself was stopped counts as one poll."""
PROBE_SECONDS = 0.05
"""Pause between two probes of a child that listens for the others."""
DUMP_SECONDS = 0.5
"""Seconds that an unresponsive server has for writing the stacks of its threads."""
REPEAT_SECONDS = 0.05
"""Time within which a repeated SIGINT counts as the same one: it was seen to arrive twice, a millisecond apart."""
_PR_SET_PDEATHSIG = 1

supervision_log = logging.getLogger(__name__)


def supervise(
    serve: Callable[[Life], int],
    *,
    unresponsive_after: float,
    manager: ServiceManager = NO_MANAGER,
    reloader: Reloader | None = None,
    settings: Callable[[], bytes] | None = None,
) -> int:
    """Run `serve` in a child process, restart it when it fails, and return the exit status of the last one.

    In the child this returns what `serve` does. A child that was ready and is then silent for `unresponsive_after` seconds (0: any
    number) is ended. It is sent its `settings` when the `reloader` finds that they have changed.
    """
    spec = ChildSpec(name="the server", run=serve, settings=settings)
    return end_with(Supervisor([spec], unresponsive_after, manager=manager, reloader=reloader).run())


def end_with(status: int) -> int:
    """Return an exit status, unless it is negative: then the signal of that number ends this process."""
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


class Supervisor:
    """Forks children, forwards signals to them, and waits for their end.

    One child alone ends the supervisor when it ends normally. Of several one that ends is started again, and SIGUSR2 replaces one after
    another, each once `may_replace` says that the others are in use. `ready` is called once all are ready. At SIGHUP, and when its file
    changes, the `reloader` loads the configuration, and the children are sent the settings that have changed.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        unresponsive_after: float,
        *,
        manager: ServiceManager = NO_MANAGER,
        ready: Callable[[], None] = lambda: None,
        may_replace: Callable[[], bool] = lambda: True,
        reloader: Reloader | None = None,
    ) -> None:
        self._children = [Child(spec=spec) for spec in specs]
        self._is_alone = len(specs) == 1
        self._manager, self._ready, self._may_replace, self._reloader = manager, ready, may_replace, reloader
        self._is_reload_asked = False
        self._had_terminal = has_terminal()
        self._watch_at = self._tend_at = time.monotonic() + WATCH_SECONDS
        self._look = unresponsive_after / LOOKS or None
        self._waiting_for_all = True
        self._to_replace: list[Child] = []
        self._stopped_by: int | None = None
        self._stopped_at = 0.0
        self._ended_by: Child | None = None
        self._life = Life()
        self._woken, self._wake = os.pipe()

    def run(self) -> int:
        """Restart the children until one alone ends normally, all were asked to stop, or one cannot start.

        In a child this returns what its `run` does; else the status that this process is to end with (see `end_with`).
        """
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (*FORWARDED, *(() if self._is_alone else (REPLACING,))):
            signal.signal(number, self._forward)
        if signal.getsignal(RELOADING) != signal.SIG_IGN:  # as nohup has it
            signal.signal(RELOADING, self._forward)
        for child in self._servers:
            child.start_at = time.monotonic()
        while True:
            begun = self._start_due()
            if begun is not None:
                return begun.spec.run(self._life)
            if self._is_stopping:
                self._end_front()
                if not any(child.pid for child in self._children):
                    return self._exit_status()
            self._wait()
            self._reload()
            self._tend()
            self._replace_next()

    @property
    def _servers(self) -> list[Child]:
        return [child for child in self._children if not child.spec.is_front]

    @property
    def _is_stopping(self) -> bool:
        return self._ended_by is not None or self._stopped_by is not None

    def _start_due(self) -> Child | None:
        """Start the children whose time it is; return one in its own process, None in the parent."""
        for child in self._children:
            is_due = not child.pid and child.start_at is not None and child.start_at <= time.monotonic()
            if is_due and self._fork(child):
                return child
        return None

    def _fork(self, child: Child) -> bool:
        """Start a child, unless all are being stopped; return whether this is its process."""
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        with _signals_held():
            if self._is_stopping:
                return False
            reading, writing = os.pipe()
            # Messages are taken whole or not at all.
            receiving, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            child.pid = os.fork()
            if child.pid == 0:
                os.close(reading)
                control.close()
                name = "" if self._is_alone else child.name
                self._life = Life(name, dict(child.restarts), child.ports, writing, settings=receiving)
                _leave_parent(parent)
                return True
            os.close(writing)
            receiving.close()
            control.setblocking(False)  # noqa: FBT003 - a socket's interface
            child.channel, child.control, child.begun, child.start_at = reading, control, time.monotonic(), None
            child.is_ready, child.silent, child.kill_at = False, 0, None
            child.look_at = None if child.spec.probe is None else time.monotonic() + PROBE_SECONDS
            child.reason = Reason.CRASH
        return False

    def _wait(self) -> None:
        """Wait for what a child sends, for its end, for a signal, or for a moment at which something is to be done."""
        moments = [child.wakes_at for child in self._children if child.wakes_at is not None]
        moments += [time.monotonic() + PROBE_SECONDS] if self._to_replace else []
        moments += [self._watch_at] if self._is_watching else []
        moments += [self._tend_at] if any(child.spec.tend for child in self._children) else []
        seconds = max(min(moments) - time.monotonic(), 0.0) if moments else None
        channels = {child.channel: child for child in self._children if child.channel is not None}
        readable, _, _ = select.select([*channels, self._woken], [], [], seconds)
        if self._woken in readable:
            os.read(self._woken, 4096)
        for channel, child in channels.items():
            if channel in readable:
                content = os.read(channel, 4096)
                if content:
                    self._note(child, content)
                else:
                    self._reap(child)
            elif child.pid and child.wakes_at is not None and child.wakes_at <= time.monotonic():
                self._look_after(child)

    def _note(self, child: Child, content: bytes) -> None:
        """Keep the ports that a child reports, for its successor, and count it as ready, unless it is about to end."""
        for pair in content.decode().split():
            name, _, port = pair.partition("=")
            child.ports[name] = int(port)
        child.silent = 0
        child.look_at = None if self._look is None else time.monotonic() + self._look
        if child.is_replaced:
            return  # it finishes its calls, and takes no others
        is_known, child.is_ready, child.was_ready = child.is_ready, True, True
        if not is_known:
            child.spec.joins()
        if is_known or not all(each.is_ready for each in self._servers):
            return
        front = next((each for each in self._children if each.spec.is_front), None)
        if front is not None and not front.pid and front.start_at is None:
            front.start_at = time.monotonic()
        elif self._waiting_for_all and (front is None or front.is_ready):
            self._waiting_for_all = False
            self._ready()
        if front is None or front.is_ready:
            self._manager.notify_ready()

    def _look_after(self, child: Child) -> None:
        """Count a silent child, end it when it was silent for too long, and kill it when it has had the time to say where it is."""
        if child.kill_at is not None:
            child.kill_at = None
            child.look_at = None
            child.send(signal.SIGKILL)
            return
        probe = child.spec.probe
        if probe is not None and probe():
            self._note(child, b"")
            return
        if probe is not None and not child.is_ready:
            child.look_at = time.monotonic() + PROBE_SECONDS
            return
        child.silent += 1
        child.look_at = time.monotonic() + (self._look or 0.0)
        if child.silent >= LOOKS:
            supervision_log.error(
                "%s has not answered for %g seconds (unresponsive_after)", child.name, (self._look or 0.0) * LOOKS
            )
            child.reason, child.kill_at = Reason.UNRESPONSIVE, time.monotonic() + DUMP_SECONDS
            if not child.spec.is_front:
                child.send(STACKS)

    def _reap(self, child: Child) -> None:
        """Take the exit status of a child that has ended, and start it again unless it is over."""
        child.close()
        child.status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        child.pid = 0
        if self._is_stopping:
            if child.status < 0 and -child.status not in STOPPING and not child.spec.is_front:
                supervision_log.error("%s %s while it was stopped", child.name, _how(child.status))
            return
        if child.is_replaced:
            child.is_replaced, child.start_at = False, time.monotonic()
        elif self._ends_all(child):
            self._ended_by = child
            for other in self._servers:
                other.send(signal.SIGTERM)
        else:
            self._start_again(child)

    def _ends_all(self, child: Child) -> bool:
        """Return whether nothing is restarted: a child alone ended normally or by a signal, or one refused to start at first."""
        is_refused = child.status > 0 and not child.was_ready and not any(child.restarts.values())
        return is_refused or (self._is_alone and (child.status == 0 or -child.status in STOPPING))

    def _start_again(self, child: Child) -> None:
        child.deaths = child.deaths + 1 if time.monotonic() - child.begun < QUICK_SECONDS else 0
        if child.deaths == MOST_QUICK and self._is_alone:
            supervision_log.error(
                "%s %s, %d times at once: it is not started again", child.name, _how(child.status), child.deaths
            )
            self._ended_by = child
            child.status = child.status if child.status >= 0 else 128 - child.status
            return
        child.restarts[child.reason] += 1
        restarts = sum(child.restarts.values())
        supervision_log.error("%s %s; it is started again, restart %d", child.name, _how(child.status), restarts)
        self._manager.notify_restarting(f"{child.name} {_how(child.status)}; it is started again")
        pause = min(BACKOFF_SECONDS * 2**child.deaths, MOST_BACKOFF_SECONDS) if child.deaths else 0.0
        child.start_at = time.monotonic() + pause

    def _replace_next(self) -> None:
        """Have the next child of those to be replaced end, once the one before is back."""
        are_ready = all(child.is_ready for child in self._servers)
        if self._to_replace and not self._is_stopping and are_ready and self._may_replace():
            child = self._to_replace.pop(0)
            supervision_log.info("%s is replaced", child.name)
            child.is_replaced, child.is_ready = True, False
            child.spec.leaves()
            child.send(REPLACING)

    def _end_front(self) -> None:
        """End the child that listens for the others, once none of them runs."""
        if not any(child.pid for child in self._servers):
            for child in self._children:
                child.send(signal.SIGTERM)

    @property
    def _is_watching(self) -> bool:
        return self._reloader is not None and self._reloader.is_watching and not self._is_stopping

    def _reload(self) -> None:
        """Load the configuration if SIGHUP has asked for it, or its file has changed, and send the servers what has changed."""
        is_asked, self._is_reload_asked = self._is_reload_asked, False
        is_due = self._is_watching and self._watch_at <= time.monotonic()
        if self._reloader is None or self._is_stopping or not (is_asked or is_due):
            return
        self._watch_at = time.monotonic() + WATCH_SECONDS
        if self._reloader.reload(is_asked=is_asked):
            for child in self._servers:
                child.send_settings()

    def _tend(self) -> None:
        """Tend the children that need it."""
        if self._tend_at > time.monotonic():
            return
        self._tend_at = time.monotonic() + WATCH_SECONDS
        for child in self._children:
            if child.spec.tend is not None and child.is_ready:
                child.spec.tend()

    def _exit_status(self) -> int:
        """Return the exit status of the server that ended all of them, or the gravest of those that were stopped.

        A negative one is the number of the signal that is to end this process, too. A stop that was asked for is done when nothing runs: a
        server that crashed before it or meanwhile was of no further use, but for one that had to be killed.
        """
        if self._ended_by is not None:
            return self._exit_status_of(self._ended_by.status)
        counted = [child.status for child in self._servers if child.status >= 0 or child.status == -signal.SIGKILL]
        # One that was stopped before it was ever ready has done nothing at the signal but end.
        counted += [child.status for child in self._servers if -child.status in STOPPING and not child.was_ready]
        return self._exit_status_of(max(counted, key=abs, default=0))

    def _exit_status_of(self, status: int) -> int:
        if -status in STOPPING:
            return -(self._stopped_by or -status)
        return status if status >= 0 else 128 - status

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal to the servers; the first one that stops them is sent as SIGTERM."""
        if number == REPLACING:
            self._to_replace = self._servers
            return
        if number == RELOADING:
            if not self._had_terminal or has_terminal():
                self._is_reload_asked = True
                return
            number = signal.SIGTERM
        is_first = number in STOPPING and self._stopped_by is None
        if is_first:
            self._stopped_by, self._stopped_at = number, time.monotonic()
            for child in self._servers:
                child.status = child.status if child.pid else 0
            self._manager.notify_stopping()
        elif number == signal.SIGINT == self._stopped_by and time.monotonic() - self._stopped_at < REPEAT_SECONDS:
            return
        for child in self._servers:
            child.send(signal.SIGTERM if is_first else number)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Deliver signals after the block; those that came before it have been handled once it begins."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def _leave_parent(parent: int) -> None:
    """Detach the child: signals reach it through its parent alone, and it dies with the parent."""
    signal.set_wakeup_fd(-1)
    for number in (*FORWARDED, REPLACING):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.signal(RELOADING, signal.SIG_IGN)
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _how(status: int) -> str:
    return f"ended with {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"
