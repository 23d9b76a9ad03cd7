"""Which work the maintainer chooses, what it leaves for a while, and that it says what came of it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from lance.optimize import RewriteResult
from lance_flight.catalog.bulk import pieces
from lance_flight.catalog.maintenance import compaction
from lance_flight.catalog.maintenance.compaction import Files
from lance_flight.catalog.maintenance.survey import Surveyor, TableSurvey
from lance_flight.catalog.maintenance.vacuum import Removed, SweepTotals, VacuumReport
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime import maintainer
from lance_flight.engine.runtime.maintainer import (
    RETRY_SECONDS,
    Maintainer,
    MaintenanceThread,
    Work,
    WorkChooser,
    WorkKind,
)
from lance_flight.engine.runtime.running_statement import MOST_RECORDS, MaintenanceRecords
from lance_flight.errors import Conflict, StorageFull

from tests.catalog.aging import age, table_files
from tests.engine.database import open_engine
from tests.engine.waiting import until

PATIENCE = 60.0


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables `few` and `many` of three and of six small files, both of which are due."""
    root = tmp_path_factory.mktemp("template")
    made = open_engine(root, target_partitions=1)
    for name, appends in (("few", 3), ("many", 6)):
        made.update(f"CREATE TABLE {name} (id BIGINT, p VARCHAR) PARTITIONED BY (p) WITH (compact_files = 1)")
        for number in range(appends):
            made.update(f"INSERT INTO {name} VALUES ({number}, 'a')")
    return root


@pytest.fixture
def engine(template: Path, tmp_path: Path) -> Engine:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return open_engine(tmp_path, target_partitions=1)


@pytest.fixture
def records(engine: Engine) -> MaintenanceRecords:
    return engine.maintained


@pytest.fixture
def mine(engine: Engine, records: MaintenanceRecords) -> Maintainer:
    """A maintainer that works when a test says so."""
    return Maintainer(engine.root, records, share=1.0, in_use=engine.clients.places_in_transactions)


def chosen(work: Work | None) -> tuple[str, str] | None:
    return None if work is None else (work.kind.value, work.name.name)


def ended(records: MaintenanceRecords) -> list[tuple[str, str, str]]:
    return [(record.kind, record.table, record.outcome) for record in records.records()]


def test_the_table_with_most_to_gain_is_first_and_what_is_in_use_is_left(engine: Engine) -> None:
    in_use: set[str] = set()
    chooser = WorkChooser(engine.root, lambda: in_use)
    work = chooser.choose()
    assert chosen(work) == ("compact", "many")
    assert work is not None
    in_use.add(work.table.place)
    assert chosen(chooser.choose()) == ("compact", "few")


def test_work_that_has_failed_is_left_for_a_while(engine: Engine) -> None:
    now = [0.0]
    chooser = WorkChooser(engine.root, set, now=lambda: now[0])
    work = chooser.choose()
    assert work is not None
    chooser.postpone(work)
    assert chosen(chooser.choose()) == ("compact", "few")
    now[0] += RETRY_SECONDS + 1
    assert chosen(chooser.choose()) == ("compact", "many")


def test_a_vacuum_that_is_due_is_first_and_not_again_at_once(engine: Engine, tmp_path: Path) -> None:
    engine.update("ALTER TABLE few SET (retain = '2h')")
    age(tmp_path / "few", hours=3)
    now = [0.0]
    chooser = WorkChooser(engine.root, set, now=lambda: now[0])
    work = chooser.choose()
    assert chosen(work) == ("vacuum", "few")
    assert chosen(chooser.choose()) == ("vacuum", "few"), "it is due until it is done"
    assert work is not None
    chooser.finish(work)
    assert chosen(chooser.choose()) == ("compact", "many")


def test_all_that_is_due_is_done_and_then_nothing(
    mine: Maintainer, records: MaintenanceRecords, engine: Engine
) -> None:
    before = time.time() - PATIENCE
    assert mine.step()
    assert mine.backlog["compact"] == 5 + 2
    while mine.step():
        pass
    assert ended(records) == [("compact", "many", "ok"), ("compact", "few", "ok")]
    totals = records.totals
    assert {key: count for key, count in totals.counts.items() if count} == {("compact", "ok"): 2}
    assert totals.seconds["compact"] > 0
    assert before < totals.succeeded["vacuum"] < totals.succeeded["compact"] <= time.time()
    assert mine.backlog["compact"] == 0
    found = engine.query("SELECT table_name, outcome, result FROM system.maintenance ORDER BY began").to_pylist()
    assert found[0]["table_name"] == "many"
    assert "6 files into 1" in found[0]["result"]
    assert engine.query("SELECT count(*) AS n, sum(id) AS s FROM many").to_pylist() == [{"n": 6, "s": 15}]


