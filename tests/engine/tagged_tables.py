"""Tables with tags, and where they are."""

from __future__ import annotations

from functools import cache

import lance
import pytest

from tests.engine.database import Database
from tests.stock import manifest

PLACES = pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])


def stock(database: Database, table: str, partitioned_by: str) -> lance.LanceDataset:
    """The Lance table whose versions are the table's versions."""
    return manifest(database.root / table) if partitioned_by else lance.dataset(str(database.root / f"{table}.lance"))


def grown(database: Database, table: str, partitioned_by: str) -> list[int]:
    """A table with one more row in each version; the versions that have one, two and three rows."""
    template, versions = _template(database, partitioned_by)
    suffix = "" if partitioned_by else ".lance"
    database.copy(template + suffix, table + suffix)
    return versions


@cache
def _template(database: Database, partitioned_by: str) -> tuple[str, list[int]]:
    """Such a table, which nobody changes."""
    table = "grown_by_id" if partitioned_by else "grown"
    database.run(f"CREATE TABLE {table} (id INT){partitioned_by}")
    versions = []
    for number in range(3):
        database.run(f"INSERT INTO {table} VALUES ({number})")
        versions.append(int(stock(database, table, partitioned_by).version))
    return table, versions
