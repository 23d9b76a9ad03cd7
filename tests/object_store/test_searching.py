"""Indices and searches of a root in an object store."""

from __future__ import annotations

import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.engine import Engine

from tests.object_store.bucket import Bucket
from tests.search.collection import Documents, fill, literal, query, store
from tests.search.layouts import CHECKS, LAYOUTS, lance_plans, lay_out, units, vectors
from tests.selection import IS_FULL

ROWS = 120
VECTOR = [0.25] * 8
NEAREST = f"SELECT id FROM vector_search('docs', 'embedding', {literal(VECTOR)}, k => 9, nprobes => 100)"
LANCE = "SELECT id FROM full_text_search('docs', 'body', 'lance', k => 1000)"


@pytest.fixture
def engine(bucket: Bucket) -> Engine:
    return Engine(Root(bucket.store), target_partitions=2)


def ids(engine: Engine, sql: str) -> list[int]:
    return [row["id"] for row in query(engine, sql)]


def test_indices_are_made_used_renewed_and_dropped(engine: Engine) -> None:
    documents, more = Documents.random(ROWS), Documents.random(ROWS, seed=1, start=ROWS)
    both = Documents([*documents.rows, *more.rows])
    nearest = [number for _, number in both.nearest(VECTOR)]
    fill(engine, documents)
    engine.update("CREATE INDEX v ON docs (embedding) USING ivf_flat WITH (num_partitions = 2, min_rows = 1)")
    engine.update("CREATE INDEX b ON docs (body) USING inverted")
    engine.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    assert ids(engine, NEAREST) == [number for number in nearest if number < ROWS][:9]
    store(engine, more)
    for change in (None, "REINDEX docs", "ALTER TABLE docs COMPACT"):
        if change is not None:
            engine.query(change)
        assert ids(engine, NEAREST) == nearest[:9]
        assert sorted(ids(engine, LANCE)) == [row["id"] for row in both.rows if "lance" in (row["body"] or "").split()]
        assert sorted(ids(engine, "SELECT id FROM docs WHERE price = 3")) == [
            row["id"] for row in both.rows if row["price"] == 3
        ]
    assert {row["indexed_rows"] for row in query(engine, "SHOW INDEXES FROM docs")} == {2 * ROWS}
    for name in ("v", "b", "p"):
        engine.update(f"DROP INDEX {name} ON docs")
    assert query(engine, "SHOW INDEXES FROM docs") == []
    assert ids(engine, NEAREST) == nearest[:9]


def test_elements_of_lists_are_looked_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.update("CREATE TABLE docs (id BIGINT, p BIGINT, tags VARCHAR[]) PARTITIONED BY (p)")
    stored = [f"({number}, {number % 3}, ['{number % 4}', NULL])" for number in range(36)]
    engine.update(f"INSERT INTO docs VALUES {', '.join(stored)}, (36, 0, NULL)")
    engine.update("CREATE INDEX t ON docs (tags) USING label_list WITH (min_rows = 1)")
    engine.update("INSERT INTO docs VALUES (37, 1, ['2'])")
    engine.update("DELETE FROM docs WHERE id = 6")
    plans = lance_plans(monkeypatch)
    found = ids(engine, "SELECT id FROM docs WHERE array_has(tags, '2')")
    assert sorted(found) == [*(number for number in range(36) if number % 4 == 2 and number != 6), 37]
    assert plans
    assert all("]@t(LabelList)" in plan for plan in plans), plans


LAID_OUT = [("partitions", "first"), ("branch", "first")]
if IS_FULL:
    LAID_OUT += [("partitions", "never"), *((layout, "first") for layout in ("plain", "deletions", "stable ids"))]


def test_partitions_are_searched_as_one(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(engine, LAYOUTS["deletions"], Documents.random(ROWS, seed=11), "first")
    with units(monkeypatch) as found:
        for condition in (None, "id % 3 = 1"):
            vectors(engine, "docs", condition)
    assert found == [1, 1]


@pytest.mark.parametrize(("layout", "indexed"), LAID_OUT)
def test_a_search_finds_what_comparing_every_row_finds(engine: Engine, layout: str, indexed: str) -> None:
    documents = Documents.random(ROWS, seed=11)
    lay_out(engine, LAYOUTS[layout], documents, indexed)
    for check in CHECKS.values():
        check(engine, LAYOUTS[layout], documents, indexed)
