"""Roots with things in them that are no tables, or broken ones: each is named, the others go on working."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from tests.engine.commands import Commands
from tests.engine.database import Database
from tests.service.server_process import files
from tests.stock import manifest, stored_tables


def lose_column(name: str) -> Callable[[Path], None]:
    """What a writer does that does not know a column."""

    def spoil(place: Path) -> None:
        manifest(place).drop_columns([name])

    return spoil


def change_column(name: str, kind: pa.DataType) -> Callable[[Path], None]:
    """Give a column of the manifest another type, and no values."""

    def spoil(place: Path) -> None:
        manifest(place).drop_columns([name])
        manifest(place).add_columns(pa.schema([(name, kind)]))

    return spoil


def overwrite(*path: str) -> Callable[[Path], None]:
    """Put something else into every file of a directory."""

    def spoil(place: Path) -> None:
        for file in place.joinpath(*path).iterdir():
            file.write_bytes(b"no such thing" * 20)

    return spoil


def remove(*path: str) -> Callable[[Path], None]:
    """Remove a directory."""

    def spoil(place: Path) -> None:
        shutil.rmtree(place.joinpath(*path))

    return spoil


def set_metadata(values: dict[str, str | None]) -> Callable[[Path], None]:
    """Spoil the table metadata of the manifest."""

    def spoil(place: Path) -> None:
        manifest(place).update_metadata(values)

    return spoil


def set_column(name: str, value: str) -> Callable[[Path], None]:
    """Set a column of the partition tables' rows in the manifest to an SQL expression."""

    def spoil(place: Path) -> None:
        manifest(place).update({name: value}, where="object_type = 'table'")

    return spoil


def remove_tables(place: Path) -> None:
    """Remove the directories of all partition tables."""
    for table in stored_tables(place):
        shutil.rmtree(place / table.row["location"])


SPOILT = [
    (lose_column("partition_field_part"), "[corrupt]", ["'{t}'", "partition_field_part", "repair"]),
    *(
        pytest.param(lose_column(name), "[corrupt]", ["'{t}'", f"without the column '{name}'"], id=f"no {name}")
        for name in ("object_id", "object_type", "location")
    ),
    (change_column("location", pa.int64()), "[corrupt]", ["'{t}'", "'location' is int64"]),
    pytest.param(
        overwrite("__manifest", "_versions"),
        "[corrupt]",
        ["'{t}'", "'__manifest/_versions/1844", "manifest' cannot be read: LanceError(IO): file size"],
        id="versions of garbage",
    ),
    (set_metadata({"partition_spec_v1": "{"}), "[corrupt]", ["'{t}'", "partition_spec_v1"]),
    (set_metadata({"partition_spec_v1": '{"id":2,"fields":[{}]}'}), "[corrupt]", ["id is 2", "fields[0]"]),
    pytest.param(set_metadata({"schema": None}), "[corrupt]", ["'{t}'", "'schema'"], id="no schema"),
    pytest.param(set_metadata({"schema": "no json"}), "[corrupt]", ["'{t}'"], id="schema no JSON"),
    (set_metadata({"schema": '{"fields":[{"name":"id"}]}'}), "[corrupt]", ["'{t}'", "fields[0].type"]),
    pytest.param(remove_tables, "[corrupt]", ["partition table", "dataset"], id="no directories"),
    pytest.param(set_column("location", "NULL"), "[corrupt]", ["location", "dataset"], id="no locations"),
    pytest.param(set_column("location", "'../elsewhere'"), "[corrupt]", ["'../elsewhere'"], id="locations outside"),
    pytest.param(set_column("location", "'/etc'"), "[corrupt]", ["'/etc'"], id="absolute locations"),
    pytest.param(set_column("read_version", "99"), "[corrupt]", ["99"], id="versions that are not there"),
    pytest.param(set_column("read_tag", "'x'"), "[corrupt]", ["read_tag='x'", "read_version=2"], id="two pins"),
]


@pytest.fixture
def spoilable(database: Database, table: str) -> str:
    """A partitioned table that may be broken; it is removed afterwards, lest others list it."""
    database.ingest(table, pa.table({"id": [1, 2], "part": [1, 2]}), partition_by="part")
    return table


