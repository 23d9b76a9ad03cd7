"""`lance-flight ingest`: files into tables of a root and of a server, in one commit each."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight_client.cli import main

from tests.documents import blocks
from tests.service.server_process import COMMAND, Server

FLIGHTS = "id,at,origin\n1,2013-01-01 05:00:00,JFK\n2,2013-02-01 06:00:00,LGA\n3,2013-02-02 07:00:00,JFK\n"
MORE = "id,at,origin\n9,2013-02-03 05:00:00,EWR\n"


@dataclass(frozen=True)
class Place:
    """Files, and a place to load them into: a root, or a server over it."""

    files: Path
    target: Sequence[str]
    engine: Engine
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def ingest(self, *arguments: str, pipe: str = "") -> tuple[int, str, str]:
        """Run the command in this process; its status, and what it prints."""
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(pipe.encode())))
        status = main(["ingest", *arguments, *self.target])
        return (status, *self.capsys.readouterr())

    def stores(self, *arguments: str, pipe: str = "") -> str:
        status, said, errors = self.ingest(*arguments, pipe=pipe)
        assert status == 0, errors
        return said

    def refuses(self, *arguments: str) -> str:
        status, _, errors = self.ingest(*arguments)
        assert (status, errors.count("\n")) == (1, 1), errors
        return errors

    def ids(self, table: str) -> list[int]:
        return self.engine.query(f"SELECT id FROM {table} ORDER BY id").column(0).to_pylist()

    def value(self, sql: str) -> object:
        return self.engine.query(sql).column(0)[0].as_py()

    def has(self, table: str) -> bool:
        return self.engine.query(f"SHOW TABLES LIKE '{table}'").num_rows == 1


@pytest.fixture(params=["root", "uri"])
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    (tmp_path / "flights.csv").write_text(FLIGHTS)
    (tmp_path / "more.csv").write_text(MORE)
    monkeypatch.chdir(tmp_path)
    target = ["--root", str(server.root)] if request.param == "root" else ["--uri", server.uri]
    return Place(tmp_path, target, Engine(Root(Store(str(server.root))), target_partitions=1), capsys, monkeypatch)


def test_the_command_is_a_process_of_its_own(tmp_path: Path) -> None:
    command = [COMMAND, "ingest", "-", "--format", "csv", "--table", "s.flights", "--root", str(tmp_path / "lake")]
    done = subprocess.run(command, input=FLIGHTS, capture_output=True, text=True, timeout=120, check=False)
    assert "no schema 's'" in done.stderr
    command[command.index("s.flights")] = "flights"
    done = subprocess.run(command, input=FLIGHTS, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "flights: 3 rows, " in done.stdout


def test_a_file_becomes_a_partitioned_table(place: Place, table: str) -> None:
    said = place.stores("flights.csv", "--table", table, "--partition-by", "month(at), origin")
    assert f"{table}: 3 rows" in said
    assert "at      TIMESTAMP(6)" in said
    assert place.ids(table) == [1, 2, 3]
    assert place.value(f'SELECT count(*) FROM "{table}$partitions"') == 3


@pytest.mark.parametrize(("fields", "notes"), [("month(at), origin", 1), ("year(at), month(at)", 0), ("origin", 0)])
def test_a_month_without_its_year_is_noted_once(place: Place, table: str, fields: str, notes: int) -> None:
    load = ["flights.csv", "--table", table, "--partition-by", fields]
    status, _, noted = place.ingest(*load)
    assert (status, noted.count("month(at) is 1 to 12 whatever the year")) == (0, notes)
    assert place.ingest("more.csv", "--table", table, "--mode", "append")[2] == ""
    assert place.stores(*load, "--suggest").count("month(at) is 1 to 12 whatever the year") == notes


MODES: dict[str, tuple[str, list[int]]] = {
    "append": ("append", [1, 2, 3, 9]),
    "overwrite": ("overwrite", [1, 9]),
    "overwrite-table": ("overwrite-table", [9]),
    "replace": ("replace", [9]),
}


@pytest.mark.parametrize(("mode", "expected"), MODES.values(), ids=MODES)
def test_a_mode_says_what_becomes_of_rows_that_are_there(
    place: Place, table: str, mode: str, expected: list[int]
) -> None:
    place.stores("flights.csv", "--table", table, "--mode", mode, "--partition-by", "month(at)")
    assert place.ids(table) == [1, 2, 3]
    place.stores("more.csv", "--table", table, "--mode", mode)
    assert place.ids(table) == expected
    refused = place.refuses("flights.csv", "--table", table)
    assert f"[already_exists] table '{table}' is there already; expected --mode append, overwrite" in refused
    assert place.ids(table) == expected


def test_a_load_with_an_id_is_stored_once(place: Place, table: str) -> None:
    arguments = ("flights.csv", "--table", table, "--mode", "append", "--commit-id", "january")
    place.stores(*arguments)
    said = place.stores(*arguments)
    assert "commit_id 'january' was committed at" in said
    assert "nothing was loaded" in said
    assert place.ids(table) == [1, 2, 3]


def test_a_directory_of_files_is_loaded_with_the_names_of_its_directories(place: Place, table: str) -> None:
    for site in ("Oslo", "Lima"):
        (place.files / "hive" / f"site={site}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [len(site)]}), place.files / "hive" / f"site={site}" / "a.parquet")
    place.stores("hive", "--table", table, "--partition-by", "site")
    assert place.value(f"SELECT count(*) FROM {table} WHERE site = 'Oslo'") == 1


def test_a_pipe_is_loaded(place: Place, table: str) -> None:
    place.stores("-", "--format", "csv", "--table", table, pipe=FLIGHTS)
    assert place.ids(table) == [1, 2, 3]


def test_rows_take_the_types_of_the_table(place: Place, table: str) -> None:
    place.stores("flights.csv", "--table", table, "--types", "id VARCHAR, at VARCHAR")
    place.stores("more.csv", "--table", table, "--mode", "append")
    assert place.ids(table) == ["1", "2", "3", "9"]


@pytest.mark.parametrize(
    ("mark", "types"), [({"lance-encoding:blob": "true"}, []), ({}, ["--types", "image BLOB"])], ids=["mark", "type"]
)
def test_files_with_marked_columns_become_blobs(
    place: Place, table: str, mark: dict[str, str], types: list[str]
) -> None:
    fields = [pa.field("id", pa.int64()), pa.field("image", pa.binary(), metadata=mark)]
    rows = pa.table([[1, 2, 3], [b"a" * 10, None, b"b" * 100_000]], schema=pa.schema(fields))
    pq.write_table(rows, place.files / "images.parquet")
    assert "image   BLOB" in place.stores("images.parquet", "--table", table, *types, "--dry-run")
    place.stores("images.parquet", "--table", table, "--partition-by", "bucket(2, id)", *types)
    assert place.engine.query(f"DESCRIBE {table}")["data_type"].to_pylist() == ["BIGINT", "BLOB"]
    found = place.engine.query(f"SELECT id, image FROM {table} ORDER BY id")
    assert found["image"].to_pylist() == rows["image"].to_pylist()


def test_a_dry_run_shows_the_table_and_stores_nothing(place: Place, table: str) -> None:
    said = place.stores("flights.csv", "--table", table, "--partition-by", "month(at)", "--dry-run")
    assert f"table {table} is new, partitioned by month(at)" in said
    assert "origin  VARCHAR" in said
    assert not place.has(table)


def broken(place: Place) -> None:
    rows = "".join(f"{n},2013-01-01,JFK\n" for n in range(200_000))
    (place.files / "broken.csv").write_text(f"id,at,origin\n{rows}x,2013-01-01,JFK\n")


REFUSED: dict[str, tuple[list[str], str]] = {
    "no-file": (["none.csv"], "no files match 'none.csv'"),
    "value": (["broken.csv"], "broken.csv: line 200,002, column 'id': 'x' is no BIGINT; say the type"),
    "value-of-a-type": (["flights.csv", "--types", "origin BIGINT"], "line 2, column 'origin': 'JFK' is no BIGINT"),
    "delimiter": (["flights.csv", "--delimiter", "ab"], "--delimiter is 'ab'; expected one character"),
    "type": (["flights.csv", "--types", "id NOTHING"], "NOTHING"),
    "column": (["flights.csv", "--types", "idd BIGINT"], "no column 'idd'"),
    "partitioning": (["flights.csv", "--partition-by", "monht(at)"], "monht"),
    "partition-column": (["flights.csv", "--partition-by", "month(att)"], "att"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_loaded_is_refused_and_leaves_nothing(
    place: Place, table: str, arguments: list[str], message: str
) -> None:
    if "broken.csv" in arguments:
        broken(place)
    said = place.refuses(*arguments, "--table", table)
    assert message in said
    assert not place.has(table)


def test_a_server_that_does_not_answer_is_named_with_the_way_around_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text(FLIGHTS)
    for command in (
        ["ingest", str(tmp_path / "a.csv"), "--table", "t"],
        ["export", "t", "-o", str(tmp_path / "b.csv")],
    ):
        assert main([*command, "--uri", "127.0.0.1:1"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("lance-flight: no server answers at grpc://127.0.0.1:1 (--root DIRECTORY needs none)")
        assert main([*command, "--uri", "127.0.0.1:1", "--root", str(tmp_path)]) == 1
        assert "--root and --uri were given; expected one of them" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


def test_a_sample_and_what_was_not_sure_are_shown_before_a_load(place: Place, table: str) -> None:
    (place.files / "messy.csv").write_text("Report\nzip;price\n00501;1,5\n10001;2,25\n")
    said = place.stores("messy.csv", "--table", table)
    assert said.startswith(
        f"{place.files}/messy.csv: 1 lines before the first row are left out\n"
        f"{place.files}/messy.csv: column 'zip': '00501' has leading zeros: kept as text\n"
    )
    assert "column  type     row 1  row 2\nzip     VARCHAR  00501  10001\nprice   DOUBLE   1.5    2.25\n" in said
    assert "row 1" not in place.stores("messy.csv", "--table", table, "--mode", "replace", "--yes")


def test_rows_with_errors_are_left_out_counted_and_written(place: Place, table: str) -> None:
    (place.files / "wrong.csv").write_text("id,at\n1,2024-03-31\nx,2024-03-31\n3\n4,2024-04-01\n")
    known = ("wrong.csv", "--table", table, "--types", "id BIGINT, at DATE")
    assert "wrong.csv: line 4 has 1 values; expected 2: '3'" in place.refuses(*known)
    said = place.stores(*known, "--rejects", "rejects.csv")
    assert (
        f"2 rows were left out; rejects.csv has them; the first: {place.files}/wrong.csv: line 3, column 'id'" in said
    )
    assert place.ids(table) == [1, 4]
    lines = (place.files / "rejects.csv").read_text().splitlines()
    assert lines[0] == "file,line,column,value,reason,row"
    assert lines[1].endswith('wrong.csv,3,id,x,is no BIGINT,"[""x"", ""2024-03-31""]"')
    assert lines[2].endswith('wrong.csv,4,,,has 1 values; expected 2,"[""3""]"')


def test_a_failure_leaves_the_rows_that_are_there(place: Place, table: str) -> None:
    broken(place)
    place.stores("flights.csv", "--table", table)
    before = place.value(f'SELECT max(version) FROM "{table}$snapshots"')
    said = place.refuses("broken.csv", "--table", table, "--mode", "overwrite-table")
    assert "--types" in said
    assert "nothing was loaded" in said
    assert (place.ids(table), place.value(f'SELECT max(version) FROM "{table}$snapshots"')) == ([1, 2, 3], before)


def test_the_page_about_files_runs_as_it_stands(tmp_path: Path) -> None:
    (script,) = blocks("client/docs/files.md", "sh")
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    command = ["bash", "-euc", script]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 partitions, 4 rows" in done.stdout


def test_partition_fields_are_suggested_and_nothing_is_stored(place: Place) -> None:
    lines = [f"{n},2025-{n // 300_000 + 1:02d}-01 00:00:00,{'EWR' if n % 2 else 'JFK'}" for n in range(600_000)]
    (place.files / "large.csv").write_text("\n".join(["id,at,origin", *lines]))
    said = place.stores("large.csv", "--table", "suggested", "--suggest", "--partition-by", "bucket(3, id)")
    assert 'Suggested: --partition-by "year(at), month(at), origin"' in said
    found = {line.partition(")   ")[0]: line.rpartition(")   ")[2].split() for line in said.splitlines()}
    assert found["year(at), month(at"][:4] == ["2", "300000", "300000", "300000"]
    assert found["bucket(3, id"][0] == "3"
    assert not place.has("suggested")
    assert "Suggested: no partition fields" in place.stores("flights.csv", "--table", "suggested", "--suggest")
