"""UPDATE, DELETE, MERGE, TRUNCATE and INSERT OVERWRITE: what they change, what they answer, what is stored."""

from __future__ import annotations

import datetime as dt
import shutil
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import mmh3
import pytest
from lance_flight.engine.writes.definitions import parse_partition_by, partition_spec
from lance_flight.errors import DataError, Unsupported
from lance_flight.model.schema import NamespaceSchema

from tests.engine.database import Database, bound_rows
from tests.engine.evolving import add_spec
from tests.service.server_process import files
from tests.stock import stored_rows, stored_tables

pytestmark = pytest.mark.slow  # each case copies a table, changes it, and reads what is stored

COLUMNS = "id BIGINT NOT NULL, name VARCHAR, price DECIMAL(10, 2)"
LAYOUTS = {
    "plain": "",
    "identity": " PARTITIONED BY (name)",
    "bucket": " PARTITIONED BY (bucket(4, id) AS quarter)",
    "two fields": " PARTITIONED BY (name, bucket(2, id) AS half)",
}
EVERYWHERE = pytest.mark.parametrize("layout", LAYOUTS)

Row = tuple[int, str | None, Any]
ROWS: list[Row] = [(1, "a", 1), (2, "b", 2), (3, None, 3), (4, "a", None)]
"""What every table of this module holds at first: NULL for a key, NULL for a value, two rows of one name."""


@dataclass(frozen=True)
class Held:
    """One table of a layout, holding `ROWS` at first."""

    database: Database
    name: str
    layout: str

    @property
    def place(self) -> Path:
        """The directory of a partitioned table."""
        return self.database.root / self.name

    @property
    def stored_at(self) -> Path:
        """The directory of the table."""
        return self.place.with_suffix(".lance") if self.layout == "plain" else self.place

    @property
    def version(self) -> int:
        """How many commits there were."""
        place = self.stored_at if self.layout == "plain" else self.place / "__manifest"
        return int(lance.dataset(place).version)

    def files(self) -> set[str]:
        """Every file of the table."""
        return files(self.stored_at)

    def rows(self) -> list[Row]:
        """All rows, as queries show them."""
        return self.database.rows(f"SELECT id, name, price FROM {self.name} ORDER BY id, name, price")

    def stored(self) -> list[Row]:
        """All rows, as they lie there, each of which must be in its own partition."""
        if self.layout == "plain":
            found = lance.dataset(self.stored_at).to_table()
        else:
            found = stored_rows(self.place)
            for table in stored_tables(self.place):
                for row in table.dataset.to_table().to_pylist():
                    assert table.values == partition_of(row, self.layout), row
        return sorted(zip(*(found[name].to_pylist() for name in ("id", "name", "price")), strict=True), key=in_order)


def in_order(row: Row) -> tuple[Any, ...]:
    """NULLs last, as in SQL."""
    return tuple((value is None, value) for value in row)


def named(row: Row) -> dict[str, Any]:
    """A row by its columns."""
    return dict(zip(("id", "name", "price"), row, strict=True))


def partition_of(row: Mapping[str, Any], layout: str) -> dict[str, Any]:
    """The partition values that a row has: the oracle."""

    def bucket(buckets: int) -> int:
        return abs(mmh3.hash(struct.pack("<q", row["id"]))) % buckets

    return {
        "identity": {"name": row["name"]},
        "bucket": {"quarter": bucket(4)},
        "two fields": {"name": row["name"], "half": bucket(2)},
    }[layout]


def exactly(rows: Iterable[Row]) -> list[Row]:
    """Rows as a table returns them: decimals, in order."""
    return sorted(((n, name, None if p is None else Decimal(str(p))) for n, name, p in rows), key=in_order)


def after(changes: Mapping[int, tuple[str | None, Any] | None]) -> list[Row]:
    """`ROWS` with what the rows of some ids became; None for those that are gone."""
    left: dict[int, tuple[str | None, Any] | None] = {number: (name, price) for number, name, price in ROWS}
    return [(number, *row) for number, row in (left | dict(changes)).items() if row is not None]


