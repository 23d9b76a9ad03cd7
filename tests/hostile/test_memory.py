"""What takes few bytes to send and many to answer: it is refused, the server stays small, and another client is answered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight import wire
from pyarrow import flight

from tests.hostile.capped import bounded, capped
from tests.hostile.outside import described
from tests.hostile.prepared import INTO, prepared
from tests.selection import IS_FULL
from tests.service.server_process import Server, files

pytestmark = pytest.mark.slow  # a server process

MANY = 100_000_000


def nulls(count: int) -> pa.Array:
    """NULLs without a type. `pa.nulls` takes half a second for two billions, in each process that collects this module."""
    return pa.Array.from_buffers(pa.null(), count, [None])


NULLS = nulls(MANY)
BOOLEANS = pa.Array.from_buffers(pa.bool_(), MANY, [None, pa.py_buffer(bytes(MANY // 8))])
ENDS = pa.array([0, MANY], pa.int32())
RUN = pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), ["x" * 100])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with capped(tmp_path_factory.mktemp("memory") / "root") as served:
        served.run("CREATE TABLE t (n BIGINT, s VARCHAR, v FLOAT[1536])")
        served.run("INSERT INTO t (n, s) VALUES (1, 'a'), (2, 'b')")
        served.run("CREATE INDEX words ON t (s) USING fts")
        served.run("CREATE TABLE wide (n BIGINT, s VARCHAR)")
        served.run("INSERT INTO wide SELECT value, repeat('x', 2000) FROM range(4000)")
        served.run("CREATE TABLE documents (doc JSON)")
        yield served


def rows(*columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({str(place): column for place, column in enumerate(columns)})


PARAMETERS = {
    "NULLs as texts": ("SELECT CAST(? AS VARCHAR)", rows(NULLS)),
    "NULLs as vectors": ("INSERT INTO t (v) VALUES (?)", rows(NULLS.slice(0, 100_000))),
    "booleans as numbers": ("SELECT n + ? FROM t", rows(BOOLEANS)),
    "booleans of any type": ("SELECT ?", rows(BOOLEANS)),
    "NULLs in a list": ("SELECT ?", rows(pa.ListArray.from_arrays(ENDS, NULLS))),
    "NULLs in a struct": ("SELECT ?", rows(pa.StructArray.from_arrays([NULLS] * 3, list("abc")))),
    "NULLs in one row": ("SELECT ?", rows(pa.FixedSizeListArray.from_arrays(NULLS, MANY))),
    "a run": ("SELECT ?", rows(RUN)),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize(("sql", "parameters"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_without_bytes_are_refused(server: Server, sql: str, parameters: pa.RecordBatch) -> None:
    with bounded(server, memory=256 << 20):
        assert "parameter_limit" in server.refuses(sql, parameters)


CODES = pa.Array.from_buffers(pa.int8(), MANY, [None, pa.py_buffer(bytes(MANY))])
# Not checked: every process that collects this module would read all of the codes.
CODED = pa.DictionaryArray.from_arrays(CODES, ["x" * 100], safe=False)
INGESTED = {
    "a dictionary": CODED,
    "a dictionary in a list": pa.ListArray.from_arrays(ENDS, CODED),
    "NULLs in one row": pa.FixedSizeListArray.from_arrays(nulls(2_000_000_000), 2_000_000_000),
}


@pytest.mark.parametrize("column", INGESTED.values(), ids=INGESTED)
def test_batches_that_grow_as_they_are_read_are_refused(server: Server, column: pa.Array) -> None:
    batch = rows(column)
    with bounded(server), pytest.raises(flight.FlightServerError, match="batch_limit"):  # noqa: PT012 - which call fails is no matter
        writer, reader = server.client.do_put(described(INTO), batch.schema)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            reader.read()


ZEROS = pa.Array.from_buffers(pa.int8(), 6 * MANY, [None, pa.py_buffer(bytes(6 * MANY))])
UNCOUNTED = {
    "texts of groups": "SELECT max(length(a)) FROM (SELECT string_agg(s, ',') AS a FROM wide, range(600) r(v) GROUP BY v % 10)",
    "lists of groups": "SELECT max(cardinality(a)) FROM (SELECT array_agg(s) AS a FROM wide, range(600) r(v) GROUP BY v % 10)",
    "a recursion": "WITH RECURSIVE r AS (SELECT string_agg(s, '') AS a, 1 AS n FROM wide WHERE n < 500 UNION ALL"
    " SELECT a || n, n + 1 FROM r WHERE n < 100000) SELECT max(length(a)) FROM r",
}


@pytest.mark.parametrize("sql", UNCOUNTED.values(), ids=UNCOUNTED)
def test_a_statement_that_outgrows_the_server_is_ended(outgrown: Server, sql: str) -> None:
    with bounded(outgrown, memory=3 << 30):
        said = outgrown.refuses(sql)
    assert "[limit_exceeded] the statement was ended" in said or "[out_of_memory]" in said


COPIES = 4000
"""Of a text of a million bytes: more than the server may take, were all of them there at once."""
COPIED = {
    "a product": f"SELECT sum(length(a)) FROM (SELECT string_agg(s, '') AS a FROM wide WHERE n < 500) CROSS JOIN range({COPIES})",
    "a join": "SELECT sum(length(a)) FROM (SELECT 1 AS j, string_agg(s, '') AS a FROM wide WHERE n < 500) x"
    f" JOIN (SELECT 1 AS k FROM range({COPIES})) y ON j = k",
    "a subquery": "SELECT sum(length((SELECT string_agg(s, '') FROM wide WHERE n < 500) || (value % 1)::VARCHAR))"
    f" - {COPIES} FROM range({COPIES})",
}


@pytest.mark.parametrize("sql", COPIED.values(), ids=COPIED)
def test_what_was_collected_is_copied_a_few_rows_at_a_time(started: Server, sql: str) -> None:
    with bounded(started, memory=3 << 30):
        assert started.value(sql) == COPIES * 1_000_000


PRESSED = {"an ingest": INTO, "a bound parameter": None}


def _limited(place: Path) -> AbstractContextManager[Server]:
    """The command itself: it bounds Arrow's memory before it imports it."""
    limits = ("--server-memory-limit", "256MiB", "--index-cache", "64MiB", "--metadata-cache", "64MiB")
    return capped(place / "root", *limits, is_forked=False)


