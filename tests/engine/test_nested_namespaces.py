"""Namespaces of a directory namespace's `__manifest` (V2): they are SQL schemas, with tables or without."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots import directory
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes.definitions import PartitionDef
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound
from lance_flight.flight.backend import Caller
from lance_flight.flight.engine_backend import EngineBackend
from lance_namespace import CreateNamespaceRequest, ListTablesRequest, RegisterTableRequest

from tests.engine.database import open_engine
from tests.engine.directory_namespace import lay_out, listed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What stock Lance makes of four namespaces, one of them empty, and two tables."""
    namespace = DirectoryNamespace(root=str(tmp_path))
    for path in (["a"], ["a", "b"], ["a", "b", "c"], ["empty"]):
        namespace.create_namespace(CreateNamespaceRequest(id=path))
    for number, path in enumerate((["a", "t"], ["a", "b", "t"])):
        location = f"0{number}_{'$'.join(path)}"
        lance.write_dataset(pa.table({"id": [number]}), str(tmp_path / location))
        namespace.register_table(RegisterTableRequest(id=path, location=location))
    return tmp_path


@pytest.fixture
def engine(root: Path) -> Engine:
    return open_engine(root)


def test_every_namespace_is_a_schema_and_shows_its_tables(engine: Engine) -> None:
    assert engine.root.schemas() == ["a", "a.b", "a.b.c", "empty", "public"]
    assert [(row["table_schema"], row["table_name"]) for row in engine.query("SHOW TABLES").to_pylist()] == [
        ("a", "t"),
        ("a.b", "t"),
    ]
    backend = EngineBackend(engine)
    assert [name for _, name in backend.db_schemas(Caller())] == ["a", "a.b", "a.b.c", "empty", "public"]
    assert [(table.db_schema, table.name) for table in backend.tables(Caller())] == [("a", "t"), ("a.b", "t")]


READ = {
    "SELECT id FROM a.t": [0],
    'SELECT id FROM "a.b".t': [1],
    'SELECT id FROM lance."a.b".t': [1],
    'SELECT x.id + y.id AS id FROM a.t x, "a.b".t y': [1],
    'SELECT count(*) AS id FROM "a.b"."t$tags"': [0],
    'SELECT id FROM "a.b"."t@1"': [1],
}


@pytest.mark.parametrize("sql", READ)
def test_tables_are_read_by_the_schema_of_their_namespace(engine: Engine, sql: str) -> None:
    assert engine.query(sql)["id"].to_pylist() == READ[sql]


def test_a_name_that_another_server_gives_meanwhile_stays_with_its_table(
    engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_engine(root)
    left: list[set[str]] = []

    def create_first(point: str) -> None:
        if point == "table_moved":
            monkeypatch.undo()
            other.update("CREATE TABLE \"a.b\".new AS SELECT 'first' AS word")
            left.append({path.name for path in root.iterdir()})

    monkeypatch.setattr(directory, "failpoint", create_first)
    with pytest.raises(AlreadyExists, match="new"):
        engine.update("CREATE TABLE \"a.b\".new AS SELECT 'second' AS word")
    assert engine.query('SELECT word FROM "a.b".new')["word"].to_pylist() == ["first"]
    assert other.query('SELECT word FROM "a.b".new')["word"].to_pylist() == ["first"]
    (removed,) = left[0] - {path.name for path in root.iterdir()}
    assert removed.endswith("_a$b$new"), "the table that nobody has seen"


def test_two_servers_make_tables_of_one_namespace_at_once(root: Path) -> None:
    engines = [open_engine(root) for _ in range(4)]
    with ThreadPoolExecutor(len(engines)) as pool:
        list(
            pool.map(
                lambda number: engines[number].update(f'CREATE TABLE "a.b".t{number} AS SELECT {number} AS id'),
                range(len(engines)),
            )
        )
    found = open_engine(root)
    for number in range(len(engines)):
        assert found.query(f'SELECT id FROM "a.b".t{number}')["id"].to_pylist() == [number]


@pytest.mark.parametrize("partitioned_by", [(), ("id",)], ids=["plain", "partitioned"])
def test_an_ingest_replaces_a_listed_table(tmp_path: Path, partitioned_by: tuple[str, ...]) -> None:
    lay_out(tmp_path, {"t": "t.lance"})
    engine = open_engine(tmp_path)
    rows = pa.table({"id": pa.array([7], pa.int64())})
    fields = tuple(PartitionDef(columns=((name,),), transform="identity") for name in partitioned_by)
    engine.ingest(
        TableName("public", "t"),
        rows.to_reader(),
        create_missing=True,
        existing=IfExists.REPLACE,
        options=IngestOptions(properties=TableProperties(partitioned_by=fields)),
    )
    found = open_engine(tmp_path)
    assert found.query("SELECT id FROM t")["id"].to_pylist() == [7]
    assert found.root.kinds() == {TableName("public", "t"): bool(partitioned_by)}
    assert listed(tmp_path) == ({} if partitioned_by else {"t": "t.lance"})


def test_a_namespace_with_a_dot_in_its_name_gets_the_tables_that_are_made_in_it(engine: Engine, root: Path) -> None:
    stock = DirectoryNamespace(root=str(root))
    stock.create_namespace(CreateNamespaceRequest(id=["x.y"]))
    engine.update('CREATE TABLE "x.y".t AS SELECT 1 AS id')
    assert stock.list_tables(ListTablesRequest(id=["x.y"])).tables == ["t"]
    assert engine.query('SELECT id FROM "x.y".t')["id"].to_pylist() == [1]


def test_a_schema_that_is_not_dropped_stays_whole(engine: Engine, root: Path) -> None:
    (root / "empty").mkdir()
    (root / "empty" / "notes.txt").write_text("kept")
    with pytest.raises(InvalidInput, match="not empty"):
        engine.update("DROP SCHEMA empty")
    rows = lance.dataset(str(root / "__manifest")).to_table()["object_id"].to_pylist()
    assert "empty" in rows
    (root / "empty" / "notes.txt").unlink()
    engine.update("DROP SCHEMA empty")
    assert "empty" not in engine.root.schemas()


def test_a_schema_that_is_a_directory_as_well_takes_new_tables_there(engine: Engine, root: Path) -> None:
    (root / "empty").mkdir()
    engine.update("CREATE TABLE empty.new (id INT)")
    assert (root / "empty" / "new.lance").is_dir()
    assert engine.query("SELECT id FROM empty.new").num_rows == 0


def test_a_directory_has_the_name_that_is_listed_and_no_other(tmp_path: Path) -> None:
    lay_out(tmp_path, {"called": "called_once.lance"})
    engine = open_engine(tmp_path)
    assert [str(name) for name in engine.root.tables()] == ["public.called"]
    with pytest.raises(NotFound):
        engine.query("SELECT id FROM called_once")
    with pytest.raises(AlreadyExists, match="no room"):
        engine.update("CREATE TABLE called_once (id INT)")


def test_a_table_of_the_root_has_its_name_before_one_of_a_namespace_called_public(tmp_path: Path) -> None:
    lay_out(tmp_path, {"public$t": "1_t", "t": "2_t", "public$u": "3_u"})
    engine = open_engine(tmp_path)
    assert engine.query("SELECT t.id AS t, u.id AS u FROM t, u").to_pylist() == [{"t": 1, "u": 2}]
