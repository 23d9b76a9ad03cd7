"""Columns of JSON, made by SQL, by an ingest or by stock Lance: what SQL says of them, and what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_flight
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import DataError, SchemaError

from tests.engine.database import Database

pytestmark = pytest.mark.slow  # each statement over tables of nine makes

T = TableName("public", "t")
GIVEN = ['{"kind": "click", "at": {"x": 1, "y": 2.50}}', None, '[1, "é", null]', '"text"', "null"]
BEFORE = {
    1: '{"at":{"x":1,"y":2.5},"kind":"click"}',
    2: None,
    3: '[1,"é",null]',
    4: '"text"',
    5: "null",
}
SITES = ["x", "x", "y", "y", "y"]


def documents(texts: list[str | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.utf8()))


def sample() -> pa.Table:
    return pa.table({"id": pa.array(range(1, 6), pa.int64()), "site": SITES, "doc": documents(GIVEN)})


def by_ingest(layout: str) -> Callable[[Engine, Path], None]:
    def make(engine: Engine, root: Path) -> None:
        options = IngestOptions(properties=TableProperties.by(layout))
        reader = sample().to_reader()
        ingest.ingest(engine.root, T, reader, create_missing=True, existing=IfExists.FAIL, options=options)

    return make


def by_statements(layout: str) -> Callable[[Engine, Path], None]:
    def make(engine: Engine, root: Path) -> None:
        engine.update(f"CREATE TABLE t (id BIGINT, site VARCHAR, doc JSON){layout}")
        texts = ["NULL" if text is None else f"'{text}'" for text in GIVEN]
        listed = ", ".join(f"({n}, '{site}', {text})" for n, site, text in zip(BEFORE, SITES, texts, strict=True))
        engine.update(f"INSERT INTO t VALUES {listed}")

    return make


def by_texts(engine: Engine, root: Path) -> None:
    engine.update("CREATE TABLE t (id BIGINT, site VARCHAR, doc JSON) PARTITIONED BY (bucket(3, id))")
    rows = sample().set_column(2, "doc", pa.array(GIVEN, pa.large_utf8()))
    ingest.ingest(engine.root, T, rows.to_reader(), create_missing=False, existing=IfExists.APPEND)


def by_lance(version: str) -> Callable[[Engine, Path], None]:
    def make(engine: Engine, root: Path) -> None:
        lance.write_dataset(sample(), str(root / "t.lance"), data_storage_version=version)

    return make


KINDS = {
    "made by SQL": by_statements(""),
    "made by SQL, in partitions": by_statements(" PARTITIONED BY (site)"),
    "texts that are ingested into partitions": by_texts,
    "made by an ingest": by_ingest(""),
    "made by an ingest, in partitions": by_ingest("site"),
    "in old files": by_statements(" PARTITIONED BY (site) WITH (file_version = '2.0')"),
    **{f"stock, {version}": by_lance(version) for version in ("2.0", "2.1", "2.2")},
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path) -> Engine:
    KINDS[request.param](engine, tmp_path)
    return engine


def rows(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in engine.query(sql).to_pylist()]


def read(engine: Engine) -> dict[int, str | None]:
    return dict(rows(engine, "SELECT id, doc FROM t ORDER BY id"))


def stored(root: Path) -> dict[int, str | None]:
    """What stock Lance reads of the tables that hold rows, each by itself; it keeps documents in its own form."""
    found = {}
    for versions in sorted(root.glob("t*/**/_versions")):
        dataset = lance.dataset(str(versions.parent))
        if "doc" in dataset.schema.names and "branch" not in str(versions):
            assert dataset.schema.field("doc").type == pa.json_()
            held = dataset.lance_schema.to_pyarrow().field("doc")
            assert (held.type, held.metadata[b"ARROW:extension:name"]) == (pa.large_binary(), b"lance.json")
            read = dataset.to_table(columns=["id", "doc"])
            found |= dict(zip(read["id"].to_pylist(), read["doc"].to_pylist(), strict=True))
    return dict(sorted(found.items()))


CLICK = BEFORE[1]
QUERIES = {
    "SELECT * FROM t ORDER BY id": [(n, site, BEFORE[n]) for n, site in zip(BEFORE, SITES, strict=True)],
    "SELECT id FROM t WHERE doc IS NULL": [(2,)],
    "SELECT id FROM t WHERE doc IS NOT NULL AND site = 'x'": [(1,)],
    f"SELECT id FROM t WHERE doc = '{CLICK}'": [(1,)],
    f"SELECT id FROM t WHERE doc <> '{CLICK}' AND site = 'y' ORDER BY id": [(3,), (4,), (5,)],
    "SELECT id FROM t WHERE doc IN ('null', 'x') OR id = 1 ORDER BY id": [(1,), (5,)],
    "SELECT id FROM t WHERE doc LIKE '%click%'": [(1,)],
    "SELECT doc FROM t WHERE doc > 'm' AND id > 1": [("null",)],
    "SELECT count(*), count(doc) FROM t": [(5, 4)],
    "SELECT site, count(doc), max(doc) FROM t GROUP BY site ORDER BY site": [("x", 1, CLICK), ("y", 3, "null")],
    "SELECT a.id FROM t a JOIN t b ON a.doc = b.doc ORDER BY a.id": [(1,), (3,), (4,), (5,)],
    "SELECT DISTINCT doc FROM t ORDER BY doc DESC NULLS LAST LIMIT 1": [(CLICK,)],
    "SELECT length(doc), doc || '!' FROM t WHERE id = 4": [(6, '"text"!')],
    "SELECT data_type FROM information_schema.columns WHERE table_name = 't' AND column_name = 'doc'": [("JSON",)],
}


def test_documents_are_texts_to_queries(table: Engine) -> None:
    assert {sql: rows(table, sql) for sql in QUERIES} == QUERIES
    assert table.query("SELECT doc FROM t").schema.field("doc").type == pa.json_()
    assert table.query("DESCRIBE t")["data_type"].to_pylist() == ["BIGINT", "VARCHAR", "JSON"]
    assert '"doc" JSON' in table.query("SHOW CREATE TABLE t")["definition"][0].as_py()


CHANGES = {
    """INSERT INTO t VALUES (6, 'x', '{"a": [1 ]}')""": BEFORE | {6: '{"a":[1]}'},
    "INSERT INTO t (id, site) VALUES (6, 'z')": BEFORE | {6: None},
    "INSERT INTO t SELECT id + 10, site, doc FROM t WHERE id < 3": BEFORE | {11: CLICK, 12: None},
    "INSERT INTO t SELECT id + 10, site, '[' || id || ']' FROM t WHERE id = 1": BEFORE | {11: "[1]"},
    "UPDATE t SET id = id + 10 WHERE id = 1": {n: doc for n, doc in BEFORE.items() if n > 1} | {11: CLICK},
    """UPDATE t SET doc = '{"z": 1, "a": 2}' WHERE id = 2""": BEFORE | {2: '{"a":2,"z":1}'},
    "UPDATE t SET doc = NULL": dict.fromkeys(BEFORE),
    "UPDATE t SET doc = '[' || doc || ']' WHERE doc IS NOT NULL": {
        n: doc if doc is None else f"[{doc}]" for n, doc in BEFORE.items()
    },
    "DELETE FROM t WHERE id = 1": {n: doc for n, doc in BEFORE.items() if n != 1},
    "DELETE FROM t WHERE doc = 'null'": {n: doc for n, doc in BEFORE.items() if n != 5},
    "MERGE INTO t USING (VALUES (4, '{}'), (6, '[]')) s (id, doc) ON t.id = s.id WHEN MATCHED THEN UPDATE SET doc = s.doc"
    " WHEN NOT MATCHED THEN INSERT (id, site, doc) VALUES (s.id, 'z', s.doc)": BEFORE | {4: "{}", 6: "[]"},
}


@pytest.mark.parametrize("statement", CHANGES)
def test_documents_are_written_and_kept_beside_what_changes(table: Engine, tmp_path: Path, statement: str) -> None:
    table.update(statement)
    assert read(table) == CHANGES[statement]
    assert {n: doc for n, doc in stored(tmp_path).items() if n in CHANGES[statement]} == CHANGES[statement]


REFUSED = {
    "INSERT INTO t VALUES (6, 'x', '{}'), (7, 'x', '{a: 1}')": "'{a: 1}' in row 2 of a batch of 2, which is no JSON",
    "INSERT INTO t VALUES (6, 'x', '')": "'' in row 1 of a batch of 1, which is no JSON",
    "INSERT INTO t VALUES (6, 'x', 5)": "column 'doc' holds int64; expected documents, or texts of them",
    "INSERT INTO t SELECT 6, 'x', repeat('[', 100000)": "more than 128 arrays and objects deep",
    "UPDATE t SET doc = upper(doc) || '}' WHERE id = 1": "which is no JSON: Extra data at character 38",
    "MERGE INTO t USING (VALUES (4, 'x')) s (id, doc) ON t.id = s.id WHEN MATCHED THEN UPDATE SET doc = s.doc": "'x' in row 1",
}  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_no_document_is_not_written(table: Engine, tmp_path: Path, statement: str) -> None:
    with pytest.raises(DataError) as refused:
        table.update(statement)
    assert REFUSED[statement] in str(refused.value)
    assert read(table) == stored(tmp_path) == BEFORE


def test_an_ingest_of_what_is_no_document_stores_nothing(table: Engine) -> None:
    for text in ("{a: 1}", "[" * 100_000):
        more = pa.table({"id": [6], "site": ["x"], "doc": documents([text])})
        with pytest.raises(DataError, match="column 'doc' holds"):
            ingest.ingest(table.root, T, more.to_reader(), create_missing=False, existing=IfExists.APPEND)
    numbers = pa.table({"id": [6], "site": ["x"], "doc": [1]})
    with pytest.raises(SchemaError, match=r"column 'doc' is BIGINT; expected JSON"):
        ingest.ingest(table.root, T, numbers.to_reader(), create_missing=False, existing=IfExists.APPEND)
    assert read(table) == BEFORE


def test_texts_are_documents_in_parameters_and_ingests(database: Database) -> None:
    database.run("CREATE TABLE u (id BIGINT, doc JSON)")
    assert database.run("INSERT INTO u VALUES (?, ?)", (1, '{"b": 1, "a": 2}')) == 1
    assert database.ingest("u", pa.table({"id": [2], "doc": ["[1 ]"]}), "append") == 1
    assert database.run("UPDATE u SET doc = ? WHERE id = ?", ("true", 2)) == 1
    assert database.rows("SELECT id, doc FROM u WHERE doc = ? OR id = ?", ("true", 1)) == [
        (1, '{"a":2,"b":1}'),
        (2, "true"),
    ]
    assert "'{a}' in row 1" in database.refuses("INSERT INTO u VALUES (?, ?)", (3, "{a}"))


def test_documents_are_published_with_their_branch(database: Database) -> None:
    database.ingest("branched", sample(), partition_by="site")
    read_all = "SELECT id, doc FROM branched ORDER BY id"
    database.run("ALTER TABLE branched CREATE BRANCH draft")
    database.run("INSERT INTO \"branched@draft\" VALUES (6, 'z', '[6]')")
    assert dict(database.rows(read_all)) == BEFORE
    database.run("ALTER TABLE branched PUBLISH BRANCH draft")
    assert dict(database.rows(read_all)) == BEFORE | {6: "[6]"}


def test_documents_stay_through_maintenance(table: Engine, tmp_path: Path) -> None:
    for n in range(6, 10):
        table.update(f"INSERT INTO t VALUES ({n}, 'y', '[{n}]')")
    table.update("DELETE FROM t WHERE id = 3")
    expected = {n: doc for n, doc in BEFORE.items() if n != 3} | {n: f"[{n}]" for n in range(6, 10)}
    opened = table.root.table(T)
    assert compact(opened, CompactionRules()).tables
    assert read(table) == expected
    vacuum(opened, VacuumRules(retain_hours=0, force=True))
    assert read(table) == stored(tmp_path) == expected
    assert verify(opened, evaluate).unsound == []


def test_columns_change_beside_documents_and_to_them(table: Engine) -> None:
    for statement in (
        "ALTER TABLE t ADD COLUMN n BIGINT DEFAULT 7",
        """ALTER TABLE t ADD COLUMN more JSON DEFAULT '{"b": 1, "a": 2}'""",
        """ALTER TABLE t ADD COLUMN made JSON AS ('{"id": ' || id || '}')""",
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t ADD COLUMN size BIGINT AS (length(doc))",
        "ALTER TABLE t ADD COLUMN copied JSON AS (doc)",
        "ALTER TABLE t RENAME COLUMN doc TO body",
        "INSERT INTO t (id, site, body, made) VALUES (6, 'z', '[6]', '1')",
        "UPDATE t SET more = body WHERE id = 1",
    ):
        table.update(statement)
    default = '{"a":2,"b":1}'
    assert rows(table, "SELECT id, body, n, more, made FROM t ORDER BY id") == [
        (1, CLICK, 7, CLICK, '{"id":1}'),
        *((n, BEFORE[n], 7, default, f'{{"id":{n}}}') for n in (2, 4, 5)),
        (6, "[6]", 7, default, "1"),
    ]
    assert table.query("DESCRIBE t")["data_type"].to_pylist() == [
        *("BIGINT", "VARCHAR", "JSON", "BIGINT", "JSON", "JSON", "BIGINT", "JSON")
    ]
    sizes = [(doc and len(doc), doc) for n, doc in BEFORE.items() if n != 3]
    assert rows(table, "SELECT size, copied FROM t WHERE id < 6 ORDER BY id") == sizes
    table.update("ALTER TABLE t DROP COLUMN body")
    assert rows(table, "SELECT count(more), count(made) FROM t") == [(5, 5)]


def test_documents_inside_other_values_are_read_and_not_written(engine: Engine, tmp_path: Path) -> None:
    inside = pa.StructArray.from_arrays([documents(['{"a": 1}'])], names=["doc"])
    nested = pa.table({"id": [1], "s": inside})
    with pytest.raises(SchemaError, match=r"column 's' is STRUCT<.doc. JSON>, which cannot be stored"):
        ingest.ingest(engine.root, T, nested.to_reader(), create_missing=True, existing=IfExists.FAIL)
    lance.write_dataset(nested, str(tmp_path / "t.lance"))
    assert rows(engine, "SELECT id, s['doc'] FROM t") == [(1, '{"a":1}')]
    with pytest.raises(DataError, match="in which no JSON is written"):
        ingest.ingest(engine.root, T, nested.to_reader(), create_missing=False, existing=IfExists.APPEND)


def test_a_table_made_of_a_query_has_documents_where_the_query_has_columns_of_them(table: Engine) -> None:
    table.update("CREATE TABLE c AS SELECT id, doc, upper(doc) AS text FROM t")
    assert table.query("DESCRIBE c")["data_type"].to_pylist() == ["BIGINT", "JSON", "VARCHAR"]
    assert dict(rows(table, "SELECT id, doc FROM c ORDER BY id")) == BEFORE


def test_a_table_with_documents_becomes_a_partition_and_leaves_again(engine: Engine, tmp_path: Path) -> None:
    by_lance("2.1")(engine, tmp_path)
    engine.update("DELETE FROM t WHERE site = 'x'")
    engine.update("CREATE TABLE p (id BIGINT, site VARCHAR, doc JSON) PARTITIONED BY (site)")
    engine.update("INSERT INTO p VALUES (1, 'x', '1')")
    engine.update("ALTER TABLE p ATTACH TABLE 't' PARTITION (site = 'y')")
    engine.update("INSERT INTO p VALUES (6, 'y', '[6]')")
    after = {n: BEFORE[n] for n in (3, 4, 5)} | {6: "[6]"}
    assert dict(rows(engine, "SELECT id, doc FROM p ORDER BY id")) == {1: "1"} | after
    engine.update("ALTER TABLE p DETACH PARTITION (site = 'y') TO q")
    assert dict(rows(engine, "SELECT id, doc FROM q ORDER BY id")) == after


def test_a_dataset_has_documents(table: Engine) -> None:
    with lance_flight.dataset(table.root.store.uri, "t", filter="doc IS NOT NULL AND id < 4") as opened:
        found = opened.to_table()
    assert found.schema.field("doc").type == pa.json_()
    loaded = {n: json.loads(doc) for n, doc in zip(found["id"].to_pylist(), found["doc"].to_pylist(), strict=True)}
    assert loaded == {n: json.loads(BEFORE[n] or "") for n in (1, 3)}
