"""`t$files`: the data files of partition tables."""

from __future__ import annotations

import pyarrow as pa

from lance_flight.catalog.tables import partitions
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView


def files_table(view: TableView) -> MetadataTable:
    """Return `t$files`: one row per data file of each partition table."""
    schema = pa.schema(
        [
            pa.field("object_id", pa.utf8(), nullable=False),
            pa.field("fragment_id", pa.int64(), nullable=False),
            pa.field("path", pa.utf8(), nullable=False),
            pa.field("rows", pa.int64()),
            pa.field("deleted_rows", pa.int64()),
            pa.field("bytes", pa.int64()),
            pa.field("file_version", pa.utf8()),
        ]
    )

    def build(_: list[str]) -> pa.Table:
        rows = []
        for table in view.snapshot.all_tables():
            store = view.store.child(table.location)
            pin = partitions.resolve(store, table.pin)
            dataset = partitions.open_at(store, pin)
            places = partitions.places_of_data(dataset, table.location, pin)
            for fragment in dataset.get_fragments():
                rows += [
                    {
                        "object_id": table.object_id,
                        "fragment_id": fragment.fragment_id,
                        "path": f"{places[file.base_id]}/{file.path}",
                        "rows": fragment.physical_rows,
                        "deleted_rows": fragment.num_deletions,
                        "bytes": file.file_size_bytes,
                        "file_version": f"{file.file_major_version}.{file.file_minor_version}",
                    }
                    for file in fragment.metadata.files
                ]
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)
