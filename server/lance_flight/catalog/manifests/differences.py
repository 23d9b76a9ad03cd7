"""Two snapshots of one namespace compared: which `__manifest` rows make the one out of the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.model.naming import BELOW_A_SPEC
from lance_flight.model.schema_changes import widens


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two snapshots: `rows` to insert, and the objects `removed`."""

    rows: pa.Table
    removed: tuple[str, ...]

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot) -> Difference:
        """Return the difference from `before` to `after`, in the columns of `before`, without rows of objects below no spec.

        Columns that have a wider type in `after` have it here, too.
        """
        columns = pa.schema([_wider(each, after.rows.schema) for each in before.rows.schema])
        old, new = (_conformed(_ours(found.rows), columns) for found in (before, after))
        place = pc.index_in(new["object_id"], value_set=old["object_id"])
        known = place.is_valid().to_numpy()
        differs = ~known
        differs[known] = _different(old.take(place.drop_null()), new.filter(pa.array(known)))
        gone = pc.invert(pc.is_in(old["object_id"], value_set=new["object_id"]))
        return cls(new.filter(pa.array(differs)), tuple(old["object_id"].filter(gone).to_pylist()))

    def only(self, object_ids: Collection[str]) -> Difference:
        """Return what there is to do to some objects."""
        mine = pc.is_in(self.rows["object_id"], value_set=pa.array(object_ids, pa.utf8()))
        return Difference(self.rows.filter(mine), tuple(name for name in self.removed if name in object_ids))

    @property
    def tables(self) -> list[str]:
        """The partition tables among the rows to insert."""
        found: list[str] = self.rows.filter(pc.equal(self.rows["object_type"], "table"))["object_id"].to_pylist()
        return found

    @property
    def object_ids(self) -> list[str]:
        """All objects that differ."""
        return [*self.rows["object_id"].to_pylist(), *self.removed]


def _ours(rows: pa.Table) -> pa.Table:
    """Return the rows below a spec: those of the specs themselves are never taken from one snapshot to another."""
    return rows.filter(pc.match_substring_regex(rows["object_id"], BELOW_A_SPEC)).combine_chunks()


def _wider(column: pa.Field, others: pa.Schema) -> pa.Field:
    """Return a column with the type that its namesake among others has, where that holds more values."""
    kind = others.field(column.name).type if column.name in others.names else column.type
    return column.with_type(kind) if widens(column.type, kind) else column


def _conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with other columns: NULL where they lack one."""
    names = rows.column_names
    columns = [rows[f.name].cast(f.type) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _different(left: pa.Table, right: pa.Table) -> np.ndarray:
    """Return where the rows of two tables differ in any column; NULL equals NULL."""
    differs = np.zeros(left.num_rows, bool)
    for a, b in zip(left.columns, right.columns, strict=True):
        if pa.types.is_nested(a.type):
            # Arrow compares none of these, and our own writes leave them NULL.
            differs |= np.array([x != y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)], bool)
        else:
            same = pc.or_(pc.fill_null(pc.equal(a, b), fill_value=False), pc.and_(a.is_null(), b.is_null()))
            differs |= ~same.to_numpy()
    return differs
