"""Files as streams of rows: their formats, the paths that name them, the types of their columns, and what cannot be read."""

from __future__ import annotations

import datetime as dt
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from lance_flight.errors import DataError, InvalidInput, LanceFlightError, NotFound
from lance_flight_client.files import sources
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import NO_TYPES
from pyarrow import feather, orc

ROWS = pa.table({"id": [1, 2, 3], "x": [0.5, None, 2.5], "s": ["a", None, ""]})


def opened(
    *paths: Path | str,
    format: str | None = None,
    types: pa.Schema = NO_TYPES,
    known: pa.Schema = NO_TYPES,
    pipe: bytes = b"",
    text: TextOptions = TextOptions(),  # noqa: B008 - frozen
) -> sources.RowSource:
    return sources.open_files([str(path) for path in paths], format, text, io.BytesIO(pipe), types=types, known=known)


def read(source: sources.RowSource, schema: pa.Schema | None = None) -> pa.Table:
    schema = schema or source.schema
    return pa.Table.from_batches(source.batches(schema), schema)


def write_lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(f"{row}\n" for row in map(_json, table.to_pylist())))


def _json(row: dict[str, object]) -> str:
    return str(row).replace("'", '"').replace("None", "null")


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "a.parquet": lambda table, path: pq.write_table(table, path, row_group_size=2),
    "a.csv": pacsv.write_csv,
    "a.jsonl": write_lines,
    "a.arrow": lambda table, path: feather.write_feather(table, str(path)),
    "a.orc": lambda table, path: orc.write_table(table, str(path)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_texts_of_every_format_are_read_as_documents(tmp_path: Path, name: str) -> None:
    rows = pa.table({"id": [1, 2], "doc": ["[1]", "true"]})
    WRITERS[name](rows, tmp_path / name)
    documents = pa.schema({"doc": pa.json_()})
    for source in (opened(tmp_path / name, types=documents), opened(tmp_path / name, known=documents)):
        found = read(source, pa.schema({"id": pa.int64(), "doc": pa.json_()}))
        assert found["doc"].cast(pa.utf8()).to_pylist() == ["[1]", "true"]


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    WRITERS[name](ROWS, tmp_path / name)
    source = opened(tmp_path / name)
    assert read(source).select(["id", "x"]) == ROWS.select(["id", "x"])
    texts = read(source)["s"].to_pylist()
    # CSV has no NULL for a text.
    assert texts == (["a", "", ""] if name == "a.csv" else ROWS["s"].to_pylist())
    assert source.guesses == (name in {"a.csv", "a.jsonl"})
    assert source.size == (tmp_path / name).stat().st_size


def test_directories_are_read_whole_and_their_names_are_columns(tmp_path: Path) -> None:
    root = tmp_path / "year=1999" / "data"
    for site, rows in {"Oslo": ROWS.slice(0, 1), "Lima": ROWS.slice(1).drop_columns(["x"])}.items():
        (root / f"site={site}" / "day=03").mkdir(parents=True)
        pq.write_table(rows, root / f"site={site}" / "day=03" / "part.parquet")
    (root / "_SUCCESS").touch()
    (root / "_delta_log").mkdir()
    (root / "_delta_log" / "0.json").write_text("{}")
    (root / "site=Oslo" / ".part.parquet.crc").write_text("x")
    found = read(opened(root)).sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "x": 0.5, "s": "a", "site": "Oslo", "day": 3},
        {"id": 2, "x": None, "s": None, "site": "Lima", "day": 3},
        {"id": 3, "x": None, "s": "", "site": "Lima", "day": 3},
    ]
    assert read(opened(root / "site=Oslo" / "day=03" / "part.parquet")).column_names == ["id", "x", "s"]


GLOBS = {
    "star": ("*.csv", [1, 2]),
    "question": ("?.csv", [1, 2]),
    "deep": ("**/*.csv", [1, 2, 3]),
    "class": ("[b-z].csv", [2]),
}


@pytest.mark.parametrize(("pattern", "expected"), GLOBS.values(), ids=GLOBS)
def test_a_glob_names_files(tmp_path: Path, pattern: str, expected: list[int]) -> None:
    (tmp_path / "below").mkdir()
    for number, name in enumerate(("a.csv", "b.csv", "below/c.csv"), 1):
        (tmp_path / name).write_text(f"id\n{number}\n")
    assert sorted(read(opened(tmp_path / pattern))["id"].to_pylist()) == expected


