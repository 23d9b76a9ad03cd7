"""`lance-flight console`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_number, add_server

DEFAULT_PORT = 32080


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Serve pages about the tables of a running server: which partitions hold what, which of them a query reads, queries and their plans,"
        " history, and activity. The printed address lets one browser in. Nothing can be changed there without --writes."
    )
    command.epilog = "Examples: lance-flight console; lance-flight console --uri lake.example.com:32010 --profile prod"
    add_server(command)
    command.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address to listen on (default: %(default)s)"
    )
    add_number(command, "--port", DEFAULT_PORT, "port to listen on, 0 for any")
    command.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="name that browsers call it by, if another one; repeatable",
    )
    command.add_argument(
        "--https-certificate", metavar="FILE", help="certificate for browsers, PEM; needed beyond this machine"
    )
    command.add_argument("--https-key", metavar="FILE", help="private key of --https-certificate, PEM")
    command.add_argument(
        "--login", action="store_true", help="have each browser say who asks, in place of the credentials here"
    )
    command.add_argument("--writes", action="store_true", help="let statements change tables")
    add_number(command, "--max-rows", 10_000, "rows that are shown of a query")
    command.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="time for one statement (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve the console until an interrupt."""
    return int(importlib.import_module("lance_flight_client.cli.serving_console").run(options))
