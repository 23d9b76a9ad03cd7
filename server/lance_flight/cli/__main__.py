"""The command `lance-flight` as a process of its own, also by `python -m lance_flight.cli`."""

import sys

from lance_flight.cli import main
from lance_flight.cli.absent import keep_out


def run() -> int:
    """Run one command, without the import of pandas that pyarrow would make where it is installed."""
    keep_out("pandas")
    return main()


if __name__ == "__main__":
    sys.exit(run())
