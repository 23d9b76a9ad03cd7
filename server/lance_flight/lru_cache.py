"""Least-recently-used cache, bounded in the number and the weight of its entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


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


class LruCache(Generic[K, V]):
    """Least-recently-used cache of at most `most` entries, which `weigh` at most `most_weight` together. Safe to share among threads.

    >>> cache = LruCache[str, int](2)
    >>> for number, name in enumerate("aba" "c"):
    ...     cache.put(name, number)
    >>> cache.get("a"), cache.get("b"), len(cache)
    (2, None, 2)
    """

    def __init__(self, most: int, *, most_weight: int = 0, weigh: Callable[[V], int] = _weightless) -> None:
        self._most, self._most_weight, self._weigh = most, most_weight, weigh
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as a use of it; None without one."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Store a value under a key, and evict entries until the bounds hold."""
        with self._lock:
            self._drop(key)
            self._entries[key] = value
            self._weight += self._weigh(value)
            while len(self._entries) > self._most or self._weight > self._most_weight:
                self._drop(next(iter(self._entries)))

    @property
    def weight(self) -> int:
        """Return the total weight of the entries."""
        return self._weight

    def discard(self, is_gone: Callable[[V], bool]) -> None:
        """Drop every entry whose value a predicate holds for."""
        with self._lock:
            for key in [key for key, value in self._entries.items() if is_gone(value)]:
                self._drop(key)

    def pop(self, key: K) -> V | None:
        """Remove a key and return its value; None without one."""
        with self._lock:
            return self._drop(key)

    def _drop(self, key: K) -> V | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)
        return value
