"""Columns that the files of a partition table lack, filled with its partition values.

Some writers leave the columns of identity fields out of their tables, since the manifest says what all rows have there.
Files may also lack a column that their table has, as Lance lets an append leave out columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.manifests.partition_context import PartitionContext
from lance_flight.catalog.storage.addresses import OFFSET_BITS, ROW_ADDRESS
from lance_flight.catalog.storage.lance_fields import field_id, leaves, numbers, walk
from lance_flight.errors import DataError
from lance_flight.lru_cache import VersionCache

KEPT_TABLES = 65_536


@dataclass(frozen=True, slots=True)
class Fill:
    """The values of a column for the rows of a batch; `rows` are those whose files lack it (None: all)."""

    values: pa.Array
    rows: pa.Array | None = None


Fills = Mapping[int, Fill]
"""By the ids of the columns."""
NO_FILLS: Fills = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Filling:
    """Filling of the columns that the files of a dataset lack, by their ids.

    `values` has one value for each table that the dataset is made of, `fragments` and `tables` say which fragment is of which
    (none where there is one table). `partly` names the fragments without a column that others have.
    """

    values: Mapping[int, pa.Array] = field(default_factory=dict)
    fragments: np.ndarray | None = None
    tables: np.ndarray | None = None
    partly: Mapping[int, np.ndarray] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def absent(self) -> set[int]:
        """The columns that no file has."""
        return set(self.values) - set(self.partly)

    @property
    def is_by_address(self) -> bool:
        """True if the address of a row decides its value."""
        return bool(self.values) and (self.tables is not None or bool(self.partly))

    def of(self, batch: pa.RecordBatch) -> dict[int, Fill]:
        """Return the values for the rows of a batch, which has their addresses where these decide."""
        fragments = batch[ROW_ADDRESS].to_numpy() >> OFFSET_BITS if self.is_by_address else None
        return {number: self._fill(number, fragments, batch.num_rows) for number in self.values}

    def _fill(self, number: int, fragments: np.ndarray | None, rows: int) -> Fill:
        values = self.values[number]
        if fragments is None:
            return Fill(pa.repeat(values[0], rows))
        if self.tables is not None and self.fragments is not None:
            return Fill(values.take(pa.array(self.tables[np.searchsorted(self.fragments, fragments)])))
        lacking = self.partly.get(number)
        rows_lacking = None if lacking is None else pa.array(np.isin(fragments, lacking))
        return Fill(pa.repeat(values[0], rows), rows_lacking)


NOTHING = Filling()


def filling(
    dataset: LanceDataset,
    columns: Iterable[pa.Field],
    contexts: tuple[PartitionContext, ...],
    tables: Callable[[], Mapping[int, int]] | None,
    wanted: Collection[int],
) -> Filling:
    """Return what is to be filled of the `wanted` columns; `columns` are those of the dataset with the ids that they hold.

    The dataset is one table, or made of one for each context: `tables` says then by fragment which.
    """
    identity = {number for context in contexts for number in context.identity.by_source}.intersection(wanted)
    if not identity:
        return NOTHING
    stored = {number for _, each in walk(list(columns)) if (number := field_id(each)) is not None}
    partly = {} if tables is not None else partly_stored(dataset, columns, identity)
    lacking = [number for number in identity if number not in stored or number in partly]
    values = {number: _values(contexts, number) for number in lacking}
    if tables is None or not values:
        return Filling(values, partly=partly)
    bases = tables()
    order = sorted(bases)
    return Filling(values, np.array(order, np.uint64), np.array([bases[number] for number in order]), partly)


def partly_stored(dataset: LanceDataset, columns: Iterable[pa.Field], wanted: Iterable[int]) -> dict[int, np.ndarray]:
    """Return the fragments whose files lack a column that the table has, by the ids of those of the `wanted` columns.

    What Lance writes anew of them by itself has NULL there.
    """
    unstored = _unstored(dataset)
    if not unstored:
        return {}
    keys = [key for key, _ in walk(list(columns))]
    by_key = dict(zip(keys, numbers(dataset.lance_schema), strict=True))
    found = {number: unstored.get(by_key.get(number, -1), ()) for number in wanted}
    return {number: np.array(sorted(lacking), np.uint64) for number, lacking in found.items() if lacking}


def _values(contexts: tuple[PartitionContext, ...], number: int) -> pa.Array:
    """Return the value of a column in each table, in the type that the namespace has."""
    path, column = contexts[0].schema.paths[number]
    found = [context.identity.by_source.get(number) for context in contexts]
    try:
        return pa.concat_arrays([_cast(value, column.type) for value in found])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise DataError(
            f"a partition value of column {path!r}, which the files lack, is no {column.type}: {exc}"
        ) from exc


def _cast(value: pa.Scalar | None, kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind) if value is None else pa.array([value], value.type).cast(kind)


def _unstored(dataset: LanceDataset) -> Mapping[int, frozenset[int]]:
    """Return the fields of a table, by Lance's numbers, that the files of some fragments lack, and those fragments."""
    version = int(dataset.version), dataset.get_version()["timestamp"]
    return _known.find(str(dataset.uri), version, partial(_read_unstored, dataset))


def _read_unstored(dataset: LanceDataset) -> Mapping[int, frozenset[int]]:
    expected = set(leaves(dataset.lance_schema))
    lacking: dict[int, set[int]] = {}
    for fragment in dataset.get_fragments():
        held = {number for file in fragment.metadata.files for number in file.fields}
        for number in expected - held:
            lacking.setdefault(number, set()).add(fragment.fragment_id)
    return {number: frozenset(fragments) for number, fragments in lacking.items()}


_known = VersionCache[str, tuple[int, datetime], Mapping[int, frozenset[int]]](KEPT_TABLES)
