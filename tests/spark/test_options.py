"""Options: what each of them means, and every problem of theirs at once."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight_client.spark import options as stream_options
from lance_flight_client.spark.options import NamedTable, ReadOptions, WriteOptions, meanings
from lance_flight_client.spark.reading import access_of, table_query

DOCS = Path(__file__).parent.parent.parent / "client" / "docs"
SECRET = "5ecret"  # noqa: S105 - nobody's
DIRECT = {"root": "/data", "table": "t"}
SERVED = {"uri": "grpc://host:1", "table": "t"}

MEANT = [
    pytest.param({}, "table", NamedTable("public", "t"), id="a table"),
    pytest.param({"table": "s.t"}, "table", NamedTable("s", "t"), id="a table of a schema"),
    pytest.param({"table": "a.b.t"}, "table", NamedTable("a.b", "t"), id="a table of a nested schema"),
    pytest.param({"table": '"a.b"."say ""t"""'}, "table", NamedTable("a.b", 'say "t"'), id="a quoted table"),
    pytest.param({"table": "Two Words"}, "table", NamedTable("public", "Two Words"), id="a name as it is"),
    pytest.param({"snapshot": "12"}, "at", 12, id="a version"),
    pytest.param({"tag": "audited"}, "at", "audited", id="a tag"),
    pytest.param({"tag": ""}, "at", "", id="an empty tag, which no table has"),
    pytest.param({"time": "2026-01-31"}, "at", datetime(2026, 1, 31, tzinfo=UTC), id="a moment"),
    pytest.param(
        {"time": "2026-01-31T02:00:00+02:00"}, "at", datetime(2026, 1, 31, tzinfo=UTC), id="a moment with a zone"
    ),
    pytest.param({"columns": "a,b"}, "columns", ("a", "b"), id="columns"),
    pytest.param({"columns": ' A , "x, y" , "say ""z"""'}, "columns", ("A", "x, y", 'say "z"'), id="quoted columns"),
    pytest.param({"partitions": "4"}, "partitions", 4, id="partitions"),
    pytest.param({"STORAGE.aws_region": "x"}, "storage", {"aws_region": "x"}, id="a storage option"),
    pytest.param({"Filter": "a = 1"}, "filter", "a = 1", id="in any case"),
]


@pytest.mark.parametrize(("given", "name", "value"), MEANT)
def test_an_option_means(given: Mapping[str, str], name: str, value: Any) -> None:
    assert getattr(ReadOptions.parse(DIRECT | given), name) == value


