"""Statements that are deep, long or costly: each is answered or refused, and another client is answered meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.selection import IS_FULL
from tests.service.server_process import Server, serving

LONGEST_SILENCE = 5.0
"""Seconds within which another client is answered, whatever one of them does."""


TIMEOUTS = {"no timeout": "0", "a timeout of 3 s": "3"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a table for statements to change, and one that none of them changes."""
    with serving(tmp_path_factory.mktemp("hostile") / "root") as server:
        for table in ("t", "kept"):
            server.run(f"CREATE TABLE {table} (n BIGINT, m BIGINT, s VARCHAR, p BIGINT) PARTITIONED BY (p)")
            server.run(f"INSERT INTO {table} SELECT value, value % 7, 'x', value % 4 FROM range(1000)")
        yield server


def nested(n: int, left: str, inside: str, right: str) -> str:
    return left * n + inside + right * n


def chain(n: int, term: Callable[[int], str], joined: str) -> str:
    return joined.join(map(term, range(n)))


SHAPES: dict[str, Callable[[], str]] = {
    "a sum of 50,000 terms": lambda: "SELECT " + "+".join(["1"] * 50_000),
    "a sum of 50,000 columns": lambda: "SELECT " + "+".join(["n"] * 50_000) + " FROM t",
    "a chain of 10,000 ||": lambda: "SELECT " + "||".join(["'a'"] * 10_000),
    "20,000 <> joined by AND": lambda: "SELECT count(*) FROM t WHERE " + chain(20_000, lambda i: f"n <> {i}", " AND "),
    "many conditions of two columns": lambda: (
        "SELECT count(*) FROM t WHERE "
        + chain(3_000 if IS_FULL else 1_000, lambda i: f"(n = {i} AND m = {i % 7})", " OR ")
    ),
    "a list of 100,000 values": lambda: "SELECT count(*) FROM t WHERE n IN (" + chain(100_000, str, ",") + ")",
    "a delete of a long chain": lambda: "DELETE FROM t WHERE " + chain(20_000, lambda i: f"n = {i + 5000}", " OR "),
    "brackets": lambda: "SELECT " + nested(50_000, "(", "1", ")"),
    "NOT": lambda: "SELECT " + "NOT " * 50_000 + "true",
    "casts": lambda: "SELECT 1" + "::int" * 50_000,
    "calls in calls": lambda: "SELECT " + nested(5_000, "abs(", "n", ")") + " FROM t",
    "arrays in arrays": lambda: "SELECT " + nested(5_000, "[", "1", "]"),
    "CASE in CASE": lambda: "SELECT " + nested(5_000, "CASE WHEN true THEN ", "1", " END"),
    "subqueries": lambda: "SELECT * FROM " + nested(2_000, "(SELECT * FROM ", "t", ")"),
    "UNION ALL": lambda: " UNION ALL ".join(["SELECT 1"] * 20_000),
    "joins": lambda: "SELECT 1 FROM t a0 " + chain(2_000, lambda i: f"JOIN t b{i} ON a0.n = b{i}.n", " "),
    "WITH that doubles": lambda: (
        "WITH c0 AS (SELECT n FROM t), "
        + chain(40, lambda i: f"c{i + 1} AS (SELECT a.n FROM c{i} a JOIN c{i} b ON a.n = b.n)", ", ")
        + " SELECT count(*) FROM c40"
    ),
    "a cube of 30 columns": lambda: (
        "SELECT count(*) FROM t GROUP BY CUBE(" + chain(30, lambda i: f"n + {i}", ",") + ")"
    ),
    "a select list of 100,000": lambda: "SELECT " + chain(100_000, lambda i: f"n + {i} AS c{i}", ",") + " FROM t",
    "an argument list of 1,000,000": lambda: "SELECT concat(" + ",".join(["'a'"] * 1_000_000) + ")",
    "10 MB of SELECT": lambda: "SELECT " * 1_400_000,
    "10 MB of brackets": lambda: "(" * 10_000_000,
    "10 MB of text": lambda: "SELECT length('" + "x" * 10_000_000 + "')",
    "10 MB of parameters": lambda: "SELECT " + ",".join(["?"] * 5_000_000),
    "a parameter with a high number": lambda: "SELECT $999999999",
    "20 MB": lambda: "SELECT '" + "x" * 20_000_000 + "'",
    "levenshtein": lambda: "SELECT levenshtein(repeat('a', 60000), repeat('b', 60000))",
    "folds that take seconds together": lambda: (
        "SELECT "
        + chain(12 if IS_FULL else 3, lambda i: f"levenshtein(repeat('a', 20000), repeat('b', {20000 + i}))", " + ")
    ),
    "a condition that grows at each level": lambda: (
        "SELECT n FROM "
        + nested(16, "(SELECT CASE WHEN n > 1 THEN n * n * n ELSE n - n END AS n FROM ", "t", " WHERE n * n > n)")
    ),
    "WITH whose sums add up": lambda: (
        "WITH c0 AS (SELECT n FROM t), "
        + chain(16, lambda i: f"c{i + 1} AS (SELECT n{' + 1' * 480} AS n FROM c{i})", ", ")
        + " SELECT n FROM c16"
    ),
    "an expression of a table": lambda: (
        "CREATE TABLE e (a VARCHAR) PARTITIONED BY (expr('length(repeat(''x'', 2000000000))', a))"
    ),
    "an expression of a column": lambda: "ALTER TABLE t ADD COLUMN e AS (length(repeat(s, 2000000000)))",
}


