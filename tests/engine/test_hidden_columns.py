"""Wildcards over tables with hidden columns, written out without them; names of rows as texts."""

from __future__ import annotations

import pytest
from lance_flight.engine.sql.hidden_columns import MOST_WILDCARDS, hidden_columns_in, with_visible_columns
from lance_flight.errors import LimitExceeded, Unsupported

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
