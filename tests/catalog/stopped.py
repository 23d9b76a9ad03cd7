"""A process that is stopped in the middle of a DROP or REPLACE, as by a power cut: nothing of its own cleans up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
from lance_flight.catalog.directory import Root, TableName
from lance_flight.catalog.store import Store
from lance_flight.engine import ingest
from lance_flight.engine.statements import parse_partition_by

STOPPED = 9


def stop_at(name: str, number: int) -> None:
    """End this process at the `number`th call of a method of `Store`, before it does anything."""
    original, calls = getattr(Store, name), []

    def stopping(self: Store, *arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == number:
            os._exit(STOPPED)
        return original(self, *arguments)

    setattr(Store, name, stopping)


def main(place: str, action: str, partition_by: str, method: str, number: str) -> None:
    root = Root(Store(str(Path(place))))
    stop_at(method, int(number))
    if action == "drop":
        root.drop(TableName("public", "t"))
    else:
        rows = pa.table({"id": [2]})
        by = parse_partition_by(partition_by) if partition_by else ()
        existing = ingest.Existing.REPLACE if action == "replace" else ingest.Existing.FAIL
        ingest.create(root, TableName("public", "t"), rows.schema, by, [rows], existing=existing)


if __name__ == "__main__":
    main(*sys.argv[1:])
