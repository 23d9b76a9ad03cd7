"""The `__manifest` of a table made anew from its partition tables, where it was lost.

The newest version of each partition table counts. Nothing says any more which of them a snapshot showed: rows of partitions that were
dropped, and of commits that never ended, may come back, and tags, branches and older snapshots do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.manifests.manifest import has_lost_manifest
from lance_flight.catalog.plain_table import PlainTable
from lance_flight.catalog.roots.attachments import Attachment
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.lance_columns import columns_of
from lance_flight.catalog.storage.names import VERSIONS
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Source
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.definitions import partition_spec
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import Corrupt, InvalidInput
from lance_flight.model.naming import is_table_directory
from lance_flight.model.schema import NamespaceSchema, without_ids
from lance_flight.model.spec import PartitionSpec


@dataclass(frozen=True)
class LostManifest:
    """A table that has partition tables and no `__manifest`."""

    root: Root
    name: TableName
    place: Store = field(repr=False)

    @classmethod
    def of(cls, root: Root, name: TableName) -> LostManifest:
        """Return the table of a name; `InvalidInput` where its `__manifest` is there."""
        place = root.table(name).store
        if not has_lost_manifest(place):
            raise InvalidInput(f"table {name.name!r} has its __manifest; expected repair without --partition-by")
        return cls(root, name, place)

    @cached_property
    def tables(self) -> list[PlainTable]:
        """The partition tables that have rows."""
        stores = [
            self.place.child(directory) for directory in self.place.directories() if is_table_directory(directory)
        ]
        tables = [PlainTable(store) for store in stores if store.has(VERSIONS)]
        return [table for table in tables if table.open().count_rows()]

    @cached_property
    def rows(self) -> int:
        """The number of rows in them."""
        return sum(int(table.open().count_rows()) for table in self.tables)

    def rebuild(self, partitioned_by: str) -> int:
        """Make the table anew with a `__manifest`, in one step, and return its rows; the old directory goes away.

        `InvalidInput` names partition tables that do not have the same columns, `DataError` one whose rows are of several partitions,
        `AlreadyExists` one that has the values of another.
        """
        schema = NamespaceSchema.assign(self._columns())
        spec = partition_spec(schema, TableProperties.by(partitioned_by).partitioned_by)

        def build(place: Store) -> int:
            stable = all(table.open().has_stable_row_ids for table in self.tables)
            made = PartitionedNamespace.create(place, schema, spec, stable_row_ids=stable)
            for table in self.tables:
                values = _values(table, schema, spec)
                attachment = Attachment(
                    namespace=made, table=table, name=table.store.name, values=values, evaluate=evaluate
                )
                attachment.commit(trusted=False)
            return self.rows

        return self.root.create(self.name, build, partitioned=True, replace=True)

    def _columns(self) -> pa.Schema:
        if not self.tables:
            raise Corrupt(
                f"table {self.name.name!r} has no partition table with rows; expected a restore from a backup"
            )
        first, *others = ([without_ids(column) for column in columns_of(table.open())] for table in self.tables)
        for table, columns in zip(self.tables[1:], others, strict=True):
            if columns != first:
                raise InvalidInput(
                    f"partition tables {self.tables[0].store.name!r} and {table.store.name!r} have other columns; expected a restore"
                    " from a backup"
                )
        return pa.schema(first)


def _values(table: PlainTable, schema: NamespaceSchema, spec: PartitionSpec) -> pa.Table:
    """Return the partition values of the first row of a partition table."""
    scan = Scan(source=schema.plain, schema=schema.plain, ids={})
    batch = next(batch for batch in scan.read([lambda: [Source(table.open())]]) if batch.num_rows)
    row = pa.Table.from_batches([batch.slice(0, 1)])
    return partition_values(row, spec.fields, schema.source_paths, evaluate)
