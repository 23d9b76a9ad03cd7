"""The prompt of `lance-flight sql`: its commands in this process, and an analyst's first ten minutes in a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lance_flight.errors import InvalidInput
from lance_flight_client.adbc import NOBODY, Result
from lance_flight_client.cli import main
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.cli.shell import prompt
from lance_flight_client.cli.shell import session as session_module
from lance_flight_client.cli.shell.prompt import WORDS, KnownNames, NameCompleter, is_complete, page_text, run_input
from lance_flight_client.cli.shell.session import COMMANDS, Progress, ShellSession, warn
from lance_flight_client.errors import ServerError
from lance_flight_client.terminal import guard_terminals
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.documents import blocks, text_of
from tests.service.server_process import COMMAND, Server, serving
from tests.service.terminal import terminal

CSV = "id,at,site,celsius\n" + "".join(
    f"{n},2025-{n % 12 + 1:02d}-05 10:00:00,{'Oslo' if n % 3 else 'Lima'},{n / 4}\n" for n in range(240)
)


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shell") / "root") as server:
        server.run("CREATE TABLE rooms (id BIGINT, name VARCHAR, floor INT) PARTITIONED BY (floor)")
        server.run("INSERT INTO rooms VALUES (1, '広間', 1), (2, NULL, 2), (3, 'a\x1b[31mb', 2)")
        yield server


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e"
"""Sets the title, clears the screen, by C1 too, goes back in the line, and turns its direction around."""


class Tty(io.BytesIO):
    """Bytes that go to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def traps(rooms: Server) -> str:
    rooms.run(
        f"CREATE TABLE traps (id BIGINT COMMENT '{HOSTILE}', \"c{HOSTILE}\" VARCHAR DEFAULT '{HOSTILE}') COMMENT '{HOSTILE}'"
    )
    rooms.run(f"INSERT INTO traps VALUES (1, '{HOSTILE}')")
    return rooms.uri


SHOWN = [
    ["SHOW CREATE TABLE traps"],
    ["SELECT * FROM traps"],
    ["SELECT * FROM traps", "--format", "csv"],
    ["SELECT * FROM traps", "--format", "json"],
    ["DESCRIBE traps"],
    [f"EXPLAIN SELECT * FROM traps WHERE \"c{HOSTILE}\" = '{HOSTILE}'"],
    ["SELECT CAST(traps.* AS BIGINT) FROM traps"],
    [f'SELECT CAST("c{HOSTILE}" AS BIGINT) FROM traps'],
    [f"SELECT nope FROM traps WHERE '{HOSTILE}' = 'a'"],
    [f'DROP TABLE "no{HOSTILE}"'],
]


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: " ".join(words).encode("ascii", "ignore").decode()[:30])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_stored_changes_a_terminal(
    traps: str, words: list[str], monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
) -> None:
    shown = Tty() if is_terminal else io.BytesIO()
    kept = [io.TextIOWrapper(shown, "utf-8") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", kept[0])
    monkeypatch.setattr(sys, "stderr", kept[1])
    guard_terminals()
    main(["sql", *words, "--uri", traps])
    sys.stdout.flush()
    sys.stderr.flush()
    text = shown.getvalue().decode()
    assert text.strip()
    if is_terminal:
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), text
    elif "--format" in words:
        assert HOSTILE in text or json.dumps(HOSTILE, ensure_ascii=False)[1:-1] in text


