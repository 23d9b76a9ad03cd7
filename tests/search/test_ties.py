"""Rows that are worth the same: the same order for each count, however the tables are read, and no vectors with NULL inside."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.catalog.search.row_ranking import SAME_SCORE, level_scores
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.search import search_target
from lance_flight.errors import DataError

from tests.search.collection import DIMENSIONS, WORDS, Documents, made, query, store, told
from tests.selection import IS_FULL
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every way to read the tables of a search

COUNTS = (1, 3, 21, 80, 160, 161, 500)
ORIGIN = f"[{', '.join(['0'] * DIMENSIONS)}]"
SEARCHES = {
    "vector": f"vector_search('docs', 'embedding', {ORIGIN}, k => K)",
    "vector, filtered": f"vector_search('docs', 'embedding', {ORIGIN}, k => K, filter => 'price < 2')",
    "vector, chosen": f"vector_search('docs', 'embedding', {ORIGIN}, k => K, filter => 'price + id % 2 < 2')",
    "vector, exact": f"vector_search('docs', 'embedding', {ORIGIN}, k => K, use_index => false)",
    "text": "full_text_search('docs', 'body', 'lance', k => K)",
    "text, chosen": "full_text_search('docs', 'body', 'lance', k => K, filter => 'price + id % 2 < 2')",
    "text, by tables": "full_text_search('docs', 'body', 'lance', k => K, statistics => 'local')",
    "hybrid": f"hybrid_search('docs', 'embedding', {ORIGIN}, 'body', 'lance', k => K, depth => 600)",
}
INDICES = {
    "none": [],
    "flat": ["(embedding) USING ivf_flat WITH (min_rows = 1, num_partitions = 1)", "(body) USING inverted"],
    "some": ["(embedding) USING ivf_flat WITH (min_rows = 30, num_partitions = 1)"],
    "pq": ["(embedding) USING ivf_pq WITH (min_rows = 1, num_partitions = 1, num_bits = 4)"],
}


def documents(start: int = 0) -> Documents:
    """Rows in four tenants of which many have one vector, and all texts are worth the same."""
    return Documents(
        [
            {
                "id": start + number,
                "tenant": "abcd"[number % 4],
                "price": number % 3,
                "embedding": [float(number % 2)] * DIMENSIONS,
                "body": "lance and arrow",
            }
            for number in range(80)
        ]
    )


@pytest.fixture(scope="module", params=INDICES)
def docs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The rows come in two parts, the second of which no index is about."""
    of = made(tmp_path_factory.mktemp("ties") / "root", documents())
    for number, index in enumerate(INDICES[request.param]):
        of.update(f"CREATE INDEX i{number} ON docs {index}")
    store(of, documents(80))
    return of


def ids(of: Engine, search: str, count: int) -> list[int]:
    return [row["id"] for row in query(of, f"SELECT id FROM {search.replace('K', str(count))}")]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_the_first_rows_are_the_same_for_each_count(docs: Engine, search: str) -> None:
    longest = ids(docs, search, COUNTS[-1])
    assert len(longest) == len(set(longest)) > 20
    for count in COUNTS:
        assert ids(docs, search, count) == longest[:count]


