"""Reload files that an operator changes while the server runs."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from lance_flight.errors import InvalidInput

_T = TypeVar("_T")
_Signature = tuple[int, int, int, int]

_UNSETTLED = 2.0
"""Seconds after a change within which a further one may leave size and times of the file equal."""

_log = logging.getLogger(__name__)


class WatchedFile:
    """A file that is looked at for changes, by its size, times and inode. For one thread at a time."""

    def __init__(self, path: str, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._seen: _Signature | None = None

    def may_have_changed(self) -> bool:
        """Return whether the file is not certainly as it was at the last look, as at the first one, or while it is not there."""
        signature = _signature(self._path)
        if signature is not None and signature == self._seen:
            return False
        is_settled = signature is not None and signature[0] < (self._now() - _UNSETTLED) * 1e9
        self._seen = signature if is_settled else None
        return True


@dataclass(frozen=True, slots=True)
class FileState:
    """State of a watched file: whether its newest content is in force, and its expiry in seconds of Unix time (None: never)."""

    is_in_force: bool
    expires: float | None = None


states: dict[str, FileState] = {}
"""The files of this process that are read again while it serves, by what they are."""
_watched: WeakSet[Watched[Any]] = WeakSet()


def look() -> dict[str, FileState]:
    """Look at every watched file for a change, and return what is in force."""
    for file in list(_watched):
        _ = file.value
    return dict(states)


class Watched(Generic[_T]):
    """Parsed content of a file, parsed again whenever the file has changed. Safe to share among threads.

    A change that cannot be read is logged, and told by `states`; what the file said before stays in force: one wrong line locks nobody
    out. `on_read` is called with the content, or the error, each time after the file was parsed. The constructor raises `InvalidInput`
    for a file that cannot be read.
    """

    def __init__(
        self,
        path: str,
        parse: Callable[[str], _T],
        *,
        what: str,
        is_secret: bool = True,
        now: Callable[[], float] = time.time,
        on_read: Callable[[_T | InvalidInput], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._parse = parse
        self._what = what
        self._on_read = on_read
        self._lock = threading.Lock()
        self._file = WatchedFile(path, now=now)
        self._refused = ""
        first = self._read()
        if isinstance(first, InvalidInput):
            raise first
        self._value = first
        if is_secret:
            warn_if_open(path, what)
        _watched.add(self)

    @property
    def value(self) -> _T:
        """Return what the file says now, or said before a change that cannot be read."""
        with self._lock:
            if self._file.may_have_changed():
                current = self._read()
                if not isinstance(current, InvalidInput):
                    self._value, self._refused = current, ""
                elif str(current) != self._refused:
                    self._refused = str(current)
                    _log.error("%s; what it said before stays in force", current)
            return self._value

    def _read(self) -> _T | InvalidInput:
        parsed = self._parse_or_error()
        states[self._what] = FileState(is_in_force=not isinstance(parsed, InvalidInput))
        self._on_read(parsed)
        return parsed

    def _parse_or_error(self) -> _T | InvalidInput:
        try:
            return self._parse(Path(self._path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
            return InvalidInput(f"{self._what} {self._path!r} cannot be read: {why}")
        except InvalidInput as exc:
            return InvalidInput(f"{self._what} {self._path!r}: {exc}")


def warn_if_open(path: str, what: str) -> None:
    """Log a warning for a file with secrets that the group or other users of the system can read."""
    mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("%s %r can be read by others (mode %o); expected 600", what, path, mode)


def _signature(path: str) -> _Signature | None:
    try:
        state = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino, state.st_ctime_ns