def _fill(served: Server) -> Server:
    served.run("CREATE TABLE wide (n BIGINT, s VARCHAR)")
    served.run("INSERT INTO wide SELECT value, repeat('x', 2000) FROM range(4000)")
    return served


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with _limited(tmp_path_factory.mktemp("pressed")) as served:
        yield _fill(served)


@pytest.fixture
def outgrown(tmp_path: Path) -> Iterator[Server]:
    """A server of its own: what allocators keep of the statement that was ended is no other test's."""
    with _limited(tmp_path) as served:
        yield _fill(served)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("command", PRESSED.values(), ids=PRESSED)
def test_compressed_batches_are_bounded_before_they_are_decompressed(
    started: Server, command: wire.StatementIngest | None, codec: str
) -> None:
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=codec))
    to = described(
        command or wire.PreparedStatementQuery(prepared_statement_handle=prepared(started.client, "SELECT ?"))
    )
    batch = rows(ZEROS, ZEROS, ZEROS)

    def send(_: int) -> str:
        with flight.connect(started.uri) as client, pytest.raises(flight.FlightServerError) as raised:  # noqa: PT012
            writer, reader = client.do_put(to, batch.schema, options)
            with writer:
                writer.write_batch(batch)
                writer.done_writing()
                reader.read()
        return str(raised.value)

    with bounded(started), ThreadPoolExecutor(3) as pool:
        assert all("limit_exceeded" in said for said in pool.map(send, range(3)))


SOME = 4


@pytest.mark.full
def test_large_parameters_of_many_clients_become_handles_one_after_another(outgrown: Server) -> None:
    """A client that finds no room is refused, and tries again later, as it is told to."""
    batch, pause = rows(pa.array(["x" * 60_000_000])), Event()

    def bind(client: flight.FlightClient) -> str:
        handle = prepared(client, "SELECT length(?)")
        command = described(wire.PreparedStatementQuery(prepared_statement_handle=handle))
        writer, reader = client.do_put(command, batch.schema)
        try:
            with writer:
                writer.write_batch(batch)
                writer.done_writing()
                reader.read()
        except flight.FlightServerError as exc:
            return str(exc)
        return "bound"

    bound: list[int] = []

    def bind_at_last(number: int) -> str:
        with flight.connect(outgrown.uri) as client:
            said = bind(client)
            while "limit_exceeded" in said and len(bound) < SOME:
                pause.wait(0.1)
                said = bind(client)
        bound.extend([number] * (said == "bound"))
        return said

    with bounded(outgrown, memory=4 << 30), ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(bind_at_last, range(16)))
    assert len(bound) >= SOME
    assert all(each == "bound" or "limit_exceeded" in each for each in answers)


