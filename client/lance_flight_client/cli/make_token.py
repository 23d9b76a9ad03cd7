"""`lance-flight make-token`."""

from __future__ import annotations

import argparse
import sys

from lance_flight.flight.identity.principals import heading
from lance_flight.flight.identity.static_tokens import hash_of, make_token


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Print a new bearer token on standard output, and its entry of the tokens file on standard error: "
        "`lance-flight make-token etl 2>> tokens.toml > etl.token`."
    )
    command.add_argument("principal", metavar="PRINCIPAL", help="principal that the token authenticates")


def run(options: argparse.Namespace) -> int:
    """Print a new token, and on standard error its entry for the tokens file, so that the two can be redirected separately."""
    token = make_token()
    print(f'{heading("tokens", options.principal)}\nsha256 = "{hash_of(token)}"', file=sys.stderr)
    print(token)
    return 0