def test_a_pager_and_errors_of_the_prompt_show_no_controls(
    screen: Screen, traps: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page_text(screen.shows(r"\d traps", "SHOW CREATE TABLE traps;", r"\x", "SELECT * FROM traps;"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", capsys.readouterr().out)
    shown = io.TextIOWrapper(Tty(), "utf-8")
    monkeypatch.setattr(sys, "stderr", shown)
    warn(HOSTILE)
    assert re.findall(r"\x1b\S", shown.buffer.getvalue().decode()) == ["\x1b[", "\x1b["]  # type: ignore[attr-defined]


class Screen:
    """A session whose pages are kept."""

    def __init__(self, server: Server) -> None:
        self.pages: list[str] = []
        self.session = ShellSession(ChosenServer(server.uri, NOBODY), page=self.pages.append, is_timed=False)

    def shows(self, *inputs: str) -> str:
        for each in inputs:
            run_input(self.session, each)
        return "\n".join(self.pages)


@pytest.fixture
def screen(rooms: Server) -> Iterator[Screen]:
    screen = Screen(rooms)
    yield screen
    screen.session.close()


SHOWN = {
    "rows": (["SELECT id, name FROM rooms WHERE id < 3 ORDER BY id;"], "id  name\n 1  広間\n 2  NULL\n(2 rows)"),
    "a line for each value": (
        [r"\x on", "SELECT id, name FROM rooms WHERE id = 2;"],
        "row 1\n  id    2\n  name  NULL\n(1 row)",
    ),
    "no rows": (["SELECT id FROM rooms WHERE id = 9;"], "id\n(0 rows)"),
    "controls": (["SELECT name FROM rooms WHERE id = 3;"], "name\na\ufffd[31mb\n(1 row)"),
    "the statement of a table": (["SHOW CREATE TABLE rooms;"], 'CREATE TABLE "public"."rooms" (\n  "id" BIGINT,\n'),
    "a name with controls": (['SELECT 1 AS "a\x1b[31m";'], "a\ufffd[31m\n"),
    "binary": (["SELECT X'00ff' AS b, true AS t;"], "b        t\nX'00FF'  true\n"),
    "a family": (["SELECT '👩‍👩‍👧' AS who, 1 AS n UNION ALL SELECT 'ab', 2 ORDER BY n;"], "who  n\n👩‍👩‍👧   1\nab   2"),
    "an interval": (["SELECT INTERVAL '14 months 3 seconds' AS i;"], "i\n14 months 3 seconds\n"),
    "a switch": ([r"\timing on", "SELECT 1 AS a;"], "a\n1\n(1 row)"),
    "several": (["SELECT 1 AS a; SELECT 2 AS b;"], "a\n1\n(1 row)\nb\n2\n(1 row)"),
    "a transaction": (["BEGIN;", "DELETE FROM rooms;", "ROLLBACK;", "SELECT count(*) AS n FROM rooms;"], "n\n3\n"),
    "a definition": (["CREATE TABLE IF NOT EXISTS rooms (id BIGINT);"], "done"),
    "functions by a pattern of psql's": ([r"\df regexp_c*"], "regexp_count"),
    "a change": (["UPDATE rooms SET name = name WHERE id = 1;"], "1 row affected"),
    "tables": ([r"\dt"], "table_schema  table_name  partitioned\npublic        rooms       true"),
    "partitions": ([r"\dp rooms"], "floor\n1      ████████████████████"),
    "columns": ([r"\d rooms"], "column_name  data_type  is_nullable"),
    "help": ([r"\?"], r"\watch [SECONDS]"),
    "help by its word": (["help;"], r"\watch [SECONDS]"),
    "catalogs": ([r"\l"], "catalog_name  schema_name\nlance         public"),
    "tables with more": ([r"\d+"], "table_schema  table_name  table_type  partitioned  table_comment"),
    "a table with more": ([r"\d+ rooms"], '\n\nCREATE TABLE "public"."rooms" ('),
    "functions": ([r"\df abs"], "abs            SCALAR"),
    "the last statement": (["SELECT 1 AS a;", r"\g"], "a\n1\n(1 row)\na\n1\n(1 row)"),
    "a statement that \\g ends": ([r"SELECT 1 AS a \g"], "a\n1\n(1 row)"),
    "nanoseconds": (
        ["SELECT arrow_cast(1, 'Timestamp(Nanosecond, None)') AS t;"],
        "t\n1970-01-01 00:00:00.000000001\n",
    ),
    "a year far away": (
        ["SELECT arrow_cast(9223372036854775807, 'Timestamp(Microsecond, None)') AS t;"],
        "t\n294247-01-10 04:00:54.775807\n",
    ),
    "nanoseconds within": (["SELECT [arrow_cast(1, 'Time64(Nanosecond)')] AS t;"], "t\n[00:00:00.000000001]\n"),
    "two of one name": (["SELECT 1 AS a, 2 AS a;"], "a  a\n1  2\n"),
    "a plan with a vector": (
        [f"EXPLAIN SELECT [{', '.join(['0.5'] * 64)}] AS v;"],
        "List([0.5, 0.5, 0.5, … 61 more])",
    ),
    "a plan": (["EXPLAIN SELECT * FROM rooms WHERE floor = 2;"], "partitions: 1 / 2  table rooms"),
    "a plan with changes": (["EXPLAIN ANALYZE SELECT * FROM rooms WHERE floor = 1;"], "partitions: 1 / 2  table rooms"),
}


@pytest.mark.parametrize(("inputs", "expected"), SHOWN.values(), ids=SHOWN)
def test_inputs_show(screen: Screen, inputs: list[str], expected: str) -> None:
    shown = screen.shows(*inputs)
    assert expected in shown
    if expected.startswith("partitions"):
        assert shown.startswith(expected)


def test_partitions_are_listed_by_their_values(screen: Screen) -> None:
    made = "CREATE TABLE counted (n INT) PARTITIONED BY (n);"
    rows = [f"INSERT INTO counted VALUES ({n});" for n in (10, 2, 1)]
    shown = screen.shows(made, *rows, r"\dp counted", "DROP TABLE counted;")
    assert re.findall(r"^ +1 +(\d+) +v1", shown, re.MULTILINE) == ["1", "2", "10"]


REFUSED = {
    "command": (r"\nope", r"no command \nope; \? lists them"),
    "few": (r"\dp", r"\dp takes TABLE, got 0 of them"),
    "many": (r"\d a b", r"\d takes [TABLE], got 2 of them"),
    "quotes": (r"\i 'a", "No closing quotation"),
    "switch": (r"\x maybe", "'maybe' is no switch; expected on or off"),
    "file": (r"\i nowhere.sql", "'nowhere.sql' cannot be read"),
    "output": (r"\o no/where/at/all", "cannot be written"),
    "way": (r"\copy rooms into x", r"\copy takes TO or FROM, got 'into'"),
    "watch": (r"\watch", r"\watch repeats the last statement; there is none"),
    "again": (r"\g", r"\g repeats the last statement; there is none"),
    "editor": (r"\e", "the editor 'no-such-editor' failed"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_inputs_are_refused(screen: Screen, text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor")
    with pytest.raises(InvalidInput) as refused:
        run_input(screen.session, text)
    assert said in str(refused.value)


PLACES = {
    "SELECT nope FROM rooms;": "LINE 1: SELECT nope FROM rooms\n               ^",
    "SELECT *\n  FROM nowhere;": "LINE 2:   FROM nowhere\n               ^",
    "SELECT id FROM rooms WHRE id = 1;": "LINE 1: SELECT id FROM rooms WHRE id = 1\n                                  ^",
    "SELEC 1;": "LINE 1: SELEC 1\n        ^",
    "SELECT 1 +;": "LINE 1: SELECT 1 +\n                  ^",
    "SELECT r.no FROM rooms r;": "LINE 1: SELECT r.no FROM rooms r\n               ^",
    "SELECT nofunc(id) FROM rooms;": "LINE 1: SELECT nofunc(id) FROM rooms\n               ^",
}


@pytest.mark.parametrize("text", PLACES)
def test_an_error_is_shown_where_it_is(screen: Screen, text: str) -> None:
    with pytest.raises(ServerError) as refused:
        run_input(screen.session, text)
    assert str(refused.value).endswith(PLACES[text])


def test_an_error_without_a_place_has_no_caret(screen: Screen) -> None:
    with pytest.raises(ServerError) as refused:
        run_input(screen.session, "SELECT id FROM rooms WHERE CAST('id' || name AS BIGINT) = 1;")
    assert "LINE" not in str(refused.value)


def test_an_editor_changes_the_last_statement(screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edit").write_text("#!/bin/sh\nsed -i 's/1 AS a/2 AS b/' $1\n")
    (tmp_path / "edit").chmod(0o755)
    monkeypatch.setenv("VISUAL", str(tmp_path / "edit"))
    assert screen.shows("SELECT 1 AS a;", r"\e") == "a\n1\n(1 row)\nb\n2\n(1 row)"


def test_the_time_leaves_the_pager_out(rooms: Server, capsys: pytest.CaptureFixture[str]) -> None:
    read = []

    def page(text: str) -> None:
        clock[0] += 3600
        read.append(text)

    clock = [0.0]
    session = ShellSession(ChosenServer(rooms.uri, NOBODY), page=page)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lance_flight_client.cli.shell.session.time.perf_counter", lambda: clock[0])
        run_input(session, "SELECT 1 AS a;")
    session.close()
    assert (read, capsys.readouterr().out) == (["a\n1\n(1 row)"], "0 ms\n")


class Typed:
    """A prompt at which something is typed already."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def prompt(self, _: str) -> str:
        return self.texts.pop(0)


def test_nothing_that_fails_ends_the_prompt(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures: list[BaseException] = [RecursionError("too deep"), KeyboardInterrupt(), OSError("no disk"), KeyError("x")]

    def fails(*_: object) -> None:
        raise failures[0]

    monkeypatch.setattr(prompt, "run_input", fails)
    while failures:
        prompt._one(screen.session, Typed("SELECT 1;"), KnownNames(screen.session.server))
        failures.pop(0)
    said = capsys.readouterr().err
    assert (
        said
        == "[internal] RecursionError: too deep\ncancelled\n[internal] OSError: no disk\n[internal] KeyError: 'x'\n"
    )


def test_progress_is_asked_for_beside_the_main_thread(rooms: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver takes an interrupt of the main thread for its own: Ctrl-C would end the question alone."""
    threads = []
    monkeypatch.setattr(
        session_module, "execute", lambda *_: threads.append(threading.current_thread()) or Result(None, 0)
    )
    with Progress(ChosenServer(rooms.uri, NOBODY), "SELECT 1") as progress:
        assert progress._message() == ""
    assert threads
    assert threading.main_thread() not in threads


def test_files_come_and_go(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,name,floor\n7,new,7\n")
    (tmp_path / "script.sql").write_text(
        "SELECT count(*) AS n FROM rooms WHERE floor = 7;\nDELETE FROM rooms WHERE floor = 7;"
    )
    screen.shows(
        rf"\copy rooms from {tmp_path}/in.csv",
        rf"\copy 'SELECT * FROM rooms WHERE floor = 7' to {tmp_path}/out.parquet",
    )
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [{"id": 7, "name": "new", "floor": 7}]
    screen.shows(rf"\o {tmp_path}/said", rf"\i {tmp_path}/script.sql", r"\o")
    assert (tmp_path / "said").read_text() == "n\n1\n(1 row)\n1 row affected\n"
    assert screen.pages == []
    (tmp_path / "script.sql").write_text("SELECT 1;\nSELECT nope;")
    with pytest.raises(ServerError, match=r"script\.sql:2: .*nope"):
        screen.shows(rf"\i {tmp_path}/script.sql")


def test_a_month_without_its_year_is_noted(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    noted = []
    for name, fields in {"m": "month(at)", "ym": "year(at), month(at)", "y": "year(at)"}.items():
        screen.shows(f"CREATE TEMPORARY TABLE {name} (at TIMESTAMP) PARTITIONED BY ({fields});")
        noted.append(capsys.readouterr().err.count("month(at) is 1 to 12 whatever the year"))
    assert noted == [1, 0, 0]


def test_no_more_is_fetched_than_is_shown(screen: Screen) -> None:
    screen.session.max_rows = 3
    text = screen.shows("SELECT a.value FROM generate_series(1, 20000000) AS a;")
    assert text == "value\n    1\n    2\n    3\n(the first 3 rows; there are more)"
    ((sent,),) = screen.session.rows(
        "SELECT max(rows) FROM system.queries WHERE sql LIKE '%20000000%' AND sql NOT LIKE '%system%'"
    )
    assert sent is None or sent < 5_000_000


COMPLETE = {
    "": True, "SELECT 1": False, "SELECT 1;": True, "SELECT ';": False, "SELECT 1; -- x": True, r"\d": True,
    "SELECT 1; SELECT": False, "SELECT 1 /* ;": False, "help": True, "?": True, " EXIT ": True, r"SELECT 1 \g": True,
    r"SELECT '\g": False,
}  # fmt: skip


@pytest.mark.parametrize("text", COMPLETE)
def test_an_input_ends_with_its_semicolon(text: str) -> None:
    assert is_complete(text) is COMPLETE[text]


COMPLETED = {
    "a table": ("SELECT * FROM roo", ["rooms"]),
    "a column and functions": ("SELECT nam", ["name", "named_struct("]),
    "a function": ("SELECT array_dist", ["array_distance(", "array_distinct("]),
    "a setting": ("SET statement_timeo", ["statement_timeout"]),
    "a word": ("sel", ["select"]),
    "a large word": ("SELECT 1 HAV", ["HAVING"]),
    "a schema": ("SELECT * FROM public.ro", ["public.rooms"]),
    "a command": (r"\ti", [r"\timing"]),
    "a table of a command": (r"\d ro", ["rooms"]),
    "a table of a schema": (r"\dp public.ro", ["public.rooms"]),
    "a column of an alias": ("SELECT 1 FROM public.rooms AS r WHERE r.n", ["name"]),
    "every column of an alias": ("SELECT * FROM rooms r JOIN rooms s ON s.", ["floor", "id", "name"]),
    "a column of a table": ("DELETE FROM rooms WHERE rooms.fl", ["floor"]),
    "nothing of no alias": ("SELECT x.na", []),
}


@pytest.mark.parametrize(("text", "expected"), COMPLETED.values(), ids=COMPLETED)
def test_names_are_completed(rooms: Server, text: str, expected: list[str]) -> None:
    known = KnownNames(ChosenServer(rooms.uri, NOBODY))
    known._ask()
    found = NameCompleter(known).get_completions(Document(text), CompleteEvent())
    assert sorted(each.text for each in found) == expected
    assert [*NameCompleter(KnownNames(known.server)).get_completions(Document(""), CompleteEvent())] == []


def test_every_word_begins_a_statement_or_is_in_a_clause() -> None:
    assert list(WORDS) == sorted(set(WORDS))


def test_the_page_runs_as_it_stands(rooms: Server, tmp_path: Path) -> None:
    (script,) = blocks("client/docs/shell.md", "sh")
    assert script.count("localhost:32010") == 1
    done = subprocess.run(
        ["bash", "-euc", script.replace("localhost:32010", rooms.uri)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"},
        input="SELECT 'from the pipe' AS last",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("n\n3\n{")
    assert done.stdout.endswith("last\nfrom the pipe\n")
    assert (tmp_path / "report.csv").read_text().startswith('"id","name","floor"\n')


def test_the_page_lists_the_commands() -> None:
    table = re.findall(r"^\| (`\\.*?) \|", text_of("client/docs/shell.md"), re.MULTILINE)
    assert {name for line in table for name in re.findall(r"`\\([\w?+]+)", line)} == set(COMMANDS)


def test_an_interrupted_command_cancels_its_statement(rooms: Server) -> None:
    sql = "SELECT sum(a.value * b.value) FROM generate_series(1, 30000000) a, generate_series(1, 1000) b"
    command = [COMMAND, "sql", "--uri", rooms.uri, "-c", sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        ends = time.monotonic() + 60
        running = "SELECT count(*) FROM system.queries WHERE sql LIKE 'SELECT sum(a.value%' AND state = 'running'"
        while rooms.rows(running) != [(1,)]:
            assert time.monotonic() < ends
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (130, "", "")
    while rooms.rows(running) != [(0,)]:
        assert time.monotonic() < ends


def test_an_analysts_first_ten_minutes(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text(CSV)
    (tmp_path / "lake").mkdir()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "xterm", "PAGER": "cat"}
    with serving(tmp_path / "lake") as server:
        load = [COMMAND, "ingest", "readings.csv", "--table", "readings", "--partition-by", "month(at), site"]
        with terminal([*load, "--uri", server.uri], environment, tmp_path) as screen:
            assert "celsius  DOUBLE" in screen.read_until("Load\\? ")
            screen.enter("y")
            screen.read_until("readings: 240 rows")
            assert screen.end() == 0
        with terminal([COMMAND, "sql", "--uri", server.uri.removeprefix("grpc://")], environment, tmp_path) as screen:
            screen.read_until("lance-flight>")
            screen.enter("SELECT site, count(*) AS n,")
            screen.read_until("…>")
            screen.enter("  max(celsius) AS most FROM readings GROUP BY site ORDER BY site;")
            assert "Lima   80  59.25" in screen.read_until(r"\d ms\r")
            screen.enter(r"\dp readings")
            screen.read_until("Oslo +██ ██")
            screen.enter("EXPLAIN SELECT * FROM readings WHERE site = 'Lima';")
            screen.read_until("partitions: 4 / 12")
            screen.enter("SELECT nope FROM readings;")
            screen.read_until(r"\[invalid_sql\] .*nope")
            screen.enter("SELECT '\x1b[31mred' AS colour;")
            screen.read_until(r"colour\s+red\s+\(1 row\)")
            screen.enter("SELECT now() AS moment;")
            screen.read_until(r"moment\s+20\d\d-")
            screen.enter(
                "SELECT sum(a.value * b.value) FROM generate_series(1, 30000000) a, generate_series(1, 1000) b;"
            )
            screen.read_until(r"\d s running.*Ctrl-C cancels")
            screen.interrupt()
            screen.read_until("cancelled")
            screen.enter(r"\copy readings to out.parquet")
            screen.read_until("out.parquet written")
            screen.type("SELECT cels\t")
            screen.read_until(r"cels[\s\x08]*ius")
            screen.interrupt()
            screen.enter("exit")
            assert screen.end() == 0
        with terminal([COMMAND, "sql", "--uri", server.uri], environment, tmp_path) as screen:
            screen.read_until("lance-flight>")
            screen.type("\x1b[A")
            screen.read_until("exit")
            screen.interrupt()
            screen.type("\x04")
            assert screen.end() == 0
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 240
    history = tmp_path / "state" / "lance-flight" / "history"
    assert (history.stat().st_mode & 0o077, "max(celsius)" in history.read_text()) == (0, True)


def test_a_server_that_comes_back_is_found_again(tmp_path: Path) -> None:
    with serving(tmp_path / "root") as server:
        port = server.uri.rpartition(":")[2]
        screen = Screen(server)
        assert "1" in screen.shows("SELECT 1;")
    with pytest.raises(ServerError, match=f"no server answers at {server.uri}"):
        screen.shows("SELECT 2;")
    with serving(tmp_path / "root", "--port", port):
        assert "3\n(1 row)" in screen.shows("SELECT 3;")
        screen.session.close()


PAGER = f"""#!{sys.executable}
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT}})  # an interrupt before the wait counts, too
print("paging", flush=True)
signal.sigwait({{signal.SIGINT}})
print("interrupted", flush=True)
print("key", open("/dev/tty").readline(), flush=True)
"""


def test_an_interrupt_of_the_pager_leaves_the_prompt_as_it_was(rooms: Server, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(PAGER)
    pager.chmod(0o755)
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "PAGER": str(pager)}
    with terminal([COMMAND, "sql", "--uri", rooms.uri], environment, tmp_path) as screen:
        screen.read_until("lance-flight>")
        screen.enter("SELECT value FROM generate_series(1, 90);")
        screen.read_until("paging")
        screen.interrupt()
        assert "cancelled" not in screen.read_until("interrupted")
        screen.enter("")
        screen.read_until(r"\d ms")
        screen.enter("SELECT 7 AS seven;")
        screen.read_until("seven\r\n +7")
        screen.enter(r"\q")
        assert screen.end() == 0


def test_the_usual_pager_says_how_to_leave_it(rooms: Server, tmp_path: Path) -> None:
    less = tmp_path / "less"
    less.write_text('#!/bin/sh\nfor each; do echo "<$each>"; done\n')
    less.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "PAGER"}
    environment |= {"XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "PATH": f"{tmp_path}:{environment['PATH']}"}
    with terminal([COMMAND, "sql", "--uri", rooms.uri], environment, tmp_path) as screen:
        screen.read_until("lance-flight>")
        screen.enter("SELECT value FROM generate_series(1, 90);")
        screen.read_until("<-Pq goes back to the prompt")
        screen.enter(r"\q")
        assert screen.end() == 0


def test_a_script_names_a_command_of_the_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SELECT 1;\n\\dp rooms\n")
    assert main(["sql", "-f", str(script), "--uri", "127.0.0.1:1"]) == 1
    assert r"script.sql:2: \dp is a command of the prompt; expected SQL" in capsys.readouterr().err


def test_a_prompt_without_a_server_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm"}
    with terminal([COMMAND, "sql", "--uri", "127.0.0.1:1"], environment, tmp_path) as screen:
        screen.read_until("lance-flight: no server answers at grpc://127.0.0.1:1")
        assert screen.end() == 1
