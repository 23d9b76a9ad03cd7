"""Snapshots of Iceberg and Delta tables as sources of rows, and as tables that `lance-flight ingest` loads."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import lance_flight
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.errors import InvalidInput, LanceFlightError, NotFound
from lance_flight_client.cli import main
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import open_files

FIRST = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "site": ["Oslo", None, "Lima"], "tags": [["a"], [], None]})
MORE = FIRST.set_column(0, "id", pa.array([4, 5, 6], pa.int64()))


def delta(at: Path) -> tuple[str, int]:
    """Make a table with two versions and a deletion; its argument, and the first version."""
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(at, FIRST, partition_by=["site"])
    write_deltalake(at, MORE, mode="append")
    DeltaTable(at).delete("id = 2")
    return f"delta:{at}", 0


def iceberg(at: Path) -> tuple[str, int]:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import EqualTo

    catalog = SqlCatalog("made", uri="sqlite:///:memory:", warehouse=f"file://{at}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", FIRST.schema)
    table.append(FIRST)
    first = table.current_snapshot()
    table.append(MORE)
    table.delete(EqualTo("id", 2))
    assert first is not None
    return f"iceberg:{at}/n/t", first.snapshot_id


MADE: dict[str, Callable[[Path], tuple[str, int]]] = {"delta": delta, "iceberg": iceberg}


def rows(argument: str) -> list[dict[str, object]]:
    source = open_files([argument], None, TextOptions(), io.BytesIO())
    assert not source.guesses
    batches = source.batches(source.schema)
    found = pa.Table.from_batches(batches, source.schema).to_pylist()
    return sorted(found, key=lambda row: int(str(row["id"])))


@pytest.mark.parametrize("format", MADE)
def test_the_newest_and_an_earlier_version_are_read(tmp_path: Path, format: str) -> None:
    argument, first = MADE[format](tmp_path / "made")
    left = [row for row in [*FIRST.to_pylist(), *MORE.to_pylist()] if row["id"] != 2]
    assert rows(argument) == left
    assert rows(f"{argument}@{first}") == FIRST.to_pylist()


@pytest.mark.parametrize("format", MADE)
def test_a_snapshot_becomes_a_table_by_one_command(tmp_path: Path, format: str) -> None:
    argument, first = MADE[format](tmp_path / "made")
    place = ["--table", "t", "--root", str(tmp_path / "lake")]
    assert main(["ingest", argument, *place, "--partition-by", "site"]) == 0
    assert main(["ingest", f"{argument}@{first}", *place, "--mode", "append"]) == 0
    stored = lance_flight.dataset(tmp_path / "lake", "t").to_table()
    assert sorted(stored["id"].to_pylist()) == [1, 1, 2, 3, 3, 4, 5, 6]
    assert stored.filter(pc.equal(stored["id"], 1))["tags"].to_pylist() == [["a"], ["a"]]


def test_the_metadata_file_of_an_iceberg_table_is_enough(tmp_path: Path) -> None:
    iceberg(tmp_path / "made")
    files = sorted((tmp_path / "made" / "n" / "t" / "metadata").glob("*.metadata.json"))
    assert [len(rows(f"iceberg:{file}")) for file in files] == [0, 3, 6, 5]


def test_a_directory_with_two_newest_versions_is_refused(tmp_path: Path) -> None:
    argument, _ = iceberg(tmp_path / "made")
    newest = max((tmp_path / "made" / "n" / "t" / "metadata").glob("*.metadata.json"))
    other = newest.with_name(newest.name[:6] + "lost.metadata.json")
    other.write_bytes(newest.read_bytes())
    with pytest.raises(InvalidInput, match=rf"2 newest versions; name one: .*{other.name}"):
        rows(argument)


MISSING: dict[str, tuple[str, type[LanceFlightError], str]] = {
    "delta-path": ("delta:{0}/none", NotFound, "'delta:.*none' cannot be read"),
    "delta-version": ("delta:{0}/delta@77", NotFound, "@77' cannot be read"),
    "iceberg-path": ("iceberg:{0}/none", NotFound, "has no Iceberg table; expected a directory"),
    "iceberg-file": ("iceberg:{0}/none.metadata.json", NotFound, "cannot be read"),
    "iceberg-version": ("iceberg:{0}/iceberg/n/t@77", NotFound, r"no snapshot 77; the newest are \d+"),
}


@pytest.mark.parametrize(("argument", "error", "said"), MISSING.values(), ids=MISSING)
def test_what_is_not_there_is_named(tmp_path: Path, argument: str, error: type[LanceFlightError], said: str) -> None:
    delta(tmp_path / "delta")
    iceberg(tmp_path / "iceberg")
    with pytest.raises(error, match=said):
        rows(argument.format(tmp_path))


def test_a_table_stands_alone(tmp_path: Path) -> None:
    argument, _ = delta(tmp_path / "made")
    for arguments, format in (([argument, argument], None), ([argument, "a.csv"], None), ([argument], "csv")):
        with pytest.raises(InvalidInput, match=f"'{argument}' stands for a whole table"):
            open_files(arguments, format, TextOptions(), io.BytesIO())


@pytest.mark.parametrize(("format", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, format: str, package: str) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput, match=re.escape(f"install 'lance-flight[{format}]'")):
        rows(f"{format}:lake/t")
