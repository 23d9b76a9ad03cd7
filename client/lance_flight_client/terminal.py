"""Text on a terminal, which obeys the characters that it is sent: those of stored values and of errors are shown as a sign."""

from __future__ import annotations

import io
import re
import sys
from typing import TextIO

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that change the terminal, or the direction of its text; line feeds and tabs do not."""
_SIGN = "\ufffd"
ERASED = "\r\033[K"
"""What removes the line that the cursor is in."""


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
