"""How far long work is, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial


def progress(doing: str) -> Callable[[int, int], None] | None:
    """Shows on a terminal how many of how many partition tables are done; None where nobody watches."""
    return partial(_show, doing) if sys.stderr.isatty() else None


def _show(doing: str, done: int, total: int) -> None:
    end = "\r" if done < total else "\n"
    print(f"{doing}: {done:,} of {total:,} partition tables", end=end, file=sys.stderr, flush=True)
