"""Leases: who reads a snapshot goes on reading it, whatever is vacuumed, in this process or another."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage import leases
from lance_flight.catalog.storage import store as stores
from lance_flight.catalog.storage.leases import Leases, SnapshotId, expiring_snapshots, leased_snapshots, put
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import VERSIONS
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Corrupt, NotFound

from tests.catalog.aging import age, versions
from tests.catalog.small_table import SCHEMA, SPEC, opened, rows
from tests.catalog.small_table_changes import delete
from tests.engine.waiting import until

pytestmark = pytest.mark.slow  # processes that read and write

# A reader in the middle of a scan: it has the first batch, says so, and reads on when it is told to.
READER = """
import sys
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.leases import leases
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
engine = Engine(Root(Store(sys.argv[1])), target_partitions=1)
reader = engine.run(Task(sql=sys.argv[2]))
ids = reader.read_next_batch()["id"].to_pylist()
leases.publish_all()  # what its thread does every few seconds
print(len(ids), flush=True)
sys.stdin.readline()
for batch in reader:
    ids += batch["id"].to_pylist()
print(sorted(ids))
"""
LONG_AGO = datetime.now(UTC) - timedelta(days=3)
TABLES = 12


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Tables with deleted rows, which are opened one after another by whoever scans them."""
    PartitionedNamespace.create(Store(str(tmp_path / "root" / "t")), SCHEMA, SPEC)
    place = tmp_path / "root" / "t"
    opened(place).append([rows(*((n, f"p{n % TABLES}") for n in range(10 * TABLES)))], evaluate)
    delete(place, *range(TABLES))
    return place


@pytest.fixture(autouse=True)
def _own_leases_are_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process's own thread may come round while a table is filled, and would then lease what it holds."""
    monkeypatch.setattr(leases.leases, "publish_all", lambda: None)


def store(place: Path) -> Store:
    return Store(str(place))


def overtake(place: Path) -> None:
    """Everything that can happen to a reader's snapshot while it reads."""
    opened(place).append([rows(*((1000 + n, f"p{n}") for n in range(TABLES)))], evaluate)
    compact(opened(place))
    for path in (place / "__manifest").rglob("*"):
        os.utime(path, (0, 0))
    vacuum(opened(place), VacuumRules(retain_hours=0, transaction_hours=0, force=True))


