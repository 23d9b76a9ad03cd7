"""`lance-flight serve`."""

from __future__ import annotations

import argparse
import faulthandler
import signal
import threading
from functools import partial
from pathlib import Path
from types import FrameType

from lance_flight import config
from lance_flight.admin import logs
from lance_flight.admin.readiness import Phase
from lance_flight.cli import service
from lance_flight.cli.identity import certificates
from lance_flight.cli.operations import Operations
from lance_flight.errors import InvalidInput
from lance_flight.flight.lifecycle import serve_until


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; the second one does not wait for running calls."""
    given = {setting.name: getattr(options, setting.name) for setting in config.settings()}
    settings = config.load(given, file=options.config)
    logs.configure(settings.log_level, logs.LogFormat(settings.log_format))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_stop, stop))
    if settings.tls_certificate or settings.has_authentication:
        # Their files are read again when they change: who sends a signal for it does not mean the end.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # What a server does that does not answer is asked with `kill -USR1`: it writes where each thread is.
    faulthandler.register(signal.SIGUSR1)
    ready_file = Path(settings.ready_file)
    if settings.ready_file and not ready_file.parent.is_dir():
        raise InvalidInput(
            f"ready file {settings.ready_file!r} cannot be written: {str(ready_file.parent)!r} is no directory"
        )
    operations = Operations(settings, service.root_store(options.root, settings.storage).check)
    for address in operations.addresses:
        print(f"administration at {address}", flush=True)
    built = service.build(options.root, settings, operations.middleware)
    operations.watch(built)

    def ready(uri: str) -> None:
        operations.enter(Phase.SERVING)
        print(f"serving {options.root} at {uri}", flush=True)
        if settings.ready_file:
            _write_whole(ready_file, uri)

    serve_until(
        built.server,
        stop,
        grace=settings.grace,
        ready=ready,
        stopping=partial(operations.enter, Phase.STOPPING),
        certificates=certificates(settings),
    )
    operations.close()
    service.leave(0)


def _stop(stop: threading.Event, number: int, frame: FrameType | None) -> None:
    """End when the running calls have ended; at once when told a second time."""
    if stop.is_set():
        service.leave(128 + number)
    stop.set()


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is never seen half written."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(text)
    draft.replace(path)
