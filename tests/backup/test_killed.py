"""Backups and restores that are killed at every step: nothing half made is taken for whole, and the same command goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.backup.backup_format import StoredBackup, backup_at, backups_in, ids_in
from lance_flight.catalog.backup.restoring import check_backup, restore
from lance_flight.catalog.backup.saving import BackupReport, BackupRules, backup
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import Conflict, NotFound, Unavailable
from lance_flight.faults import BACKUP_POINTS, VARIABLE
from lance_flight_client.cli.inspecting import existing_root

from tests.backup.roots import content, make, run
from tests.faults.failpoints import Stopped, left_behind
from tests.service.server_process import COMMAND

pytestmark = pytest.mark.slow  # processes of the command line

STOPS = [
    ("backup_begun", 1), ("backup_file_copied", 1), ("backup_file_copied", 100), ("backup_journaled", 1),
    ("backup_journaled", 2), ("backup_copied", 1), ("backup_listed", 1), ("restore_begun", 1), ("restore_file_copied", 1),
    ("restore_file_copied", 100), ("restore_journaled", 1), ("restore_journaled", 2), ("restore_copied", 1),
    ("restore_ready", 1), ("restore_shown", 1),
]  # fmt: skip
HALF = "restore_file_copied", 50
HAS_JOURNAL = re.compile("journaled|100|(backup|restore)_copied|ready|shown").search


def name_of(stop: Stopped) -> str:
    return f"{stop[0]} {stop[1]}"


@dataclass(frozen=True)
class Left:
    """A root, a backup of it, what was in it then, and what kills left of the target and of the restored root."""

    root: Path
    stored: StoredBackup
    before: Mapping[str, Any]
    places: Mapping[Stopped, Path]


def save(root: Path, target: Path) -> BackupReport:
    """Back a root up."""
    return backup(Root(Store(str(root))), Store(str(target)), BackupRules())


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What a kill leaves at each step of a backup and of its restore."""
    root = make(tmp_path_factory.mktemp("saved") / "root", "many files")
    place = tmp_path_factory.mktemp("whole")
    copies = tmp_path_factory.mktemp("killed")
    with left_behind(place / "target", copies, STOPS) as of_backup:
        save(root, place / "target")
    stored = backup_at(Store(str(place / "target")))
    with left_behind(place / "new", copies, [*STOPS, HALF]) as of_restore:
        restore(stored, Store(str(place / "new" / "new")))
    return Left(root, stored, content(root), {**of_backup, **of_restore})


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop[0].startswith("backup")], ids=name_of)
def test_a_killed_backup_is_none_and_goes_on(left: Left, tmp_path: Path, stop: Stopped) -> None:
    root, target = left.root, left.places[stop]
    (begun,) = ids_in(Store(str(target)))
    is_whole = stop[0] == "backup_listed"
    assert len(list(backups_in(Store(str(target))))) == is_whole
    if not is_whole:
        with pytest.raises(NotFound):
            backup_at(Store(str(target)))
    # What is written meanwhile is in the backup, since it is of the newest snapshot when it goes on.
    run(
        root,
        f"INSERT INTO t VALUES ({100 + STOPS.index(stop)}, '7', 1)",
        f"DELETE FROM t WHERE id = {9 + STOPS.index(stop)}",
    )
    copied = save(root, target).copied_files
    stored = backup_at(Store(str(target)))
    assert (stored.manifest.id == begun) is not is_whole
    assert check_backup(stored).is_sound
    inside = target / stored.manifest.id / "files"
    files = {str(path.relative_to(inside)) for path in inside.rglob("*") if path.is_file()}
    assert files == {file.path for file in stored.manifest.files}
    assert (copied < len(files)) is (HAS_JOURNAL(name_of(stop)) is not None and not is_whole)
    assert {path.name for path in (target / stored.manifest.id).iterdir()} == {"backup.jsonl", "files"}
    assert restore(stored, Store(str(tmp_path / "new"))).copied_files == len(files)
    assert content(tmp_path / "new") == content(root)


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop[0].startswith("restore")], ids=name_of)
def test_a_killed_restore_is_not_seen_and_goes_on(left: Left, stop: Stopped) -> None:
    place = left.places[stop]
    new = place / "new"
    files = len(left.stored.manifest.files)
    check_restore_goes_on(
        new, lambda: restore(left.stored, Store(str(new))).copied_files < files, name_of(stop), left.before
    )
    assert [path.name for path in place.iterdir()] == ["new"]


def check_restore_goes_on(new: Path, again: Callable[[], bool], stop: str, before: Mapping[str, Any]) -> None:
    """A restore that was stopped shows nothing; run `again` it copies only what is missing if it had noted any files."""
    assert new.exists() is ("restore_shown" in stop)
    if new.exists():
        with pytest.raises(Unavailable, match="again"):
            existing_root(str(new))
        (new / "of another program").write_text("which cannot know")
    assert again() is (HAS_JOURNAL(stop) is not None)
    assert content(new) == before
    assert (new / "of another program").exists() is ("restore_shown" in stop)
    assert not [path for path in new.rglob("*") if "restor" in path.name or path.suffix == ".draft"]


COPIED = re.compile(r"copied (?P<copied>[\d,]+) with|(?P<restored>[\d,]+) of them copied")


def test_a_command_that_is_killed_goes_on(tmp_path: Path) -> None:
    """A backup and a restore by processes."""
    root, target, new = make(tmp_path / "root", "many files"), tmp_path / "target", tmp_path / "new"

    def command(*arguments: object, fault: str | None = None) -> int:
        """Run the command line with a fault, of which it dies, or without; return how many files it has copied."""
        environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
        ended = subprocess.run(
            [COMMAND, *map(str, arguments)], env=environment | ({} if fault is None else {VARIABLE: fault}),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ended.returncode == (0 if fault is None else -signal.SIGKILL), ended.stderr
        found = COPIED.search(ended.stdout)
        return 0 if found is None else int((found["copied"] or found["restored"]).replace(",", ""))

    command("backup", root, target, fault="backup_journaled:2")
    assert list(backups_in(Store(str(target)))) == []
    copied = command("backup", root, target)
    files = len(backup_at(Store(str(target))).manifest.files)
    assert 0 < copied < files
    command("restore", target, new, fault="restore_journaled:2")
    check_restore_goes_on(new, lambda: command("restore", target, new) < files, "restore_journaled 2", content(root))
    assert {path.name for path in tmp_path.iterdir()} == {"root", "target", "new"}


def test_another_backup_is_not_restored_over_an_unfinished_one(left: Left) -> None:
    save(left.root, Path(left.stored.target.uri))
    new = left.places[HALF] / "new"
    with pytest.raises(Conflict):
        restore(backup_at(left.stored.target), Store(str(new)))
    assert not new.exists()


def test_every_point_is_one_that_is_tested() -> None:
    assert {point for point, _ in STOPS} == BACKUP_POINTS.keys()