def paths(database: Database) -> list[str]:
    """Where tables are kept, as we and as Lance write it, and where Lance was built."""
    return [str(database.root), str(database.root).lstrip("/"), ".rs:"]


@pytest.mark.parametrize(("spoil", "code", "says"), SPOILT)
def test_a_broken_namespace_says_what_is_broken_and_the_others_go_on(
    database: Database, spoilable: str, spoil: Callable[[Path], None], code: str, says: list[str]
) -> None:
    assert database.value(f"SELECT count(id) FROM {spoilable}") == 2
    database.run(f"CREATE TABLE {spoilable}_beside (id INT)")
    spoil(database.root / spoilable)
    try:
        message = database.refuses(f"SELECT id FROM {spoilable}")
        assert [part for part in [code, *says] if part.format(t=spoilable) not in message] == []
        assert [part for part in ("Traceback", "[internal]", *paths(database)) if part in message] == []
        assert database.run(f"INSERT INTO {spoilable}_beside VALUES (1)") == 1
        assert ("public", spoilable, True) in database.rows("SHOW TABLES")
    finally:
        database.run(f"DROP TABLE {spoilable}")
    assert "not_found" in database.refuses(f"SELECT id FROM {spoilable}")


MISNAMED = ["partition_spec_vx", "partition_spec_v", "partition_spec_v-1", "partition_spec_v\N{SUPERSCRIPT TWO}"]


@pytest.mark.parametrize("key", MISNAMED)
def test_a_namespace_whose_only_spec_has_no_number_in_its_key_says_so(
    database: Database, commands: Commands, spoilable: str, key: str
) -> None:
    spec = manifest(database.root / spoilable).metadata["partition_spec_v1"]
    set_metadata({"partition_spec_v1": None, key: spec})(database.root / spoilable)
    try:
        entries = [
            "SELECT id FROM {}",
            "DESCRIBE {}",
            "VERIFY TABLE {}",
            "INSERT INTO {} VALUES (3, 1)",
            "SELECT * FROM {}$specs",
            "SHOW PARTITIONS {}",
        ]
        for sql in entries:
            message = database.refuses(sql.format(spoilable))
            expected = ["[corrupt]", f"'{spoilable}'", f"'{key}'", "expected partition_spec_v<N>", "N is 1, 2 …"]
            assert [part for part in expected if part not in message] == [], sql
            assert [
                part for part in ("Traceback", "[internal]", "IndexError", *paths(database)) if part in message
            ] == []
        assert ("public", spoilable, True) in database.rows("SHOW TABLES")
        verified = commands.run("verify", database.root, spoilable)
        assert verified.status != 0
        assert f"'{key}'" in verified.err
        assert "Traceback" not in verified.err
    finally:
        database.run(f"DROP TABLE {spoilable}")


def test_a_key_that_only_begins_like_one_of_a_spec_is_nobodys_business_beside_specs(
    database: Database, spoilable: str
) -> None:
    set_metadata({"partition_spec_version": "1"})(database.root / spoilable)
    assert database.value(f"SELECT count(*) FROM {spoilable}") == 2
    database.run(f"DROP TABLE {spoilable}")


UNREADABLE = [
    pytest.param(remove("__manifest", "data"), ["__manifest/data/", "Not found"], id="no files"),
    pytest.param(overwrite("__manifest", "data"), ["__manifest that cannot be read"], id="files of garbage"),
]


