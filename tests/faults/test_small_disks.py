"""Writes on a device that has room for so many more files, or so many more bytes: all of a write is there, or nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from adbc_driver_manager import Error

from tests.catalog.aging import age
from tests.faults.aftermath import check, read
from tests.faults.writes import START, WRITES, Write, check_layout
from tests.service.server_process import Server, serving
from tests.stock import manifest

FULL = os.environ.get("LANCE_FLIGHT_TESTS") == "full"
PLENTY = "size=256m,nr_inodes=200000"
NO_MOUNT = "no device can be mounted here: that takes root, and a kernel that lets it"
BESIDE = {"beaten", "behind_the_dead"}
"""What another writer does in this process is refused by the same device."""
STORED = [write for write in WRITES if write.name not in BESIDE]
MOST = 400
"""Files or pages that no write here takes."""


@dataclass(frozen=True)
class Disk:
    """A device in memory, whose room can be changed while it is used."""

    place: Path

    def leave(self, *, files: int | None = None, pages: int | None = None) -> None:
        """Leave room for so many more files (and directories), or pages of 4 KiB."""
        found = os.statvfs(self.place)
        room = [f"nr_inodes={found.f_files - found.f_ffree + files}"] if files is not None else []
        room += [f"nr_blocks={found.f_blocks - found.f_bfree + pages}"] if pages is not None else []
        self._remount(",".join(room))

    def leave_plenty(self) -> None:
        """Make room again."""
        self._remount(PLENTY)

    def _remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.place], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "device"
    place.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", PLENTY, "lance-flight-tests", place], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(NO_MOUNT)
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def server(disk: Disk) -> Iterator[Server]:
    with serving(disk.place / "root") as running:
        yield running


@dataclass
class Outcomes:
    """How often a write was refused, and how often it was carried out."""

    refused: int = 0
    done: int = 0


def private_places(server: Server) -> set[str]:
    """What lies in the private place of a root."""
    return {path.name for path in (server.root / ".lance-flight").iterdir()}


def try_with(server: Server, disk: Disk, write: Write, table: str, outcomes: Outcomes, **room: int) -> bool:
    """Run a write with so much room, and check what is there afterwards; return whether it was carried out."""
    write.set_up(server, table)
    if write.forgets:
        age(server.root / table, hours=3)
    private = private_places(server)
    has_manifest = (server.root / table / "__manifest").exists()
    version = int(manifest(server.root / table).version) if has_manifest else None
    disk.leave(**room)
    said = None
    try:
        write.run(server, table)
    except Error as error:
        said = str(error)
    finally:
        disk.leave_plenty()
    outcomes.refused += said is not None
    outcomes.done += said is None
    assert said is None or "[storage_full] no space is left for the root: " in said
    check_layout(server, write, table, is_done=said is None)
    check(server, write, table, write.before if said else write.then, version)
    assert private_places(server) == private, "what was made in a private place is gone"
    return said is None


SIZES: dict[str, tuple[int, ...]] = {"files": (0, 1, 2, 4, 7, 11, 16), "pages": (0, 1, 3, 6, 10, 15)}


@pytest.mark.parametrize("unit", SIZES)
@pytest.mark.parametrize("write", STORED, ids=lambda write: write.name)
def test_a_write_is_whole_or_not_there_however_little_room_there_is(
    server: Server, disk: Disk, write: Write, unit: str, say: Callable[[str], None]
) -> None:
    """In full: one more file, or page, each time, until there is room for all."""
    outcomes = Outcomes()
    for number in count() if FULL else (*SIZES[unit], MOST):
        assert number <= MOST, "there is room by now"
        if try_with(server, disk, write, f"{write.name}_{unit}_{number}", outcomes, **{unit: number}) and FULL:
            break
    assert outcomes.done >= 1
    say(f"{write.name}, {unit} left on the device: refused {outcomes.refused} times, done {outcomes.done} times")


def used(disk: Disk) -> int:
    """Bytes and files that are used on a device, together."""
    found = os.statvfs(disk.place)
    return (found.f_blocks - found.f_bfree) * found.f_frsize + found.f_files - found.f_ffree


@pytest.mark.parametrize("unit", SIZES)
def test_a_write_that_is_tried_again_and_again_does_not_use_up_what_is_left(
    server: Server, disk: Disk, unit: str
) -> None:
    table = f"again_{unit}"
    ingest = next(write for write in WRITES if write.name == "ingest")
    ingest.set_up(server, table)
    for attempt in range(6):
        disk.leave(**{unit: 3})
        try:
            assert "[storage_full]" in server.refuses(f"INSERT INTO {table} SELECT id + 100, p, n FROM {table}")
        finally:
            disk.leave_plenty()
        if attempt == 0:
            first = used(disk)
    assert used(disk) <= first, "each attempt takes its files away"
    assert read(server, table) == sorted(START)


def test_room_is_made_on_a_device_that_is_entirely_full(server: Server, disk: Disk) -> None:
    """Whoever finds no room drops a table, or vacuums one, and goes on."""
    ingest = next(write for write in WRITES if write.name == "ingest")
    for table in ("kept", "dropped", "dropped_plain"):
        ingest.set_up(server, table)
    before = used(disk)
    disk.leave(files=0, pages=0)
    try:
        assert "[storage_full]" in server.refuses("INSERT INTO kept VALUES (100, 'a', 1)")
        assert read(server, "kept") == sorted(START)
        server.run("DROP TABLE dropped")
        assert used(disk) < before
        assert server.run("INSERT INTO kept VALUES (100, 'a', 1)") == 1
    finally:
        disk.leave_plenty()
    assert read(server, "kept") == sorted([*START, (100, "a", 1)])
