"""The documents, executed: their Python and SQL run against real servers, their table of settings is the one in the code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.config import is_reloadable, settings

from tests.documents import blocks, text_of
from tests.service.server_process import serving

pytestmark = pytest.mark.slow  # server processes

DOCUMENTED_URI = "grpc://127.0.0.1:32010"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A server over an empty root, and its URI."""
    root, ready = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("ready") / "uri"
    command = [
        sys.executable,
        "-m",
        "lance_flight_client.cli",
        "serve",
        str(root),
        "--port",
        "0",
        "--ready-file",
        str(ready),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield root, line.split()[-1]
        process.terminate()


PYTHON = (
    ("README.md", "Connect"),
    ("client/docs/drivers.md", "Ingest options and headers"),
    ("server/docs/transactions.md", None),
    ("server/docs/python.md", None),
)
"""The pages and sections whose Python goes on with the tables of those before it."""
SQL = tuple(
    f"server/docs/{page}.md"
    for page in (
        "lineage",
        "search",
        "branches",
        "json",
        "attached-tables",
        "sql",
        "evolution",
        "blobs",
        "plain-tables",
        "joins",
    )
)
"""The pages whose SQL goes on with the tables of those before it."""


def test_the_documented_python_runs_as_it_stands(served: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    root, uri = served
    names: dict[str, Any] = {"ROOT": str(root)}
    for page, section in PYTHON:
        for block in blocks(page, "python", section):
            exec(compile(block.replace(DOCUMENTED_URI, uri), page, "exec"), names)  # noqa: S102 - our own documents
    printed = capsys.readouterr().out
    assert "3 rows stored" in printed
    assert "partitions: 1 / 3" in printed
    assert "partitions: 2 / 3" in printed


DOCS = """SELECT value AS id, chr(97 + CAST(value % 3 AS INT)) AS tenant, value % 5 AS price, 'title' AS title,
 'an open format like lance' AS body, [sin(value), cos(value)] AS embedding FROM generate_series(1, 900)"""
BEFORE = {
    "SELECT id, _partition, _rowid": [
        *["INSERT INTO accounts VALUES (1, 'north', 10), (2, 'south', 20)"] * 4,
        "UPDATE accounts SET balance = 0 WHERE id = 1",
    ],
    "CREATE INDEX ON docs (embedding)": [
        (
            "CREATE TABLE docs (id BIGINT, tenant VARCHAR, price BIGINT, title VARCHAR, body VARCHAR, embedding FLOAT[2])"
            " PARTITIONED BY (tenant)"
        ),
        f"INSERT INTO docs {DOCS}",
    ],
    "CREATE INDEX ON pages": [
        "INSERT INTO pages VALUES " + ", ".join(f"({number}, [[{number}, 1], [0.5, 2]])" for number in range(1, 11))
    ],
    "ALTER TABLE events CREATE BRANCH": [
        "CREATE TABLE events (id BIGINT, device VARCHAR) PARTITIONED BY (bucket(2, id))",
        "INSERT INTO events VALUES (1, 'a'), (2, NULL)",
    ],
}
"""What the SQL of the documents takes for there, by the statement that first does."""
ROWS = {
    "SELECT id, _partition, _rowid": 8,
    "SELECT _rowid, _change": 2,
    "SELECT id, _distance FROM": 10,
    "SELECT s.id, d.title": 10,
    "SELECT id, _distance, _rowid": 10,
    "SELECT _query, id, _distance": 21,
    "SELECT _query, id FROM": 6,
    "SELECT id, embedding <=>": 10,
    "SELECT id, _score FROM full_text": 20,
    "SELECT id, _score FROM hybrid": 10,
    "SELECT id, highlight": 10,
    "SELECT id, _score, _vector_rank": 10,
    "SELECT count(*)": 1,
    "SELECT id, doc": 2,
    "SELECT doc ->> 'kind'": 1,
}
"""How many rows its queries give."""


def test_the_documented_sql_runs_as_it_stands(tmp_path: Path) -> None:
    statements = [text for page in SQL for block in blocks(page, "sql") for text in block.split(";\n") if text.strip()]
    shown: set[str] = set()
    found = pa.table({})
    with serving(tmp_path / "root") as server:
        for text in (statement.strip() for statement in statements):
            for prepared in (each for begins, more in BEFORE.items() if text.startswith(begins) for each in more):
                server.run(prepared)
            begins = next((begins for begins in ROWS if text.startswith(begins)), None)
            if begins is None:
                server.run(text)
                continue
            shown.add(begins)
            values = {"1": pa.array([[0.1, 0.7]], pa.list_(pa.float32(), 2))}
            if "$3" in text:  # the last row of the page before
                values |= {"2": found["_distance"].combine_chunks()[-1:], "3": found["_rowid"].combine_chunks()[-1:]}
            bound = pa.record_batch(values) if "$1" in text else None
            found = server.query(text.replace("[0.1, 0.7, …]", "[0.1, 0.7]"), bound)
            assert found.num_rows >= ROWS[begins], text
    assert shown == set(ROWS)


MONTHS = ", ".join(f"(TIMESTAMP '2013-{month:02}-01T00:00:00')" for month in range(1, 13))
FLIGHTS = f"""
CREATE TABLE flights (carrier VARCHAR, origin VARCHAR, distance BIGINT, time_hour TIMESTAMP)
 PARTITIONED BY (month(time_hour), origin);
INSERT INTO flights SELECT 'HA', o.origin, 100, m.at
 FROM (VALUES {MONTHS}) m(at) CROSS JOIN (VALUES ('EWR'), ('JFK'), ('LGA')) o(origin);
CREATE TABLE airports (faa VARCHAR, name VARCHAR);
INSERT INTO airports VALUES ('JFK', 'John F Kennedy Intl'), ('LGA', 'La Guardia')
"""
"""A flight for each of the 36 partitions that the demo has."""


def test_explain_shows_what_its_page_shows(tmp_path: Path) -> None:
    queries = re.findall(r"`(SELECT [^`]*)`", text_of("server/docs/explain.md"))
    plans = blocks("server/docs/explain.md", "text")
    with serving(tmp_path / "root") as server:
        for statement in FLIGHTS.split(";"):
            server.run(statement)
        verbs = ("EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN ANALYZE")
        for verb, query, expected in zip(verbs, queries, plans, strict=True):
            shown = "\n".join(server.query(f"{verb} {query}")["plan"].to_pylist())
            # The demo has other rows, and no run the same times.
            lines, wanted = (
                [re.sub(r"(snapshot |rows: |read: |seconds: )[\d.]+", r"\1…", line) for line in text.splitlines()]
                for text in (shown, expected)
            )
            assert [line for line in wanted if line not in lines] == []


def test_the_documented_settings_have_their_defaults_and_meanings() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", text_of("server/docs/configuration.md"), re.MULTILINE
    )
    documented = {name: (default.strip("`"), reloaded, text) for name, default, reloaded, text in rows}
    for setting in settings():
        default = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
        reloaded = "yes" if is_reloadable(setting) else ""
        assert documented.get(setting.name) == (default, reloaded, setting.metadata["help"])


def test_the_help_of_serve_lists_every_setting() -> None:
    command = [sys.executable, "-m", "lance_flight_client.cli", "serve", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for setting in settings():
        assert f"--{setting.name.replace('_', '-')} " in shown