def test_files_of_several_arguments_have_the_columns_of_all(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,1\n")
    write_lines(pa.table({"id": [2], "x": [0.5], "y": ["z"]}), tmp_path / "b.jsonl")
    found = read(opened(tmp_path / "a.csv", tmp_path / "b.jsonl"))
    assert found.to_pylist() == [{"id": 1, "x": 1.0, "y": None}, {"id": 2, "x": 0.5, "y": "z"}]


MOMENT = dt.datetime(2025, 1, 2, 3, 4, 5)
GUESSES = {
    "moments": ("t\n2025-01-02 03:04:05\n", {}, pa.timestamp("us"), [MOMENT]),
    "zoned": ("t\n2025-01-02 03:04:05Z\n", {}, pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=dt.UTC)]),
    "days": ("t\n2025-01-02\n", {}, pa.date32(), [MOMENT.date()]),
    "nothing": ("t\n\n\n", {}, pa.utf8(), []),
    "null-of-numbers": ("t,u\nNA,1\n3,1\n", {}, pa.int64(), [None, 3]),
    "null-of-text": ("t\n-\nx\n", {"nulls": ("-",)}, pa.utf8(), [None, "x"]),
    "delimiter": ("t;u\na,5;2\n", {"delimiter": ";"}, pa.utf8(), ["a,5"]),
    "a-decimal-comma": ("t;u\n1,5;2\n", {}, pa.float64(), [1.5]),
    "lines-in-a-value": ('t,u\n"a\nb",1\n', {}, pa.utf8(), ["a\nb"]),
}


@pytest.mark.parametrize(("text", "options", "kind", "values"), GUESSES.values(), ids=GUESSES)
@pytest.mark.parametrize("way", ["file", "pipe"])
def test_types_of_text_are_guessed(  # noqa: PLR0917 - a table
    tmp_path: Path, text: str, options: dict[str, object], kind: pa.DataType, values: list[object], way: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    given = TextOptions(**options)  # type: ignore[arg-type]
    source = (
        opened("-", format="csv", pipe=text.encode(), text=given)
        if way == "pipe"
        else opened(tmp_path / "a.csv", text=given)
    )
    found = read(source)
    assert (found.schema.field("t").type, found["t"].to_pylist()) == (kind, values)


def test_types_that_are_said_are_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,day\n007,2025-01-02\n")
    types = pa.schema({"id": pa.utf8(), "day": pa.timestamp("us")})
    expected = [{"id": "007", "day": dt.datetime(2025, 1, 2)}]
    assert read(opened(tmp_path / "a.csv", types=types)).to_pylist() == expected
    pipe = (tmp_path / "a.csv").read_bytes()
    assert read(opened("-", format="csv", types=types, pipe=pipe)).to_pylist() == expected


@pytest.mark.parametrize("way", ["file", "pipe"])
def test_types_that_are_known_are_not_guessed(tmp_path: Path, way: str) -> None:
    (tmp_path / "a.csv").write_text("id,n\n007,1\n")
    known = pa.schema({"id": pa.utf8(), "other": pa.int64()})
    pipe = (tmp_path / "a.csv").read_bytes()
    source = (
        opened("-", format="csv", known=known, pipe=pipe) if way == "pipe" else opened(tmp_path / "a.csv", known=known)
    )
    assert read(source).to_pylist() == [{"id": "007", "n": 1}]
    pq.write_table(pa.table({"id": [7]}), tmp_path / "a.parquet")
    assert opened(tmp_path / "a.parquet", known=known).schema == pa.schema({"id": pa.int64()})


def test_text_without_names_and_compressed_text_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,x\n2,y\n"))
    found = read(opened(tmp_path / "a.csv.gz", text=TextOptions(header=False)))
    assert found.to_pydict() == {"f0": [1, 2], "f1": ["x", "y"]}
    (tmp_path / "a.tsv").write_text("id\tx\n1\ta,b\n")
    assert read(opened(tmp_path / "a.tsv")).to_pylist() == [{"id": 1, "x": "a,b"}]


def test_a_pipe_of_arrow_or_json_is_read() -> None:
    sent = io.BytesIO()
    with pa.ipc.new_stream(sent, ROWS.schema) as writer:
        writer.write_table(ROWS)
    assert read(opened("-", format="arrow", pipe=sent.getvalue())) == ROWS
    assert read(opened("-", format="json", pipe=b'{"id": 1}\n{"id": 2}\n'))["id"].to_pylist() == [1, 2]


def test_both_formats_of_arrow_are_read_from_pipes_and_files(tmp_path: Path) -> None:
    for number, begin in enumerate((pa.ipc.new_file, pa.ipc.new_stream)):
        path = tmp_path / f"{number}.arrow"
        with begin(str(path), ROWS.schema) as writer:
            writer.write_table(ROWS)
        assert read(opened("-", format="arrow", pipe=path.read_bytes())) == ROWS
        assert read(opened(path)) == ROWS


def test_progress_counts_bytes_of_files_and_rows(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"id": range(150_000)}), tmp_path / name, row_group_size=50_000)
    source, seen = opened(tmp_path), []
    for _ in source.batches(source.schema, lambda read, rows: seen.append((read, rows))):
        pass
    assert seen == sorted(seen)
    assert seen[-1] == (source.size, 300_000)
    assert len({read for read, _ in seen}) > 4


