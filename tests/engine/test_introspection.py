"""`information_schema`, SHOW, and the functions about a session: CURRENT_USER and SESSION_USER are constants of the statement."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.statement_context import Scope
from lance_flight.errors import SqlError

from tests.engine.database import Client, Database, filled


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    root = tmp_path_factory.mktemp("introspection")
    (root / "sales").mkdir()
    made = Database(root)
    made.run(
        "CREATE TABLE flights (id BIGINT NOT NULL, origin VARCHAR, at TIMESTAMP, fare DECIMAL(9, 2), tags VARCHAR[])"
        " PARTITIONED BY (origin)"
    )
    made.run("CREATE TABLE planes (id INTEGER, built DATE)")
    made.run("CREATE TABLE sales.orders (id BIGINT UNSIGNED, price REAL)")
    return made


TABLES = [
    ("lance", "public", "flights", "BASE TABLE", "YES", True),
    ("lance", "public", "planes", "BASE TABLE", "YES", False),
    ("lance", "sales", "orders", "BASE TABLE", "YES", False),
]
LISTED = {
    "schemata": (
        "SELECT catalog_name, schema_name FROM information_schema.schemata",
        [("lance", "public"), ("lance", "sales")],
    ),
    "tables": (
        (
            "SELECT table_catalog, table_schema, table_name, table_type, is_insertable_into, partitioned"
            " FROM information_schema.tables"
        ),
        TABLES,
    ),
    "columns": (
        (
            "SELECT table_name, column_name, ordinal_position, is_nullable, data_type FROM lance.information_schema.columns"
            " ORDER BY table_name, ordinal_position"
        ),
        [
            ("flights", "id", 1, "NO", "BIGINT"),
            ("flights", "origin", 2, "YES", "VARCHAR"),
            ("flights", "at", 3, "YES", "TIMESTAMP(6)"),
            ("flights", "fare", 4, "YES", "DECIMAL(9, 2)"),
            ("flights", "tags", 5, "YES", "VARCHAR[]"),
            ("orders", "id", 1, "YES", "BIGINT UNSIGNED"),
            ("orders", "price", 2, "YES", "REAL"),
            ("planes", "id", 1, "YES", "INTEGER"),
            ("planes", "built", 2, "YES", "DATE"),
        ],
    ),
    "numbers of columns": (
        (
            "SELECT column_name, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision"
            " FROM information_schema.columns WHERE table_name = 'flights' ORDER BY ordinal_position"
        ),
        [
            ("id", 64, 2, 0, None),
            ("origin", None, None, None, None),
            ("at", None, None, None, 6),
            ("fare", 9, 10, 2, None),
            ("tags", None, None, None, None),
        ],
    ),
    "columns of a pattern of names": (
        (
            "SELECT DISTINCT table_name FROM information_schema.columns"
            " WHERE table_name LIKE 'pl%' AND table_schema IN ('public', 'sales') AND column_name <> 'x'"
        ),
        [("planes",)],
    ),
    "columns of tables by either of two conditions": (
        (
            "SELECT DISTINCT table_name FROM information_schema.columns"
            " WHERE table_schema = 'sales' OR column_name = 'built' ORDER BY 1"
        ),
        [("orders",), ("planes",)],
    ),
    "counted": ("SELECT count(*) AS n FROM information_schema.columns WHERE table_schema = 'sales'", [(2,)]),
    "views": ("SELECT count(*) AS n FROM information_schema.views", [(0,)]),
    "constraints": ("SELECT count(*) AS n FROM information_schema.table_constraints", [(0,)]),
    "keys": ("SELECT count(*) AS n FROM information_schema.key_column_usage", [(0,)]),
    "routines": (
        (
            "SELECT DISTINCT routine_name, function_type FROM information_schema.routines WHERE routine_name IN ('abs', 'sum')"
            " ORDER BY 1"
        ),
        [("abs", "SCALAR"), ("sum", "AGGREGATE")],
    ),
    "joined with a stored table": (
        (
            "SELECT t.table_name FROM information_schema.tables AS t JOIN information_schema.columns AS c"
            " ON t.table_schema = c.table_schema AND t.table_name = c.table_name WHERE c.column_name = 'built'"
        ),
        [("planes",)],
    ),
    "SHOW CATALOGS": ("SHOW CATALOGS", [("lance",)]),
    "SHOW SCHEMAS": ("SHOW SCHEMAS", [("public",), ("sales",)]),
    "SHOW SCHEMAS LIKE": ("SHOW SCHEMAS FROM lance LIKE 's%'", [("sales",)]),
    "SHOW TABLES": (
        "SHOW TABLES",
        [("public", "flights", True), ("public", "planes", False), ("sales", "orders", False)],
    ),
    "SHOW TABLES FROM": ("SHOW TABLES FROM lance.sales", [("sales", "orders", False)]),
    "SHOW TABLES IN … LIKE": ("SHOW TABLES IN public LIKE '%ghts'", [("public", "flights", True)]),
    "SHOW TABLES LIKE": ("SHOW TABLES LIKE '%''%'", []),
    "SHOW VIEWS": ("SHOW VIEWS", []),
    "SHOW COLUMNS": (
        "SHOW COLUMNS FROM sales.orders",
        [
            ("lance", "sales", "orders", "id", "BIGINT UNSIGNED", "YES", None),
            ("lance", "sales", "orders", "price", "REAL", "YES", None),
        ],
    ),
    "SHOW COLUMNS … LIKE": (
        "SHOW COLUMNS IN flights LIKE 'f_re'",
        [("lance", "public", "flights", "fare", "DECIMAL(9, 2)", "YES", None)],
    ),
    "current_catalog": ("SELECT current_catalog() AS a, current_catalog AS b", [("lance", "lance")]),
    "current_database": ("SELECT current_database()", [("lance",)]),
    "current_schema": (
        "SELECT current_schema(), CURRENT_SCHEMA, t.current_schema FROM (SELECT 1 AS current_schema) t WHERE current_schema = 'public'",
        [("public", "public", 1)],
    ),
    "current_user": ("SELECT current_user() AS a, CURRENT_USER AS b", [("anonymous", "anonymous")]),
    "a filter by the session": (
        (
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_catalog = current_catalog() AND table_schema = current_schema() ORDER BY 1"
        ),
        [("flights",), ("planes",)],
    ),
}


@pytest.mark.parametrize(("sql", "expected"), LISTED.values(), ids=LISTED)
def test_a_statement_lists(database: Database, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert database.rows(sql) == expected


def test_functions_are_listed(database: Database) -> None:
    found = database.query("SHOW FUNCTIONS LIKE 'date_%'").to_pylist()
    assert {"date_trunc", "date_part"} <= {row["function_name"] for row in found}


def test_the_version_names_the_service(database: Database) -> None:
    assert database.value("SELECT version()").startswith(f"lance-flight {version('lance-flight')} (DataFusion ")


def test_the_schema_of_the_session_is_the_current_one(client: Client) -> None:
    client.run("USE sales")
    assert client.value("SELECT current_schema() FROM orders RIGHT JOIN (VALUES (1)) AS v (x) ON price = x") == "sales"


def test_the_settings_of_the_session_are_shown(database: Database, client: Client) -> None:
    with database.client() as other:
        shown_to_others = dict(other.rows("SHOW ALL"))
    for statement in ("USE sales", "SET isolation = 'serializable'", "SET dynamic_pruning = 'off'"):
        client.run(statement)
    shown = dict(client.rows("SHOW ALL"))
    changed = {"schema": "sales", "isolation": "serializable", "dynamic_pruning": "off"}
    with database.client() as other:
        assert dict(other.rows("SHOW ALL")) == shown_to_others
    assert shown == shown_to_others | changed
    assert (shown["catalog"], shown_to_others["isolation"]) == ("lance", "snapshot")


def test_a_setting_is_shown_and_gets_its_default_again(client: Client) -> None:
    for change, shown in {
        "SET SESSION statement_timeout = 5": "5.0",
        "SET statement_timeout TO DEFAULT": "0.0",
        "SET statement_timeout = '2min'": "120.0",
        "RESET statement_timeout": "0.0",
        "SET statement_timeout TO 9": "9.0",
        "RESET ALL": "0.0",
    }.items():
        client.run(change)
        assert (change, client.rows("SHOW statement_timeout")) == (change, [("statement_timeout", shown)])
    client.run("SET access = 'read'")
    client.run("SET dynamic_pruning = off")
    client.run("RESET ALL")
    assert client.rows("SHOW dynamic_pruning") == [("dynamic_pruning", "on")]
    assert "expected 'read'" in client.refuses("SET access = 'write'")


def test_tables_of_a_session_and_of_its_transaction_are_listed(database: Database, client: Client) -> None:
    listing = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    client.run("CREATE TEMPORARY TABLE mine (x BIGINT)")
    client.run("BEGIN")
    client.run("CREATE TABLE draft (y BIGINT)")
    assert client.rows(listing) == [
        ("draft", "BASE TABLE"),
        ("flights", "BASE TABLE"),
        ("mine", "LOCAL TEMPORARY"),
        ("planes", "BASE TABLE"),
    ]
    assert client.rows("SELECT column_name FROM information_schema.columns WHERE table_name = 'draft'") == [("y",)]
    client.run("ROLLBACK")
    assert database.rows(listing) == [("flights", "BASE TABLE"), ("planes", "BASE TABLE")]


def test_the_results_have_the_types_of_their_description(database: Database) -> None:
    found = database.query("SELECT * FROM information_schema.columns LIMIT 0").schema
    assert found.field("ordinal_position").type == pa.int64()
    assert found.field("column_name").type == pa.utf8()


MADE_AGAIN = {
    "plain": (
        'CREATE TABLE "public"."{}" (\n  "id" BIGINT NOT NULL,\n  "Odd ""name" VARCHAR COMMENT \'it\'\'s\',\n'
        '  "s" STRUCT<"a" INTEGER, "b" TIMESTAMPTZ(6)>[],\n  PRIMARY KEY ("id")\n)\nCOMMENT \'all\''
    ),
    "partitioned": (
        'CREATE TABLE "public"."{}" (\n  "id" BIGINT,\n  "n" INTEGER NOT NULL DEFAULT 5,\n'
        '  "d" DATE DEFAULT \'2020-02-29\',\n  "at" TIMESTAMP(6)\n)\n'
        "PARTITIONED BY (year(at) AS at_year, bucket(4, id) AS id_bucket)\n"
        "WITH (stable_row_ids = true, file_version = '2.1')"
    ),
}


@pytest.mark.parametrize("definition", MADE_AGAIN.values(), ids=MADE_AGAIN)
def test_a_table_is_made_again_by_its_definition(database: Database, table: str, definition: str) -> None:
    database.run(definition.replace("{}", table))
    try:
        assert database.rows(f"SHOW CREATE TABLE {table}") == [
            ("lance", "public", table, definition.replace("{}", table))
        ]
    finally:
        database.run(f"DROP TABLE {table}")


def test_a_summary_has_a_row_for_each_column(client: Client, table: str) -> None:
    client.run(f"CREATE TEMPORARY TABLE {table} (i BIGINT, f REAL, s VARCHAR, d DATE, l BIGINT[], b VARBINARY)")
    rows = (
        "(1, 1.5, 'x', DATE '2020-01-01', [1], X'00ff'), (2, 2.5, 'y', NULL, [1], X'01'),"
        " (3, NULL, 'x', NULL, NULL, NULL), (NULL, NULL, 'z', NULL, NULL, NULL)"
    )
    client.run(f"INSERT INTO {table} VALUES {rows}")
    found = {row.pop("column_name"): row for row in client.query(f"SUMMARIZE {table}").to_pylist()}
    shown = {
        name: (row["min"], row["max"], row["approx_unique"], row["avg"], str(row["null_percentage"]))
        for name, row in found.items()
    }
    assert shown == {
        "i": ("1", "3", 3, "2.0", "25.00"),
        "f": ("1.5", "2.5", 2, "2.0", "50.00"),
        "s": ("x", "z", 3, None, "0.00"),
        "d": ("2020-01-01", "2020-01-01", 1, None, "75.00"),
        "l": (None, None, 1, None, "50.00"),
        "b": ("00ff", "01", 2, None, "50.00"),
    }
    assert {row["count"] for row in found.values()} == {4}
    assert (found["i"]["column_type"], found["i"]["std"], found["i"]["q50"]) == ("BIGINT", "1.0", "2.0")
    assert client.rows(f"SUMMARIZE SELECT i FROM {table} WHERE i > ?", (5,)) == [
        ("i", "BIGINT", None, None, 0, None, None, None, None, None, 0, None)
    ]


def test_a_view_is_shown_with_its_columns_and_its_query(database: Database, table: str) -> None:
    database.run(f"CREATE VIEW {table} AS SELECT id, upper(origin) AS origin FROM flights")
    try:
        assert database.rows("SHOW VIEWS FROM public") == [("public", table)]
        assert [row[3:5] for row in database.rows(f"SHOW COLUMNS FROM {table}")] == [
            ("id", "BIGINT"),
            ("origin", "VARCHAR"),
        ]
        ((catalog, db_schema, name, definition),) = database.rows(f"SHOW CREATE VIEW {table}")
        assert (catalog, db_schema, name) == ("lance", "public", table)
        assert [row[0] for row in database.rows(f"SUMMARIZE {table}")] == ["id", "origin"]
        database.run(f"DROP VIEW {table}")
        database.run(definition)
        assert database.rows(f"SHOW CREATE VIEW {table}")[0][:3] == ("lance", "public", table)
        assert database.query(f"SELECT * FROM {table}").column_names == ["id", "origin"]
    finally:
        database.run(f"DROP VIEW {table}")


@pytest.mark.parametrize("written", ["12", "'12'", "12.5", "'on'", "off", "1e1", "'2min'"])
def test_values_of_settings_may_be_written_as_numbers_texts_or_words(client: Client, written: str) -> None:
    option = "partition_wise_join" if written.strip("'") in {"on", "off"} else "statement_timeout"
    client.run(f"SET {option} = {written}")
    shown = dict(client.rows("SHOW ALL"))[option]
    meant = {"'2min'": "120.0"}.get(written, written.strip("'"))
    assert shown == meant or float(shown) == float(meant)


@pytest.mark.parametrize("option", ["schema", "snapshot", "branch"])
def test_a_long_name_is_refused_before_it_is_in_a_cookie(client: Client, option: str) -> None:
    assert re.search(r"\[invalid_input\].*expected", client.refuses(f"SET {option} = '{'x' * 10_000}'"))
    assert client.value("SELECT 1") == 1


ALICE, BOB = (Scope(access=Access(name)) for name in ("alice", "bob"))


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(
        tmp_path_factory.mktemp("owners"),
        "CREATE TABLE t (id BIGINT, owner VARCHAR) PARTITIONED BY (owner)",
        "INSERT INTO t VALUES (1, 'alice'), (2, 'bob'), (3, 'carol')",
    )


def rows(engine: Engine, sql: str, scope: Scope) -> list[tuple[object, ...]]:
    """The rows of a query, each endpoint asked for by the same principal."""
    plan = engine.plan(sql, scope=scope, endpoints=4)
    assert plan is not None
    parts = [engine.run(task, access=scope.access).read_all() for task in plan.tasks]
    assert all(part.schema == plan.schema for part in parts)
    return [tuple(row.values()) for part in parts for row in part.to_pylist()]


QUERIES = {
    "alone": ("SELECT CURRENT_USER", [("alice",)]),
    "in lower case": ("SELECT current_user", [("alice",)]),
    "of the session": ("SELECT SESSION_USER", [("alice",)]),
    "in a filter": ("SELECT id FROM t WHERE owner = CURRENT_USER", [(1,)]),
    "turned round": ("SELECT id FROM t WHERE owner NOT IN (CURRENT_USER, 'bob')", [(3,)]),
    "in an expression": ("SELECT upper(CURRENT_USER) || id FROM t WHERE id = 2", [("ALICE2",)]),
    "as an alias": ("SELECT CURRENT_USER AS me, count(*) AS n FROM t", [("alice", 3)]),
    "in a join": ("SELECT a.id FROM t a JOIN t b ON a.owner = b.owner WHERE b.owner = CURRENT_USER", [(1,)]),
}


@pytest.mark.parametrize(("sql", "expected"), QUERIES.values(), ids=QUERIES.keys())
def test_a_query_knows_who_asks(engine: Engine, sql: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(engine, sql, ALICE) == expected


def test_nobody_is_anonymous(engine: Engine) -> None:
    assert rows(engine, "SELECT CURRENT_USER", Scope()) == [("anonymous",)]


def test_it_prunes_partitions(engine: Engine) -> None:
    assert "partitions: 1 / 3" in str(rows(engine, "EXPLAIN SELECT id FROM t WHERE owner = CURRENT_USER", BOB))


def test_changes_know_who_asks(engine: Engine) -> None:
    assert engine.update("INSERT INTO t VALUES (4, CURRENT_USER)", scope=BOB) == 1
    assert engine.update("UPDATE t SET id = id + 10 WHERE owner = CURRENT_USER", scope=BOB) == 2
    assert engine.update("DELETE FROM t WHERE owner = CURRENT_USER", scope=ALICE) == 1
    assert engine.update("CREATE TABLE mine AS SELECT id, CURRENT_USER AS owner FROM t", scope=ALICE) == 3
    assert sorted(rows(engine, "SELECT id, owner FROM t", ALICE)) == [(3, "carol"), (12, "bob"), (14, "bob")]
    assert {owner for _, owner in rows(engine, "SELECT id, owner FROM mine", BOB)} == {"alice"}


def test_a_column_cannot_be_computed_from_who_asks(engine: Engine) -> None:
    with pytest.raises(SqlError):
        engine.update("ALTER TABLE t ADD COLUMN who VARCHAR AS (CURRENT_USER)", scope=ALICE)
