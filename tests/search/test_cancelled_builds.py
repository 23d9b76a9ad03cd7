"""Builds of indices that are cancelled: the statement is over at once, tables that were done keep their segments, and nothing else is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance_flight.backend_values import CancelStatus, IfExists
from lance_flight.catalog.bulk import pieces
from lance_flight.catalog.bulk.pieces import check_stopped, workers_beside_queries
from lance_flight.catalog.maintenance import indexing
from lance_flight.catalog.maintenance.indexing import BuildSegment
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.catalog.storage.whole_files import INDICES
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.running_statement import Issuer, Record
from lance_flight.errors import Cancelled

from tests.engine.database import open_engine
from tests.engine.waiting import until
from tests.search.collection import Documents, made, query, store
from tests.stock import stored_tables

TABLES, ROWS = 5, 400
ALICE = Issuer(principal="alice", session="a1", peer="here")
SUM = "SELECT count(*) AS n, sum(price) AS s FROM docs"
CREATE = "CREATE INDEX i ON docs (price) WITH (min_rows = 1)"


def to_index(root: Path, sql: str) -> Engine:
    """Tables without any segment, and the index where the statement is not the one that makes it."""
    docs = made(root, Documents([]))
    if sql != CREATE:
        docs.update(CREATE)
    store(docs, Documents.random(ROWS))
    return docs


@pytest.fixture
def docs(tmp_path: Path) -> Engine:
    return made(tmp_path / "root", Documents.random(ROWS))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Builds of segments that take as long as they may, after the first two of them, all others at once; how many have ended."""
    begun, ended = [], []
    build = BuildSegment.run

    def run(piece: BuildSegment) -> lance.Index:
        begun.append(piece.object_id)
        if len(begun) <= 2:
            return build(piece)
        try:
            while True:
                check_stopped()
                threading.Event().wait(0.01)
        finally:
            ended.append(piece.object_id)

    monkeypatch.setattr(BuildSegment, "run", run)
    monkeypatch.setattr(indexing, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(pieces, "cores", lambda: 2 * TABLES)
    return lambda: len(ended)


def stored(docs: Engine) -> list[str]:
    """The segments that partition tables have at their pins, as stock Lance sees them."""
    tables = stored_tables(Path(docs.root.store.uri) / "docs")
    return [s.uuid for each in tables for index in each.dataset.describe_indices() for s in index.segments]


def written(docs: Engine) -> list[str]:
    """The segments that lie in the directories of partition tables."""
    return [path.name for path in (Path(docs.root.store.uri) / "docs").glob(f"*dataset/{INDICES}/*")]


def begin(docs: Engine, pool: ThreadPoolExecutor, sql: str) -> tuple[Future[object], Record]:
    """Run a statement until two of its tables are done; what it will return, and its record."""
    running = pool.submit(lambda: docs.execute(sql, scope=Scope(issuer=ALICE)))
    until(lambda: [record for record in docs.running.records() if record.partitions_scanned == 2])
    (record,) = docs.running.records()
    return running, record


def is_over() -> bool:
    """Whether no work goes on whose statement has ended."""
    return not [thread for thread in threading.enumerate() if thread.name.startswith(("awaited", "piece"))]


@pytest.mark.parametrize("sql", [CREATE, "REINDEX docs"])
def test_a_build_is_cancelled_at_once_and_goes_on_where_it_was(
    tmp_path: Path, waiting: Callable[[], int], monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    docs = to_index(tmp_path / "root", sql)
    with ThreadPoolExecutor(1) as pool:
        running, record = begin(docs, pool, sql)
        rows = query(docs, "SELECT progress, partitions_scanned, partitions_total, rows FROM system.queries")[0]
        assert (rows["progress"], rows["partitions_scanned"], rows["partitions_total"]) == (2 / TABLES, 2, TABLES)
        assert 0 < rows["rows"] < ROWS
        assert docs.running.cancel(record.id, ALICE) is CancelStatus.CANCELLED
        with pytest.raises(Cancelled, match="the statement was cancelled"):
            running.result(10)
    until(lambda: waiting() == TABLES - 2)
    until(is_over)
    assert len(stored(docs)) == 2
    assert sorted(written(docs)) == sorted(stored(docs))
    monkeypatch.undo()
    assert query(docs, "REINDEX docs")[0]["tables"] == TABLES - 2
    assert query(docs, "SHOW INDEXES FROM docs")[0]["indexed_tables"] == TABLES


End = Callable[[Engine, Record, threading.Event], object]
ENDS: dict[str, tuple[End, str]] = {
    "its client goes away": (lambda _docs, _record, gone: gone.set(), "the client disconnected"),
    "KILL": (lambda docs, record, _: docs.update(f"KILL '{record.id}'"), "the statement was cancelled"),
    "it takes too long": (
        lambda docs, record, _: docs.running._statements[record.id].limit(1e-9),
        r"ended after 1e-09 s, which the session or the server gives it",
    ),
}


@pytest.mark.parametrize(("end", "said"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("sql", [CREATE, "REINDEX docs"])
def test_a_build_is_over_at_once_where_it_cannot_stop_and_opens_no_other_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, end: End, said: str
) -> None:
    """A commit cannot stop, and takes long in a slow store."""
    docs = to_index(tmp_path / "root", sql)
    commits, may_commit, gone = threading.Event(), threading.Event(), threading.Event()
    opened: list[object] = []
    look, commit = indexing.missing_segment, indexing.stage

    def looking(*arguments: Any, **named: Any) -> Any:
        opened.append(arguments)
        return look(*arguments, **named)

    def staged(*arguments: Any, **named: Any) -> Any:
        commits.set()
        may_commit.wait()
        return commit(*arguments, **named)

    monkeypatch.setattr(indexing, "TABLES_PER_COMMIT", 1)
    monkeypatch.setattr(indexing, "missing_segment", looking)
    monkeypatch.setattr(indexing, "stage", staged)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: docs.execute(sql, scope=Scope(issuer=replace(ALICE, is_gone=gone.is_set))))
        try:
            until(commits.is_set)
            (record,) = docs.running.records()
            end(docs, record, gone)
            with pytest.raises(Cancelled, match=said):
                running.result(10)
        finally:
            may_commit.set()
    until(is_over)
    assert (len(opened), len(stored(docs))) == (1, 1)
    assert sorted(written(docs)) == sorted(stored(docs))


MANY = 20_000


@pytest.mark.parametrize(("column", "kind"), [("v", "ivf_hnsw_sq"), ("body", "inverted")])
def test_a_segment_is_given_up_while_lance_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, kind: str
) -> None:
    docs = open_engine(tmp_path / "root")
    vectors = np.random.default_rng(1).normal(size=(MANY, 16)).astype(np.float32)
    columns = {
        "id": pa.array(range(MANY)),
        "body": [f"word{number % 997} text{number}" for number in range(MANY)],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16),
    }
    docs.update("CREATE TABLE docs (id BIGINT, body VARCHAR, v FLOAT[16]) PARTITIONED BY (bucket(1, id))")
    rows = pa.table(columns).to_reader()
    docs.ingest(TableName(PUBLIC, "docs"), rows, create_missing=False, existing=IfExists.APPEND)
    calls = []

    def check() -> None:
        calls.append(None)
        raise Cancelled("enough")

    monkeypatch.setattr(indexing, "check_stopped", check)
    with pytest.raises(Cancelled, match="enough"):
        docs.update(f"CREATE INDEX ON docs ({column}) USING {kind}")
    assert calls
    assert (stored(docs), written(docs)) == ([], [])


