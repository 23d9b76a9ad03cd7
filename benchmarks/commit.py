"""Commits per second of one-row appends: alone ÷ a bare `merge_insert` of the same row, and many writers ÷ one.

The row is the one that an append changes: a partition table with its new pin. The peer merges it into a copy of the
manifest, in process as ours does; over the wire the service adds a call. Writers of one process share commits.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.model.naming import MANIFEST

from benchmarks import data
from benchmarks.bench import Bench
from benchmarks.results import COMMITS_PER_SECOND, FINE_MILLISECONDS, Aim, Result
from benchmarks.synthetic import empty
from benchmarks.timing import interleaved, timed

COMMITS = 10
"""In each round of each case."""
FEW_COMMITS, MANY_COMMITS = 100, 10_000
FEW_ROWS, FEW_PARTITIONS = 100, 60

WRITERS = (4, 16)
BARE, LOCAL, REMOTE = "bare", "appended", "sent"
START_ROWS = 10_000
COUNT = "SELECT count(*) AS n FROM {}"


def measure(bench: Bench) -> list[Result]:
    """One line in process, one over the wire."""
    start, row = data.make(START_ROWS), data.make(1)
    root = bench.scratch("commit")
    namespace = empty(root / LOCAL, data.SCHEMA, data.HUNDRED_BY)
    namespace.append([start], evaluate)
    peer = _Merge.beside(namespace, bench.place / "manifest")
    with bench.empty_servers("commit-server") as pair:
        pair.ours.ingest(REMOTE, start, partition_by=data.HUNDRED_BY)
        cases = {
            BARE: _many(peer.once),
            LOCAL: _many(lambda: namespace.append([row], evaluate)),
            REMOTE: _many(lambda: pair.ours.ingest(REMOTE, row)),
        }
        cases |= {_named(writers): _at_once(writers, namespace, start) for writers in WRITERS}
        seconds = interleaved({name: timed(case) for name, case in cases.items()}, bench.options.rounds)
        appended = (bench.options.rounds + 1) * COMMITS
        local = Engine(Root(Store(str(root))), target_partitions=1).query(COUNT.format(LOCAL))
        by_many = appended * sum(WRITERS)
        data.expect("rows after the appends in process", local.to_pylist(), [{"n": START_ROWS + appended + by_many}])
        sent = pair.ours.rows(COUNT.format(REMOTE))
        data.expect("rows after the appends over the wire", sent, [{"n": START_ROWS + appended}])
    speed = {name: COMMITS / taken for name, taken in seconds.items()}
    together = {writers: writers * speed[_named(writers)] for writers in WRITERS}
    return [
        *(
            Result(what=what, ours=speed[name], limit=speed[BARE], unit=COMMITS_PER_SECOND, aims=aims)
            for name, what, aims in (
                (LOCAL, "1-row appends in process", (Aim("ratio", "≥", 0.5),)),
                (REMOTE, "1-row appends over DoPut", ()),
            )
        ),
        *(
            Result(
                what=f"{writers} writers in process (limit: one)",
                ours=together[writers],
                limit=speed[LOCAL],
                unit=COMMITS_PER_SECOND,
                aims=(Aim("ratio", "≥", 5),) if writers == max(WRITERS) else (),
            )
            for writers in WRITERS
        ),
        *_few_rows(bench),
        _late_commits(bench),
    ]


def _named(writers: int) -> str:
    return f"{writers} writers"


def _at_once(writers: int, namespace: PartitionedNamespace, rows: pa.Table) -> Callable[[], None]:
    """As many appends by each of several threads, of a row of its own."""

    def write(number: int) -> None:
        _many(lambda: namespace.append([rows.slice(number, 1)], evaluate))()

    def run() -> None:
        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))

    return run


def _few_rows(bench: Bench) -> list[Result]:
    """A hundred rows for many partitions and for one, beside files that hold the same: all of them are flushed."""
    start, place = data.make(MANY_COMMITS), bench.scratch("few-rows")
    partitions = start[data.HUNDRED_BY]
    rows = {
        count: start.filter(pc.less(partitions, pa.scalar(count))).slice(0, FEW_ROWS) for count in (FEW_PARTITIONS, 1)
    }
    namespace = empty(place / "ours", data.SCHEMA, data.HUNDRED_BY)
    namespace.append([start], evaluate)
    files, table = duckdb.connect(), lance.write_dataset(start, place / "one.lance")

    def copy(added: pa.Table, mode: str) -> None:
        files.register("added", added)
        options = f"FORMAT parquet, PARTITION_BY ({data.HUNDRED_BY}), {mode}"
        files.execute(f"COPY added TO '{place / 'parquet'}' ({options})")
        flush(str(place))

    def add(added: pa.Table) -> None:
        lance.write_dataset(added, table, mode="append")
        flush(str(place))

    copy(start, "OVERWRITE_OR_IGNORE")
    peers: dict[int, tuple[str, Callable[[pa.Table], None]]] = {
        FEW_PARTITIONS: ("DuckDB's Parquet files", partial(copy, mode="APPEND")),
        1: ("one Lance table", add),
    }
    cases: dict[str, Callable[[], object]] = {
        f"ours {count}": partial(namespace.append, [added], evaluate) for count, added in rows.items()
    }
    cases |= {f"peer {count}": partial(peer, rows[count]) for count, (_, peer) in peers.items()}
    seconds = interleaved({name: timed(case) for name, case in cases.items()}, bench.options.rounds)
    return [
        Result(
            what=f"{rows[count].num_rows} rows into {count} partitions (limit: {peer})",
            ours=seconds[f"ours {count}"],
            limit=seconds[f"peer {count}"],
            unit=FINE_MILLISECONDS,
            aims=(Aim("ratio", "≤", 2),),
        )
        for count, (peer, _) in peers.items()
    ]


def _late_commits(bench: Bench) -> Result:
    """An append to a namespace with a long history beside one to a namespace with a short one."""
    start, row = data.make(START_ROWS), data.make(1)
    root = bench.scratch("history")
    cases = {}
    for commits in (FEW_COMMITS, MANY_COMMITS):
        namespace = empty(root / str(commits), data.SCHEMA, data.HUNDRED_BY)
        namespace.append([start], evaluate)
        snapshot = namespace.snapshot()
        for number in range(commits):
            tables = snapshot.tables[-1].rows
            snapshot = namespace.log.commit(snapshot, tables.slice(number % tables.num_rows, 1), "write back")
        cases[str(commits)] = timed(_many(partial(namespace.append, [row], evaluate)))
    seconds = interleaved(cases, bench.options.rounds)
    return Result(
        what=f"1-row append around the {MANY_COMMITS:,}th commit (limit: the {FEW_COMMITS}th)",
        ours=seconds[str(MANY_COMMITS)] / COMMITS,
        limit=seconds[str(FEW_COMMITS)] / COMMITS,
        unit=FINE_MILLISECONDS,
        aims=(Aim("ratio", "≤", 1.2),),
    )


class _Merge:
    """The peer: one row of a manifest, written back."""

    def __init__(self, manifest: lance.LanceDataset, row: pa.Table) -> None:
        self._manifest = manifest
        self._row = row

    @classmethod
    def beside(cls, namespace: PartitionedNamespace, place: Path) -> _Merge:
        """Over a copy of a namespace's manifest."""
        shutil.copytree(Path(namespace.store.uri) / MANIFEST, place)
        return cls(lance.dataset(str(place)), namespace.snapshot().tables[-1].rows.slice(0, 1))

    def once(self) -> None:
        """One commit."""
        merge = self._manifest.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        data.expect("rows merged", merge.execute(self._row)["num_updated_rows"], 1)


def _many(once: Callable[[], object]) -> Callable[[], None]:
    def many() -> None:
        for _ in range(COMMITS):
            once()

    return many
