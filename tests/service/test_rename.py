"""Tables renamed over the wire, seen by another server and by stock Lance; nested namespaces as a client lists them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from lance_flight.flight.commands import StatementQuery
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.engine.directory_namespace import lay_out
from tests.service.server_process import PRIVATE, Server, serving
from tests.stock import stored_rows

ROWS = pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]})
REFUSED = (pa.ArrowException, flight.FlightError)


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_another_server_sees_the_new_name_at_once(tmp_path: Path, partition_by: str | None) -> None:
    with serving(tmp_path / "root") as one, serving(tmp_path / "root") as other:
        one.ingest("a", ROWS, partition_by=partition_by)
        one.ingest("b", ROWS.slice(0, 1), partition_by=partition_by)
        assert (other.value("SELECT count(*) FROM a"), other.value("SELECT count(*) FROM b")) == (3, 1)
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            assert one.run(f"ALTER TABLE {old} RENAME TO {new}") == 0
        assert other.rows("SHOW TABLES") == [("public", name, partition_by is not None) for name in "ab"]
        assert (other.value("SELECT count(*) FROM a"), other.value("SELECT count(*) FROM b")) == (1, 3)
        assert other.run("INSERT INTO a VALUES (9, 'z')") == 1
        assert one.rows("SELECT id FROM a ORDER BY id") == [(1,), (9,)]
        assert "no table 'c'" in other.refuses("SELECT * FROM c")
    if partition_by is not None:
        assert sorted(stored_rows(tmp_path / "root" / "b")["id"].to_pylist()) == [1, 2, 3]
    assert {path.name for path in (tmp_path / "root").iterdir()} - {PRIVATE} == (
        {"a", "b"} if partition_by else {"a.lance", "b.lance"}
    )


def test_a_plan_made_before_is_no_plan_for_the_table_that_has_the_name_now(server: Server) -> None:
    for name in ("first", "second"):
        server.ingest(name, ROWS, partition_by="p")
    described = flight.FlightDescriptor.for_command(encode_command(StatementQuery(query="SELECT id FROM first")))
    info = server.client.get_flight_info(described)
    server.run("ALTER TABLE first RENAME TO third")
    with pytest.raises(REFUSED, match="no table 'first'"):
        server.client.do_get(info.endpoints[0].ticket).read_all()
    server.run("ALTER TABLE second RENAME TO first")
    with pytest.raises(REFUSED, match="'first' was dropped and made again"):
        server.client.do_get(info.endpoints[0].ticket).read_all()


def test_a_transaction_of_the_wire_renames_nothing(server: Server, table: str) -> None:
    server.ingest(table, ROWS)
    assert "[invalid_sql]" in server.refuses(f"ALTER TABLE {table} RENAME b")
    assert "[already_exists]" in server.refuses(f"ALTER TABLE {table} RENAME TO {table}")
    with pytest.raises(Error, match="not altered inside a transaction"):
        in_a_transaction(server, f"ALTER TABLE {table} RENAME TO {table}_new")
    assert server.value(f"SELECT count(*) FROM {table}") == 3


def in_a_transaction(server: Server, sql: str) -> None:
    server.connection.adbc_connection.set_autocommit(False)
    try:
        with server.connection.cursor() as cursor:
            cursor.execute(sql)
    finally:
        server.connection.rollback()
        server.connection.adbc_connection.set_autocommit(True)


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
