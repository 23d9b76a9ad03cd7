"""Changes that a stream over a table may meet, and the version that they leave."""

from __future__ import annotations

from pathlib import Path

from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import create_index
from lance_flight.catalog.maintenance.rewriting import rewrite
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.indices import IndexRules
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.small_table import opened


def run(place: Path, statement: str) -> None:
    match statement:
        case "compact":
            assert compact(opened(place), CompactionRules(deleted=0)).tables
        case "rewrite":
            assert rewrite(opened(place), evaluate).commits
        case "index":
            create_index(opened(place), IndexRules(column="id", min_rows=0))
        case _:
            Engine(Root(Store(str(place.parent))), target_partitions=1).update(statement)


def newest(place: Path) -> int:
    return opened(place).snapshot().version
