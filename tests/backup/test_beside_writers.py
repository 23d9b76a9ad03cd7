"""Backups of tables that are written, compacted, vacuumed and dropped meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest
from lance_flight.catalog.backup.backup_format import backup_at, ids_in
from lance_flight.catalog.backup.restoring import check_backup, restore
from lance_flight.catalog.backup.saving import BackupRules, backup
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import version_name
from lance_flight.errors import Conflict, LanceFlightError

from tests.backup.roots import content, engine_of, make, run
from tests.catalog.aging import age
from tests.catalog.steady_writer import PARTITIONS, TOUCHED, writing

pytestmark = pytest.mark.slow  # processes that write

T = TableName("public", "t")
ALL = VacuumRules(retain_hours=0, transaction_hours=0, force=True)


def during(root: Path, target: Path, work: Callable[[], object], rules: BackupRules | None = None) -> None:
    """Back up a root, and do something once its snapshots are read and before the first file is copied."""
    backup(Root(Store(str(root))), Store(str(target)), rules or BackupRules(), on_total=lambda *_: work())


@pytest.mark.parametrize("at", ["the newest snapshot", "an older one"])
def test_a_vacuum_keeps_what_is_being_backed_up(tmp_path: Path, at: str) -> None:
    root = make(tmp_path / "root", "deleted and changed rows")
    table = Root(Store(str(root))).table(T)
    version = table.snapshot().version
    before = content(root)["public.t"]
    if at == "an older one":
        run(root, "DELETE FROM t WHERE id = 2")

    def overtake() -> None:
        run(root, "DELETE FROM t WHERE p = 'b'", "INSERT INTO t VALUES (30, 'a', 1)")
        compact(Root(Store(str(root))).table(T))
        held = root / "t" / "__manifest" / "_versions" / version_name(version)
        times = held.stat()
        age(root / "t", hours=48)
        # What replaced it counts, and by its own time it is known not to be another table's.
        os.utime(held, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert vacuum(Root(Store(str(root))).table(T), ALL).removed

    during(root, tmp_path / "target", overtake, BackupRules(table=T, at=version if at == "an older one" else None))
    restore(backup_at(Store(str(tmp_path / "target"))), Store(str(tmp_path / "new")))
    assert content(tmp_path / "new")["public.t"] == before
    assert Root(Store(str(tmp_path / "new"))).table(T).snapshot().version == version


CHANGES = {
    "is dropped": ("DROP TABLE t",),
    "is renamed": ("ALTER TABLE t RENAME TO u",),
    "is replaced": (
        "CREATE OR REPLACE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'a')",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_goes_away_is_an_error_and_no_backup(tmp_path: Path, change: str) -> None:
    root, target = make(tmp_path / "root", "partitions"), tmp_path / "target"
    with pytest.raises((Conflict, LanceFlightError)) as raised:
        during(root, target, lambda: run(root, *CHANGES[change]))
    assert "t" in str(raised.value)
    with pytest.raises(LanceFlightError, match="no backup"):
        backup_at(Store(str(target)))
    during(root, target, lambda: None)
    assert len(ids_in(Store(str(target)))) == 1
    restore(backup_at(Store(str(target))), Store(str(tmp_path / "new")))
    assert content(tmp_path / "new") == content(root)


def test_a_table_that_is_made_again_does_not_lend_its_version_to_the_files_of_the_old_one(tmp_path: Path) -> None:
    root, target = make(tmp_path / "root", "nothing"), tmp_path / "target"
    again = ("DROP TABLE pl", "CREATE TABLE pl AS SELECT 2 AS a")
    run(root, "CREATE TABLE pl AS SELECT 1 AS a")
    during(root, target, lambda: None)
    with pytest.raises(Conflict, match="dropped or renamed"):
        during(root, target, lambda: run(root, *again), BackupRules(incremental=True))
    during(root, target, lambda: None, BackupRules(incremental=True))
    restore(backup_at(Store(str(target))), Store(str(tmp_path / "new")))
    assert content(tmp_path / "new") == content(root)


@pytest.mark.parametrize("kind", ["append", "update"])
def test_each_backup_beside_a_writer_and_a_vacuum_is_of_one_snapshot(tmp_path: Path, kind: str) -> None:
    root, target = tmp_path / "root", tmp_path / "target"
    root.mkdir()
    first = PARTITIONS * 5
    run(root, "CREATE TABLE t (id BIGINT, p BIGINT, n BIGINT) PARTITIONED BY (p)")
    run(root, f"INSERT INTO t SELECT value, value % {PARTITIONS}, 0 FROM generate_series(1, {first})")
    stop, failed = Event(), list[BaseException]()

    def vacuuming() -> None:
        try:
            while not stop.is_set():
                vacuum(Root(Store(str(root))).table(T), VacuumRules(retain_hours=0, force=True))
        except BaseException as exc:  # noqa: BLE001 - shown by the test
            failed.append(exc)

    thread = Thread(target=vacuuming)
    with writing(root, kind):
        thread.start()
        for _ in range(3):
            backup(Root(Store(str(root))), Store(str(target)), BackupRules(incremental=True))
        stop.set()
        thread.join()
    assert not failed
    for number, backup_id in enumerate(ids_in(Store(str(target)))):
        stored = backup_at(Store(str(target)), backup_id)
        assert check_backup(stored).is_sound
        restore(stored, Store(str(tmp_path / f"new-{number}")))
        (row,) = (
            engine_of(tmp_path / f"new-{number}").query("SELECT count(*) AS rows, sum(n) AS changes FROM t").to_pylist()
        )
        # Each commit adds, or changes, one row in each of so many partitions.
        assert (row["rows"] - first) % TOUCHED == 0
        assert row["changes"] % TOUCHED == 0


def once(work: Callable[[], object]) -> Callable[[int, int], None]:
    """Progress of which the first report does something."""
    left = [work]

    def report(_: int, __: int) -> None:
        if left:
            left.pop()()

    return report


def test_one_process_at_a_time_works_on_a_backup(tmp_path: Path) -> None:
    root, target = Root(Store(str(make(tmp_path / "root", "partitions")))), Store(str(tmp_path / "target"))
    refused = []

    def again() -> None:
        with pytest.raises(Conflict, match="another process is at work on backup") as raised:
            backup(root, target, BackupRules())
        refused.append(raised.value)

    backup(root, target, BackupRules(), once(again))
    assert refused
    assert check_backup(backup_at(target)).is_sound
    assert len(ids_in(target)) == 1


def test_one_process_at_a_time_works_on_a_restore(tmp_path: Path) -> None:
    root, target, new = (
        make(tmp_path / "root", "partitions"),
        Store(str(tmp_path / "target")),
        Store(str(tmp_path / "new")),
    )
    backup(Root(Store(str(root))), target, BackupRules())
    refused = []

    def again() -> None:
        with pytest.raises(Conflict, match="another process is at work on the restore") as raised:
            restore(backup_at(target), new)
        refused.append(raised.value)

    restore(backup_at(target), new, progress=once(again))
    assert refused
    assert content(tmp_path / "new") == content(root)