def test_values_that_are_missing_are_stored_in_parts(server: Server) -> None:
    missing = 190_000  # vectors of 1.1 GiB
    server.run("CREATE TABLE vectors (p BIGINT, b BIGINT, v FLOAT[1536]) PARTITIONED BY (p)")
    with bounded(server):
        server.ingest("vectors", rows(BOOLEANS.slice(0, missing)).rename_columns(["b"]), "append")
    assert server.value("SELECT count(*) FROM vectors WHERE v IS NULL AND b = 0") == missing


def calls(function: str, least: int = 0, number: int = 40) -> str:
    """A list of calls of which no two are the same."""
    return ", ".join(function.format(least + place) for place in range(number))


TEXT = "x" * 1_000_000
REPEATED, CONSTANT, ROW = "repeat(s, {})", "repeat('x', {})", "(repeat('x', {}))"
LONGEST = "max(length(s || '{}'))"
STATEMENTS = {
    "make_array": f"SELECT cardinality(make_array({calls(REPEATED, 130_000_000)})) FROM t",
    "make_array of constants": f"SELECT cardinality(make_array({calls(CONSTANT, 130_000_000)}))",
    "calls that are small by themselves": f"SELECT cardinality([{calls(REPEATED, 10_000_000)}]) FROM t",
    "constants that are small by themselves": f"SELECT length(greatest({calls(CONSTANT, 10_000_000)}))",
    "a struct": f"SELECT struct({calls(REPEATED, 10_000_000)}) FROM t",
    "coalesce": f"SELECT coalesce({calls('nullif({0} + n, 0)::VARCHAR || repeat(s, 10000000 + {0})')}) FROM t",
    "VALUES": f"SELECT max(length(column1)) FROM (VALUES {calls(ROW, 10_000_000)})",
    "a union": " UNION ALL ".join(f"SELECT repeat(s, {10_000_000 + place}) FROM t" for place in range(20)),
    "lists": f"SELECT {calls('cardinality(range({}))', 3_000_000, 3)}",
    "a product of lists": "SELECT unnest(range(3000000)), unnest(range(3000001)) FROM t",
    "a fixed size": "SELECT count(a) FROM (SELECT arrow_cast(NULL, 'FixedSizeList(100000000, Int64)') AS a FROM t)",
    "a vector": "SELECT CAST(NULL AS FLOAT[100000000]) FROM t",
    "a vector of vectors": "SELECT NULL::DOUBLE[9999][9999] FROM t",
    "fixed sizes within each other": "SELECT arrow_cast(NULL, 'FixedSizeList(9999 x FixedSizeList(9999 x Int64))') FROM t",
    "padding": f"SELECT concat({calls('lpad(s, n + {})', 3_000_000)}) FROM t",
    "a list as a text": f"SELECT length(array_to_string(range(3000000), '{'y' * 900}'))",
    "a text as a list": "SELECT cardinality(string_to_array(repeat(s, 30000000), NULL)) FROM t",
    "a printed text": "SELECT printf('%s%s', repeat(s, 15000000), repeat(s, 15000000)) FROM t",
    "a text for a URL": "SELECT url_encode(repeat('%', n + 15000000)) FROM t",
    "parts by a pattern": "SELECT string_split_regex(repeat(s, 15000000), 'a') FROM t",
    "all matches": "SELECT regexp_extract_all(repeat(s, 15000000), 'a') FROM t",
    "characters that are compared": "SELECT jaro_similarity(a, a) FROM (SELECT repeat(s, 15000000) AS a FROM t)",
    "copies of a call": f"SELECT length({'||'.join('a' * 200)}) FROM (SELECT repeat(s, n * 10000000) AS a FROM t)",
    **{
        f"recursion by {name}": f"WITH RECURSIVE r AS (SELECT {first} AS a, 1 AS n UNION ALL SELECT {step}, n + 1 FROM r WHERE n < 60)"
        " SELECT count(*), max(n) FROM r"
        for name, first, step in (
            ("||", "'x'", "a || a"),
            ("concat", "'x'", "concat(a, a, a, a)"),
            ("replace", "'x'", "replace(a, 'x', 'xxxxxxxxxx')"),
            ("lists", "[1]", "array_concat(a, a)"),
            ("lists of texts", "['x']", "array_concat(a, a)"),
        )
    },
    **{
        f"a window of {name}": f"SELECT max(cardinality(a)) FROM (SELECT array_agg({value}) OVER {over} AS a FROM wide)"
        for name, value, over in (
            ("all rows", "s", "()"),
            ("the rows before", "s", "(ORDER BY n)"),
            ("the rows around", "s", "(ORDER BY n ROWS BETWEEN 2000 PRECEDING AND CURRENT ROW)"),
            ("few partitions", "s", "(PARTITION BY n % 3)"),
            ("lists", "[s, s]", "()"),
            ("structs", "named_struct('a', n, 'b', s)", "()"),
        )
    },
    "a window of texts": "SELECT max(length(a)) FROM (SELECT string_agg(s, ',') OVER (ORDER BY n) AS a FROM wide)",
    "a window in a subquery": "SELECT (SELECT max(length(a)) FROM (SELECT string_agg(s, ',') OVER () AS a FROM wide)) AS b",
    "more than an offset": "SELECT sum(length(a)) FROM (SELECT repeat(s, 15000000) AS a, unnest(range(8000)) FROM t)",
    "centroids": "SELECT approx_percentile_cont(n, 0.5, 1000 * 100000) FROM t",
    "centroids of an order": "SELECT approx_percentile_cont(0.5, 100000000) WITHIN GROUP (ORDER BY n) FROM t",
    "weighted centroids in a window": "SELECT approx_percentile_cont_with_weight(n, n, 0.5, 100000000) OVER () FROM t",
    "centroids in a subquery": "SELECT n FROM t WHERE n > (SELECT approx_percentile_cont(n, 0.5, 100000000) FROM t)",
    "a long document": """SELECT json_extract('["' || repeat('x', n + 5000000) || '"]', '$[0]') FROM t""",
    "a long document that is stored": """INSERT INTO documents SELECT '["' || repeat('x', n + 5000000) || '"]' FROM t""",
    "a long text": f"SELECT '{TEXT * 5}' AS a",
    "a long row": f"INSERT INTO t (n, s) VALUES (7, '{TEXT * 14}')",
    "many blanks": f"SELECT {' ' * 14_000_000} 1",
    "many comments": f"SELECT {'/**/' * 1_000_000} 1",
    "many comments of a line": "SELECT " + "--\n" * 1_000_000 + "1",
    "many comments in a row": f"INSERT INTO t (n) VALUES ({'/**/' * 3_500_000} 7)",
    "a query of words": f"SELECT * FROM full_text_search('t', 's', '{'word ' * 3_000_000}')",
    "a query of brackets": f"SELECT * FROM full_text_search('t', 's', '{'(' * 10_000_000}')",
    "a query that is computed": "SELECT highlight(s, repeat('word ', 1000000)) FROM t",
    "a highlight": f"SELECT highlight(s, '{'word ' * 3_000_000}') FROM t",
    "a highlight of a long text": "SELECT highlight(repeat('word ', 5000000), 'word') FROM t",
}


