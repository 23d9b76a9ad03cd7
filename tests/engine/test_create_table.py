"""CREATE TABLE and DROP TABLE: types, partition fields, names, field ids, what lies on disk, and two that create one table at once."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots import directory
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.staging_area import StagingArea, private_place
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import SchemaError

from tests.engine.column_types import NESTED, TYPES, Sample
from tests.engine.database import Client, Database, open_engine
from tests.service.server_process import files
from tests.stock import manifest, manifest_rows, stored_by_value


def test_column_types_are_stored_and_returned_as_they_were_declared(database: Database, table: str) -> None:
    samples = {case.id: case.values[0] for case in [*TYPES, *NESTED]}
    columns = ", ".join(f'"{name}" {sample.sql}' for name, sample in samples.items())
    literals = ", ".join(sample.literal for sample in samples.values())
    database.run(f"CREATE TABLE {table} (part INT NOT NULL, {columns}) PARTITIONED BY (part)")
    database.run(f"INSERT INTO {table} VALUES (1, {literals}), (2{', NULL' * len(samples)})")
    found = database.query(f"SELECT * EXCLUDE (part) FROM {table} ORDER BY part")
    assert {field.name: field.type for field in found.schema} == {name: each.kind for name, each in samples.items()}
    expected = {name: sample.expected for name, sample in samples.items()}
    assert found.to_pylist() == [expected, dict.fromkeys(samples)]
    assert stored_by_value(database.root / table, *samples) == {1: [expected], 2: [dict.fromkeys(samples)]}


LITERALS = [
    pytest.param("TIMESTAMP '3000-01-01'", dt.datetime(3000, 1, 1), pa.timestamp("us"), id="timestamp"),
    ("TIMESTAMP(9) '2020-01-01'", dt.datetime(2020, 1, 1), pa.timestamp("ns")),
    pytest.param("DATE '2020-01-01'", dt.date(2020, 1, 1), pa.date32(), id="date"),
    pytest.param("X'00ff'", b"\x00\xff", pa.binary(), id="binary"),
]


@pytest.mark.parametrize(("literal", "value", "kind"), LITERALS)
def test_a_typed_literal_means_the_same_type_as_a_column(
    database: Database, literal: str, value: Any, kind: pa.DataType
) -> None:
    found = database.query(f"SELECT {literal} AS c")
    assert (found.schema.field("c").type, found["c"].to_pylist()) == (kind, [value])


@pytest.mark.parametrize("sample", [p for p in TYPES if p.id != "array"])
def test_a_cast_means_the_same_type_as_a_column(database: Database, sample: Sample) -> None:
    for text in (f"CAST({sample.literal} AS {sample.sql})", f"({sample.literal})::{sample.sql}"):
        found = database.query(f"SELECT {text} AS c")
        assert found.schema.field("c").type == sample.kind, text
        assert found["c"].to_pylist() == [sample.expected], text


@pytest.mark.parametrize("layout", ["", " PARTITIONED BY (bucket(2, id))"], ids=["plain", "partitioned"])
def test_maps_and_structs_are_stored_as_they_are_written(database: Database, table: str, layout: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, m MAP(VARCHAR, INT), s STRUCT(a INT, date DATE)[]){layout}")
    ((*_, made),) = database.rows(f"SHOW CREATE TABLE {table}")
    database.run(f"DROP TABLE {table}")
    database.run(made)
    database.run(f"INSERT INTO {table} VALUES (1, MAP {{'a': 1, 'b': NULL}}, [{{'a': 1, 'date': DATE '2024-02-29'}}])")
    database.run(f"INSERT INTO {table} (id, m) VALUES (2, map(['c'], [2])), (3, NULL), (4, map([], []))")
    database.run(f"UPDATE {table} SET m = MAP {{'z': 9}} WHERE id = 2")
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == [
        (1, [("a", 1), ("b", None)], [{"a": 1, "date": dt.date(2024, 2, 29)}]),
        (2, [("z", 9)], None),
        (3, None, None),
        (4, [], None),
    ]
    assert database.rows(f"SELECT id, m['z'], cardinality(m) FROM {table} ORDER BY id") == [
        (1, None, 2),
        (2, 9, 1),
        (3, None, None),
        (4, None, 0),
    ]
    for wrong in ("MAP(INT)", "MAP(INT, INT, INT)", "MAP", "MAP(INT, NOPE)"):
        assert "is not a type" in database.refuses(f"CREATE TABLE other_{table} (m {wrong})")


def test_a_plain_table_is_an_ordinary_lance_table(database: Database, table: str) -> None:
    database.run(f'CREATE TABLE {table} (id BIGINT NOT NULL, "Mixed Name" VARCHAR, ts TIMESTAMP)')
    expected = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("Mixed Name", pa.utf8()), ("ts", pa.timestamp("us"))]
    )
    assert lance.dataset(str(database.root / f"{table}.lance")).schema == expected
    assert database.query(f"SELECT * FROM {table}").schema.names == expected.names


def test_the_definition_of_a_partitioned_table_is_stored_as_the_spec_says(database: Database, table: str) -> None:
    database.run(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, ts TIMESTAMP, country VARCHAR, s VARCHAR)"
        " PARTITIONED BY (country, year(ts), month(ts), day(ts), hour(ts), bucket(16, id),"
        " multi_bucket(8, id, s), truncate(4, s), expr('upper(left(col0, 1))', s) AS initial)"
    )
    fields = [
        {"field_id": "country", "source_ids": [2], "transform": {"type": "identity"}, "result_type": {"type": "utf8"}},
        {"field_id": "ts_year", "source_ids": [1], "transform": {"type": "year"}, "result_type": {"type": "int32"}},
        {"field_id": "ts_month", "source_ids": [1], "transform": {"type": "month"}, "result_type": {"type": "int32"}},
        {"field_id": "ts_day", "source_ids": [1], "transform": {"type": "day"}, "result_type": {"type": "int32"}},
        {"field_id": "ts_hour", "source_ids": [1], "transform": {"type": "hour"}, "result_type": {"type": "int32"}},
        {
            "field_id": "id_bucket",
            "source_ids": [0],
            "transform": {"type": "bucket", "num_buckets": 16},
            "result_type": {"type": "int32"},
        },
        {
            "field_id": "id_s_multi_bucket",
            "source_ids": [0, 3],
            "transform": {"type": "multi_bucket", "num_buckets": 8},
            "result_type": {"type": "int32"},
        },
        {
            "field_id": "s_truncate",
            "source_ids": [3],
            "transform": {"type": "truncate", "width": 4},
            "result_type": {"type": "utf8"},
        },
        {
            "field_id": "initial",
            "source_ids": [3],
            "expression": "upper(left(col0, 1))",
            "result_type": {"type": "utf8"},
        },
    ]
    metadata = manifest(database.root / table).metadata
    assert metadata["partition_spec_v1"] == json.dumps({"id": 1, "fields": fields}, separators=(",", ":"))
    columns = json.loads(metadata["schema"])["fields"]
    assert [(c["name"], c["nullable"], c["metadata"]["lance:field_id"]) for c in columns] == [
        ("id", False, "0"),
        ("ts", True, "1"),
        ("country", True, "2"),
        ("s", True, "3"),
    ]
    assert [row["object_id"] for row in manifest_rows(database.root / table)] == ["v1"]


FIELD_IDS = [
    pytest.param("a", ["a"], id="identity is named after its column"),
    pytest.param("identity(a)", ["a"], id="identity as a function"),
    pytest.param("bucket(4, a), bucket(8, a)", ["a_bucket", "a_bucket_2"], id="a second one is numbered"),
    pytest.param("a AS b, b", ["b", "b_2"], id="a given name is not taken again"),
    pytest.param("b, a AS b_2, bucket(2, b)", ["b", "b_2", "b_bucket"], id="names beside given ones"),
    pytest.param("year(ts) AS y, month(ts) AS m", ["y", "m"], id="named transforms"),
    pytest.param("day(d), hour(ts)", ["d_day", "ts_hour"], id="days and hours"),
    pytest.param("multi_bucket(4, a, b)", ["a_b_multi_bucket"], id="several columns"),
    pytest.param("truncate(10, a)", ["a_truncate"], id="truncate"),
    pytest.param("expr('col0 % 3', a)", ["a_expr"], id="an expression without a name"),
    pytest.param('a AS "We Ird$"', ["We Ird$"], id="a quoted name"),
    pytest.param('"Mixed Name"', ["Mixed Name"], id="a quoted column"),
]


@pytest.mark.parametrize(("partitioned_by", "expected"), FIELD_IDS)
def test_a_partition_field_has_the_name_that_was_given_or_follows_from_its_column(
    database: Database, table: str, partitioned_by: str, expected: list[str]
) -> None:
    columns = 'a INT, b INT, ts TIMESTAMP, d DATE, "Mixed Name" INT'
    database.run(f"CREATE TABLE {table} ({columns}) PARTITIONED BY ({partitioned_by})")
    assert database.query(f"SELECT field_id FROM {table}$specs ORDER BY position")["field_id"].to_pylist() == expected
    assert manifest(database.root / table).schema.names[8:] == [f"partition_field_{name}" for name in expected]


RESULT_TYPES = [
    pytest.param("upper(col0)", "s", "string", id="text"),
    pytest.param("col0 % 3", "a", "int64", id="an integer widened by its literal"),
    pytest.param("abs(murmur3(col0)) % 4", "s", "int64", id="a hash"),
    pytest.param("date_part('year', col0)", "ts", "int32", id="a date part"),
    pytest.param("col0 IS NULL", "s", "bool", id="a truth value"),
    pytest.param("CAST(col0 AS DATE)", "ts", "date32[day]", id="a date"),
]


@pytest.mark.parametrize(("expression", "column", "kind"), RESULT_TYPES)
def test_the_result_type_of_an_expression_is_inferred(
    database: Database, table: str, expression: str, column: str, kind: str
) -> None:
    quoted = expression.replace("'", "''")
    database.run(
        f"CREATE TABLE {table} (a INT, s VARCHAR, ts TIMESTAMP) PARTITIONED BY (expr('{quoted}', {column}) AS e)"
    )
    assert database.rows(f"SELECT expression, result_type FROM {table}$specs") == [(expression, kind)]
    assert str(manifest(database.root / table).schema.field("partition_field_e").type) == kind


def test_rows_go_where_every_transform_sends_them(database: Database, table: str) -> None:
    database.run(
        f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP, s VARCHAR)"
        " PARTITIONED BY (year(ts), month(ts), day(ts), hour(ts), bucket(16, id), truncate(2, s), expr('left(col0, 1)', s))"
    )
    database.run(
        f"INSERT INTO {table} VALUES (34, '2017-11-16T22:31:08', 'iceberg'), (NULL, NULL, NULL), (34, '1969-12-31T00:00:00', 'é')"
    )
    # 34 hashes to 2017239379 in the vectors, which is 3 modulo 16.
    assert stored_by_value(database.root / table, "id", "s") == {
        (2017, 11, 16, 22, 3, "ic", "i"): [{"id": 34, "s": "iceberg"}],
        (None, None, None, None, None, None, None): [{"id": None, "s": None}],
        (1969, 12, 31, 0, 3, "é", "é"): [{"id": 34, "s": "é"}],
    }


CTAS = "SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'a')) AS v(n, c)"


@pytest.mark.parametrize(("where", "count"), [("", 3), (" WHERE n > 9", 0)], ids=["three rows", "none"])
def test_create_table_as_select_stores_the_rows_of_the_query(
    database: Database, table: str, where: str, count: int
) -> None:
    rows = [{"n": 1, "c": "a"}, {"n": 2, "c": "b"}, {"n": 3, "c": "a"}][:count]
    assert database.run(f"CREATE TABLE {table}_plain AS {CTAS}{where}") == count
    assert lance.dataset(str(database.root / f"{table}_plain.lance")).to_table().to_pylist() == rows
    source = f"SELECT * FROM {table}_plain{where}"
    assert database.run(f"CREATE TABLE {table} PARTITIONED BY (c) AS {source}") == count
    assert stored_by_value(database.root / table, "n") == ({"a": [{"n": 1}, {"n": 3}], "b": [{"n": 2}]} if rows else {})
    assert manifest(database.root / table).schema.field("partition_field_c").type == pa.utf8()
    assert database.query(f"SELECT * FROM {table} ORDER BY n").to_pylist() == rows
    assert database.query(f"SELECT * FROM {table}").schema.names == ["n", "c"]


NAMED = [
    pytest.param("(x, y) AS VALUES (1, 'a')", ["x", "y"], [(1, "a")], id="names"),
    pytest.param('("X y") PARTITIONED BY ("X y") AS (SELECT 1)', ["X y"], [(1,)], id="one name in quotes"),
    pytest.param("AS SELECT 1 AS a, 'b' AS b WITH NO DATA", ["a", "b"], [], id="no data"),
    pytest.param(
        "(x) AS WITH q AS (SELECT 1 AS n) SELECT n FROM q ORDER BY n LIMIT 1 WITH DATA", ["x"], [(1,)], id="data"
    ),
    pytest.param("(x) AS SELECT 1 WITH NO DATA", ["x"], [], id="names and no data"),
]


@pytest.mark.parametrize(("rest", "names", "rows"), NAMED)
def test_the_columns_of_a_query_get_other_names_and_its_rows_may_be_left_out(
    database: Database, table: str, rest: str, names: list[str], rows: list[tuple[Any, ...]]
) -> None:
    assert database.run(f"CREATE TABLE {table} {rest}") == len(rows)
    assert database.query(f"SELECT * FROM {table}").column_names == names
    assert database.rows(f"SELECT * FROM {table}") == rows
    assert "names given" in database.refuses(f"CREATE TABLE {table}_ (x, y, z) AS SELECT 1, 2")


REPLACED = [
    pytest.param("(id BIGINT, x DOUBLE DEFAULT 1.5)", "", [], id="an empty table"),
    pytest.param("AS SELECT id * 2 AS id FROM {t}", "", [(2,), (4,)], id="itself"),
    pytest.param("PARTITIONED BY (id) AS SELECT id FROM {t}", "", [(1,), (2,)], id="a partitioned one by itself"),
    pytest.param("AS SELECT id FROM {t}", "PARTITIONED BY (id)", [(1,), (2,)], id="a plain one of a partitioned one"),
]


@pytest.mark.parametrize(("new", "old", "expected"), REPLACED)
def test_a_table_is_replaced_in_one_step(
    database: Database, table: str, new: str, old: str, expected: list[tuple[int]]
) -> None:
    database.run(f"CREATE OR REPLACE TABLE {table} (id BIGINT) {old}")
    database.run(f"INSERT INTO {table} VALUES (1), (2)")
    database.run(f"CREATE OR REPLACE TABLE {table} {new.format(t=table)}")
    assert database.rows(f"SELECT * FROM {table} ORDER BY 1") == expected


def test_a_table_stays_where_the_new_one_cannot_be_made(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 7 AS id")
    before = files(database.root)
    replacement = f"CREATE OR REPLACE TABLE {table} AS SELECT 1 / (id - 7) AS id FROM {table}"
    assert "Divide by zero" in database.refuses(replacement)
    assert database.value(f"SELECT id FROM {table}") == 7
    assert files(database.root) == before


DEFINITION = (
    """id BIGINT NOT NULL COMMENT 'its number', p VARCHAR DEFAULT 'x', v FLOAT[2], constraint INT, PRIMARY KEY (id)"""
)


@pytest.mark.parametrize("form", ["CREATE TABLE {} LIKE {}", "CREATE OR REPLACE TABLE {} (LIKE {})"])
@pytest.mark.parametrize("rest", ["PARTITIONED BY (p, bucket(4, id) AS \"in 4\") COMMENT 'all'", ""])
def test_a_table_is_made_like_another_one(database: Database, table: str, form: str, rest: str) -> None:
    database.run(f"CREATE TABLE {table} ({DEFINITION}) {rest}")
    database.run(f"INSERT INTO {table} (id) VALUES (1)")
    database.run(form.format(f"{table}_like", table))
    (definition,), (other,) = (
        database.query(f"SHOW CREATE TABLE {name}")["definition"].to_pylist() for name in (table, f"{table}_like")
    )
    assert other == definition.replace(f'"{table}"', f'"{table}_like"')
    assert database.value(f"SELECT count(*) FROM {table}_like") == 0
    assert database.run(f"INSERT INTO {table}_like (id) VALUES (7)") == 1
    assert database.rows(f"SELECT id, p FROM {table}_like") == [(7, "x")]


def test_the_columns_of_a_query_are_described(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
    for query in (
        f"SELECT id, upper(p) AS p, 1.5 AS n FROM {table}",
        f"WITH q AS (SELECT id, p, 1.5 AS n FROM {table}) FROM q",
    ):
        assert [row[:3] for row in database.rows(f"DESCRIBE {query}")] == [
            ("id", "BIGINT", "NO"),
            ("p", "VARCHAR", "YES"),
            ("n", "DOUBLE", "NO"),
        ]


def test_a_table_that_is_replaced_in_a_transaction_is_so_at_its_commit(
    database: Database, client: Client, table: str
) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 7 AS id")
    for end, expected in (("ROLLBACK", 7), ("COMMIT", 8)):
        client.run("BEGIN")
        client.run(f"CREATE OR REPLACE TABLE {table} (id BIGINT) PARTITIONED BY (id)")
        client.run(f"INSERT INTO {table} VALUES (8)")
        assert database.value(f"SELECT id FROM {table}") == 7
        client.run(end)
        assert database.value(f"SELECT id FROM {table}") == expected


@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_if_not_exists_leaves_a_table_alone(database: Database, table: str, partitioned_by: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT){partitioned_by}")
    database.run(f"INSERT INTO {table} VALUES (1)")
    assert (
        database.run(f"CREATE TABLE IF NOT EXISTS {table} (other VARCHAR){partitioned_by}".replace("(id)", "(other)"))
        == 0
    )
    assert database.rows(f"SELECT * FROM {table}") == [(1,)]


@pytest.mark.parametrize("create", ["CREATE TABLE", "CREATE OR REPLACE TABLE"])
def test_a_table_takes_no_place_of_a_schema_without_tables(database: Database, table: str, create: str) -> None:
    database.run(f"CREATE SCHEMA {table}")
    assert "no room" in database.refuses(f"{create} {table} (id INT) PARTITIONED BY (id)")
    assert (table,) in database.rows("SHOW SCHEMAS")
    database.run(f"CREATE TABLE {table}.inner (id INT)")


@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_a_dropped_table_is_gone_with_its_files(database: Database, table: str, partitioned_by: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT){partitioned_by}")
    database.run(f"INSERT INTO {table} VALUES (1)")
    database.run(f"DROP TABLE {table}")
    assert "not_found" in database.refuses(f"SELECT * FROM {table}")
    assert "not_found" in database.refuses(f"DROP TABLE {table}")
    assert database.run(f"DROP TABLE IF EXISTS {table}") == 0
    assert [path.name for path in database.root.iterdir() if path.name.startswith(f"{table}")] == []


@pytest.mark.parametrize("second", ["", " PARTITIONED BY (name)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("first", ["", " PARTITIONED BY (id)"], ids=["from plain", "from partitioned"])
def test_a_table_made_again_under_the_same_name_holds_only_the_new_rows(
    database: Database, table: str, first: str, second: str
) -> None:
    for round_ in range(2):
        database.run(f"CREATE TABLE {table} (id INT){first}")
        database.run(f"INSERT INTO {table} VALUES ({round_})")
        assert database.rows(f"SELECT * FROM {table}") == [(round_,)]
        database.run(f"DROP TABLE {table}")
        database.run(f"CREATE TABLE {table} (name VARCHAR){second}")
        database.run(f"INSERT INTO {table} VALUES ('new {round_}')")
        assert database.rows(f"SELECT * FROM {table}") == [(f"new {round_}",)]
        database.run(f"DROP TABLE {table}")


@pytest.mark.parametrize("prefix", ["public.", "lance.public.", '"public".', '"lance"."public".'])
def test_a_table_may_be_named_with_its_schema_and_catalog(database: Database, table: str, prefix: str) -> None:
    database.run(f"CREATE TABLE {prefix}{table} (id INT) PARTITIONED BY (id)")
    database.run(f"INSERT INTO {prefix}{table} VALUES (1)")
    assert database.rows(f"SELECT {table}.id FROM {prefix}{table}") == [(1,)]
    database.run(f"DROP TABLE {prefix}{table}")


def test_unquoted_names_are_folded_to_lower_case_and_quoted_ones_kept(database: Database, table: str) -> None:
    database.run(f'CREATE TABLE {table.upper()} (ID INT, "Id" INT) PARTITIONED BY (Id, "Id" AS other)')
    database.run(f'INSERT INTO {table} (id, "Id") VALUES (1, 2)')
    assert database.rows(f'SELECT iD, "Id" FROM {table.upper()}') == [(1, 2)]
    database.run(f'CREATE TABLE "{table.upper()}" (x INT)')
    assert database.query(f'SELECT * FROM "{table.upper()}"').schema.names == ["x"]
    assert database.query(f"SELECT * FROM {table}").schema.names == ["id", "Id"]


@pytest.mark.parametrize(
    "layout", [pytest.param("", id="plain"), pytest.param(" PARTITIONED BY (id)", id="partitioned")]
)
def test_columns_have_defaults_for_rows_without_a_value(database: Database, layout: str, table: str) -> None:
    columns = (
        "id BIGINT, n INT DEFAULT 2 + 3 NOT NULL, d DATE DEFAULT '2020-02-29', s VARCHAR DEFAULT 'it''s' COMMENT 'x'"
    )
    database.run(f"CREATE TABLE {table} ({columns}, v REAL DEFAULT NULL){layout}")
    database.run(f"INSERT INTO {table} (id) VALUES (1)")
    database.run(f"INSERT INTO {table} VALUES (2, 6, NULL, NULL, 1.5)")
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == [
        (1, 5, dt.date(2020, 2, 29), "it's", None),
        (2, 6, None, None, 1.5),
    ]
    defaults = database.rows(
        f"SELECT column_name, column_default FROM information_schema.columns WHERE table_name = '{table}'"
        " AND column_default IS NOT NULL ORDER BY ordinal_position"
    )
    assert defaults == [("n", "5"), ("d", "2020-02-29"), ("s", "it's")]


T = TableName("public", "t")
LAYOUTS = pytest.mark.parametrize(
    "layouts", [("", ""), ("id", "id"), ("", "bucket(3, id)")], ids=["plain", "partitioned", "one of each"]
)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Operations in it wait for a second one when they have looked, and found no table."""
    both = threading.Barrier(2, timeout=60)

    @contextmanager
    def waiting(root: Store) -> Iterator[StagingArea]:
        both.wait()
        with private_place(root) as place:
            yield place

    monkeypatch.setattr(directory, "private_place", waiting)
    return open_engine(tmp_path)