@pytest.mark.parametrize(("spoil", "says"), UNREADABLE)
def test_a_manifest_whose_files_cannot_be_read_is_listed_and_says_so(
    database: Database, table: str, tmp_path: Path, spoil: Callable[[Path], None], says: list[str]
) -> None:
    database.ingest(table, pa.table({"id": [1, 2], "part": [1, 2]}), partition_by="part")
    root = tmp_path / "root"
    shutil.copytree(database.root / table, root / "broken")
    spoil(root / "broken")
    fresh = Database(root)
    for sql in ("SELECT id FROM broken", "DESCRIBE broken", "INSERT INTO broken VALUES (1, 1)"):
        message = fresh.refuses(sql)
        assert [part for part in ["[corrupt]", "'broken'", *says] if part not in message] == []
        assert [part for part in ("Traceback", *paths(fresh)) if part in message] == []
    fresh.run("CREATE TABLE beside AS SELECT 1 AS id")
    assert fresh.rows("SHOW TABLES") == [("public", "beside", False), ("public", "broken", True)]
    fresh.run("DROP TABLE broken")
    assert fresh.rows("SHOW TABLES") == [("public", "beside", False)]


def test_partitions_of_missing_tables_are_listed_without_a_size(database: Database, spoilable: str) -> None:
    remove_tables(database.root / spoilable)
    assert database.rows(f"SELECT part, rows, bytes FROM {spoilable}$partitions ORDER BY part") == [
        (1, None, None),
        (2, None, None),
    ]
    database.run(f"DROP TABLE {spoilable}")


SPOILT_PLAIN = [
    pytest.param(overwrite("_versions"), ["cannot be read: LanceError(IO): file size is too small"], id="garbage"),
    pytest.param(lambda place: [f.unlink() for f in (place / "_versions").iterdir()], ["cannot be read"], id="none"),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILT_PLAIN)
def test_a_plain_table_whose_versions_cannot_be_read_is_there_and_says_so(
    database: Database, table: str, spoil: Callable[[Path], None], says: list[str]
) -> None:
    database.ingest(table, pa.table({"id": [1]}))
    spoil(database.root / f"{table}.lance")
    for sql in (f"SELECT * FROM {table}", f"DESCRIBE {table}", f"INSERT INTO {table} VALUES (1)"):
        message = database.refuses(sql)
        assert [part for part in ["[corrupt]", f"'{table}.lance", *says] if part not in message] == []
        assert [part for part in ("Traceback", "[internal]", *paths(database)) if part in message] == []
    assert "already_exists" in database.refuses(f"CREATE TABLE {table} (id INT)")
    assert ("public", table, False) in database.rows("SHOW TABLES")
    database.run(f"DROP TABLE {table}")
    assert "not_found" in database.refuses(f"SELECT * FROM {table}")


def test_a_version_that_cannot_be_read_leaves_the_others(database: Database, table: str) -> None:
    database.ingest(table, pa.table({"id": [1]}))
    database.ingest(table, pa.table({"id": [2]}), "append")
    oldest = max((database.root / f"{table}.lance" / "_versions").glob("*.manifest"))
    oldest.write_bytes(b"no such thing" * 20)
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
    assert "[corrupt]" in database.refuses(f"SELECT id FROM {table}@1")
    assert "[not_found]" in database.refuses(f"SELECT id FROM {table}@3")
    assert "[not_found]" in database.refuses(f"SELECT id FROM {table}@nope")


def not_tables(root: Path) -> None:
    """Things that may lie in a directory and are no tables."""
    (root / "empty").mkdir()
    (root / "empty.lance").mkdir()
    (root / "file.lance").write_text("no directory")
    (root / "hollow").mkdir()
    (root / "hollow" / "__manifest").mkdir()
    (root / "odd$name.lance").mkdir()
    (root / "notes.txt").write_text("notes")
    lance.write_dataset(pa.table({"x": [1]}), str(root / "no_suffix"))
    lance.write_dataset(pa.table({"x": [1]}), str(root / ".hidden.lance"))
    lance.write_dataset(pa.table({"x": [1]}), str(root / "plain.lance"))
    lance.write_dataset(pa.table({"object_id": ["a"]}), str(root / "strange" / "__manifest"))


