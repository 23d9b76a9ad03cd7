"""Names of the rows that searches find, and pages of searches: put together they are the whole list."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.sql.references import text_literal
from lance_flight.errors import LanceFlightError

from tests.engine.database import open_engine
from tests.examples import examples
from tests.search.collection import DIMENSIONS, VECTOR, Documents, literal, made, query, store, told

pytestmark = pytest.mark.slow  # every page over every layout

ORIGIN = literal([0] * DIMENSIONS)
CODES = ", nprobes => 99"
FOUND_FIRST = {"price % 3 > 0"}
TABLES: dict[str, tuple[str | None, str, bool]] = {
    "no index": (None, "", False),
    "flat": ("ivf_flat WITH (min_rows = 1, num_partitions = 2)", ", nprobes => 100", False),
    "some": ("ivf_flat WITH (min_rows = 90, num_partitions = 2)", ", nprobes => 100", False),
    "quantised": ("ivf_pq WITH (min_rows = 1, num_partitions = 1, num_sub_vectors = 4, num_bits = 4)", CODES, False),
    "refined": (
        "ivf_pq WITH (min_rows = 1, num_partitions = 1, num_sub_vectors = 4, num_bits = 4)",
        ", refine => 200",
        False,
    ),
    "graph": ("ivf_hnsw_flat WITH (min_rows = 1, num_partitions = 1)", ", ef => 700", False),
    "stable ids": (None, "", True),
    "stable ids, flat": ("ivf_flat WITH (min_rows = 1, num_partitions = 1)", "", True),
}
"""Tables by their index, how it is searched, and whether their rows have stable ids."""


@cache
def documents(count: int = 360, start: int = 0) -> Documents:
    """Rows of which many have the same vector as others, in the same and in other partitions."""
    found = Documents.random(count, seed=3, start=start)
    chance = np.random.default_rng(4)
    for row in found.rows:
        if row["embedding"] is not None and chance.random() < 0.6:
            row["embedding"] = [float(chance.integers(3))] * DIMENSIONS
    return found


@pytest.fixture(scope="module", params=TABLES)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, str]:
    index, exactly, is_stable = TABLES[request.param]
    of = made(tmp_path_factory.mktemp("docs") / "root", documents(), stable_row_ids=is_stable, vector_index=index)
    if "quantised" not in request.param and "refined" not in request.param:
        # The rows of one partition have other files without an index, and some are gone.
        store(of, Documents([{**row, "tenant": "a"} for row in documents(40, start=1000).rows]))
        of.update("DELETE FROM docs WHERE id IN (5, 6, 1003)")
    return of, exactly


def call(docs: tuple[Engine, str], vector: str, more: str) -> str:
    return f"vector_search('docs', 'embedding', {vector}{docs[1]}{more})"


def pages(docs: tuple[Engine, str], vector: str, more: str, count: int) -> list[dict[str, Any]]:
    """All pages of a search, each behind the last row of the one before."""
    found: list[dict[str, Any]] = []
    sql = f"SELECT id, _distance, _rowid FROM {call(docs, vector, f'{more}, k => {count}')}"
    page = query(docs[0], sql)
    while page:
        found += page
        last = pa.record_batch({"1": [page[-1]["_distance"]], "2": [page[-1]["_rowid"]]})
        page = query(docs[0], f"{sql.removesuffix(')')}, after => ($1, $2))", last)
    return found


@pytest.mark.parametrize("condition", ["", "price < 6", "price % 3 > 0", "tenant IN ('a', 'b')"])
@pytest.mark.parametrize("count", [90, 250])
@pytest.mark.parametrize("vector", [ORIGIN, literal(VECTOR)], ids=["between equal rows", "anywhere"])
def test_pages_put_together_are_the_whole_list(
    docs: tuple[Engine, str], condition: str, count: int, vector: str
) -> None:
    more = f", filter => {text_literal(condition)}" if condition else ""
    if docs[1] == CODES and condition in FOUND_FIRST:
        # Of few rows that were found first the stored vectors are compared, of many the codes.
        more += ", use_index => false"
    whole = query(docs[0], f"SELECT id, _distance, _rowid FROM {call(docs, vector, f'{more}, k => 10000')}")
    assert len(whole) > 100
    found = pages(docs, vector, more, count)
    assert len({row["_rowid"] for row in found}) == len(found)
    assert [row["id"] for row in found] == [row["id"] for row in whole]
    assert found == whole


@given(st.data())
@examples(6, full=400)
def test_a_page_follows_any_row(docs: tuple[Engine, str], data: st.DataObject) -> None:
    whole = query(docs[0], f"SELECT id, _distance, _rowid FROM {call(docs, ORIGIN, ', k => 10000')}")
    place, count = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 30))
    after = f"({whole[place]['_distance']!r}, '{whole[place]['_rowid']}')"
    found = query(docs[0], f"SELECT id FROM {call(docs, ORIGIN, f', k => {count}, after => {after}')}")
    assert found == [{"id": row["id"]} for row in whole[place + 1 : place + 1 + count]]


def test_the_names_of_rows_are_those_of_the_table(docs: tuple[Engine, str]) -> None:
    of = docs[0]
    named = {row["id"]: row for row in query(of, "SELECT id, _rowid, _partition FROM docs")}
    rows = query(of, f"SELECT id, _rowid, _partition FROM {call(docs, ORIGIN, ', k => 10000')}")
    assert len(rows) > 100
    assert [named[row["id"]] for row in rows] == rows
    joined = f"SELECT s.id AS a, d.id AS b FROM {call(docs, ORIGIN, ', k => 50')} s JOIN docs d ON d._rowid = s._rowid"
    pairs = query(of, joined)
    assert len(pairs) == 50
    assert all(row["a"] == row["b"] for row in pairs)
    ordered = query(
        of, f"SELECT id, _rowid, _partition FROM docs WHERE price < 8 ORDER BY embedding <-> {ORIGIN} LIMIT 90"
    )
    assert [named[row["id"]] for row in ordered] == ordered


def test_a_wildcard_shows_no_hidden_columns(docs: tuple[Engine, str]) -> None:
    of, columns = docs[0], ["id", "tenant", "price", "embedding", "body", "_distance"]
    found = call(docs, ORIGIN, ", k => 3")
    (first, *_) = query(of, f"SELECT *, _rowid AS name FROM {found}")
    assert list(first) == [*columns, "name"]
    after = f", after => ({first['_distance']}, {text_literal(first['name'])})"
    (second, *_) = query(of, f"SELECT s.* FROM {call(docs, ORIGIN, after)} s")
    assert list(second) == columns
    assert told(of, f"SELECT * FROM {found} WHERE _rowid = {text_literal(first['name'])}").startswith("[{")
    condition = "_rowid = " + text_literal(first["name"])
    one = call(docs, ORIGIN, f", filter => {text_literal(condition)}")
    assert [list(row) for row in query(of, f"SELECT * FROM {one}")] == [columns]


def test_hybrid_searches_name_rows(docs: tuple[Engine, str]) -> None:
    named = {row["id"]: row for row in query(docs[0], "SELECT id, _rowid FROM docs")}
    rows = query(
        docs[0], f"SELECT id, _rowid FROM hybrid_search('docs', 'embedding', {ORIGIN}, 'body', 'lance arrow', k => 60)"
    )
    assert len(rows) == 60
    assert [named[row["id"]] for row in rows] == rows


def test_parameters_of_a_page_have_types(docs: tuple[Engine, str]) -> None:
    sql = f"SELECT id FROM {call(docs, ORIGIN, ', after => ($1, $2), max_distance => $3, fast_search => $4')}"
    assert docs[0].describe(sql).parameters.types == [pa.float64(), pa.utf8(), pa.float64(), pa.bool_()]


def test_a_page_without_a_row_is_the_first_one(docs: tuple[Engine, str]) -> None:
    nothing = pa.record_batch({"1": pa.nulls(1, pa.float64()), "2": pa.nulls(1, pa.utf8())})
    first = query(docs[0], f"SELECT id FROM {call(docs, ORIGIN, '')}")
    assert query(docs[0], f"SELECT id FROM {call(docs, ORIGIN, ', after => ($1, $2)')}", nothing) == first
    assert query(docs[0], f"SELECT id FROM {call(docs, ORIGIN, ', after => NULL')}") == first


def test_a_plain_table_has_pages(tmp_path: Path) -> None:
    of = open_engine(tmp_path / "root")
    of.update(
        f"CREATE TABLE docs (id BIGINT, tenant VARCHAR, price BIGINT, embedding FLOAT[{DIMENSIONS}], body VARCHAR)"
    )
    store(of, documents())
    store(of, documents(40, start=1000))
    whole = query(of, f"SELECT id, _distance, _rowid FROM {call((of, ''), ORIGIN, ', k => 10000')}")
    assert pages((of, ""), ORIGIN, "", 33) == whole


def test_a_snapshot_has_the_same_pages_whatever_is_written_meanwhile(tmp_path: Path) -> None:
    of = made(tmp_path / "root", documents())
    (version,) = {row["version"] for row in query(of, "SELECT max(version) AS version FROM docs$snapshots")}
    sql = f"SELECT id, _distance, _rowid FROM vector_search('docs@{version}', 'embedding', {ORIGIN}, k => "
    whole = query(of, f"{sql}200)")
    of.update("DELETE FROM docs WHERE price < 5")
    store(of, documents(50, start=2000))
    place = whole[99]
    after = f"after => ({place['_distance']!r}, '{place['_rowid']}')"
    assert query(of, f"{sql}100, {after})") == whole[100:]
    said = told(of, f"{sql}100, {after})".replace(f"@{version}", ""))
    assert "at the same version of the table" in said


def test_a_page_tells_nothing_of_rows_that_a_policy_hides(tmp_path: Path) -> None:
    """The name of a row of another tenant, and one of no row, give one error."""
    of = made(tmp_path / "root", documents())
    access = Policies.parse('roles.r = { members = ["*"], grants = ["SELECT ON docs WHERE tenant = \'b\'"] }').access(
        "bob"
    )
    rows = query(of, f"SELECT id, tenant, _distance, _rowid FROM {call((of, ''), ORIGIN, ', k => 1000')}")
    mine = [row for row in rows if row["tenant"] == "b"]
    assert (
        query(of, f"SELECT id, tenant, _distance, _rowid FROM {call((of, ''), ORIGIN, ', k => 1000')}", access=access)
        == mine
    )
    after = f", k => 1000, after => ({mine[3]['_distance']!r}, '{mine[3]['_rowid']}')"
    assert query(of, f"SELECT id FROM {call((of, ''), ORIGIN, after)}", access=access) == [
        {"id": row["id"]} for row in mine[4:]
    ]
    other = next(row for row in rows if row["tenant"] != "b")
    errors = set()
    for name in (other["_rowid"], f"{other['_rowid']}999999"):
        after = f", after => ({other['_distance']!r}, '{name}')"
        with pytest.raises(LanceFlightError) as raised:
            query(of, f"SELECT id FROM {call((of, ''), ORIGIN, after)}", access=access)
        errors.add(str(raised.value).replace(name, "NAME"))
    assert len(errors) == 1