def test_a_reader_in_another_process_goes_on_while_all_is_compacted_and_vacuumed(place: Path) -> None:
    newest = opened(place).snapshot().version
    # What is still to be opened is not what a query would merge: it is read table by table.
    command = [sys.executable, "-c", READER, str(place.parent), "SELECT id FROM t"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        first = int(reader.stdout.readline())
        assert 0 < first < 9 * TABLES, "the reader is in the middle"
        overtake(place)
        rest, _ = reader.communicate("go on\n", timeout=60)
    assert rest.strip() == str(list(range(TABLES, 10 * TABLES)))
    assert newest in versions(place)
    overtake(place)
    assert newest in versions(place), "its lease is not over yet"
    age(place / ".lance-flight", hours=1)
    overtake(place)
    assert newest not in versions(place)


def test_a_reader_of_an_old_snapshot_in_another_process_goes_on_too(
    place: Path,
) -> None:
    old = opened(place).snapshot().version
    opened(place).append([rows((999, "p0"))], evaluate)
    command = [sys.executable, "-c", READER, str(place.parent), f'SELECT id FROM "t@{old}"']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert int(reader.stdout.readline()) < 9 * TABLES
        overtake(place)
        rest, _ = reader.communicate("go on\n", timeout=60)
    assert rest.strip() == str(list(range(TABLES, 10 * TABLES)))


def test_without_a_lease_the_snapshot_would_be_gone(place: Path) -> None:
    newest = opened(place).snapshot().version
    overtake(place)
    assert newest not in versions(place)


def test_what_this_process_reads_stays_although_its_lease_was_never_written(place: Path) -> None:
    namespace = opened(place)
    snapshot = namespace.snapshot()
    hold = namespace.hold(snapshot, is_newest=True)
    assert not leased_snapshots(store(place), datetime.now(UTC).timestamp())
    overtake(place)
    assert snapshot.version in versions(place)
    del hold
    overtake(place)
    assert snapshot.version not in versions(place)


def test_a_ticket_is_good_after_a_vacuum(place: Path) -> None:
    engine = Engine(Root(store(place.parent)), target_partitions=1)
    planned = engine.plan("SELECT id FROM t ORDER BY id")
    assert planned is not None
    overtake(place)
    (task,) = planned.tasks
    assert engine.run(task).read_all()["id"].to_pylist() == list(range(TABLES, 10 * TABLES))


def test_a_query_lets_go_of_its_snapshot_at_its_end(place: Path) -> None:
    newest = opened(place).snapshot().version
    gc.disable()  # its plan is a knot of references, which the collector takes apart when it comes round
    try:
        Engine(Root(store(place.parent)), target_partitions=1).query("SELECT id FROM t")
        overtake(place)
    finally:
        gc.enable()
    assert newest not in versions(place)


def test_changes_between_two_snapshots_are_read_to_their_end(place: Path) -> None:
    first = opened(place).snapshot().version
    for number in range(TABLES):
        opened(place).append([rows(*((100 * number + n, f"p{number}") for n in range(200, 203)))], evaluate)
    sql = f"SELECT id FROM table_changes('t', {first}, {first + TABLES})"
    reader = Engine(Root(store(place.parent)), target_partitions=1).run(Task(sql=sql))
    overtake(place)
    assert len(reader.read_all()) == 3 * TABLES


@pytest.mark.parametrize("what", ["rollback", "tag"])
def test_an_old_snapshot_that_is_being_removed_comes_back_by_no_means(
    place: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SETTLED", 0.0)
    old = opened(place).snapshot().version - 1
    leases.make_private(store(place), leases.EXPIRING)
    put(store(place).child(".lance-flight", leases.EXPIRING), "vacuum.json", {(None, old)})
    with pytest.raises(NotFound, match="expired"):
        opened(place).rollback(old) if what == "rollback" else opened(place).create_tag("old", old)
    assert opened(place).snapshot().version == old + 1
    assert opened(place).tags == []


@pytest.mark.parametrize("begin", ["catalog", "sql"])
def test_a_transaction_reads_what_it_began_with_after_a_vacuum(place: Path, begin: str) -> None:
    namespace = opened(place)
    if begin == "catalog":
        transaction = namespace.begin()
        snapshot = transaction.base
    else:
        sql = SqlTransaction(Root(store(place.parent)), explicit=True)
        snapshot = sql.snapshot(namespace)
    overtake(place)
    for table in snapshot.tables[0].tables():
        assert partitions.open_at(store(place).child(table.location), table.pin).count_rows() == 9


def test_a_snapshot_that_was_just_taken_costs_no_file(place: Path) -> None:
    before = set(place.rglob("*"))
    namespace = opened(place)
    hold = namespace.hold(namespace.snapshot(), is_newest=True)
    assert set(place.rglob("*")) == before
    assert hold.is_safe


def test_an_old_snapshot_is_leased_before_it_is_read(place: Path) -> None:
    mine = Leases()
    hold = mine.hold(store(place), (None, 3), LONG_AGO, is_newest=False)
    now = datetime.now(UTC).timestamp()
    assert leased_snapshots(store(place), now) == {(None, 3)}
    assert mine.hold(store(place), (None, 3), LONG_AGO, is_newest=False) is hold
    assert leased_snapshots(store(place), now + leases.GRACE + 1) == set(), "a lease that is not renewed is over"


def test_a_snapshot_that_is_being_removed_is_refused(place: Path) -> None:
    leases.make_private(store(place), leases.EXPIRING)
    put(store(place).child(".lance-flight", leases.EXPIRING), "vacuum.json", {(None, 3)})
    mine = Leases()
    with pytest.raises(NotFound, match="snapshot 3 of 't' has expired"):
        mine.hold(store(place), (None, 3), LONG_AGO, is_newest=False)
    with pytest.raises(NotFound, match="expired"):
        mine.hold(store(place), (None, 3), LONG_AGO, is_newest=False)
    assert leased_snapshots(store(place), datetime.now(UTC).timestamp()) == set(), (
        "the lease does not keep vacuum from its end"
    )
    assert mine.hold(store(place), (None, 4), LONG_AGO, is_newest=False).is_safe


@pytest.mark.parametrize("content", [b"", bytes(9), b"[3]", b'{"": 3}', b'{"": ["3"]}', b"[" * 99_999])
@pytest.mark.parametrize("kind", [leases.LEASES, leases.EXPIRING])
def test_a_lease_that_cannot_be_read_keeps_every_snapshot(place: Path, kind: str, content: bytes) -> None:
    leases.make_private(store(place), kind)
    (place / ".lance-flight" / kind / "other.json").write_bytes(content)
    before = versions(place)
    with pytest.raises(Corrupt, match=r"'other\.json' of 't'"):
        vacuum(opened(place), VacuumRules(retain_hours=0, force=True))
    assert versions(place) == before


def test_a_lease_goes_with_its_last_reader(place: Path) -> None:
    mine = Leases()
    first = mine.hold(store(place), (None, 3), LONG_AGO, is_newest=False)
    second = mine.hold(store(place), ("side", 4), LONG_AGO, is_newest=False)
    now = datetime.now(UTC).timestamp()
    assert leased_snapshots(store(place), now) == {(None, 3), ("side", 4)}
    del first
    mine.publish_all()
    assert leased_snapshots(store(place), now) == {second.snapshot}
    del second
    mine.publish_all()
    assert not list((place / ".lance-flight" / leases.LEASES).iterdir())


def test_holds_that_are_kept_for_tickets_end_with_their_time(place: Path) -> None:
    mine = Leases()
    for seconds, expected in ((600.0, {(None, 3)}), (-1.0, set[SnapshotId]())):
        mine.keep([mine.hold(store(place), (None, 3), LONG_AGO, is_newest=False)], seconds)
        mine.publish_all()
        assert leased_snapshots(store(place), datetime.now(UTC).timestamp()) == expected


def test_a_thread_renews_what_is_held(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "INTERVAL", 0.001)
    mine, published = Leases(), threading.Event()
    publish = mine.publish_all

    def noted() -> None:
        publish()
        published.set()

    monkeypatch.setattr(mine, "publish_all", noted)
    hold = mine.hold(store(place), (None, 3), datetime.now(UTC), is_newest=True)
    assert published.wait(10)
    assert leased_snapshots(store(place), datetime.now(UTC).timestamp()) == {hold.snapshot}
    monkeypatch.setattr(leases, "INTERVAL", 1000.0)


def test_a_namespace_whose_lease_cannot_be_written_keeps_no_other_from_its_own(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken" / VERSIONS).mkdir(parents=True)

    def failing(at: Store, *written: Any) -> None:
        if "broken" in at.uri:
            raise pa.ArrowInvalid("no store to write to")
        put(at, *written)

    monkeypatch.setattr(leases, "put", failing)
    mine, broken = Leases(), Store(str(tmp_path / "broken"))
    holds = [mine.hold(each, (None, 3), datetime.now(UTC), is_newest=True) for each in (broken, store(place))]
    mine.publish_all()
    assert leased_snapshots(store(place), datetime.now(UTC).timestamp()) == {hold.snapshot for hold in holds}


def test_leases_in_a_store_that_is_away_are_renewed_beside_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, written, answers = threading.Semaphore(0), set[str](), threading.Event()

    def put_remotely(at: Store, *_: Any) -> None:
        if "away" in at.uri:
            waiting.release()
            assert answers.wait(30)
        written.add(at.uri)

    monkeypatch.setattr(leases, "put", put_remotely)
    monkeypatch.setattr(leases, "INTERVAL", 0.01)
    monkeypatch.setattr(Leases, "_renew", lambda _: None)
    mine = Leases()
    tables = [*(Store(f"s3://away/t{number}") for number in range(40)), Store("s3://here/t")]
    holds = [mine.hold(each, (None, 3), datetime.now(UTC), is_newest=True) for each in tables]
    renewal = threading.Thread(target=mine.publish_all, daemon=True)
    renewal.start()
    for _ in range(leases.SIDE_BY_SIDE):
        assert waiting.acquire(timeout=10)
    renewal.join(10)
    assert not renewal.is_alive(), "the next renewal is not held up"
    until(lambda: len(written) == 1)
    mine.publish_all()  # leaves those alone that are renewed
    assert not waiting.acquire(blocking=False)
    answers.set()
    until(lambda: len(written) == len(holds))


def test_a_lease_that_a_store_does_not_take_holds_up_no_reader_of_another_table(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow" / VERSIONS).mkdir(parents=True)
    asked, answers = threading.Event(), threading.Event()

    def slow(at: Store, *written: Any) -> None:
        if "slow" in at.uri:
            asked.set()
            assert answers.wait(10)
        put(at, *written)

    monkeypatch.setattr(leases, "put", slow)
    mine, away = Leases(), Store(str(tmp_path / "slow"))
    hold = mine.hold(away, (None, 3), datetime.now(UTC), is_newest=True)
    renewal = threading.Thread(target=mine.publish_all)
    renewal.start()
    assert asked.wait(10)
    reader = threading.Thread(target=mine.hold_all, args=(store(place), [(None, 3)]))
    reader.start()
    reader.join(5)
    is_answered = not reader.is_alive()
    answers.set()
    renewal.join()
    reader.join()
    assert is_answered
    assert leased_snapshots(away, datetime.now(UTC).timestamp()) == {hold.snapshot}


def test_a_namespace_that_was_dropped_is_not_made_again_by_a_lease(place: Path, tmp_path: Path) -> None:
    mine = Leases()
    hold = mine.hold(store(place), (None, 3), datetime.now(UTC), is_newest=True)
    place.rename(tmp_path / "trash")
    mine.publish_all()
    assert not place.exists()
    place.mkdir()
    mine.publish_all()
    assert not list(place.iterdir())
    assert hold.is_safe


def test_nothing_is_announced_any_more_when_a_vacuum_is_over(place: Path) -> None:
    overtake(place)
    assert expiring_snapshots(store(place)) == set()
    assert not list((place / ".lance-flight" / leases.EXPIRING).iterdir())


def test_a_table_is_removed_in_which_a_lease_is_renewed_meanwhile(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is listed, and a file comes into it before it is removed itself."""
    busy = [True]

    class Busy:
        def delete_dir(self, path: str) -> None:
            if busy:
                busy.clear()
                raise OSError(errno.ENOTEMPTY, f"Cannot delete directory {path!r}")
            pafs.LocalFileSystem().delete_dir(path)

    monkeypatch.setattr(stores, "filesystem", lambda *_: (Busy(), str(place)))
    Store(str(place)).remove()
    assert busy == []
    assert not place.exists()
