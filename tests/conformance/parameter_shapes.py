"""Shapes of statements with parameters, times the types that are bound: what the drivers run, and what comes of it.

As of a slow test with three tables of values, each pair of a driver, a shape and a type is taken once, and in a full run all of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any

import pyarrow as pa

from tests.selection import IS_FULL, covering

PYTHON, GO, JDBC = "by_python", "by_go", "by_jdbc"
"""The drivers, by the tables that each of them has for itself."""

SETUP = (
    (
        "CREATE TABLE {t} (name VARCHAR, n INT, id BIGINT, x DOUBLE, word VARCHAR, price DECIMAL(9, 2), day DATE, at TIMESTAMP,"
        " ok BOOLEAN) PARTITIONED BY (bucket(2, name))"
    ),
    (
        "INSERT INTO {t} VALUES ('a', 7, 70, 1.5, 'seven', 12.50, '2024-02-29', '2024-02-29T01:02:03', true), ('b', NULL, NULL,"
        " NULL, NULL, NULL, NULL, NULL, NULL)"
    ),
)
TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.utf8(),
    "decimal": pa.decimal128(9, 2),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
"""Arrow types that ADBC binds, by the setter of JDBC for the same values."""
OBJECT = "object:"
"""Prefix of a setter for a value that JDBC binds by `setObject`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A value as drivers bind it: by which setter, its text for the programs, and the value in Python."""

    setter: str
    text: str
    value: Any

    @property
    def type(self) -> pa.DataType:
        """The type that ADBC binds it by."""
        return TYPES[self.setter.removeprefix(OBJECT)]

    @property
    def sent(self) -> str:
        """The setter and the text, as the programs read them."""
        return f"{self.setter}={self.text}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: its column in the table, how SQL calls it, and the value of the row `a`."""

    column: str
    sql: str
    bound: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One statement with its bound values, and what a driver answers: rows as `[a][b]`, the number of changed rows, or `! …` with a part
    of the error."""

    name: str
    sql: str
    bound: Sequence[Bound]
    answer: str
    by_jdbc: str | None = None
    """The answer of the JDBC driver, where it is another one."""


KINDS = (
    Kind("n", "INT", Bound("int", "7", 7)),
    Kind("id", "BIGINT", Bound("long", "70", 70)),
    Kind("x", "DOUBLE", Bound("double", "1.5", 1.5)),
    Kind("word", "VARCHAR", Bound("string", "seven", "seven")),
    Kind("price", "DECIMAL(9, 2)", Bound("decimal", "12.50", Decimal("12.50"))),
    Kind("day", "DATE", Bound("date", "2024-02-29", dt.date(2024, 2, 29))),
    Kind("at", "TIMESTAMP", Bound("timestamp", "2024-02-29 01:02:03", dt.datetime(2024, 2, 29, 1, 2, 3))),
    Kind("ok", "BOOLEAN", Bound("boolean", "true", value=True)),
)
NULL = Bound("null", "", None)

_A = "(SELECT {c} FROM {t} WHERE name = 'a')"
QUERIES = {
    "comparison": ("SELECT name FROM {t} WHERE {c} = ?", "[a]"),
    "comparison, flipped": ("SELECT name FROM {t} WHERE ? <= {c}", "[a]"),
    "distinct from": ("SELECT name FROM {t} WHERE {c} IS DISTINCT FROM ?", "[b]"),
    "in": ("SELECT name FROM {t} WHERE {c} IN (?, ?)", "[a]"),
    "not in": ("SELECT name FROM {t} WHERE {c} NOT IN (?, ?)", ""),
    "between": ("SELECT name FROM {t} WHERE {c} BETWEEN ? AND ?", "[a]"),
    "cast": ("SELECT name FROM {t} WHERE {c} = CAST(? AS {type})", "[a]"),
    "double colon": ("SELECT name FROM {t} WHERE {c} = ?::{type}", "[a]"),
    "coalesce": (f"SELECT name FROM {{t}} WHERE name = 'b' AND coalesce({{c}}, ?) = {_A}", "[b]"),
    "case": (f"SELECT name FROM {{t}} WHERE CASE name WHEN 'b' THEN ? ELSE {{c}} END = {_A} ORDER BY name", "[a][b]"),
    "case, operand": ("SELECT name FROM {t} WHERE CASE {c} WHEN ? THEN 1 END = 1", "[a]"),
    "nullif": ("SELECT name FROM {t} WHERE nullif({c}, ?) IS NULL ORDER BY name", "[a][b]"),
    "greatest": ("SELECT name FROM {t} WHERE greatest({c}, ?) = {c}", "[a]"),
    "subquery": ("SELECT name FROM {t} WHERE name = (SELECT max(name) FROM {t} WHERE {c} = ?)", "[a]"),
    "exists": ("SELECT name FROM {t} o WHERE EXISTS (SELECT 1 FROM {t} i WHERE i.name = o.name AND i.{c} = ?)", "[a]"),
    "join": ("SELECT p.name FROM {t} p JOIN {t} q ON p.name = q.name AND q.{c} = ?", "[a]"),
    "with": ("WITH w AS (SELECT name FROM {t} WHERE {c} = ?) SELECT name FROM w", "[a]"),
    "having": ("SELECT name FROM {t} GROUP BY name HAVING min({c}) = ?", "[a]"),
    "filter of an aggregate": ("SELECT max(name) FILTER (WHERE {c} = ?) AS name FROM {t}", "[a]"),
    "union": ("SELECT CAST(count(*) AS VARCHAR) FROM (SELECT {c} FROM {t} UNION SELECT ?)", "[2]"),
    "values": (
        "SELECT name FROM {t} WHERE {c} IN (SELECT v FROM (VALUES (?), (CAST(NULL AS {type}))) AS s (v))",
        "[a]",
    ),
}
"""Queries by shape, in which every parameter is the value of a type, with their answers. The table has the rows `a` and `b` alone."""

CHANGES = {
    "insert": ("INSERT INTO {t} (name, {c}) VALUES ('{row}', ?)",),
    "insert, beside NULL": ("INSERT INTO {t} ({c}, name, {other}) VALUES (?, '{row}', NULL)",),
    "insert, beside rows": ("INSERT INTO {t} (name, {c}) VALUES ('{row}', ?), ('{row} too', NULL)",),
    "insert of a query": ("INSERT INTO {t} (name, {c}) SELECT '{row}', ?",),
    "insert of a case": ("INSERT INTO {t} (name, {c}) VALUES ('{row}', CASE WHEN 1 = 1 THEN ? END)",),
    "update": ("INSERT INTO {t} (name) VALUES ('{row}')", "UPDATE {t} SET {c} = ? WHERE name = '{row}'"),
    "update by coalesce": (
        "INSERT INTO {t} (name) VALUES ('{row}')",
        "UPDATE {t} SET {c} = coalesce({c}, ?) WHERE name = '{row}'",
    ),
    "merge, source": (
        (
            "MERGE INTO {t} AS t USING (SELECT '{row}' AS name, ? AS v) AS s ON t.name = s.name"
            " WHEN NOT MATCHED THEN INSERT (name, {c}) VALUES (s.name, s.v)"
        ),
    ),
    "merge, insert": (
        (
            "MERGE INTO {t} AS t USING (SELECT '{row}' AS name) AS s ON t.name = s.name"
            " WHEN NOT MATCHED THEN INSERT (name, {c}) VALUES (s.name, ?)"
        ),
    ),
    "merge, update": (
        "INSERT INTO {t} (name) VALUES ('{row}')",
        "MERGE INTO {t} AS t USING (SELECT '{row}' AS name) AS s ON t.name = s.name WHEN MATCHED THEN UPDATE SET {c} = ?",
    ),
}
"""Changes by shape, each of which leaves one row `{row}` with the bound value in its column."""

REMOVALS = {
    "delete": "DELETE FROM {t} WHERE name = '{row}' AND {c} = ?",
    "merge, delete": (
        "MERGE INTO {t} AS t USING (SELECT '{row}' AS name) AS s ON t.name = s.name WHEN MATCHED AND t.{c} = ? THEN DELETE"
    ),
}
"""Changes that remove the row `{row}`, which the statement before them has made with the bound value."""


def _whole(number: int) -> Bound:
    return Bound("long", str(number), number)


def _text(text: str) -> Bound:
    return Bound("string", text, text)


def _unsupported(setter: str, expected: str) -> str:
    return f"! java.sql.SQLException: Binding value of type {setter} is not yet supported for expected Arrow type {expected}"


OTHER_SETTERS: Sequence[tuple[str, Bound, Any, str | None]] = (
    ("id", Bound("int", "70", 70), 70, None),
    ("n", Bound("long", "7", 7), 7, None),
    ("x", Bound("int", "3", 3), 3.0, None),
    ("x", Bound("long", "3", 3), 3.0, None),
    ("n", Bound("double", "7.0", 7.0), 7, None),
    ("price", Bound("double", "12.5", 12.5), Decimal("12.50"), _unsupported("DOUBLE", "Decimal(9, 2, 128)")),
    ("price", Bound("long", "12", 12), Decimal("12.00"), _unsupported("LONG", "Decimal(9, 2, 128)")),
    ("price", Bound("decimal", "12.5", Decimal("12.5")), Decimal("12.50"), "! java.sql.SQLException: BigDecimal scale"),
    ("id", Bound("string", "70", "70"), 70, _unsupported("STRING", "Int(64, true)")),
    ("word", Bound("long", "7", 7), "7", _unsupported("LONG", "Utf8")),
    ("day", Bound("string", "2024-02-29", "2024-02-29"), dt.date(2024, 2, 29), _unsupported("STRING", "Date(DAY)")),
    ("at", _text("2024-02-29 01:02:03"), dt.datetime(2024, 2, 29, 1, 2, 3), _unsupported("STRING", "Timestamp")),
    ("at", KINDS[5].bound, dt.datetime(2024, 2, 29), _unsupported("JAVA_SQL_DATE", "Timestamp")),
    ("ok", _text("true"), True, _unsupported("STRING", "Bool")),
    ("ok", _whole(1), True, _unsupported("LONG", "Bool")),
    *((kind.column, replace(kind.bound, setter=OBJECT + kind.bound.setter), kind.bound.value, None) for kind in KINDS),
)
"""Setters of other types than the columns': what is stored by ADBC, and how the JDBC driver refuses the value by itself.

