"""The indices that tables bring along when they are read as one: each becomes segments of one index over all of them.

A segment names rows by their addresses, so that tables whose files have the same numbers cannot bring theirs both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import lance
from lance import LanceDataset
from lance.dataset import IndexFile

from lance_flight.catalog.store import Store

INDICES = "_indices"
_OF_TEXTS = "Inverted"
"""Scores count the words of one table: texts are searched table by table."""

Signature = tuple[tuple[int, ...], str, str | None]
"""What indices of one name must have in common: columns, kind, metric."""


@dataclass(frozen=True, slots=True)
class CarriedIndices:
    """The segments of one version of a table, and by the name of each index what it is."""

    segments: tuple[lance.Index, ...] = ()
    kinds: tuple[tuple[str, Signature], ...] = ()

    @classmethod
    def of(cls, dataset: LanceDataset, store: Store) -> CarriedIndices:
        """Those of a table that lies at `store`, but for indices of texts."""
        found = [index for index in dataset.describe_indices() if index.index_type != _OF_TEXTS]
        segments = [
            lance.Index(
                uuid=segment.uuid,
                name=index.name,
                fields=index.fields,
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=segment.fragment_ids,
                index_version=segment.index_version,
                # Whoever does not know their sizes asks for them in each search.
                files=[IndexFile(file.path, file.size) for file in store.child(INDICES, segment.uuid).tree()],
                index_details=(index.type_url, b""),
            )
            for index in found
            for segment in index.segments
        ]
        return cls(tuple(segments), tuple((index.name, _signature(index)) for index in found))

    def under_base(self, number: int, version: int) -> list[lance.Index]:
        """The same for a version of another dataset, of which this table is a numbered base path."""
        return [replace(segment, base_id=number, dataset_version=version) for segment in self.segments]


def _signature(index: lance.IndexDescription) -> Signature:
    return tuple(index.fields), index.index_type, index.details.get("metric_type")