@pytest.mark.sample(12)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("timeout", TIMEOUTS.values(), ids=TIMEOUTS)
def test_other_clients_are_answered_whatever_a_statement_is(server: Server, timeout: str, name: str) -> None:
    before = resident(server)
    ended = threading.Event()
    outcome: list[str] = []

    def send() -> None:
        try:
            with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET statement_timeout = {timeout}")
                cursor.execute(SHAPES[name]())
                outcome.append(str(cursor.fetch_arrow_table().num_rows))
        except Error as refused:
            outcome.append(str(refused))
        finally:
            ended.set()

    threading.Thread(target=send, daemon=True).start()
    is_over = False
    while not is_over:
        is_over = ended.wait(0.05)
        began = time.monotonic()
        assert server.value("SELECT 1") == 1
        assert time.monotonic() - began < LONGEST_SILENCE
    assert server.process.poll() is None
    assert "unexpected" not in outcome[0]
    assert "internal" not in outcome[0]
    assert resident(server) - before < 3 << 30


def resident(server: Server) -> int:
    """The memory of a server's process, in bytes."""
    with open(f"/proc/{server.process.pid}/statm") as file:  # noqa: PTH123 - no file of a disk
        return int(file.read().split()[1]) * 4096


def test_values_of_megabytes_are_inserted_in_one_commit(server: Server) -> None:
    server.run("CREATE TABLE many (id BIGINT, word VARCHAR)")
    rows = 590_000 if IS_FULL else 100_000
    text = "INSERT INTO many VALUES " + ",".join(f"({i}, 'word, ({i:06})')" for i in range(rows))
    assert len(text) <= 16 << 20
    assert server.run(text) == rows
    assert server.rows("SELECT count(*), count(DISTINCT id), max(word) FROM many") == [
        (rows, rows, f"word, ({rows - 1:06})")
    ]
    assert "LIMIT" in server.refuses(text[: 2 << 20].rpartition(",(")[0] + " LIMIT 1")
    assert server.value("SELECT count(*) FROM many") == rows


def test_a_longer_statement_is_refused_by_its_limit(tmp_path: Path) -> None:
    with serving(tmp_path, "--statement-limit", "1000") as server:
        assert server.value("SELECT '" + "x" * 900 + "'") == "x" * 900
        said = server.refuses("SELECT '" + "x" * 1000 + "'")
    assert "limit_exceeded" in said
    assert "1009 bytes" in said
    assert "statement_limit" in said


@pytest.mark.parametrize("sent", ["SELECT\n  {} FROM t WHERE a = ?", "UPDATE t\nSET n = {} WHERE m = 1"])
def test_the_place_that_is_named_is_one_of_the_text_that_was_sent(server: Server, sent: str) -> None:
    text = sent.format("+".join(map(str, range(600))))
    column = text.splitlines()[1].index("+501") + 1
    assert f"at line 2, column {column}" in server.refuses(text)