def test_a_table_with_too_many_files_in_all_is_compacted_where_no_partition_is_due(
    mine: Maintainer, records: MaintenanceRecords, engine: Engine
) -> None:
    engine.update("DROP TABLE few")
    engine.update("DROP TABLE many")
    engine.update("CREATE TABLE t (id BIGINT, p BIGINT) PARTITIONED BY (p) WITH (compact_files = 2)")
    parts = 17
    for _ in range(2):
        engine.update("INSERT INTO t VALUES " + ", ".join(f"(1, {p})" for p in range(parts)))
    assert not mine.step()
    engine.update("INSERT INTO t VALUES " + ", ".join(f"(1, {p})" for p in range(parts)))
    assert mine.step()
    assert not mine.step()
    assert [record.result for record in records.records()] == ["9 of 9 partition tables compacted, 27 files into 9"]
    assert engine.query("SELECT count(*) AS n, sum(id) AS s FROM t").to_pylist() == [{"n": 51, "s": 51}]


FAILURES = {
    "a full disk": (StorageFull("no space"), "storage_full", "no space"),
    "another writer": (Conflict("dropped"), "conflict", "dropped"),
    "an error of Lance": (OSError("damaged"), "error", "damaged"),
    "an error of ours": (KeyError("of ours"), "internal", "KeyError; the log of the server has the details"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_work_that_fails_is_recorded_and_the_next_is_done(
    mine: Maintainer,
    records: MaintenanceRecords,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: str,
) -> None:
    error, code, says = FAILURES[failure]

    def fail(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(maintainer, "compact", fail)
    while mine.step():
        pass
    assert ended(records) == [("compact", "many", code), ("compact", "few", "ok")]
    assert records.totals.counts["compact", code] == 1
    assert says in records.records()[0].result
    assert ("compact of table public.many\nTraceback" in caplog.text) == (code == "internal")


def test_a_look_that_fails_does_not_end_the_thread_and_other_tables_are_looked_at(
    mine: Maintainer, records: MaintenanceRecords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    survey, step, failed, done = Surveyor.survey, MaintenanceThread.step, [False], threading.Event()

    def broken(surveyor: Surveyor, table: Table) -> TableSurvey | None:
        if table.place.endswith("many"):
            raise KeyError("of ours")
        return survey(surveyor, table)

    def stepped(self: MaintenanceThread) -> bool:
        if self.chooser.kinds == {WorkKind.VACUUM}:
            return step(self)
        if not failed[0]:
            failed[0] = True
            raise KeyError("of the lease")
        if not step(self):
            done.set()
        return True

    monkeypatch.setattr(Surveyor, "survey", broken)
    monkeypatch.setattr(MaintenanceThread, "step", stepped)
    monkeypatch.setattr(maintainer, "FAILED_SECONDS", 0.0)
    mine.start()
    assert done.wait(PATIENCE)
    mine.stop()
    assert ended(records) == [("compact", "few", "ok")]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "maintenance cannot look at the root",
        "table public.many cannot be looked at, and is left alone for a while",
    ]


def test_one_that_is_stopped_undoes_what_it_has_written(
    mine: Maintainer, records: MaintenanceRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, run = table_files(tmp_path / "many"), Files.run

    def stopped(piece: Files) -> RewriteResult:
        written = run(piece)
        mine.interrupt()
        return written

    monkeypatch.setattr(Files, "run", stopped)
    assert mine.step()
    assert ended(records) == [("compact", "many", "cancelled")]
    assert table_files(tmp_path / "many") == before


@pytest.mark.parametrize("end", ["statement_timeout", "cancelled"])
def test_work_that_hangs_is_ended_with_its_process(
    mine: Maintainer, records: MaintenanceRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    before, start, started = table_files(tmp_path / "many"), pieces.Process.start, list[int]()

    def hanging() -> pieces.Process:
        process = start()
        os.kill(process.child.pid, signal.SIGSTOP)
        started.append(process.child.pid)
        if end == "cancelled":
            mine.interrupt()
        return process

    monkeypatch.setattr(pieces.Process, "start", hanging)
    monkeypatch.setattr(pieces, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(pieces.processes, "least", 0)
    monkeypatch.setattr(maintainer, "LONGEST_SECONDS", 0.5 if end == "statement_timeout" else 60.0)
    assert mine.step()
    assert ended(records) == [("compact", "many", end)]
    assert started
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert table_files(tmp_path / "many") == before


def test_a_transaction_that_begins_meanwhile_ends_the_compaction_of_its_table(
    engine: Engine, records: MaintenanceRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use: set[str] = set()
    beside = Maintainer(engine.root, records, share=1.0, in_use=lambda: in_use)
    run = Files.run

    def begun(piece: Files) -> RewriteResult:
        in_use.add(engine.root.table(TableName("public", "many")).place)
        return run(piece)

    monkeypatch.setattr(Files, "run", begun)
    assert beside.step()
    assert ended(records) == [("compact", "many", "cancelled")]


def test_a_transaction_that_begins_before_the_commit_of_a_rewrite_does_not_fail(
    mine: Maintainer,
    engine: Engine,
    records: MaintenanceRecords,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, run = engine.clients.session("client"), Files.run
    begun: list[bytes] = []
    written: list[str] = []

    def run_noting(piece: Files) -> RewriteResult:
        result = run(piece)
        written.extend(file.path for fragment in result.new_fragments for file in fragment.files)
        return result

    def begin(point: str) -> None:
        if point == "data_written" and not begun:
            begun.append(engine.clients.begin(session))
            engine.update("UPDATE many SET id = id + 100 WHERE id = 0", scope=Scope(session, begun[0]))

    monkeypatch.setattr(Files, "run", run_noting)
    monkeypatch.setattr(compaction, "failpoint", begin)
    assert mine.step()
    engine.clients.end(begun[0], commit=True)
    assert ended(records) == [("compact", "many", "cancelled")]
    assert engine.query("SELECT count(*) AS n, sum(id) AS s FROM many").to_pylist() == [{"n": 6, "s": 115}]
    assert len(written) == 1
    assert not [name for name in table_files(tmp_path / "many") if name.endswith(written[0])], "it is deleted again"
    while mine.step():
        pass
    assert engine.query("SELECT count(*) AS n, sum(id) AS s FROM many").to_pylist() == [{"n": 6, "s": 115}]


def test_small_files_are_joined_while_a_long_vacuum_runs(
    mine: Maintainer, records: MaintenanceRecords, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.update("ALTER TABLE few SET (retain = '2h')")
    age(tmp_path / "few", hours=3)
    compacted = threading.Event()
    records.observe(lambda record: compacted.set() if record.kind == "compact" else None)

    def long(*_: object, **__: object) -> VacuumReport:
        assert compacted.wait(PATIENCE)
        gone = Removed(kind="snapshots", name="few", amount=SweepTotals(files=1, bytes=7))
        return VacuumReport(dry_run=False, snapshots=1, removed=(gone,))

    monkeypatch.setattr(maintainer, "vacuum", long)
    mine.start()
    until(lambda: ("vacuum", "few", "ok") in ended(records))
    mine.stop()
    assert ("compact", "many", "ok") in ended(records)
    assert records.totals.freed == 7


def test_one_that_is_off_starts_nothing(engine: Engine, records: MaintenanceRecords) -> None:
    off = Maintainer(engine.root, records, share=0.0, in_use=set)
    off.start()
    off.stop()
    assert not off.is_on
    assert records.records() == []


def test_the_records_are_bounded_and_the_counts_are_not() -> None:
    records = MaintenanceRecords()
    for _ in range(MOST_RECORDS + 5):
        records.end(records.begin("public", "t", WorkKind.COMPACT.value, ""), "ok", "")
    assert len(records.records()) == MOST_RECORDS
    assert records.totals.counts["compact", "ok"] == MOST_RECORDS + 5
    records.begin("public", "t", "vacuum", "why")
    assert [(each.kind, each.outcome) for each in records.records()[-1:]] == [("vacuum", "running")]
