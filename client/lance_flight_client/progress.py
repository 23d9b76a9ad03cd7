"""Progress of long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_flight_client.terminal import ERASED, draw, printable

_UNITS = ("kB", "MB", "GB", "TB")


def progress(doing: str) -> Callable[[int, int], None] | None:
    """Return a function that shows how many partition tables are done, or None without a terminal."""
    return partial(_show, doing) if sys.stderr.isatty() else None


def _show(doing: str, done: int, total: int) -> None:
    end = "\r" if done < total else "\n"
    draw(f"{printable(doing)}: {done:,} of {total:,} partition tables{end}", sys.stderr)


@dataclass(slots=True)
class TableMeter:
    """Shows how many partition tables are done, and how many rows they have, while standard error is a terminal."""

    doing: str
    rows: int = 0
    _is_shown: bool = False

    def __call__(self, done: int, total: int) -> None:
        """Show the number of tables that are done."""
        if sys.stderr.isatty():
            self._is_shown = True
            line = f"{printable(self.doing)}: {done:,} of {total:,} partition tables, {self.rows:,} rows"
            draw(ERASED + line, sys.stderr)

    def add_rows(self, rows: int) -> None:
        """Count rows of the tables that are done."""
        self.rows += rows

    def close(self) -> None:
        """End the line, which stays."""
        if self._is_shown:
            print(file=sys.stderr, flush=True)


def readable(size: int) -> str:
    """Format a number of bytes with a decimal unit.

    >>> readable(999), readable(112_456), readable(5_000_000_000)
    ('999 bytes', '112.5 kB', '5.0 GB')
    """
    thousands = min((len(str(size)) - 1) // 3, len(_UNITS))
    return f"{size / 1000**thousands:.1f} {_UNITS[thousands - 1]}" if thousands else f"{size} bytes"


@dataclass(slots=True)
class Meter:
    """Shows how much of some files is done, while standard error is a terminal: bytes, and rows or another `unit`."""

    doing: str
    size: int | None
    unit: str = "rows"
    rows: int = 0
    _is_shown: bool = False

    def expect(self, size: int, _: int) -> None:
        """Set the bytes of the whole, once they are known."""
        self.size = size

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, and show how many rows and bytes have passed."""
        size = 0
        for batch in batches:
            self.rows, size = self.rows + batch.num_rows, size + batch.nbytes
            self(size, self.rows)
            yield batch

    def __call__(self, read: int, rows: int) -> None:
        """Show the bytes and the rows, or other units, that are done."""
        if sys.stderr.isatty():
            self._is_shown = True
            of = "" if self.size is None else f" of {readable(self.size)}"
            line = f"{printable(self.doing)}: {readable(read)}{of}, {rows:,} {self.unit}"
            draw(ERASED + line, sys.stderr)

    def close(self) -> None:
        """Remove what is shown."""
        if self._is_shown:
            draw(ERASED, sys.stderr)