def test_what_is_built_is_committed_before_the_next_table_is_done(
    docs: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "COMMIT_SECONDS", 0.0)
    seen: list[int] = []
    built = indexing.stage

    def staged(*arguments: Any, **named: Any) -> Any:
        seen.append(len(stored(docs)))
        return built(*arguments)

    monkeypatch.setattr(indexing, "stage", staged)
    docs.update(CREATE)
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("cores", "is_remote", "workers"),
    [(1, False, 1), (2, False, 1), (3, False, 1), (4, False, 2), (64, False, 4), (1, True, 4), (64, True, 4)],
)
def test_half_of_the_cores_is_left_to_queries(
    monkeypatch: pytest.MonkeyPatch, *, cores: int, is_remote: bool, workers: int
) -> None:
    monkeypatch.setattr(pieces, "cores", lambda: cores)
    assert workers_beside_queries(is_remote=is_remote) == workers


@pytest.mark.parametrize("sql", [CREATE, "REINDEX docs"])
def test_a_server_builds_as_many_segments_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    docs = to_index(tmp_path / "root", sql)
    workers: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, most: int, thread_name_prefix: str) -> None:
            workers.append(most)
            super().__init__(most, thread_name_prefix)

    monkeypatch.setattr(pieces, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(pieces, "cores", lambda: 4)
    docs.update(sql)
    assert workers == [2]
    assert len(stored(docs)) == TABLES


COMPACT, REWRITE = "ALTER TABLE docs COMPACT", "ALTER TABLE docs REWRITE PARTITIONS"


@pytest.mark.parametrize(
    ("sql", "end"),
    [(sql, "cancelled") for sql in (CREATE, "REINDEX docs", COMPACT, REWRITE, "VERIFY TABLE docs")]
    + [(COMPACT, "ended after 1 s")],
)
def test_work_that_hangs_is_ended_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, end: str
) -> None:
    docs = made(tmp_path / "root", Documents.random(20))
    if sql != CREATE:
        docs.update(CREATE)
    store(docs, Documents.random(20))
    if sql == REWRITE:
        docs.update("ALTER TABLE docs SET PARTITIONED BY ()")
    before = query(docs, SUM)
    started: list[Any] = []
    start = pieces.Process.start

    def hanging() -> pieces.Process:
        process = start()
        os.kill(process.child.pid, signal.SIGSTOP)
        started.append(process)
        return process

    monkeypatch.setattr(pieces.Process, "start", hanging)
    monkeypatch.setattr(pieces, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(pieces.processes, "least", 0)
    if end != "cancelled":
        docs.apply(replace(docs.limits, statement_timeout=1.0))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: docs.execute(sql, scope=Scope(issuer=ALICE)))
        until(lambda: started or running.done())
        if end == "cancelled":
            (record,) = docs.running.records()
            assert docs.running.cancel(record.id, ALICE) is CancelStatus.CANCELLED
        with pytest.raises(Cancelled, match=end):
            running.result(10)
    until(is_over)
    assert [process.child.wait(10) for process in started] == [-signal.SIGKILL] * len(started)
    monkeypatch.undo()
    docs.apply(replace(docs.limits, statement_timeout=0.0))
    assert query(docs, SUM) == before
    docs.execute(sql)
    assert query(docs, SUM) == before