@pytest.fixture(scope="module")
def templates(database: Database) -> Mapping[str, Held]:
    """A table of each layout, which nobody changes."""
    made = {layout: Held(database, f"template_{number}", layout) for number, layout in enumerate(LAYOUTS)}
    for layout, held in made.items():
        database.run(f"CREATE TABLE {held.name} ({COLUMNS}){LAYOUTS[layout]}")
        database.run(f"INSERT INTO {held.name} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3), (4, 'a', NULL)")
    return made


@pytest.fixture
def held(database: Database, table: str, layout: str, templates: Mapping[str, Held]) -> Held:
    held = Held(database, table, layout)
    shutil.copytree(templates[layout].stored_at, held.stored_at)
    return held


@pytest.fixture(scope="module", autouse=True)
def sources(database: Database) -> None:
    """What rows are merged from: `news` is plain, `parted` partitioned; both hold one row that matches and one that does not."""
    for name, partitioned_by in [("news", ""), ("parted", " PARTITIONED BY (name)")]:
        database.run(f"CREATE TABLE {name} ({COLUMNS}){partitioned_by}")
        database.run(f"INSERT INTO {name} VALUES (1, 'new', 10), (7, NULL, 70)")


def check(held: Held, statement: str, expected: Iterable[Row], count: int, *parameters: Any) -> None:
    """Run a statement, and look at the reply, at what is there, and at what is stored."""
    before, written = held.version, held.files()
    affected = held.database.run(statement.format(t=held.name), parameters or None)
    assert held.rows() == exactly(expected)
    assert held.stored() == exactly(expected)
    assert affected == count
    assert held.version == before + (1 if count else 0)
    assert count or held.files() == written


UPDATES = [
    pytest.param("UPDATE {t} SET price = 9", after({1: ("a", 9), 2: ("b", 9), 3: (None, 9), 4: ("a", 9)}), 4, id="all"),
    pytest.param("UPDATE {t} SET (price, name) = (id, 'x,y') WHERE id = 2", after({2: ("x,y", 2)}), 1, id="several"),
    pytest.param("UPDATE {t} SET (price) = ROW(7), name = 'z' WHERE id = 2", after({2: ("z", 7)}), 1, id="a row"),
    pytest.param("UPDATE {t} SET price = 9 WHERE id = 99", ROWS, 0, id="no row"),
    pytest.param(
        "UPDATE {t} SET price = (SELECT n FROM (VALUES (1, 8), (2, 9), (7, 1), (7, 2)) v(k, n) WHERE v.k = {t}.id)",
        after({1: ("a", 8), 2: ("b", 9), 3: (None, None), 4: ("a", None)}),
        4,
        id="a value looked up for each row",
    ),
    pytest.param("UPDATE {t} SET price = price WHERE id = 1", ROWS, 1, id="a row that stays as it is counts"),
    ("UPDATE {t} SET price = id, name = CAST(price AS VARCHAR) WHERE id = 2", after({2: ("2.00", 2)}), 1),
    pytest.param("UPDATE {t} SET name = 'new' WHERE id = 1", after({1: ("new", 1)}), 1, id="into a new partition"),
    pytest.param(
        "UPDATE {t} SET name = CASE name WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' END",
        after({1: ("b", 1), 2: ("a", 2), 4: ("b", None)}),
        4,
        id="partitions that change places",
    ),
    pytest.param("UPDATE {t} AS x SET price = x.id WHERE x.id = 2", after({2: ("b", 2)}), 1, id="an alias"),
    pytest.param("UPDATE {t} x SET x.price = 5 WHERE x.id = 2", after({2: ("b", 5)}), 1, id="an alias without AS"),
    pytest.param("UPDATE public.{t} SET price = 5 WHERE {t}.id = 2", after({2: ("b", 5)}), 1, id="with the schema"),
    ('UPDATE lance.public."{t}" SET {t}.price = 5 WHERE public.{t}.id = 2', after({2: ("b", 5)}), 1),
    pytest.param("UPDATE {t} SET price = 5 WHERE id = 2 ; -- done", after({2: ("b", 5)}), 1, id="a comment at the end"),
    ("/* x */ UPDATE {t} -- WHERE\nSET price = 5 -- , five\nWHERE id = 2 -- that one", after({2: ("b", 5)}), 1),
    ("update {t} set name = 'x, WHERE y = ?;' where name = 'b'", after({2: ("x, WHERE y = ?;", 2)}), 1),
    pytest.param(
        "UPDATE {t} SET name = concat(name, ',', 'x'), price = CASE WHEN id IN (1, 2) THEN 0 ELSE 1 END WHERE id = 2",
        after({2: ("b,x", 0)}),
        1,
        id="commas and words inside of expressions",
    ),
    pytest.param("UPDATE {t} SET price = '7.005' WHERE id = 2", after({2: ("b", "7.01")}), 1, id="text into a decimal"),
    pytest.param("UPDATE {t} SET price = 12.345 WHERE id = 2", after({2: ("b", "12.35")}), 1, id="a number is rounded"),
    pytest.param("UPDATE {t} SET id = ' 42 ' WHERE id = 2", [*after({2: None}), (42, "b", 2)], 1, id="text into a key"),
    pytest.param("UPDATE {t} SET id = 5.0 WHERE id = 2", [*after({2: None}), (5, "b", 2)], 1, id="a whole double"),
    pytest.param("UPDATE {t} SET name = 5 WHERE id = 2", after({2: ("5", 2)}), 1, id="a number into text"),
]


