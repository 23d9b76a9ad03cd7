"""`_partition` and `_rowid`, the hidden columns of tables, over the wire."""

from __future__ import annotations

from contextlib import closing

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server
from tests.stock import stored_rows

KINDS = {
    "plain": "",
    "partitioned": " PARTITIONED BY (b)",
    "stable": " PARTITIONED BY (b) WITH (stable_row_ids = true)",
}
ROWS = [(1, "x"), (2, "x"), (3, "y")]
COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def filled(server: Server, table: str, kind: str) -> str:
    """A table of three rows, in two partitions if it has such."""
    server.run(f"CREATE TABLE {table} (id INT, b VARCHAR){KINDS[kind]}")
    server.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'x'), (3, 'y')")
    return table


def names(server: Server, table: str) -> dict[int, str]:
    """The name of each row, by its id."""
    return dict(server.rows(f"SELECT id, _rowid FROM {table}"))


def test_nothing_shows_them_but_their_names(server: Server, filled: str) -> None:
    plain = [
        f"SELECT * FROM {filled} ORDER BY id",
        f"SELECT * FROM {filled} WHERE _rowid IS NOT NULL ORDER BY id",
        f"SELECT x.* FROM {filled} x WHERE _partition IS NOT NULL OR _rowid <> '' ORDER BY _rowid = '', id",
        f"SELECT * FROM (SELECT * FROM {filled} WHERE _rowid > '') ORDER BY id",
        f"SELECT a.* FROM {filled} a JOIN {filled} b ON a._rowid = b._rowid ORDER BY a.id",
        f"WITH q AS (SELECT * FROM {filled} WHERE length(_rowid) > 0) SELECT * FROM q ORDER BY id",
        f"SELECT * FROM {filled} TABLESAMPLE BERNOULLI (100) ORDER BY id",
    ]
    for query in plain:
        table = server.query(query)
        assert table.column_names == ["id", "b"], query
        assert [tuple(row.values()) for row in table.to_pylist()] == ROWS, query
    assert server.query(f"SELECT * FROM {filled} a, {filled} b WHERE a._rowid = b._rowid").column_names == [
        "id",
        "b",
        "id",
        "b",
    ]
    assert [row[0] for row in server.rows(f"DESCRIBE {filled}")] == ["id", "b"]
    assert server.connection.adbc_get_table_schema(filled).names == ["id", "b"]


def test_a_partition_is_called_as_everywhere(server: Server, filled: str, kind: str) -> None:
    shown = dict(server.rows(f"SELECT id, _partition FROM {filled}"))
    ((oldest, newest),) = server.rows(f"SELECT min(version), max(version) FROM {filled}$snapshots")
    changes = dict(server.rows(f"SELECT id, _partition FROM table_changes('{filled}', {oldest}, {newest})"))
    if kind == "plain":
        assert set(shown.values()) == {None}
        return
    assert shown == changes
    listed = dict(server.rows(f"SELECT b, object_id FROM {filled}$partitions"))
    assert shown == {number: listed[b] for number, b in ROWS}
    counted = server.rows(f"SELECT _partition, count(*), min(id) FROM {filled} GROUP BY _partition ORDER BY 3")
    assert counted == [(listed["x"], 2, 1), (listed["y"], 1, 3)]
    for condition, rows in {
        f"_partition = '{listed['x']}'": 2,
        f"_partition IN ('{listed['y']}', 'none')": 1,
        f"_partition <> '{listed['x']}'": 1,
        f"_partition = '{listed['x']}' AND id = 2": 1,
        f"_partition = '{listed['x']}' OR _partition = '{listed['y']}'": 3,
        "_partition LIKE 'v1$%'": 3,
        "_partition IS NULL": 0,
        "_partition = 'none'": 0,
    }.items():
        assert server.value(f"SELECT count(*) FROM {filled} WHERE {condition}") == rows, condition


