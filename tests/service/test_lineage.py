"""Lineage over the wire: tables made by SQL and by ADBC's ingest, changed by several clients, against stock Lance."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight_client.adbc import ingest

from tests.service.server_process import Server
from tests.stock import stored_tables

COLUMNS = "id, p, _partition, _rowid, _row_created_at_version, _row_last_updated_at_version"
ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a", "b", "a", "b", "a", "b"]})


def lineage(server: Server, table: str) -> dict[int, tuple[object, ...]]:
    return {row[0]: row[1:] for row in server.rows(f"SELECT {COLUMNS} FROM {table}$lineage")}


@pytest.fixture
def kept(server: Server, table: str) -> str:
    assert ingest(server.connection, table, ROWS, partition_by="p", stable_row_ids=True) == ROWS.num_rows
    return table


def test_an_ingest_makes_a_table_whose_rows_keep_their_ids(server: Server, kept: str) -> None:
    before = lineage(server, kept)
    assert all(table.dataset.has_stable_row_ids for table in stored_tables(server.root / kept))
    server.ingest(kept, ROWS.slice(0, 1), mode="append")
    assert server.run(f"UPDATE {kept} SET id = id + 100 WHERE id IN (2, 3)") == 2
    server.rows(f"ALTER TABLE {kept} COMPACT")
    after = lineage(server, kept)
    assert {number: after[number] for number in (4, 5)} == {number: before[number] for number in (4, 5)}
    for number in (2, 3):
        p, partition, row_id, created, updated = after[number + 100]
        assert (p, partition, row_id, created) == before[number][:4]
        assert updated > before[number][4]
    stored = {
        row["id"]: tuple(row[name] for name in COLUMNS.split(", ")[3:])
        for table in stored_tables(server.root / kept)
        for row in table.dataset.to_table(columns=["id", *COLUMNS.split(", ")[3:]]).to_pylist()
        if row["id"] != 0
    }
    assert {number: row[2:] for number, row in after.items() if number != 0} == stored


def test_changes_say_which_row_they_are_of(server: Server, kept: str) -> None:
    newest = f"SELECT max(version) FROM {kept}$snapshots"
    first, row_id = server.value(newest), lineage(server, kept)[4][2]
    server.run(
        f"MERGE INTO {kept} USING (VALUES (4, 'a'), (77, 'c')) AS s(id, p) ON {kept}.id = s.id"
        " WHEN MATCHED THEN UPDATE SET id = 44 WHEN NOT MATCHED THEN INSERT *"
    )
    changes = (
        f"SELECT _change, _rowid, id FROM table_changes('{kept}', {first}, {server.value(newest)}) ORDER BY id, _change"
    )
    assert server.rows(changes) == [("delete", row_id, 4), ("insert", row_id, 44), ("insert", 0, 77)]


def test_a_branch_has_lineage_of_its_own_until_it_is_published(server: Server, kept: str) -> None:
    before = lineage(server, kept)
    server.run(f"ALTER TABLE {kept} CREATE BRANCH side")
    server.run(f'UPDATE "{kept}@side" SET id = 11 WHERE id = 1')
    assert lineage(server, kept) == before
    server.run(f"ALTER TABLE {kept} PUBLISH BRANCH side")
    after = lineage(server, kept)
    assert after[11][:4] == before[1][:4]
    assert {number: row[:4] for number, row in after.items() if number != 11} == {
        number: row[:4] for number, row in before.items() if number != 1
    }


def test_without_the_option_there_is_none(server: Server, table: str) -> None:
    server.ingest(table, ROWS, partition_by="p")
    assert f"rows of table '{table}' have no lineage" in server.refuses(f"SELECT * FROM {table}$lineage")