def at_once(*tasks: Callable[[], int]) -> list[Any]:
    """What each of the tasks returns or raises; they run at the same time."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(task) for task in tasks]
        return [task.result() if task.exception() is None else task.exception() for task in running]


def ingest(engine: Engine, data: pa.Table, layout: str, existing: IfExists) -> Callable[[], int]:
    by = IngestOptions(properties=TableProperties.by(layout))
    return lambda: engine.ingest(T, data.to_reader(1), create_missing=True, existing=existing, options=by)


def ids(engine: Engine) -> list[object]:
    return sorted(engine.query("SELECT id FROM t")["id"].to_pylist())


def left(engine: Engine) -> list[Path]:
    return list((Path(engine.root.store.uri) / ".lance-flight").iterdir())


@LAYOUTS
@pytest.mark.parametrize("query", ["(id INT){by}", "{by} AS SELECT 7 AS id"])
def test_create_if_not_exists_succeeds_for_both(engine: Engine, layouts: tuple[str, str], query: str) -> None:
    clauses = [f" PARTITIONED BY ({layout})" if layout else "" for layout in layouts]
    tasks = [partial(engine.update, "CREATE TABLE IF NOT EXISTS t " + query.format(by=clause)) for clause in clauses]
    assert sorted(map(str, at_once(*tasks))) in (["0", "0"], ["0", "1"])
    assert ids(engine) in ([], [7])
    assert (engine.root.tables(), left(engine)) == ([T], [])


@LAYOUTS
def test_create_without_it_succeeds_for_one(engine: Engine, layouts: tuple[str, str]) -> None:
    clauses = [f" PARTITIONED BY ({layout})" if layout else "" for layout in layouts]
    tasks = [partial(engine.update, f"CREATE TABLE t (id INT){clause}") for clause in clauses]
    assert sorted(type(outcome).__name__ for outcome in at_once(*tasks)) == ["AlreadyExists", "int"]


@LAYOUTS
@pytest.mark.parametrize("existing", [IfExists.APPEND, IfExists.REPLACE])
def test_of_two_ingests_that_append_both_stay_and_of_two_that_replace_the_later_one(
    engine: Engine, layouts: tuple[str, str], existing: IfExists
) -> None:
    data = [pa.table({"id": range(start, start + 50), "n": ["x"] * 50}) for start in (0, 50)]
    tasks = [ingest(engine, rows, by, existing) for rows, by in zip(data, layouts, strict=True)]
    assert at_once(*tasks) == [50, 50]
    expected = [range(100)] if existing is IfExists.APPEND else [range(50), range(50, 100)]
    assert ids(engine) in map(list, expected)
    assert (engine.root.tables(), left(engine)) == ([T], [])


@LAYOUTS
def test_rows_that_do_not_fit_the_table_that_came_first_are_refused(engine: Engine, layouts: tuple[str, str]) -> None:
    data = [pa.table({"id": [1, 2]}), pa.table({"id": ["a", "b"]})]
    tasks = [ingest(engine, rows, by, IfExists.APPEND) for rows, by in zip(data, layouts, strict=True)]
    outcomes = at_once(*tasks)
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert isinstance(refused, SchemaError)
    assert "'t'" in str(refused)
    assert ids(engine) == data[outcomes.index(2)]["id"].to_pylist()
    assert left(engine) == []


@LAYOUTS
def test_of_two_ingests_that_only_create_one_fails(engine: Engine, layouts: tuple[str, str]) -> None:
    data = [pa.table({"id": [n]}) for n in (1, 2)]
    outcomes = at_once(*(ingest(engine, rows, by, IfExists.FAIL) for rows, by in zip(data, layouts, strict=True)))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists", "int"]
    assert ids(engine) == [outcomes.index(1) + 1]
