"""Partitions as things, over the wire: dropped, attached and detached."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import lance
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server
from tests.stock import StoredTable, manifest, manifest_rows, stored_by_value, stored_tables


@pytest.fixture(scope="module")
def template(server: Server) -> str:
    """Three months of two origins and of none, which nobody changes."""
    server.run("CREATE TABLE months (day DATE, origin VARCHAR, n INT) PARTITIONED BY (month(day) AS month, origin)")
    server.run(
        "INSERT INTO months SELECT CAST('2025-0' || m || '-01' AS DATE), o, n FROM (VALUES (1), (2), (3)) AS a(m),"
        " (VALUES ('JFK'), ('EWR'), (NULL)) AS b(o), (VALUES (1), (2)) AS c(n)"
    )
    return "months"


@pytest.fixture
def flights(server: Server, template: str, table: str) -> str:
    """Three months of two origins and of none."""
    return server.copy(template, table)


Value = tuple[int, str | None]
DROPPED: list[object] = [
    pytest.param("month = 3, origin = 'JFK'", lambda v: v == (3, "JFK"), id="one partition"),
    pytest.param("month = 3", lambda v: v[0] == 3, id="all below a value"),
    pytest.param("origin IS NULL", lambda v: v[1] is None, id="an inner value, NULL"),
    pytest.param("month = 4", lambda _: False, id="none"),
]


@pytest.mark.parametrize(("values", "goes"), DROPPED)
def test_a_dropped_partition_takes_its_rows_away_and_says_how_many(
    server: Server, flights: str, values: str, goes: Callable[[Value], bool]
) -> None:
    before = stored_by_value(server.root / flights, "n")
    gone = [value for value in before if goes(value)]
    assert server.run(f"ALTER TABLE {flights} DROP PARTITION ({values})") == 2 * len(gone)
    assert stored_by_value(server.root / flights, "n") == {v: rows for v, rows in before.items() if v not in gone}
    assert server.value(f"SELECT count(*) FROM {flights}") == 2 * (len(before) - len(gone))
    assert len(server.rows(f"SHOW PARTITIONS {flights}")) == len(before) - len(gone)


def test_a_partition_is_not_dropped_inside_a_transaction(server: Server, flights: str) -> None:
    before = stored_by_value(server.root / flights, "n")
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {flights} VALUES ('2025-04-01', 'JFK', 1)")
        with pytest.raises(Error, match="not altered inside a transaction"):
            cursor.execute(f"ALTER TABLE {flights} DROP PARTITION (month = 3)")
        connection.rollback()
    assert stored_by_value(server.root / flights, "n") == before


def test_a_plain_table_has_no_partitions_to_drop(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} AS SELECT 1 AS month")
    assert "is not partitioned" in server.refuses(f"ALTER TABLE {table} DROP PARTITION (month = 1)")
    assert server.value(f"SELECT count(*) FROM {table}") == 1


def test_a_partition_dropped_on_a_branch_is_there_on_main(server: Server, flights: str) -> None:
    server.run(f"ALTER TABLE {flights} CREATE BRANCH b")
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET branch = 'b'")
        cursor.execute(f"ALTER TABLE {flights} DROP PARTITION (month = 3)")
        assert cursor.rowcount == 6
        cursor.execute(f"SELECT count(*) FROM {flights}")
        assert cursor.fetchone() == (12,)
    assert server.value(f"SELECT count(*) FROM {flights}") == 18


EVOLVED: list[object] = [
    pytest.param("origin", "origin = 'JFK'", "whole", id="a field of both specs"),
    pytest.param("origin", "origin IS NULL", "whole", id="a field of both specs, NULL"),
    pytest.param("bucket(2, origin) AS side", "side = 0", "whole", id="a field whose source is known"),
    pytest.param(
        "day, origin", "day = '2025-03-01', origin = 'EWR'", "rewritten", id="a field that old tables do not know"
    ),
    pytest.param("expr('col0 % 2', n) AS odd", "odd = 1", "rewritten", id="a field of another column"),
]


@pytest.mark.parametrize(("spec", "values", "how"), EVOLVED)
def test_a_partition_of_a_new_spec_takes_the_rows_of_older_ones_along(
    server: Server, flights: str, spec: str, values: str, how: str
) -> None:
    server.run(f"INSERT INTO {flights} VALUES ('2025-03-02', 'EWR', 9)")
    server.run(f"ALTER TABLE {flights} SET PARTITIONED BY ({spec})")
    server.run(f"INSERT INTO {flights} SELECT day, origin, n + 10 FROM {flights}")
    where = values.replace(", ", " AND ").replace("side = 0", "abs(murmur3(origin)) % 2 = 0").replace("odd", "n % 2")
    count, total = (server.value(f"SELECT count(*) FROM {flights} WHERE {c}") for c in (where, "true"))
    before = {table.object_id: table.row for table in stored_tables(server.root / flights)}
    assert count > 0
    assert server.run(f"ALTER TABLE {flights} DROP PARTITION ({values})") == count
    assert server.value(f"SELECT count(*) FROM {flights}") == total - count
    assert server.value(f"SELECT count(*) FROM {flights} WHERE {where}") == 0
    after = {table.object_id: table.row for table in stored_tables(server.root / flights)}
    assert all(stored.dataset.count_rows() for stored in stored_tables(server.root / flights))
    changed = {name for name, row in after.items() if before[name] != row}
    assert bool(changed) == (how == "rewritten")
    assert all(name.startswith("v1$") for name in changed)
    assert server.rows(f"SELECT DISTINCT operation, is_current FROM {flights}$specs WHERE spec_id = 2") == [
        ("partition spec v2", True)
    ]


# Tables that come from elsewhere.

JUNE = "month = 6, origin = 'SFO'"


def outside(server: Server, name: str, **columns: Any) -> str:
    """A plain table of the root, written by stock Lance in two commits."""
    place = str(server.root / f"{name}.lance")
    rows = pa.table({"day": [date(2025, 6, 1), date(2025, 6, 2)], "origin": ["SFO", "SFO"], "n": [1, 2]} | columns)
    lance.write_dataset(rows.slice(0, 1), place)
    lance.write_dataset(rows.slice(1), place, mode="append")
    return name


def partition(server: Server, table: str, *values: Any) -> StoredTable | None:
    found = [stored for stored in stored_tables(server.root / table) if tuple(stored.values.values()) == values]
    return found[0] if found else None


WAYS = ["'{x}'", "'{x}.lance'", "{x}", "'public/{x}.lance'"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trusted", ["", " TRUSTED"], ids=["checked", "trusted"])
def test_an_attached_table_is_a_partition_and_no_table_any_more(
    server: Server, flights: str, way: str, trusted: str
) -> None:
    name = outside(server, f"{flights}_june")
    before, version = stored_by_value(server.root / flights, "n"), manifest(server.root / flights).version
    sql = f"ALTER TABLE {flights} ATTACH TABLE {way.format(x=name)} PARTITION ({JUNE}){trusted}"
    assert server.run(sql) == 2
    assert stored_by_value(server.root / flights, "n") == before | {(6, "SFO"): [{"n": 1}, {"n": 2}]}
    assert manifest(server.root / flights).version == version + 1, "one commit"
    assert not (server.root / f"{name}.lance").exists()
    assert "not_found" in server.refuses(f"SELECT * FROM {name}")
    assert server.rows(f"SELECT day, n FROM {flights} WHERE origin = 'SFO' ORDER BY n") == [
        (date(2025, 6, 1), 1),
        (date(2025, 6, 2), 2),
    ]
    assert server.value(f"SELECT count(*) FROM {flights}@{version}") == 18
    found = partition(server, flights, 6, "SFO")
    assert found is not None
    assert found.row["location"].endswith(f"_{found.object_id}"), "a place of the usual form"
    ids = {field.name: field.metadata[b"lance_flight:field_id"] for field in found.dataset.schema}
    assert ids == {"day": b"0", "origin": b"1", "n": b"2"}


def test_an_attached_table_is_written_changed_compacted_and_vacuumed_like_any_other(
    server: Server, flights: str
) -> None:
    name = outside(server, f"{flights}_june", extra=["x", "y"])
    server.run(f"ALTER TABLE {flights} ATTACH TABLE '{name}' PARTITION ({JUNE})")
    server.run(f"INSERT INTO {flights} VALUES ('2025-06-03', 'SFO', 3)")
    assert server.run(f"UPDATE {flights} SET n = n * 10 WHERE origin = 'SFO'") == 3
    assert server.run(f"DELETE FROM {flights} WHERE n = 10") == 1
    server.rows(f"ALTER TABLE {flights} COMPACT")
    server.rows(f"VACUUM {flights} RETAIN 0 HOURS FORCE")
    found = partition(server, flights, 6, "SFO")
    assert found is not None
    rows = found.dataset.to_table(columns=["n", "extra"]).to_pylist()
    assert sorted(rows, key=str) == [{"n": 20, "extra": None}, {"n": 30, "extra": None}]
    assert sorted(server.rows(f"SELECT n FROM {flights} WHERE origin = 'SFO'")) == [(20,), (30,)]


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        pytest.param({"n": ["1", "2"]}, [1, 2], id="another type"),
        pytest.param({"n": pa.array([1, 2], pa.int8())}, [1, 2], id="a smaller type"),
        pytest.param({"more": [[1], [2]]}, [1, 2], id="an extra column"),
        pytest.param({"day": ["2025-06-01", "2025-06-30"]}, [1, 2], id="text for the source of a partition"),
    ],
)
def test_a_table_with_other_columns_is_attached_where_it_can_be_read(
    server: Server, flights: str, columns: dict[str, Any], shown: list[int]
) -> None:
    name = outside(server, f"{flights}_june", **columns)
    assert server.run(f"ALTER TABLE {flights} ATTACH TABLE '{name}' PARTITION ({JUNE})") == 2
    assert server.rows(f"SELECT n FROM {flights} WHERE date_part('month', day) = 6 ORDER BY n") == [(n,) for n in shown]


def test_a_column_that_is_missing_is_null(server: Server, flights: str) -> None:
    place = str(server.root / f"{flights}_june.lance")
    lance.write_dataset(pa.table({"day": [date(2025, 6, 1)]}), place)
    server.run(f"ALTER TABLE {flights} ATTACH TABLE '{flights}_june' PARTITION (month = 6, origin = NULL)")
    assert server.rows(f"SELECT origin, n FROM {flights} WHERE day = '2025-06-01'") == [(None, None)]


NOT_ATTACHED = [
    pytest.param({}, "(month = 6)", "has no value for origin", id="a field without a value"),
    pytest.param({}, "(month = 6, orgin = 'SFO')", "did you mean 'origin'", id="no such field"),
    pytest.param({}, "(month = 3, origin = 'JFK')", "is there already", id="a partition that is there"),
    pytest.param({}, "(month = 7, origin = 'SFO')", "row 1 of", id="the first row is another partition's"),
    pytest.param({"origin": ["SFO", None]}, f"({JUNE})", "row 2 of", id="the second one is"),
    pytest.param(
        {"day": [date(2025, 6, 1), date(2025, 7, 1)]},
        f"({JUNE})",
        "(month = 7, origin = 'SFO'), not (month = 6, origin = 'SFO')",
        id="which one, and which not",
    ),
    pytest.param({"day": ["2025-06-01", "June"]}, f"({JUNE})", "holds 'June'", id="a value that cannot be read"),
    pytest.param({"n": ["1", "x"]}, f"({JUNE})", "holds 'x'", id="one of a column that partitions nothing"),
    pytest.param({"n": [[1], [2]]}, f"({JUNE})", "is list", id="a type that cannot be read"),
]


@pytest.mark.parametrize(("columns", "values", "message"), NOT_ATTACHED)
def test_what_is_no_such_partition_stays_a_table(
    server: Server, flights: str, columns: dict[str, Any], values: str, message: str
) -> None:
    name = outside(server, f"{flights}_june", **columns)
    before = manifest_rows(server.root / flights), {path.name for path in (server.root / flights).iterdir()}
    assert message in server.refuses(f"ALTER TABLE {flights} ATTACH TABLE '{name}' PARTITION {values}")
    assert (manifest_rows(server.root / flights), {path.name for path in (server.root / flights).iterdir()}) == before
    assert server.value(f"SELECT count(*) FROM {name}") == 2


def test_rows_are_not_looked_at_where_they_are_trusted(server: Server, flights: str) -> None:
    name = outside(server, f"{flights}_june", n=["1", "x"])
    assert server.run(f"ALTER TABLE {flights} ATTACH TABLE '{name}' PARTITION (month = 7, origin = 'SFO') TRUSTED") == 2
    assert "holds 'x'" in server.refuses(f"SELECT n FROM {flights}")
    assert server.value(f"SELECT count(day) FROM {flights}") == 20


def test_a_null_in_a_column_that_has_none_is_named(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (p INT, n INT NOT NULL) PARTITIONED BY (p)")
    lance.write_dataset(pa.table({"p": [1, 1], "n": [1, None]}), str(server.root / f"{table}_x.lance"))
    sql = f"ALTER TABLE {table} ATTACH TABLE '{table}_x' PARTITION (p = 1)"
    assert "column 'n' is NOT NULL, and row 2 of" in server.refuses(sql)
    lance.write_dataset(pa.table({"p": [1]}), str(server.root / f"{table}_y.lance"))
    sql = f"ALTER TABLE {table} ATTACH TABLE '{table}_y' PARTITION (p = 1) TRUSTED"
    assert "column 'n' (int32 NOT NULL) is missing" in server.refuses(sql)


PATHS = [
    pytest.param("../secret.lance", "does not stay inside", id="above the root"),
    pytest.param("/etc", "does not stay inside", id="absolute"),
    pytest.param("public/../../secret.lance", "does not stay inside", id="above, by a detour"),
    pytest.param("file:///tmp/x.lance", "does not stay inside", id="another store"),
    pytest.param("", "does not stay inside", id="nothing"),
    pytest.param("a/b/c.lance", "not_found", id="deeper than tables lie"),
    pytest.param("nowhere", "not_found", id="nowhere"),
    pytest.param(".lance-flight", "not_found", id="a private place"),
    pytest.param("{t}", "is partitioned", id="itself"),
    pytest.param("{t}/__manifest", "not_found", id="its own manifest"),
]


@pytest.mark.parametrize(("path", "message"), PATHS)
def test_no_path_leads_out_of_the_root(server: Server, flights: str, path: str, message: str) -> None:
    secret = server.root.parent / "secret.lance"
    if not secret.exists():
        lance.write_dataset(pa.table({"day": [date(2025, 6, 1)], "origin": ["SFO"], "n": [1]}), str(secret))
    sql = f"ALTER TABLE {flights} ATTACH TABLE '{path.format(t=flights)}' PARTITION ({JUNE})"
    assert message in server.refuses(sql)
    assert secret.exists()
    assert len(stored_tables(server.root / flights)) == 9


def test_no_link_is_attached(server: Server, flights: str) -> None:
    elsewhere = server.root.parent / f"{flights}_elsewhere"
    lance.write_dataset(pa.table({"day": [date(2025, 6, 1)], "origin": ["SFO"], "n": [1]}), str(elsewhere))
    (server.root / f"{flights}_link.lance").symlink_to(elsewhere)
    sql = f"ALTER TABLE {flights} ATTACH TABLE '{flights}_link' PARTITION ({JUNE})"
    assert "is a symbolic link" in server.refuses(sql)
    outside(server, f"{flights}_june")
    (file, *_) = (server.root / f"{flights}_june.lance" / "data").iterdir()
    file.rename(elsewhere / file.name)
    file.symlink_to(elsewhere / file.name)
    assert "in another place" in server.refuses(sql.replace("_link", "_june"))


def test_a_table_with_branches_is_not_attached(server: Server, flights: str) -> None:
    name = outside(server, f"{flights}_june")
    lance.dataset(str(server.root / f"{name}.lance")).create_branch("w")
    sql = f"ALTER TABLE {flights} ATTACH TABLE '{name}' PARTITION ({JUNE})"
    assert "has the branch 'w'" in server.refuses(sql)
    assert server.value(f"SELECT count(*) FROM {name}") == 2


def test_nothing_is_attached_or_detached_on_a_branch_or_in_a_transaction(server: Server, flights: str) -> None:
    name = outside(server, f"{flights}_june")
    server.run(f"ALTER TABLE {flights} CREATE BRANCH b")
    statements = [f"ATTACH TABLE '{name}' PARTITION ({JUNE})", "DETACH PARTITION (month = 3, origin = 'JFK')"]
    for statement in statements:
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET branch = 'b'")
            with pytest.raises(Error, match="on the main branch only"):
                cursor.execute(f"ALTER TABLE {flights} {statement}")
        with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
            with pytest.raises(Error, match="not altered inside a transaction"):
                cursor.execute(f"ALTER TABLE {flights} {statement}")
            connection.rollback()
    assert len(stored_tables(server.root / flights)) == 9


# And back again.


def test_a_detached_partition_is_a_table_and_no_partition_any_more(server: Server, flights: str) -> None:
    before, version = stored_by_value(server.root / flights, "n"), manifest(server.root / flights).version
    assert server.run(f"ALTER TABLE {flights} DETACH PARTITION (month = 3, origin = NULL) TO {flights}_out") == 2
    assert stored_by_value(server.root / flights, "n") == {v: n for v, n in before.items() if v != (3, None)}
    assert manifest(server.root / flights).version == version + 1
    assert server.rows(f"SELECT * FROM {flights}_out ORDER BY n") == [(date(2025, 3, 1), None, n) for n in (1, 2)]
    assert lance.dataset(str(server.root / f"{flights}_out.lance")).count_rows() == 2
    assert server.value(f"SELECT count(*) FROM {flights}@{version}") == 18, "older snapshots have it"
    server.run(f"ALTER TABLE {flights} ATTACH TABLE '{flights}_out' PARTITION (month = 3, origin = NULL)")
    assert stored_by_value(server.root / flights, "n") == before


def test_what_is_detached_is_what_the_pin_shows(server: Server, flights: str) -> None:
    server.run(f"UPDATE {flights} SET n = 7 WHERE date_part('month', day) = 3 AND origin = 'JFK' AND n = 2")
    found = partition(server, flights, 3, "JFK")
    assert found is not None
    dead = pa.table({"day": [date(2025, 3, 1)], "origin": ["JFK"], "n": pa.array([666], pa.int32())})
    lance.write_dataset(dead, found.dataset.uri, mode="append")
    server.run(f"ALTER TABLE {flights} DETACH PARTITION (month = 3, origin = 'JFK')")
    assert sorted(server.rows(f"SELECT n FROM {flights}_3_jfk")) == [(1,), (7,)]


NOT_DETACHED = [
    pytest.param("(month = 3, origin = 'LAX')", "0 tables of", id="a partition that is not there"),
    pytest.param("(month = 3)", "has no value for origin", id="a field without a value"),
    pytest.param("(month = 3, origin = 'JFK') TO {t}", "is there already", id="a name that is taken"),
    pytest.param("(month = 3, origin = 'JFK') TO 'a/b'", "name 'a/b' is not allowed", id="no name"),
    pytest.param("(month = 3, origin = 'JFK') TO '../b'", "name '../b' is not allowed", id="a name that leads out"),
]


def test_there_is_nothing_to_detach_from_an_empty_table(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (p INT) PARTITIONED BY (p)")
    assert "0 tables of" in server.refuses(f"ALTER TABLE {table} DETACH PARTITION (p = 1)")
    assert server.run(f"ALTER TABLE {table} DROP PARTITION (p = 1)") == 0


@pytest.mark.parametrize(("what", "message"), NOT_DETACHED)
def test_what_cannot_be_detached_stays(server: Server, flights: str, what: str, message: str) -> None:
    assert message in server.refuses(f"ALTER TABLE {flights} DETACH PARTITION {what.format(t=flights)}")
    assert len(stored_tables(server.root / flights)) == 9
    assert server.value(f"SELECT count(*) FROM {flights}") == 18
