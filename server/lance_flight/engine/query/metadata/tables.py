"""Every metadata table by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.plain import PlainTable
from lance_flight.engine.query.metadata.files import files_table
from lance_flight.engine.query.metadata.indexes import indexes_table
from lance_flight.engine.query.metadata.labels import branches_table, tags_table
from lance_flight.engine.query.metadata.partitions import partitions_table
from lance_flight.engine.query.metadata.snapshots import snapshots_table
from lance_flight.engine.query.metadata.specs import specs_table
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import PartitionedView

METADATA_TABLES: Mapping[str, Callable[[PartitionedNamespace, PartitionedView], MetadataTable]] = MappingProxyType(
    {
        "partitions": lambda _, view: partitions_table(view),
        "snapshots": lambda namespace, _: snapshots_table(namespace),
        "specs": specs_table,
        "files": lambda _, view: files_table(view),
        "indexes": lambda _, view: indexes_table(view),
        "tags": lambda namespace, _: tags_table(namespace),
        "branches": lambda namespace, _: branches_table(namespace),
    }
)
OF_EVERYBODY = frozenset({"snapshots", "specs"})
"""Those that tell of changes to all rows; the others speak of the partition tables of a view, or of names."""
PLAIN_METADATA_TABLES: Mapping[str, Callable[[PlainTable], MetadataTable]] = MappingProxyType({"tags": tags_table})
LINEAGE = "lineage"
"""The one that has the rows themselves, each with its lineage: a view (`named_tables.py`)."""
