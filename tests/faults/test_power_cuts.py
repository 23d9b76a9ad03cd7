"""Power cuts at any moment of a write: what was acknowledged is there, what was not is there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from threading import Thread
from time import sleep, time

import lance
import pytest
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import repair, verify
from lance_flight.catalog.storage import durability, leases
from lance_flight.catalog.storage.staging_area import settle_abandoned
from lance_flight.catalog.storage.store import shared_session
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import LanceFlightError, NotFound, SerializationFailure
from lance_flight.model.naming import TableName

from tests.engine.database import Database
from tests.faults.aftermath import check, in_order, layout_of, read, version_of
from tests.faults.conftest import Before
from tests.faults.power import Cut, Cutting, power
from tests.faults.writes import WRITES, Write, transaction
from tests.selection import IS_FULL

SEEDS = range(3) if IS_FULL else range(1)
WAYS = {
    "nothing": lambda _: Cutting(None),
    "names": lambda _: Cutting(None, names=True),
    **{f"seed {seed}": partial(lambda seed, cut: Cutting(f"{cut.name} {seed}"), seed) for seed in SEEDS},
}
"""What a cut may leave of all that came after the last flush."""


def disks(cuts: Sequence[Cut], place: Path, first: int) -> Iterator[tuple[Cut, str, Path]]:
    """Roots as cuts may leave them: by default at each flush in one way, in turn, and after the answer with nothing but what was flushed."""
    if IS_FULL:
        cases = [(cut, way) for cut in cuts for way in WAYS]
    else:
        *flushes, acknowledged = cuts
        cases = [*zip(flushes, islice(cycle(WAYS), first, None), strict=False), (acknowledged, "nothing")]
    for cut, way in cases:
        root = place / f"{cut.name} {way}".replace(" ", "_") / "root"
        cut.left(WAYS[way](cut)).put(root)
        yield cut, f"{cut}, {way}", root


@contextmanager
def named(case: str) -> Iterator[None]:
    """Say in an error which cut it came after."""
    try:
        yield
    except (AssertionError, LanceFlightError, OSError, ValueError) as exc:
        raise AssertionError(f"power cut at {case}: {exc!r}") from exc


@pytest.fixture(scope="module", autouse=True)
def durable() -> Iterator[None]:
    """Commits are flushed, which other tests leave out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(durability.durability, "mode", durability.Durability.COMMIT)
        yield


