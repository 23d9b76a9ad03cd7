"""`lance-flight mcp`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_number, add_server


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Give an assistant tools over the tables of a running server, by the Model Context Protocol: list and describe tables, query, search,"
        " explain. Without --port it speaks over standard input and output, as the assistant starts it, with the credentials given here. With"
        " --port it serves HTTP at /mcp, and each caller has the token that it sends. Nothing can be changed without --writes."
    )
    command.epilog = (
        "Examples: lance-flight mcp --uri lake.example.com:32010 --profile prod; lance-flight mcp --port 32090"
    )
    add_server(command)
    command.add_argument("--port", type=int, metavar="NUMBER", help="serve HTTP at this port, 0 for any")
    command.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address that --port is of (default: %(default)s)"
    )
    command.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="name that clients call it by; repeatable"
    )
    command.add_argument(
        "--https-certificate", metavar="FILE", help="certificate for clients, PEM; needed beyond this machine"
    )
    command.add_argument("--https-key", metavar="FILE", help="private key of --https-certificate, PEM")
    command.add_argument("--writes", action="store_true", help="let the tool `query` change tables")
    add_number(command, "--max-rows", 200, "rows of an answer")
    add_number(command, "--max-characters", 100_000, "characters of an answer")
    command.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="time for one statement (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve the tools until the assistant ends the command, or a signal does."""
    return int(importlib.import_module("lance_flight_client.cli.serving_mcp").run(options))