@EVERYWHERE
@pytest.mark.parametrize(("statement", "expected", "count"), UPDATES)
def test_update(held: Held, statement: str, expected: list[Row], count: int) -> None:
    check(held, statement, expected, count)


DELETES = [
    pytest.param("DELETE FROM {t}", [], 4, id="all"),
    pytest.param("DELETE FROM {t} WHERE id = 99", ROWS, 0, id="no row"),
    pytest.param("DELETE FROM {t} x WHERE x.id > 2;", after({3: None, 4: None}), 2, id="an alias without AS"),
    pytest.param("DELETE FROM lance.public.{t} WHERE {t}.id = 2 -- b", after({2: None}), 1, id="with the catalog"),
    pytest.param("DELETE FROM {t} WHERE id IN (SELECT id FROM news)", after({1: None}), 1, id="IN a subquery"),
    pytest.param("TRUNCATE {t}", [], 4, id="TRUNCATE"),
    pytest.param("TRUNCATE TABLE public.{t};", [], 4, id="TRUNCATE TABLE"),
]


@EVERYWHERE
@pytest.mark.parametrize(("statement", "expected", "count"), DELETES)
def test_delete(held: Held, statement: str, expected: list[Row], count: int) -> None:
    check(held, statement, expected, count)


UPSERTED = [*after({1: ("new", 10)}), (7, None, 70)]
UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
ONE_OF_EACH = "(VALUES (1, 'new', 10), (7, NULL, 70))"
MERGES = [
    pytest.param(f"news ON {{t}}.id = news.id {UPSERT}", UPSERTED, 2, id="from a plain table"),
    pytest.param(f"parted AS s ON {{t}}.id = s.id {UPSERT}", UPSERTED, 2, id="from a partitioned table"),
    pytest.param(f"public.news s ON {{t}}.id = s.id {UPSERT};", UPSERTED, 2, id="with the schema"),
    pytest.param(f"(SELECT * FROM news) s ON {{t}}.id = s.id {UPSERT} -- done", UPSERTED, 2, id="from a query"),
    (f"{ONE_OF_EACH} AS s(id, name, price) ON {{t}}.id = s.id {UPSERT}", UPSERTED, 2),
    pytest.param(
        f"(SELECT column1 AS id, column2 AS name FROM {ONE_OF_EACH}) s ON {{t}}.id = s.id {UPSERT}",
        [*after({1: ("new", 1)}), (7, None, None)],
        2,
        id="the star takes the columns that there are",
    ),
    ("news s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET price = {t}.price + s.price", after({1: ("a", 11)}), 1),
    pytest.param(
        "news s ON {t}.id = s.id WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id * 10, s.price + 1)",
        [*ROWS, (70, None, 71)],
        1,
        id="insert alone",
    ),
    ("news s ON {t}.id = s.id WHEN NOT MATCHED BY TARGET THEN INSERT *", [*ROWS, (7, None, 70)], 1),
    ("news s ON {t}.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, DEFAULT, s.price)", [*ROWS, (7, None, 70)], 1),
    pytest.param(
        "{t} AS s ON {t}.id = s.id + 1 WHEN MATCHED AND s.id = 1 THEN DO NOTHING WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING",
        [ROWS[0], ROWS[1]],
        2,
        id="nothing",
    ),
    pytest.param("news s ON {t}.id = s.id + 90 WHEN MATCHED THEN DELETE", ROWS, 0, id="no row"),
    pytest.param(
        "(SELECT 1 AS id, 0 AS n UNION ALL SELECT 2, 5) s ON {t}.id = s.id "
        "WHEN MATCHED AND n <> 0 THEN UPDATE SET price = 10 / n",
        after({2: ("b", 2)}),
        1,
        id="what a clause assigns is computed for its own rows alone",
    ),
    pytest.param(
        "{t} AS s ON {t}.id = s.id + 1 WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN "
        "INSERT (id, name) VALUES (s.id + 1, 'last')",
        [*after({2: ("a", 2), 3: ("b", 3), 4: (None, None)}), (5, "last", None)],
        4,
        id="from itself",
    ),
    pytest.param(
        "(SELECT id, max(price) AS price FROM parted GROUP BY id) s ON {t}.id = s.id AND s.price < 50 "
        "WHEN MATCHED THEN UPDATE SET price = (SELECT sum(price) FROM news)",
        after({1: ("a", 80)}),
        1,
        id="subqueries",
    ),
]