@pytest.fixture
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut while a test looks at what a cut has left."""
    monkeypatch.setattr(durability, "flush_device", lambda _: None)


def started(root: Path) -> Database:
    """The engine of a server that is started on what the cut has left."""
    shared_session.cache_clear()
    asked = Database(root)
    settle_abandoned(asked.engine.root.store)
    return asked


def is_done(asked: Database, write: Write) -> bool:
    """Whether a write is visible."""
    if write.layouts is not None:
        return layout_of(asked, "t") == write.layouts[True]
    if write.then == write.before:
        return True
    there = "t" in {name for _, name, *_ in asked.rows("SHOW TABLES")}
    return (read(asked, "t") if there else None) == (None if write.then is None else in_order(write.then))


def check_sound(asked: Database) -> None:
    """Every table can be read, each row of it."""
    tables = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('information_schema', 'system')"
    for schema, name in asked.rows(tables):
        report = verify(asked.engine.root.table(TableName(schema, name)), evaluate)
        assert report.is_sound, report.unsound


# The rival of one that is beaten commits in another process, at another moment.
@pytest.mark.sample(6)
@pytest.mark.usefixtures("unflushed")
@pytest.mark.parametrize("write", [write for write in WRITES if write.name != "beaten"], ids=lambda write: write.name)
def test_a_write_survives_a_cut_once_it_is_acknowledged(tmp_path: Path, before: Before, write: Write) -> None:
    root = tmp_path / "root"
    asked = before(write, root)
    version = version_of(asked, "t")
    with power(root) as watched:
        write.run(asked, "t")
        watched.reach("acknowledged", is_acknowledged=True)
    for cut, case, left in disks(watched.cuts, tmp_path / "cuts", WRITES.index(write)):
        with named(case):
            _check_left(left, write, version, cut)


def _check_left(left: Path, write: Write, version: int | None, cut: Cut) -> None:
    asked = started(left)
    check_sound(asked)
    done = is_done(asked, write)
    lost = cut.is_acknowledged and not done
    assert not lost
    check(asked, write, "t", write.then if done else write.before, version, is_done=done)


@dataclass(frozen=True)
class Change:
    """A statement on a root that others have made, the query that shows what it did, and how often it flushes."""

    run: str
    look: str
    flushes: int
    prepare: tuple[str, ...] = ()
    then: str | None = None
    """A statement of the next writer."""

    def __str__(self) -> str:
        return self.run


T = "CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)"
Q = "CREATE TABLE q (id BIGINT)"
ROWS = "SELECT id FROM {} ORDER BY id"
CHANGES = [
    Change(
        "INSERT INTO t VALUES (2, 'a')",
        ROWS.format("t"),
        2,
        (T, "INSERT INTO t VALUES (1, 'a')"),
        "INSERT INTO t VALUES (9, 'a')",
    ),
    Change("INSERT INTO t VALUES (2, 'b'), (3, 'c')", ROWS.format("t"), 2, (T, "INSERT INTO t VALUES (1, 'a')")),
    Change("UPDATE t SET id = 7", ROWS.format("t"), 2, (T, "INSERT INTO t VALUES (1, 'a')")),
    Change("DELETE FROM t", ROWS.format("t"), 2, (T, "INSERT INTO t VALUES (1, 'a')")),
    Change(
        "INSERT INTO q VALUES (2)", ROWS.format("q"), 2, (Q, "INSERT INTO q VALUES (1)"), "INSERT INTO q VALUES (9)"
    ),
    Change("UPDATE q SET id = 7", ROWS.format("q"), 2, (Q, "INSERT INTO q VALUES (1)"), "UPDATE q SET id = 9"),
    Change(
        "ALTER TABLE q ROLLBACK TO 2", ROWS.format("q"), 2, (Q, "INSERT INTO q VALUES (1)", "INSERT INTO q VALUES (2)")
    ),
    Change(
        "COMMENT ON TABLE q IS 'x'",
        "SHOW CREATE TABLE q",
        2,
        (Q, "INSERT INTO q VALUES (1)"),
        "INSERT INTO q VALUES (9)",
    ),
    Change("ALTER TABLE t RENAME TO u", "SHOW TABLES", 1, (T, "INSERT INTO t VALUES (1, 'a')")),
    Change("ALTER TABLE q RENAME TO u", "SHOW TABLES", 1, (Q,)),
    Change("CREATE SCHEMA s", "SHOW SCHEMAS", 1),
    Change("DROP SCHEMA s", "SHOW SCHEMAS", 1, ("CREATE SCHEMA s",)),
    Change('CREATE SCHEMA "a.b"', "SHOW SCHEMAS", 3, then='CREATE TABLE "a.b".q (id BIGINT)'),
    Change(
        'CREATE TABLE "a.b".q (id BIGINT)',
        "SELECT table_name FROM information_schema.tables",
        4,
        ('CREATE SCHEMA "a.b"',),
    ),
    Change(
        'DROP TABLE "a.b".q',
        "SELECT table_name FROM information_schema.tables",
        3,
        ('CREATE SCHEMA "a.b"', 'CREATE TABLE "a.b".q (id BIGINT)'),
    ),
    Change("CREATE VIEW v AS SELECT id FROM q", "SELECT table_name FROM information_schema.tables", 2, (Q,)),
    Change(
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS id FROM q",
        "SELECT * FROM v",
        2,
        (Q, "INSERT INTO q VALUES (5)", "CREATE VIEW v AS SELECT id FROM q"),
    ),
    Change(
        "DROP VIEW v", "SELECT table_name FROM information_schema.tables", 1, (Q, "CREATE VIEW v AS SELECT id FROM q")
    ),
    Change("ALTER TABLE t CREATE TAG x", "SELECT name FROM t$tags", 2, (T,), "INSERT INTO t VALUES (9, 'a')"),
    Change("ALTER TABLE t DROP TAG x", "SELECT name FROM t$tags", 2, (T, "ALTER TABLE t CREATE TAG x")),
    Change("ALTER TABLE t CREATE BRANCH b", "SELECT name FROM t$branches", 2, (T,), "INSERT INTO t VALUES (9, 'a')"),
    Change(
        "INSERT INTO \"t@b\" VALUES (2, 'a')",
        'SELECT id FROM "t@b" ORDER BY id',
        2,
        (T, "INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t CREATE BRANCH b"),
        "INSERT INTO \"t@b\" VALUES (9, 'a')",
    ),
    Change(
        "ALTER TABLE t PUBLISH BRANCH b",
        ROWS.format("t"),
        2,
        (T, "INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t CREATE BRANCH b", "INSERT INTO \"t@b\" VALUES (2, 'a')"),
    ),
    Change("ALTER TABLE t DROP BRANCH b", "SELECT name FROM t$branches", 2, (T, "ALTER TABLE t CREATE BRANCH b")),
]


@pytest.mark.sample(8)
@pytest.mark.usefixtures("unflushed")
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_survives_a_cut_once_it_is_acknowledged(tmp_path: Path, change: Change) -> None:
    asked = Database(tmp_path / "root")
    for statement in change.prepare:
        asked.run(statement)
    before = looked(asked, change)
    with power(asked.root) as watched:
        asked.run(change.run)
        watched.reach("acknowledged", is_acknowledged=True)
    assert watched.flushes == change.flushes
    after = looked(asked, change)
    assert after != before
    for cut, case, left in disks(watched.cuts, tmp_path / "cuts", CHANGES.index(change)):
        # Lance knows branches by where they lie.
        shutil.rmtree(asked.root)
        left.rename(asked.root)
        with named(case):
            found = started(asked.root)
            check_sound(found)
            assert looked(found, change) in ([after] if cut.is_acknowledged else [before, after])
            if change.then is not None and looked(found, change) == after:
                found.run(change.then)


@pytest.mark.usefixtures("unflushed")
@pytest.mark.parametrize("first", range(3))
def test_a_vacuum_that_was_cut_short_keeps_nobody_from_old_snapshots(
    tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SETTLED", 0.0)
    asked = Database(tmp_path / "root")
    for statement in (T, "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'a')"):
        asked.run(statement)
    with power(asked.root) as watched:
        vacuum_all(asked)
        watched.reach("acknowledged", is_acknowledged=True)
    for _, case, left in disks(watched.cuts, tmp_path / "cuts", first):
        with named(case):
            found = started(left)
            check_sound(found)
            table = found.engine.root.table(TableName("public", "t"))
            for version, _ in table.log.history():
                with suppress(NotFound):
                    table.hold(table.snapshot(version), is_newest=False)
            vacuum_all(found)
            assert found.rows(ROWS.format("t")) == [(1,), (2,)]


@pytest.mark.usefixtures("unflushed")
def test_a_repair_survives_a_cut(tmp_path: Path) -> None:
    asked = Database(tmp_path / "root")
    for statement in (T, "INSERT INTO t VALUES (1, 'a')"):
        asked.run(statement)
    lance.dataset(f"{asked.root}/t/__manifest").drop_columns(["read_version", "partition_field_p"])
    with power(asked.root) as watched:
        assert repair(asked.engine.root.table(TableName("public", "t")), dry_run=False).is_sound
        watched.reach("acknowledged", is_acknowledged=True)
    watched.cuts[-1].left(Cutting(None)).put(tmp_path / "left" / "root")
    found = started(tmp_path / "left" / "root")
    assert found.rows(ROWS.format("t")) == [(1,)]
    check_sound(found)


def vacuum_all(asked: Database) -> None:
    """Remove every snapshot but the newest."""
    rules = VacuumRules(retain_hours=0, force=True)
    vacuum(asked.engine.root.table(TableName("public", "t")), rules, now=time() + 3600)


def looked(asked: Database, change: Change) -> object:
    """What the query of a change shows; the error where there is nothing yet."""
    try:
        return sorted(asked.rows(change.look), key=str)
    except NotFound:
        return "not found"


def test_concurrent_writers_share_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, flushed = Database(tmp_path / "root"), []
    tables = [f"t{number}" for number in range(8)]
    for table in tables:
        asked.run(f"CREATE TABLE {table} (id BIGINT)")
    monkeypatch.setattr(durability, "flush_device", lambda _: (sleep(0.2), flushed.append(1)))
    with ThreadPoolExecutor(len(tables)) as pool:
        assert list(pool.map(lambda table: asked.run(f"INSERT INTO {table} VALUES (1)"), tables)) == [1] * len(tables)
    assert 2 <= len(flushed) <= len(tables)


def test_a_flush_that_is_interrupted_holds_up_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([KeyboardInterrupt()])
    flushed = []

    def flush_device(_: int) -> None:
        for error in outcomes:
            raise error
        flushed.append(1)

    monkeypatch.setattr(durability, "_devices", {})
    monkeypatch.setattr(durability, "flush_device", flush_device)
    with pytest.raises(KeyboardInterrupt):
        durability.flush(str(tmp_path))
    other = Thread(target=durability.flush, args=[str(tmp_path)], daemon=True)
    other.start()
    other.join(5)
    assert flushed == [1]


@dataclass
class FailingDisk:
    """A disk of which some flush fails."""

    fails: int
    flushes: int = 0

    def replace(self, patched: pytest.MonkeyPatch) -> None:
        """Be the only disk, until the patches end: what has failed on it says nothing of later tests' writes."""
        patched.setattr(durability, "_devices", {})
        patched.setattr(durability, "flush_device", self.flush)

    def flush(self, _: int) -> None:
        self.flushes += 1
        if self.flushes == self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("layout", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_a_commit_that_the_disk_fails_to_store_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    for fails, word, there in ((1, "unavailable", 0), (2, "outcome_unknown", 1)):
        asked = Database(tmp_path / f"root{fails}")
        asked.run(f"CREATE TABLE t (id BIGINT){layout}")
        FailingDisk(fails).replace(monkeypatch)
        assert word in asked.refuses("INSERT INTO t VALUES (1)")
        assert asked.value("SELECT count(*) FROM t") == there
        assert asked.run("INSERT INTO t VALUES (2)") == 1


def test_what_was_written_before_a_flush_failed_is_not_committed_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Database(tmp_path / "root")
    asked.run("CREATE TABLE t (id BIGINT) PARTITIONED BY (id)")
    with transaction(asked) as mine:
        mine.run("INSERT INTO t VALUES (1)")
        FailingDisk(1).replace(monkeypatch)
        asked.refuses("INSERT INTO t VALUES (2)")
        with pytest.raises(SerializationFailure):
            mine.end(commit=True)
    assert asked.rows("SELECT id FROM t") == []


def test_without_durability_nothing_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability.durability, "mode", durability.Durability.NONE)
    asked = Database(tmp_path / "root")
    with power(asked.root) as watched:
        asked.run("CREATE TABLE t (id BIGINT)")
        asked.run("INSERT INTO t VALUES (1)")
    assert watched.flushes == 0
