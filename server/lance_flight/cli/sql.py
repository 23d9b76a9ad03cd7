"""`lance-flight sql`."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path
from typing import Any

from lance_flight_client.adbc import Credentials, answered, connect
from lance_flight_client.errors import ServerError
from lance_flight_client.output import write

from lance_flight.cli.arguments import add_number, add_server
from lance_flight.cli.scripts import statements_of
from lance_flight.errors import InvalidInput

OUTPUT_FORMATS = ("table", "csv", "json", "arrow")
PASSWORD_VARIABLE = "LANCE_FLIGHT_PASSWORD"  # noqa: S105 - where it is, not what it is


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Run SQL statements, separated by semicolons, on a running server, and print their results. The first that fails ends the command"
        " with status 1. Without SQL they are read from a pipe."
    )
    given = command.add_mutually_exclusive_group()
    given.add_argument(
        "statement",
        metavar="SQL",
        nargs="?",
        help='for example "SELECT origin, count(*) FROM flights GROUP BY origin"',
    )
    given.add_argument("-f", "--file", metavar="FILE", help="file of statements")
    add_server(command)
    command.add_argument(
        "--format", choices=OUTPUT_FORMATS, default="table", help="output format (default: %(default)s)"
    )
    add_number(command, "--max-rows", 100, "number of rows that a table prints; 0 prints all")


def run(options: argparse.Namespace) -> int:
    """Run statements one after another, and print their results."""
    where, script = _script(options)
    statements = list(statements_of(script))
    if not statements:
        raise InvalidInput(f"{where or 'the statement'} is empty; expected SQL")
    with connect(options.uri, credentials(options)) as connection:
        for statement in statements:
            try:
                _run(connection, statement.text, options)
            except ServerError as exc:
                raise ServerError(f"{where}:{statement.line}: {exc}" if where else str(exc)) from exc
    return 0


def _script(options: argparse.Namespace) -> tuple[str | None, str]:
    """Return the statements, and the name of the file that they stand in."""
    if options.statement is not None:
        return None, options.statement
    if options.file is not None:
        return options.file, _content(options.file) or ""
    if sys.stdin.isatty():
        raise InvalidInput('no statement was given; expected lance-flight sql "SELECT 1", -f FILE, or a pipe')
    return "<stdin>", sys.stdin.read()


def _run(connection: Any, statement: str, options: argparse.Namespace) -> None:
    with answered(connection, statement) as answer:
        if len(answer.schema):
            write(answer.schema, answer.batches, options.format, limit=options.max_rows or None, out=sys.stdout)
        else:
            print(f"{answer.affected:,} rows affected" if answer.affected >= 0 else "done", file=sys.stderr)
    # Binary output goes past the text layer: what was printed before must be there first.
    sys.stdout.flush()


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
