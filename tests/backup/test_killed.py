"""Backups and restores that are killed at every step: nothing half made is taken for whole, and the same command goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from lance_flight.catalog.backup.checking import check_backup
from lance_flight.catalog.backup.targets import backup_at, backups_in, ids_in
from lance_flight.catalog.storage.store import Store
from lance_flight.cli.inspect import existing_root
from lance_flight.errors import NotFound, Unavailable
from lance_flight.faults import BACKUP_POINTS, VARIABLE

from tests.backup.roots import content, make, run
from tests.service.server_process import COMMAND

pytestmark = pytest.mark.slow  # processes of the command line

STOPS = [
    "backup_begun", "backup_file_copied:1", "backup_file_copied:100", "backup_journaled:1", "backup_journaled:2",
    "backup_copied", "backup_listed", "restore_begun", "restore_file_copied:1", "restore_file_copied:100",
    "restore_journaled:1", "restore_journaled:2", "restore_copied", "restore_ready", "restore_shown",
]  # fmt: skip
HAS_JOURNAL = re.compile("journaled|100|copied$|ready|shown")
COPIED = re.compile(r"copied (?P<copied>[\d,]+) with|(?P<restored>[\d,]+) of them copied")


def command(*arguments: object, fault: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line, with a fault or without."""
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        env=environment | ({} if fault is None else {VARIABLE: fault}),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def ended_well(*arguments: object) -> int:
    """Run a command that must do its work, and return how many files it says it has copied."""
    ended = command(*arguments)
    assert ended.returncode == 0, ended.stderr
    found = COPIED.search(ended.stdout)
    assert found is not None, ended.stdout
    return int((found["copied"] or found["restored"]).replace(",", ""))


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.startswith("backup")])
def test_a_killed_backup_is_none_and_goes_on(tmp_path: Path, stop: str) -> None:
    root, target = make(tmp_path / "root", "many files"), tmp_path / "target"
    assert command("backup", root, target, fault=stop).returncode == -signal.SIGKILL
    (begun,) = ids_in(Store(str(target)))
    is_whole = stop == "backup_listed"
    assert len(list(backups_in(Store(str(target))))) == is_whole
    if not is_whole:
        with pytest.raises(NotFound):
            backup_at(Store(str(target)))
    # What is written meanwhile is in the backup, since it is of the newest snapshot when it goes on.
    run(root, "INSERT INTO t VALUES (100, '7', 1)", "DELETE FROM t WHERE id = 9")
    copied = ended_well("backup", root, target)
    stored = backup_at(Store(str(target)))
    assert (stored.manifest.id == begun) is not is_whole
    assert check_backup(stored).is_sound
    files = {
        str(path.relative_to(target / stored.manifest.id / "files"))
        for path in (target / stored.manifest.id / "files").rglob("*")
        if path.is_file()
    }
    assert files == {file.path for file in stored.manifest.files}
    assert (copied < len(files)) is (HAS_JOURNAL.search(stop) is not None and not is_whole)
    assert {path.name for path in (target / stored.manifest.id).iterdir()} == {"backup.jsonl", "files"}
    assert ended_well("restore", target, tmp_path / "new")
    assert content(tmp_path / "new") == content(root)


@pytest.mark.parametrize("stop", [stop for stop in STOPS if stop.startswith("restore")])
def test_a_killed_restore_is_not_seen_and_goes_on(tmp_path: Path, stop: str) -> None:
    root, target, new = make(tmp_path / "root", "many files"), tmp_path / "target", tmp_path / "new"
    files = ended_well("backup", root, target)
    assert command("restore", target, new, fault=stop).returncode == -signal.SIGKILL
    assert new.exists() is (stop == "restore_shown")
    if new.exists():
        with pytest.raises(Unavailable, match="again"):
            existing_root(str(new))
        (new / "of another program").write_text("which cannot know")
    copied = ended_well("restore", target, new)
    assert (copied < files) is (HAS_JOURNAL.search(stop) is not None)
    assert content(new) == content(root)
    assert {path.name for path in tmp_path.iterdir()} == {"root", "target", "new"}
    assert (new / "of another program").exists() is (stop == "restore_shown")
    assert not [path for path in new.rglob("*") if "restor" in path.name or path.suffix == ".draft"]


def test_another_backup_is_not_restored_over_an_unfinished_one(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "many files"), tmp_path / "target"
    ended_well("backup", root, target)
    assert command("restore", target, tmp_path / "new", fault="restore_copied").returncode == -signal.SIGKILL
    ended_well("backup", root, target)
    ended = command("restore", target, tmp_path / "new")
    assert ended.returncode == 1
    assert "[conflict]" in ended.stderr
    assert not (tmp_path / "new").exists()


def test_every_point_is_one_that_is_tested() -> None:
    assert {stop.partition(":")[0] for stop in STOPS} == BACKUP_POINTS.keys()