@pytest.mark.sample(20)
@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_calls_that_make_much_of_little_are_refused(server: Server, sql: str) -> None:
    with bounded(server, memory=512 << 20):
        assert "limit_exceeded" in server.refuses(sql)


CLIENTS, LENGTH = (6, 4_000_000) if IS_FULL else (3, 200_000)
"""A statement of the longest texts takes ten seconds of a core."""
LONG_TEXTS = {
    "a literal": f"SELECT length('{'x' * LENGTH}') AS a",
    "hexadecimal": f"SELECT X'{'ab' * (LENGTH // 2)}' IS NULL AS a",
    "blanks": f"SELECT {' ' * LENGTH} 1",
}


@pytest.mark.parametrize("sql", LONG_TEXTS.values(), ids=LONG_TEXTS)
def test_long_texts_of_many_clients_are_read_one_after_another(server: Server, sql: str) -> None:
    def ask(_: int) -> int:
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            return len(cursor.execute(sql).fetchall())

    with bounded(server, memory=2 << 30), ThreadPoolExecutor(CLIENTS) as pool:
        assert list(pool.map(ask, range(CLIENTS))) == [1] * CLIENTS


def test_an_error_names_the_beginning_of_a_long_value(server: Server) -> None:
    """Clients drop a connection, and all that goes on over it, whose headers are too long."""
    with bounded(server, memory=512 << 20):
        said = server.refuses("SELECT CAST(repeat('1', n + 4000000) AS BIGINT) FROM t")
    assert "[query_failed] Cannot cast string '111" in said
    assert len(said) < 4_000


