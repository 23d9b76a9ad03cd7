"""`lance-flight hash-password`."""

from __future__ import annotations

import argparse
import getpass
import sys

from lance_flight.errors import InvalidInput
from lance_flight.flight.identity.passwords import StoredPassword
from lance_flight.flight.identity.principals import heading


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Read a password from the terminal, or a line from standard input, and print its hash for the users file."
    )
    command.add_argument("user", metavar="USER", nargs="?", help="print the whole entry of this user")


def run(options: argparse.Namespace) -> int:
    """Read a password and print the line that stores its hash; an argument could be read by every user of the machine."""
    password = _read_password() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InvalidInput("the password is empty")
    line = f'password = "{StoredPassword.of(password).text}"'
    print(line if options.user is None else f"{heading('users', options.user)}\n{line}")
    return 0


def _read_password() -> str:
    password = getpass.getpass()
    if getpass.getpass("Again: ") != password:
        raise InvalidInput("the two passwords are not the same")
    return password
