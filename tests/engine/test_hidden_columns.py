"""`_partition` and `_rowid`, the hidden columns of tables: wildcards leave them out, and they name partitions and rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.engine.translation.hidden_columns import MOST_WILDCARDS, hidden_columns_in, with_visible_columns
from lance_flight.errors import LimitExceeded, Unsupported

from tests.engine.database import Client, Database
from tests.stock import stored_rows

HIDDEN = {
    (None, "t"): ["_rowid"],
    ("s", "t"): ["_rowid"],
    (None, "u"): ["_partition", "_rowid"],
    (None, "T x"): ["_rowid"],
}
HIDDEN |= {(None, f"t@{at}"): ["_rowid"] for at in ("5", "old")}


def revealed(db_schema: str | None, table: str) -> list[str]:
    return HIDDEN.get((db_schema, table), [])


WRITTEN = {
    "SELECT * FROM t": 'SELECT * EXCLUDE ("_rowid") FROM t',
    "SELECT _rowid, * FROM T AS x WHERE a * 2 > 1": 'SELECT _rowid, * EXCLUDE ("_rowid") FROM T AS x WHERE a * 2 > 1',
    "SELECT DISTINCT * FROM lance.s.t x": 'SELECT DISTINCT * EXCLUDE ("_rowid") FROM lance.s.t x',
    "SELECT DISTINCT ON (a) * FROM t": 'SELECT DISTINCT ON (a) * EXCLUDE ("_rowid") FROM t',
    'SELECT * FROM "T x"': 'SELECT * EXCLUDE ("_rowid") FROM "T x"',
    "SELECT count(*), (a) * b FROM t": None,
    "SELECT * FROM other": None,
    "SELECT * FROM (SELECT *, _rowid FROM t) q": 'SELECT * FROM (SELECT * EXCLUDE ("_rowid"), _rowid FROM t) q',
    "SELECT * FROM (SELECT 1) q, t": 'SELECT q.*, t.* EXCLUDE ("_rowid") FROM (SELECT 1) q, t',
    "SELECT * FROM t a JOIN u AS b ON a.x = b.x": (
        'SELECT a.* EXCLUDE ("_rowid"), b.* EXCLUDE ("_partition", "_rowid") FROM t a JOIN u AS b ON a.x = b.x'
    ),
    "SELECT * FROM ((t JOIN other o ON true) JOIN u ON true)": (
        'SELECT t.* EXCLUDE ("_rowid"), o.*, u.* EXCLUDE ("_partition", "_rowid")'
        " FROM ((t JOIN other o ON true) JOIN u ON true)"
    ),
    "SELECT b.*, other.* FROM t b JOIN other USING (id)": (
        'SELECT b.* EXCLUDE ("_rowid"), other.* FROM t b JOIN other USING (id)'
    ),
    "SELECT * EXCLUDE (a) FROM t": 'SELECT * EXCLUDE ("_rowid", a) FROM t',
    "SELECT * EXCLUDE a FROM t": 'SELECT * EXCLUDE ("_rowid", a) FROM t',
    "SELECT * REPLACE (a + 1 AS a) FROM t": 'SELECT * EXCLUDE ("_rowid") REPLACE (a + 1 AS a) FROM t',
    "WITH t AS (SELECT * FROM t) SELECT * FROM t": 'WITH t AS (SELECT * EXCLUDE ("_rowid") FROM t) SELECT * FROM t',
    "SELECT * FROM t UNION ALL SELECT * FROM other": (
        'SELECT * EXCLUDE ("_rowid") FROM t UNION ALL SELECT * FROM other'
    ),
    "SELECT * FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a)": (
        'SELECT * EXCLUDE ("_rowid") FROM t WHERE EXISTS (SELECT * EXCLUDE ("_partition", "_rowid") FROM u WHERE u.a = t.a)'
    ),
    "SELECT extract(year FROM d), * FROM t": 'SELECT extract(year FROM d), * EXCLUDE ("_rowid") FROM t',
    "SELECT a IS DISTINCT FROM b, * FROM t": 'SELECT a IS DISTINCT FROM b, * EXCLUDE ("_rowid") FROM t',
    "SELECT * FROM t |> WHERE a > 1": 'SELECT * EXCLUDE ("_rowid") FROM t |> WHERE a > 1',
    "SELECT TOP 5 * FROM t": 'SELECT TOP 5 * EXCLUDE ("_rowid") FROM t',
    "SELECT TOP (5) * FROM t": 'SELECT TOP (5) * EXCLUDE ("_rowid") FROM t',
    "SELECT * FROM t FOR VERSION AS OF 5 AS x, other": (
        'SELECT x.* EXCLUDE ("_rowid"), other.* FROM t FOR VERSION AS OF 5 AS x, other'
    ),
    "SELECT * FROM t x FOR TAG old JOIN t VERSION AS OF 5 ON true": (
        'SELECT x.* EXCLUDE ("_rowid"), t.* EXCLUDE ("_rowid") FROM t x FOR TAG old JOIN t VERSION AS OF 5 ON true'
    ),
    "SELECT * FROM generate_series(1, 2) g, t": ('SELECT g.*, t.* EXCLUDE ("_rowid") FROM generate_series(1, 2) g, t'),
}


@pytest.mark.parametrize(("sql", "written"), WRITTEN.items(), ids=WRITTEN)
def test_a_wildcard_leaves_hidden_columns_out(sql: str, written: str | None) -> None:
    assert with_visible_columns(sql, revealed) == (sql if written is None else written)


REFUSED = [
    pytest.param("SELECT * FROM t JOIN u USING (id)", "USING", id="USING"),
    pytest.param("SELECT t.a FROM t NATURAL JOIN other", "NATURAL", id="NATURAL"),
    pytest.param("SELECT * FROM t, (SELECT 1)", "alias", id="a query without an alias"),
    pytest.param("SELECT * EXCLUDE (a) FROM t, u", "EXCLUDE", id="EXCLUDE over two tables"),
    pytest.param("FROM t", "write SELECT", id="FROM alone"),
    pytest.param("SELECT 1 UNION ALL FROM t", "write SELECT", id="FROM alone in a set"),
]


@pytest.mark.parametrize(("sql", "says"), REFUSED)
def test_what_cannot_be_written_out_is_refused(sql: str, says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        with_visible_columns(sql, revealed)


def test_wildcards_are_bounded() -> None:
    tables = ", ".join(f"t AS t{number}" for number in range(200))
    with pytest.raises(LimitExceeded, match=str(MOST_WILDCARDS)):
        with_visible_columns(f"SELECT {', '.join(['*'] * 100)} FROM {tables}", revealed)


def test_brackets_of_any_depth_are_read() -> None:
    depth = 20_000
    joined = f"SELECT * FROM {'(' * depth}t{')' * depth}"
    assert with_visible_columns(joined, revealed) == joined.replace("*", '* EXCLUDE ("_rowid")')


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT _ROWID FROM t", {"_rowid"}),
        ('SELECT "_partition", _rowid FROM t', {"_partition", "_rowid"}),
        ("SELECT my_rowid, _rowids, x_partition FROM t", set()),
        ("SELECT * FROM t", set()),
        ("SELECT * FROM t WHERE a LIKE '%_rowid%' -- _partition", set()),
    ],
)
def test_a_text_names_hidden_columns(sql: str, named: set[str]) -> None:
    assert hidden_columns_in(sql) == named


KINDS = {
    "plain": "",
    "partitioned": " PARTITIONED BY (b)",
    "stable": " PARTITIONED BY (b) WITH (stable_row_ids = true)",
}
ROWS = [(1, "x"), (2, "x"), (3, "y")]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def templates(database: Database) -> dict[str, Path]:
    """A table of each kind with three rows, in two partitions if it has such."""
    for kind, layout in KINDS.items():
        database.run(f"CREATE TABLE {kind} (id INT, b VARCHAR){layout}")
        database.run(f"INSERT INTO {kind} VALUES (1, 'x'), (2, 'x'), (3, 'y')")
    return {place.stem: place for place in database.root.iterdir() if place.stem in KINDS}


@pytest.fixture
def filled(templates: dict[str, Path], table: str, kind: str) -> str:
    """A copy of the table of a kind."""
    shutil.copytree(templates[kind], templates[kind].with_stem(table))
    return table


@pytest.fixture
def partitioned(templates: dict[str, Path], database: Database, table: str) -> str:
    """A copy of the partitioned one."""
    return database.copy("partitioned", table)


def names(database: Database, table: str) -> dict[int, str]:
    """The name of each row, by its id."""
    return dict(database.rows(f"SELECT id, _rowid FROM {table}"))


def test_nothing_shows_them_but_their_names(database: Database, filled: str) -> None:
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
        table = database.query(query)
        assert table.column_names == ["id", "b"], query
        assert [tuple(row.values()) for row in table.to_pylist()] == ROWS, query
    assert database.query(f"SELECT * FROM {filled} a, {filled} b WHERE a._rowid = b._rowid").column_names == [
        "id",
        "b",
        "id",
        "b",
    ]
    assert [row[0] for row in database.rows(f"DESCRIBE {filled}")] == ["id", "b"]


def test_a_partition_is_called_as_everywhere(database: Database, filled: str, kind: str) -> None:
    shown = dict(database.rows(f"SELECT id, _partition FROM {filled}"))
    ((oldest, newest),) = database.rows(f"SELECT min(version), max(version) FROM {filled}$snapshots")
    changes = dict(database.rows(f"SELECT id, _partition FROM table_changes('{filled}', {oldest}, {newest})"))
    if kind == "plain":
        assert set(shown.values()) == {None}
        return
    assert shown == changes
    listed = dict(database.rows(f"SELECT b, object_id FROM {filled}$partitions"))
    assert shown == {number: listed[b] for number, b in ROWS}
    counted = database.rows(f"SELECT _partition, count(*), min(id) FROM {filled} GROUP BY _partition ORDER BY 3")
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
        assert database.value(f"SELECT count(*) FROM {filled} WHERE {condition}") == rows, condition


def test_a_partition_prunes(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    database.run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    named = database.value(f"SELECT _partition FROM {table} WHERE id = 2")
    row = database.value(f"SELECT _rowid FROM {table} WHERE id = 3")
    for condition in (f"_partition = '{named}'", f"_rowid = '{row}'", f"_rowid IN ('{row}', 'no name')"):
        plans = dict(database.rows(f"EXPLAIN SELECT * FROM {table} WHERE {condition}"))
        assert "partitions: 1 / 3" in plans["partitions"], condition


def test_a_row_has_a_name_of_its_own(database: Database, filled: str) -> None:
    named = names(database, filled)
    assert len(set(named.values())) == len(ROWS)
    for number, name in named.items():
        assert database.rows(f"SELECT id FROM {filled} WHERE _rowid = ?", [name]) == [(number,)]
        assert database.rows(f"SELECT id FROM {filled} WHERE {filled}._rowid = '{name}' AND id > 0") == [(number,)]
    assert names(database, filled) == named
    assert database.rows(f"SELECT id FROM {filled} ORDER BY _rowid") == [
        (number,) for number in sorted(named, key=lambda each: named[each])
    ]


def test_a_row_is_changed_by_its_name_and_no_other(database: Database, filled: str, kind: str) -> None:
    assert database.run(f"DELETE FROM {filled} WHERE _rowid = '{names(database, filled)[2]}'") == 1
    assert database.run(f"UPDATE {filled} SET id = 10 WHERE _rowid = ?", [names(database, filled)[1]]) == 1
    source = f"(SELECT _rowid AS name FROM {filled} WHERE id = 3) s"
    assert (
        database.run(f"MERGE INTO {filled} USING {source} ON _rowid = name WHEN MATCHED THEN UPDATE SET id = 30") == 1
    )
    assert sorted(database.rows(f"SELECT * FROM {filled}")) == [(10, "x"), (30, "y")]
    if kind != "plain":
        stored = stored_rows(database.root / filled).select(["id"]).to_pylist()
        assert sorted(row["id"] for row in stored) == [10, 30]


def test_a_name_holds_for_its_version_or_for_ever(database: Database, filled: str, kind: str) -> None:
    named = names(database, filled)
    version = database.value(f"SELECT max(version) FROM {filled}$snapshots")
    database.run(f"UPDATE {filled} SET id = 20 WHERE id = 2")
    for change in (
        f"DELETE FROM {filled} WHERE _rowid = '{{}}'",
        f"UPDATE {filled} SET id = 0 WHERE _rowid IN ('{{}}')",
    ):
        if kind == "stable":
            break
        message = database.refuses(change.format(named[1]))
        assert "[conflict]" in message
        assert "read it again" in message
    old = f"SELECT id FROM {filled} FOR VERSION AS OF {version} WHERE _rowid = '{named[1]}'"
    assert database.rows(old) == [(1,)]
    assert sorted(database.rows(f"SELECT id FROM {filled}")) == [(1,), (3,), (20,)]
    if kind != "plain":
        # another partition was not changed
        assert database.run(f"DELETE FROM {filled} WHERE _rowid = '{named[3]}'") == 1


def test_a_transaction_keeps_the_names_that_it_has_read(database: Database, client: Client, partitioned: str) -> None:
    client.run("BEGIN")
    named = names(client, partitioned)
    database.run(f"INSERT INTO {partitioned} VALUES (4, 'z')")
    assert client.run(f"DELETE FROM {partitioned} WHERE _rowid IN ('{named[1]}', '{named[3]}')") == 2
    assert client.run(f"UPDATE {partitioned} SET id = 20 WHERE _rowid = ?", [named[2]]) == 1
    for gone in named.values():
        assert client.run(f"DELETE FROM {partitioned} WHERE _rowid = '{gone}'") == 0
    ((number, moved),) = names(client, partitioned).items()
    assert (number, client.run(f"UPDATE {partitioned} SET b = 'w' WHERE _rowid = '{moved}'")) == (20, 1)
    client.run("COMMIT")
    assert sorted(database.rows(f"SELECT id, b FROM {partitioned}")) == [(4, "z"), (20, "w")]
    assert "[conflict]" in database.refuses(f"DELETE FROM {partitioned} WHERE _rowid = '{named[1]}'")


def test_names_of_a_transaction_that_was_rolled_back_hit_no_row(database: Database, client: Client, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, b VARCHAR) PARTITIONED BY (b)")
    database.run(f"INSERT INTO {table} VALUES (1, 'x')")
    client.run("BEGIN")
    client.run(f"INSERT INTO {table} VALUES (2, 'x')")
    name = client.value(f"SELECT _rowid FROM {table} WHERE id = 2")
    client.run("ROLLBACK")
    client.run("BEGIN")
    client.run(f"INSERT INTO {table} VALUES (5, 'x')")
    assert "[conflict]" in client.refuses(f"DELETE FROM {table} WHERE _rowid = '{name}'")
    client.run("ROLLBACK")
    assert "[conflict]" in database.refuses(f"DELETE FROM {table} WHERE _rowid = '{name}'")
    database.run(f"INSERT INTO {table} VALUES (3, 'x')")
    assert "[conflict]" in database.refuses(f"DELETE FROM {table} WHERE _rowid = '{name}'")
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (3,)]


def test_several_rows_are_changed_by_their_names_at_once(database: Database, partitioned: str) -> None:
    named = names(database, partitioned)
    database.run(f"DELETE FROM {partitioned} WHERE _rowid = ?", pa.record_batch({"0": [named[1], named[2]]}))
    assert database.rows(f"SELECT id FROM {partitioned}") == [(3,)]


def test_a_table_that_is_not_there_is_named(database: Database, filled: str) -> None:
    for sql in ("SELECT _rowid, * FROM no_table", f"SELECT a._rowid, * FROM {filled} a, no_table"):
        message = database.refuses(sql)
        assert "[not_found]" in message
        assert "no_table" in message


@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_a_column_of_the_name_wins(database: Database, table: str, partitioned_by: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, _partition VARCHAR){partitioned_by}")
    database.run(f"INSERT INTO {table} VALUES (1, 'mine'), (2, 'yours')")
    assert sorted(database.rows(f"SELECT * FROM {table}")) == [(1, "mine"), (2, "yours")]
    assert database.rows(f"SELECT * FROM {table} WHERE _partition = 'mine' AND _rowid <> ''") == [(1, "mine")]
    assert database.run(f"UPDATE {table} SET _partition = 'ours' WHERE _partition = 'yours'") == 1
    assert sorted(database.rows(f"SELECT id, _partition FROM {table}")) == [(1, "mine"), (2, "ours")]


def test_names_that_say_nothing_match_nothing(database: Database, filled: str) -> None:
    for name in ("", "#", "seven", "v1$none$dataset#0", "x" * 10_000, "@1.0#" + "9" * 30):
        assert database.rows(f"SELECT id FROM {filled} WHERE _rowid = ?", [name]) == []
        assert database.run(f"DELETE FROM {filled} WHERE _rowid = ?", [name]) == 0
    assert sorted(database.rows(f"SELECT * FROM {filled}")) == ROWS


def test_queries_around_them(database: Database, filled: str) -> None:
    assert database.value(f"SELECT count(DISTINCT _rowid) FROM {filled}") == len(ROWS)
    assert database.rows(
        f"SELECT id FROM (SELECT id, _rowid AS name FROM {filled}) q WHERE name > '' ORDER BY 1 LIMIT 2"
    ) == [
        (1,),
        (2,),
    ]
    assert database.query(f"SELECT * FROM (SELECT *, _rowid FROM {filled}) q").column_names == ["id", "b", "_rowid"]
    window = f"SELECT id, row_number() OVER (PARTITION BY _partition ORDER BY id) AS n FROM {filled} ORDER BY id"
    assert [row[0] for row in database.rows(window)] == [1, 2, 3]
    assert database.run(f"CREATE TABLE {filled}_copy AS SELECT *, _partition FROM {filled}") == len(ROWS)
    assert database.query(f"SELECT * FROM {filled}_copy").column_names == ["id", "b", "_partition"]
    assert database.run(f"INSERT INTO {filled} SELECT * FROM {filled} WHERE _rowid > ''") == len(ROWS)
    assert "[not_found]" in database.refuses(f"UPDATE {filled} SET _rowid = 'x'")


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
def test_conditions_of_every_form(database: Database, partitioned: str, form: str) -> None:
    ((partition, row),) = database.rows(f"SELECT _partition, _rowid FROM {partitioned} WHERE id = 3")
    condition = form.format(p=partition, r=row, t=partitioned)
    assert database.rows(f"SELECT * FROM {partitioned} WHERE {condition}") == [(3, "y")]
    assert database.run(f"UPDATE {partitioned} SET id = 30 WHERE {condition}") == 1
    assert sorted(database.rows(f"SELECT id FROM {partitioned}")) == [(1,), (2,), (30,)]


def test_many_partitions_are_read_together(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, b INT, c VARCHAR) PARTITIONED BY (b)")
    values = ", ".join(f"({number}, {number % 60}, 'v')" for number in range(180))
    database.run(f"INSERT INTO {table} VALUES {values}")
    database.run(f"DELETE FROM {table} WHERE id = 7 OR id = 70")
    database.run(f"INSERT INTO {table} VALUES (180, 0, 'new'), (181, 61, 'new')")
    database.run(f"CREATE INDEX ON {table} (id)")
    listed = dict(database.rows(f"SELECT b, object_id FROM {table}$partitions"))
    rows = database.rows(f"SELECT id, b, _partition, _rowid FROM {table}")
    assert len(rows) == 180
    assert len({name for *_, name in rows}) == 180
    for number, b, partition, name in rows:
        assert partition == listed[b], number
        assert name.startswith(partition), number
    assert sorted(database.rows(f"SELECT id, _partition FROM {table}")) == sorted((row[0], row[2]) for row in rows)
    either = f"_partition = '{listed[0]}' OR id = 181 OR (c = 'v' AND _partition = '{listed[7]}')"
    expected = sorted(row[0] for row in rows if row[1] in (0, 7) or row[0] == 181)
    assert sorted(row[0] for row in database.rows(f"SELECT id FROM {table} WHERE {either}")) == expected
    database.run(f"ALTER TABLE {table} ADD COLUMN d INT")
    assert dict(database.rows(f"SELECT b, min(_partition) FROM {table} WHERE d IS NULL GROUP BY b")) == listed
