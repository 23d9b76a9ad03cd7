"""The command `lance-flight` in a process of its own, also by `python -m lance_flight_client.cli`."""

import sys

from lance_flight_client.cli import main
from lance_flight_client.cli.absent import keep_out, put_off
from lance_flight_client.terminal import guard_terminals


def run() -> int:
    """Run one command, without the imports that pyarrow and ADBC would make of pandas and Polars where these are installed.

    ADBC imports Arrow's datasets as well: a third of the time that a query of one row takes.
    """
    keep_out("pandas")
    keep_out("polars")
    put_off("pyarrow.dataset")
    guard_terminals()
    return main()


if __name__ == "__main__":
    sys.exit(run())
