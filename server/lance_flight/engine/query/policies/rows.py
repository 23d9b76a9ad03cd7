"""Row policies: which partition tables a principal may read, and which rows it may write.

A policy chooses whole partitions. Where a table holds partitions that the policy does not decide, nothing of it can be
read, rather than rows be filtered on one of the many ways to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.policies.conditions import Condition
from lance_flight.engine.query.tables import partitions_of
from lance_flight.errors import Refused
from lance_flight.model.json_documents import texts_of
from lance_flight.model.spec import PartitionSpec
from lance_flight.planning.arrow_expression import columns_of, row_filter
from lance_flight.planning.predicates import Predicate, all_of, any_of
from lance_flight.planning.pruning import prune


@dataclass(frozen=True, slots=True)
class RowPolicy:
    """Row policy of a table: allowed rows fulfil all `parts`, each by any of its conditions; all rows without parts."""

    table: str = ""
    user: str = ""
    parts: tuple[tuple[Condition, ...], ...] = ()

    def __str__(self) -> str:
        return " AND ".join(f"({' OR '.join(map(str, part))})" for part in self.parts)

    @property
    def is_everything(self) -> bool:
        """True if the policy allows all rows."""
        return not self.parts

    def predicate(self, columns: pa.Schema) -> Predicate:
        """Return the policy as a predicate on some columns; raise `Refused` if it cannot be expressed."""
        return all_of([any_of([each.bound(columns, self.user) for each in part]) for part in self.parts])

    def visible(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot restricted to the partition tables that are allowed.

        Raises `Refused` if a partition of any spec may hold allowed rows and others.
        """
        if self.is_everything:
            return snapshot
        known = _visible.setdefault(snapshot, {})
        if self not in known:
            known[self] = self._restrict(snapshot)
        return known[self]

    def checked(
        self, tables: Iterable[pa.Table], target: pa.Schema, defaults: Mapping[str, pa.Scalar] = rows.NO_DEFAULTS
    ) -> Iterator[pa.Table]:
        """Yield the same rows for a table with the columns of `target`; raise `Refused` at the first that is not allowed."""
        if self.is_everything:
            yield from tables
            return
        predicate = self.predicate(target)
        stored = pa.schema([target.field(name).with_nullable(nullable=True) for name in columns_of(predicate)])
        allowed = row_filter(predicate).rest
        for table in rows.in_parts(tables, target, defaults):
            if (
                allowed is not None
                and texts_of(rows.conform(table, stored, defaults)).filter(allowed).num_rows != table.num_rows
            ):
                raise Refused(f"a row for table {self.table!r} lies outside of what {self.user!r} may write: {self}")
            yield table

    def check_unpartitioned(self) -> None:
        """Raise `Refused` unless all rows are allowed: a table without partitions cannot be restricted."""
        if not self.is_everything:
            raise Refused(
                f"table {self.table!r} is not partitioned, and {self.user!r} may have some of its rows alone ({self})"
            )

    def check_whole_partitions(self, snapshot: Snapshot) -> None:
        """Raise `Refused` unless all rows in the partition of an allowed row are allowed, under each spec."""
        if self.is_everything:
            return
        named = {snapshot.schema.ids[name] for name in columns_of(self.predicate(snapshot.schema.plain))}
        if not named <= _identities(snapshot.current_spec):
            raise Refused(
                f"the partitions of table {self.table!r} hold rows of others beside those that {self.user!r} may write"
                f" ({self}); expected a partition field for each column of the row policy"
            )

    def _restrict(self, snapshot: Snapshot) -> Snapshot:
        pruning = prune(partitions_of(snapshot), snapshot.schema, self.predicate(snapshot.schema.plain), None)
        allowed: list[str] = []
        for tables, version in zip(snapshot.tables, pruning.versions, strict=True):
            if len(version.kept) and version.residual is not None:
                raise Refused(
                    f"partition spec v{tables.spec.id} of table {self.table!r} does not decide {version.residual}, which"
                    f" the row policy of {self.user!r} asks for; expected partition fields for its columns, in all specs"
                    " with rows (ALTER TABLE … REWRITE PARTITIONS)"
                )
            allowed += tables.rows["object_id"].take(pa.array(version.kept)).to_pylist()
        return snapshot.only(allowed)


EVERY_ROW = RowPolicy()

_visible: WeakKeyDictionary[Snapshot, dict[RowPolicy, Snapshot]] = WeakKeyDictionary()


def _identities(spec: PartitionSpec) -> set[int]:
    """Return the source columns of a spec's identity fields."""
    return {field.source_ids[0] for field in spec.fields if field.rule.keeps_value}
