"""`lance-flight export`: tables and queries of a root and of a server as files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight_client.cli import main
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import open_files

from tests.service.server_process import Server

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "x": [0.5, None, 2.5],
        "day": [dt.date(2025, 1, 2)] * 3,
        "site": ["Oslo", "Oslo", "Lima"],
    }
)


@dataclass(frozen=True)
class Place:
    """A table of a root or of a server, and a directory to write to."""

    table: str
    target: Sequence[str]
    files: Path
    capsys: pytest.CaptureFixture[str]

    def export(self, what: str, name: str, *arguments: str) -> tuple[int, str, str]:
        """Run the command; its status, and what it prints."""
        status = main(["export", what, "-o", str(self.files / name), *arguments, *self.target])
        return (status, *self.capsys.readouterr())

    def read(self, name: str) -> pa.Table:
        """What was written, as it is read again."""
        source = open_files([str(self.files / name)], None, TextOptions(), None)  # type: ignore[arg-type]
        return pa.Table.from_batches(source.batches(source.schema), source.schema)

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.files.iterdir())


@pytest.fixture(params=["root", "uri"])
def place(
    request: pytest.FixtureRequest, server: Server, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Place:
    server.ingest(table, ROWS, partition_by="site")
    target = ["--root", str(server.root)] if request.param == "root" else ["--uri", server.uri]
    return Place(table, target, tmp_path, capsys)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl", "a.arrow"])
def test_a_table_is_written_as_it_is_read_again(place: Place, name: str) -> None:
    status, said, _ = place.export(place.table, name)
    assert status == 0
    assert f"{name}: 3 rows, " in said
    # JSON has no dates.
    assert place.read(name).cast(ROWS.schema).sort_by("id") == ROWS
    assert place.left == [name]


def test_a_query_is_written_and_replaces_a_file(place: Place) -> None:
    for least in (3, 2):
        query = f"SELECT id, [id, NULL] AS ids FROM {place.table} WHERE id >= {least} ORDER BY id"
        assert place.export(query, "a.csv")[0] == 0
    assert (place.files / "a.csv").read_text() == '"id","ids"\n2,"[2, null]"\n3,"[3, null]"\n'


def test_rows_are_written_to_directories_by_their_values(place: Place) -> None:
    assert place.export(place.table, "out", "--format", "parquet", "--by", "site,day")[0] == 0
    found = sorted(path.parent.relative_to(place.files).as_posix() for path in place.files.rglob("*.parquet"))
    assert found == ["out/site=Lima/day=2025-01-02", "out/site=Oslo/day=2025-01-02"]
    assert place.read("out").select(["id", "site"]).sort_by("id") == ROWS.select(["id", "site"])
    status, _, errors = place.export(place.table, "out", "--format", "parquet", "--by", "site")
    assert status == 1
    assert "is there already; expected a new directory" in errors


def test_csv_has_binary_values_as_hexadecimal(place: Place) -> None:
    assert place.export("SELECT X'00ff' AS b, CAST(NULL AS BINARY) AS n", "a.csv")[0] == 0
    assert (place.files / "a.csv").read_text() == '"b","n"\n"\\x00ff",\n'


REFUSED = {
    "type": (["SELECT INTERVAL '1 month' AS i", "a.parquet"], "the rows cannot be written as parquet"),
    "format": (["TABLE", "a.txt"], "expected a name that ends with .parquet, .csv, .jsonl, .arrow"),
    "no-format": (["TABLE", "out", "--by", "site"], "expected --format"),
    "column": (["TABLE", "out", "--format", "csv", "--by", "nope"], "no column 'nope'"),
    "table": (["nowhere", "a.csv"], "nowhere"),
    "query": (["SELECT 1 / (id - id) FROM TABLE", "a.csv"], "Divide by zero"),
    "directory": (["TABLE", "missing/a.csv"], "missing/a.csv"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_leaves_nothing(place: Place, arguments: list[str], message: str) -> None:
    what, *rest = (text.replace("TABLE", place.table) for text in arguments)
    status, _, errors = place.export(what, *rest)
    assert status == 1
    assert message in errors
    assert place.left == []
