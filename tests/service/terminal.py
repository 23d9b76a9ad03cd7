"""A terminal for a process: what is typed, and what it shows, read until an expected text comes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")
_PATIENCE = 60.0


@dataclass
class Terminal:
    """The keyboard and the screen of a process."""

    process: subprocess.Popen[bytes]
    _descriptor: int
    _text: str = field(default="", repr=False)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._descriptor, text.encode())

    def enter(self, line: str) -> None:
        """Type a line."""
        self.type(line + "\r")

    def read_until(self, expected: str) -> str:
        """Return what is shown up to an expected text, which is a regular expression, without colours and movements."""
        ends = time.monotonic() + _PATIENCE
        while (match := re.search(expected, self._text)) is None:
            if not select.select([self._descriptor], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise AssertionError(f"{expected!r} did not come; the terminal shows {self._text[-2000:]!r}")
            self._read()
        shown, self._text = self._text[: match.end()], self._text[match.end() :]
        return shown

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            data = b""
        if not data:
            raise AssertionError(f"the process ended; the terminal shows {self._text[-2000:]!r}")
        text = data.decode(errors="replace")
        if "\x1b[6n" in text:
            # The process asks where the cursor is.
            os.write(self._descriptor, b"\x1b[1;1R")
        self._text += _CONTROL.sub("", text)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.type("\x03")

    def end(self) -> int:
        """Wait for the process, and return its status."""
        ends = time.monotonic() + _PATIENCE
        while self.process.poll() is None and time.monotonic() < ends:
            if select.select([self._descriptor], [], [], 0.05)[0]:
                try:
                    os.read(self._descriptor, 65536)
                except OSError:
                    break
        return self.process.wait(timeout=10)


@contextmanager
def terminal(command: Sequence[str], environment: Mapping[str, str], place: Path) -> Iterator[Terminal]:
    """Run a command in a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 120, 0, 0))
    # The terminal is the session's own, whose Ctrl-C is a signal.
    own = ["setsid", "--ctty", *command]
    process = subprocess.Popen(own, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=place)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        os.close(ours)
