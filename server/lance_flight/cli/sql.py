"""`lance-flight sql`."""

from __future__ import annotations

import argparse
import sys

from lance_flight_client.adbc import connect, execute
from lance_flight_client.output import write


def run(options: argparse.Namespace) -> int:
    """Run one statement and print what it returns."""
    with connect(options.uri) as connection:
        result = execute(connection, options.statement)
        if result.rows is None:
            print(f"{result.affected:,} rows affected" if result.affected >= 0 else "done", file=sys.stderr)
        else:
            write(result.rows, options.format, limit=options.max_rows or None, out=sys.stdout)
    return 0
