"""Partition tables whose columns are not those of the namespace: section 4 of the first draft, read and written."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import InvalidInput

from tests.engine.database import open_engine
from tests.stock import StoredTable, manifest, stored_tables

pytestmark = pytest.mark.slow  # many odd tables

PAIR = pa.struct([("x", pa.int32()), ("y", pa.utf8())])
SCHEMA = pa.schema(
    {"id": pa.int64(), "p": pa.utf8(), "n": pa.int32(), "d": pa.date32(), "s": PAIR, "l": pa.list_(PAIR)}
)
WHOLE = {"n": 7, "d": date(2025, 1, 1), "s": {"x": 1, "y": "one"}, "l": [{"x": 2, "y": "two"}]}
VALUES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table `t` by `p`, with one row in each partition."""
    place = tmp_path_factory.mktemp("template")
    data = pa.Table.from_pylist([{"id": n, "p": p, **WHOLE} for n, p in enumerate(VALUES)], schema=SCHEMA)
    ingest.create(open_engine(place).root, TableName("public", "t"), SCHEMA, TableProperties.by("p"), [data])
    return place


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path, dirs_exist_ok=True))


def stored(root: Path, value: str) -> StoredTable:
    (found,) = [table for table in stored_tables(root / "t") if table.values["p"] == value]
    return found


def lay_out(root: Path, value: str, table: pa.Table) -> None:
    """Put another table in the place of a partition's, with stock Lance, and pin it."""
    found = stored(root, value)
    made = lance.write_dataset(table, found.dataset.uri, mode="overwrite")
    manifest(root / "t").update({"read_version": str(made.version)}, where=f"object_id = '{found.object_id}'")


def of(value: str, **columns: Any) -> pa.Table:
    """A table of one row with these columns beside the id and the partition value."""
    return pa.table({"id": pa.array([100], pa.int64()), "p": [value], **columns})


def read(root: Path, value: str) -> dict[str, Any]:
    (row,) = open_engine(root).query(f"SELECT n, d, s, l FROM t WHERE p = '{value}'").to_pylist()
    found: dict[str, Any] = row
    return found


NOTHING = dict.fromkeys(WHOLE)
READ = [
    pytest.param({}, {}, id="all columns missing"),
    pytest.param({"n": pa.array([7], pa.int32()), "more": ["x"]}, {"n": 7}, id="an extra column"),
    pytest.param({"n": pa.array([7], pa.int64())}, {"n": 7}, id="wider"),
    pytest.param({"n": pa.array([7], pa.int8())}, {"n": 7}, id="narrower"),
    pytest.param({"n": pa.array([7.0])}, {"n": 7}, id="whole as a float"),
    pytest.param({"n": ["7"]}, {"n": 7}, id="text for a number"),
    pytest.param({"d": ["2025-01-01"]}, {"d": date(2025, 1, 1)}, id="text for a date"),
    pytest.param({"n": pa.nulls(1, pa.utf8())}, {}, id="NULL of another type"),
    pytest.param({"s": [{"y": "one", "x": 1}]}, {"s": {"x": 1, "y": "one"}}, id="nested fields in another order"),
    pytest.param({"s": [{"x": 1}]}, {"s": {"x": 1, "y": None}}, id="a nested field missing"),
    pytest.param({"s": [{"x": "1", "z": 3}]}, {"s": {"x": 1, "y": None}}, id="nested: text, extra, missing"),
    pytest.param({"l": [[{"x": 2}, None]]}, {"l": [{"x": 2, "y": None}, None]}, id="in a list: missing"),
    pytest.param({"l": [[{"y": "two", "x": "2"}]]}, {"l": [{"x": 2, "y": "two"}]}, id="in a list: order, text"),
]


@pytest.mark.parametrize(("columns", "expected"), READ)
@pytest.mark.parametrize("alike", [1, 3], ids=["alone", "with others like it"])
def test_a_table_is_read_in_the_columns_of_the_namespace(
    root: Path, columns: dict[str, Any], expected: dict[str, Any], alike: int
) -> None:
    for value in VALUES[:alike]:
        lay_out(root, value, of(value, **columns))
    assert read(root, "a") == NOTHING | expected
    assert read(root, "d") == WHOLE
    rows = open_engine(root).query("SELECT p, n, s FROM t WHERE p <> 'd' ORDER BY p").to_pylist()
    mine = {"n": (NOTHING | expected)["n"], "s": (NOTHING | expected)["s"]}
    assert rows[:alike] == [{"p": value, **mine} for value in VALUES[:alike]]
    found = open_engine(root).query("SELECT count(*) AS c FROM t WHERE n = 7")["c"].to_pylist()
    assert found == [4 - alike + alike * (expected.get("n") == 7)]


UNREADABLE = [
    pytest.param({"n": ["7", "x7"]}, r"'x7' \(string\), which is no int32", id="text"),
    pytest.param({"n": [1, 2**40]}, r"1099511627776 \(int64\), which is no int32", id="out of range"),
    pytest.param({"n": [2.0, 1.5]}, r"1.5 \(double\), which is no int32", id="a fraction"),
    pytest.param({"d": ["2025-01-01", "2025-02-30"]}, r"'2025-02-30' \(string\)", id="a day that is none"),
    pytest.param({"s": [{"x": "1"}, {"x": "one"}]}, r"\{'x': 'one'\}", id="nested"),
    pytest.param({"l": [[{"x": "1"}], [{"x": None}, {"x": "two"}]]}, r"\{'x': 'two'\}", id="in a list"),
    pytest.param({"s": [1, 2]}, r"is int64, not struct", id="no such type"),
]


