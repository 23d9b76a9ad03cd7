"""Word statistics for BM25: of the texts that it compares, of several tables together too.

A word that `frequency` of `documents` texts have is worth `ln(1 + (documents - frequency + ½) / (frequency + ½))` in Lance, times
what a text makes of it. So a table's scores become those of any other statistics by a factor for each word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from lance_flight.lru_cache import LruCache

KEPT_COUNTS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Number of texts, and of those with each token."""

    documents: float = 0
    frequencies: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Self]) -> Self:
        """Return the statistics of several sets of texts together.

        >>> Statistics.together([Statistics(documents=2, frequencies={"a": 1}), Statistics(documents=3)]).idf("a")
        1.3862943611198906
        """
        documents, frequencies = 0.0, dict[str, float]()
        for part in parts:
            documents += part.documents
            for token, count in part.frequencies.items():
                frequencies[token] = frequencies.get(token, 0) + count
        return cls(documents=documents, frequencies=frequencies)

    def idf(self, token: str) -> float:
        """Return what a token is worth: the less, the more texts have it."""
        frequency = self.frequencies.get(token, 0)
        return math.log1p((max(self.documents - frequency, 0) + 0.5) / (frequency + 0.5))


class Counts:
    """Cache of numbers that never change, the `KEPT_COUNTS` used last. Safe to share among threads."""

    def __init__(self) -> None:
        self._known = LruCache[tuple[str, ...], int](KEPT_COUNTS)

    def of(self, key: tuple[str, ...], count: Callable[[], int]) -> int:
        """Return the number of a key, counted if it is not known."""
        found = self._known.get(key)
        if found is None:
            found = count()
            self._known.put(key, found)
        return found
