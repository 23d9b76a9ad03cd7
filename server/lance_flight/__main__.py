"""The command `lance-flight`, also by `python -m lance_flight`: an interrupt during its imports ends it without a traceback."""

from __future__ import annotations

import importlib
import sys


def run() -> int:
    """Import the command line and run one command; its exit status."""
    try:
        return int(importlib.import_module("lance_flight_client.cli.__main__").run())
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(run())
