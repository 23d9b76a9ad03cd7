"""Text on a terminal: progress of long work, and stored values without control characters."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import pyarrow as pa  # a server bounds its memory before it imports it

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that change the terminal, or the direction of its text; line feeds and tabs do not."""
_SIGN = "\ufffd"
ERASED = "\r\033[K"
"""What removes the line that the cursor is in."""


def counted(number: int, noun: str = "row") -> str:
    """Return a number with its noun.

    >>> counted(1), counted(2_000, "partition")
    ('1 row', '2,000 partitions')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class TerminalText(io.TextIOWrapper):
    """Text layer of a terminal that passes no control on; `draw` writes those of our own."""

    def write(self, text: str) -> int:
        """Write a text as `printable` has it."""
        return super().write(printable(text))


def printable(text: str) -> str:
    r"""Return a text with a sign in the place of each character that would change the terminal.

    >>> printable("a\x1b[2Jb\tc\n") == "a\ufffd[2Jb\tc\n"
    True
    """
    return _CONTROLS.sub(_SIGN, text)


def guard_terminals() -> None:
    """Let nothing that this process prints change a terminal; what goes to files and pipes stays as it is."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            setattr(sys, name, TerminalText(stream.buffer, stream.encoding, stream.errors, line_buffering=True))


def draw(text: str, stream: TextIO) -> None:
    """Write a text with controls, all of which are our own."""
    stream.flush()
    stream.buffer.write(text.encode())
    stream.buffer.flush()


_UNITS = ("kB", "MB", "GB", "TB")


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
            rows = f", {self.rows:,} rows" if self.rows else ""
            line = f"{printable(self.doing)}: {done:,} of {total:,} partition tables{rows}"
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