def test_lists_are_as_deep_for_many_counts(tmp_path: Path) -> None:
    of = made(tmp_path / "root", Documents.random(400, seed=5))
    search = SEARCHES["hybrid"].replace(", depth => 600", "")
    for counts in (range(1, 17), range(17, 65, 9)):
        longest = ids(of, search, counts[-1])
        assert [ids(of, search, count) for count in counts] == [longest[:count] for count in counts]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_tables_that_cannot_be_read_together_give_the_same_order(
    search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = made(tmp_path / "root", documents())
    together = ids(of, search, 500)
    more = [{**row, "id": -1, "embedding": None, "body": None} for row in documents().rows[:4] * 2]
    store(of, Documents([*more, *({**row, "id": -2} for row in documents().rows[:4])]))
    of.update("DELETE FROM docs WHERE id = -2")
    assert all(table.dataset.get_fragments()[-1].deletion_file() for table in stored_tables(tmp_path / "root" / "docs"))
    assert ids(Engine(of.root, target_partitions=2), search, 500) == together
    monkeypatch.setattr(search_target, "merge", lambda tables: ([], list(tables)))
    assert ids(Engine(of.root, target_partitions=2), search, 500) == together


QUERIES = (
    "lance",
    "lance vector arrow",
    '"lance vector" arrow',
    "+lance^3 (arrow OR spark^0.7)",
    "lance flight -spark",
)


def few_texts(seed: int) -> Documents:
    """Texts of one length, many of them the same, in tenants of very different sizes."""
    chance = np.random.default_rng(seed)
    texts = [" ".join(chance.choice(WORDS, 6)) for _ in range(12)]
    likely = chance.dirichlet([0.7] * 4)
    return Documents(
        [
            {
                "id": number,
                "tenant": "abcd"[int(chance.choice(4, p=likely))],
                "price": int(chance.integers(3)),
                "embedding": None,
                "body": texts[int(chance.integers(len(texts)))],
            }
            for number in range(int(chance.integers(40, 300)))
        ]
    )


@pytest.mark.parametrize("seed", range(40 if IS_FULL else 2))
def test_equal_texts_are_worth_the_same_however_the_tables_are_read(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = few_texts(seed)
    of = made(tmp_path / "root", documents)
    of.update("CREATE INDEX words ON docs (body) USING inverted WITH (with_position = true)")
    bodies = {row["id"]: row["body"] for row in documents.rows}
    for words in QUERIES:
        call = f"full_text_search('docs', 'body', '{words}', k => K)"
        together = ids(of, call, 500)
        with monkeypatch.context() as patch:
            patch.setattr(search_target, "merge", lambda tables: ([], list(tables)))
            alone = query(of, f"SELECT id, _score FROM {call.replace('K', '500')}")
            assert [row["id"] for row in alone] == together
            shown = {(bodies[row["id"]], row["_score"]) for row in alone}
            assert len(shown) == len({body for body, _ in shown})
            assert all(ids(of, call, count) == together[:count] for count in (1, 7, 30))


def test_scores_that_are_the_same_do_not_depend_on_what_follows() -> None:
    chance = np.random.default_rng(1)
    for _ in range(200):
        scores = np.sort(8.0 - chance.integers(0, 40, 60) * SAME_SCORE)[::-1]
        found = level_scores(scores, SAME_SCORE)
        best: list[float] = []
        for score in scores:
            is_same = best and score >= best[-1] * (1 - SAME_SCORE)
            best.append(best[-1] if is_same else score)
        assert found.tolist() == best
        assert all(level_scores(scores[:count], SAME_SCORE).tolist() == best[:count] for count in (0, 1, 17))


def test_many_equal_rows_are_not_read_whole(tmp_path: Path) -> None:
    rows = Documents([{**documents().rows[0], "id": number} for number in range(5000)])
    of = made(tmp_path / "root", rows)
    longest = ids(of, SEARCHES["vector"], 2000)
    assert [ids(of, SEARCHES["vector"], count) for count in (1, 10, 100)] == [longest[:1], longest[:10], longest[:100]]
    assert longest == list(range(2000))


def gaps(count: int) -> pa.Table:
    """Rows whose vectors have NULL inside, and would be the nearest if that were 0."""
    embedding = pa.array([[None, *[0.0] * (DIMENSIONS - 1)]] * count, pa.list_(pa.float32(), DIMENSIONS))
    table = documents(1000).table.slice(0, count)
    return table.set_column(table.schema.get_field_index("embedding"), "embedding", embedding)


@pytest.fixture(scope="module", params=INDICES)
def with_gaps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A partition that another writer has put such rows into, before there were indices."""
    root = tmp_path_factory.mktemp("gaps") / "root"
    of = made(root, documents())
    lance.write_dataset(gaps(40), str(root / "foreign.lance"))
    foreign = "ALTER TABLE docs ATTACH TABLE 'foreign' PARTITION (tenant = 'z') TRUSTED"
    of.update(foreign)
    for number, index in enumerate(INDICES[request.param]):
        of.update(f"CREATE INDEX i{number} ON docs {index}")
    return of


@pytest.mark.parametrize("count", [1, 30, 80, 500])
@pytest.mark.parametrize(
    "more", ["", ", use_index => false, metric => 'dot'", ", filter => 'price < 5'", ", filter => 'id % 2 >= 0'"]
)
def test_vectors_with_null_inside_are_no_neighbours(with_gaps: Engine, count: int, more: str) -> None:
    arguments = f"{ORIGIN}, k => {count}{more}"
    found = query(with_gaps, f"SELECT id FROM vector_search('docs', 'embedding', {arguments})")
    assert len(found) == min(count, 80)
    assert not [row for row in found if row["id"] >= 1000]


def test_the_texts_of_such_rows_are_found(with_gaps: Engine) -> None:
    assert len(ids(with_gaps, SEARCHES["text"], 500)) == 120
    assert len(ids(with_gaps, SEARCHES["hybrid"], 500)) == 120


GAP = f"[NULL{', 1.0' * (DIMENSIONS - 1)}]"
WRITES = [
    pytest.param(f"INSERT INTO docs (id, embedding) VALUES (1, {GAP})", id="insert"),
    pytest.param(f"INSERT OVERWRITE docs (id, embedding) VALUES (1, {GAP})", id="overwrite"),
    pytest.param(f"UPDATE docs SET embedding = {GAP} WHERE id = 7", id="update"),
    f"MERGE INTO docs d USING (VALUES (7)) AS s (k) ON d.id = s.k WHEN MATCHED THEN UPDATE SET embedding = {GAP}",
    pytest.param(f"CREATE TABLE made AS SELECT CAST({GAP} AS FLOAT[{DIMENSIONS}]) AS v", id="create table as"),
    pytest.param(f"ALTER TABLE docs ADD COLUMN v FLOAT[{DIMENSIONS}] AS ({GAP})", id="add column"),
    pytest.param(f"INSERT INTO plain VALUES ({GAP})", id="insert into a plain table"),
    pytest.param(f"UPDATE plain SET v = {GAP}", id="update of a plain table"),
]


@pytest.mark.parametrize("sql", WRITES)
def test_null_inside_a_vector_is_not_written(tmp_path: Path, sql: str) -> None:
    of = made(tmp_path / "root", documents())
    of.update(f"CREATE TABLE plain (v FLOAT[{DIMENSIONS}])")
    of.update(f"INSERT INTO plain VALUES ([{', '.join(['1'] * DIMENSIONS)}])")
    before = told(of, "SELECT * FROM docs") + told(of, "SELECT * FROM plain")
    with pytest.raises(DataError) as raised:
        of.update(sql)
    assert "has NULL inside the vector of row 1" in str(raised.value)
    assert "expected numbers alone, or NULL for the whole vector" in str(raised.value)
    assert told(of, "SELECT * FROM docs") + told(of, "SELECT * FROM plain") == before


def ingest(of: Engine, table: str, column: pa.Array) -> int:
    rows, name = pa.table({"embedding": column}), TableName(PUBLIC, table)
    return of.ingest(name, rows.to_reader(), create_missing=True, existing=IfExists.APPEND)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.float16(), pa.uint8()], ids=str)
@pytest.mark.parametrize("table", ["docs", "plain", "fresh"])
def test_an_ingest_stores_no_null_inside_a_vector(tmp_path: Path, kind: pa.DataType, table: str) -> None:
    of = made(tmp_path / "root", documents())
    of.update(f"CREATE TABLE plain (embedding FLOAT[{DIMENSIONS}])")
    numbers = pa.array([1] * 2 * DIMENSIONS, kind)
    gap = pa.array([*([1] * DIMENSIONS), *([1, None] * (DIMENSIONS // 2))]).cast(kind)
    for values, column in ((numbers, 2), (gap, None)):
        vectors = pa.FixedSizeListArray.from_arrays(values, DIMENSIONS)
        if column is not None:
            assert ingest(of, table, vectors) == column
            continue
        with pytest.raises(DataError, match="NULL inside the vector of row 2"):
            ingest(of, table, vectors)


def test_lists_that_are_no_vectors_may_have_null_inside(tmp_path: Path) -> None:
    of = made(tmp_path / "root", documents())
    kinds = [pa.list_(pa.float32()), pa.list_(pa.int64(), 2), pa.list_(pa.utf8(), 2)]
    for number, kind in enumerate(kinds):
        assert ingest(of, f"t{number}", pa.array([[None, None], None], kind)) == 2


def test_stored_rows_with_null_inside_a_vector_are_moved_as_they_are(with_gaps: Engine) -> None:
    of = with_gaps
    before = told(of, "SELECT * FROM docs ORDER BY id")
    of.update("ALTER TABLE docs SET PARTITIONED BY (price)")
    assert told(of, "ALTER TABLE docs REWRITE PARTITIONS").startswith("[")
    assert told(of, "ALTER TABLE docs COMPACT").startswith("[")
    assert told(of, "SELECT * FROM docs ORDER BY id") == before
    of.update("ALTER TABLE docs DETACH PARTITION (price = 0) TO apart")
    assert query(of, "SELECT count(embedding) AS n FROM apart") == [{"n": 41}]
