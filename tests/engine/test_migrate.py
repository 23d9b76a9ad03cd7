"""`lance-flight migrate` and MIGRATE TABLE, as a user runs them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace import DescribeTableRequest, ListTablesRequest, RegisterTableRequest

from tests.catalog.by_hand import IN_ARROW, IN_ROWS, METADATA, lay_out
from tests.engine import directory_namespace
from tests.engine.commands import Commands
from tests.engine.database import Database
from tests.service.server_process import files
from tests.stock import manifest, manifest_rows


def test_a_foreign_table_is_written_to_once_it_was_migrated(tmp_path: Path, commands: Commands) -> None:
    root = tmp_path / "root"
    lay_out(root / "events", specs=IN_ROWS, schema=IN_ROWS, pins=False)
    insert = "INSERT INTO events VALUES (99, '2025-12-10', 'US')"
    database = Database(root)
    assert database.value("SELECT count(*) FROM events WHERE id < 600") == 5
    assert "[unsupported]" in database.refuses(insert)
    assert "`lance-flight migrate ROOT events`" in database.refuses(insert)
    assert commands.printed("migrate", root, "events")[0].startswith(
        "events: partition_spec_v1 went from the metadata of its v<N>"
    )
    assert database.run(insert) == 1
    assert database.value("SELECT count(*) FROM events WHERE id < 600") == 6


def test_migrate_table_in_sql_returns_what_it_moved(tmp_path: Path) -> None:
    root = tmp_path / "root"
    lay_out(root / "events", specs=IN_ARROW, schema=IN_ARROW)
    database = Database(root)
    planned = database.query("MIGRATE TABLE events DRY RUN")
    assert "schema" not in manifest(root / "events").metadata
    assert database.query("MIGRATE TABLE events").to_pylist() == planned.to_pylist()
    assert planned["key"].to_pylist() == sorted(METADATA)
    assert database.query("MIGRATE TABLE events").num_rows == 0
    assert "[invalid_sql]" in database.refuses("MIGRATE TABLE events NOW")
    assert "[not_found]" in database.refuses("MIGRATE TABLE nothing")


def test_a_dry_run_prints_what_would_change_and_writes_nothing(tmp_path: Path, commands: Commands) -> None:
    for name in ("one", "two"):
        lay_out(tmp_path / name, specs=IN_ARROW, schema=IN_ROWS)
    lay_out(tmp_path / "ours")
    before = files(tmp_path)
    lines = commands.printed("migrate", tmp_path, "--dry-run")
    assert files(tmp_path) == before
    assert "ours: everything is in the table metadata of its __manifest" in lines
    told = {head.split(" would go ")[0]: json.loads(value) for head, value in pairwise(lines) if " would go " in head}
    assert told == {f"{name}: {key}": value for name in ("one", "two") for key, value in METADATA.items()}
    commands.printed("migrate", tmp_path)
    for name in ("one", "two"):
        assert {key: json.loads(manifest(tmp_path / name).metadata[key]) for key in METADATA} == METADATA


def plain(root: Path, *names: str) -> None:
    for number, name in enumerate(names):
        lance.write_dataset(pa.table({"id": [number]}), str(root / f"{name}.lance"))


@pytest.mark.parametrize("stock", [True, False], ids=["made by Lance", "made by us"])
def test_plain_tables_are_listed_for_lance_without_a_listing_of_directories(
    tmp_path: Path, commands: Commands, *, stock: bool
) -> None:
    plain(tmp_path, "a", "b", "c")
    lay_out(tmp_path / "parts")
    if stock:
        namespace = DirectoryNamespace(root=str(tmp_path))
        namespace.register_table(RegisterTableRequest(id=["a"], location="a.lance"))
    missing = ["b", "c"] if stock else ["a", "b", "c"]
    before = files(tmp_path)
    told = commands.printed("migrate", tmp_path, "--register", "--dry-run")
    assert told == [f"{name}: would be listed at '{name}.lance'" for name in missing]
    assert files(tmp_path) == before
    assert commands.printed("migrate", tmp_path, "c", "--register") == ["c: is listed at 'c.lance'"]
    assert commands.printed("migrate", tmp_path, "--register") == [
        f"{name}: is listed at '{name}.lance'" for name in missing[:-1]
    ]
    assert commands.printed("migrate", tmp_path, "--register") == ["nothing is to be listed"]
    assert {row["object_id"]: row["location"] for row in manifest_rows(tmp_path)} == {n: f"{n}.lance" for n in "abc"}
    v2 = DirectoryNamespace(root=str(tmp_path), dir_listing_enabled="false")
    assert sorted(v2.list_tables(ListTablesRequest(id=[])).tables) == ["a", "b", "c"]
    assert v2.describe_table(DescribeTableRequest(id=["b"])).location.endswith("b.lance")
    plain(tmp_path, "d")
    v2.register_table(RegisterTableRequest(id=["d"], location="d.lance"))
    database = Database(tmp_path)
    assert database.rows("SHOW TABLES") == [("public", name, name == "parts") for name in ("a", "b", "c", "d", "parts")]
    assert database.rows("SELECT a.id, b.id, c.id, d.id FROM a, b, c, d") == [(0, 1, 2, 0)]


def test_columns_and_rows_that_are_there_stay(tmp_path: Path, commands: Commands) -> None:
    directory_namespace.lay_out(tmp_path, {"a": "12_a", "ns$t": "34_t"})
    manifest(tmp_path).add_columns(pa.schema([pa.field("somebody_elses", pa.utf8())]))
    manifest(tmp_path).update({"somebody_elses": "'x'"})
    before = manifest_rows(tmp_path)
    plain(tmp_path, "b", "a")
    assert commands.printed("migrate", tmp_path, "--register") == ["b: is listed at 'b.lance'"], "a lies elsewhere"
    assert [row for row in manifest_rows(tmp_path) if row["object_id"] != "b"] == before


REFUSED = [
    pytest.param(["nothing"], "no table 'nothing'", id="an unknown table"),
    pytest.param(["plain"], "is not partitioned", id="a plain table"),
    pytest.param(["nothing", "--register"], "no table 'nothing'", id="an unknown plain table"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED)
def test_migrate_fails_with_one_line(tmp_path: Path, commands: Commands, arguments: list[str], says: str) -> None:
    plain(tmp_path, "plain")
    before = files(tmp_path)
    ended = commands.run("migrate", tmp_path, *arguments)
    assert (ended.status, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    assert says in line
    assert files(tmp_path) == before


def test_a_root_that_is_partitioned_lists_no_plain_tables(tmp_path: Path, commands: Commands) -> None:
    lay_out(tmp_path)
    before = files(tmp_path)
    assert "partitioned namespace" in commands.run("migrate", tmp_path, "--register").err
    assert files(tmp_path) == before


def test_a_manifest_that_asks_for_more_than_we_know_is_left_alone(tmp_path: Path, commands: Commands) -> None:
    directory_namespace.lay_out(tmp_path, {"a": "12_a"})
    manifest(tmp_path).update_metadata({"lance.namespace.manifest.writer_feature_flags": "8"})
    plain(tmp_path, "b")
    before = files(tmp_path)
    assert "features that are not known here: 8" in commands.run("migrate", tmp_path, "--register").err
    assert files(tmp_path) == before
