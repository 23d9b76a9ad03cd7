"""Backups from, to and within an object store, as those of directories are; what makes a root visible there is written last."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from lance_flight.catalog.backup.backup_format import backup_at, ids_in
from lance_flight.catalog.backup.restoring import check_backup, restore
from lance_flight.catalog.backup.saving import BackupRules, backup
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.formats import check_restored
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyExists, Conflict, Corrupt, Unavailable
from lance_flight.faults import VARIABLE

from tests.backup.roots import STATEMENTS, content, run
from tests.faults.failpoints import Stopped, watched
from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import S3Server
from tests.service.server_process import COMMAND

KINDS = ["indices", "a published branch, and one that is not", "plain tables and views"]
WAYS = {
    "from a directory to a bucket to a bucket": ("local", "remote", "remote"),
    "from a bucket to a directory to a directory": ("remote", "local", "local"),
    "from a bucket to a bucket to a directory": ("remote", "remote", "local"),
    "from a bucket to a bucket to a bucket": ("remote", "remote", "remote"),
}


def place(bucket: Bucket, tmp_path: Path, kind: str, name: str) -> Store:
    """A directory, or a prefix of the bucket."""
    if kind == "remote":
        return bucket.place(name)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    return Store(str(tmp_path / name))


def made(root: Store, name: str) -> Store:
    """A root of a kind."""
    if not root.is_remote:
        root.make()
    run(root, *STATEMENTS[name])
    return root


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_root_comes_back(bucket: Bucket, tmp_path: Path, way: str, name: str) -> None:
    first, second, third = WAYS[way]
    root = made(place(bucket, tmp_path, first, "a/root"), name)
    before = content(root)
    target, new = place(bucket, tmp_path, second, "b/target"), place(bucket, tmp_path, third, "c/new")
    backup(Root(root), target, BackupRules())
    again = backup(Root(root), target, BackupRules(incremental=True))
    assert again.copied_files == 0
    root.remove()
    assert check_backup(backup_at(target)).is_sound
    restore(backup_at(target), new)
    assert content(new) == before
    for table in map(Root(new).table, Root(new).tables()):
        assert verify(table, evaluate, table.snapshot()).is_sound
    run(new, *(f'INSERT INTO "{each.name}" SELECT * FROM "{each.name}"' for each in Root(new).tables()))
    for each in Root(new).tables():
        assert content(new)[str(each)] == sorted(before[str(each)] * 2)


def test_damage_is_found_before_a_table_is_visible(bucket: Bucket, tmp_path: Path) -> None:
    root, target = made(bucket.store, "partitions"), place(bucket, tmp_path, "local", "target")
    backup(Root(root), target, BackupRules())
    (data, *_) = sorted(tmp_path.glob("target/*/files/t/*dataset/data/*.lance"))
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    new = place(bucket, tmp_path, "remote", "new")
    with pytest.raises(Corrupt):
        restore(backup_at(target), new)
    assert not [file for file in new.tree() if "_versions" in file.path]
    with pytest.raises(Unavailable):
        check_restored(new)


def test_a_place_that_is_taken_is_not_restored_over(bucket: Bucket) -> None:
    root = made(bucket.store, "partitions")
    target = bucket.place("target")
    backup(Root(root), target, BackupRules())
    with pytest.raises(AlreadyExists):
        restore(backup_at(target), root)


def test_a_table_that_is_made_again_meanwhile_is_no_backup(bucket: Bucket, tmp_path: Path) -> None:
    root, target = bucket.store, place(bucket, tmp_path, "local", "target")
    run(root, "CREATE TABLE pl AS SELECT 1 AS a")
    backup(Root(root), target, BackupRules())
    rules, again = BackupRules(incremental=True), ("DROP TABLE pl", "CREATE TABLE pl AS SELECT 2 AS a")
    with pytest.raises(Conflict, match="dropped or renamed"):
        backup(Root(root), target, rules, on_total=lambda *_: run(root, *again))


STOPS = [
    ("backup_file_copied", 10),
    ("backup_copied", 1),
    ("backup_listed", 1),
    ("restore_begun", 1),
    ("restore_copied", 1),
    ("restore_file_copied", 15),
    ("restore_shown", 1),
]
Left = Mapping[Stopped, Bucket]


@pytest.fixture(scope="module")
def killed(s3: S3Server) -> tuple[Bucket, Left]:
    """A bucket with a root and a backup of it, and what a kill leaves at each step of that and of its restore."""
    bucket, copies = Bucket.made(s3), dict[Stopped, Bucket]()
    root = made(bucket.store, "deleted and changed rows")

    def copy(point: str, number: int) -> None:
        if (point, number) in STOPS:
            copies[point, number] = bucket.copy()

    with watched(copy):
        backup(Root(root), bucket.place("target"), BackupRules())
        restore(backup_at(bucket.place("target")), bucket.place("new"))
    return bucket, copies


def check_whole(bucket: Bucket, backups: int) -> None:
    """The root is restored, and nothing of the work on it is left."""
    root, target, new = bucket.store, bucket.place("target"), bucket.place("new")
    check_restored(new)
    assert content(new) == content(root)
    assert not [file.path for file in [*new.tree(), *target.tree()] if "restore" in file.path or "journal" in file.path]
    assert len(ids_in(target)) == backups


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop[0])
def test_what_is_killed_goes_on(killed: tuple[Bucket, Left], stop: Stopped) -> None:
    bucket, left = killed
    bucket.put_back(left[stop])
    target, new = bucket.place("target"), bucket.place("new")
    if stop[0].startswith("restore"):
        with pytest.raises(Unavailable, match="restored"):
            check_restored(new)
    else:
        backup(Root(bucket.store), target, BackupRules())
    restore(backup_at(target), new)
    check_whole(bucket, 1 + (stop[0] == "backup_listed"))


def test_a_killed_process_goes_on(bucket: Bucket) -> None:
    """The command, with storage options of the environment; a server refuses what it left."""
    root, target, new = made(bucket.store, "deleted and changed rows"), bucket.place("target"), bucket.place("new")
    assert command(bucket, "backup", root, target).returncode == 0
    assert command(bucket, "restore", target, new, fault="restore_file_copied:15").returncode == -signal.SIGKILL
    ended = command(bucket, "serve", new, "--port", "0")
    assert (ended.returncode, "restored" in ended.stderr) == (1, True), ended.stderr
    ended = command(bucket, "restore", target, new)
    assert ended.returncode == 0, ended.stderr
    check_whole(bucket, 1)


def command(
    bucket: Bucket, name: str, *arguments: Store | str, fault: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line, with a fault or without."""
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE and not key.startswith("AWS_")}
    environment |= {"LANCE_FLIGHT_STORAGE_OPTIONS": bucket.options_text} | ({} if fault is None else {VARIABLE: fault})
    return subprocess.run(
        [COMMAND, name, *(each.uri if isinstance(each, Store) else each for each in arguments)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