def test_a_partition_prunes(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    server.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    named = server.value(f"SELECT _partition FROM {table} WHERE id = 2")
    row = server.value(f"SELECT _rowid FROM {table} WHERE id = 3")
    for condition in (f"_partition = '{named}'", f"_rowid = '{row}'", f"_rowid IN ('{row}', 'no name')"):
        plans = dict(server.rows(f"EXPLAIN SELECT * FROM {table} WHERE {condition}"))
        assert "partitions: 1 / 3" in plans["partitions"], condition


def test_a_row_has_a_name_of_its_own(server: Server, filled: str) -> None:
    named = names(server, filled)
    assert len(set(named.values())) == len(ROWS)
    for number, name in named.items():
        assert server.rows(f"SELECT id FROM {filled} WHERE _rowid = ?", [name]) == [(number,)]
        assert server.rows(f"SELECT id FROM {filled} WHERE {filled}._rowid = '{name}' AND id > 0") == [(number,)]
    assert names(server, filled) == named
    assert server.rows(f"SELECT id FROM {filled} ORDER BY _rowid") == [
        (number,) for number in sorted(named, key=lambda each: named[each])
    ]


def test_a_row_is_changed_by_its_name_and_no_other(server: Server, filled: str, kind: str) -> None:
    assert server.run(f"DELETE FROM {filled} WHERE _rowid = '{names(server, filled)[2]}'") == 1
    assert server.run(f"UPDATE {filled} SET id = 10 WHERE _rowid = ?", [names(server, filled)[1]]) == 1
    source = f"(SELECT _rowid AS name FROM {filled} WHERE id = 3) s"
    assert server.run(f"MERGE INTO {filled} USING {source} ON _rowid = name WHEN MATCHED THEN UPDATE SET id = 30") == 1
    assert sorted(server.rows(f"SELECT * FROM {filled}")) == [(10, "x"), (30, "y")]
    if kind != "plain":
        stored = stored_rows(server.root / filled).select(["id"]).to_pylist()
        assert sorted(row["id"] for row in stored) == [10, 30]


def test_a_name_holds_for_its_version_or_for_ever(server: Server, filled: str, kind: str) -> None:
    named = names(server, filled)
    version = server.value(f"SELECT max(version) FROM {filled}$snapshots")
    server.run(f"UPDATE {filled} SET id = 20 WHERE id = 2")
    for change in (
        f"DELETE FROM {filled} WHERE _rowid = '{{}}'",
        f"UPDATE {filled} SET id = 0 WHERE _rowid IN ('{{}}')",
    ):
        if kind == "stable":
            break
        message = server.refuses(change.format(named[1]))
        assert "[conflict]" in message
        assert "read it again" in message
    old = f"SELECT id FROM {filled} FOR VERSION AS OF {version} WHERE _rowid = '{named[1]}'"
    assert server.rows(old) == [(1,)]
    assert sorted(server.rows(f"SELECT id FROM {filled}")) == [(1,), (3,), (20,)]
    if kind != "plain":
        # another partition was not changed
        assert server.run(f"DELETE FROM {filled} WHERE _rowid = '{named[3]}'") == 1


def test_a_transaction_keeps_the_names_that_it_has_read(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    server.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'x'), (3, 'y')")
    with (
        closing(dbapi.connect(server.uri, db_kwargs=COOKIES, autocommit=True)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT id, _rowid FROM {table}")
        named = dict(cursor.fetchall())
        server.run(f"INSERT INTO {table} VALUES (4, 'z')")
        cursor.execute(f"DELETE FROM {table} WHERE _rowid IN ('{named[1]}', '{named[3]}')")
        assert cursor.rowcount == 2
        cursor.execute(f"UPDATE {table} SET id = 20 WHERE _rowid = ?", [named[2]])
        assert cursor.rowcount == 1
        for gone in named.values():
            cursor.execute(f"DELETE FROM {table} WHERE _rowid = '{gone}'")
            assert cursor.rowcount == 0
        cursor.execute(f"SELECT id, _rowid FROM {table}")
        ((number, moved),) = cursor.fetchall()
        cursor.execute(f"UPDATE {table} SET b = 'w' WHERE _rowid = '{moved}'")
        assert (number, cursor.rowcount) == (20, 1)
        cursor.execute("COMMIT")
    assert sorted(server.rows(f"SELECT id, b FROM {table}")) == [(4, "z"), (20, "w")]
    assert "[conflict]" in server.refuses(f"DELETE FROM {table} WHERE _rowid = '{named[1]}'")


def test_names_of_a_transaction_that_was_rolled_back_hit_no_row(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    server.run(f"INSERT INTO {table} VALUES (1, 'x')")
    with (
        closing(dbapi.connect(server.uri, db_kwargs=COOKIES, autocommit=True)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {table} VALUES (2, 'x')")
        cursor.execute(f"SELECT _rowid FROM {table} WHERE id = 2")
        ((name,),) = cursor.fetchall()
        cursor.execute("ROLLBACK")
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {table} VALUES (5, 'x')")
        with pytest.raises(Error, match="conflict"):
            cursor.execute(f"DELETE FROM {table} WHERE _rowid = '{name}'")
        cursor.execute("ROLLBACK")
    assert "[conflict]" in server.refuses(f"DELETE FROM {table} WHERE _rowid = '{name}'")
    server.run(f"INSERT INTO {table} VALUES (3, 'x')")
    assert "[conflict]" in server.refuses(f"DELETE FROM {table} WHERE _rowid = '{name}'")
    assert sorted(server.rows(f"SELECT id FROM {table}")) == [(1,), (3,)]


def test_several_rows_are_changed_by_their_names_at_once(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    server.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'x'), (3, 'y')")
    named = names(server, table)
    with server.connection.cursor() as cursor:
        cursor.executemany(f"DELETE FROM {table} WHERE _rowid = ?", [(named[1],), (named[2],)])
    assert server.rows(f"SELECT id FROM {table}") == [(3,)]


def test_a_table_that_is_not_there_is_named(server: Server, filled: str) -> None:
    for sql in ("SELECT _rowid, * FROM no_table", f"SELECT a._rowid, * FROM {filled} a, no_table"):
        message = server.refuses(sql)
        assert "[not_found]" in message
        assert "no_table" in message


@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_a_column_of_the_name_wins(server: Server, table: str, partitioned_by: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, _partition VARCHAR){partitioned_by}")
    server.run(f"INSERT INTO {table} VALUES (1, 'mine'), (2, 'yours')")
    assert sorted(server.rows(f"SELECT * FROM {table}")) == [(1, "mine"), (2, "yours")]
    assert server.rows(f"SELECT * FROM {table} WHERE _partition = 'mine' AND _rowid <> ''") == [(1, "mine")]
    assert server.run(f"UPDATE {table} SET _partition = 'ours' WHERE _partition = 'yours'") == 1
    assert sorted(server.rows(f"SELECT id, _partition FROM {table}")) == [(1, "mine"), (2, "ours")]


def test_names_that_say_nothing_match_nothing(server: Server, filled: str) -> None:
    for name in ("", "#", "seven", "v1$none$dataset#0", "x" * 10_000, "@1.0#" + "9" * 30):
        assert server.rows(f"SELECT id FROM {filled} WHERE _rowid = ?", [name]) == []
        assert server.run(f"DELETE FROM {filled} WHERE _rowid = ?", [name]) == 0
    assert sorted(server.rows(f"SELECT * FROM {filled}")) == ROWS


def test_queries_around_them(server: Server, filled: str) -> None:
    assert server.value(f"SELECT count(DISTINCT _rowid) FROM {filled}") == len(ROWS)
    assert server.rows(
        f"SELECT id FROM (SELECT id, _rowid AS name FROM {filled}) q WHERE name > '' ORDER BY 1 LIMIT 2"
    ) == [
        (1,),
        (2,),
    ]
    assert server.query(f"SELECT * FROM (SELECT *, _rowid FROM {filled}) q").column_names == ["id", "b", "_rowid"]
    window = f"SELECT id, row_number() OVER (PARTITION BY _partition ORDER BY id) AS n FROM {filled} ORDER BY id"
    assert [row[0] for row in server.rows(window)] == [1, 2, 3]
    assert server.run(f"CREATE TABLE {filled}_copy AS SELECT *, _partition FROM {filled}") == len(ROWS)
    assert server.query(f"SELECT * FROM {filled}_copy").column_names == ["id", "b", "_partition"]
    assert server.run(f"INSERT INTO {filled} SELECT * FROM {filled} WHERE _rowid > ''") == len(ROWS)
    assert "[not_found]" in server.refuses(f"UPDATE {filled} SET _rowid = 'x'")


FORMS = [
    pytest.param("_partition IS NOT DISTINCT FROM '{p}'", id="IS NOT DISTINCT FROM"),
    pytest.param("NOT (_partition <> '{p}')", id="NOT"),
    pytest.param("_partition BETWEEN '{p}' AND '{p}'", id="BETWEEN"),
    pytest.param("_partition || '' = '{p}'", id="an expression"),
    pytest.param("upper(_partition) = upper('{p}')", id="a function"),
    pytest.param("CASE WHEN _partition = '{p}' THEN true END", id="CASE"),
    pytest.param("_partition IN (SELECT _partition FROM {t} WHERE id = 3)", id="IN a query"),
    pytest.param("_partition = (SELECT max(_partition) FROM {t} WHERE id = 3)", id="a scalar query"),
    pytest.param("EXISTS (SELECT 1 FROM {t} o WHERE o._partition = {t}._partition AND o.id = 3)", id="EXISTS"),
    pytest.param("_rowid IS NOT DISTINCT FROM '{r}'", id="a row, IS NOT DISTINCT FROM"),
    pytest.param("_rowid LIKE '{p}%'", id="a row, LIKE"),
    pytest.param("_rowid = '{r}' OR _rowid = 'none' OR (_rowid = '{r}' AND id = 3)", id="a row, OR"),
    pytest.param("_rowid IN (SELECT _rowid FROM {t} WHERE id = 3)", id="a row, IN a query"),
    pytest.param("coalesce(_rowid, '') = '{r}'", id="a row, coalesce"),
]


@pytest.mark.parametrize("form", FORMS)
def test_conditions_of_every_form(server: Server, table: str, form: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    server.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'x'), (3, 'y')")
    ((partition, row),) = server.rows(f"SELECT _partition, _rowid FROM {table} WHERE id = 3")
    condition = form.format(p=partition, r=row, t=table)
    assert server.rows(f"SELECT * FROM {table} WHERE {condition}") == [(3, "y")]
    assert server.run(f"UPDATE {table} SET id = 30 WHERE {condition}") == 1
    assert sorted(server.rows(f"SELECT id FROM {table}")) == [(1,), (2,), (30,)]


def test_many_partitions_are_read_together(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id INT, b INT, c VARCHAR) PARTITIONED BY (b)")
    values = ", ".join(f"({number}, {number % 60}, 'v')" for number in range(180))
    server.run(f"INSERT INTO {table} VALUES {values}")
    server.run(f"DELETE FROM {table} WHERE id = 7 OR id = 70")
    server.run(f"INSERT INTO {table} VALUES (180, 0, 'new'), (181, 61, 'new')")
    server.run(f"CREATE INDEX ON {table} (id)")
    listed = dict(server.rows(f"SELECT b, object_id FROM {table}$partitions"))
    rows = server.rows(f"SELECT id, b, _partition, _rowid FROM {table}")
    assert len(rows) == 180
    assert len({name for *_, name in rows}) == 180
    for number, b, partition, name in rows:
        assert partition == listed[b], number
        assert name.startswith(partition), number
    assert sorted(server.rows(f"SELECT id, _partition FROM {table}")) == sorted((row[0], row[2]) for row in rows)
    either = f"_partition = '{listed[0]}' OR id = 181 OR (c = 'v' AND _partition = '{listed[7]}')"
    expected = sorted(row[0] for row in rows if row[1] in (0, 7) or row[0] == 181)
    assert sorted(row[0] for row in server.rows(f"SELECT id FROM {table} WHERE {either}")) == expected
    server.run(f"ALTER TABLE {table} ADD COLUMN d INT")
    assert dict(server.rows(f"SELECT b, min(_partition) FROM {table} WHERE d IS NULL GROUP BY b")) == listed