@EVERYWHERE
@pytest.mark.parametrize(("rest", "expected", "count"), MERGES)
def test_merge(held: Held, rest: str, expected: list[Row], count: int) -> None:
    check(held, f"MERGE INTO {{t}} USING {rest}", expected, count)


def test_merge_into_an_alias(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, n INT) PARTITIONED BY (id)")
    database.run(f"INSERT INTO {table} VALUES (1, 0)")
    assert (
        database.run(
            f"MERGE INTO public.{table} AS target USING (SELECT 1 AS id) AS source ON target.id = source.id "
            "WHEN MATCHED THEN UPDATE SET target.n = target.n + source.id"
        )
        == 1
    )
    assert stored_rows(database.root / table).to_pylist() == [{"id": 1, "n": 1}]


PARAMETERS = [
    pytest.param("UPDATE {t} SET price = ? WHERE id = ?", (9, 1), after({1: ("a", 9)}), 1, id="in SET and WHERE"),
    pytest.param("UPDATE {t} SET price = $2 WHERE id = $1", (1, 9), after({1: ("a", 9)}), 1, id="with numbers"),
    pytest.param("UPDATE {t} SET name = ? WHERE id = 1", (None,), after({1: (None, 1)}), 1, id="NULL"),
    pytest.param("UPDATE {t} SET price = price + ? WHERE name = ?", (2, "b"), after({2: ("b", 4)}), 1, id="arithmetic"),
    ("UPDATE {t} SET price = ? WHERE id IN (SELECT id FROM news WHERE price = ?)", (5, 10), after({1: ("a", 5)}), 1),
    pytest.param("DELETE FROM {t} WHERE id BETWEEN ? AND ?", (2, 3), after({2: None, 3: None}), 2, id="in DELETE"),
    pytest.param(
        "MERGE INTO {t} USING (SELECT CAST(? AS BIGINT) AS id, ? AS name) s ON {t}.id = s.id + ? "
        "WHEN MATCHED AND price < ? THEN UPDATE SET name = ? "
        "WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (s.id, s.name, ?)",
        (0, "x", 1, 5, "matched", 7),
        after({1: ("matched", 1)}),
        1,
        id="all over MERGE, matched",
    ),
    pytest.param(
        "MERGE INTO {t} USING (SELECT ? AS id, ? AS name) s ON {t}.id = s.id + ? "
        "WHEN MATCHED AND price < ? THEN UPDATE SET name = ? "
        "WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (s.id, s.name, ?)",
        (8, "x", 1, 5, "matched", 7),
        [*ROWS, (8, "x", 7)],
        1,
        id="all over MERGE, not matched",
    ),
]


