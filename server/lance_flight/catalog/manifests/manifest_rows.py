"""Rewriting of changed rows of `__manifest`: deleted where they were, and written to one new fragment (decision 14).

A snapshot knows the address of every row, so nothing has to be searched. Small fragments are folded into the new one
in the same commit, as in a log-structured merge: their number stays logarithmic, each row is written again a
logarithmic number of times, and no compaction runs beside the commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceDataset, LanceOperation

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.addresses import OFFSET_BITS, OFFSETS
from lance_flight.catalog.storage.whole_files import sealed_deletions

FREE_ROWS = 1 << 10
"""Written again in the time that one deletion file takes."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Changes of one commit to the table: `rows` for a new fragment, with the remaining rows of `folded` among them.

    `gone` marks the rows of the base that are replaced or removed; `kept` those that stay where they are.
    One that `is_retyped` gives columns other types, and folds all fragments.
    """

    rows: pa.Table
    folded: frozenset[int]
    gone: dict[int, np.ndarray]
    kept: np.ndarray
    is_retyped: bool = False

    @classmethod
    def of(cls, base: Snapshot, changed: pa.Table, removed: Sequence[str] = ()) -> Rewrite:
        """Return the rewrite that replaces the rows of `base` with the object ids of `changed`, and takes `removed` out."""
        if base.addresses is None:
            raise AssertionError("a snapshot that was never stored")
        ids = [*changed["object_id"].to_pylist(), *removed]
        replaced = pc.is_in(base.rows["object_id"], value_set=pa.array(ids, pa.utf8())).to_numpy()
        fragments = base.addresses >> OFFSET_BITS
        is_retyped = changed.schema.types != base.rows.schema.types
        if is_retyped or len(fragments) <= FREE_ROWS:
            kept = base.rows.filter(pa.array(~replaced)).cast(changed.schema)
            rows = pa.concat_tables([kept, changed]).combine_chunks()
            none = np.zeros(len(fragments), np.bool_)
            return cls(rows, frozenset(np.unique(fragments).tolist()), {}, none, is_retyped)
        folded = _folded(fragments[~replaced], changed.num_rows)
        in_folded = np.isin(fragments, list(folded))
        moved = base.rows.filter(pa.array(in_folded & ~replaced))
        deleted = replaced & ~in_folded
        gone = {
            int(number): base.addresses[deleted & (fragments == number)] & OFFSETS
            for number in np.unique(fragments[deleted])
        }
        # A fragment without any row left goes away with those that are folded.
        empty = {number for number in gone if not np.any((fragments == number) & ~replaced)}
        return cls(
            pa.concat_tables([moved, changed]).combine_chunks(),
            frozenset(folded | empty),
            {number: offsets for number, offsets in gone.items() if number not in empty},
            ~(replaced | in_folded),
        )

    def operation(self, dataset: LanceDataset, place: str, written: FragmentMetadata) -> LanceOperation.Update:
        """Return the operation that Lance commits to the table at a place, and write its deletion files."""
        left = [dataset.get_fragment(number).delete_rows(offsets.tolist()) for number, offsets in self.gone.items()]
        updated = sealed_deletions(place, left)
        return LanceOperation.Update(
            removed_fragment_ids=sorted(self.folded), updated_fragments=updated, new_fragments=[written]
        )

    def applied(self, base: Snapshot, committed: LanceDataset) -> Snapshot:
        """Return the snapshot after the commit, without reading anything."""
        if base.addresses is None:
            raise AssertionError("a snapshot that was never stored")
        newest = max(fragment.fragment_id for fragment in committed.get_fragments())
        rows, addresses = self.rows, (newest << OFFSET_BITS) + np.arange(self.rows.num_rows, dtype=np.uint64)
        if self.kept.any():
            rows = pa.concat_tables([base.rows.filter(pa.array(self.kept)), rows]).combine_chunks()
            addresses = np.concatenate([base.addresses[self.kept], addresses])
        return replace(
            base,
            version=int(committed.version),
            committed_at=committed.get_version()["timestamp"].astimezone(UTC),
            rows=rows,
            addresses=addresses,
        )


def _folded(fragments: np.ndarray, changed: int) -> set[int]:
    """Return the fragments to fold into the new one, smallest first.

    These are no larger than what is written anyway, or cheaper to write again than to delete from.
    """
    numbers, sizes = np.unique(fragments, return_counts=True)
    folded: set[int] = set()
    total = changed
    for place in np.argsort(sizes, kind="stable"):
        if sizes[place] > max(total, FREE_ROWS):
            break
        folded.add(int(numbers[place]))
        total += int(sizes[place])
    return folded
