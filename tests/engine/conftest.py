"""The engine that most tests of this directory ask, over a directory of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """An engine over an empty root; the fixture `tables` of a module fills it for each of its tests."""
    return Engine(Root(Store(str(tmp_path))), target_partitions=2)
