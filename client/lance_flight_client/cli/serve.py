"""`lance-flight serve`: reads the configuration, and runs the server below a parent that starts it again after a crash.

Nothing heavy is imported here: the parent stays as it is after this module.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import signal
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

from lance_flight import config
from lance_flight.admin import logs
from lance_flight.errors import InvalidInput
from lance_flight.machine import import_bounded_arrow
from lance_flight.serving.replicas import serve_replicas
from lance_flight.serving.supervisor import (
    RELOADING,
    Life,
    Reloader,
    ServiceManager,
    asked_for,
    has_terminal,
    message_of,
    sent_by_parent,
    supervise,
)
from lance_flight.threads import SignalEvent

from lance_flight_client.cli.arguments import add_number, add_root, add_settings


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Serve the tables of a directory or object store over Arrow Flight SQL until SIGTERM or Ctrl-C. An empty directory"
        " is fine."
    )
    add_root(command)
    command.add_argument("--create", action="store_true", help="create the directory ROOT if it does not exist")
    command.add_argument(
        "--no-supervise",
        action="store_true",
        help="serve in this process, without a parent that restarts it after a crash",
    )
    add_number(
        command,
        "--replicas",
        0,
        "serve by so many processes on this machine behind HAProxy, which share its cores and memory; SIGUSR2 replaces one after another",
    )
    command.epilog = "Examples: lance-flight serve lake; lance-flight serve lake --create --replicas 2 --port 32010"
    add_settings(command)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; the second one does not wait for running calls."""
    given = {setting.name: getattr(options, setting.name) for setting in config.settings()}
    load = partial(config.load, given, file=options.config)
    settings = load()
    logs.configure(settings.log_level, logs.LogFormat(settings.log_format.lower()))
    reloader = Reloader(settings, load, config.file_of(options.config))
    manager = ServiceManager.from_environment()

    def serve(settings: config.ServerConfig, life: Life) -> int:
        import_bounded_arrow(settings.server_memory_limit)
        serving = importlib.import_module("lance_flight.serving.main_loop")
        ports: dict[str, Any] = dict(life.ports)
        settings = dataclasses.replace(settings, **ports)
        return int(serving.run(options, settings, life, _changes(settings, life, reloader)))

    has_fork = hasattr(os, "fork")
    if options.replicas:
        if options.no_supervise or not has_fork:
            raise InvalidInput(
                "--replicas are children of this process; expected it without --no-supervise, on a system with fork"
            )
        return serve_replicas(options.root, reloader, options.replicas, serve, manager)
    if options.no_supervise or not has_fork:
        return serve(settings, Life(manager=manager))
    return supervise(
        lambda life: serve(reloader.settings, life),
        unresponsive_after=settings.unresponsive_after,
        manager=manager,
        reloader=reloader,
        settings=lambda: message_of(reloader.settings),
    )


def _changes(settings: config.ServerConfig, life: Life, reloader: Reloader) -> Iterator[config.ServerConfig]:
    """Return the settings of this server as they change: those that its parent sends, or those that it loads itself."""
    if life.settings is not None:
        return sent_by_parent(settings, life.settings)
    event = SignalEvent()
    if signal.getsignal(RELOADING) != signal.SIG_IGN:
        signal.signal(RELOADING, partial(_reload_or_stop, event, has_terminal()))
    return asked_for(reloader, event)


def _reload_or_stop(asked: SignalEvent, had_terminal: bool, number: int, frame: FrameType | None) -> None:  # noqa: FBT001 - bound
    """Ask for a reload, or stop the server whose terminal was closed."""
    if had_terminal and not has_terminal():
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        asked.set()
