"""Lance's own numbers of fields: the same for a column in every partition table, whenever and by whatever it was made."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties

from tests.engine.database import open_engine
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every change in files of every version

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "v": pa.list_(pa.float32(), 2),
        "s": pa.struct([("x", pa.int32()), ("l", pa.list_(pa.utf8()))]),
        "p": pa.utf8(),
        "n": pa.int32(),
    }
)
ROW = {"id": 1, "v": [1.0, 2.0], "s": {"x": 1, "l": ["a"]}, "p": "a", "n": 1}


def row(value: str) -> pa.Table:
    return pa.Table.from_pylist([ROW | {"p": value}], schema=SCHEMA)


@pytest.fixture(params=["2.0", "2.2"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table `t` with one partition."""
    data = row("a")
    properties = TableProperties.by("p").with_options({"file_version": request.param, "stable_row_ids": "true"})
    ingest.create(open_engine(tmp_path).root, TableName("public", "t"), data.schema, properties, [data])
    return tmp_path


def field_numbers(dataset: lance.LanceDataset) -> dict[str, int]:
    """The number of each field, by its path."""
    found: dict[str, int] = {}

    def note(fields: list[lance.schema.LanceField], above: str) -> None:
        for field in fields:
            found[f"{above}{field.name()}"] = field.id()
            note(field.children(), f"{above}{field.name()}.")

    note(dataset.lance_schema.fields(), "")
    return found


def numbers(root: Path) -> dict[str, int]:
    """Those that all tables have, each of which holds its data under them."""
    tables = stored_tables(root / "t")
    found = [field_numbers(table.dataset) for table in tables]
    assert found == [found[0]] * len(found)
    ids = {
        path: number
        for number, (path, _) in PartitionedNamespace.open(Store(str(root / "t"))).snapshot().schema.paths.items()
    }
    assert {path: number for path, number in found[0].items() if path in ids} == {
        path: ids[path] for path in found[0] if path in ids
    }
    return found[0]


def insert(root: Path, value: str) -> None:
    """A row of another partition."""
    names = ", ".join(name for name in open_engine(root).query("SELECT * FROM t LIMIT 0").schema.names if name != "p")
    open_engine(root).update(f"INSERT INTO t ({names}, p) SELECT {names}, '{value}' FROM t WHERE p = 'a'")


CHANGES = [
    pytest.param([], id="nothing"),
    pytest.param(["ADD COLUMN more INT"], id="a column"),
    pytest.param(["ADD COLUMN s.y INT"], id="a nested column"),
    pytest.param(["ADD COLUMN double BIGINT AS (id * 2)"], id="a computed column"),
    pytest.param(["DROP COLUMN n", "ADD COLUMN n INT"], id="a column dropped and made again"),
    pytest.param(["DROP COLUMN v", "ADD COLUMN twice BIGINT AS (id * 2)", "ADD COLUMN last INT"], id="in the middle"),
    pytest.param(["RENAME COLUMN s.x TO z", "ADD COLUMN x INT", "DROP COLUMN id"], id="renamed"),
]


@pytest.mark.parametrize("changes", CHANGES)
def test_a_column_has_its_id_in_every_table(root: Path, changes: list[str]) -> None:
    insert(root, "before")
    assert numbers(root)
    for number, change in enumerate(changes):
        open_engine(root).update(f"ALTER TABLE t {change}")
        insert(root, f"b{number}")
        assert numbers(root)
    insert(root, "after")
    open_engine(root).update("UPDATE t SET p = 'moved' WHERE p = 'before'")
    open_engine(root).query("ALTER TABLE t COMPACT")
    assert numbers(root)
    rows = open_engine(root).query("SELECT * FROM t").to_pylist()
    same = [{name: value for name, value in row.items() if name != "p"} for row in rows]
    assert same == [same[0]] * (3 + len(changes))


def test_tables_that_are_made_after_a_change_of_type_have_the_ids(root: Path) -> None:
    """Lance gives what is written anew another number in the tables that are there, and what comes later a larger one."""
    open_engine(root).update("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    open_engine(root).update("ALTER TABLE t ADD COLUMN more INT")
    for value in ("after", "later"):
        insert(root, value)
    tables = {table.values["p"]: field_numbers(table.dataset) for table in stored_tables(root / "t")}
    assert tables["after"] == tables["later"]
    ids = PartitionedNamespace.open(Store(str(root / "t"))).snapshot().schema.ids
    assert {name: tables["later"][name] for name in ids} == ids
    assert open_engine(root).query("SELECT n, more, p FROM t ORDER BY p").to_pylist() == [
        {"n": 1, "more": None, "p": value} for value in ("a", "after", "later")
    ]
