"""Tables renamed over the wire, seen by another server and by stock Lance; nested namespaces as a client lists them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.engine.directory_namespace import lay_out
from tests.service.server_process import PRIVATE, serving
from tests.stock import stored_rows

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]})


def test_another_server_sees_the_new_name_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "root") as one, serving(tmp_path / "root") as other:
        one.ingest("a", ROWS, partition_by="p")
        one.ingest("b", ROWS.slice(0, 1), partition_by="p")
        assert (other.value("SELECT count(*) FROM a"), other.value("SELECT count(*) FROM b")) == (3, 1)
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            assert one.run(f"ALTER TABLE {old} RENAME TO {new}") == 0
        assert other.rows("SHOW TABLES") == [("public", name, True) for name in "ab"]
        assert (other.value("SELECT count(*) FROM a"), other.value("SELECT count(*) FROM b")) == (1, 3)
        assert other.run("INSERT INTO a VALUES (9, 'z')") == 1
        assert one.rows("SELECT id FROM a ORDER BY id") == [(1,), (9,)]
        assert "no table 'c'" in other.refuses("SELECT * FROM c")
    assert sorted(stored_rows(tmp_path / "root" / "b")["id"].to_pylist()) == [1, 2, 3]
    assert {path.name for path in (tmp_path / "root").iterdir()} - {PRIVATE} == {"a", "b"}


def test_a_client_lists_nested_namespaces_as_schemas(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    lay_out(tmp_path / "root", {"t": "1_t", "a$t": "2_t", "a$b$t": "3_t"})
    with serving(tmp_path / "root") as server:
        found = server.connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        assert {
            schema["db_schema_name"]: [table["table_name"] for table in schema["db_schema_tables"]]
            for catalog in found
            for schema in catalog["catalog_db_schemas"]
        } == {"public": ["t"], "a": ["t"], "a.b": ["t"]}
        assert server.rows('SELECT t.id, x.id, y.id FROM t, a.t x, "a.b".t y') == [(0, 1, 2)]
        assert server.ingest("t", pa.table({"id": [8]}), "append", db_schema_name="a.b") == 1
        assert server.value('SELECT count(*) FROM "a.b".t') == 2
        assert "[unsupported]" in server.refuses("CREATE TABLE a.new (id INT) PARTITIONED BY (id)")
