"""Indices that may hold old values of rows, which nothing may be looked up in: of tables with stable row ids.

A row that is changed keeps its id, and an index that has the id with the old value keeps that as well. Lance skips such an entry while no
segment covers the file with the new value. Where one does, a bitmap, a list of labels or an index of texts finds the row by both values, and
not where one of them is NULL (https://github.com/lance-format/lance/issues/7795, seen with 14.0.2, which is right about B-trees, n-grams and
vectors). Older releases merged segments of all kinds like this (https://github.com/lance-format/lance/pull/7359). A segment, a merged one as
well, names the oldest version of the table that it was made of. Unnecessary with a release that skips old entries in every kind of index.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from weakref import WeakKeyDictionary

import lance
from lance import LanceDataset

from lance_flight.catalog.tables.index_coverage import is_of_vectors, segments
from lance_flight.catalog.tables.lineage import LINEAGE_FIELDS

_, _CREATED, _UPDATED = (field.name for field in LINEAGE_FIELDS)


def holds_old_values(dataset: LanceDataset, index: Sequence[lance.Index], fragments: Collection[int]) -> bool:
    """Return whether the segments of an index may hold old values of rows in some fragments that they cover, or would cover."""
    if not (dataset.has_stable_row_ids and index and fragments):
        return False
    made = min(segment.dataset_version for segment in index)
    found = dataset.scanner(
        columns=[_UPDATED],
        filter=f"{_UPDATED} > {made} AND {_UPDATED} > {_CREATED}",
        fragments=[file for file in dataset.get_fragments() if file.fragment_id in fragments],
        limit=1,
    )
    return bool(found.to_table().num_rows)


def is_outdated(dataset: LanceDataset, index: lance.IndexDescription) -> bool:
    """Return whether an index may hold old values of rows that it covers."""
    mine = list(segments(index))
    covered = frozenset[int]().union(*(segment.fragment_ids for segment in mine))
    return holds_old_values(dataset, mine, covered)


def has_outdated_index(dataset: LanceDataset) -> bool:
    """Return whether conditions must not be looked up in the indices of a version."""
    if not (dataset.has_stable_row_ids and dataset.has_index):
        return False
    known = _known.get(dataset)
    if known is None:
        indices = [index for index in dataset.describe_indices() if not is_of_vectors(index)]
        known = _known[dataset] = any(is_outdated(dataset, index) for index in indices)
    return known


_known: WeakKeyDictionary[LanceDataset, bool] = WeakKeyDictionary()
"""Answers for the versions that are open, which never change."""