That driver takes whatever number for an integer, and cuts 7.5 to 7 before it sends it; and a BigDecimal of the column's scale alone.
"""

REFUSED = (
    ("n", Bound("double", "7.5", 7.5), "! column 'n' holds DOUBLE values that do not fit INTEGER", "1"),
    (
        "id",
        _text("many"),
        "! parameter $1 is 'many' (VARCHAR); expected BIGINT",
        _unsupported("STRING", "Int(64, true)"),
    ),
    ("ok", _whole(7), "! parameter $1 is 7 (BIGINT); expected BOOLEAN", _unsupported("LONG", "Bool")),
    ("day", _whole(7), "! parameter $1 is 7 (BIGINT); expected DATE", _unsupported("LONG", "Date(DAY)")),
)
"""Values that are not stored in their columns, how the service refuses them, and what JDBC answers."""

FIXED = (
    ("limit", "SELECT name FROM {t} ORDER BY name LIMIT ?", (_whole(1),), "[a]"),
    ("offset", "SELECT name FROM {t} ORDER BY name LIMIT ? OFFSET ?", (_whole(1), _whole(1)), "[b]"),
    ("like", "SELECT name FROM {t} WHERE word LIKE ?", (_text("sev%"),), "[a]"),
    ("ilike", "SELECT name FROM {t} WHERE word NOT ILIKE ?", (_text("X%"),), "[a]"),
    ("function of text", "SELECT substr(word, ?, ?) FROM {t} WHERE name = 'a'", (_whole(2), _whole(3)), "[eve]"),
    ("concatenation", "SELECT name || ? FROM {t} WHERE name = ?", (_text("!"), _text("a")), "[a!]"),
    ("arithmetic", "SELECT name FROM {t} WHERE id + ? = ? * 10", (_whole(10), _whole(8)), "[a]"),
    (
        "search",
        "SELECT name FROM full_text_search('{t}', 'word', ?, k => ?, filter => 'name = ? AND n < ?')",
        (_text("seven"), _whole(5), _text("a"), _whole(8)),
        "[a]",
    ),
    ("nothing wanted", "SELECT ?", (_text("seven"),), "[seven]"),
    ("dollars by number", "SELECT name FROM {t} WHERE name = $2 AND id > $1", (_whole(1), _text("a")), "[a]"),
)
"""Queries whose parameters have types of their own."""


@cache
def _taken() -> frozenset[tuple[str, str, Kind]]:
    """The drivers, shapes and types that go together."""
    cases = list(product((PYTHON, GO, JDBC), [*QUERIES, *CHANGES, *REMOVALS], KINDS))
    return frozenset(cases if IS_FULL else (cases[place] for place in covering(cases)))


def lines(table: str) -> Iterator[Line]:
    """Yield every statement of a driver over its table, which `SETUP` has made, queries first."""
    for name, sql, bound, answer in FIXED:
        yield Line(name=name, sql=sql.format(t=table), bound=bound, answer=answer)
    for shape, (sql, answer) in QUERIES.items():
        for kind in _kinds(table, shape):
            filled = sql.format(t=table, c=kind.column, type=kind.sql)
            yield Line(name=_row(shape, kind), sql=filled, bound=[kind.bound] * filled.count("?"), answer=answer)
    for shape, statements in CHANGES.items():
        for kind in _kinds(table, shape):
            yield from _changes(table, shape, statements, kind)
    for shape, sql in REMOVALS.items():
        for kind in _kinds(table, shape):
            row = _row(shape, kind)
            made = f"INSERT INTO {table} (name, {kind.column}) VALUES ('{row}', ?)"
            yield Line(name=f"{row}, before", sql=made, bound=[kind.bound], answer="1")
            filled = sql.format(t=table, c=kind.column, row=row)
            yield Line(name=row, sql=filled, bound=[kind.bound], answer="1")
    for column, bound, _, by_jdbc in OTHER_SETTERS:
        sql = f"INSERT INTO {table} (name, {column}) VALUES ('{_name(column, bound)}', ?)"
        yield Line(name=_name(column, bound), sql=sql, bound=[bound], answer="1", by_jdbc=by_jdbc)
    for column, bound, answer, by_jdbc in REFUSED:
        sql = f"UPDATE {table} SET {column} = ? WHERE name = 'b'"
        yield Line(name=_name(column, bound), sql=sql, bound=[bound], answer=answer, by_jdbc=by_jdbc)


def _changes(table: str, shape: str, statements: Sequence[str], kind: Kind) -> Iterator[Line]:
    """Yield the statements of a shape, with the value of a type and with NULL."""
    words = {"t": table, "c": kind.column, "other": "word" if kind.column != "word" else "n"}
    for bound, row in ((kind.bound, _row(shape, kind)), (NULL, f"{_row(shape, kind)}, null")):
        for number, sql in enumerate(statements):
            filled = sql.format(**words, row=row)
            answer = "2" if "too" in sql else "1"
            name = row if number == len(statements) - 1 else f"{row}, before"
            yield Line(name=name, sql=filled, bound=[bound] * filled.count("?"), answer=answer)


def _kinds(table: str, shape: str) -> list[Kind]:
    return [kind for kind in KINDS if (table, shape, kind) in _taken()]


def stored(table: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the column and the value of every row that the changes of a driver leave."""
    for shape in CHANGES:
        for kind in _kinds(table, shape):
            yield _row(shape, kind), kind.column, kind.bound.value
            yield f"{_row(shape, kind)}, null", kind.column, None
    for column, bound, value, refusal in OTHER_SETTERS:
        if table != JDBC or refusal is None:
            yield _name(column, bound), column, value


def _name(column: str, bound: Bound) -> str:
    return f"{column} by {bound.setter} {bound.text}"


def _row(shape: str, kind: Kind) -> str:
    return f"{shape} {kind.bound.setter}"
