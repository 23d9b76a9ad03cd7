"""One statement of each kind over the wire: what its client is answered. What statements mean is tested in tests/engine."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.service.server_process import Server
from tests.stock import manifest

Answer = int | str | list[tuple[Any, ...]]
"""How many rows are affected, the first column of a report, or the rows of a query."""

UPSERT = "WHEN MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT *"
STATEMENTS: list[tuple[str, Answer]] = [
    ("CREATE TABLE {t} (id BIGINT NOT NULL, p VARCHAR, n INT) PARTITIONED BY (p)", 0),
    ("INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)", 3),
    ("UPDATE {t} SET n = n + 10 WHERE id < 3", 2),
    ("DELETE FROM {t} WHERE p IS NULL", 1),
    (f"MERGE INTO {{t}} USING (SELECT 1 AS id UNION ALL SELECT 4) s ON {{t}}.id = s.id {UPSERT}", 2),
    ("INSERT OVERWRITE {t} VALUES (5, 'b', 5)", 2),
    ("SELECT id, p, n FROM {t} ORDER BY id", [(1, "a", 0), (4, None, None), (5, "b", 5)]),
    ("ALTER TABLE {t} CREATE TAG good", 0),
    ("ALTER TABLE {t} ADD COLUMN c INT DEFAULT 7", 0),
    ("ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT", 0),
    ("ALTER TABLE {t} RENAME COLUMN c TO d", 0),
    ("SELECT d, n FROM {t} WHERE id = 5", [(7, 5)]),
    ("ALTER TABLE {t} DROP COLUMN d", 0),
    ("SHOW COLUMNS FROM {t}", "table_catalog"),
    ("DESCRIBE {t}", "column_name"),
    ("EXPLAIN SELECT * FROM {t} WHERE p = 'a'", "plan_type"),
    ("SUMMARIZE {t}", "column_name"),
    ("ALTER TABLE {t} SET PARTITIONED BY (bucket(2, id))", 0),
    ("ALTER TABLE {t} REWRITE PARTITIONS", "snapshot"),
    ("ALTER TABLE {t} COMPACT", "object_id"),
    ("VERIFY TABLE {t}", "object_id"),
    ("DESCRIBE NAMESPACE {t}", "property"),
    ("ALTER TABLE {t} ROLLBACK TO good", 0),
    ("ALTER TABLE {t} SET PARTITIONED BY (p)", 0),
    ("SELECT count(*) FROM {t} FOR TAG good", [(3,)]),
    ("TRUNCATE {t}", 3),
    ("SELECT count(*) FROM {t}", [(0,)]),
    ("INSERT INTO {t} SELECT * FROM {t}@good", 3),
    ("SELECT DISTINCT _change FROM table_changes('{t}', 'good', '2999-01-01') ORDER BY 1", [("delete",), ("insert",)]),
    ("CREATE INDEX by_id ON {t} (id) WITH (min_rows = 1)", 0),
    ("REINDEX {t}", "name"),
    ("SELECT name FROM {t}$indexes", [("by_id",)]),
    ("DROP INDEX by_id ON {t}", 0),
    ("ALTER TABLE {t} DROP PARTITION (p = NULL)", 1),
    ("ALTER TABLE {t} DETACH PARTITION (p = 'b') TO {t}_out", 1),
    ("SELECT id FROM {t}_out", [(5,)]),
    ("ALTER TABLE {t} ATTACH TABLE '{t}_out' PARTITION (p = 'b')", 1),
    ("ALTER TABLE {t} CREATE BRANCH work", 0),
    ("INSERT INTO \"{t}@work\" VALUES (6, 'a', 6)", 1),
    ("ALTER TABLE {t} PUBLISH BRANCH work", 0),
    ("CREATE VIEW v_{t} AS SELECT id FROM {t} WHERE p = 'a'", 0),
    ("SELECT id FROM v_{t} ORDER BY id", [(1,), (6,)]),
    ("DROP VIEW v_{t}", 0),
    ("VACUUM {t}", "kind"),
    ("CREATE TABLE {t}_copy AS SELECT id FROM {t}", 3),
    ("ALTER TABLE {t}_copy RENAME TO {t}_renamed", 0),
    ("SELECT count(*) FROM {t}_renamed", [(3,)]),
    ("DROP TABLE {t}_renamed", 0),
    ("CREATE SCHEMA s_{t}", 0),
    ("DROP SCHEMA s_{t}", 0),
    ("DROP TABLE {t}", 0),
]  # fmt: skip


def test_each_kind_of_statement_is_answered(server: Server, table: str) -> None:
    for sql, expected in STATEMENTS:
        written = sql.format(t=table)
        match expected:
            case int():
                assert server.run(written) == expected, written
            case str():
                assert server.query(written).schema.names[0] == expected, written
            case _:
                assert server.rows(written) == expected, written


def test_many_rows_of_parameters_are_one_commit(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
    before = manifest(server.root / table).version
    with server.connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(1, "a"), (2, None), (3, "a")])
        assert cursor.rowcount == 3
        cursor.executemany(f"UPDATE {table} SET id = id + ? WHERE id = ?", [(10, 1), (100, 2), (1000, 9)])
        assert cursor.rowcount == 2
    assert manifest(server.root / table).version == before + 2
    assert server.rows(f"SELECT id, p FROM {table} ORDER BY id") == [(3, "a"), (11, "a"), (102, None)]


def test_preparing_a_change_runs_nothing(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    before = manifest(server.root / table).version
    with server.connection.cursor() as cursor:
        schema = cursor.adbc_prepare(f"INSERT INTO {table} VALUES (?, ?)")
    assert schema.types == [pa.int64(), pa.utf8()]
    assert manifest(server.root / table).version == before


def test_a_partition_of_a_query_does_not_read_another_view_than_it_was_planned_with(server: Server, table: str) -> None:
    server.run(f"CREATE VIEW {table} AS SELECT 1 AS x")
    with server.connection.cursor() as cursor:
        (part,), schema = cursor.adbc_execute_partitions(f"SELECT x FROM {table}")
        server.run(f"CREATE OR REPLACE VIEW {table} AS SELECT 'other' AS x")
        with pytest.raises(Exception, match=r"conflict.*was replaced"):
            cursor.adbc_read_partition(part)
    assert schema.names == ["x"]


@pytest.mark.parametrize(
    "name", ["Sales 2024", "naïve-τ", "100%", "a%20b", 'say "x"', "it's", "a?*[b]:c", "🦆", "a;b--"]
)
def test_a_name_that_is_no_identifier_travels(server: Server, name: str) -> None:
    assert server.ingest(name, pa.table({"k": [1]}), partition_by="k") == 1
    listed = server.connection.adbc_get_objects(depth="tables").read_all().to_pylist()
    assert name in [
        table["table_name"]
        for catalog in listed
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    ]
    assert server.connection.adbc_get_table_schema(name).names == ["k"]
    quoted = '"' + name.replace('"', '""') + '"'
    assert server.rows(f"SELECT k FROM {quoted}") == [(1,)]
    server.run(f"DROP TABLE {quoted}")