@pytest.mark.parametrize(("columns", "message"), UNREADABLE)
@pytest.mark.parametrize("bad", ["a", "c"], ids=["first", "third"])
def test_what_cannot_be_read_is_named_with_its_column_its_table_and_the_value(
    root: Path, columns: dict[str, Any], message: str, bad: str
) -> None:
    good = {name: pa.array([values[0]] * 2, pa.array(values).type) for name, values in columns.items()}
    for value in VALUES[:3]:
        lay_out(root, value, pa.table({"id": [1, 2], "p": [value] * 2, **(columns if value == bad else good)}))
    (name,) = columns
    # Where no value of the type will do, the first table is as wrong as the others.
    wrong = "a" if "not struct" in message else bad
    with pytest.raises(InvalidInput, match=message) as raised:
        open_engine(root, target_partitions=1).query(f"SELECT {name} FROM t")
    assert f"column {name!r}" in str(raised.value)
    named = [value for value in VALUES if stored(root, value).row["location"] in str(raised.value)]
    assert named == [wrong]
    assert open_engine(root).query("SELECT id FROM t").num_rows == 7, "columns that are not asked for do not matter"


INSERT = "INSERT INTO t (id, p, n, d) VALUES (200, 'a', 8, '2025-01-02')"
FULL = {
    "n": pa.array([7], pa.int32()),
    "d": pa.array([date(2025, 1, 1)]),
    "s": pa.nulls(1, PAIR),
    "l": pa.nulls(1, pa.list_(PAIR)),
}
WRITTEN = [
    pytest.param({"more": ["x"]}, {"more": None}, id="an extra column is NULL"),
    pytest.param({"n": ["7"]}, {"n": "8"}, id="a number as text"),
    pytest.param({"n": pa.array([7], pa.int64())}, {"n": 8}, id="wider"),
    pytest.param({"n": pa.array([7], pa.int8())}, {"n": 8}, id="narrower"),
    pytest.param({"d": ["2025-01-01"]}, {"d": "2025-01-02"}, id="a date as text"),
    ({"s": pa.nulls(1, pa.struct([*PAIR, ("z", pa.int8())]))}, {"s": None}),
]


@pytest.mark.parametrize(("columns", "expected"), WRITTEN)
def test_rows_are_written_in_the_columns_of_the_table(
    root: Path, columns: dict[str, Any], expected: dict[str, Any]
) -> None:
    lay_out(root, "a", of("a", **(FULL | columns)))
    before = stored(root, "a").dataset.schema
    assert open_engine(root).update(INSERT) == 1
    (row,) = stored(root, "a").dataset.to_table(filter="id = 200").to_pylist()
    assert row == {"id": 200, "p": "a", "n": 8, "d": date(2025, 1, 2), "s": None, "l": None} | expected
    assert stored(root, "a").dataset.schema == before
    assert open_engine(root).query("SELECT n, d FROM t WHERE id = 200").to_pylist() == [{"n": 8, "d": date(2025, 1, 2)}]


def without(name: str) -> dict[str, Any]:
    return {column: values for column, values in FULL.items() if column != name}


UNWRITABLE = [
    pytest.param(of("a", **without("n")), "column 'n' is not in the table", id="a column missing"),
    pytest.param(
        of("a", **FULL, must=[1]).cast(
            pa.schema([*of("a", **FULL).schema, pa.field("must", pa.int64(), nullable=False)])
        ),
        "column 'must' is NOT NULL there",
        id="an extra column that must have a value",
    ),
    pytest.param(of("a", **(FULL | {"n": [[1]]})), "column 'n'.*is int32, not list", id="no such cast"),
    (of("a", **(FULL | {"d": pa.array([1], pa.int8())})), "column 'd'.*date32.*not int8"),
    (of("a", **(FULL | {"s": pa.nulls(1, pa.struct([("x", pa.int32())]))})), "field s.y is not in the table"),
    (of("a", **(FULL | {"l": pa.nulls(1, pa.list_(pa.struct([("x", pa.int32())])))})), "field l.y is not in the table"),
]


@pytest.mark.parametrize(("table", "message"), UNWRITABLE)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(root: Path, table: pa.Table, message: str) -> None:
    lay_out(root, "a", table)
    before = manifest(root / "t").version, set((root / "t").rglob("*.lance"))
    with pytest.raises(InvalidInput, match=message):
        open_engine(root).update(INSERT)
    assert (manifest(root / "t").version, set((root / "t").rglob("*.lance"))) == before


def test_the_value_that_a_table_cannot_take_is_named(root: Path) -> None:
    lay_out(root, "a", of("a", **(FULL | {"n": pa.array([7], pa.int8())})))
    with pytest.raises(InvalidInput, match=r"column 'n' of table .* holds 300 \(int32\), which is no int8"):
        open_engine(root).update("INSERT INTO t (id, p, n) VALUES (200, 'a', 3), (201, 'a', 300), (202, 'a', 500)")


def test_rows_are_changed_in_a_table_that_disagrees(root: Path) -> None:
    lay_out(root, "a", of("a", **(FULL | {"n": ["7"], "more": ["x"]})))
    assert open_engine(root).update("UPDATE t SET n = n + 1") == 4
    assert open_engine(root).query("SELECT n FROM t")["n"].to_pylist() == [8] * 4
    assert open_engine(root).update("DELETE FROM t WHERE n = 8 AND p <> 'b'") == 3
    assert stored(root, "a").dataset.count_rows() == 0
