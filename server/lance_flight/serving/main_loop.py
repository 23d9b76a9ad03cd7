"""Main loop of a server process, from its signals to the end of its last call."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from functools import partial
from types import FrameType
from urllib.parse import urlsplit

from lance_flight.admin import logs
from lance_flight.admin.readiness import Phase
from lance_flight.catalog.storage.formats import root_store
from lance_flight.config import ServerConfig
from lance_flight.flight.encryption import Tls
from lance_flight.flight.lifecycle import SelfCheck, serve_until
from lance_flight.flight.peers import Neighbours
from lance_flight.machine import leave
from lance_flight.serving import service
from lance_flight.serving.children import Life, check_ready_file, write_ready_file
from lance_flight.serving.observing import Operations
from lance_flight.serving.service import certificates
from lance_flight.serving.supervisor import REPLACING, STACKS
from lance_flight.signal_event import SignalEvent

BEATS = 4
"""Heartbeats that a server sends within the time after which it counts as unresponsive."""
BEAT_SECONDS = 5.0
"""Longest time between two heartbeats."""

log = logging.getLogger(__name__)


def run(options: argparse.Namespace, settings: ServerConfig, life: Life, changes: Iterator[ServerConfig]) -> int:
    """Serve until SIGTERM or SIGINT; the second one does not wait for running calls.

    What `changes` gives takes the place of the settings that a running server takes.
    """
    stop, stopped, replaced = SignalEvent(), SignalEvent(), SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_stop, stopped, stop))
    signal.signal(REPLACING, partial(_replace, replaced, stop))
    # Where its threads are is asked with `kill -USR1`. A server that hangs with Python's lock does not answer that, but SIGQUIT, which may
    # end it: the other threads go on while they are looked at.
    signal.signal(signal.SIGUSR1, _write_stacks)
    faulthandler.register(STACKS)
    check_ready_file(settings.ready_file)
    store = root_store(options.root, settings.storage, create=options.create)
    operations = Operations(settings, store.check, life.restarts)
    print_line = partial(logs.print_line, format=logs.LogFormat(settings.log_format.lower()))
    for address in operations.addresses.values():
        print_line(f"administration at {address}")
    neighbours = Neighbours(life.machine, life.siblings) if life.machine else Neighbours()
    built = service.build(options.root, settings, operations.middleware, neighbours=neighbours)
    operations.watch(built)
    for line in () if life.machine else built.doors.lines:  # of replicas clients call the address of all
        print_line(line)
    running = _Running(settings, built, operations)
    threading.Thread(target=running.follow, args=[changes], name="settings", daemon=True).start()

    def ready(uri: str) -> None:
        operations.enter(Phase.SERVING)
        life.report_ready(_ports({"port": uri, **operations.addresses, **built.doors.addresses}))
        print_line(f"{life.name or f'serving {options.root}'} at {uri}")
        write_ready_file(settings.ready_file, uri)
        if life.channel is not None and settings.unresponsive_after:
            threading.Thread(target=_beat, args=(life, settings, uri, stop), name="self-check", daemon=True).start()
        built.maintainer.start()

    def stopping() -> None:
        operations.enter(Phase.STOPPING)
        built.maintainer.interrupt()
        built.doors.stopping()
        life.report_stopping()

    def renewed(tls: Tls) -> None:
        built.peers.renew(tls)
        built.doors.renew(tls)

    serve_until(
        built.server,
        stop,
        grace=lambda: running.settings.grace,
        ready=ready,
        stopping=stopping,
        certificates=certificates(settings),
        renewed=renewed,
        is_replaced=replaced.is_set,
    )
    built.maintainer.stop()
    built.doors.stop()
    operations.close()
    leave(0)


class _Running:
    """A server with the settings that it has at the moment."""

    def __init__(self, settings: ServerConfig, built: service.Service, operations: Operations) -> None:
        self.settings = settings
        self._built, self._operations = built, operations

    def follow(self, changes: Iterator[ServerConfig]) -> None:
        """Take new settings as they come."""
        for settings in changes:
            try:
                logs.reconfigure(settings.log_level, logs.LogFormat(settings.log_format.lower()))
                self._built.apply(settings)
                self._operations.apply(settings)
                self.settings = settings
            except Exception:
                # The next ones may be better, and calls go on.
                log.exception("new settings are not all in use; expected a restart")


def _beat(life: Life, settings: ServerConfig, uri: str, stop: SignalEvent) -> None:
    """Send heartbeats to the parent for as long as this server answers its own calls.

    Where clients are known by their certificates, of which there is none here, and where the first call fails, this thread alone tells it:
    a server is not ended because it cannot reach itself.
    """
    seconds = settings.unresponsive_after
    check = None if settings.tls_client_ca else SelfCheck(uri, timeout=seconds)
    if check is not None and not check.is_answered() and not stop.is_set():
        log.warning("the server cannot call itself at %s: whether its handlers run is not watched", uri)
        check = None
    pause = threading.Event()
    while True:
        if check is None or stop.is_set() or check.is_answered():
            life.beat()
        pause.wait(min(seconds / BEATS, BEAT_SECONDS))


def _ports(addresses: Mapping[str, str]) -> dict[str, int]:
    """Extract the port of each address."""
    return {name: urlsplit(address).port or 0 for name, address in addresses.items()}


def _write_stacks(number: int, frame: FrameType | None) -> None:
    """Write to standard error where each thread is, this one last.

    Not by `faulthandler`: it goes through the list of threads while gRPC adds to it and takes from it.
    """
    here = threading.get_ident()
    stacks = sorted(sys._current_frames().items(), key=lambda pair: pair[0] == here)  # noqa: SLF001 - there is no other way
    for thread, top in stacks:
        lines = [f"Thread {thread:#x} (most recent call first):"]
        for inner, line in traceback.walk_stack(top):
            lines.append(f'  File "{inner.f_code.co_filename}", line {line} in {inner.f_code.co_name}')
        os.write(sys.stderr.fileno(), "\n".join([*lines, "", ""]).encode())


def _stop(stopped: SignalEvent, stop: SignalEvent, number: int, frame: FrameType | None) -> None:
    """Stop after the running calls have ended; a second signal ends the process at once, of those that stop it."""
    if stopped.is_set():
        leave(128 + number)
    stopped.set()
    stop.set()


def _replace(replaced: SignalEvent, stop: SignalEvent, number: int, frame: FrameType | None) -> None:
    """Stop after the running calls have ended, for another server that takes the next ones."""
    replaced.set()
    stop.set()
