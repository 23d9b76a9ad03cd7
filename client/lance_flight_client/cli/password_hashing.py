"""Hashing a password for the users file of a server."""

from __future__ import annotations

import argparse
import getpass
import sys

from lance_flight.errors import InvalidInput
from lance_flight.flight.identity.passwords import StoredPassword
from lance_flight.flight.identity.principals import heading


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
