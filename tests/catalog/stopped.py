"""A process of its own that creates, replaces or drops the table `t` of a root, to be killed on the way."""

from __future__ import annotations

import sys

import pyarrow as pa
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.table_properties import TableProperties

T = TableName("public", "t")


def main(place: str, action: str, partition_by: str) -> None:
    root = Root(Store(place))
    if action == "drop":
        root.drop(T)
        return
    rows = pa.table({"id": [2]})
    by = TableProperties.by(partition_by)
    existing = ingest.IfExists.REPLACE if action == "replace" else ingest.IfExists.FAIL
    ingest.create(root, T, rows.schema, by, [rows], existing=existing)


if __name__ == "__main__":
    main(*sys.argv[1:])