@EVERYWHERE
@pytest.mark.parametrize(("statement", "parameters", "expected", "count"), PARAMETERS)
def test_parameters(held: Held, statement: str, parameters: tuple[Any, ...], expected: list[Row], count: int) -> None:
    check(held, statement, expected, count, *parameters)


MANY = [
    pytest.param(
        "UPDATE {t} SET price = ? WHERE id = ?",
        [(10, 1), (20, 2), (30, 3), (90, 9)],
        after({1: ("a", 10), 2: ("b", 20), 3: (None, 30)}),
        3,
        id="update",
    ),
    pytest.param(
        "UPDATE {t} SET price = price + ? WHERE id <= ?",
        [(1, 1), (10, 2), (100, 3)],
        after({1: ("a", 112), 2: ("b", 112), 3: (None, 103)}),
        6,
        id="each on top of the one before",
    ),
    pytest.param("DELETE FROM {t} WHERE id = ?", [(1,), (3,), (1,)], after({1: None, 3: None}), 2, id="delete"),
    pytest.param(
        "MERGE INTO {t} USING (SELECT CAST(? AS BIGINT) AS id, CAST(? AS BIGINT) AS n) s ON {t}.id = s.id "
        "WHEN MATCHED THEN UPDATE SET price = n WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id, n)",
        [(1, 10), (8, 80), (8, 81)],
        [*after({1: ("a", 10)}), (8, None, 81)],
        3,
        id="merge",
    ),
]


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "plain"])
@pytest.mark.parametrize(("statement", "parameters", "expected", "count"), MANY)
def test_many_rows_of_parameters_are_one_commit(
    held: Held, statement: str, parameters: list[tuple[Any, ...]], expected: list[Row], count: int
) -> None:
    before = held.version
    assert held.database.run(statement.format(t=held.name), bound_rows(parameters)) == count
    assert held.rows() == held.stored() == exactly(expected)
    assert held.version == before + 1


@pytest.mark.parametrize("layout", ["plain"])
@pytest.mark.parametrize(("statement", "parameters", "expected", "count"), MANY)
def test_many_rows_of_parameters_are_refused_for_a_plain_table_which_has_no_such_commit(
    held: Held, statement: str, parameters: list[tuple[Any, ...]], expected: list[Row], count: int
) -> None:
    before = held.files()
    with pytest.raises(Unsupported, match="one row of param"):
        held.database.run(statement.format(t=held.name), bound_rows(parameters))
    assert held.files() == before
    assert held.stored() == exactly(ROWS)


@pytest.mark.parametrize("layout", ["identity"])
def test_many_rows_are_changed_all_or_not_at_all(held: Held) -> None:
    before = held.version
    with pytest.raises(DataError, match="NOT NULL"):
        held.database.run(f"UPDATE {held.name} SET id = ? WHERE id = ?", bound_rows([(10, 1), (None, 2)]))
    assert held.rows() == held.stored() == exactly(ROWS)
    assert held.version == before


OVERWRITES = [
    ("identity", "{t} VALUES (9, 'a', 9)", [*after({1: None, 4: None}), (9, "a", 9)], 3),
    (
        "identity",
        "TABLE {t} VALUES (9, NULL, 9), (10, 'new', 10)",
        [*after({3: None}), (9, None, 9), (10, "new", 10)],
        3,
    ),
    ("identity", "INTO public.{t} (price, id) SELECT 1, 9;", [*after({3: None}), (9, None, 1)], 2),
    pytest.param(
        "identity",
        "{t} SELECT id + 10, name, 0 FROM {t} WHERE name = 'a' -- themselves",
        [*after({1: None, 4: None}), (11, "a", 0), (14, "a", 0)],
        4,
        id="from itself",
    ),
    pytest.param("identity", "{t} SELECT * FROM {t}", ROWS, 8, id="everything with itself"),
    pytest.param("identity", "{t} SELECT * FROM {t} WHERE false", ROWS, 0, id="with no rows"),
    ("plain", "{t} VALUES (9, 'a', 9), (10, NULL, 9)", [(9, "a", 9), (10, None, 9)], 6),
    ("plain", "{t} SELECT id, name, 0 FROM {t} WHERE name = 'a'", [(1, "a", 0), (4, "a", 0)], 6),
    pytest.param("plain", "{t} SELECT * FROM {t} WHERE false", [], 4, id="plain: with no rows"),
]


