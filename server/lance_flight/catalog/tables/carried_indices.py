"""The indices that tables bring along when they are read as one: each becomes segments of one index over all of them.

A segment names rows by their addresses, so that tables whose files have the same numbers cannot bring theirs both.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.dataset import IndexFile

from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import INDICES
from lance_flight.catalog.tables.index_coverage import segments

_OF_TEXTS = "Inverted"
_NO_OPTIONS = frozenset({"lance_tokenizer", "document_granularity"})
"""Details of a text index that are not options of its creation."""

Signature = tuple[tuple[int, ...], str, str | None]
"""Signature that indices of one name must share: columns, kind, and how they measure vectors or cut texts."""


@dataclass(frozen=True, slots=True)
class CarriedIndices:
    """The segments of one version of a table, and by the name of each index what it is."""

    segments: tuple[lance.Index, ...] = ()
    kinds: tuple[tuple[str, Signature], ...] = ()

    @classmethod
    def of(cls, dataset: LanceDataset, places: Mapping[int | None, Store]) -> CarriedIndices:
        """Return the indices of a table whose files lie at `places`, by the base paths that they name."""
        found = dataset.describe_indices()
        carried = [
            replace(
                segment,
                # A reader that does not know their sizes requests them in each search.
                files=[
                    IndexFile(file.path, file.size)
                    for file in places[segment.base_id].child(INDICES, segment.uuid).tree()
                ],
                index_details=_details(index),
            )
            for index in found
            for segment in segments(index)
        ]
        kinds = [(index.name, _signature(index)) for index in found]
        # Texts of a column are searched by one index, whatever others there are.
        kinds += [
            (f"{index.fields}", (tuple(index.fields), index.name, None)) for index in found if _is_of_texts(index)
        ]
        return cls(tuple(carried), tuple(kinds))

    def under_bases(self, numbers: Mapping[int | None, int], version: int) -> list[lance.Index]:
        """Return the same for a version of another dataset, under the base paths that take the place of theirs."""
        return [replace(each, base_id=numbers[each.base_id], dataset_version=version) for each in self.segments]


def _signature(index: lance.IndexDescription) -> Signature:
    told = str(sorted(index.details.items())) if _is_of_texts(index) else index.details.get("metric_type")
    return tuple(index.fields), index.index_type, told


def _is_of_texts(index: lance.IndexDescription) -> bool:
    return bool(index.index_type == _OF_TEXTS)


def _details(index: lance.IndexDescription) -> tuple[str, bytes]:
    """Return the type and details of an index for a manifest: Lance uses those of text indices, and reads files else."""
    if not _is_of_texts(index):
        return index.type_url, b""
    options = {name: value for name, value in index.details.items() if name not in _NO_OPTIONS and value is not None}
    return _text_details(json.dumps(options, sort_keys=True))


@lru_cache(64)
def _text_details(options: str) -> tuple[str, bytes]:
    """Return what Lance writes down of an index of texts with some options (as JSON): found out by making one."""
    empty = pa.table({"text": pa.array([""])})
    dataset = lance.write_dataset(empty, f"memory://{secrets.token_hex(8)}")
    dataset.create_scalar_index("text", "INVERTED", **json.loads(options))
    (made,) = dataset.read_transaction(dataset.version).operation.new_indices
    told: tuple[str, bytes] = made.index_details
    return told