def test_what_is_no_table_is_not_listed_and_not_found(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    not_tables(root)
    before = files(root)
    database = Database(root)
    assert database.rows("SHOW TABLES") == [("public", "plain", False)]
    for name in ("empty", "file", "hollow", "odd$name", "notes", "no_suffix", ".hidden", "strange"):
        assert "not_found" in database.refuses(f'SELECT * FROM "{name}"')
        assert "not_found" in database.refuses(f'DROP TABLE "{name}"')
        assert "not_found" in database.refuses(f'SHOW PARTITIONS "{name}"')
    assert database.rows("SELECT x FROM plain") == [(1,)]
    assert {name for name in files(root) - before if not name.startswith(".lance-flight")} == set()


@pytest.mark.parametrize("name", ["hollow", "no_suffix"])
def test_a_table_is_not_made_where_something_lies_already(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    not_tables(root)
    database = Database(root)
    database.run(f"CREATE TABLE {name}_plain (id INT)")
    before = files(root)
    message = database.refuses(f"CREATE TABLE {name} (id INT) PARTITIONED BY (id)")
    assert "already_exists" in message
    assert f"'{name}'" in message
    assert files(root) == before


def test_a_replacement_without_room_leaves_the_old_table(database: Database, table: str) -> None:
    database.ingest(table, pa.table({"id": [1, 2]}), partition_by="id")
    (database.root / f"{table}.lance").mkdir()
    (database.root / f"{table}.lance" / "in_the_way").write_text("x")
    before = files(database.root)
    assert "already_exists" in database.refuses_ingest(table, pa.table({"id": [3]}), "replace")
    assert files(database.root) == before
    assert sorted(database.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
    shutil.rmtree(database.root / f"{table}.lance")
    database.ingest(table, pa.table({"id": [3]}), "replace")
    assert database.rows(f"SELECT id FROM {table}") == [(3,)]


def test_a_root_that_is_itself_a_namespace_is_one_table(database: Database, table: str) -> None:
    database.ingest(table, pa.table({"id": [1, 2], "part": [1, 2]}), partition_by="part")
    inner = Database(database.root / table)
    assert inner.rows("SHOW TABLES") == [("public", table, True)]
    assert sorted(inner.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]
    assert inner.run(f"INSERT INTO {table} VALUES (3, 1)") == 1
    before = files(database.root / table)
    for sql in (f"DROP TABLE {table}", "CREATE TABLE other (id INT)"):
        assert "unsupported" in inner.refuses(sql)
    assert files(database.root / table) == before
    assert database.value(f"SELECT count(*) FROM {table}") == 3


def test_tables_that_others_wrote_are_there_at_once(database: Database, table: str) -> None:
    def write(rows: list[int], mode: Any) -> None:
        lance.write_dataset(pa.table({"id": rows}), str(database.root / f"{table}.lance"), mode=mode)

    write([1], "create")
    assert database.rows(f"SELECT * FROM {table}") == [(1,)]
    write([2], "append")
    assert sorted(database.rows(f"SELECT * FROM {table}")) == [(1,), (2,)]
    shutil.rmtree(database.root / f"{table}.lance")
    assert "not_found" in database.refuses(f"SELECT * FROM {table}")


def test_tables_of_a_stock_directory_namespace_are_served(tmp_path: Path) -> None:
    from lance.namespace import DirectoryNamespace
    from lance_namespace import CreateNamespaceRequest, CreateTableRequest

    root = tmp_path / "root"
    root.mkdir()
    stock = DirectoryNamespace(root=str(root))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"id": pa.int64()})) as writer:
        writer.write_table(pa.table({"id": [1, 2]}))
    stock.create_namespace(CreateNamespaceRequest(id=["ns1"]))
    stock.create_table(CreateTableRequest(id=["ns1", "deep"]), sink.getvalue().to_pybytes())
    stock.create_table(CreateTableRequest(id=["top"]), sink.getvalue().to_pybytes())
    database = Database(root)
    assert database.rows("SHOW TABLES") == [("ns1", "deep", False), ("public", "top", False)]
    assert database.rows("SELECT d.id FROM ns1.deep d JOIN top t ON d.id = t.id ORDER BY d.id") == [(1,), (2,)]
    database.run("INSERT INTO top VALUES (3)")
    database.run("DROP TABLE ns1.deep")
    assert database.rows("SHOW TABLES") == [("public", "top", False)]
    assert stock.count_table_rows is not None
    assert lance.dataset(str(root / "top.lance")).count_rows() == 3
