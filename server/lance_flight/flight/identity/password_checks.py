"""Rate limiting of password checks, so that wrong passwords cannot exhaust the machine."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lance_flight.errors import Unavailable
from lance_flight.flight.identity.passwords import StoredPassword
from lance_flight.lru_cache import LruCache
from lance_flight.shares import may_hold

MOST_WAITING = 16
MOST_REMEMBERED = 1024
_REST = 3.0
"""Pause after a wrong password, as a multiple of the time of its check: guesses get a quarter of one core at most."""


class PasswordChecks:
    """Checks one password at a time for all callers, with a short queue, of which guesses at one user leave places to others. Safe to share among threads.

    Results are cached, under a key of this process: clients that send a password with every call, right or wrong,
    have it checked once. Wrong ones displace no right ones.
    """

    def __init__(
        self,
        *,
        most_waiting: int = MOST_WAITING,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._key = secrets.token_bytes(32)
        self._pause = pause
        self._clock = clock
        self._most_waiting = most_waiting
        self._waiting: Counter[bytes] = Counter()
        self._changing = threading.Lock()
        self._checking = threading.Lock()
        self._known = LruCache[bytes, bool](MOST_REMEMBERED)

    def matches(self, stored: StoredPassword, password: str) -> bool:
        """Return whether a password is the stored one; raise `Unavailable` if too many checks are waiting."""
        mark = self._mark(stored, password)
        known = self._known.get(mark)
        if known is not None:
            return known
        with self._place(stored.salt), self._checking:
            return self._check(stored, password, mark)

    @contextmanager
    def _place(self, user: bytes) -> Iterator[None]:
        """Take a place in the queue, which counts for one user, for the block."""
        with self._changing:
            if not may_hold(self._waiting[user], self._most_waiting - self._waiting.total()):
                raise Unavailable("too many passwords are being checked; try again in a moment")
            self._waiting[user] += 1
        try:
            yield
        finally:
            with self._changing:
                self._waiting[user] -= 1
                self._waiting += Counter()  # drops what is 0

    def _check(self, stored: StoredPassword, password: str, mark: bytes) -> bool:
        known = self._known.get(mark)
        if known is not None:
            return known
        begun = self._clock()
        matches = stored.matches(password)
        self._known.put(mark, matches, owner="right" if matches else "wrong")
        if not matches:
            self._pause(_REST * (self._clock() - begun))
        return matches

    def _mark(self, stored: StoredPassword, password: str) -> bytes:
        said = stored.salt + stored.hash + password.encode()
        return hmac.digest(self._key, said, hashlib.sha256)
