"""The partition tables of all spec versions as columns of codes, so that a rule looks at each distinct value once.

Fields that several versions have are one column for all of them: a namespace that evolved is not pruned once for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.model.arrow_types import contiguous
from lance_flight.model.domains import Mask, plain
from lance_flight.model.spec import PartitionField, PartitionSpec

FEW_VALUES = 1_000
"""So many are looked up one by one, which takes less time than to call Arrow."""


@dataclass(frozen=True)
class DictionaryColumn:
    """A partition column: its distinct values, none of them NULL, and for each row a code into them.

    The code of NULL is the number of values.
    """

    values: pa.Array
    codes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, column: pa.ChunkedArray | pa.Array) -> DictionaryColumn:
        """Encode a column."""
        encoded = plain(contiguous(column)).dictionary_encode()
        values = encoded.dictionary
        codes = encoded.indices.fill_null(len(values)).to_numpy().astype(np.intp)
        return cls(values, codes)

    @property
    def null(self) -> int:
        """The code of NULL."""
        return len(self.values)

    def rows(self, accepted: Mask, *, null: bool) -> Mask:
        """Return the rows whose value is accepted, given a flag for each distinct value and one for NULL."""
        return self.among(np.flatnonzero(np.append(accepted, np.bool_(null))))

    def among(self, codes: npt.NDArray[np.intp]) -> Mask:
        """Return the rows with one of these codes; −1 is no row's."""
        if len(codes) == 1:
            same: Mask = np.equal(self.codes, codes[0])
            return same
        flags = np.zeros(self.null + 2, np.bool_)
        flags[codes] = True
        return flags.take(self.codes)

    def find(self, wanted: pa.Array) -> npt.NDArray[np.intp]:
        """Return the code of each wanted value (NULL included), −1 for those that no row has."""
        wanted = plain(wanted)
        if len(wanted) <= FEW_VALUES and self._by_value and wanted.type == self.values.type:
            return np.array([self._by_value.get(value, -1) for value in wanted.to_pylist()], np.intp)
        # The column may have been widened since: a stored value fits the wider type, not always the reverse.
        stored = self.values.cast(wanted.type)
        present = np.flatnonzero(pc.is_in(stored, value_set=wanted.drop_null()).to_numpy(zero_copy_only=False))
        places = pc.index_in(wanted, value_set=stored.take(pa.array(present)))
        places_of = places.fill_null(-1).to_numpy()
        codes = np.where(places_of < 0, -1, np.append(present, -1)[places_of])
        return np.where(wanted.is_null().to_numpy(zero_copy_only=False), self.null, codes)

    @cached_property
    def _by_value(self) -> Mapping[Any, int]:
        """The codes by value, NULL included, for few values of a type that Python compares as Arrow does; else none."""
        kind = self.values.type
        if len(self.values) > FEW_VALUES or not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
            return {}
        return {value: code for code, value in enumerate([*self.values.to_pylist(), None])}

    @cached_property
    def numbers(self) -> npt.NDArray[np.int32]:
        """Each row's value, for an integer column; some other number for NULL."""
        known = np.append(self.values.to_numpy(), 0).astype(np.int32)
        return known.take(self.codes)

    @cached_property
    def is_null(self) -> Mask:
        """A mask of the rows that are NULL."""
        return np.equal(self.codes, self.null)


@dataclass(frozen=True, kw_only=True, eq=False)
class SpecPartitions:
    """The partition tables of one spec version: one row of `values` each, one column for each partition field.

    A column is named `PartitionField.column` and is of exactly `result_type`; NULL means that the value is NULL. Fields that
    are `doubtful` are not in `spec`: rows may lie under other values than theirs.
    """

    spec: PartitionSpec
    values: pa.Table | pa.RecordBatch
    doubtful: tuple[PartitionField, ...] = ()

    def __len__(self) -> int:
        rows: int = self.values.num_rows
        return rows


@dataclass(frozen=True, eq=False)
class Component:
    """Fields that share source columns with one another and with no other field, in all `versions` that have just these.

    Its rows are those of the first version, then those of the next.
    """

    fields: tuple[PartitionField, ...]
    versions: Sequence[SpecPartitions]

    def __len__(self) -> int:
        return sum(map(len, self.versions))

    @cached_property
    def sources(self) -> frozenset[int]:
        """The source columns of the fields."""
        return frozenset(number for field in self.fields for number in field.source_ids)

    @cached_property
    def _coded(self) -> dict[str, DictionaryColumn]:
        return {}

    def column_of(self, field: PartitionField) -> DictionaryColumn:
        """Return the column of a field."""
        if field.column not in self._coded:
            columns = [version.values.column(field.column) for version in self.versions]
            self._coded[field.column] = DictionaryColumn.of(columns[0] if len(columns) == 1 else _join_chunks(columns))
        return self._coded[field.column]


class Part(NamedTuple):
    """Slice of the rows of a component that belong to a spec version."""

    component: Component
    rows: slice


@dataclass(frozen=True, eq=False)
class Partitions:
    """The partition tables of a namespace: its spec versions, and the parts that each has in their components.

    Derived arrays are kept: use one object for as long as the snapshot lives.
    """

    versions: tuple[SpecPartitions, ...]
    parts: tuple[tuple[Part, ...], ...]

    @classmethod
    def together(cls, versions: Sequence[SpecPartitions]) -> Partitions:
        """Return the partitions of one namespace, where the equal fields of several specs are one column."""
        having: dict[tuple[PartitionField, ...], list[SpecPartitions]] = defaultdict(list)
        starts: list[dict[tuple[PartitionField, ...], int]] = []
        for version in versions:
            starts.append({fields: sum(map(len, having[fields])) for fields in components(version.spec)})
            for fields in starts[-1]:
                having[fields].append(version)
        by_fields = {fields: Component(fields, tuple(some)) for fields, some in having.items()}
        return cls(
            tuple(versions),
            tuple(
                tuple(Part(by_fields[fields], slice(start, start + len(version))) for fields, start in mine.items())
                for version, mine in zip(versions, starts, strict=True)
            ),
        )

    @classmethod
    def apart(cls, versions: Sequence[SpecPartitions]) -> Partitions:
        """Return partitions whose versions are unrelated to one another."""
        return cls(tuple(versions), tuple(part for version in versions for part in cls.together([version]).parts))

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The components of all versions."""
        return tuple(dict.fromkeys(part.component for parts in self.parts for part in parts))


def components(spec: PartitionSpec) -> tuple[tuple[PartitionField, ...], ...]:
    """Return the fields grouped so that two fields share a source column only within a group."""
    groups: list[tuple[PartitionField, ...]] = []
    for field in spec.fields:
        sources = set(field.source_ids)
        linked = [group for group in groups if any(sources & set(other.source_ids) for other in group)]
        groups = [group for group in groups if group not in linked]
        groups.append((*(other for group in linked for other in group), field))
    return tuple(groups)


def _join_chunks(columns: Sequence[pa.ChunkedArray | pa.Array]) -> pa.ChunkedArray:
    chunks = [column.chunks if isinstance(column, pa.ChunkedArray) else [column] for column in columns]
    return pa.chunked_array([chunk for some in chunks for chunk in some], columns[0].type)