LONG_FILES: dict[str, Callable[[bytes], bytes]] = {
    "csv": lambda lines: b"id\n" + lines,
    "csv.gz": lambda lines: gzip.compress(b"id\n" + lines, 1),
    "jsonl": lambda lines: b"".join(b'{"id": "%s"}\n' % line for line in lines.split()),
}


@pytest.fixture(scope="module")
def long_lines() -> bytes:
    return b"".join(b"%d%0100d\n" % (n, n) for n in range(700_000))


@pytest.mark.parametrize("end", LONG_FILES)
def test_progress_moves_inside_a_file_of_text_by_the_bytes_that_are_stored(
    tmp_path: Path, long_lines: bytes, end: str
) -> None:
    name, content = f"a.{end}", LONG_FILES[end](long_lines)
    (tmp_path / name).write_bytes(content)
    source, seen = opened(tmp_path / name), []
    for _ in source.batches(source.schema, lambda read, rows: seen.append((read, rows))):
        pass
    assert seen == sorted(seen)
    assert seen[-1] == (len(content), 700_000)
    assert len({read for read, _ in seen if 0 < read < len(content)}) > 1


def test_a_column_that_a_directory_names_has_the_value_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "site=Oslo é").mkdir()
    (tmp_path / "site=Oslo é" / "a b.csv").write_text("id,site\n1,Lima\n")
    (tmp_path / "site=Oslo é" / "c.jsonl").write_text('{"id": 2, "site": "Lima"}\n')
    found = read(opened(tmp_path / "**" / "*.csv", tmp_path / "**" / "*.jsonl"))
    assert found.to_pylist() == [{"id": 1, "site": "Oslo é"}, {"id": 2, "site": "Oslo é"}]


REFUSED: dict[str, tuple[tuple[str, ...], dict[str, object], type[LanceFlightError], str]] = {
    "nothing": (("none.csv",), {}, NotFound, "no files match '.*none.csv'"),
    "no-match": (("*.orc",), {}, NotFound, "no files match"),
    "unknown-format": (("odd.txt",), {}, NotFound, "says no format; expected a name that ends with .parquet"),
    "several-formats": (("",), {}, InvalidInput, "several formats, csv and json"),
    "another-format": (("a.csv",), {"format": "parquet"}, DataError, "a.csv.*Is this a .parquet. file"),
    "pipe-and-file": (("a.csv", "-"), {}, InvalidInput, "beside files"),
    "pipe-without-format": (("-",), {}, InvalidInput, "expected --format csv or json or arrow"),
    "pipe-of-parquet": (("-",), {"format": "parquet"}, InvalidInput, "format 'parquet' cannot be read"),
    "no-such-store": (("nope://bucket/x.csv",), {}, NotFound, "'nope://bucket/x.csv' cannot be read"),
    "column": (("a.csv",), {"types": pa.schema({"nope": pa.utf8()})}, NotFound, "no column 'nope'"),
    "types-apart": (("a.csv", "b.jsonl"), {}, DataError, "nothing in common"),
}


