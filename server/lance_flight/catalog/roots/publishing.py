"""A private table made public in an object store, where nothing can be renamed.

The first commit claims the place, for one of several who want it; the last one shows the table, whole.
"""

from __future__ import annotations

from lance_flight.catalog.manifests.manifest import Manifest, create_table
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.storage.looks import looks
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.model.naming import MANIFEST


def publish_copy(table: Table, place: Store) -> None:
    """Copy a table to `place`; raise `Conflict` where another writer has claimed it."""
    match table:
        case PlainTable():
            write_plain(place, table.open().schema, table.rows())
        case PartitionedNamespace():
            snapshot = table.snapshot()
            claimed = create_table(place.child(MANIFEST), snapshot.rows.schema)
            for partition in snapshot.all_tables():
                table.store.child(partition.location).copy_to(place.child(partition.location))
            claimed.merge_insert("object_id").when_not_matched_insert_all().execute(snapshot.rows)
            claimed.update_metadata(dict(snapshot.metadata))
            looks.replace(place.uri)
            Manifest(place.child(MANIFEST)).snapshot()