@pytest.mark.parametrize(("layout", "statement", "expected", "count"), OVERWRITES)
def test_insert_overwrite_takes_the_place_of_whole_partitions_or_of_a_whole_plain_table(
    held: Held, statement: str, expected: list[Row], count: int
) -> None:
    check(held, f"INSERT OVERWRITE {statement}", expected, count)


def overwritten(layout: str, new: Row) -> tuple[list[Row], int]:
    """What one new row does to `ROWS`: those of its partition go."""
    place = partition_of(named(new), layout)
    left = [old for old in ROWS if partition_of(named(old), layout) != place]
    return [*left, new], 1 + len(ROWS) - len(left)


@pytest.mark.parametrize("layout", ["identity", "bucket", "two fields"])
@pytest.mark.parametrize("row", [(1, "a", 5), (2, "a", 5), (3, "x", 5), (4, None, 5), (77, "b", None)], ids=str)
def test_insert_overwrite_takes_the_partition_of_its_row(held: Held, row: Row) -> None:
    check(held, "INSERT OVERWRITE {t} VALUES (?, ?, ?)", *overwritten(held.layout, row), *row)


@pytest.mark.parametrize("layout", ["identity"])
def test_insert_overwrite_of_many_rows_of_parameters_is_one_commit(held: Held) -> None:
    before = held.version
    rows = bound_rows([(50, "a"), (51, "a"), (52, "c")])
    assert held.database.run(f"INSERT OVERWRITE {held.name} (id, name) VALUES (?, ?)", rows) == 5
    assert (
        held.rows()
        == held.stored()
        == exactly([*after({1: None, 4: None}), (50, "a", None), (51, "a", None), (52, "c", None)])
    )
    assert held.version == before + 1


ODD = [
    *(
        "select",
        "Order By",
        "a b",
        "a,b",
        "a;b",
        "it's",
        'say ""hi""',
        "né",
        "a=b",
        "(a)",
        "--",
        "$1",
        "?",
        "end",
        "o0",
    ),
    *("_action", "_in_source", "t$rows", "WHEN", "then", "c0_0"),
]


