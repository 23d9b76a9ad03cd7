"""A root with a table of readings by site, made by the engine: three versions, of which the first has a tag."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dataset.roots import run

STATEMENTS = (
    "CREATE TABLE readings (id BIGINT, site VARCHAR, celsius DOUBLE) PARTITIONED BY (site)",
    "INSERT INTO readings SELECT value, 's' || CAST(value % 4 AS INT), value / 2.0 FROM generate_series(0, 99)",
    "ALTER TABLE readings CREATE TAG first",
    "INSERT INTO readings SELECT value, 's' || CAST(value % 5 AS INT), value / 2.0 FROM generate_series(100, 149)",
    "DELETE FROM readings WHERE id % 10 = 9",
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory, which is copied for each test."""
    root = tmp_path_factory.mktemp("readings") / "root"
    run(root)(*STATEMENTS)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """The directory."""
    return shutil.copytree(template, tmp_path / "root")


@pytest.fixture
def change(root: Path) -> Callable[..., None]:
    """Runs statements on the root."""
    return run(root)
