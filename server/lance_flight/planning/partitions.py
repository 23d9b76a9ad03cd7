"""The partition tables of one spec version as columns of codes, so that a rule looks at each distinct value once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.model.spec import PartitionField, PartitionSpec
from lance_flight.planning.domains import Mask, plain


@dataclass(frozen=True)
class Coded:
    """A partition column: its distinct values, none of them NULL, and for each row a code into them.

    The code of NULL is the number of values.
    """

    values: pa.Array
    codes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, column: pa.ChunkedArray | pa.Array) -> Coded:
        """Encode a column."""
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.concat_arrays(whole.chunks or [pa.nulls(0, whole.type)])
        encoded = plain(whole).dictionary_encode()
        values = encoded.dictionary
        codes = encoded.indices.fill_null(len(values)).to_numpy().astype(np.intp)
        return cls(values, codes)

    @property
    def null(self) -> int:
        """The code of NULL."""
        return len(self.values)

    def rows(self, accepted: Mask, *, null: bool) -> Mask:
        """The rows whose value is accepted, given a flag for each distinct value and one for NULL."""
        return np.append(accepted, np.bool_(null)).take(self.codes)

    def find(self, wanted: pa.Array) -> npt.NDArray[np.intp]:
        """The code of each wanted value (NULL included), −1 for those that no row has."""
        wanted = plain(wanted)
        # The column may have been widened since: a stored value fits the wider type, not always the reverse.
        stored = self.values.cast(wanted.type)
        present = np.flatnonzero(pc.is_in(stored, value_set=wanted.drop_null()).to_numpy(zero_copy_only=False))
        places = pc.index_in(wanted, value_set=stored.take(pa.array(present)))
        found = places.fill_null(-1).to_numpy()
        codes = np.where(found < 0, -1, np.append(present, -1)[found])
        return np.where(wanted.is_null().to_numpy(zero_copy_only=False), self.null, codes)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int32]:
        """Each row's value, for an integer column; some other number for NULL."""
        known = np.append(self.values.to_numpy(), 0).astype(np.int32)
        return known.take(self.codes)

    @cached_property
    def is_null(self) -> Mask:
        """Which rows are NULL."""
        return np.equal(self.codes, self.null)


@dataclass(frozen=True, kw_only=True, eq=False)
class SpecPartitions:
    """The partition tables of one spec version: one row of `values` each, one column for each partition field.

    A column is named `PartitionField.column` and is of exactly `result_type`; NULL means that the value is NULL.
    Derived arrays are kept: use one object for as long as the snapshot lives.
    """

    spec: PartitionSpec
    values: pa.Table | pa.RecordBatch

    def __len__(self) -> int:
        rows: int = self.values.num_rows
        return rows

    @cached_property
    def _coded(self) -> dict[str, Coded]:
        return {}

    def coded(self, field: PartitionField) -> Coded:
        """The column of a field."""
        if field.column not in self._coded:
            self._coded[field.column] = Coded.of(self.values[field.column])
        return self._coded[field.column]

    @cached_property
    def components(self) -> tuple[tuple[PartitionField, ...], ...]:
        """The fields grouped so that two fields share a source column only within a group."""
        groups: list[tuple[PartitionField, ...]] = []
        for field in self.spec.fields:
            sources = set(field.source_ids)
            linked = [group for group in groups if any(sources & set(other.source_ids) for other in group)]
            groups = [group for group in groups if group not in linked]
            groups.append((*(other for group in linked for other in group), field))
        return tuple(groups)
