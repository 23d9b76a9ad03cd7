"""SHOW, DESCRIBE and the metadata tables, against what stock Lance sees on disk."""

from __future__ import annotations

import datetime as dt
import shutil
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.engine.query.tables.metadata_tables import LINEAGE, METADATA_TABLES
from lance_flight.model.naming import METADATA_NAMES

from tests.engine.database import Database
from tests.stock import manifest, stored_tables


@pytest.fixture(scope="module")
def events(database: Database) -> str:
    """Three partitions in two levels, one of them of NULLs, one extended by a second insert."""
    database.run("CREATE TABLE events (id BIGINT NOT NULL, d DATE, country VARCHAR) PARTITIONED BY (year(d), country)")
    database.run("INSERT INTO events VALUES (1, '2024-01-01', 'US'), (2, '2025-01-01', 'US'), (3, NULL, NULL)")
    database.run("INSERT INTO events VALUES (4, '2025-06-01', 'US')")
    return "events"


def test_the_partitions_of_a_table_are_its_manifest_rows_and_sizes(database: Database, events: str) -> None:
    found = database.query(f"SELECT * FROM {events}$partitions")
    assert found.schema == pa.schema(
        [
            pa.field("spec_id", pa.int32(), nullable=False),
            ("d_year", pa.int32()),
            ("country", pa.utf8()),
            pa.field("object_id", pa.utf8(), nullable=False),
            ("location", pa.utf8()),
            ("read_version", pa.uint64()),
            ("read_branch", pa.utf8()),
            ("read_tag", pa.utf8()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("files", pa.int64()),
            ("last_change", pa.timestamp("us", "UTC")),
        ]
    )
    stored = {
        table.object_id: {
            "spec_id": 1,
            **table.values,
            **{name: table.row[name] for name in ("object_id", "location", "read_version", "read_branch", "read_tag")},
            "rows": table.dataset.count_rows(),
            "bytes": sum(file.file_size_bytes for f in table.dataset.get_fragments() for file in f.metadata.files),
            "files": sum(len(fragment.metadata.files) for fragment in table.dataset.get_fragments()),
            "last_change": version_time(table.dataset),
        }
        for table in stored_tables(database.root / events)
    }
    assert {row["object_id"]: row for row in found.to_pylist()} == stored
    assert sorted((row["d_year"] or 0, row["rows"]) for row in stored.values()) == [(0, 1), (2024, 1), (2025, 2)]


def version_time(dataset: lance.LanceDataset) -> dt.datetime:
    """When the version that is open was written."""
    moment: dt.datetime = dataset.versions()[dataset.version - 1]["timestamp"]
    return moment.astimezone(dt.UTC)


SHOWN = [
    pytest.param("SHOW PARTITIONS {t}", [None, 2024, 2025], id="all"),
    pytest.param("SHOW PARTITIONS FROM {t}", [None, 2024, 2025], id="with from"),
    pytest.param("SHOW PARTITIONS public.{t}", [None, 2024, 2025], id="with the schema"),
    pytest.param("SHOW PARTITIONS {t} WHERE d_year = 2025", [2025], id="by value"),
    pytest.param("SHOW PARTITIONS {t} WHERE country IS NULL", [None], id="by NULL"),
    pytest.param("SHOW PARTITIONS {t} WHERE rows > 1", [2025], id="by size"),
    pytest.param("SHOW PARTITIONS {t} WHERE files = 2", [2025], id="by files"),
    pytest.param("SHOW PARTITIONS {t} WHERE last_change > now() - INTERVAL '1 day'", [None, 2024, 2025], id="by time"),
    pytest.param("SHOW PARTITIONS {t} WHERE last_change > now()", [], id="by a time to come"),
    pytest.param("SHOW PARTITIONS {t} WHERE read_version = 2 AND d_year < 2100", [2024], id="by pin"),
    pytest.param("SHOW PARTITIONS {t} WHERE false", [], id="none"),
]


@pytest.mark.parametrize(("sql", "years"), SHOWN)
def test_show_partitions_lists_what_a_condition_leaves(
    database: Database, events: str, sql: str, years: list[Any]
) -> None:
    found = database.query(sql.format(t=events))
    assert sorted(found["d_year"].to_pylist(), key=lambda y: y or 0) == years
    assert found.schema == database.query(f"SELECT * FROM {events}$partitions").schema


def test_snapshots_are_the_versions_of_the_manifest_that_can_be_read(database: Database, events: str) -> None:
    stock = manifest(database.root / events)
    found = database.query(f"SELECT * FROM {events}$snapshots ORDER BY version").to_pylist()
    versions = [v for v in stock.versions() if "partition_spec_v1" in stock.checkout_version(v["version"]).metadata]
    assert [row["version"] for row in found] == [v["version"] for v in versions]
    assert [row["committed_at"] for row in found] == [v["timestamp"].astimezone(dt.UTC) for v in versions]
    for version in range(1, stock.version + 1):
        if version in {row["version"] for row in found}:
            assert database.value(f"SELECT count(*) FROM {events}@{version}") in {0, 3, 4}
        else:
            assert "not_found" in database.refuses(f"SELECT count(*) FROM {events}@{version}")
    keys = ("operation", "tables_added", "tables_changed", "tables_removed")
    assert [tuple(row[k] for k in keys) for row in found[-2:]] == [
        ("append 3 rows into 3 partitions", 3, 0, 0),
        ("append 1 rows into 1 partitions", 0, 1, 0),
    ]


def test_clients_know_the_names_of_all_metadata_tables() -> None:
    assert {*METADATA_TABLES, LINEAGE} == METADATA_NAMES


def test_specs_list_each_partition_field(database: Database, events: str) -> None:
    columns = "spec_id, position, field_id, source_ids, source_columns, transform, expression, result_type, is_current"
    assert database.rows(f"SELECT {columns} FROM {events}$specs ORDER BY spec_id, position") == [
        (1, 0, "d_year", [1], ["d"], '{"type": "year"}', None, "int32", True),
        (1, 1, "country", [2], ["country"], '{"type": "identity"}', None, "string", True),
    ]


def test_files_are_the_data_files_at_the_pins(database: Database, events: str) -> None:
    found = database.query(f"SELECT * FROM {events}$files").to_pylist()
    for row in found:
        assert (database.root / events / row["path"]).stat().st_size == row["bytes"]
    assert sum(row["rows"] for row in found) == 4
    assert {row["object_id"]: 0 for row in found}.keys() == {t.object_id for t in stored_tables(database.root / events)}


@pytest.mark.parametrize("name", ["partitions", "snapshots", "specs", "files"])
def test_a_metadata_table_is_a_table_like_any_other(database: Database, events: str, name: str) -> None:
    whole = database.query(f'SELECT * FROM "{events}${name}"')
    assert whole.num_rows > 0
    for column in whole.schema.names:
        assert database.query(f"SELECT {column} FROM {events}${name}").num_rows == whole.num_rows
    assert database.value(f"SELECT count(*) FROM {events}${name} AS a") == whole.num_rows


def test_metadata_tables_join_with_each_other(database: Database, events: str) -> None:
    assert database.rows(
        f"SELECT p.d_year, count(*) FROM {events}$files f JOIN {events}$partitions p ON f.object_id = p.object_id"
        " WHERE p.d_year IS NOT NULL GROUP BY p.d_year ORDER BY p.d_year"
    ) == [(2024, 1), (2025, 2)]


def test_partition_fields_named_like_other_columns_are_told_apart(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (rows INT, object_id VARCHAR) PARTITIONED BY (rows, object_id)")
    database.run(f"INSERT INTO {table} VALUES (7, 'x')")
    columns = "partition_field_rows, partition_field_object_id, rows"
    assert database.rows(f"SELECT {columns} FROM {table}$partitions") == [(7, "x", 1)]


def test_describe_says_types_ids_and_what_a_column_partitions(database: Database, events: str) -> None:
    expected = [
        ("id", "BIGINT", "NO", 0, None, None),
        ("d", "DATE", "YES", 1, "d_year: year", None),
        ("country", "VARCHAR", "YES", 2, "country: identity", None),
    ]
    for statement in ("DESCRIBE", "DESC", "DESCRIBE TABLE"):
        assert database.rows(f"{statement} {events}") == expected


def test_field_ids_count_depth_first(database: Database, table: str) -> None:
    nested = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int8()))])
    data = pa.table({"a": [1], "n": pa.array([{"x": 1, "y": [1]}], nested), "z": ["s"]})
    database.ingest(table, data, partition_by="z")
    assert database.rows(f"SELECT source_ids FROM {table}$specs") == [([5],)]
    assert [(row[0], row[3]) for row in database.rows(f"DESCRIBE {table}")] == [("a", 0), ("n", 1), ("z", 5)]


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        pytest.param("f > 1.0", ["1.5", "nan"], id="greater than all numbers"),
        pytest.param("f = CAST('NaN' AS DOUBLE)", ["nan"], id="equal to itself"),
        pytest.param("f < CAST('NaN' AS DOUBLE)", ["0.5", "1.5"], id="not less than itself"),
    ],
)
def test_partitions_of_nan_are_compared_as_their_rows_are(
    database: Database, table: str, condition: str, values: list[str]
) -> None:
    database.run(f"CREATE TABLE {table} (f DOUBLE) PARTITIONED BY (f)")
    database.run(f"INSERT INTO {table} VALUES (0.5), (1.5), (CAST('NaN' AS DOUBLE)), (NULL)")
    for name in (table, f"{table}$partitions"):
        assert sorted(str(f) for (f,) in database.rows(f"SELECT f FROM {name} WHERE {condition}")) == values


def test_what_ends_a_metadata_table_is_told_by_its_own_code(database: Database, table: str) -> None:
    database.ingest(table, pa.table({"id": [1, 2], "part": [1, 2]}), partition_by="part")
    lost = stored_tables(database.root / table)[0].row["location"]
    shutil.rmtree(database.root / table / lost)
    refused = database.refuses(f"SELECT * FROM {table}$files")
    assert f"[corrupt] reading '{table}' failed: partition table '{lost}' has no version" in refused
    database.run(f"DROP TABLE {table}")
