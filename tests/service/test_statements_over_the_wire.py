"""Each kind of statement and each type of column once over the wire, as a driver sends and reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.engine.statements.parsing import STATEMENTS, SubstraitPlan, parse
from lance_flight_client.adbc import ingest

from tests.engine.column_types import TYPES
from tests.service.server_process import Server
from tests.stock import manifest, stored_tables

NAMES = ["table_catalog", "table_schema", "table_name"]
PINS = ["object_id", "location", "read_version", "read_branch", "read_tag"]
STATISTICS = ["min", "max", "approx_unique", "avg", "std", "q25", "q50", "q75"]
SCRIPT: list[tuple[str, int | list[str] | str]] = [
    ("CREATE SCHEMA smoke", 0),
    ("USE smoke", 0),
    ("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)", 0),
    ("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'b')", 3),
    ("UPDATE t SET id = 4 WHERE id = 3", 1),
    (
        "MERGE INTO t USING (VALUES (4), (5)) s (id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 'c')",
        1,
    ),
    ("DELETE FROM t WHERE id = 2", 1),
    ("COMMIT WRITE 's' INTO t PARTS ('first')", "[conflict]"),
    ("BEGIN WRITE 's' INTO t ADD COLUMN more INT", 0),
    ("SELECT * FROM t", ["id", "p"]),
    ("SUBSTRAIT 'cGxhbg=='", "[invalid_"),
    ("EXPLAIN SELECT * FROM t", ["plan_type", "plan"]),
    ("DESCRIBE t", ["column_name", "data_type", "is_nullable", "field_id", "partitioning", "comment"]),
    ("DESCRIBE NAMESPACE t", ["property", "value"]),
    ("SHOW TABLES", ["table_schema", "table_name", "partitioned"]),
    ("SHOW COLUMNS FROM t", [*NAMES, "column_name", "data_type", "is_nullable", "column_comment"]),
    ("SHOW CREATE TABLE t", [*NAMES, "definition"]),
    ("SHOW ALL", ["name", "value"]),
    ("SHOW PARTITIONS t", ["spec_id", "p", *PINS, "rows", "bytes", "files", "last_change"]),
    ("SUMMARIZE t", ["column_name", "column_type", *STATISTICS, "count", "null_percentage"]),
    ("CREATE VIEW v AS SELECT id FROM t", 0),
    ("SHOW CREATE VIEW v", [*NAMES, "definition"]),
    ("DROP VIEW v", 0),
    ("CREATE INDEX i ON t (id) WITH (min_rows = 1)", 0),
    ("REINDEX t", ["name", "tables", "rows", "snapshot"]),
    ("DROP INDEX i ON t", 0),
    ("COMMENT ON TABLE t IS 'a table'", 0),
    ("ALTER TABLE t SET METADATA ('k' = 'v')", 0),
    ("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 1", 0),
    ("ALTER TABLE t RENAME COLUMN n TO m", 0),
    ("ALTER TABLE t ALTER COLUMN m TYPE BIGINT", 0),
    ("ALTER TABLE t ADD PRIMARY KEY (m)", 0),
    ("ALTER TABLE t DROP PRIMARY KEY", 0),
    ("ALTER TABLE t DROP COLUMN m", 0),
    ("ALTER TABLE t SET (compact_files = 4)", 0),
    ("ALTER TABLE t CREATE TAG good", 0),
    ("ALTER TABLE t REPLACE TAG good", 0),
    ("ALTER TABLE t CREATE OR REPLACE TAG good RETAIN 7 DAYS", 0),
    ("ALTER TABLE t CREATE BRANCH draft", 0),
    ("ALTER TABLE t REPLACE BRANCH draft", 0),
    ("ALTER TABLE t CREATE OR REPLACE BRANCH draft RETAIN 1 HOUR", 0),
    ("ALTER TABLE t PUBLISH BRANCH draft", 0),
    ("ALTER TABLE t DROP BRANCH draft", 0),
    ("ALTER TABLE t ROLLBACK TO good", 0),
    ("ALTER TABLE t DROP TAG good", 0),
    ("ALTER TABLE t DETACH PARTITION (p = 'a') TO u", 1),
    ("ALTER TABLE t ATTACH TABLE 'smoke/u.lance' PARTITION (p = 'a')", 1),
    ("ALTER TABLE t DROP PARTITION (p = 'a')", 1),
    ("ALTER TABLE t SET PARTITIONED BY (bucket(2, id))", 0),
    ("ALTER TABLE t ADD PARTITION FIELD p", 0),
    ("ALTER TABLE t REWRITE PARTITIONS", ["snapshot", "tables_before", "tables_after", "rows"]),
    ("ALTER TABLE t COMPACT", ["object_id", "files_before", "files_after", "deleted_rows", "is_lost"]),
    ("VACUUM t DRY RUN", ["kind", "name", "versions", "files", "bytes", "note"]),
    ("VERIFY TABLE t", ["object_id", "rows", "checksum", "misplaced_rows", "problem"]),
    ("REPAIR TABLE t DRY RUN", ["kind", "name", "what", "mended"]),
    ("MIGRATE TABLE t DRY RUN", ["key", "found_in", "value"]),
    ("ALTER TABLE t RENAME TO w", 0),
    ("BEGIN", 0),
    ("TRUNCATE w", 2),
    ("COMMIT", 0),
    ("KILL 'nothing'", "[not_found]"),
    ("DROP TABLE w", 0),
    ("USE public", 0),
    ("DROP SCHEMA smoke", 0),
]
"""A statement, and how many rows it affects, the columns of its rows, or a part of its error."""


@pytest.fixture
def cursor(server: Server) -> Iterator[dbapi.Cursor]:
    """A cursor of a connection whose session is known by its cookie."""
    with server.session() as client, client.connection.cursor() as opened:
        yield opened


def answer(cursor: dbapi.Cursor, sql: str) -> int | list[str] | str:
    """What a driver gets of a statement: how many rows it affects, the columns of its rows, or its error."""
    try:
        cursor.execute(sql)
    except Error as error:
        return str(error)
    if not cursor.description:
        return int(cursor.rowcount)
    found = cursor.fetch_arrow_table()
    assert cursor.adbc_execute_schema(sql) == found.schema
    return found.column_names


def test_each_kind_of_statement_is_answered(cursor: dbapi.Cursor) -> None:
    wrong = {}
    for sql, expected in SCRIPT:
        found = answer(cursor, sql)
        if found != expected and not (isinstance(expected, str) and expected in str(found)):
            wrong[sql] = found
    assert wrong == {}


def test_no_kind_of_statement_is_left_out() -> None:
    # A plan of Substrait is read as a query.
    assert {type(parse(sql)) for sql, _ in SCRIPT} | {SubstraitPlan} == set(STATEMENTS)


def test_each_type_of_column_is_returned_as_it_was_declared(server: Server, table: str) -> None:
    samples = [case.values[0] for case in TYPES]
    columns = ", ".join(f"c{number} {sample.sql}" for number, sample in enumerate(samples))
    server.run(f"CREATE TABLE {table} ({columns})")
    server.run(f"INSERT INTO {table} VALUES ({', '.join(sample.literal for sample in samples)})")
    found = server.query(f"SELECT * FROM {table}")
    assert found.schema.types == [sample.kind for sample in samples]
    assert [column[0].as_py() for column in found.columns] == [sample.expected for sample in samples]


def test_documents_go_in_and_out_as_arrow_json(server: Server, table: str) -> None:
    docs = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"k": "a", "n": [1, 2]}', None, '"é"']))
    assert server.ingest(table, pa.table({"id": [1, 2, 3], "doc": docs})) == 3
    found = server.query(f"SELECT id, doc FROM {table} ORDER BY id")
    assert found.schema.field("doc").type == pa.json_()
    assert found["doc"].to_pylist() == ['{"k":"a","n":[1,2]}', None, '"é"']
    read = found.to_pandas()["doc"].map(lambda text: json.loads(text) if isinstance(text, str) else None)
    assert read.to_list() == [{"k": "a", "n": [1, 2]}, None, "é"]


def test_an_ingest_of_the_client_makes_a_table_whose_rows_keep_their_ids(server: Server, table: str) -> None:
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    assert ingest(server.connection, table, rows, partition_by="p", stable_row_ids=True) == 2
    assert all(each.dataset.has_stable_row_ids for each in stored_tables(server.root / table))
    assert server.rows(f"SELECT id, _rowid FROM {table}$lineage ORDER BY id") == [(1, 0), (2, 0)]


def test_a_text_that_is_run_again_after_a_commit_belongs_to_the_next_transaction(server: Server, table: str) -> None:
    """Drivers prepare a text once, in the transaction that is open then."""
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    insert, count = f"INSERT INTO {table} VALUES (1, 'a')", f"SELECT count(*) FROM {table}"
    with dbapi.connect(server.uri) as connection, connection.cursor() as writer, connection.cursor() as reader:

        def counted() -> int:
            reader.execute(count)
            return int(reader.fetchone()[0])

        for number in range(1, 4):
            writer.execute(insert)
            assert (counted(), server.value(count)) == (number, number - 1)
            connection.commit()
        writer.execute(insert)
        connection.rollback()
        assert counted() == 3
    assert server.value(count) == 3


def test_preparing_a_change_runs_nothing(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    before = manifest(server.root / table).version
    with server.connection.cursor() as cursor:
        schema = cursor.adbc_prepare(f"INSERT INTO {table} VALUES (?, ?)")
    assert schema.types == [pa.int64(), pa.utf8()]
    assert manifest(server.root / table).version == before


def test_many_rows_of_parameters_are_one_commit(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, name VARCHAR) PARTITIONED BY (name)")
    before = manifest(server.root / table).version
    with server.connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(n, f"p{n % 3}") for n in range(30)])
        assert cursor.rowcount == 30
    assert manifest(server.root / table).version == before + 1
    assert server.rows(f"SELECT count(*), sum(id) FROM {table} WHERE name = ?", ("p1",)) == [(10, 145)]


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
