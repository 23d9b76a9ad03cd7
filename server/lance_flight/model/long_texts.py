"""Long texts are read one after another: a pass over one keeps Python's lock, and several at once would keep it from all others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_PATIENCE = 0.1
"""Seconds after which a reader that waits asks whether it is still to go on."""


def going_on() -> None:
    """Ask nothing."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns to read texts of at least `long` characters; a thread that has one may take it again."""

    long: int
    _one: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def turn(self, length: int, check: Callable[[], None] = going_on) -> Iterator[None]:
        """Let the block read a text of this length: a long one while no other is read; `check` ends the wait by an error."""
        if length < self.long:
            yield
            return
        while not self._one.acquire(timeout=_PATIENCE):
            check()
        try:
            check()
            yield
        finally:
            self._one.release()


STATEMENTS = Turns(256 << 10)
"""Those of the texts of statements."""
DOCUMENTS = Turns(64 << 10)
"""Those of documents: constant ones are read in other threads than the statement that has its turn."""
