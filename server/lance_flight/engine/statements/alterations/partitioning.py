"""ALTER TABLE … SET PARTITIONED BY."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration
from lance_flight.engine.writes import partition_fields
from lance_flight.engine.writes.definitions import partition_spec
from lance_flight.engine.writes.partition_fields import PartitionDef


@dataclass(frozen=True, slots=True)
class SetPartitionedBy(HistoryAlteration):
    """ALTER TABLE t SET PARTITIONED BY (fields): a new spec version for what is written from now on.

    Without fields it is written to one partition.
    """

    forms = ("ALTER TABLE t SET PARTITIONED BY",)

    table: TableRef
    fields: tuple[PartitionDef, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> SetPartitionedBy:
        return cls(table, partition_fields.any_in_brackets(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        partitioned(table, "cannot become so").evolve(self._evolution)

    def _evolution(self, snapshot: Snapshot) -> Evolution | None:
        """Return the next spec version; None if its fields equal those of the current one."""
        number = snapshot.current_spec.id + 1
        spec = partition_spec(snapshot.schema, self.fields, number=number, earlier=snapshot.specs)
        if spec.fields == snapshot.current_spec.fields:
            return None
        spec.check(snapshot.schema, snapshot.specs)
        return Evolution(operation=f"partition spec v{number}", specs=(spec,))
