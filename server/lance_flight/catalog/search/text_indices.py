"""The texts that an index of Lance's is about: how it cuts them into words, and how many of them have a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import lance
from lance import LanceDataset
from lance.query import MatchQuery

from lance_flight.catalog.search.text_queries import Cut, Word
from lance_flight.catalog.search.text_statistics import Counts, Statistics
from lance_flight.catalog.tables import index_coverage

_NO_CUTTING = frozenset({"lance_tokenizer", "with_position", "block_size", "document_granularity"})
"""Parameters of an index beside those of its tokenizer."""

_counts = Counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTexts:
    """The texts that an index is about, as Lance counts them: `documents`, rows that were deleted since among them.

    Of these it finds a part, `live`. `key` names them for good, where that is worth something.
    """

    dataset: LanceDataset
    column: str
    cut: Cut
    documents: float
    live: float
    key: tuple[str, ...] | None

    @classmethod
    def of(cls, dataset: LanceDataset, column: str, index: lance.IndexDescription, *, is_lasting: bool = True) -> Self:
        """Return the statistics of a column's index; not `is_lasting` if the counts need not be remembered."""
        segments = dataset.stats.index_stats(index.name)["segments"]
        documents = sum(segment["num_docs"] for segment in segments)
        covered = index_coverage.covered(index)
        here = [file for file in dataset.get_fragments() if file.fragment_id in covered]
        rows, stored = sum(file.count_rows() for file in here), sum(file.physical_rows for file in here)
        # How many rows removed files had is not known any more: as many as the other files, it is assumed.
        live = documents * rows * len(here) / (stored * len(covered)) if stored else 0.0
        options = {name: value for name, value in segments[0]["params"].items() if name not in _NO_CUTTING}
        return cls(
            dataset=dataset,
            column=column,
            cut=cutting(options),
            documents=documents,
            live=live,
            key=(dataset.uri, str(dataset.version), *(str(each.uuid) for each in index.segments))
            if is_lasting
            else None,
        )

    def statistics(self, words: Iterable[Word]) -> Statistics:
        """Return the statistics that Lance scores some words by, from its counts; deleted rows are taken to be like the rest."""
        share = self.documents / self.live if self.live else 1.0
        found = {str(word.token): min(share * self._frequency(word), self.documents) for word in words}
        return Statistics(documents=self.documents, frequencies=found)

    def _frequency(self, word: Word) -> int:
        if self.key is None:
            return self._count_word(word)
        return _counts.of((*self.key, self.column, word.text), lambda: self._count_word(word))

    def _count_word(self, word: Word) -> int:
        scanner = self.dataset.scanner(
            columns=[],
            with_row_id=True,
            full_text_query=MatchQuery(word.text, self.column),
            fast_search=True,
            disable_scoring_autoprojection=True,
        )
        return int(scanner.to_table().num_rows)


def cutting(options: Mapping[str, Any]) -> Cut:
    """Return how an index with some options cuts texts into tokens."""

    @lru_cache(64)
    def cut(text: str) -> tuple[str, ...]:
        return tuple(token.text for token in lance.tokenize(text, **options))

    return cut
