"""Nothing is looked up in an index that holds old values of rows, whoever wrote it, and REINDEX renews it."""

from __future__ import annotations

from unittest.mock import patch

import lance
import pytest
from lance_flight.catalog.maintenance import indexing

from tests.engine.database import Database
from tests.search.layouts import lance_plans

ROWS = 60
COLUMNS = {"c": ("VARCHAR", "bitmap"), "tags": ("VARCHAR[]", "label_list"), "body": ("VARCHAR", "inverted")}
CHANGED = 12
"""Rows that are changed after the indices were made, the first ones."""
IDS = range(ROWS)
STORED = ("'old'", "['old']", "'old words'")
NEW = {number for number in range(CHANGED) if number % 3 < 2}
OLD = {number for number in range(CHANGED, ROWS) if number % 3}
NONE = set(IDS) - NEW - OLD


def by_older_release(database: Database, table: str) -> None:
    with patch.object(indexing, "holds_old_values", return_value=False):
        database.query(f"REINDEX {table}")


def by_stock_lance(database: Database, table: str) -> None:
    lance.dataset(str(database.root / f"{table}.lance")).optimize.optimize_indices(num_indices_to_merge=0)


def merged_by_stock_lance(database: Database, table: str) -> None:
    by_stock_lance(database, table)
    lance.dataset(str(database.root / f"{table}.lance")).optimize.optimize_indices(num_indices_to_merge=5)


WRITERS = {
    "partitions": ("PARTITIONED BY (p)", by_older_release),
    "plain": ("", by_older_release),
    "stock": ("", by_stock_lance),
    "merged": ("", merged_by_stock_lance),
}


def ids(database: Database, source: str) -> set[int]:
    return {id_ for (id_,) in database.rows(f"SELECT id FROM {source}")}


@pytest.fixture(scope="module", params=WRITERS)
def template(database: Database, request: pytest.FixtureRequest) -> str:
    """A table whose first rows were changed, and whose indices say of them what they were and what they are."""
    table = f"by_{request.param}"
    layout, reindex = WRITERS[request.param]
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    database.run(f"CREATE TABLE {table} (id INT, p INT, {columns}) {layout} WITH (stable_row_ids = true)")
    rows = (f"({number}, 1, {', '.join('NULL' if number % 3 == 0 else each for each in STORED)})" for number in IDS)
    database.run(f"INSERT INTO {table} VALUES {', '.join(rows)}")
    for name, (_, kind) in COLUMNS.items():
        database.run(f"CREATE INDEX {name}_idx ON {table} ({name}) USING {kind} WITH (min_rows = 1)")
    changes = "c = 'new', tags = ['new'], body = 'new words'"
    assert database.run(f"UPDATE {table} SET {changes} WHERE id < {CHANGED} AND id % 3 < 2") == len(NEW)
    assert database.run(f"UPDATE {table} SET c = NULL, tags = NULL, body = NULL WHERE id IN (2, 5, 8, 11)") == 4
    reindex(database, table)
    return table


@pytest.fixture
def outdated(database: Database, template: str, table: str) -> str:
    """A copy of it."""
    suffix = "" if "partitions" in template else ".lance"
    database.copy(template + suffix, table + suffix)
    return table


CONDITIONS = {
    "c = 'old'": OLD,
    "c = 'new'": NEW,
    "c <> 'old'": NEW,
    "c IN ('old', 'other')": OLD,
    "c NOT IN ('old')": NEW,
    "c > 'new'": OLD,
    "c BETWEEN 'a' AND 'new'": NEW,
    "c IS NULL": NONE,
    "c IS NOT NULL": OLD | NEW,
    "c = 'new' OR c IS NULL": NEW | NONE,
    "starts_with(c, 'n')": NEW,
    "array_has(tags, 'old')": OLD,
    "array_has(tags, 'new')": NEW,
    "NOT array_has(tags, 'old')": NEW,
    "tags IS NOT NULL": OLD | NEW,
}


def test_reads_find_each_row_by_its_value(database: Database, template: str) -> None:
    for condition, expected in CONDITIONS.items():
        assert ids(database, f"{template} WHERE {condition}") == expected, condition
        assert database.value(f"SELECT count(*) FROM {template} WHERE {condition}") == len(expected), condition
    for word, expected in {"old": OLD, "new": NEW, "words": OLD | NEW}.items():
        found = database.rows(f"SELECT id FROM full_text_search('{template}', 'body', '{word}', k => 1000)")
        assert sorted(id_ for (id_,) in found) == sorted(expected), word


CHANGES = {
    "DELETE FROM {t} WHERE c = 'new'": NEW,
    "DELETE FROM {t} WHERE c NOT IN ('old')": NEW,
    "DELETE FROM {t} WHERE array_has(tags, 'old') AND c = 'old'": OLD,
    "DELETE FROM {t} WHERE c IS NOT NULL": OLD | NEW,
    "UPDATE {t} SET id = 99 WHERE c = 'new'": NEW,
    "MERGE INTO {t} AS t USING (VALUES ('new')) AS s (c) ON t.c = s.c WHEN MATCHED THEN DELETE": NEW,
}


@pytest.mark.parametrize("statement", CHANGES)
def test_changes_find_each_row_by_its_value(database: Database, outdated: str, statement: str) -> None:
    expected = CHANGES[statement]
    assert database.run(statement.format(t=outdated)) == len(expected)
    assert ids(database, outdated) == set(IDS) - expected | ({99} if "99" in statement else set())


def test_a_new_index_takes_the_place_of_an_outdated_one(
    database: Database, outdated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.query(f"REINDEX {outdated}")
    plans = lance_plans(monkeypatch)
    assert ids(database, f"{outdated} WHERE c = 'new' AND starts_with(c, 'n')") == NEW
    assert any("@c_idx" in plan for plan in plans), plans


def test_compaction_says_of_no_file_that_an_index_covers_it(database: Database, table: str) -> None:
    """Lance 14 takes files that are numbered when they are committed for the first one."""
    database.run(f"CREATE TABLE {table} (id INT, c VARCHAR) WITH (stable_row_ids = true)")
    for start in (0, 20, 23):
        rows = ", ".join(f"({number}, '{'ab'[number % 2]}')" for number in range(start, start + 20))
        database.run(f"INSERT INTO {table} VALUES {rows}")
    at = lance.dataset(str(database.root / f"{table}.lance"))
    built = at.create_index_uncommitted("c", "BITMAP", name="c_idx", replace=True, fragment_ids=[1, 2])
    lance.LanceDataset.commit(at, lance.LanceOperation.CreateIndex([built], []), read_version=at.version)
    database.query(f"ALTER TABLE {table} COMPACT")
    assert database.value(f"SELECT count(*) FROM {table} WHERE c = 'a'") == 30
