"""Scalar indices: every table has one after one commit, filters use it, and no change of rows or columns makes an answer wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from lance_flight.catalog.bulk.pieces import THREADS, PieceWork
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.indexing import create_index
from lance_flight.catalog.maintenance.rewriting import rewrite
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import INDICES
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables.indices import IndexRules
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import InvalidInput, LanceFlightError, NotFound, Unsupported
from lance_flight.model.index_kinds import KINDS

from tests.catalog.aging import age
from tests.stock import manifest, stored_tables

pytestmark = pytest.mark.slow  # every kind of index

ROWS = 60


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=2)
    engine.update("CREATE TABLE t (id INT, c VARCHAR, p BIGINT, l BIGINT[]) PARTITIONED BY (p)")
    values = ", ".join(f"({n}, 'c{n % 7}', {n % 3}, [{n % 5}])" for n in range(ROWS))
    engine.update(f"INSERT INTO t VALUES {values}")
    return engine


def opened(engine: Engine) -> PartitionedNamespace:
    return PartitionedNamespace.open(engine.root.store.child("t"))


def rows(engine: Engine, sql: str) -> list[dict[str, Any]]:
    plan = engine.plan(sql, None, scope=Scope())
    assert plan is not None
    return [row for task in plan.tasks for batch in engine.run(task) for row in batch.to_pylist()]


def indices(engine: Engine) -> dict[str, list[str]]:
    """The indices of each partition table, as stock Lance sees them."""
    stored = stored_tables(Path(engine.root.store.uri) / "t")
    return {each.object_id: [index.name for index in each.dataset.describe_indices()] for each in stored}


def test_every_table_has_the_index_after_one_commit(engine: Engine) -> None:
    before = opened(engine).snapshot().version
    report = create_index(opened(engine), IndexRules(min_rows=0, column="id"))
    assert (report.snapshot, report.tables, report.rows) == (before + 1, 3, ROWS)
    assert manifest(Path(engine.root.store.uri) / "t").version == before + 1
    assert list(indices(engine).values()) == [["id_idx"]] * 3
    for stored in stored_tables(Path(engine.root.store.uri) / "t"):
        assert "ScalarIndexQuery" in stored.dataset.scanner(filter="id = 4").explain_plan()
    assert rows(engine, "SELECT p FROM t WHERE id = 4") == [{"p": 1}]


def test_a_process_that_builds_an_index_is_sent_each_kind() -> None:
    assert all(pickle.loads(pickle.dumps(kind)) is kind for kind in KINDS.values())  # noqa: S301 - of this process


def test_a_second_run_does_what_is_new(engine: Engine) -> None:
    create_index(opened(engine), IndexRules(min_rows=0, column="id", name="mine"))
    version = opened(engine).snapshot().version
    again = create_index(opened(engine), IndexRules(min_rows=0, column="id", name="mine"))
    assert (again.snapshot, again.tables) == (version, 0)
    engine.update("INSERT INTO t VALUES (1000, 'x', 1, NULL)")
    third = create_index(opened(engine), IndexRules(min_rows=0, column="id", name="mine"))
    assert (third.tables, third.rows) == (1, 1)
    assert list(indices(engine).values()) == [["mine"]] * 3


@pytest.mark.parametrize(
    ("column", "kind"),
    [("id", "BTREE"), ("c", "bitmap"), ("id", "ZONEMAP"), ("c", "BLOOMFILTER"), ("l", "LABEL_LIST"), ("c", "NGRAM")],
)
def test_kinds(engine: Engine, column: str, kind: str) -> None:
    create_index(opened(engine), IndexRules(min_rows=0, column=column, kind=kind))
    assert rows(engine, "SELECT count(*) AS n FROM t WHERE id < 30 AND c = 'c3'") == [{"n": 4}]


REFUSED = [
    pytest.param({"column": "id", "kind": "IVF"}, InvalidInput, "'IVF'.*btree", id="no scalar index"),
    pytest.param({"column": "idd"}, NotFound, "'idd'.*'id'", id="no column"),
    pytest.param({"column": "l", "kind": "NGRAM"}, Unsupported, "ngram.*'l'.*list", id="another type"),
]


@pytest.mark.parametrize(("rules", "error", "says"), REFUSED)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    engine: Engine, rules: dict[str, str], error: type[LanceFlightError], says: str
) -> None:
    place = Path(engine.root.store.uri) / "t"
    before = manifest(place).version
    with pytest.raises(error, match=says):
        create_index(opened(engine), IndexRules(min_rows=0, **rules))
    assert manifest(place).version == before
    assert [path for path in place.glob(f"*/{INDICES}/*") if "__manifest" not in path.parts] == []


CHANGES = [
    "INSERT INTO t SELECT id + 100, c, p, l FROM t",
    "DELETE FROM t WHERE id % 4 = 0",
    "UPDATE t SET id = id + 1000 WHERE id % 5 = 0",
    "ALTER TABLE t COMPACT",
    "ALTER TABLE t RENAME COLUMN id TO number",
    "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
    "ALTER TABLE t DROP COLUMN c",
]


@pytest.mark.parametrize("change", CHANGES)
def test_answers_stay_right_after_changes(engine: Engine, change: str) -> None:
    engine.update("INSERT INTO t SELECT id + 200, c, p, l FROM t")
    twin = "SELECT * FROM t WHERE {0} BETWEEN 3 AND 220 OR {0} = 1010"
    create_index(opened(engine), IndexRules(min_rows=0, column="id"))
    if change.endswith("COMPACT"):
        assert compact(opened(engine)).versions
    else:
        engine.update(change)
    name = "number" if "RENAME" in change else "id"
    found = rows(engine, twin.format(name))
    # Arithmetic keeps every index out of it.
    expected = rows(engine, twin.format(f"({name} + 0)"))
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert found
    assert create_index(opened(engine), IndexRules(min_rows=0, column=name, name="id_idx")).snapshot
    assert sorted(map(str, rows(engine, twin.format(name)))) == sorted(map(str, expected))


def test_rows_may_be_rewritten_vacuumed_and_verified_under_an_index(engine: Engine) -> None:
    create_index(opened(engine), IndexRules(min_rows=0, column="id"))
    engine.update("ALTER TABLE t SET PARTITIONED BY (bucket(2, id))")
    engine.update("DELETE FROM t WHERE id = 7")
    rewrite(opened(engine), evaluate)
    create_index(opened(engine), IndexRules(min_rows=0, column="id"))
    vacuum(opened(engine), VacuumRules(retain_hours=0, transaction_hours=0, force=True).check())
    assert verify(opened(engine), evaluate).unsound == []
    assert rows(engine, "SELECT p FROM t WHERE id IN (5, 7)") == [{"p": 2}]


def test_a_segment_that_was_vacuumed_before_its_commit_is_built_again(engine: Engine) -> None:
    """The segment of another table took longer than a day, and this one was waiting for the commit of both."""
    place, built = Path(engine.root.store.uri) / "t", []

    def run(pieces: Any, *watchers: Any) -> Any:
        results = THREADS(pieces, *watchers)
        if not built:
            waiting = next(piece.place.uri for piece in pieces)
            age(Path(waiting) / INDICES, hours=25)
            vacuum(opened(engine), VacuumRules())
            assert not list((Path(waiting) / INDICES).glob("*/*"))
        built.append(len(pieces))
        return results

    report = create_index(opened(engine), IndexRules(min_rows=0, column="id"), PieceWork(run=run))
    assert built == [3, 1]
    assert (report.tables, report.rows) == (3, ROWS)
    assert [list(each.dataset.describe_indices()[0].field_names) for each in stored_tables(place)] == [["id"]] * 3
    assert rows(engine, "SELECT id FROM t WHERE id IN (3, 4, 5) ORDER BY id") == [{"id": 3}, {"id": 4}, {"id": 5}]


def test_a_table_that_is_written_to_meanwhile_has_the_index_of_what_it_covers(engine: Engine) -> None:
    built: list[str] = []

    def run(pieces: Any, *watchers: Any) -> Any:
        results = THREADS(pieces, *watchers)
        if not built:
            engine.update("INSERT INTO t VALUES (500, 'x', 0, NULL)")
            engine.update("DELETE FROM t WHERE id = 3")
            engine.update("DELETE FROM t WHERE p = 1")
        built.extend(piece.object_id for piece in pieces)
        return results

    report = create_index(opened(engine), IndexRules(min_rows=0, column="id"), PieceWork(run=run))
    assert (report.tables, report.rows) == (2, ROWS // 3 * 2)
    # What was built is put on the newer versions.
    assert len(built) == 3
    assert sorted(indices(engine).values()) == [[], ["id_idx"], ["id_idx"]]
    assert rows(engine, "SELECT id FROM t WHERE id IN (3, 4, 500, 6) ORDER BY id") == [{"id": 6}, {"id": 500}]


def test_an_index_of_files_that_were_compacted_meanwhile_is_built_again(engine: Engine) -> None:
    engine.update("INSERT INTO t VALUES (500, 'x', 0, NULL)")
    built: list[str] = []

    def run(pieces: Any, *watchers: Any) -> Any:
        results = THREADS(pieces, *watchers)
        if not built:
            assert compact(opened(engine)).tables
        built.extend(piece.object_id for piece in pieces)
        return results

    assert create_index(opened(engine), IndexRules(min_rows=0, column="id"), PieceWork(run=run)).rows == ROWS + 1
    assert len(built) == 4
    for stored in stored_tables(Path(engine.root.store.uri) / "t"):
        (index,) = stored.dataset.describe_indices()
        assert index.num_rows_indexed == stored.dataset.count_rows()
