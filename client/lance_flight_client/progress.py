"""Progress of long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial


def progress(doing: str) -> Callable[[int, int], None] | None:
    """Return a function that shows how many partition tables are done, or None without a terminal."""
    return partial(_show, doing) if sys.stderr.isatty() else None


def _show(doing: str, done: int, total: int) -> None:
    end = "\r" if done < total else "\n"
    print(f"{doing}: {done:,} of {total:,} partition tables", end=end, file=sys.stderr, flush=True)


@dataclass(slots=True)
class Meter:
    """Shows how much of some files is read, while standard error is a terminal."""

    doing: str
    size: int | None
    readable: Callable[[int], str]
    _is_shown: bool = False

    def __call__(self, read: int, rows: int) -> None:
        """Show the bytes and the rows that are read."""
        if sys.stderr.isatty():
            self._is_shown = True
            of = "" if self.size is None else f" of {self.readable(self.size)}"
            print(
                f"\r\033[K{self.doing}: {self.readable(read)}{of}, {rows:,} rows", end="", file=sys.stderr, flush=True
            )

    def close(self) -> None:
        """Remove what is shown."""
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
