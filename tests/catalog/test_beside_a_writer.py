"""Long work beside a process that commits all the time: it ends, loses and repeats no row, and leaves no file of no version."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.column_changes import backfill
from lance_flight.engine.writes.computed_columns import PythonFunction, SqlExpression

from tests.catalog.steady_writer import FIRST_NEW, PARTITIONS, writing
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # a process that writes all the time

BOUND = 60.0
"""Seconds; it takes about three."""
ROWS = PARTITIONS * 20
FEW = 16
"""Partitions of a table that nobody else writes."""


def filled_table(place: Path, partitions: int) -> Engine:
    place.mkdir()
    made = Engine(Root(Store(str(place))), target_partitions=2)
    made.update("CREATE TABLE t (id BIGINT, p BIGINT, n BIGINT) PARTITIONED BY (p)")
    made.update(f"INSERT INTO t SELECT value, value % {partitions}, 0 FROM generate_series(0, {partitions * 20 - 1})")
    return made


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return filled_table(tmp_path / "root", PARTITIONS)


def moved(engine: Engine) -> int:
    report = engine.query("ALTER TABLE t REWRITE PARTITIONS")
    return int(report["snapshot"].to_pylist()[-1])


def respecified(engine: Engine) -> None:
    engine.update("ALTER TABLE t SET PARTITIONED BY (bucket(4, id))")


def filled(engine: Engine) -> int:
    return backfill(engine.root, TableName("public", "t"), "more", SqlExpression("id * 2"))


WORK = {
    "rewrite": (respecified, moved),
    "backfill": (lambda _: None, filled),
}


@pytest.mark.parametrize("kind", ["append", "update"])
@pytest.mark.parametrize(("before", "work"), WORK.values(), ids=WORK)
def test_it_ends_and_every_row_is_there_once(
    engine: Engine, tmp_path: Path, before: Callable[[Engine], None], work: Callable[[Engine], int], kind: str
) -> None:
    before(engine)
    root = tmp_path / "root"
    with writing(root, kind) as written, ThreadPoolExecutor(1) as pool:
        version = pool.submit(work, engine).result(timeout=BOUND)
    found = engine.query("SELECT id, p, n FROM t").to_pydict()
    assert sum(found["n"]) == written.rows
    assert len(set(found["id"])) == len(found["id"]) == ROWS + (written.rows if kind == "append" else 0)
    assert all(p == i % PARTITIONS for i, p in zip(found["id"], found["p"], strict=True) if i < FIRST_NEW)
    if work is filled:
        assert (
            engine.query(f'SELECT count(*) AS c FROM "t@{version}" WHERE more IS DISTINCT FROM id * 2')["c"][0].as_py()
            == 0
        )
        assert engine.query("SELECT count(*) AS c FROM t WHERE more <> id * 2")["c"][0].as_py() == 0
    else:
        assert {stored.spec_id for stored in stored_tables(root / "t")} == {2}
    assert of_no_version(root / "t") == set()


def test_a_backfill_writes_one_file_for_each_that_there_is(engine: Engine, tmp_path: Path) -> None:
    """However often it begins again: what was appended since its last attempt is all that it computes anew."""
    with writing(tmp_path / "root", "append") as written, ThreadPoolExecutor(1) as pool:
        pool.submit(filled, engine).result(timeout=BOUND)
    assert len(data_files(tmp_path / "root" / "t")) <= 2 * (PARTITIONS + written.rows)


def data_files(place: Path) -> set[str]:
    found = place.glob("*/data/*.lance")
    return {str(path.relative_to(place)) for path in found if not str(path.relative_to(place)).startswith("__manifest")}


def of_no_version(place: Path) -> set[str]:
    """The data files that no version of their table has, staged ones included: vacuum knows those by their versions."""
    referred: set[str] = set()
    for directory in {path.parent.parent for path in place.glob("*/data/*.lance")}:
        if not directory.name.startswith("__manifest"):
            dataset = lance.dataset(str(directory))
            for version in dataset.versions():
                fragments = dataset.checkout_version(version["version"]).get_fragments()
                names = (file.path for fragment in fragments for file in fragment.metadata.files)
                referred |= {f"{directory.name}/data/{name}" for name in names}
    return data_files(place) - referred


MEANWHILE = {
    # What others do between an attempt and its commit, one after another, and how many rows have to be computed again.
    "rows are added": (["INSERT INTO t (id, p, n) VALUES (1000000, 1, 0)"] * 2, 2),
    "rows go": (["DELETE FROM t WHERE id = 3", "DELETE FROM t WHERE id = 4"], 0),
    "rows go from files that lack some": (["DELETE FROM t WHERE id = 50", "DELETE FROM t WHERE id = 98"], 0),
    "rows change": (["UPDATE t SET n = 1 WHERE id IN (3, 4)"], 2),
    "rows come back": (["ALTER TABLE t ROLLBACK TO {whole}"], 20),
    "a file takes the place of others": (
        ["INSERT INTO t (id, p, n) VALUES (1000001, 1, 0)", "ALTER TABLE t COMPACT"],
        1 + (20 + 1),
    ),
    "a table is made": (["INSERT INTO t (id, p, n) VALUES (5, 5555, 0)"], 1),
    "a table goes": (["ALTER TABLE t DROP PARTITION (p = 7)"], 0),
    "all rows of a table go": (["DELETE FROM t WHERE p = 7"], 0),
}


@pytest.mark.parametrize(("statements", "again"), MEANWHILE.values(), ids=MEANWHILE)
def test_only_what_is_new_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: list[str], again: int
) -> None:
    engine = filled_table(tmp_path / "root", FEW)
    whole = engine.query("SELECT max(version) AS v FROM t$snapshots")["v"][0].as_py()
    engine.update("DELETE FROM t WHERE id = 2")
    computed: list[int] = []
    waiting = [statement.format(whole=whole) for statement in statements]

    def values(batch: pa.RecordBatch) -> pa.Array:
        computed.append(batch.num_rows)
        return pc.multiply(batch["id"], 2)

    def commit(*arguments: Any) -> int | None:
        if waiting and threading.current_thread() is threading.main_thread():
            with monkeypatch.context() as patch:
                patch.setattr(Manifest, "_send", committed)
                statement = waiting.pop(0)
                (engine.query if "COMPACT" in statement else engine.update)(statement)
        return committed(*arguments)

    committed = Manifest._send
    monkeypatch.setattr(Manifest, "_send", commit)
    version = backfill(engine.root, TableName("public", "t"), "more", PythonFunction(("id",), values), pa.int64())
    assert not waiting
    assert (
        engine.query(f'SELECT count(*) AS c FROM "t@{version}" WHERE more IS DISTINCT FROM id * 2')["c"][0].as_py() == 0
    )
    assert sum(computed) == FEW * 20 - 1 + again
    assert of_no_version(Path(engine.root.store.uri) / "t") == set()
