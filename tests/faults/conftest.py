"""Tables as writes find them, made once and copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.database import Database
from tests.faults.disks import Disk
from tests.faults.failpoints import copy_files
from tests.faults.writes import Write

NO_MOUNT = "no device can be mounted here: that takes root, and a kernel that lets it"
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


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Disk]:
    """A device of its own: engines of this process renew leases, which take files, on all that they have read."""
    disk = Disk(tmp_path)
    if not disk.mount():
        pytest.skip(NO_MOUNT)
    (disk.place / "page").write_text("a device of no pages has no limit")
    try:
        yield disk
    finally:
        disk.unmount()
