"""Settings of a running server: loaded anew at SIGHUP, and when the configuration file changes.

One process loads them and says what came of it: the supervising parent, which sends each of its servers the values that are its own, or
the server itself where it has no parent. A configuration that is not valid changes nothing.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from lance_flight.admin import logs
from lance_flight.config import ServerConfig, is_reloadable, reloadable_values, settings
from lance_flight.errors import LanceFlightError
from lance_flight.file_reloading import WatchedFile
from lance_flight.signal_event import SignalEvent

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
