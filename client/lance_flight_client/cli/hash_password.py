"""`lance-flight hash-password`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Read a password from the terminal, or a line from standard input, and print its hash for the users file."
    )
    command.add_argument("user", metavar="USER", nargs="?", help="print the whole entry of this user")


def run(options: argparse.Namespace) -> int:
    """Read a password and print the line that stores its hash."""
    return int(importlib.import_module("lance_flight_client.cli.password_hashing").run(options))
