"""Reading a namespace as a query does."""

from __future__ import annotations

from pathlib import Path

from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine


def read_ids(place: Path, condition: str = "true") -> list[int]:
    """The column `id` of the rows for which a condition holds, sorted."""
    sql = f'SELECT id FROM "{place.name}" WHERE {condition} ORDER BY id'
    found: list[int] = Engine(Root(Store(str(place.parent))), target_partitions=2).query(sql)["id"].to_pylist()
    return found
