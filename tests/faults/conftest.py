"""Tables as writes find them, made once and copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.database import Database
from tests.faults.failpoints import copy_files
from tests.faults.writes import Write

Before = Callable[[Write, Path], Database]


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """Makes a root as a write finds it at a place that is not there: the table `t`, and what it needs beside that."""
    made: dict[object, Path] = {}

    def copied(write: Write, root: Path) -> Database:
        what = write.before is None, write.partition_by, write.prepare
        if what not in made:
            made[what] = tmp_path_factory.mktemp("before") / "root"
            made[what].mkdir()
            write.set_up(Database(made[what]), "t")
        copy_files(made[what], root)
        return Database(root)

    return copied