ANSWERED = {
    "a long literal in each row": (f"SELECT count(DISTINCT length('{TEXT}' || value)) FROM range(300)", 3),
    "a literal beside each row": (
        f"SELECT sum(length(a)) FROM (SELECT '{TEXT}' AS a FROM wide LIMIT 300)",
        300_000_000,
    ),
    "a constant list beside each row": (
        "SELECT sum(cardinality(CASE WHEN n > 3 THEN range(300000) ELSE range(300001) END)) FROM wide WHERE n < 560",
        560 * 300_000 + 4,
    ),
    "a constant text beside each row": (
        "SELECT sum(length(CASE WHEN n > 3 THEN array_to_string(range(100000), ',') ELSE 'x' END)) FROM wide",
        3996 * len(",".join(map(str, range(100_000)))) + 4,
    ),
    "a recursion over a constant text": (
        (
            "WITH RECURSIVE r AS (SELECT max(s) || repeat('x', 1000000) AS a, 1 AS n FROM wide UNION ALL"
            " SELECT a || n, n + 1 FROM r WHERE n < 3000) SELECT max(length(a)) FROM r"
        ),
        1_002_000 + len("".join(map(str, range(1, 3000)))),
    ),
    "many columns side by side": (f"SELECT max(length(concat({', '.join('s' * 200)}))) FROM wide", 400_000),
    "a list of columns": (f"SELECT max(cardinality(make_array({', '.join('s' * 400)}))) FROM wide", 400),
    "many results": (f"SELECT greatest({calls(LONGEST, number=300)}) FROM wide", 2003),
}


@pytest.mark.parametrize(("sql", "expected"), ANSWERED.values(), ids=ANSWERED)
def test_wide_rows_are_computed_some_at_a_time(server: Server, sql: str, expected: int) -> None:
    with bounded(server):
        assert server.value(sql) == expected


PARTITIONS = 50_000 if IS_FULL else 10_000
"""Of which a second writes some hundreds."""
WRITES = {
    "an insert": "INSERT INTO parts SELECT value, value FROM range({})",
    "a table of a query": "CREATE TABLE made PARTITIONED BY (k) AS SELECT value AS k FROM range({})",
}


@pytest.mark.parametrize("sql", WRITES.values(), ids=WRITES)
def test_a_cancelled_write_of_many_partitions_ends_and_leaves_nothing(server: Server, sql: str) -> None:
    server.run("CREATE TABLE IF NOT EXISTS parts (k BIGINT, v BIGINT) PARTITIONED BY (k)")
    before = files(server.root)
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor, bounded(server):
        cursor.execute("SET statement_timeout = 1")
        began = time.monotonic()
        with pytest.raises(Error, match="statement_timeout"):
            cursor.execute(sql.format(PARTITIONS))
        assert time.monotonic() - began < 30
    assert files(server.root) == before


@pytest.mark.full  # takes half a minute
def test_ten_thousand_partitions_are_written_in_little_memory(tmp_path: Path) -> None:
    with capped(tmp_path / "root", "--server-memory-limit", "256MiB") as served:
        served.run("CREATE TABLE parts (k BIGINT, v BIGINT) PARTITIONED BY (k)")
        with bounded(served, memory=512 << 20):
            assert served.run(WRITES["an insert"].format(10_000)) == 10_000
        assert served.value("SELECT count(DISTINCT k) FROM parts") == 10_000
