"""What tests of the engine ask: an engine over a directory of their own, or a database that those of a module share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from lance_flight.engine.engine import Engine

from tests.engine.commands import Commands
from tests.engine.database import Client, Database, open_engine

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def filled_root() -> Path | None:
    """The root that each test of a module begins with a copy of; a module overrides it with `filled`."""
    return None


@pytest.fixture
def engine(tmp_path: Path, filled_root: Path | None) -> Engine:
    """An engine over a copy of the module's root, or over an empty one."""
    if filled_root is not None:
        shutil.copytree(filled_root, tmp_path, dirs_exist_ok=True)
    return open_engine(tmp_path)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """One root for the tests of a module: they see no other module's tables, and list few files."""
    return Database(tmp_path_factory.mktemp("engine") / "root")


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    """A client of that root with a session of its own."""
    with database.client() as opened:
        yield opened


@pytest.fixture
def table() -> str:
    """A table name that no other test uses."""
    return f"t{next(_NUMBERS)}"


@pytest.fixture
def copied(database: Database, template: str, table: str) -> str:
    """A copy of the partitioned table `template` of a module, which nobody else changes."""
    return database.copy(template, table)


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    """The command line, within this process."""
    return Commands(capsys)
