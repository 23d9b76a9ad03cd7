"""`lance-flight serve`: reads the configuration, and runs the server below a parent that starts it again after a crash.

Nothing heavy is imported here: the parent stays as it is after this module.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
from typing import Any

from lance_flight import config
from lance_flight.admin import logs
from lance_flight.cli.arguments import add_root, add_settings
from lance_flight.cli.service_manager import ServiceManager
from lance_flight.cli.supervisor import Life, supervise


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
    add_settings(command)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; the second one does not wait for running calls."""
    given = {setting.name: getattr(options, setting.name) for setting in config.settings()}
    settings = config.load(given, file=options.config)
    logs.configure(settings.log_level, logs.LogFormat(settings.log_format))
    manager = ServiceManager.from_environment()

    def serve(life: Life) -> int:
        serving = importlib.import_module("lance_flight.cli.serving")
        ports: dict[str, Any] = dict(life.ports)
        return int(serving.run(options, dataclasses.replace(settings, **ports), life))

    if options.no_supervise or not hasattr(os, "fork"):
        return serve(Life(manager=manager))
    return supervise(serve, unresponsive_after=settings.unresponsive_after, manager=manager)
