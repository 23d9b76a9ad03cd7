"""Temporary tables: each belongs to its session, is nobody else's to see, and goes away with it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.catalog.roots.directory import TEMPORARY

from tests.service.server_process import COOKIES, PRIVATE, Client, Server, serving, started

ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})


def ingest(client: Client, table: str, mode: str = "create", data: pa.Table = ROWS) -> int:
    """Send the rows of a temporary table."""
    return client.ingest(table, data, mode, temporary=True)


def listed(client: Client, table: str) -> list[str]:
    """The types under which a table of this name is listed."""
    found = client.connection.adbc_get_objects(depth="tables", table_name_filter=table).read_all().to_pylist()
    return [
        each["table_type"]
        for catalog in found
        for schema in catalog["catalog_db_schemas"] or []
        for each in schema["db_schema_tables"] or []
    ]


def places_of(server: Server) -> set[Path]:
    """The places of temporary tables in a root."""
    return set(server.root.glob(f"{PRIVATE}/*/{TEMPORARY}"))


def test_an_ingest_makes_a_table_of_one_session(server: Server, table: str) -> None:
    with server.session() as mine, server.session() as other:
        assert ingest(mine, table) == 2
        assert mine.rows(f"SELECT * FROM {table}") == [(1, "a"), (2, "b")]
        assert f"no table '{table}'" in other.refuses(f"SELECT * FROM {table}")
        assert (listed(mine, table), listed(other, table)) == (["LOCAL TEMPORARY"], [])
        assert (
            mine.connection.adbc_get_table_types()
            == other.connection.adbc_get_table_types()
            == ["LOCAL TEMPORARY", "TABLE", "VIEW"]
        )
        assert mine.connection.adbc_get_table_schema(table).names == ["id", "p"]
        assert [name for _, name, _ in mine.rows("SHOW TABLES") if name == table] == [table]
        assert [name for _, name, _ in other.rows("SHOW TABLES") if name == table] == []
        with pytest.raises(Error, match="is there already"):
            ingest(mine, table)
        ingest(mine, table, "replace")
        ingest(other, table, data=ROWS.slice(1))
        assert other.rows(f"SELECT id FROM {table}") == [(2,)]
        assert mine.rows(f"SELECT id FROM {table}") == [(1,), (2,)]


def test_its_files_go_away_with_the_session_and_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path / "root") as server:
        with server.session() as mine, server.session() as other:
            ingest(mine, "t")
            places = places_of(server)
            ingest(other, "t")
            assert (len(places), len(places_of(server))) == (1, 2)
            mine.close()
            assert not places & places_of(server)
            assert other.rows("SELECT id FROM t") == [(1,), (2,)]
        idle = Client(dbapi.connect(server.uri, db_kwargs=COOKIES, autocommit=True))
        ingest(idle, "t")
        server.process.terminate()
        server.process.wait()
        assert places_of(server) == set()


def test_what_a_server_that_died_has_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    with started(tmp_path / "root") as server:
        with server.session() as mine:
            ingest(mine, "t")
            server.process.kill()
            server.process.wait()
        assert len(places_of(server)) == 1
    with serving(tmp_path / "root") as server:
        assert places_of(server) == set()
