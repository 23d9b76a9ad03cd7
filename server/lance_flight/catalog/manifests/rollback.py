"""Rolling a namespace back: a new snapshot that equals an old one, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from lance_flight.catalog.manifests.differences import Difference
from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import Unsupported
from lance_flight.model.spec import PartitionField, PartitionSpec


def back_to(old: Snapshot) -> Callable[[Snapshot], Evolution | None]:
    """Return the change that makes the newest snapshot equal to `old` (`evolution.Change`).

    Partitions created since then go.

    Its columns come back with it, and the result types of partition fields over them. Specs are never taken back: those
    that are newer stay. What others commit at the same
    moment comes after it: appends go on top of the old pins.
    """

    def change(newest: Snapshot) -> Evolution | None:
        specs = _retyped(old, newest)
        _check_specs(old, specs)
        _check_values(old, newest)
        difference = Difference.between(newest, old)
        _refuse_floating(difference, old)
        is_same = newest.schema.is_described_as(old.schema)
        if is_same and not difference.object_ids:
            return None
        return Evolution(
            operation=f"rollback to {old.version}",
            specs=tuple(spec for spec, now in zip(specs, newest.specs, strict=True) if spec != now),
            schema=None if is_same else old.schema.after(newest.schema),
            rows=difference.rows,
            removed=difference.removed,
        )

    return change


def _retyped(old: Snapshot, newest: Snapshot) -> tuple[PartitionSpec, ...]:
    """Return the newest specs with the result types that their fields have over the old columns."""
    known = {each.field_id: each.result_type for spec in old.specs for each in spec.fields}

    def retyped(field: PartitionField) -> PartitionField:
        kind = known.get(field.field_id)
        return field.following(newest.schema, old.schema) if kind is None else replace(field, result_type=kind)

    return tuple(replace(spec, fields=tuple(map(retyped, spec.fields))) for spec in newest.specs)


def _check_specs(old: Snapshot, specs: Sequence[PartitionSpec]) -> None:
    """Refuse a snapshot under specs that are none of the newest ones: its rows may mean something else there."""
    if old.specs != specs[: len(old.specs)]:
        then, now = (", ".join(spec.to_text() for spec in found) for found in (old.specs, specs))
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
