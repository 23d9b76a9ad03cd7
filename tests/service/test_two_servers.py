"""Two servers over one root: what one does, the other sees at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.engine.directory_namespace import lay_out
from tests.service.server_process import Server, serving
from tests.stock import manifest, stored_rows

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]})
LAYOUTS = pytest.mark.parametrize("partition_by", [None, "bucket(4, id)"], ids=["plain", "partitioned"])


@LAYOUTS
def test_rows_are_seen_by_the_other_server_at_once(
    server: Server, other: Server, table: str, partition_by: str | None
) -> None:
    server.ingest(table, pa.table({"id": [0]}), partition_by=partition_by)
    for number in range(1, 7):
        writer, reader = (server, other) if number % 2 else (other, server)
        writer.ingest(table, pa.table({"id": [number]}), "append")
        assert sorted(reader.rows(f"SELECT id FROM {table}")) == [(n,) for n in range(number + 1)]


@LAYOUTS
def test_a_table_that_the_other_server_made_again_serves_the_new_rows(
    server: Server, other: Server, table: str, partition_by: str | None
) -> None:
    for round_ in range(4):
        maker, reader = (server, other) if round_ % 2 else (other, server)
        maker.ingest(table, pa.table({"id": [10 * round_, 10 * round_ + 1]}), partition_by=partition_by)
        for each in (reader, maker):
            assert sorted(each.rows(f"SELECT id FROM {table}")) == [(10 * round_,), (10 * round_ + 1,)]
            assert each.rows(f"SELECT id FROM {table} WHERE id = {10 * round_}") == [(10 * round_,)]
        maker.run(f"DROP TABLE {table}")
        assert "not_found" in reader.refuses(f"SELECT id FROM {table}")


def test_versions_of_a_table_made_again_are_its_own(server: Server, other: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": [1]}), partition_by="id")
    version = manifest(server.root / table).version
    assert server.rows(f"SELECT id FROM {table}@{version}") == [(1,)]
    other.ingest(table, pa.table({"id": [2]}), "replace", partition_by="id")
    assert manifest(server.root / table).version == version
    assert server.rows(f"SELECT id FROM {table}@{version}") == [(2,)]
    assert server.rows(f"SELECT id FROM {table}") == [(2,)]


def test_another_server_sees_the_new_name_at_once(server: Server, other: Server, table: str) -> None:
    a, b, c = (f"{table}_{letter}" for letter in "abc")
    server.ingest(a, ROWS, partition_by="p")
    server.ingest(b, ROWS.slice(0, 1), partition_by="p")
    assert (other.value(f"SELECT count(*) FROM {a}"), other.value(f"SELECT count(*) FROM {b}")) == (3, 1)
    for old, new in ((a, c), (b, a), (c, b)):
        assert server.run(f"ALTER TABLE {old} RENAME TO {new}") == 0
    assert other.rows(f"SHOW TABLES LIKE '{table}%'") == [("public", name, True) for name in (a, b)]
    assert (other.value(f"SELECT count(*) FROM {a}"), other.value(f"SELECT count(*) FROM {b}")) == (1, 3)
    assert other.run(f"INSERT INTO {a} VALUES (9, 'z')") == 1
    assert server.rows(f"SELECT id FROM {a} ORDER BY id") == [(1,), (9,)]
    assert f"no table '{c}'" in other.refuses(f"SELECT * FROM {c}")
    assert sorted(stored_rows(server.root / b)["id"].to_pylist()) == [1, 2, 3]
    assert {path.name for path in server.root.glob(f"{table}_*")} == {a, b}


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
