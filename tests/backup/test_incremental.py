"""Incremental backups: what an earlier one holds is not copied again, and nothing else is taken for that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.backup import saving
from lance_flight.catalog.backup.backup_format import BackupManifest, backup_at, backups_in
from lance_flight.catalog.backup.restoring import check_backup, restore
from lance_flight.catalog.backup.saving import BackupReport, BackupRules, backup, is_content
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store

from tests.backup.roots import content, make, run


def saved(root: Path, target: Path, *, incremental: bool = True) -> BackupReport:
    """Back up a root."""
    return backup(Root(Store(str(root))), Store(str(target)), BackupRules(incremental=incremental))


def files_of(target: Path, report: BackupReport) -> set[str]:
    """The files in the directory of a backup."""
    place = target / report.manifest.id / "files"
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def version_size(root: Path) -> int:
    """The bytes of the only version of a plain table."""
    (version,) = root.glob("pl.lance/_versions/*.manifest")
    return version.stat().st_size


def test_only_new_files_are_copied(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "deleted and changed rows"), tmp_path / "target"
    saved(root, target)
    before = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    run(root, "INSERT INTO t VALUES (20, 'b', 1)")
    second = saved(root, target)
    copied = files_of(target, second)
    assert copied
    assert not copied & before
    data = {path for path in copied if "/data/" in path}
    assert {path for path in data if "__manifest" not in path} == {
        str(path.relative_to(root))
        for path in root.glob("t/*dataset/data/*.lance")
        if str(path.relative_to(root)) not in before
    }
    first = next(backups_in(Store(str(target)))).manifest
    assert second.manifest.needs == (first.id,)
    assert (second.copied_files, second.copied_bytes) == (
        len(copied), sum((root / path).stat().st_size for path in copied),
    )  # fmt: skip


def test_backups_are_kept_for_a_time_and_what_younger_ones_need_stays(tmp_path: Path) -> None:
    root, target, began = make(tmp_path / "root", "deleted and changed rows"), tmp_path / "target", datetime.now(UTC)

    def saved_on(day: float, *, dry_run: bool = False, incremental: bool = True) -> BackupReport:
        rules = BackupRules(incremental=incremental, keep=10 * 86400)
        moment = began + timedelta(days=day)
        return backup(Root(Store(str(root))), Store(str(target)), rules, dry_run=dry_run, now=moment)

    def found() -> list[str]:
        """The backups; each is read, with the files that others hold for it."""
        whole = list(backups_in(Store(str(target))))
        assert [check_backup(each).damaged for each in whole] == [()] * len(whole)
        return [each.manifest.id for each in whole]

    by_hand = [saved(root, target).manifest.id]
    by_hand.append(
        backup(Root(Store(str(root))), Store(str(target)), BackupRules(table=TableName("public", "t"))).manifest.id
    )
    days: dict[float, str] = {}
    for day in (0, 1, 9):
        run(root, f"INSERT INTO t VALUES ({20 + day}, 'b', 1)")
        days[day] = saved_on(day).manifest.id
    assert found() == [*by_hand, *days.values()]
    of_first = files_of(target, saved_on(9.5))
    unfinished = target / f"{began + timedelta(days=10):%Y%m%dT%H%M%S.%f}Z-abcd"
    unfinished.mkdir()
    (unfinished / "begun.json").write_text("{}")
    assert saved_on(11.5, dry_run=True).removed == (), "one that is not finished may rely on them"
    shutil.rmtree(unfinished)
    assert saved_on(11.5, dry_run=True).removed == (days[0], days[1])
    assert saved_on(11.5).removed == (days[0], days[1])
    assert days[0] in sorted(path.name for path in target.iterdir()), "the backup of the ninth day needs files of it"
    assert len(found()) == 3 + len(by_hand)
    last = saved_on(25)
    assert last.manifest.needs == (), "an incremental backup relies on none that is to go"
    assert sorted(path.name for path in target.iterdir()) == found() == [*by_hand, last.manifest.id]
    assert not of_first


def overtaken(monkeypatch: pytest.MonkeyPatch, function: str, work: Callable[[], object], *, after: bool) -> None:
    """Do some work, as another process would, right before or after the next call of a function of `saving`."""
    real = getattr(saving, function)

    def overtake(*arguments: Any) -> object:
        monkeypatch.undo()
        if after:
            result = real(*arguments)
            work()
            return result
        work()
        return real(*arguments)

    monkeypatch.setattr(saving, function, overtake)


def test_a_backup_relies_on_none_that_another_one_removes_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, target = make(tmp_path / "root", "deleted and changed rows"), Store(str(tmp_path / "target"))
    daily, later = BackupRules(keep=10 * 86400), datetime.now(UTC) + timedelta(days=20)
    opened = Root(Store(str(root)))
    older = backup(opened, target, daily).manifest.id
    overtaken(monkeypatch, "_claim", lambda: backup(opened, target, daily, now=later), after=False)
    mine = backup(opened, target, BackupRules(incremental=True), now=later).manifest
    assert older not in {stored.manifest.id for stored in backups_in(target)}
    assert check_backup(backup_at(target, mine.id)).damaged == ()


@pytest.mark.parametrize("is_finished", [True, False])
def test_files_that_a_backup_has_come_to_rely_on_are_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_finished: bool
) -> None:
    root, target = make(tmp_path / "root", "deleted and changed rows"), Store(str(tmp_path / "target"))
    daily, later = BackupRules(keep=10 * 86400), datetime.now(UTC) + timedelta(days=20)
    opened = Root(Store(str(root)))
    version = opened.table(TableName("public", "t")).snapshot().version
    older = backup(opened, target, daily).manifest.id
    run(root, "DELETE FROM t")
    manifests: list[BackupManifest] = []

    def rely() -> None:
        """Back up rows that the older backup has, and the younger one has not."""
        run(root, f"ALTER TABLE t ROLLBACK TO {version}")
        manifests.append(backup(opened, target, BackupRules(incremental=True), now=later).manifest)
        assert older in manifests[0].needs
        if not is_finished:
            place = Path(target.uri, manifests[0].id)
            (place / "backup.jsonl").rename(tmp_path / "backup.jsonl")
            (place / "begun.json").write_text("{}")

    overtaken(monkeypatch, "_find_outdated", rely, after=True)
    assert backup(opened, target, daily, now=later).removed == (older,)
    if not is_finished:
        (tmp_path / "backup.jsonl").rename(Path(target.uri, manifests[0].id, "backup.jsonl"))
    assert check_backup(backup_at(target, manifests[0].id)).damaged == ()


def test_a_root_that_stayed_as_it_is_copies_nothing(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "a published branch, and one that is not"), tmp_path / "target"
    saved(root, target)
    second = saved(root, target)
    assert (second.copied_files, files_of(target, second)) == (0, set())
    assert saved(root, target, incremental=False).copied_files == len(second.manifest.files)


def test_each_backup_of_a_chain_is_restored(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "plain tables and views"), tmp_path / "target"
    expected = []
    for number in range(3):
        run(root, f"INSERT INTO pl VALUES ({number + 10}, 'n')")
        expected.append((saved(root, target).manifest.id, content(root)))
    shutil.rmtree(root)
    for backup_id, found in expected:
        stored = backup_at(Store(str(target)), backup_id)
        assert check_backup(stored).is_sound
        restore(stored, Store(str(tmp_path / backup_id)))
        assert content(tmp_path / backup_id) == found


def test_a_table_that_was_made_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "nothing"), tmp_path / "target"
    run(root, "CREATE TABLE pl AS SELECT 'one' AS word")
    saved(root, target)
    size = version_size(root)
    run(root, "DROP TABLE pl", "CREATE TABLE pl AS SELECT 'two' AS word")
    while version_size(root) != size:  # its time takes a byte more or less
        run(root, "DROP TABLE pl", "CREATE TABLE pl AS SELECT 'two' AS word")
    saved(root, target)
    assert len(list(target.rglob("*.manifest"))) == 2
    restore(backup_at(Store(str(target))), Store(str(tmp_path / "new")))
    assert content(tmp_path / "new")["public.pl"] == ["{'word': 'two'}"]


def test_a_view_that_was_replaced_is_copied(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "plain tables and views"), tmp_path / "target"
    saved(root, target)
    run(root, "CREATE OR REPLACE VIEW v AS SELECT id FROM pl WHERE v = 'z'")
    saved(root, target)
    restore(backup_at(Store(str(target))), Store(str(tmp_path / "new")))
    assert content(tmp_path / "new") == content(root)


@pytest.mark.parametrize("harm", ["is cut short", "is gone"])
def test_a_file_that_an_earlier_backup_lost_is_copied_anew(tmp_path: Path, harm: str) -> None:
    root, target = make(tmp_path / "root", "partitions"), tmp_path / "target"
    saved(root, target)
    (data, *_) = sorted(target.glob("*/files/t/*dataset/data/*.lance"))
    if harm == "is gone":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:-1])
    second = saved(root, target)
    assert {Path(path).name for path in files_of(target, second)} == {data.name}
    assert check_backup(backup_at(Store(str(target)))).is_sound


CONTENT = {
    "t/0a1b2c3d_v1$x$dataset/data/f5f209d3aa49bc8b638f90dc8f981f8f.lance": True,
    "pl.lance/data/011111010111100010100001cbb896472494c78e375013c66d/01000000000000000000000000000000.blob": True,
    "pl.lance/_deletions/0-2-12073716993492771260.arrow": True,
    "pl.lance/_transactions/0-50515961-e20b-4038-9451-76b4206901d7.txn": True,
    "t/__manifest/_indices/30a6afd3-910d-4509-b7d5-0c67f7f0e4b3/page_data.lance": True,
    "pl.lance/data/part-0.lance": False,
    "pl.lance/_versions/18446744073709551612.manifest": False,
    "pl.lance/_versions/latest_version_hint.json": False,
    "pl.lance/_refs/tags/t.json": False,
    "pl.lance/_refs/branches/audit-60eb216daa80.json": False,
    ".lance-flight/view-1aacd338e9b0ee3382a1799adf63c6fd.json": False,
    "data/pl.lance/_versions/18446744073709551612.manifest": False,
}


@pytest.mark.parametrize("path", CONTENT)
def test_a_name_is_trusted_that_has_random_bits_in_it(path: str) -> None:
    assert is_content(path) is CONTENT[path]
