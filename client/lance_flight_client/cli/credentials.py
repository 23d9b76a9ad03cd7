"""Entries for the users file and the tokens file of a server."""

from __future__ import annotations

import argparse
import getpass
import sys

from lance_flight.errors import InvalidInput
from lance_flight.flight.authentication import heading
from lance_flight.flight.passwords import StoredPassword, hash_of
from lance_flight.flight.passwords import make_token as new_token


def hash_password(options: argparse.Namespace) -> int:
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


def make_token(options: argparse.Namespace) -> int:
    """Print a new token, and on standard error its entry for the tokens file, so that the two can be redirected separately."""
    token = new_token()
    print(f'{heading("tokens", options.principal)}\nsha256 = "{hash_of(token)}"', file=sys.stderr)
    print(token)
    return 0