WRONG = [
    pytest.param({"partitions": "2"}, ["'root'", "'uri'", "'table'"], id="nothing"),
    pytest.param({**DIRECT, "uri": "grpc://h:1"}, ["expected one of 'root'"], id="both places"),
    pytest.param({"root": "/data"}, ["expected 'table'"], id="no table"),
    pytest.param({"uri": "grpc://h:1"}, ["expected 'table' or 'query'"], id="neither table nor query"),
    pytest.param({**SERVED, "query": "SELECT 1"}, ["not both"], id="table and query"),
    pytest.param({**DIRECT, "tabel": "t"}, ["no option 'tabel'; did you mean 'table'?"], id="misspelt"),
    pytest.param({**DIRECT, "zzz": "t"}, ["no option 'zzz'; expected root, uri, table"], id="unknown"),
    pytest.param({**DIRECT, "option.root": "/data"}, ["CREATE TEMPORARY VIEW"], id="a table of Spark's catalog, made"),
    pytest.param({}, ["CREATE TEMPORARY VIEW"], id="a table of Spark's catalog, read"),
    pytest.param({"path": "/data"}, ["no option 'path'", "expected one of 'root'"], id="a path"),
    pytest.param({**DIRECT, "snapshot": "x"}, ["'snapshot' is 'x'; expected a number"], id="no version"),
    pytest.param({**DIRECT, "partitions": "0"}, ["'partitions' is '0'; expected a number from 1"], id="no partitions"),
    pytest.param({**DIRECT, "time": "now"}, ["'time' is 'now'; expected a moment in ISO 8601"], id="no moment"),
    pytest.param({**DIRECT, "tag": "a", "snapshot": "1"}, ["one of snapshot, tag"], id="two points"),
    pytest.param({**DIRECT, "columns": ""}, ["'columns' is ''"], id="no columns"),
    pytest.param({**DIRECT, "columns": 'a,"b'}, ["'columns' is"], id="an open quote"),
    pytest.param({**DIRECT, "columns": "a,b,a"}, ["'columns' names 'a' twice"], id="a column twice"),
    pytest.param({**DIRECT, "table": "a..b"}, ["'table' is 'a..b'"], id="no table name"),
    pytest.param({**DIRECT, "token": SECRET}, ["'token' goes with 'uri'"], id="a token for a directory"),
    pytest.param({**DIRECT, "query": "SELECT 1"}, ["'query' goes with 'uri'"], id="a query of a directory"),
    pytest.param({**SERVED, "storage.key": SECRET}, ["'storage.key' goes with 'root'"], id="storage of a server"),
    pytest.param({**SERVED, "token": SECRET, "password": SECRET}, ["not both"], id="token and password"),
    pytest.param({**SERVED, "password": SECRET}, ["together"], id="a password of nobody"),
    pytest.param({"uri": f"grpc://me:{SECRET}@h:1", "table": "t"}, ["'uri' holds a user"], id="a password in the URI"),
    pytest.param({"uri": "http://h:1", "table": "t"}, ["'uri' is 'http://h:1'"], id="another protocol"),
    pytest.param(
        {"uri": "grpc://h:1", "query": "SELECT 1", "filter": "a"}, ["'filter' goes with 'table'"], id="a filtered query"
    ),
    pytest.param(
        {"root": "/d", "tabel": "t", "snapshot": "-1", "time": "x", "columns": ","},
        ["'tabel'", "'snapshot'", "'time'", "'columns'", "expected 'table'"],
        id="all at once",
    ),
]


@pytest.mark.parametrize(("given", "messages"), WRONG)
def test_what_is_wrong_is_said_at_once(given: Mapping[str, str], messages: list[str]) -> None:
    with pytest.raises((InvalidInput, Unsupported)) as raised:
        ReadOptions.parse(given)
    assert [message for message in messages if message not in str(raised.value)] == []
    assert SECRET not in str(raised.value)


def test_secrets_are_not_shown() -> None:
    whole = ReadOptions.parse({**SERVED, "username": "me", "password": SECRET})
    shown = [whole, ReadOptions.parse({**SERVED, "token": SECRET}), access_of(whole)]
    shown.append(ReadOptions.parse({**DIRECT, "storage.aws_secret_access_key": SECRET}))
    assert all(SECRET not in f"{value!r} {value}" for value in shown)
    assert pickle.loads(pickle.dumps(shown)) == shown, "and yet they reach the executors"  # noqa: S301 - made here


def test_the_query_for_a_table_quotes_what_it_is_given() -> None:
    given = {**SERVED, "table": '"a""b"', "columns": '"say ""x"""', "filter": "y > 1 -- so", "tag": "v"}
    options = ReadOptions.parse(given)
    sql = table_query(options, options.at)
    assert sql == 'SELECT "say ""x""" FROM "public"."a""b@v" WHERE (y > 1 -- so\n)'


def test_the_pages_about_spark_list_every_option_with_its_meaning() -> None:
    reading, _, writing = (DOCS / "spark-read-write.md").read_text().partition("\n## Write\n")
    streaming = (DOCS / "streams.md").read_text()
    tables = (
        (reading, meanings(ReadOptions)),
        (writing, meanings(WriteOptions)),
        (streaming, stream_options.READ_MEANINGS),
    )
    for text, expected in tables:
        documented = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", text, re.MULTILINE))
        assert documented == dict(expected)
