"""Messy files: each loads right by what its beginning shows, or is refused with its reason; nothing is lost silently."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import sys
import zipfile
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pytest
import zstandard
from lance_flight.errors import DataError, InvalidInput, NotFound
from lance_flight_client.files import sources
from lance_flight_client.files.sniffing import HEAD, TextOptions

from tests.selection import ALL, IS_FULL, covering


@dataclass(frozen=True)
class Messy:
    """A file: its name and content, what it holds, and what is said of it."""

    name: str
    content: bytes
    rows: list[dict[str, Any]] = field(default_factory=list)
    says: tuple[str, ...] = ()
    types: tuple[pa.DataType, ...] = ()


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


DAY = dt.date(2024, 3, 31)
PLAIN = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
LOADED: dict[str, Messy] = {
    "semicolons and decimal commas": Messy(
        "a.csv",
        b"Artikel;Preis;Menge\nSchraube;1.234,50;7\nMutter;0,05;1.000\n",
        [{"Artikel": "Schraube", "Preis": 1234.5, "Menge": 7}, {"Artikel": "Mutter", "Preis": 0.05, "Menge": 1000}],
    ),
    "tabs under another name": Messy("a.csv", b"id\tname\n1\ta\n2\tb\n", PLAIN),
    "carets": Messy("a.csv", b"id^name\n1^a\n2^b\n", PLAIN),
    "names alone, without an end": Messy("a.csv", b"id,name", [], ("has names, and no rows",)),
    "a sum below": Messy(
        "a.csv", b"id,n\n1,2\n2,4\nTotal,6\n", [{"id": "1", "n": 2}, {"id": "2", "n": 4}, {"id": "Total", "n": 6}],
        ("column 'id': 'Total' is the only text among numbers",),
    ),
    "an archive named after nothing": Messy("data.zip", zipped(**{"a.csv": b"id,name\n1,a\n2,b\n"}), PLAIN),
    "pipes": Messy("a.csv", b"id|name\n1|a\n2|b\n", PLAIN),
    "single quotes": Messy(
        "a.csv", b"id,name\n1,'a, b'\n2,'c'\n", [{"id": 1, "name": "a, b"}, {"id": 2, "name": "c"}]
    ),
    "empty lines of one column": Messy(
        "a.csv", b"x\n1\n\nNULL\n3\n", [{"x": 1}, {"x": None}, {"x": 3}], ("empty lines are left out",)
    ),
    "text behind quotes": Messy(
        "a.csv", b'id,name\n1,"abc"def\n2,b\n', [{"id": 1, "name": "abcdef"}, {"id": 2, "name": "b"}],
        ('line 2: a value goes on behind its closing ", and loses its quotes',),
    ),
    "escaped quotes": Messy(
        "a.csv", b'id,name\n1,"say \\"hi\\", now"\n2,"b"\n', [{"id": 1, "name": 'say "hi", now'}, {"id": 2, "name": "b"}]
    ),
    "a mark of UTF-8": Messy("a.csv", "id,name\n1,é\n".encode("utf-8-sig"), [{"id": 1, "name": "é"}]),
    "UTF-16": Messy("a.csv", "id,name\n1,広間\n".encode("utf-16"), [{"id": 1, "name": "広間"}], ("encoding utf-16",)),
    "UTF-16 without a mark": Messy(
        "a.csv", "id,name\n1,né\n".encode("utf-16-le"), [{"id": 1, "name": "né"}], ("encoding utf-16-le",)
    ),
    "cp1252": Messy(
        "a.csv", "id;name\n1;Café – 5 €\n".encode("cp1252"), [{"id": 1, "name": "Café – 5 €"}], ("encoding cp1252",)
    ),
    "a title before the names": Messy(
        "a.csv", b"Report of March\n\nAll sites\nid,name\n1,a\n2,b\n", PLAIN, ("3 lines before the first row are left out",)
    ),
    "comments before the names": Messy(
        "a.csv", b"# made by hand\n# 2024\nid,name\n1,a\n2,b\n", PLAIN, ("2 lines before the first row",)
    ),
    "no names": Messy(
        "a.csv", b"1,2024-03-31,a\n2,2024-03-31,b\n",
        [{"f0": 1, "f1": DAY, "f2": "a"}, {"f0": 2, "f1": DAY, "f2": "b"}],
        ("the first line has values, and no names",),
    ),
    "numbers as names": Messy("a.csv", b"site,1,2\nOslo,3,4\nLima,5,6\n", [{"f0": "site", "f1": 1, "f2": 2}, {"f0": "Oslo", "f1": 3, "f2": 4}, {"f0": "Lima", "f1": 5, "f2": 6}], ("the first line has values, and no names",)),
    "a number above texts": Messy("a.csv", b"id,1st,2\n1,a,x\n2,b,y\n", [{"id": 1, "1st": "a", "2": "x"}, {"id": 2, "1st": "b", "2": "y"}]),
    "long values": Messy("a.csv", b'id,"v\nw"\n' + b"".join(b'%d,"%s"\n' % (n, b"x" * 300_000) for n in range(9)), [{"id": n, "v\nw": "x" * 300_000} for n in range(9)]),
    "a delimiter behind each row": Messy("a.csv", b"id,name\n1,a,\n2,b,\n", [{"id": 1, "name": "a", "f2": ""}, {"id": 2, "name": "b", "f2": ""}], ("columns without a name: f2",)),
    "years as names": Messy("a.csv", b"site,2023,2024\nOslo,1,2\n", [{"site": "Oslo", "2023": 1, "2024": 2}]),
    "names twice, and none": Messy(
        "a.csv", b"id,x,x,\n1,2,3,4\n", [{"id": 1, "x": 2, "x_1": 3, "f3": 4}], ("several columns have one name: x_1", "columns without a name: f3")
    ),
    "words for NULL": Messy(
        "a.csv", b"n,x,day,s\n1,-,N/A,NULL\n\\N,2.5,2024-03-31,b\n",
        [{"n": 1, "x": None, "day": None, "s": "NULL"}, {"n": None, "x": 2.5, "day": DAY, "s": "b"}],
        ("column 's': 'NULL' is kept as text; --null 'NULL'",),
    ),
    "leading zeros": Messy(
        "a.csv", b"zip,n\n00501,1\n10001,2\n", [{"zip": "00501", "n": 1}, {"zip": "10001", "n": 2}],
        ("column 'zip': '00501' has leading zeros: kept as text",),
    ),
    "long numbers": Messy(
        "a.csv", b"card,n\n12345678901234567890,1\n", [{"card": "12345678901234567890", "n": 1}],
        ("is longer than a BIGINT: kept as text",),
    ),
    "days of Germany": Messy("a.csv", b"day;n\n31.03.2024;1\n1.4.2024;2\n", [{"day": DAY, "n": 1}, {"day": dt.date(2024, 4, 1), "n": 2}]),
    "moments of America": Messy(
        "a.csv", b"at,n\n3/31/2024 1:05 PM,1\n4/1/2024 12:00 AM,2\n",
        [{"at": dt.datetime(2024, 3, 31, 13, 5), "n": 1}, {"at": dt.datetime(2024, 4, 1), "n": 2}],
    ),
    "moments with and without seconds": Messy(
        "a.csv", b"at;n\n31.03.2024 13:05;1\n1.4.2024 0:00:07;2\n",
        [{"at": dt.datetime(2024, 3, 31, 13, 5), "n": 1}, {"at": dt.datetime(2024, 4, 1, 0, 0, 7), "n": 2}],
    ),
    "days that may be two": Messy(
        "a.csv", b"day,n\n01/02/2024,1\n03/04/2024,2\n", [{"day": "01/02/2024", "n": 1}, {"day": "03/04/2024", "n": 2}],
        ("may be %d/%m/%Y or %m/%d/%Y: kept as text; say --date-format",),
    ),
    "numbers that may be two": Messy(
        "a.csv", b"n;s\n1,234;a\n5,678;b\n", [{"n": "1,234", "s": "a"}, {"n": "5,678", "s": "b"}], ("say --decimal",)
    ),
    "thousands": Messy(
        "a.csv", b'n,x\n"1,234,567","1,234.50"\n"12","5"\n', [{"n": 1234567, "x": 1234.5}, {"n": 12, "x": 5.0}]
    ),
    "no 31st of February": Messy(
        "a.csv", b"day,n\n31.02.2024,1\n01.02.2024,2\n", [{"day": "31.02.2024", "n": 1}, {"day": "01.02.2024", "n": 2}]
    ),
    "times of day, and of zones": Messy(
        "a.csv", b"t,at\n10:30,2024-03-31T10:00:00+02:00\n23:59:59,2024-03-31T10:00:00Z\n",
        [
            {"t": dt.time(10, 30), "at": dt.datetime(2024, 3, 31, 8, tzinfo=dt.UTC)},
            {"t": dt.time(23, 59, 59), "at": dt.datetime(2024, 3, 31, 10, tzinfo=dt.UTC)},
        ],
    ),
    "NaN": Messy("a.csv", b"x,s\nNaN,a\n1,b\n", [{"x": "nan", "s": "a"}, {"x": 1.0, "s": "b"}]),
    "one column of texts": Messy("a.csv", b"said\nwell, yes\nno; not at all\n", [{"said": "well, yes"}, {"said": "no; not at all"}]),
    "lines of Windows, and in values": Messy(
        "a.csv", b'id,s\r\n1,"a\r\nb"\r\n2,c\r\n', [{"id": 1, "s": "a\r\nb"}, {"id": 2, "s": "c"}]
    ),
    "gzip under another name": Messy("a.csv", gzip.compress(b"id,name\n1,a\n2,b\n"), PLAIN),
    "bz2": Messy("a.csv.bz2", bz2.compress(b"id,name\n1,a\n2,b\n"), PLAIN),
    "zst": Messy("a.csv.zst", zstandard.compress(b"id,name\n1,a\n2,b\n"), PLAIN),
    "zip": Messy("a.csv.zip", zipped(**{"a.csv": b"id,name\n1,a\n2,b\n"}), PLAIN),
    "an array of JSON": Messy("a.json", b'[{"id": 1, "name": "a"},\n {"id": 2,\n "name": "b"}]', PLAIN),
    "long objects of JSON": Messy("a.json", b'{"id": 1,\n "name": "a"}\n{\n"id": 2, "name": "b"}\n', PLAIN),
    "keys that come and go": Messy(
        "a.jsonl", b'{"id": 1}\n{"name": "b", "id": 2.5}\n{"tags": ["x, ]"]}\n',
        [{"id": 1.0, "name": None, "tags": None}, {"id": 2.5, "name": "b", "tags": None}, {"id": None, "name": None, "tags": ["x, ]"]}],
    ),
    "values of several types": Messy(
        "a.jsonl", b'{"n": 1, "o": {"a": 1}}\n{"n": "x", "o": {"a": [2]}}\n{"n": null}\n',
        [{"n": "1", "o": '{"a": 1}'}, {"n": "x", "o": '{"a": [2]}'}, {"n": None, "o": None}],
        ("column 'n': has values of several types: kept as text", "column 'o': has"),
    ),
    "moments of JSON with fractions": Messy(
        "a.jsonl", b'{"a": "2024-03-31T10:00:00.5", "z": "2024-03-31T10:00:00.25+02:00"}\n',
        [{"a": dt.datetime(2024, 3, 31, 10, 0, 0, 500_000), "z": dt.datetime(2024, 3, 31, 8, 0, 0, 250_000, dt.UTC)}],
    ),
    "an archive of a Mac": Messy("a.csv.zip", zipped(**{"a.csv": b"id,name\n1,a\n2,b\n", "__MACOSX/._a.csv": b"\0"}), PLAIN),
    "a delimiter that is told to Excel": Messy("a.csv", b"sep=;\r\nid;name\r\n1;a\r\n2;b\r\n", PLAIN),
    "bytes of an export": Messy("a.csv", b'b,s\n\\x00ff,"\\x"\n"\\x",a\n', [{"b": b"\0\xff", "s": "\\x"}, {"b": b"", "s": "a"}]),
    "zones behind a space": Messy(
        "a.csv", b"at,n\n2024-03-31 10:00:00 +0200,1\n2024-03-31 10:00:00 Z,2\n",
        [{"at": dt.datetime(2024, 3, 31, 8, tzinfo=dt.UTC), "n": 1}, {"at": dt.datetime(2024, 3, 31, 10, tzinfo=dt.UTC), "n": 2}],
    ),
    "JSON of UTF-16": Messy("a.json", '[{"s": "é[,"}]'.encode("utf-16"), [{"s": "é[,"}], ("encoding utf-16",)),
}  # fmt: skip


def opened(path: Path, **options: Any) -> sources.RowSource:
    return sources.open_files([str(path)], None, TextOptions(**options), io.BytesIO())


def rows_of(source: sources.RowSource) -> list[dict[str, Any]]:
    rows = pa.Table.from_batches(source.batches(source.schema), source.schema).to_pylist()
    return [{name: "nan" if value != value else value for name, value in row.items()} for row in rows]  # noqa: PLR0124


@pytest.mark.parametrize("messy", LOADED.values(), ids=LOADED)
def test_a_messy_file_loads_right_and_says_what_was_not_sure(tmp_path: Path, messy: Messy) -> None:
    (tmp_path / messy.name).write_bytes(messy.content)
    source = opened(tmp_path / messy.name)
    assert rows_of(source) == messy.rows
    assert [type(value) for row in rows_of(source) for value in row.values()] == [
        type(value) for row in messy.rows for value in row.values()
    ]
    notes = "\n".join(source.notes)
    assert (len(messy.says) == 0) == (notes == ""), notes
    assert [text for text in messy.says if text not in notes] == []


LONG = b"n,s\n" + b"1,a\n" * (HEAD // 4) + b"\n"
LONG_JSON = b'{"n": 1}\n' * (HEAD // 8)
LINE = HEAD // 4 + 3
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "a first object of megabytes": (
        "a.jsonl",
        b'{"a": "' + b"x" * 5_000_000 + b'"}\n',
        "a row has more than 1,048,576 bytes",
    ),
    "a later object of megabytes": (
        "a.jsonl",
        b'{"a": "y"}\n' * 100_000 + b'{"a": "' + b"x" * 5_000_000 + b'"}\n',
        "a row has more than 1,048,576 bytes",
    ),
    "an object without its end": ("a.jsonl", b'{"a": 1}\n{"a": \n', r"a\.jsonl: line 2 is no JSON"),
    "an archive of several files": (
        "a.zip",
        zipped(**{"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"}),
        "the archive has 2 files; expected one",
    ),
    "too few values": ("a.csv", b"a,b\n" + b"1,2\n" * 20 + b"\n3\n", r"a\.csv: line 23 has 1 values; expected 2: '3'"),
    "too many values": (
        "a.csv",
        b'a,b\n"x\ny",2\n' + b"1,2\n" * 20 + b"4,5,6\n",
        r"line 24 has 3 values; expected 2: '4,5,6'",
    ),
    "a short first row": ("a.csv", b"1,2\n" + b"1,2,3\n" * 20, "line 1 has 2 values; expected 3: '1,2'"),
    "quotes without their end": (
        "a.csv",
        b'id,s\n1,a\n2,"b\n3,c\n4,d\n',
        'line 3: a value begins with " and does not end',
    ),
    "quotes that end in another row": (
        "a.csv",
        b'id,s\n1,"b\n2,"c"\n',
        'line 2: a value begins with " and does not end',
    ),
    "later quotes without their end": ("a.csv", LONG + b'1,"b\n2,c\n', rf"line {LINE:,}: a value begins with"),
    "a sum at the end": ("a.csv", b"n;s\n" + b"1;a\n" * 20 + b"Total 20\n", "line 22 has 1 values; expected 2"),
    "a later text": ("a.csv", LONG + b"x,b\n", rf"line {LINE:,}, column 'n': 'x' is no BIGINT"),
    "a later encoding": ("a.csv", LONG + b"1,\xe9\n", rf"line {LINE:,} is no UTF-8 text"),
    "Cyrillic": ("a.csv", "имя;n\nИван;1\n".encode("cp1251"), "no Western one; say what it is: --encoding"),
    "bytes": ("a.csv", b"a,b\n\x00\xff\xfe\x81,2\n", "is no text; it has bytes of zero"),
    "several files in one": ("a.csv.zip", zipped(a=b"x\n1\n", b=b"y\n2\n"), "the archive has 2 files"),
    "half a file of gzip": ("a.csv", gzip.compress(LONG)[:-200], r"a\.csv: cannot be read"),
    "half an archive": ("a.csv", zipped(a=b"x\n1\n")[:-30], r"a\.csv: File is not a zip file"),
    "nothing": ("a.csv", b"", "has no rows"),
    "nothing but space": ("a.json", b" \n", "has no rows"),
    "a later key": (
        "a.jsonl",
        LONG_JSON + b'{"n": 1, "new": 2}\n',
        r"a\.jsonl: line [\d,]+ has a key 'new' that no row before",
    ),
    "a later type": ("a.jsonl", LONG_JSON + b'{"n": "x"}\n', r"line [\d,]+, column 'n': \"x\" is no BIGINT"),
    "two types of long objects": ("a.json", b'{"n":\n1}\n{"n": "x"}\n', "changed from number to string"),
    "no object among two types": ("a.jsonl", b'{"n": 1}\n{"n": "x"}\n[7]\n', r"line 3 is no object of JSON: '\[7\]'"),
    "a long number": ("a.json", b'[{"n": 12345678901234567890}]', "12345678901234567890 is longer than a BIGINT"),
    "a value longer than a block": (
        "a.csv",
        b'id,v\n1,"%s"\n' % (b"x" * (3 << 20)),
        r"a\.csv: a row has more than 1,048,576 bytes",
    ),
    "an open array": ("a.json", b'[{"n": 1}, {"n": ', "a.json"),
    "an array of numbers": ("a.json", b"[1, 2]", "a.json"),
}


@pytest.mark.parametrize(("name", "content", "message"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_cannot_be_right_is_refused_with_its_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        rows_of(opened(tmp_path / name))


SAID: dict[str, tuple[bytes, dict[str, Any], list[dict[str, Any]]]] = {
    "days": (b"d\n01/02/2024\n", {"date_format": "%m/%d/%Y"}, [{"d": dt.date(2024, 1, 2)}]),
    "moments": (b"d\n01/02/2024 3h05\n", {"date_format": "%d/%m/%Y %Hh%M"}, [{"d": dt.datetime(2024, 2, 1, 3, 5)}]),
    "decimal commas": (b"n;s\n1,234;a\n", {"decimal": ","}, [{"n": 1.234, "s": "a"}]),
    "thousands": (b"n;s\n1,234;a\n", {"decimal": "."}, [{"n": 1234, "s": "a"}]),
    "lines before": (b"x,y\nid,name\n1,a\n2,b\n", {"skip": 1}, PLAIN),
    "an encoding": ("id,name\n1,Иван\n".encode("cp1251"), {"encoding": "cp1251"}, [{"id": 1, "name": "Иван"}]),
    "a mark of UTF-8": ("\ufeffid\n1\n".encode(), {"encoding": "utf-8"}, [{"id": 1}]),
    "a mark of UTF-16": ("\ufeffid\n1\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, [{"id": 1}]),
    "a mark before values": (
        "\ufeff1,2\n3,4\n".encode(),
        {"encoding": "utf-8"},
        [{"f0": 1, "f1": 2}, {"f0": 3, "f1": 4}],
    ),
    "names that are numbers": (b"1,2\n3,4\n", {"header": True}, [{"1": 3, "2": 4}]),
    "no names": (b"a,b\nc,d\n", {"header": False}, [{"f0": "a", "f1": "b"}, {"f0": "c", "f1": "d"}]),
    "a word for NULL": (b"s,n\nx,1\n.,.\n", {"nulls": (".",)}, [{"s": "x", "n": 1}, {"s": None, "n": None}]),
    "nothing for NULL": (b's,n\n"",1\n,2\n', {"nulls": ("",)}, [{"s": "", "n": 1}, {"s": None, "n": 2}]),
}


@pytest.mark.parametrize(("content", "options", "rows"), SAID.values(), ids=SAID)
def test_a_form_that_is_said_is_not_guessed(
    tmp_path: Path, content: bytes, options: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert rows_of(opened(tmp_path / "a.csv", **options)) == rows


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2}', '{"a": "x"}', "[1]", "x", "1.5"])
def test_a_text_that_is_no_struct_of_its_type_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text("n|o\n1|{}\n2|" + text + "\n")
    types = pa.schema([("o", pa.struct([("a", pa.int64())]))])
    source = sources.open_files([str(tmp_path / "a.csv")], None, TextOptions(), io.BytesIO(), types=types)
    with pytest.raises(DataError, match=r"line 3, column 'o': .* is no STRUCT<"):
        rows_of(source)


DURATIONS = {
    "01:02:03": dt.timedelta(hours=1, minutes=2, seconds=3),
    "-27:00": dt.timedelta(hours=-27),
    "1 day 02:00:00.5": dt.timedelta(days=1, hours=2, seconds=0.5),
    "3 days": dt.timedelta(days=3),
    "-1 days -10800.25 seconds": dt.timedelta(days=-1, seconds=-10800.25),
    "90 seconds": dt.timedelta(seconds=90),
    "": None,
    **dict.fromkeys(
        [
            "x",
            "+",
            "1:60:00",
            "-1 day, 23:00:00",
            "-1 days 5 seconds",
            "1 day -5 seconds",
            "9999999999999 seconds",
            "0.0000001 seconds",
        ],
        "refused",
    ),
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_read_as_programs_write_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(f"n|d\n1|1 day\n2|{text}\n")
    types = pa.schema([("d", pa.duration("us"))])
    source = sources.open_files([str(tmp_path / "a.csv")], None, TextOptions(), io.BytesIO(), types=types)
    if DURATIONS[text] == "refused":
        with pytest.raises(DataError, match=r"line 3, column 'd': .* is no DURATION\(6\)"):
            rows_of(source)
    else:
        assert [row["d"] for row in rows_of(source)] == [dt.timedelta(days=1), DURATIONS[text]]


def workbook(**sheets: list[list[Any]]) -> bytes:
    made, out = openpyxl.Workbook(), io.BytesIO()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(out)
    return out.getvalue()


STAFF = workbook(
    other=[["Report"], [], ["id", "name", "zip", "on", "at", "pay", "ok"], [1, 'a"b,\nc', "00501", DAY, dt.datetime(2024, 3, 31, 5), 1.5, True], [2, None, None, None, None, None, None]],
    staff=[["id"], [7]],
)  # fmt: skip


def test_a_sheet_of_a_workbook_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.xlsx").write_bytes(STAFF)
    source = opened(tmp_path / "a.xlsx")
    first = {
        "id": 1,
        "name": 'a"b,\nc',
        "zip": "00501",
        "on": DAY,
        "at": dt.datetime(2024, 3, 31, 5),
        "pay": 1.5,
        "ok": True,
    }
    assert rows_of(source) == [first, {**dict.fromkeys(first), "id": 2}]
    assert [note for note in source.notes if "zeros" not in note and "2 lines" not in note] == []
    assert rows_of(opened(tmp_path / "a.xlsx", sheet="staff")) == [{"id": 7}]
    with pytest.raises(NotFound, match=r"a.xlsx: no sheet 'no'; expected 'other', 'staff'"):
        opened(tmp_path / "a.xlsx", sheet="no")
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InvalidInput, match=r"needs the package python_calamine; install 'lance-flight\[excel\]'"):
        opened(tmp_path / "a.xlsx")


def test_a_wrong_cell_is_named(tmp_path: Path) -> None:
    long = "x" * 1000
    assert 1200 * len(long) > HEAD
    (tmp_path / "a.xlsx").write_bytes(workbook(a=[["id", "s"], *([n, long] for n in range(1200)), ["x", long]]))
    with pytest.raises(DataError, match=r"line 1,202, column 'id': 'x' is no BIGINT"):
        rows_of(opened(tmp_path / "a.xlsx"))
    (tmp_path / "b.xlsx").write_bytes(STAFF[:-200])
    with pytest.raises(DataError, match=r"b\.xlsx: is no workbook that can be read"):
        opened(tmp_path / "b.xlsx")


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,z\n2024-03-31 10:00:00.123456789,2024-03-31T10:00:00.000000001Z\n")
    source = opened(tmp_path / "a.csv")
    assert source.schema.types == [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    (row,) = source.batches(source.schema)
    assert [column.view(pa.int64())[0].as_py() % 1_000_000_000 for column in row.columns] == [123_456_789, 1]


def test_rows_with_errors_are_left_out_and_each_is_named(tmp_path: Path) -> None:
    wrong = b'x,b\n7\n"8",c\n9,d,e\n\n10,"e\nf"\ny,z\n'
    (tmp_path / "a.csv").write_bytes(LONG + wrong)
    source = opened(tmp_path / "a.csv", ignores_errors=True)
    rows = rows_of(source)
    assert (len(rows), [row["n"] for row in rows[-2:]]) == (HEAD // 4 + 2, [8, 10])
    assert [(each.line, each.column, each.value, each.reason) for each in source.rejected] == [
        (LINE, "n", "x", "is no BIGINT"),
        (LINE + 1, "", None, "has 1 values; expected 2"),
        (LINE + 3, "", None, "has 3 values; expected 2"),
        (LINE + 7, "n", "y", "is no BIGINT"),
    ]
    assert json.dumps([list(each.texts) for each in source.rejected if each.line == LINE]) == '[["x", "b"]]'


def test_files_of_one_argument_whose_guesses_differ_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n,d\n00012,1,2024-03-31\n")
    (tmp_path / "b.csv").write_text("id;n;d\n7;1,5;2024-03-31 10:00:00\n")
    assert rows_of(opened(tmp_path)) == [
        {"id": "00012", "n": 1.0, "d": dt.datetime(2024, 3, 31)},
        {"id": "7", "n": 1.5, "d": dt.datetime(2024, 3, 31, 10)},
    ]


def test_an_array_of_any_size_is_read_in_parts(tmp_path: Path) -> None:
    rows = [{"n": number, "s": f'a]"\\,{{ {number}'} for number in range(120_000)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    assert (tmp_path / "a.json").stat().st_size > 4 * HEAD
    assert rows_of(opened(tmp_path / "a.json")) == rows


FORMS = {
    "delimiter": (",", ";", "\t", "|"),
    "newline": ("\n", "\r\n", "\r"),
    "encoding": ("utf-8", "utf-8-sig", "utf-16", "cp1252"),
    "before": ((), ("Größe",), ("Report", "", "all sites"), ("# made, by; hand\t|", "#")),
    "names": (True, False),
    "blank": (True, False),
}


def test_no_row_is_lost_in_any_form(tmp_path: Path) -> None:
    """By default in forms that have every pair of these values."""
    values = [{"id": n, "größe": f"é{n}, x", "at": DAY} for n in range(7)]
    forms = list(product(*FORMS.values()))
    for place in range(len(forms)) if IS_FULL else covering(forms, ALL):
        delimiter, newline, encoding, before, has_names, has_blanks = forms[place]
        rows = [delimiter.join((str(row["id"]), f'"{row["größe"]}"', str(row["at"]))) for row in values]
        lines = [*before, *([delimiter.join(values[0])] if has_names else []), *rows]
        text = (newline * (1 + has_blanks)).join(lines) + newline
        (tmp_path / "a.csv").write_bytes(text.encode(encoding))
        found = [tuple(row.values()) for row in rows_of(opened(tmp_path / "a.csv"))]
        assert found == [tuple(row.values()) for row in values], text


def test_what_one_file_shows_counts_for_the_next(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d,n\n31/03/2024,1\n")
    (tmp_path / "b.csv").write_text("d,n\n01/04/2024,x\n")
    source = opened(tmp_path)
    assert (source.notes, [row["d"] for row in rows_of(source)]) == ([], [DAY, dt.date(2024, 4, 1)])
    assert [row["n"] for row in rows_of(source)] == ["1", "x"]
