"""How rare words are: what BM25 knows of the texts that it compares, of several tables together too.

A word that `frequency` of `documents` texts have is worth `ln(1 + (documents - frequency + ½) / (frequency + ½))` in Lance, times
what a text makes of it. So a table's scores become those of any other statistics by a factor for each word.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Self

KEPT_COUNTS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How many texts there are, and how many of them have each token."""

    documents: float = 0
    frequencies: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Self]) -> Self:
        """Those of several sets of texts.

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
        """What a token is worth: the less, the more texts have it."""
        frequency = self.frequencies.get(token, 0)
        return math.log1p((max(self.documents - frequency, 0) + 0.5) / (frequency + 0.5))


class Counts:
    """Numbers that never change, kept for those who ask again: the latest `KEPT_COUNTS`. Safe to share among threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._lock = Lock()

    def of(self, key: tuple[str, ...], count: Callable[[], int]) -> int:
        """The number of a key; counted if it is not known."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = count()
        with self._lock:
            self._known[key] = found
            if len(self._known) > KEPT_COUNTS:
                self._known.popitem(last=False)
        return found
