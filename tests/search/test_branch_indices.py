"""Indices of branches: the branch's alone until it is published, with the rows that they are about."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.errors import SerializationFailure

from tests.engine.database import open_engine
from tests.search.collection import Documents, query, store
from tests.search.layouts import ON_A_BRANCH, VECTOR, Layout, create_indices, lay_out, vectors

ROWS = 300


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(ROWS, seed=11)


def listed(of: Engine, table: str) -> dict[str, tuple[int, int]]:
    """The indices of a table, with the numbers of tables and rows that they are about."""
    found = query(of, f'SHOW INDEXES FROM "{table}"')
    return {row["name"]: (row["indexed_tables"], row["indexed_rows"]) for row in found}


@pytest.fixture
def branched(tmp_path: Path, documents: Documents) -> Engine:
    """A table of half of the rows, with a branch that has the others as well."""
    of = open_engine(tmp_path / "root")
    lay_out(of, Layout(between=ON_A_BRANCH), documents, "never")
    return of


def test_an_index_of_a_branch_is_that_of_the_branch_alone_until_it_is_published(
    branched: Engine, documents: Documents
) -> None:
    create_indices(branched, "docs@draft")
    assert listed(branched, "docs@draft") == {"v": (5, ROWS), "words": (5, ROWS)}
    assert listed(branched, "docs") == {}
    store(branched, Documents.random(40, seed=3, start=5000), "docs@draft")
    assert listed(branched, "docs@draft")["v"] == (5, ROWS)
    assert {row["rows"] for row in query(branched, 'REINDEX "docs@draft"')} == {40}
    branched.update('DROP INDEX words ON "docs@draft"')
    branched.update("ALTER TABLE docs PUBLISH BRANCH draft")
    assert listed(branched, "docs") == listed(branched, "docs@draft") == {"v": (5, ROWS + 40)}
    both = Documents([*documents.rows, *Documents.random(40, seed=3, start=5000).rows])
    nearest = [number for _, number in both.nearest(VECTOR)[:12]]
    assert [number for number, _ in vectors(branched, "docs")] == nearest
    query(branched, "ALTER TABLE docs COMPACT")
    assert listed(branched, "docs") == {"v": (5, ROWS + 40)}
    assert [number for number, _ in vectors(branched, "docs")] == nearest


def test_an_index_that_is_dropped_on_a_branch_is_dropped_where_it_is_published(branched: Engine) -> None:
    create_indices(branched, "docs")
    branched.update("ALTER TABLE docs CREATE BRANCH other")
    branched.update('DROP INDEX v ON "docs@other"')
    assert (listed(branched, "docs").keys(), listed(branched, "docs@other").keys()) == ({"v", "words"}, {"words"})
    branched.update("ALTER TABLE docs PUBLISH BRANCH other")
    assert listed(branched, "docs").keys() == {"words"}


def test_indices_of_one_name_on_both_are_not_brought_together(branched: Engine) -> None:
    branched.update('CREATE INDEX i ON "docs@draft" (price) WITH (min_rows = 1)')
    branched.update("CREATE INDEX i ON docs (id) WITH (min_rows = 1)")
    with pytest.raises(SerializationFailure, match="index 'i' was made or dropped on the main branch as well"):
        branched.update("ALTER TABLE docs PUBLISH BRANCH draft")
    branched.update("DROP INDEX i ON docs")
    branched.update("ALTER TABLE docs PUBLISH BRANCH draft")
    assert [row["column_name"] for row in query(branched, "SHOW INDEXES FROM docs")] == ["price"]


def test_a_branch_keeps_its_indices_through_a_compaction(branched: Engine, documents: Documents) -> None:
    create_indices(branched, "docs@draft")
    store(branched, Documents.random(40, seed=3, start=5000), "docs@draft")
    query(branched, 'ALTER TABLE "docs@draft" COMPACT')
    assert listed(branched, "docs@draft") == {"v": (5, ROWS + 40), "words": (5, ROWS + 40)}
    assert vectors(branched, "docs") == vectors(branched, "docs", "id % 1 = 0")