@pytest.mark.parametrize("partitioned_by", ["", ' PARTITIONED BY ("{odd}")'], ids=["plain", "partitioned"])
@pytest.mark.parametrize("odd", ODD)
def test_columns_may_have_any_name(database: Database, table: str, odd: str, partitioned_by: str) -> None:
    column = f'"{odd}"'
    database.run(f"CREATE TABLE {table} (id BIGINT, {column} VARCHAR){partitioned_by.format(odd=odd)}")
    database.run(f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    assert database.run(f"UPDATE {table} SET {column} = concat({column}, '!') WHERE {column} = 'one'") == 1
    assert database.run(f"DELETE FROM {table} x WHERE x.{column} = 'two'") == 1
    source = f"(SELECT 3 AS id, 'drei' AS {column} UNION ALL SELECT 4, 'vier')"
    merged = f"MERGE INTO {table} USING {source} s ON {table}.id = s.id AND s.{column} <> {table}.{column}"
    assert (
        database.run(f"{merged} WHEN MATCHED THEN UPDATE SET {column} = s.{column} WHEN NOT MATCHED THEN INSERT *") == 2
    )
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == [(1, "one!"), (3, "drei"), (4, "vier")]


PARTS = 20


@pytest.fixture(scope="module")
def many_template(database: Database) -> str:
    """A table with many partitions of two rows, which nobody changes."""
    database.run("CREATE TABLE many (part BIGINT, n BIGINT) PARTITIONED BY (part)")
    database.run(f"INSERT INTO many SELECT value % {PARTS}, value FROM generate_series(0, {2 * PARTS - 1})")
    return "many"


@pytest.fixture
def many(database: Database, many_template: str, table: str) -> str:
    """A table with many partitions of two rows."""
    return database.copy(many_template, table)


ONE_TABLE = [
    pytest.param("UPDATE {t} SET n = -1 WHERE part = 7", {7}, "update 2 rows in 1 partitions", id="update"),
    pytest.param("UPDATE {t} SET n = -1 WHERE n = 7", {7}, "update 1 rows in 1 partitions", id="update by a row"),
    pytest.param("UPDATE {t} SET part = 8 WHERE n = 7", {7, 8}, "update 1 rows in 2 partitions", id="a row that moves"),
    pytest.param("DELETE FROM {t} WHERE part = 7 AND n > 7", {7}, "delete 1 rows in 1 partitions", id="delete"),
    pytest.param("DELETE FROM {t} WHERE part IN (7, 9)", {7, 9}, "delete 4 rows in 2 partitions", id="delete of two"),
    pytest.param(
        "MERGE INTO {t} USING (SELECT 7 AS part) s ON {t}.part = s.part WHEN MATCHED THEN UPDATE SET n = n + 1",
        {7},
        "merge 2 rows in 1 partitions",
        id="merge",
    ),
    ("INSERT OVERWRITE {t} VALUES (7, 1)", {7}, "overwrite 1 partitions with 1 rows in place of 2"),
    pytest.param("TRUNCATE {t}", set(range(PARTS)), "truncate 40 rows in 20 partitions", id="truncate"),
]


@pytest.mark.parametrize(("statement", "parts", "operation"), ONE_TABLE)
def test_only_tables_whose_rows_change_get_another_pin(
    database: Database, many: str, statement: str, parts: set[int], operation: str
) -> None:
    def pins() -> dict[int, int]:
        return {table.values["part"]: table.row["read_version"] for table in stored_tables(database.root / many)}

    before = pins()
    database.run(statement.format(t=many))
    assert {part for part, pin in pins().items() if pin != before[part]} == parts
    history = database.rows(f"SELECT operation FROM {many}$snapshots ORDER BY version")
    assert history[-1] == (operation,)


EVOLVED_COLUMNS = "id BIGINT NOT NULL, day DATE, country VARCHAR"
DAYS = [dt.date(2024, 5, 1), dt.date(2025, 12, 10)]


@pytest.fixture
def evolved(database: Database, table: str) -> str:
    """A table with three specs: by day, by year and country, by country; under each of them the same rows once more."""
    database.run(f"CREATE TABLE {table} ({EVOLVED_COLUMNS}) PARTITIONED BY (day)")
    rows = [(DAYS[0], "US"), (DAYS[0], "DE"), (DAYS[1], "US"), (None, None)]
    for number, fields in enumerate(["", "year(day), country", "country"], 1):
        if fields:
            schema = NamespaceSchema.assign(database.query(f"SELECT * FROM {table} LIMIT 0").schema)
            add_spec(database.root / table, partition_spec(schema, parse_partition_by(fields), number=number))
        values = bound_rows([(10 * number + place, *row) for place, row in enumerate(rows)])
        database.run(f"INSERT INTO {table} VALUES (?, ?, ?)", values)
    return table


def ids_by_spec(database: Database, table: str) -> dict[int, list[int]]:
    """The rows that lie under each spec version."""
    found: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for stored in stored_tables(database.root / table):
        found[stored.spec_id] += stored.dataset.to_table()["id"].to_pylist()
    return {spec: sorted(ids) for spec, ids in found.items()}


EVOLVED = [
    pytest.param("", {1: [10, 11, 12, 13], 2: [20, 21, 22, 23], 3: [30, 31, 32, 33]}, 0, id="nothing"),
    ("INSERT OVERWRITE {t} VALUES (99, DATE '2024-01-01', 'US')", {1: [11, 13], 2: [21, 23], 3: [31, 33, 99]}, 7),
    ("INSERT OVERWRITE {t} VALUES (99, NULL, NULL)", {1: [10, 11, 12], 2: [20, 21, 22], 3: [30, 31, 32, 99]}, 4),
    pytest.param(
        "INSERT OVERWRITE {t} VALUES (99, NULL, 'FR')",
        {1: [10, 11, 12, 13], 2: [20, 21, 22, 23], 3: [30, 31, 32, 33, 99]},
        1,
        id="a new partition",
    ),
    pytest.param(
        "UPDATE {t} SET country = 'US' WHERE country = 'DE'",
        {1: [10, 12, 13], 2: [20, 22, 23], 3: [11, 21, 30, 31, 32, 33]},
        3,
        id="a row that changes moves under the newest spec",
    ),
    ("DELETE FROM {t} WHERE day = DATE '2024-05-01'", {1: [12, 13], 2: [22, 23], 3: [32, 33]}, 6),
    pytest.param(
        "MERGE INTO {t} USING (SELECT 'DE' AS c) s ON country = c WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND id = 10 THEN UPDATE SET day = NULL",
        {1: [12, 13], 2: [20, 22, 23], 3: [10, 30, 32, 33]},
        4,
        id="merge",
    ),
    pytest.param("TRUNCATE {t}", {1: [], 2: [], 3: []}, 12, id="truncate"),
]


@pytest.mark.parametrize(("statement", "expected", "count"), EVOLVED)
def test_rows_under_several_specs(
    database: Database, evolved: str, statement: str, expected: dict[int, list[int]], count: int
) -> None:
    if statement:
        assert database.run(statement.format(t=evolved)) == count
    assert ids_by_spec(database, evolved) == expected
    assert sorted(database.rows(f"SELECT id FROM {evolved}")) == sorted((n,) for ids in expected.values() for n in ids)


@EVERYWHERE
def test_the_queries_of_a_with_are_read_by_the_change_behind_it(held: Held) -> None:
    changes = {
        "WITH q AS (SELECT 5 AS n) INSERT INTO {t} (id) SELECT n FROM q": (1, {5}),
        "WITH q AS (SELECT 6 AS n) INSERT INTO {t} (id) WITH r AS (SELECT n + 1 AS n FROM q) SELECT * FROM r": (1, {7}),
        "WITH RECURSIVE q AS (SELECT 10 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 12) INSERT INTO {t} (id) SELECT n FROM q": (
            3,
            {10, 11, 12},
        ),
        "WITH q(n, update) AS (SELECT 11, 1), r AS (SELECT n FROM q) DELETE FROM {t} USING r WHERE id = r.n": (
            1,
            {-11},
        ),
        "WITH q AS (SELECT 12 AS n) DELETE FROM {t} WHERE id IN (SELECT n FROM q)": (1, {-12}),
        "WITH q AS (SELECT 10 AS n) UPDATE {t} SET id = 20 FROM q WHERE id = q.n": (1, {-10, 20}),
        "WITH q AS (SELECT 21 AS n) UPDATE {t} SET id = (SELECT max(n) FROM q) WHERE id = 20": (1, {-20, 21}),
        "WITH q AS (SELECT 21 AS n UNION ALL SELECT 22) MERGE INTO {t} USING q ON id = q.n"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (q.n)": (2, {-21, 22}),
        "WITH q AS (SELECT 22 AS id) INSERT INTO {t} (id) SELECT id FROM q UNION ALL SELECT 23 ON CONFLICT (id) DO NOTHING": (
            1,
            {23},
        ),
    }
    ids = {row[0] for row in held.rows()}
    for sql, (count, change) in changes.items():
        assert (sql, held.database.run(sql.format(t=held.name))) == (sql, count)
        ids = (ids - {-n for n in change if n < 0}) | {n for n in change if n > 0}
        assert (sql, {row[0] for row in held.rows()}) == (sql, ids)
