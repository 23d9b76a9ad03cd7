"""Ways in which the rows of a table come to lie where they are, and what searches of it must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import lance
import pytest
from lance_flight.catalog.storage.whole_files import ROW_ADDRESS
from lance_flight.catalog.tables.sources import Merged, PinnedTable
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.search import search_target

from tests.search.bm25 import scores
from tests.search.collection import DIMENSIONS, Documents, literal, query, store

COLUMNS = f"id BIGINT, tenant VARCHAR, price BIGINT, embedding FLOAT[{DIMENSIONS}], body VARCHAR"
VECTOR = [0.25] * DIMENSIONS
WORDS = "lance vector"
DOUBLES = 100_000
"""What is added to the id of a row for a row like it that is deleted."""
RANK_CONSTANT = 60
_OF_NO_COLUMN = (ROW_ADDRESS, "_row_last_updated_at_version")
"""Beginnings of filters that no index answers: of the addresses of rows, and of whether an index is outdated."""
EXACTLY = "nprobes => 100, refine => 100"


@dataclass(frozen=True)
class Layout:
    """Rows in a table: how it is made, which of them lie in it first, and what is done to it before and after others come."""

    partitioned_by: str | None = "tenant"
    stable_row_ids: bool = False
    table: str = "docs"
    between: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    has_doubles: bool = False
    is_merged: bool = True
    """True if its tables are searched as one although they have indices."""


ON_A_BRANCH = ("ALTER TABLE docs CREATE BRANCH draft",)
DELETED = (f"DELETE FROM docs WHERE id >= {DOUBLES}",)
UPDATED = ("UPDATE docs SET price = price + 1 WHERE id % 3 = 0",)

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "partitions": Layout(),
        "plain": Layout(partitioned_by=None),
        "deletions": Layout(changes=DELETED, has_doubles=True),
        "plain, deletions": Layout(partitioned_by=None, changes=DELETED, has_doubles=True),
        "stable ids": Layout(stable_row_ids=True, changes=UPDATED, is_merged=False),
        "plain, stable ids": Layout(partitioned_by=None, stable_row_ids=True, changes=UPDATED),
        "branch": Layout(table="docs@draft", between=ON_A_BRANCH),
        "branch, deletions": Layout(
            table="docs@draft",
            between=ON_A_BRANCH,
            changes=(f'DELETE FROM "docs@draft" WHERE id >= {DOUBLES}',),
            has_doubles=True,
        ),
        "published": Layout(between=ON_A_BRANCH, changes=("ALTER TABLE docs PUBLISH BRANCH draft",)),
    }
)

WHEN = ("never", "first", "last")
"""When indices are made: before half of the rows come and all changes, or after these."""


def lay_out(of: Engine, layout: Layout, documents: Documents, indexed: str) -> None:
    """Make the table `docs`, whose rows are `documents` in the end."""
    parts = "" if layout.partitioned_by is None else f" PARTITIONED BY ({layout.partitioned_by})"
    of.update(f"CREATE TABLE docs ({COLUMNS}){parts} WITH (stable_row_ids = {layout.stable_row_ids})")
    half = len(documents.rows) // 2
    first, second = documents.rows[:half], documents.rows[half:]
    doubles = [{**row, "id": row["id"] + DOUBLES} for row in first] if layout.has_doubles else []
    store(of, Documents([*first, *doubles]))
    if indexed == "first":
        create_indices(of, "docs")
    for statement in layout.between:
        of.update(statement)
    store(of, Documents(second), "docs@draft" if layout.between else "docs")
    for statement in layout.changes:
        of.update(statement)
    if indexed == "last":
        create_indices(of, layout.table)


def create_indices(of: Engine, table: str) -> None:
    """Give a table an index of its vectors and one of its texts."""
    of.update(f'CREATE INDEX v ON "{table}" (embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 2)')
    of.update(f'CREATE INDEX words ON "{table}" (body) USING inverted WITH (min_rows = 1)')


@contextmanager
def units(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """In how many units tables are searched that could be more than one, one number for each search."""
    known, found = search_target.merge, list[int]()

    def counted(tables: Sequence[PinnedTable]) -> tuple[list[Merged], list[PinnedTable]]:
        merged, alone = known(tables)
        found.append(len(merged) + len(alone))
        return merged, alone

    with patch.context() as patched:
        patched.setattr(search_target, "merge", counted)
        yield found


def lance_plans(patch: pytest.MonkeyPatch) -> list[str]:
    """What Lance plans for each filter in SQL that it is given from now on."""
    plans: list[str] = []
    scanner = lance.LanceDataset.scanner

    def planning(self: lance.LanceDataset, *arguments: Any, **options: Any) -> lance.LanceScanner:
        made = scanner(self, *arguments, **options)
        if isinstance(options.get("filter"), str) and not options["filter"].startswith(_OF_NO_COLUMN):
            plans.append(made.explain_plan())
        return made

    patch.setattr(lance.LanceDataset, "scanner", planning)
    return plans


def vectors(of: Engine, table: str, condition: str | None = None, count: int = 12) -> list[tuple[int, float]]:
    """The nearest rows, with their distances."""
    sql = f"vector_search('{table}', 'embedding', {literal(VECTOR)}, k => {count}, {EXACTLY}{_filter(condition)})"
    return [(row["id"], row["_distance"]) for row in query(of, f"SELECT id, _distance FROM {sql}")]


def texts(of: Engine, table: str, condition: str | None = None) -> list[tuple[int, float]]:
    """All rows with one of the words, best first, with their scores."""
    sql = f"full_text_search('{table}', 'body', '{WORDS}', k => 10000{_filter(condition)})"
    return [(row["id"], row["_score"]) for row in query(of, f"SELECT id, _score FROM {sql}")]


def hybrids(of: Engine, table: str, condition: str | None = None) -> list[tuple[int, float]]:
    """All rows with a vector or one of the words, best first, with their scores."""
    call = f"'{table}', 'embedding', {literal(VECTOR)}, 'body', '{WORDS}', k => 10000, depth => 10000"
    sql = f"hybrid_search({call}, {EXACTLY}{_filter(condition)})"
    return [(row["id"], row["_score"]) for row in query(of, f"SELECT id, _score FROM {sql}")]


def fused(*lists: Sequence[tuple[int, float]]) -> dict[int, float]:
    """The sums of the reciprocal ranks in several lists."""
    found: dict[int, float] = {}
    for each in lists:
        for rank, (number, _) in enumerate(each, 1):
            found[number] = found.get(number, 0.0) + 1 / (RANK_CONSTANT + rank)
    return found


Check = Callable[[Engine, Layout, Documents, str], None]


def check_vectors(of: Engine, layout: Layout, documents: Documents, indexed: str) -> None:
    """The nearest rows are those of all."""
    nearest = documents.nearest(VECTOR)
    found = vectors(of, layout.table)
    assert [number for number, _ in found] == [number for _, number in nearest[:12]]
    assert [distance for _, distance in found] == pytest.approx([distance for distance, _ in nearest[:12]], abs=1e-4)
    for condition, keep in CONDITIONS.items():
        few = Documents([row for row in documents.rows if keep(row)]).nearest(VECTOR)[:12]
        assert [number for number, _ in vectors(of, layout.table, condition)] == [number for _, number in few]


def check_texts(of: Engine, layout: Layout, documents: Documents, indexed: str) -> None:
    """The scores of rows are those of BM25 over all of them; deleted ones count as long as an index knows them."""
    doubles = documents.rows[: len(documents.rows) // 2] if layout.has_doubles and indexed == "first" else []
    counted = [*documents.rows, *({**row, "id": row["id"] + DOUBLES} for row in doubles)]
    expected = {number: score for number, score in scores(counted, WORDS.split()).items() if number < DOUBLES}
    found = dict(texts(of, layout.table))
    assert found.keys() == expected.keys()
    if not (layout.stable_row_ids and indexed != "never"):
        # How often a word is is estimated where an index knows rows that were changed since, which are not like the others.
        assert found == pytest.approx(expected, rel=1e-4)
    for condition, keep in CONDITIONS.items():
        kept = {row["id"] for row in documents.rows if keep(row)}
        assert dict(texts(of, layout.table, condition)).keys() == expected.keys() & kept


def check_hybrids(of: Engine, layout: Layout, documents: Documents, indexed: str) -> None:
    """Rows are fused by their ranks in the two lists."""
    ranks = [(number, distance) for distance, number in documents.nearest(VECTOR)]
    found = hybrids(of, layout.table)
    assert dict(found) == pytest.approx(fused(ranks, texts(of, layout.table)), abs=1e-6)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


CHECKS: Mapping[str, Check] = MappingProxyType({"vector": check_vectors, "text": check_texts, "hybrid": check_hybrids})
CONDITIONS: Mapping[str, Callable[[dict[str, object]], bool]] = MappingProxyType(
    {
        "tenant = 'a'": lambda row: row["tenant"] == "a",
        "id % 3 = 1": lambda row: int(str(row["id"])) % 3 == 1,
        "id % 90 = 7": lambda row: int(str(row["id"])) % 90 == 7,
    }
)
"""Conditions that partitions, Lance, or addresses found first decide, and rows that fulfil them."""


def _filter(condition: str | None) -> str:
    return "" if condition is None else ", filter => '{}'".format(condition.replace("'", "''"))
