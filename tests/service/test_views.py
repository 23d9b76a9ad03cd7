"""Views: what they read, who may read them, and how they are listed, replaced and dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def views(server: Server) -> Server:
    """Two partitioned tables, one of them in another schema, and views over them."""
    (server.root / "west").mkdir()
    server.run("CREATE TABLE readings (site VARCHAR, day INT, celsius DOUBLE) PARTITIONED BY (site)")
    server.run("INSERT INTO readings VALUES ('Oslo', 1, -3.5), ('Oslo', 2, -1), ('Lima', 1, 22)")
    server.run("CREATE TABLE west.readings (site VARCHAR, day INT) PARTITIONED BY (site)")
    server.run("INSERT INTO west.readings VALUES ('Reno', 7)")
    server.run("CREATE VIEW warm AS SELECT * FROM readings WHERE celsius > 0")
    server.run("CREATE VIEW days (place, days) AS SELECT site, count(*) FROM readings GROUP BY site")
    server.run("CREATE VIEW west.days AS WITH r AS (SELECT * FROM west.readings) SELECT site, day FROM r")
    server.run("CREATE VIEW all_days AS SELECT place FROM days UNION ALL SELECT site FROM west.days")
    server.run("CREATE VIEW moment AS SELECT now() AS at")
    return server


READ = [
    pytest.param("SELECT * FROM warm", [("Lima", 1, 22.0)], id="columns of the table"),
    pytest.param("SELECT place, days FROM days ORDER BY place", [("Lima", 1), ("Oslo", 2)], id="listed columns"),
    pytest.param("SELECT d.place FROM days AS d JOIN warm w ON d.place = w.site", [("Lima",)], id="joined"),
    pytest.param("SELECT * FROM west.days", [("Reno", 7)], id="in another schema"),
    pytest.param("SELECT place FROM all_days ORDER BY 1", [("Lima",), ("Oslo",), ("Reno",)], id="over views"),
    pytest.param("WITH warm AS (SELECT 1 AS one) SELECT * FROM warm", [(1,)], id="hidden by WITH"),
    pytest.param("SELECT count(*) FROM moment WHERE at > '2020-01-01'", [(1,)], id="without a table"),
]


@pytest.mark.parametrize(("sql", "expected"), READ)
def test_views_are_read_like_tables(views: Server, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert views.rows(sql) == expected
    assert views.rows(sql) == expected, "by the plan that is kept"


def test_partitions_are_pruned_through_a_view(views: Server) -> None:
    plan = views.rows("EXPLAIN SELECT * FROM warm WHERE site = 'Oslo'")
    assert [text.splitlines()[0][:17] for kind, text in plan if kind == "partitions"] == ["partitions: 1 / 2"]


def test_parameters_are_typed_by_the_columns_of_a_view(views: Server) -> None:
    with views.connection.cursor() as cursor:
        assert cursor.adbc_prepare("SELECT * FROM warm WHERE day = ?").types == [pa.int32()]
    assert views.rows("SELECT site FROM warm WHERE day = ?", (1,)) == [("Lima",)]


def test_the_default_schema_of_a_reader_changes_nothing(views: Server) -> None:
    with dbapi.connect(views.uri, autocommit=True) as connection, connection.cursor() as other:
        other.execute("SET schema = 'west'")
        other.execute("SELECT count(*) FROM public.warm")
        assert other.fetchall() == [(1,)]
        other.execute("SELECT count(*) FROM days")
        assert other.fetchall() == [(1,)]


def test_a_view_reads_what_the_session_reads(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, p VARCHAR) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    server.run(f"CREATE VIEW v_{table} AS SELECT {table}.* FROM {table}")
    server.run(f"ALTER TABLE {table} CREATE BRANCH dev")
    server.run(f"ALTER TABLE {table} CREATE TAG two")
    server.run(f"INSERT INTO {table} VALUES (3, 'a')")
    count = f"SELECT count(*) AS n FROM v_{table}"
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as other:
        for option, value, expected in [("branch", "dev", 2), ("branch", "main", 3), ("snapshot", "two", 2)]:
            other.execute(f"SET {option} = '{value}'")
            other.execute(count)
            assert other.fetchall() == [(expected,)], option
    with dbapi.connect(server.uri, autocommit=False) as connection, connection.cursor() as other:
        other.execute(f"DELETE FROM {table} WHERE p = 'a'")
        other.execute(count)
        assert other.fetchall() == [(1,)]
        connection.rollback()
    assert server.value(count) == 3


def test_rows_and_columns_that_come_later(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, c VARCHAR) PARTITIONED BY (c)")
    server.run(f"CREATE VIEW v_{table} AS SELECT * FROM {table}")
    assert server.rows(f"SELECT * FROM v_{table}") == []
    server.run(f"INSERT INTO {table} VALUES (1, 'a')")
    server.run(f"ALTER TABLE {table} ADD COLUMN d INT DEFAULT 7")
    assert server.rows(f"SELECT * FROM v_{table}") == [(1, "a")]
    server.run(f"ALTER TABLE {table} DROP COLUMN id")
    with pytest.raises(Error, match=f"view 'v_{table}'.*id"):
        server.rows(f"SELECT * FROM v_{table}")
    server.run(f"DROP TABLE {table}")
    with pytest.raises(Error, match=f"not_found.*view 'v_{table}'.*{table}"):
        server.rows(f"SELECT * FROM v_{table}")


def test_a_view_is_replaced_for_statements_that_are_planned_by_then(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT)")
    server.run(f"INSERT INTO {table} VALUES (1), (2)")
    view = f"v_{table}"
    server.run(f"CREATE VIEW {view} AS SELECT id FROM {table}")
    assert len(server.rows(f"SELECT * FROM {view}")) == 2
    server.run(f"CREATE OR REPLACE VIEW {view} AS SELECT id AS other FROM {table} WHERE id = 2")
    assert server.rows(f"SELECT other FROM {view}") == [(2,)]
    with pytest.raises(Error, match="already_exists"):
        server.run(f"CREATE VIEW {view} AS SELECT 1 AS x")
    assert server.run(f"CREATE VIEW IF NOT EXISTS {view} AS SELECT 1 AS x") in {0, -1}
    assert server.rows(f"SELECT other FROM {view}") == [(2,)]
    server.run(f"DROP VIEW {view}")
    with pytest.raises(Error, match="not_found"):
        server.rows(f"SELECT * FROM {view}")
    server.run(f"DROP VIEW IF EXISTS {view}")


def test_a_ticket_does_not_read_another_view_than_it_was_planned_with(server: Server, table: str) -> None:
    view = f"v_{table}"
    server.run(f"CREATE VIEW {view} AS SELECT 1 AS x")
    with server.connection.cursor() as cursor:
        parts, schema = cursor.adbc_execute_partitions(f"SELECT x FROM {view}")
        server.run(f"CREATE OR REPLACE VIEW {view} AS SELECT 'other' AS x")
        with pytest.raises(Error, match=r"conflict.*was replaced"):
            cursor.adbc_read_partition(parts[0])
    assert schema.names == ["x"]


REFUSED = [
    pytest.param("CREATE VIEW warm_2 AS SELECT * FROM nowhere", "not_found.*nowhere", id="no such table"),
    pytest.param(
        "CREATE VIEW warm_2 AS SELECT a.site, b.site FROM readings a, readings b", "twice", id="two columns of one name"
    ),
    pytest.param("CREATE VIEW warm_2 (a, b) AS SELECT 1", "2 columns for a query of 1", id="other number of columns"),
    pytest.param("CREATE VIEW warm_2 AS SELECT ? AS a", "parameters", id="parameters"),
    pytest.param("CREATE VIEW readings AS SELECT 1 AS a", "already_exists", id="name of a table"),
    pytest.param("CREATE TABLE warm (a INT)", "already_exists.*is a view", id="a table of the name of a view"),
    pytest.param("ALTER TABLE readings RENAME TO warm", "already_exists.*is a view", id="a table renamed to a view"),
    pytest.param("CREATE OR REPLACE VIEW days AS SELECT place FROM all_days", "reads itself", id="cycle"),
    pytest.param("CREATE OR REPLACE VIEW warm AS SELECT * FROM warm", "reads itself", id="itself"),
    pytest.param("DROP TABLE warm", "is a view", id="dropped as a table"),
    pytest.param("DROP VIEW readings", "is a table", id="a table dropped as a view"),
    pytest.param("INSERT INTO warm VALUES ('x', 1, 2)", "is a view", id="insert"),
    pytest.param("DELETE FROM warm", "is a view", id="delete"),
    pytest.param("SELECT * FROM warm@1", "is a view", id="version"),
    pytest.param("SELECT * FROM warm$partitions", "is a view", id="metadata table"),
    pytest.param("SELECT _partition FROM warm", "No field named _partition", id="hidden column"),
    pytest.param("CREATE VIEW nowhere.v AS SELECT 1 AS a", "not_found.*nowhere", id="no such schema"),
    pytest.param('CREATE VIEW "a/b" AS SELECT 1 AS a', "not allowed", id="name of a path"),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_what_is_refused_is_told_why(views: Server, sql: str, message: str) -> None:
    with pytest.raises(Error, match=message):
        views.run(sql) if not sql.startswith("SELECT") else views.rows(sql)
    assert views.rows("SELECT * FROM warm") == [("Lima", 1, 22.0)]


def test_views_are_listed(views: Server) -> None:
    assert ("public", "warm") in views.rows("SHOW VIEWS")
    assert views.rows("SELECT table_type FROM information_schema.tables WHERE table_name = 'warm'") == [("VIEW",)]
    listed = views.rows("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'warm'")
    assert [name for name, _ in listed] == ["site", "day", "celsius"]
    assert [row[0] for row in views.rows("DESCRIBE days")] == ["place", "days"]
    objects = views.connection.adbc_get_objects(depth="all", table_types_filter=["VIEW"]).read_all().to_pylist()
    found = {
        (schema["db_schema_name"], table["table_name"]): [column["column_name"] for column in table["table_columns"]]
        for catalog in objects
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }
    assert found["public", "warm"] == ["site", "day", "celsius"]
    assert found["west", "days"] == ["site", "day"]
    assert "VIEW" in views.connection.adbc_get_table_types()


def test_a_view_is_made_again_by_what_show_create_view_says(views: Server) -> None:
    ((statement,),) = [row[-1:] for row in views.rows("SHOW CREATE VIEW days")]
    before = views.rows("SELECT * FROM days ORDER BY place")
    views.run("DROP VIEW days")
    views.run(statement)
    assert views.rows("SELECT * FROM days ORDER BY place") == before


GROWING = {
    "joins": "SELECT a.x FROM {below} a JOIN {below} b ON a.x = b.x",
    "subqueries": "SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM {below}) AND 1 IN (SELECT x FROM {below})",
    "WITH": "WITH q AS (SELECT x FROM {below}) SELECT a.x FROM q AS a, q AS b",
    "a sum that doubles": "SELECT x + x AS x FROM {below} WHERE x <> 5",
    "sums that add up": f"SELECT x{' + 1' * 400} AS x FROM {{below}}",
    "levels": f"SELECT x FROM {'(SELECT x FROM ' * 50}{{below}}{')' * 50}",
}


@pytest.mark.parametrize(("name", "query"), GROWING.items(), ids=GROWING.keys())
def test_the_growth_of_views_within_views_is_bounded(server: Server, name: str, query: str) -> None:
    below = f"{name}_0"
    server.run(f'CREATE VIEW "{below}" AS SELECT 1 AS x')
    made = 0
    with pytest.raises(Error, match=r"limit_exceeded\] .* once |within each other"):  # noqa: PT012 - at which view is no matter
        for n in range(1, 16):
            server.run(f'CREATE VIEW "{name}_{n}" AS {query.format(below=chr(34) + below + chr(34))}')
            below, made = f"{name}_{n}", n
    assert 1 <= made < 16
    assert server.value(f'SELECT count(*) FROM "{name}_{made - 1}"') <= 1


def test_another_server_over_the_root_sees_a_view(views: Server) -> None:
    with serving(views.root) as other:
        assert other.rows("SELECT * FROM warm") == [("Lima", 1, 22.0)]


def test_a_view_that_is_no_view_is_reported(server: Server, table: str) -> None:
    server.run(f"CREATE VIEW v_{table} AS SELECT 1 AS x")
    (file,) = (
        path for path in Path(server.root, ".lance-flight").glob("view-*.json") if f"v_{table}" in path.read_text()
    )
    file.write_text("{}")
    with pytest.raises(Error, match=r"corrupt.*view"):
        server.rows(f"SELECT * FROM v_{table}")
    file.unlink()
