"""Differences of two snapshots, and a namespace rolled back by one.

An object counts as changed on one side if its `__manifest` row is not that at the other.

Spec: Partition Evolution, Schema; decision 19a.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import Change, Revision
from lance_flight.errors import Unsupported
from lance_flight.model.naming import BELOW_A_SPEC
from lance_flight.model.schema_changes import widens
from lance_flight.model.spec import PartitionField, PartitionSpec


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
        columns = pa.schema([_wider(field, after.rows.schema) for field in before.rows.schema])
        old, new = (conform_rows(_ours(snapshot.rows), columns) for snapshot in (before, after))
        place = pc.index_in(new["object_id"], value_set=old["object_id"])
        known = place.is_valid().to_numpy()
        differs = ~known
        differs[known] = _differing_rows(old.take(place.drop_null()), new.filter(pa.array(known)))
        gone = pc.invert(pc.is_in(old["object_id"], value_set=new["object_id"]))
        return cls(new.filter(pa.array(differs)), tuple(old["object_id"].filter(gone).to_pylist()))

    def only(self, object_ids: Collection[str]) -> Difference:
        """Return what there is to do to some objects."""
        mine = pc.is_in(self.rows["object_id"], value_set=pa.array(object_ids, pa.utf8()))
        return Difference(self.rows.filter(mine), tuple(name for name in self.removed if name in object_ids))

    @property
    def tables(self) -> list[str]:
        """The partition tables among the rows to insert."""
        ids: list[str] = self.rows.filter(pc.equal(self.rows["object_type"], "table"))["object_id"].to_pylist()
        return ids

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


def conform_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with other columns: NULL where they lack one."""
    names = rows.column_names
    columns = [rows[f.name].cast(f.type) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _differing_rows(left: pa.Table, right: pa.Table) -> np.ndarray:
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


def back_to(old: Snapshot) -> Change:
    """Return the change that makes the newest snapshot equal to `old`.

    Partitions created since then go.

    Its columns come back with it, and the result types of partition fields over them. Specs are never taken back: those
    that are newer stay. What others commit at the same
    moment comes after it: appends go on top of the old pins.
    """

    def change(newest: Snapshot) -> Revision | None:
        specs = _retype_specs(old, newest)
        _check_specs(old, specs)
        _check_values(old, newest)
        difference = Difference.between(newest, old)
        _refuse_floating(difference, old)
        is_same = newest.schema.is_described_as(old.schema)
        if is_same and not difference.object_ids:
            return None
        return Revision(
            operation=f"rollback to {old.version}",
            specs=tuple(spec for spec, now in zip(specs, newest.specs, strict=True) if spec != now),
            schema=None if is_same else old.schema.after(newest.schema),
            rows=difference.rows,
            removed=difference.removed,
        )

    return change


def _retype_specs(old: Snapshot, newest: Snapshot) -> tuple[PartitionSpec, ...]:
    """Return the newest specs with the result types that their fields have over the old columns."""
    known = {field.field_id: field.result_type for spec in old.specs for field in spec.fields}

    def retyped(field: PartitionField) -> PartitionField:
        kind = known.get(field.field_id)
        return field.following(newest.schema, old.schema) if kind is None else replace(field, result_type=kind)

    return tuple(replace(spec, fields=tuple(map(retyped, spec.fields))) for spec in newest.specs)


def _check_specs(old: Snapshot, specs: Sequence[PartitionSpec]) -> None:
    """Refuse a snapshot under specs that are none of the newest ones: its rows may mean something else there."""
    if old.specs != specs[: len(old.specs)]:
        then, now = (", ".join(spec.to_text() for spec in partition_specs) for partition_specs in (old.specs, specs))
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: its partition specs were {then}; the newest are {now}"
        )


def _check_values(old: Snapshot, newest: Snapshot) -> None:
    """Refuse a snapshot whose rows may lie under other values than theirs, where the newest one promises that none does."""
    if old.doubtful_fields and not newest.doubtful_fields:
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: rows of it may be in partitions of other values"
            f" ({', '.join(sorted(old.doubtful_fields))}), which the table has been migrated away from; expected its rows to be read from it and"
            " written anew"
        )


def _refuse_floating(difference: Difference, old: Snapshot) -> None:
    """Refuse tables without a pin: they are read at the newest version, which may differ from that of the time."""
    rows = difference.rows
    floats = pc.and_(
        pc.equal(rows["object_type"], "table"), pc.and_(rows["read_version"].is_null(), rows["read_tag"].is_null())
    )
    floating = rows["object_id"].filter(floats)
    if len(floating):
        raise Unsupported(
            f"snapshot {old.version} cannot be brought back: partition table {floating[0].as_py()!r} had no fixed version in it"
        )
