"""CREATE INDEX, SHOW INDEXES, REINDEX, DROP INDEX: which tables have what, and what keeps it so."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.catalog.bulk.pieces import PieceWork
from lance_flight.catalog.maintenance import indexing
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.errors import AlreadyExists, Unsupported

from tests.engine.database import open_engine
from tests.search.collection import Documents, literal, made, query, store
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every kind of index after every change

COUNTS = "tables, indexed_tables, rows, indexed_rows, segments"


@pytest.fixture(params=[False, True], ids=["rows", "stable_row_ids"])
def docs(tmp_path: Path, request: pytest.FixtureRequest) -> Engine:
    return made(tmp_path / "root", Documents.random(400), stable_row_ids=request.param)


def place(docs: Engine) -> Path:
    return Path(docs.root.store.uri) / "docs"


def listed(docs: Engine, name: str) -> dict[str, object]:
    (row,) = query(docs, f"SHOW INDEXES FROM docs WHERE name = '{name}'")
    return row


def documents_of(docs: Engine) -> Documents:
    return Documents(query(docs, "SELECT id, embedding FROM docs"))


def stored(docs: Engine, name: str) -> list[bool]:
    """Which partition tables have the index, as stock Lance sees them."""
    return [name in [index.name for index in table.dataset.describe_indices()] for table in stored_tables(place(docs))]


def test_an_index_is_made_listed_renewed_and_dropped(docs: Engine) -> None:
    docs.update("CREATE INDEX ON docs (price) WITH (min_rows = 1)")
    row = listed(docs, "price_idx")
    assert (row["column_name"], row["kind"], row["options"], row["min_rows"]) == ("price", "btree", "{}", 1)
    assert (row["tables"], row["indexed_tables"], row["rows"], row["indexed_rows"]) == (5, 5, 400, 400)
    store(docs, Documents.random(50, seed=4, start=1000))
    row = listed(docs, "price_idx")
    assert (row["rows"], row["indexed_rows"], row["segments"]) == (450, 400, 5)
    (report,) = query(docs, "REINDEX docs")
    assert (report["name"], report["rows"]) == ("price_idx", 50)
    row = listed(docs, "price_idx")
    assert (row["indexed_rows"], row["segments"]) == (450, 10)
    assert query(docs, "REINDEX TABLE docs INDEX price_idx")[0]["rows"] == 0
    docs.update("DROP INDEX price_idx ON docs")
    assert query(docs, "SHOW INDEXES FROM docs") == []
    assert stored(docs, "price_idx") == [False] * 5


REPLACED = {
    "another kind": ("price", "bitmap", 1, 5),
    "another column": ("body", "inverted", 1, 5),
    "the same": ("price", "btree", 1, 5),
    "fewer tables": ("price", "btree", 400, 0),
}


@pytest.mark.parametrize(("column", "kind", "least", "tables"), REPLACED.values(), ids=REPLACED.keys())
def test_an_index_is_replaced_in_one_commit(docs: Engine, column: str, kind: str, least: int, tables: int) -> None:
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    store(docs, Documents.random(1, seed=4, start=1000))
    versions = len(query(docs, "SELECT version FROM docs$snapshots"))
    docs.update(f"CREATE OR REPLACE INDEX p ON docs ({column}) USING {kind} WITH (min_rows = {least})")
    assert len(query(docs, "SELECT version FROM docs$snapshots")) == versions + 1
    row = listed(docs, "p")
    found = [row[name] for name in ("column_name", "kind", "indexed_tables", "indexed_rows")]
    assert found == [column, kind, tables, 401 if tables else 0]
    described = [index for table in stored_tables(place(docs)) for index in table.dataset.describe_indices()]
    assert [(index.name, index.field_names, len(index.segments)) for index in described] == [
        ("p", [column], 1)
    ] * tables
    assert query(docs, "REINDEX docs")[0]["tables"] == 0


def test_an_index_that_cannot_replace_another_leaves_it(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    with pytest.raises(Unsupported, match="label_list"):
        docs.update("CREATE OR REPLACE INDEX p ON docs (price) USING label_list")
    assert (listed(docs, "p")["kind"], stored(docs, "p")) == ("btree", [True] * 5)
    docs.update("CREATE OR REPLACE INDEX q ON docs (price)")
    assert sorted(row["name"] for row in query(docs, "SHOW INDEXES FROM docs")) == ["p", "q"]


ODD_NAMES = {
    "two words": "two_words_idx",
    "te'xt": "te_xt_idx",
    "größe": "gr__e_idx",
    "2024": "_2024_idx",
    "x" * 200: "x" * 100 + "_idx",
}


@pytest.mark.parametrize(("column", "index"), ODD_NAMES.items(), ids=range(len(ODD_NAMES)))
def test_an_index_without_a_name_is_called_after_any_column(tmp_path: Path, column: str, index: str) -> None:
    of = open_engine(tmp_path / "root")
    of.update(f'CREATE TABLE docs ("{column}" VARCHAR)')
    of.update("INSERT INTO docs VALUES ('lance')")
    of.update(f'CREATE INDEX ON docs ("{column}") USING inverted')
    assert (listed(of, index)["column_name"], listed(of, index)["indexed_rows"]) == (column, 1)


def test_a_new_partition_gets_the_index_from_the_next_compaction(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price) USING bitmap WITH (min_rows = 1)")
    docs.update("INSERT INTO docs SELECT id + 5000, 'new', price, embedding, body FROM docs WHERE id < 50")
    docs.update("INSERT INTO docs SELECT id + 6000, 'new', price, embedding, body FROM docs WHERE id < 50")
    assert sorted(stored(docs, "p")) == [False, True, True, True, True, True]
    assert len(query(docs, "ALTER TABLE docs COMPACT")) == 1
    row = listed(docs, "p")
    assert (row["tables"], row["indexed_tables"], row["indexed_rows"]) == (6, 6, 500)


def test_compaction_joins_files_of_different_segments(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    store(docs, Documents.random(60, seed=4, start=1000))
    query(docs, "REINDEX docs")
    assert listed(docs, "p")["segments"] == 10
    assert {(row["files_before"], row["files_after"]) for row in query(docs, "ALTER TABLE docs COMPACT")} == {(2, 1)}
    row = listed(docs, "p")
    assert (row["segments"], row["indexed_rows"]) == (5, 460)
    assert query(docs, "SELECT count(*) AS n FROM docs WHERE price = 3") == query(
        docs, "SELECT count(*) AS n FROM docs WHERE price + 0 = 3"
    )


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_compaction_joins_files_with_an_index_and_without(docs: Engine, kind: str) -> None:
    docs.update(f"CREATE INDEX i ON docs (id) USING {kind} WITH (min_rows = 1)")
    docs.update("UPDATE docs SET price = 2 WHERE id % 3 = 1")
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    assert {(row["files_before"], row["files_after"]) for row in query(docs, "ALTER TABLE docs COMPACT")} == {(2, 1)}
    assert [(listed(docs, name)["indexed_rows"], listed(docs, name)["segments"]) for name in "ip"] == [(400, 5)] * 2
    for column in ("id", "price"):
        assert query(docs, f"SELECT id FROM docs WHERE {column} = 2 ORDER BY id") == query(
            docs, f"SELECT id FROM docs WHERE {column} + 0 = 2 ORDER BY id"
        )


def test_many_segments_become_one(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    most = 0
    for number in range(6):
        docs.update(
            f"INSERT INTO docs SELECT id + {1000 * (number + 1)}, 'a', price, embedding, body FROM docs WHERE id < 9"
        )
        query(docs, "REINDEX docs")
        most = max(
            most,
            *(
                len(index.segments)
                for table in stored_tables(place(docs))
                for index in table.dataset.describe_indices()
            ),
        )
    row = listed(docs, "p")
    assert row["rows"] == row["indexed_rows"]
    assert most == 4


@pytest.mark.parametrize(
    ("kind", "column", "change", "search"),
    [
        ("inverted", "body", "'zebra'", "full_text_search('docs', 'body', 'lance', k => 1000)"),
        (
            "ivf_flat",
            "embedding",
            literal([9] * 8),
            f"vector_search('docs', 'embedding', {literal([0] * 8)}, k => 1000)",
        ),
        ("btree", "price", "77", "(SELECT * FROM docs WHERE price BETWEEN 3 AND 8)"),
    ],
)
def test_what_rows_were_before_a_change_is_in_no_index(
    docs: Engine, kind: str, column: str, change: str, search: str
) -> None:
    docs.update(f"CREATE INDEX i ON docs ({column}) USING {kind} WITH (min_rows = 1)")
    for rest in (1, 2):
        docs.update(f"UPDATE docs SET {column} = {change} WHERE id % 8 = {rest}")
        query(docs, "REINDEX docs")
        assert listed(docs, "i")["indexed_rows"] == 400
        found = sorted(str(row) for row in query(docs, f"SELECT id, {column} FROM {search}"))
        docs.update("CREATE TABLE twin PARTITIONED BY (tenant) AS SELECT * FROM docs")
        expected = query(docs, f"SELECT id, {column} FROM {search.replace('docs', 'twin')}")
        assert found == sorted(str(row) for row in expected)
        docs.update("DROP TABLE twin")


VECTOR_KINDS = ["ivf_flat", "ivf_sq", "ivf_pq", "ivf_rq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"]


@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_an_index_of_vectors_is_renewed_by_few_rows(tmp_path: Path, kind: str) -> None:
    docs = made(tmp_path / "root", Documents.random(2000), partitioned_by="bucket(2, id)")
    few = "WITH (min_rows = 1, num_partitions = 16)"
    docs.update(f"CREATE INDEX v ON docs (embedding) USING {kind} {few}")
    assert listed(docs, "v")["indexed_rows"] == 2000
    store(docs, Documents.random(12, seed=4, start=5000))
    query(docs, "REINDEX docs")
    docs.update("INSERT INTO docs SELECT id + 6000, tenant, price, NULL, body FROM docs WHERE id < 20")
    query(docs, "REINDEX docs")
    everything = documents_of(docs)
    nearest = query(
        docs, f"SELECT id FROM vector_search('docs', 'embedding', {literal([0.1] * 8)}, nprobes => 99, refine => 99)"
    )
    assert [row["id"] for row in nearest] == [number for _, number in everything.nearest([0.1] * 8)[:10]]
    query(docs, "ALTER TABLE docs COMPACT")
    assert listed(docs, "v")["indexed_rows"] == 2032


@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_tables_without_enough_vectors_to_learn_from_do_without(tmp_path: Path, kind: str) -> None:
    docs = made(tmp_path / "root", Documents.random(2000), partitioned_by="bucket(2, id)")
    docs.update("ALTER TABLE docs SET PARTITIONED BY (tenant)")
    docs.update("INSERT INTO docs SELECT id + 5000, 'none', price, NULL, body FROM docs")
    docs.update(f"CREATE INDEX v ON docs (embedding) USING {kind} WITH (min_rows = 1)")
    row = listed(docs, "v")
    assert (row["tables"], row["indexed_tables"], row["indexed_rows"]) == (3, 2, 2000)
    assert query(docs, "REINDEX docs")[0]["tables"] == 0


def test_vectors_of_bytes_differ_in_bits(tmp_path: Path) -> None:
    docs = made(tmp_path / "root", Documents([]))
    docs.update("CREATE TABLE prints (id BIGINT, bits TINYINT UNSIGNED[4]) PARTITIONED BY (bucket(2, id))")
    docs.update("INSERT INTO prints VALUES (1, [1, 2, 3, 4]), (2, [0, 0, 0, 255]), (3, NULL), (4, [1, 2, 3, 5])")
    docs.update("CREATE INDEX v ON prints (bits) USING ivf_flat WITH (min_rows = 1)")
    assert query(docs, "SHOW INDEXES FROM prints")[0]["options"] == '{"metric": "hamming"}'
    for more in ("", ", use_index => false", ", metric => 'hamming'"):
        nearest = query(docs, f"SELECT id, _distance FROM vector_search('prints', 'bits', [1, 2, 3, 4]{more})")
        assert [tuple(row.values()) for row in nearest] == [(1, 0.0), (4, 1.0), (2, 11.0)]


def test_small_tables_do_without(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price)")
    row = listed(docs, "p")
    assert (row["indexed_tables"], row["min_rows"]) == (0, 4096)
    assert stored(docs, "p") == [False] * 5


def test_work_that_is_interrupted_goes_on_where_it_was(docs: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "TABLES_PER_COMMIT", 2)
    namespace = PartitionedNamespace.open(docs.root.store.child("docs"))
    rules = indexing.IndexRules(column="price", name="p", min_rows=1)

    def stopping(done: int, total: int) -> None:
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        indexing.create_index(namespace, rules, PieceWork(progress=stopping))
    assert 0 < sum(stored(docs, "p")) < 5
    report = indexing.create_index(namespace, rules)
    assert 0 < report.tables < 5
    assert stored(docs, "p") == [True] * 5


def advised(docs: Engine, name: str) -> tuple[object, ...]:
    row = listed(docs, name)
    return tuple(row[column] for column in ("stale_tables", "stale_rows", "deleted_rows", "advice"))


def test_the_list_says_what_is_stale_and_what_helps(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 60)")
    docs.update("CREATE INDEX v ON docs (embedding) USING ivf_pq WITH (min_rows = 1)")
    assert advised(docs, "p") == (0, 0, 0, None)
    assert advised(docs, "v") == (0, 0, 0, None)  # there are too few vectors to learn from
    docs.update("INSERT INTO docs SELECT id + 1000, 'a', price, embedding, body FROM docs WHERE id < 7")
    docs.update("INSERT INTO docs SELECT id + 2000, 'small', price, embedding, body FROM docs WHERE id < 7")
    assert advised(docs, "p") == (1, 7, 0, "REINDEX TABLE docs INDEX p -- not in the index: 7 rows of 1 table")
    query(docs, str(advised(docs, "p")[-1]))
    assert advised(docs, "p") == (0, 0, 0, None)
    docs.update("DELETE FROM docs WHERE tenant = 'b' AND id % 3 = 0")
    _, _, deleted, advice = advised(docs, "p")
    assert isinstance(deleted, int)
    assert deleted > 20
    assert advice == f"ALTER TABLE docs COMPACT -- deleted, and in the index: {deleted} rows of 1 table"
    query(docs, str(advice))
    assert advised(docs, "p") == (0, 0, 0, None)


def test_advice_names_what_is_to_be_typed(tmp_path: Path) -> None:
    docs = made(tmp_path / "root", Documents([]))
    docs.update('CREATE SCHEMA "my lake"')
    docs.update('CREATE TABLE "my lake"."t 1" (id BIGINT) PARTITIONED BY (bucket(1, id))')
    docs.update('CREATE INDEX "ById" ON "my lake"."t 1" (id) WITH (min_rows = 1)')
    docs.update('INSERT INTO "my lake"."t 1" VALUES (1)')
    (row,) = query(docs, 'SHOW INDEXES FROM "my lake"."t 1"')
    assert row["advice"] == ('REINDEX TABLE "my lake"."t 1" INDEX "ById" -- not in the index: 1 row of 1 table')
    assert query(docs, str(row["advice"]))[0]["rows"] == 1


def test_a_lookup_by_an_indexed_column_uses_it(docs: Engine) -> None:
    docs.update("CREATE INDEX ON docs (id) WITH (min_rows = 1)")
    assert [row["id"] for row in query(docs, "SELECT id FROM docs WHERE id = 17")] == [17]
    for table in stored_tables(place(docs)):
        assert "ScalarIndexQuery" in table.dataset.scanner(filter="id = 17").explain_plan()


def test_an_index_of_a_dropped_column_is_gone(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price) WITH (min_rows = 1)")
    docs.update("ALTER TABLE docs DROP COLUMN price")
    assert query(docs, "SHOW INDEXES FROM docs") == []
    assert query(docs, "REINDEX docs") == []


ALIVE = [
    *((kind, f"num_bits = {bits}") for kind in ("ivf_pq", "ivf_hnsw_pq") for bits in (4, 8)),
    *(
        (kind, "num_partitions = 100000")
        for kind in ("ivf_flat", "ivf_sq", "ivf_pq", "ivf_rq", "ivf_hnsw_flat", "hnsw")
    ),
    ("ivf_pq", "num_bits = 4, num_sub_vectors = 2"),
    ("ivf_pq", "num_sub_vectors = 8"),
    ("hnsw", "m = 4"),
    ("hnsw", "m = 200, ef_construction = 200"),
    ("ivf_hnsw_pq", "ef_construction = 20"),
    ("ivf_rq", "metric = 'cosine'"),
    ("ivf_sq", "metric = 'dot'"),
]


@pytest.mark.parametrize(("kind", "options"), ALIVE)
def test_an_option_that_is_taken_leads_to_an_index_of_all_vectors(tmp_path: Path, kind: str, options: str) -> None:
    documents = Documents.random(600)
    docs = made(tmp_path / "root", documents, "bucket(1, id)")
    docs.update(f"CREATE INDEX v ON docs (embedding) USING {kind} WITH (min_rows = 1, {options})")
    assert listed(docs, "v")["indexed_rows"] == 600
    (table,) = stored_tables(place(docs))
    assert table.dataset.stats.index_stats("v")["num_indexed_rows"] > 500


def test_a_name_is_used_once_but_where_that_is_asked_for(docs: Engine) -> None:
    docs.update("CREATE INDEX p ON docs (price)")
    with pytest.raises(AlreadyExists, match="REINDEX"):
        docs.update("CREATE INDEX p ON docs (id)")
    docs.update("CREATE INDEX IF NOT EXISTS p ON docs (id)")
    assert listed(docs, "p")["column_name"] == "price"
    docs.update("DROP INDEX IF EXISTS q ON docs")
    assert set(COUNTS.split(", ")) <= set(listed(docs, "p"))
