"""`lance-flight make-token`."""

from __future__ import annotations

import argparse
import sys

from lance_flight.flight.identity.static_tokens import hash_of, make_token
from lance_flight.flight.identity.tables import heading


def run(options: argparse.Namespace) -> int:
    """Print a new token, and what the tokens file holds of it on standard error, so that the two can go apart."""
    token = make_token()
    print(f'{heading("tokens", options.principal)}\nsha256 = "{hash_of(token)}"', file=sys.stderr)
    print(token)
    return 0
