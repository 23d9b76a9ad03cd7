"""Translation of Lance's errors for a concurrent writer that was first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lance.commit import CommitConflictError

from lance_flight.errors import Conflict

_WORDS = ("conflict", "concurrent")


@contextmanager
def conflicts(message: str) -> Iterator[None]:
    """Turn a commit that Lance refused because another one came first into `Conflict`; other errors pass."""
    try:
        yield
    except CommitConflictError as exc:
        raise Conflict(message) from exc
    except OSError as exc:
        # Some conflicts come as plain I/O errors, which only their text tells from a full disk.
        if not any(word in str(exc).lower() for word in _WORDS):
            raise
        raise Conflict(message) from exc
