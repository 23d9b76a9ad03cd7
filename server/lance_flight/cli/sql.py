"""`lance-flight sql`."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path

from lance_flight_client.adbc import Credentials, connect, execute
from lance_flight_client.output import write

from lance_flight.cli.arguments import add_number, add_server
from lance_flight.errors import InvalidInput

OUTPUT_FORMATS = ("table", "csv", "json", "arrow")
PASSWORD_VARIABLE = "LANCE_FLIGHT_PASSWORD"  # noqa: S105 - where it is, not what it is


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = "Run one SQL statement on a running server and print its result."
    command.add_argument(
        "statement", metavar="SQL", help='for example "SELECT origin, count(*) FROM flights GROUP BY origin"'
    )
    add_server(command)
    command.add_argument(
        "--format", choices=OUTPUT_FORMATS, default="table", help="output format (default: %(default)s)"
    )
    add_number(command, "--max-rows", 100, "number of rows that a table prints; 0 prints all")


def run(options: argparse.Namespace) -> int:
    """Run one statement and print its result."""
    with connect(options.uri, credentials(options)) as connection:
        result = execute(connection, options.statement)
        if result.rows is None:
            print(f"{result.affected:,} rows affected" if result.affected >= 0 else "done", file=sys.stderr)
        else:
            write(result.rows, options.format, limit=options.max_rows or None, out=sys.stdout)
    return 0


def credentials(options: argparse.Namespace) -> Credentials:
    """Return the client's credentials; secrets are read from files, the environment or the terminal."""
    if options.user is not None and options.token_file is not None:
        raise InvalidInput("--user and --token-file were given; expected one of them")
    token = _content(options.token_file)
    return Credentials(
        user=options.user,
        password=None if options.user is None else _password(options.user),
        token=None if token is None else token.strip(),
        tls_ca=_content(options.tls_ca),
        certificate=_content(options.tls_certificate),
        key=_content(options.tls_key),
    )


def _password(user: str) -> str:
    found = os.environ.get(PASSWORD_VARIABLE)
    if found is not None:
        return found
    if not sys.stdin.isatty():
        raise InvalidInput(f"no password of {user!r}; expected it in {PASSWORD_VARIABLE}, or a terminal to ask for it")
    return getpass.getpass(f"Password of {user}: ")


def _content(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise InvalidInput(f"{path!r} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError:
        raise InvalidInput(f"{path!r} is no text") from None