@pytest.mark.parametrize(("names", "options", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_opened_is_named(
    tmp_path: Path, names: tuple[str, ...], options: dict[str, object], error: type[LanceFlightError], message: str
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "b.jsonl").write_text('{"id": {"a": 1}}\n')
    (tmp_path / "odd.txt").write_text("x")
    paths = [name if name == "-" or "://" in name else str(tmp_path / name) for name in names]
    with pytest.raises(error, match=message):
        opened(*paths, **options)  # type: ignore[arg-type]


def test_a_value_of_another_type_names_its_file_and_row(tmp_path: Path) -> None:
    rows = "".join(f"{n}\n" for n in range(300_000))
    (tmp_path / "a.csv").write_text(f"id\n{rows}x\n")
    with pytest.raises(DataError, match=r"a\.csv: line 300,002, column 'id': 'x' is no BIGINT"):
        read(opened(tmp_path / "a.csv"))


def pipe_or_file(tmp_path: Path, ending: str, content: bytes, *, is_pipe: bool, **options: Any) -> sources.RowSource:
    if is_pipe:
        return opened("-", format=ending, pipe=content, **options)
    path = tmp_path / f"a.{'jsonl' if ending == 'json' else ending}"
    path.write_bytes(content)
    return opened(path, **options)


PIPES = pytest.mark.parametrize("is_pipe", [False, True], ids=["file", "pipe"])


@PIPES
@pytest.mark.parametrize("padded", ["00012", "-007", '"0012"', " 01"])
def test_numbers_with_leading_zeros_are_text(tmp_path: Path, padded: str, *, is_pipe: bool) -> None:
    content = f"zip,n,x\n{padded},0,0.5\n12345,,1\n,7,\n".encode()
    source = pipe_or_file(tmp_path, "csv", content, is_pipe=is_pipe)
    assert source.schema.types == [pa.utf8(), pa.int64(), pa.float64()]
    assert read(source)["zip"].to_pylist() == [padded.strip('"'), "12345", ""]
    integers = pipe_or_file(tmp_path, "csv", content, is_pipe=is_pipe, types=pa.schema({"zip": pa.int64()}))
    assert read(integers)["zip"].to_pylist() == [int(padded.strip('"')), 12345, None]


@PIPES
def test_a_leading_zero_behind_the_first_rows_is_refused(tmp_path: Path, *, is_pipe: bool) -> None:
    content = "zip\n" + "12345\n" * 400_000 + "00012\n"
    place = "row 400,001" if is_pipe else "line 400,002"
    with pytest.raises(DataError, match=f"{place}, column 'zip': '00012' would lose its zeros as a number"):
        read(pipe_or_file(tmp_path, "csv", content.encode(), is_pipe=is_pipe))


def test_a_directory_with_leading_zeros_names_a_text(tmp_path: Path) -> None:
    for name in ("zip=00012", "zip=12345"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("id\n1\n")
    assert sorted(read(opened(tmp_path))["zip"].to_pylist()) == ["00012", "12345"]


@PIPES
def test_text_is_read_in_its_encoding_or_refused(tmp_path: Path, *, is_pipe: bool) -> None:
    content = "id,name\n1,café\n".encode("latin-1")
    guessed = pipe_or_file(tmp_path, "csv", content, is_pipe=is_pipe)
    assert (read(guessed)["name"].to_pylist(), "encoding cp1252" in guessed.notes[0]) == (["café"], True)
    with pytest.raises(DataError, match=r"is no UTF-8 text, and no Western one; .*--encoding cp1251"):
        pipe_or_file(tmp_path, "csv", "id,name\n1,Москва\n".encode("cp1251"), is_pipe=is_pipe)
    named = pipe_or_file(tmp_path, "csv", content, is_pipe=is_pipe, text=TextOptions(encoding="latin-1"))
    assert read(named)["name"].to_pylist() == ["café"]
    binary = pipe_or_file(tmp_path, "csv", content, is_pipe=is_pipe, types=pa.schema({"name": pa.binary()}))
    assert read(binary)["name"].to_pylist() == ["café".encode("latin-1")]
    json = pipe_or_file(tmp_path, "json", '{"name": "café"}\n'.encode("latin-1"), is_pipe=is_pipe)
    assert (read(json)["name"].to_pylist(), "encoding cp1252" in json.notes[0]) == (["café"], True)


@PIPES
@pytest.mark.parametrize("zone", ["Z", "+02:00", ""])
def test_moments_of_json_keep_their_zone(tmp_path: Path, zone: str, *, is_pipe: bool) -> None:
    content = f'{{"at": "2025-01-05T10:00:00{zone}", "n": 1}}\n{{"at": null, "n": 2}}\n'.encode()
    source = pipe_or_file(tmp_path, "json", content, is_pipe=is_pipe)
    assert source.schema.field("at").type == pa.timestamp("us", "UTC" if zone else None)
    at = dt.datetime(2025, 1, 5, 8 if zone == "+02:00" else 10, tzinfo=dt.UTC if zone else None)
    assert read(source)["at"].to_pylist() == [at, None]
