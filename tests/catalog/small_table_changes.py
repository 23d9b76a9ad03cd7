"""Changes to the table of ids by a text column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from lance_flight.catalog.commits.writer import rows_removed
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine

from tests.catalog.small_table import opened


def delete(place: Path, *gone: int) -> None:
    """Mark rows as deleted, as DELETE does."""
    namespace = opened(place)
    transaction = namespace.begin()
    found = {}
    for tables in transaction.base.tables:
        for table in tables.tables():
            dataset = Store(str(place / table.location)).open(table.pin.columns.read_version)
            addressed = dataset.to_table(columns=["id"], with_row_address=True).to_pylist()
            addresses = [row["_rowaddr"] for row in addressed if row["id"] in gone]
            if addresses:
                found[table] = np.array(addresses, np.uint64)
    transaction.add(rows_removed(namespace.store, transaction.base, found), "delete")
    namespace.commits.commit(transaction)


def sql(place: Path, statement: str) -> None:
    Engine(Root(Store(str(place.parent))), target_partitions=2).update(statement)
