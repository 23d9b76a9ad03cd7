"""Progress of long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial


def progress(doing: str) -> Callable[[int, int], None] | None:
    """Return a function that shows how many partition tables are done, or None without a terminal."""
    return partial(_show, doing) if sys.stderr.isatty() else None


def _show(doing: str, done: int, total: int) -> None:
    end = "\r" if done < total else "\n"
    print(f"{doing}: {done:,} of {total:,} partition tables", end=end, file=sys.stderr, flush=True)
