"""Every metadata table by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lance_flight.catalog.table import Table
from lance_flight.engine.query.metadata.files import files_table
from lance_flight.engine.query.metadata.indexes import indexes_table
from lance_flight.engine.query.metadata.labels import branches_table, tags_table
from lance_flight.engine.query.metadata.partitions import partitions_table
from lance_flight.engine.query.metadata.snapshots import snapshots_table
from lance_flight.engine.query.metadata.specs import specs_table
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView

METADATA_TABLES: Mapping[str, Callable[[Table, TableView], MetadataTable]] = MappingProxyType(
    {
        "partitions": lambda _, view: partitions_table(view),
        "snapshots": lambda table, _: snapshots_table(table),
        "specs": specs_table,
        "files": lambda _, view: files_table(view),
        "indexes": lambda _, view: indexes_table(view),
        "tags": lambda table, _: tags_table(table),
        "branches": lambda table, _: branches_table(table),
    }
)
OF_EVERYBODY = frozenset({"snapshots", "specs"})
"""Those that tell of changes to all rows; the others speak of the partition tables of a view, or of names."""
OF_PARTITIONS = frozenset({"partitions", "specs", "branches"})
"""Those that a plain table has not."""
LINEAGE = "lineage"
"""The one that has the rows themselves, each with its lineage: a view (`named_tables.py`)."""
