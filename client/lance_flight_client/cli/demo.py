"""`lance-flight demo`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight.config import DEFAULT_PORT


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Load the 336,776 flights that left New York in 2013 into ./lance-flight-demo through the service itself, run four"
        " queries, and serve the tables until Ctrl-C. A second run uses the data that is there."
    )
    command.add_argument(
        "--root", default="lance-flight-demo", metavar="DIR", help="directory of the tables (default: ./%(default)s)"
    )
    command.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help="port to serve on (default: %(default)s)"
    )
    command.add_argument("--no-serve", action="store_true", help="use a free port and exit after the queries")


def run(options: argparse.Namespace) -> int:
    """Load, query, explain how to connect, and serve."""
    return int(importlib.import_module("lance_flight_client.cli.demonstrating").run(options))
