"""Tables with tags, and where they are."""

from __future__ import annotations

import lance
import pytest

from tests.service.server_process import Server
from tests.stock import manifest

PLACES = pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])


def stock(server: Server, table: str, partitioned_by: str) -> lance.LanceDataset:
    """The Lance table whose versions are the table's versions."""
    return manifest(server.root / table) if partitioned_by else lance.dataset(str(server.root / f"{table}.lance"))


def grown(server: Server, table: str, partitioned_by: str) -> list[int]:
    """A table with one more row in each version; the versions that have one, two and three rows."""
    server.run(f"CREATE TABLE {table} (id INT){partitioned_by}")
    versions = []
    for number in range(3):
        server.run(f"INSERT INTO {table} VALUES ({number})")
        versions.append(int(stock(server, table, partitioned_by).version))
    return versions
