"""Commits of rows of a `__manifest`: differences of two snapshots, and a branch published on another.

An object counts as changed on one side if its `__manifest` row is not that at the fork; after a publication the two have
met again, and the next one begins there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.storage.branches import BranchRef
from lance_flight.catalog.storage.retries import COMMIT, retry
from lance_flight.errors import NotFound, SerializationFailure
from lance_flight.model.naming import BELOW_A_SPEC, SEPARATOR, TABLE
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.schema_changes import merge_problems, merged, widens
from lance_flight.model.spec import Expression, PartitionSpec


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


def commit_rows(
    manifest: Manifest,
    change: Callable[[Snapshot], Difference],
    operation: str,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Commit what `change` makes of the newest snapshot, and return the version in which it is visible.

    Without a difference nothing is committed.
    """
    mark = secrets.token_hex(16)

    def committed(_: int) -> int | None:
        snapshot = manifest.snapshot()
        difference = change(snapshot)
        if not difference.object_ids:
            return snapshot.version
        return manifest.make_visible(
            snapshot, difference.rows, operation, [mark], removed=difference.removed, properties=properties
        )

    return retry(COMMIT, manifest.store.parent.name, committed)


PUBLISHED = "lance_flight:published"

SameRows = Callable[[PartitionTable, PartitionTable], bool]
"""Function that tells whether two versions of a partition table have the same rows, be it in other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMerge:
    """A branch at its newest snapshot `tip` and the main one at `main`, with `base`, the snapshot at which they agreed last."""

    ref: BranchRef
    base: Snapshot
    main: Snapshot
    tip: Snapshot

    def merged_schema(self) -> NamespaceSchema:
        """Return the columns of both, or raise `SerializationFailure` for one that both have changed."""
        schemas = self.base.schema, self.main.schema, self.tip.schema
        self.refuse(merge_problems(*schemas))
        return merged(*schemas)

    def merged_specs(self, schema: NamespaceSchema) -> tuple[PartitionSpec, ...]:
        """Return the specs of both over the merged columns; `SerializationFailure` where both have new ones, or a type breaks one."""
        known = {spec.id for spec in self.base.specs}
        mine, theirs = ([spec for spec in side.specs if spec.id not in known] for side in (self.main, self.tip))
        if mine and theirs:
            new = " and ".join(", ".join(spec.to_text() for spec in specs) for specs in (theirs, mine))
            self.refuse([f"both have been given another partitioning: {new}"])
        self.refuse(_broken(self.main.specs, self.main.schema, schema))
        self.refuse(_broken(theirs, self.tip.schema, schema))
        followed = [
            *_following(self.main.specs, self.main.schema, schema),
            *_following(theirs, self.tip.schema, schema),
        ]
        return tuple(sorted(followed, key=lambda spec: spec.id))

    def difference(self, same_rows: SameRows) -> Difference:
        """Return what makes main equal to the branch in all rows that the branch has changed, each table at the branch's pin.

        `SerializationFailure` names a partition whose rows both have changed. Where the rows of a table are those at the fork
        on the branch and only its columns are others, main's table stays if that is another than at the fork.
        """
        changed = set(Difference.between(self.base, self.tip).object_ids)
        missing = Difference.between(self.main, self.tip).only(changed)
        contested = set(Difference.between(self.base, self.main).object_ids).intersection(missing.object_ids)
        tables = [self._tables_at(side, contested) for side in (self.base, self.main, self.tip)]

        def is_same(object_id: str, place: int) -> bool:
            old, new = tables[0].get(object_id), tables[place].get(object_id)
            return old is not None and new is not None and same_rows(old, new)

        left = {object_id for object_id in contested if is_same(object_id, 2)}
        both = sorted(object_id for object_id in contested - left if not is_same(object_id, 1))
        if both:
            table = next((name for name in both if name.endswith(SEPARATOR + TABLE)), both[0])
            self.refuse([f"{table!r} was changed on the main branch as well"])
        return missing.only(set(missing.object_ids) - left)

    def refuse(self, problems: Iterator[str] | Sequence[str]) -> None:
        """Raise `SerializationFailure` if there is a problem."""
        found = "; ".join(problems)
        if found:
            raise SerializationFailure(f"branch {self.ref.name!r} cannot be published: {found}")

    @staticmethod
    def _tables_at(side: Snapshot, object_ids: set[str]) -> dict[str, PartitionTable]:
        return side.tables_named(sorted(name for name in object_ids if name.endswith(SEPARATOR + TABLE)))


def met_at(main: Manifest, branch: Manifest, ref: BranchRef) -> Snapshot:
    """Return the snapshot at which a branch and the main one agreed last: its last publication, or the fork.

    Where the history of the publication has expired it is the fork, which never does: that refuses more, never less.
    """
    for _, said in main.properties(ref.forked_at):
        identifier, _, version = said.get(PUBLISHED, "").rpartition("@")
        if identifier == ref.identifier:
            with suppress(NotFound):
                return branch.snapshot(int(version))
    return main.snapshot(ref.forked_at)


def _broken(specs: Sequence[PartitionSpec], before: NamespaceSchema, after: NamespaceSchema) -> Iterator[str]:
    """Yield the partition fields by which equal values would lie apart once their columns have other types."""
    for spec in specs:
        for field in spec.fields:
            problems = list(field.problems_of_change(before, after))
            if isinstance(field.rule, Expression) and field.source_types(before) != field.source_types(after):
                problems.append("the other one has changed the columns of its expression")
            yield from (f"v{spec.id}, field {field.field_id!r}: {problem}" for problem in problems)


def _following(
    specs: Sequence[PartitionSpec], before: NamespaceSchema, after: NamespaceSchema
) -> Iterator[PartitionSpec]:
    for spec in specs:
        yield replace(spec, fields=tuple(field.following(before, after) for field in spec.fields))
