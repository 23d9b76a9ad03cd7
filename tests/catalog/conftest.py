"""Tables that many tests of the catalog begin with: made once in a process, and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.small_table import SCHEMA, SPEC, opened, rows


def _made(place: Path, *appends: tuple[tuple[int, str], ...]) -> Path:
    PartitionedNamespace.create(Store(str(place)), SCHEMA, SPEC)
    for pairs in appends:
        opened(place).append([rows(*pairs)], evaluate)
    return place


@pytest.fixture(scope="session")
def _one_row(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(tmp_path_factory.mktemp("one_row") / "t", ((1, "a"),))


@pytest.fixture(scope="session")
def _small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    appends = [((number, "a"), (number + 10, "b")) for number in (1, 2, 3)]
    return _made(tmp_path_factory.mktemp("small_files") / "t", *appends, ((100, "c"),))


@pytest.fixture
def place(_one_row: Path, tmp_path: Path) -> Path:
    """A table with the row 1 in the partition `a`."""
    return Path(shutil.copytree(_one_row, tmp_path / "t"))


@pytest.fixture
def small_files(_small_files: Path, tmp_path: Path) -> Path:
    """A table of two partitions of three files each, and one of one."""
    return Path(shutil.copytree(_small_files, tmp_path / "t"))
