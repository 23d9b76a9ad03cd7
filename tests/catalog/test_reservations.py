"""Reservations of a namespace: other writers wait for their end, never for longer than they last, and nobody is kept from committing."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.catalog.manifests import version_log
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.manifest_rows import guard_row, with_note
from lance_flight.catalog.manifests.version_log import reservation_of, reserve_turn
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.retries import RetryPolicy
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate

BRIEF = 0.3
INSERT = "INSERT INTO t VALUES (1)"


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    made = Engine(Root(Store(str(tmp_path))), target_partitions=2)
    made.update("CREATE TABLE t (id BIGINT) PARTITIONED BY (id)")
    return made


def opened(tmp_path: Path) -> PartitionedNamespace:
    """The namespace of another process."""
    return PartitionedNamespace.open(Store(str(tmp_path / "t")))


def count(engine: Engine) -> int:
    return int(engine.query("SELECT count(*) AS n FROM t")["n"][0].as_py())


def put_note(namespace: PartitionedNamespace, note: object) -> None:
    snapshot = namespace.snapshot()
    namespace.log.commit(snapshot, with_note(guard_row(snapshot), version_log.NOTE, note), "reserve")


OTHERS = {
    "a commit": INSERT,
    "a change of rows": "DELETE FROM t WHERE id = 7",
    "a change of the schema": "ALTER TABLE t ADD COLUMN n BIGINT",
    "a change of the spec": "ALTER TABLE t SET PARTITIONED BY (bucket(2, id))",
}


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
def test_others_wait_for_the_release(engine: Engine, tmp_path: Path, statement: str) -> None:
    engine.update("INSERT INTO t VALUES (7)")
    namespace = opened(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with reserve_turn(namespace.log, 5.0):
            version = namespace.snapshot().version
            waiting: Future[int] = pool.submit(engine.update, statement)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=BRIEF)
            assert namespace.snapshot().version == version
        waiting.result(timeout=version_log.MOST_SECONDS)
    assert reservation_of(namespace.snapshot()) is None


def test_the_holder_commits_and_others_of_its_process_wait_without_the_turn(engine: Engine) -> None:
    namespace = engine.root.table(next(iter(engine.root.tables())))
    assert isinstance(namespace, PartitionedNamespace)
    with ThreadPoolExecutor(4) as pool, reserve_turn(namespace.log, 5.0) as holder:
        others = [pool.submit(engine.update, INSERT) for _ in range(4)]
        began, waited = time.monotonic(), threading.Event()
        waited.wait(BRIEF)
        transaction = namespace.begin()
        transaction.reservation = holder
        namespace.write(transaction, [pa.table({"id": [2]})], evaluate)
        namespace.commits.commit(transaction)
        assert count(engine) == 1
        assert time.monotonic() - began < version_log.MOST_SECONDS
        assert not any(other.done() for other in others)
    assert [other.result() for other in others] == [1] * 4
    assert count(engine) == 5


NOTES = {
    "of a holder that died": lambda: {"holder": "x", "since": time.time(), "seconds": BRIEF},
    "of a clock that is ahead": lambda: {"holder": "x", "since": time.time() + 3600, "seconds": BRIEF},
    "of long ago": lambda: {"holder": "x", "since": time.time() - 3600, "seconds": 5.0},
    "for ever": lambda: {"holder": "x", "since": time.time(), "seconds": 1e9},
    "of another kind": lambda: ["x"],
    "without its seconds": lambda: {"holder": "x", "since": 1},
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_nobody_waits_for_longer_than_a_reservation_lasts(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: type
) -> None:
    monkeypatch.setattr(version_log, "MOST_SECONDS", 2 * BRIEF)
    put_note(opened(tmp_path), note())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(engine.update, INSERT).result(timeout=10.0) == 1
        pool.submit(engine.update, "ALTER TABLE t ADD COLUMN n BIGINT").result(timeout=10.0)
    assert count(engine) == 1


def test_the_last_reservation_counts_and_none_stays(engine: Engine, tmp_path: Path) -> None:
    namespace = opened(tmp_path)
    with reserve_turn(namespace.log, 1.0) as first, reserve_turn(namespace.log, 1.0) as second:
        found = reservation_of(namespace.snapshot())
        assert found is not None
        assert found.holder == second != first
    assert reservation_of(namespace.snapshot()) is None
    assert engine.update(INSERT) == 1


def test_a_namespace_is_reserved_after_a_change_that_its_metadata_lacks(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer died before it stored there what its commit says."""
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "follow", lambda *_: None)
        engine.update("ALTER TABLE t ADD COLUMN n BIGINT")
    namespace = opened(tmp_path)
    monkeypatch.setattr(version_log, "COMMIT", RetryPolicy(1))
    with reserve_turn(namespace.log, 1.0) as holder:
        found = namespace.snapshot()
        assert found.pending
        assert reservation_of(found).holder == holder
    assert reservation_of(namespace.snapshot()) is None
    assert engine.update("INSERT INTO t VALUES (1, 2)") == 1
