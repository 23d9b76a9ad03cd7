"""Word statistics for BM25: of the texts that it compares, of several tables together too.

A word that `frequency` of `documents` texts have is worth `ln(1 + (documents - frequency + ½) / (frequency + ½))` in Lance, times
what a text makes of it. So a table's scores become those of any other statistics by a factor for each word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from lance_flight.lru_cache import LruCache

KEPT_COUNTS = 65_536
_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Number of texts, and of those with each token."""

    documents: float = 0
    frequencies: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Self]) -> Self:
        """Return the statistics of several sets of texts together.

        >>> round(Statistics.together([Statistics(documents=2, frequencies={"a": 1}), Statistics(documents=3)]).idf("a"), 6)
        1.386294
        """
        documents, frequencies = 0.0, dict[str, float]()
        for part in parts:
            documents += part.documents
            for token, count in part.frequencies.items():
                frequencies[token] = frequencies.get(token, 0) + count
        return cls(documents=documents, frequencies=frequencies)

    def idf(self, token: str) -> float:
        """Return what a token is worth: the less, the more texts have it; in float32, as Lance does, which costs a common one some digits."""
        documents, frequency = np.float32(self.documents), np.float32(self.frequencies.get(token, 0))
        others = np.maximum(documents - frequency, np.float32(0)) + _HALF
        return float(np.log(others / (frequency + _HALF) + np.float32(1)))


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
