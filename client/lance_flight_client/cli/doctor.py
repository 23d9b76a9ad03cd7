"""`lance-flight doctor`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_root


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Look at a root as a server would: whether it can be read and written, the clock beside the storage's, free space, libraries, the key"
        " of tickets, and of each table whether it opens, its fence against stock writers, small files, and what processes that died have"
        " left. Each finding says what to do. The exit status is 1 if there is an error."
    )
    command.epilog = "Examples: lance-flight doctor lake; lance-flight doctor s3://bucket/lake"
    add_root(command)


def run(options: argparse.Namespace) -> int:
    """Print the findings about a root as they are made."""
    return int(importlib.import_module("lance_flight_client.cli.diagnosing").run(options))
