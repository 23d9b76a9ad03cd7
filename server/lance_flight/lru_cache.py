"""Least-recently-used caches, bounded in the number, the weight and the age of their entries."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
N = TypeVar("N")
V = TypeVar("V")

IDLE_SECONDS = 900.0
"""Seconds without a use after which what is known of a table is forgotten: most tables of a server that writes are gone by then."""
MOST_VERSIONS = 4
"""Versions of a table of which something is known: those that were read last."""


def for_short_texts(most: int, longest: int) -> Callable[[Callable[[str], V]], Callable[[str], V]]:
    """Cache what a function makes of its last `most` texts, of those with at most `longest` characters.

    >>> listed = for_short_texts(2, 3)(lambda text: [text])
    >>> listed("abc") is listed("abc"), listed("abcd") is listed("abcd")
    (True, False)
    """

    def decorate(function: Callable[[str], V]) -> Callable[[str], V]:
        known = lru_cache(most)(function)

        @wraps(function)
        def find(text: str) -> V:
            return known(text) if len(text) <= longest else function(text)

        return find

    return decorate


def _weightless(_: object) -> int:
    return 0


@dataclass(slots=True)
class _Owned(Generic[K]):
    """Keys of one owner, those first that were not used for longest, and what their entries weigh."""

    keys: OrderedDict[K, None] = field(default_factory=OrderedDict)
    weight: int = 0


class LruCache(Generic[K, V]):
    """Least-recently-used cache of at most `most` entries, which `weigh` at most `most_weight` together. Safe to share among threads.

    Entries that were not used for `idle_seconds` make room for the next one. Where entries have owners, room is made by the owner that
    has most: one of many users cannot displace what others have.

    >>> cache = LruCache[str, int](2)
    >>> for number, name in enumerate("aba" "c"):
    ...     cache.put(name, number)
    >>> cache.get("a"), cache.get("b"), len(cache)
    (2, None, 2)
    """

    def __init__(
        self,
        most: int,
        *,
        most_weight: int = 0,
        weigh: Callable[[V], int] = _weightless,
        idle_seconds: float = math.inf,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_weight, self._weigh = most, most_weight, weigh
        self._idle_seconds, self._now = idle_seconds, now
        self._entries: OrderedDict[K, tuple[V, float, str]] = OrderedDict()
        self._owned: dict[str, _Owned[K]] = {}
        self._weight = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as a use of it; None without one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, _, owner = entry
            self._entries[key] = value, self._now(), owner
            self._entries.move_to_end(key)
            self._owned[owner].keys.move_to_end(key)
            return value

    def put(self, key: K, value: V, *, owner: str = "") -> None:
        """Store a value of an owner under a key, and evict entries until the bounds hold."""
        with self._lock:
            self._drop(key)
            self._entries[key] = value, self._now(), owner
            owned, weight = self._owned.setdefault(owner, _Owned()), self._weigh(value)
            owned.keys[key] = None
            owned.weight += weight
            self._weight += weight
            while self._entries and (dropped := self._next_dropped()) is not None:
                self._drop(dropped)

    def find(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made where it is not known."""
        known = self.get(key)
        if known is None:
            known = make()
            self.put(key, known)
        return known

    def _next_dropped(self) -> K | None:
        """Return the key that makes room for others; None if there is room."""
        if len(self._entries) > self._most:
            return self._oldest_of_largest(lambda owned: len(owned.keys))
        if self._weight > self._most_weight:
            return self._oldest_of_largest(lambda owned: owned.weight)
        oldest, (_, used, _) = next(iter(self._entries.items()))
        return oldest if self._now() - used > self._idle_seconds else None

    def _oldest_of_largest(self, size: Callable[[_Owned[K]], int]) -> K:
        return next(iter(max(self._owned.values(), key=size).keys))

    @property
    def weight(self) -> int:
        """Return the total weight of the entries."""
        return self._weight

    def values(self) -> list[V]:
        """Return the values, the most recently used one last; that is no use of them."""
        with self._lock:
            return [value for value, _, _ in self._entries.values()]

    def discard(self, is_gone: Callable[[V], bool]) -> None:
        """Drop every entry whose value a predicate holds for."""
        with self._lock:
            for key in [key for key, (value, _, _) in self._entries.items() if is_gone(value)]:
                self._drop(key)

    def pop(self, key: K) -> V | None:
        """Remove a key and return its value; None without one."""
        with self._lock:
            return self._drop(key)

    def _drop(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        value, _, owner = entry
        owned, weight = self._owned[owner], self._weigh(value)
        del owned.keys[key]
        owned.weight -= weight
        self._weight -= weight
        if not owned.keys:
            del self._owned[owner]
        return value


class VersionCache(Generic[K, N, V]):
    """Cache of a fact about versions of tables, which never change: of each table those of the few versions that were read last.

    Versions follow one another as a table is written to, and a table that is dropped is never asked for again: what is known of those
    goes, so that the memory of a server does not grow with what was written. Safe to share among threads.

    >>> facts = VersionCache[str, int, str](100)
    >>> for version in range(9):
    ...     facts.put("t", version, f"version {version}")
    >>> facts.get("t", 8), facts.get("t", 5), facts.get("t", 4)
    (('version 8',), ('version 5',), None)
    """

    def __init__(
        self, most_tables: int, *, most_versions: int = MOST_VERSIONS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most_versions = most_versions
        self._tables = LruCache[K, tuple[tuple[N, V], ...]](most_tables, idle_seconds=IDLE_SECONDS, now=now)

    def __len__(self) -> int:
        return len(self._tables)

    def get(self, table: K, version: N) -> tuple[V] | None:
        """Return what is known of a version, alone in a tuple; None if nothing is."""
        return next(((fact,) for known, fact in self._tables.get(table) or () if known == version), None)

    def put(self, table: K, version: N, fact: V) -> None:
        """Remember a fact about a version."""
        others = tuple(entry for entry in self._tables.get(table) or () if entry[0] != version)
        self._tables.put(table, (*others, (version, fact))[-self._most_versions :])

    def forget(self, table: K) -> None:
        """Forget what is known of all versions of a table."""
        self._tables.pop(table)

    def find(self, table: K, version: N, read: Callable[[], V]) -> V:
        """Return a fact about a version, read if it is not known."""
        known = self.get(table, version)
        if known is not None:
            return known[0]
        fact = read()
        self.put(table, version, fact)
        return fact
