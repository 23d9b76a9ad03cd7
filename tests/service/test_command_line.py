"""The command line: what it refuses with one line, and what it prints."""

# ruff: noqa: S104 - addresses that must be refused

from __future__ import annotations

import csv
import importlib.util
import io
import json
import signal
import socket
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight_client.adbc import NOBODY
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.errors import ServerError
from lance_flight_client.files.sniffing import TextOptions
from lance_flight_client.files.sources import open_files

from tests.service.commands import run, run_command
from tests.service.server_process import COMMAND, Server, files, serving

UNREACHABLE = {
    "AWS_ENDPOINT": "http://127.0.0.1:1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu-central-1",
}
"""Where the environment says that an object store is: nothing listens there."""


def text(write: str) -> Callable[[Path], None]:
    """A step that writes a file called `file`."""

    def prepare(place: Path) -> None:
        (place / "file").write_text(write)

    return prepare


REFUSED = [
    pytest.param(["root", "--host", "0.0.0.0"], "", ["refused", "'0.0.0.0'", "--allow-anonymous"], id="all interfaces"),
    pytest.param(["root", "--host", "192.0.2.1"], "", ["refused", "'192.0.2.1'", "--allow-anonymous"], id="an address"),
    pytest.param(["root", "--host", "::"], "", ["refused", "'::'", "--allow-anonymous"], id="all of IPv6"),
    (["root", "--host", "192.0.2.1", "--allow-anonymous"], "", ["cannot listen", "192.0.2.1"]),
    pytest.param(["root", "--port", "65536"], "", ["'port'", "65536", "65535"], id="a port beyond"),
    pytest.param(["root", "--port", "-1"], "", ["'port'", "-1"], id="a negative port"),
    pytest.param(["file"], "x", ["'file'", "is a file", "directory"], id="a root that is a file"),
    pytest.param(["file/root"], "x", ["'file/root'"], id="a root below a file"),
    pytest.param(["root", "--ticket-key-file", "missing"], "", ["'missing'", "No such file"], id="no key file"),
    pytest.param(["root", "--ticket-key-file", "file"], "short", ["'file'", "5 bytes", "32"], id="a short key"),
    pytest.param(["root", "--config", "missing"], "", ["'missing'"], id="no configuration"),
    pytest.param(["root", "--config", "file"], "prot = 1", ["'prot'", "port"], id="an unknown setting"),
    pytest.param(["root", "--config", "file"], 'port = "x"', ["'port'", "'x'", "int"], id="a setting of another type"),
    pytest.param(["root", "--config", "file"], "port =", ["'file'"], id="no TOML"),
    pytest.param(["root", "--config", "file"], 'host = "0.0.0.0"', ["refused", "'0.0.0.0'"], id="a host from a file"),
    pytest.param(["nosuch"], "", ["'nosuch'", "not there", "--create"], id="a root that is not there"),
    pytest.param(["file/root", "--create"], "x", ["'file/root'", "cannot be made"], id="a root that cannot be made"),
    pytest.param(["root", "--log-level", "loud"], "", ["'log_level'", "'loud'", "warning"], id="a log level"),
    pytest.param(["root", "--target-partitions", "-1"], "", ["'target_partitions'", "-1"], id="negative number"),
    pytest.param(["root", "--ready-file", "no/where"], "", ["'no/where'", "'no'"], id="a ready file nowhere"),
]


@pytest.mark.parametrize(("arguments", "content", "says"), REFUSED)
def test_serve_refuses_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], content: str, says: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if content:
        (tmp_path / "file").write_text(content)
    (tmp_path / "root").mkdir()
    ended = run("serve", *arguments)
    (line,) = [line for line in ended.stderr.decode().splitlines() if line.startswith("lance-flight")]
    assert [part for part in says if part not in line] == []
    assert b"Traceback" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_serve_says_what_to_do_about_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ended = run("serve", str(tmp_path), "--port", str(other.getsockname()[1]))
    assert b"Address already in use; end the other process, or choose another --port" in ended.stderr
    assert (ended.returncode, b"Traceback" in ended.stderr) == (1, False)


def test_serve_refuses_a_key_of_another_length(tmp_path: Path) -> None:
    (tmp_path / ".lance-flight").mkdir()
    (tmp_path / ".lance-flight" / "ticket.key").write_text("short")
    ended = run("serve", str(tmp_path))
    assert b"ticket.key' holds 5 bytes; expected 32; without the file a new key is made" in ended.stderr
    assert (ended.returncode, b"Traceback" in ended.stderr) == (1, False)


OUT_OF_REACH = [
    pytest.param(["doctor", "s3://bucket/root"], "[unavailable] the object store of the root", id="a store"),
    (["doctor", "ftp://host/root"], "'ftp://host/root' is no place that is known"),
    pytest.param(["backup", "root", "file/target"], "Not a directory", id="a target below a file"),
]


@pytest.mark.parametrize(("arguments", "says"), OUT_OF_REACH)
def test_a_place_that_is_not_reached_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root").mkdir()
    (tmp_path / "file").touch()
    for name, value in UNREACHABLE.items():
        monkeypatch.setenv(name, value)
    ended = run(*arguments)
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("lance-flight: ")
    assert says in line, line
    assert ended.returncode == 1


TLS, NO_TLS = "grpc+tls://localhost:1", "grpc://localhost:1"
LOST = {
    "nobody": (NO_TLS, "connection error: refused", "connection error: refused"),
    "nobody for a password": (NO_TLS, f"no server answers at {NO_TLS}: connection error: x", "connection error: x"),
    "a certificate": (TLS, "connection error: tls: failed to verify certificate", "its certificate is not trusted"),
    "TLS": (NO_TLS, "connection error: error reading server preface: EOF", "it may take TLS alone"),
    "no TLS": (TLS, "connection error: first record does not look like a TLS handshake", "it may take no TLS"),
}


@pytest.mark.parametrize(("address", "said", "says"), LOST.values(), ids=LOST)
def test_a_server_that_does_not_answer_is_named_once_with_a_hint(address: str, said: str, says: str) -> None:
    with pytest.raises(ServerError) as raised, ChosenServer(address, NOBODY).naming():
        raise ServerError(said)
    assert str(raised.value).startswith(f"no server answers at {address}: {says}")


def test_serve_refuses_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run_command("serve", str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert ended.returncode == 1
    assert b"in use" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_host_from_the_environment_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FLIGHT_HOST", "0.0.0.0")
    ended = run("serve", str(tmp_path / "root"))
    assert (ended.returncode, b"--allow-anonymous" in ended.stderr) == (1, True)
    assert files(tmp_path) == set()


def test_anyone_may_be_served_when_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path / "root", "--host", "0.0.0.0", "--allow-anonymous") as server:
        assert server.uri.startswith("grpc://0.0.0.0:")
        assert server.value("SELECT 1") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_with_zero_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "root", is_forked=False) as server:
        server.ingest("t", pa.table({"id": [1]}))
        server.process.send_signal(number)
        assert server.process.wait(60) == 0


def test_a_root_that_is_not_there_is_left_so(tmp_path: Path) -> None:
    assert run("serve", str(tmp_path / "nosuch" / "root")).returncode == 1
    assert files(tmp_path) == set()


USAGE = [
    pytest.param([], ["lance-flight: ", "COMMAND", "`lance-flight --help`"], id="nothing"),
    pytest.param(["srve"], ["'srve'", "serve", "`lance-flight --help`"], id="no command"),
    pytest.param(["serve"], ["ROOT", "`lance-flight serve --help`"], id="no root"),
    pytest.param(["bakup", "root"], ["no command 'bakup'", "did you mean 'backup'"], id="no command"),
    pytest.param(["serve", "root", "--prot", "1"], ["'--prot'", "'--port'", "serve --help"], id="no option"),
    pytest.param(["serve", "root", "--prot=1"], ["'--prot=1'", "'--port'"], id="no option, with a value"),
    pytest.param(["sql", "--root", "r", "-c", "SELECT 1"], ["'--root'", "sql --help"], id="no option, told as a value"),
    pytest.param(["serve", "root", "other"], ["'other'", "too many"], id="two roots"),
    pytest.param(["serve", "root", "--port", "x"], ["--port", "'x'"], id="no number"),
    pytest.param(["serve", "root", "--port"], ["--port", "argument"], id="no value"),
    pytest.param(["compact", "root", "--table", "t"], ["no option '--table'", "compact --help"], id="half an option"),
    pytest.param(["sql", "SELECT 1", "--format", "xml"], ["--format", "'xml'", "csv", "sql --help"], id="no format"),
    pytest.param(["verify"], ["ROOT", "`lance-flight verify --help`"], id="nothing to verify"),
    pytest.param(["vacuum", "root", "--retain", "week"], ["--retain", "'week'"], id="no number of hours"),
]


@pytest.mark.parametrize(("arguments", "says"), USAGE)
def test_arguments_that_cannot_be_are_one_line(arguments: list[str], says: list[str]) -> None:
    ended = run(*arguments)
    (line,) = ended.stderr.decode().splitlines()
    assert [part for part in says if part not in line] == []
    assert (ended.returncode, ended.stdout) == (2, b"")


def test_an_empty_directory_is_a_fine_root_and_a_missing_one_is_made_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "made/of/parts"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with serving(tmp_path / name) as server:
            assert server.rows("SHOW TABLES") == []


def test_the_key_in_the_root_is_for_the_owner_alone(tmp_path: Path) -> None:
    with serving(tmp_path / "root"):
        key = tmp_path / "root" / ".lance-flight" / "ticket.key"
        assert len(key.read_bytes()) == 32
        assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.fixture(scope="module")
def cities(server: Server) -> Server:
    data = {"id": [1, 2, 3], "name": ["Zürich", "東京", None], "part": [1, 1, 2]}
    server.ingest("cities", pa.table(data), partition_by="part")
    return server


def sql(server: Server, statement: str, *arguments: str) -> str:
    """What `lance-flight sql` prints."""
    ended = run("sql", statement, "--uri", server.uri, *arguments)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode()


def test_sql_prints_an_aligned_table(cities: Server) -> None:
    assert sql(cities, "SELECT id, name FROM cities ORDER BY id").splitlines() == [
        "id  name",
        " 1  Zürich",
        " 2  東京",
        " 3  NULL",
    ]


def test_sql_prints_csv_and_json_lines(cities: Server) -> None:
    query = "SELECT id, name FROM cities ORDER BY id"
    printed = list(csv.reader(io.StringIO(sql(cities, query, "--format", "csv"))))
    assert printed == [["id", "name"], ["1", "Zürich"], ["2", "東京"], ["3", ""]]
    lines = [json.loads(line) for line in sql(cities, query, "--format", "json").splitlines()]
    assert lines == [{"id": 1, "name": "Zürich"}, {"id": 2, "name": "東京"}, {"id": 3, "name": None}]


def test_sql_writes_an_arrow_stream(cities: Server) -> None:
    ended = run("sql", "SELECT id FROM cities ORDER BY id", "--uri", cities.uri, "--format", "arrow")
    assert pa.ipc.open_stream(ended.stdout).read_all().to_pydict() == {"id": [1, 2, 3]}


def test_sql_runs_changes_and_says_how_many_rows(cities: Server, table: str) -> None:
    for statement, says in [
        (f"CREATE TABLE {table} (id INT)", "done"),
        (f"INSERT INTO {table} VALUES (1), (2)", "2 rows affected"),
        (f"DROP TABLE {table}", "done"),
    ]:
        ended = run("sql", statement, "--uri", cities.uri)
        assert (ended.returncode, ended.stderr.decode().strip(), ended.stdout) == (0, says, b"")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        pytest.param("SELECT * FROM citeis", "did you mean 'cities'", id="an unknown table"),
        pytest.param("SELEC 1", "invalid_sql", id="no SQL"),
        pytest.param("SELECT 1 / (id - id) FROM cities", "Divide by zero", id="a query that fails"),
    ],
)
def test_sql_fails_with_one_line(cities: Server, statement: str, says: str) -> None:
    ended = run("sql", statement, "--uri", cities.uri)
    assert (ended.returncode, ended.stdout) == (1, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert says in line


SCRIPT = """-- cities; of one part
SELECT id FROM cities WHERE name <> 'a;b' AND part = 1 ORDER BY id;
;
SELECT count(*) AS "n;" FROM cities; SELECT $$;$$ AS text
"""


def test_sql_runs_the_statements_of_a_file_and_of_a_pipe(cities: Server, tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT)
    expected = "id\n 1\n 2\nn;\n 3\ntext\n;\n"
    ended = run("sql", "-f", str(tmp_path / "script.sql"), "--uri", cities.uri.removeprefix("grpc://"))
    assert (ended.returncode, ended.stdout.decode(), ended.stderr) == (0, expected, b"")
    piped = run_command("sql", "--uri", cities.uri, given=SCRIPT.encode())
    assert (piped.returncode, piped.stdout.decode(), piped.stderr) == (0, expected, b"")


def test_sql_ends_at_the_first_statement_that_fails(cities: Server, table: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(f"CREATE TABLE {table} (id INT);\n\nSELECT nothing\nFROM {table};\nDROP TABLE {table};\n")
    ended = run("sql", "-f", str(script), "--uri", cities.uri)
    assert ended.returncode == 1
    changed, failed, *_ = ended.stderr.decode().splitlines()
    assert changed == "done"
    assert failed.startswith(f"lance-flight: {script}:3: [invalid_sql] ")
    assert "Detail" not in ended.stderr.decode()
    assert cities.rows(f"SELECT * FROM {table}") == []


def test_sql_writes_the_rows_of_a_query_to_a_file(cities: Server, tmp_path: Path) -> None:
    place = tmp_path / "a.csv"
    script = "SET statement_timeout = '1min'; SELECT id, name FROM cities ORDER BY id"
    ended = run("sql", script, "-o", str(place), "--uri", cities.uri)
    assert (ended.returncode, ended.stdout.decode()[: len(str(place)) + 9]) == (0, f"{place}: 3 rows,")
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    source = open_files([str(place)], None, TextOptions(nulls=("",)), io.BytesIO())
    written = pa.Table.from_batches(source.batches(source.schema)).to_pylist()
    assert written == cities.query("SELECT id, name FROM cities ORDER BY id").to_pylist()


NO_FILE = {
    "an end": (["SELECT 1", "-o", "a.txt"], "'a.txt' has no format that is written"),
    "two queries": (["SELECT 1 AS a; SELECT 2 AS b", "-o", "a.csv"], "expected one query"),
    "no file": (["SELECT 1", "--format", "parquet"], "expected -o FILE"),
    "no directory": (["SELECT 1", "-o", "missing/a.csv"], "missing/a.csv' cannot be written"),
    "a type": (["SELECT INTERVAL '1 month' AS i", "-o", "a.parquet"], "cannot be written as parquet"),
}


@pytest.mark.parametrize(("arguments", "says"), NO_FILE.values(), ids=NO_FILE)
def test_sql_says_why_it_writes_no_file(
    cities: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("sql", *arguments, "--uri", cities.uri)
    assert (ended.returncode, says in ended.stderr.decode(), ended.stderr.count(b"\n")) == (1, True, 1)


def test_sql_fetches_no_more_than_it_prints(cities: Server) -> None:
    printed = sql(cities, "SELECT value FROM generate_series(1, 100000000)", "--max-rows", "2")
    assert printed.splitlines() == ["value", "    1", "    2", "… more rows"]


def test_sql_prints_a_plan_whole_and_what_it_prunes_first(cities: Server) -> None:
    printed = sql(cities, "EXPLAIN SELECT id, name, part, id + 1, id + 2, id + 3 FROM cities WHERE part = 2")
    assert printed.startswith("partitions: 1 / 2  table cities")
    assert "DatasetExec" in printed
    assert "…" not in printed


EMPTY = [
    pytest.param(["-f", "missing.sql"], 1, "'missing.sql' cannot be read", id="no file"),
    pytest.param([";"], 1, "the statement is empty", id="no statement"),
    pytest.param(["SELECT 1", "-f", "x"], 2, "not allowed with argument", id="two of them"),
    pytest.param(["SELECT 1", "--uri", "http://x:1"], 2, "expected grpc://host:port", id="another protocol"),
]


@pytest.mark.parametrize(("arguments", "status", "says"), EMPTY)
def test_sql_that_cannot_be_run_is_one_line(arguments: list[str], status: int, says: str) -> None:
    ended = run("sql", *arguments)
    assert (ended.returncode, ended.stdout) == (status, b"")
    (line,) = ended.stderr.decode().splitlines()
    assert says in line


def test_the_version_is_that_of_the_package() -> None:
    assert run_command("--version").stdout.decode() == f"lance-flight {version('lance-flight')}\n"


@pytest.mark.parametrize("uri", ["grpc://127.0.0.1:1", "grpc://nowhere.invalid:32010", "127.0.0.1:1"])
def test_sql_without_a_server_fails_with_one_line(uri: str) -> None:
    ended = run("sql", "SELECT 1", "--uri", uri)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"Traceback" not in ended.stderr


def inspect(server: Server, *arguments: str) -> str:
    """What `lance-flight inspect` prints."""
    ended = run("inspect", str(server.root), *arguments)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout.decode()


def test_inspect_lists_the_tables_of_a_root(cities: Server) -> None:
    assert "public        cities" in inspect(cities)


def test_inspect_shows_a_partitioned_table(cities: Server) -> None:
    shown = inspect(cities, "cities")
    for part in (
        'v1 {"id":1,"fields":[{"field_id":"part","source_ids":[2]',
        "column_name  data_type  is_nullable  field_id  partitioning",
        "part         BIGINT     YES                 2  part: identity",
        "2 partitions, 3 rows",
        "read_version",
    ):
        assert part in shown


def test_inspect_plans_a_scan(cities: Server) -> None:
    lines = inspect(cities, "cities", "--where", "part = 2 AND id > 1").splitlines()
    assert lines[0].startswith("partitions: 1 / 2  table cities, snapshot ")
    assert any("id > 1" in line and line.strip().startswith("1  v1$") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["cites"], "did you mean 'cities'", id="an unknown table"),
        pytest.param(["cities", "--where", "nope = 1"], "nope", id="an unknown column"),
        pytest.param(["cities", "--where", "part = "], "invalid_sql", id="no condition"),
    ],
)
def test_inspect_fails_with_one_line(cities: Server, arguments: list[str], says: str) -> None:
    ended = run("inspect", str(cities.root), *arguments)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert says in ended.stderr.decode()
    assert b"Traceback" not in ended.stderr


def test_inspect_of_no_directory_fails(tmp_path: Path) -> None:
    assert run_command("inspect", str(tmp_path / "missing")).returncode == 1
    assert files(tmp_path) == set()


def printed(code: str, *arguments: str) -> str:
    """What a program in Python prints."""
    command = [str(Path(COMMAND).with_name("python")), "-c", f"import sys; {code}", *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode().strip()


UNUSED = {
    "help": ("lance_flight_client.cli", ("pyarrow", "lance", "datafusion", "numpy")),
    "a load into a root": (
        "lance_flight_client.cli.root_loading",
        ("lance_flight.flight", "pyarrow._flight", "lance_flight.admin"),
    ),
    "serving": (
        "lance_flight.serving.main_loop",
        ("jwt", "cryptography", "grpc", "prometheus_client", "opentelemetry", "http.server"),
    ),
}


@pytest.mark.parametrize(("module", "unused"), UNUSED.values(), ids=UNUSED)
def test_a_command_loads_only_what_it_needs(module: str, unused: tuple[str, ...]) -> None:
    builds = "lance_flight_client.cli.parser()"
    code = f"import lance_flight_client.cli, {module}; {builds}; print([m for m in {unused} if m in sys.modules])"
    assert printed(code) == "[]"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import contextlib, io; from lance_flight_client.cli import COMMANDS, OPERATIONS, parser\n"
        "for name in COMMANDS.keys() - OPERATIONS.keys():\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        parser().parse_args([name, '--help'])\n"
        f"print({_HEAVY} & sys.modules.keys())"
    )
    assert printed(code) == "set()"


_HEAVY = {"pyarrow", "lance", "datafusion", "numpy", "grpc", "adbc_driver_manager", "prompt_toolkit", "cryptography"}


@pytest.mark.parametrize("asked", [[], ["cities"], ["cities", "--map"]])
def test_a_root_is_inspected_without_the_engine(cities: Server, asked: list[str]) -> None:
    code = (
        "from lance_flight_client.cli.__main__ import run; status = run();"
        "print([m for m in ('datafusion', 'lance_flight.engine.engine') if m in sys.modules], status)"
    )
    assert printed(code, "inspect", str(cities.root), *asked).splitlines()[-1] == "[] 0"


def test_an_export_from_a_server_does_without_the_engine(cities: Server, tmp_path: Path) -> None:
    code = (
        "from lance_flight_client.cli.__main__ import run; status = run();"
        "print([m for m in ('lance', 'datafusion', 'lance_flight.engine') if m in sys.modules], status)"
    )
    said = printed(code, "export", "cities", "--uri", cities.uri, "-o", str(tmp_path / "a.parquet"))
    assert said.splitlines()[-1] == "[] 0"


def test_a_server_leaves_pandas_alone(tmp_path: Path) -> None:
    assert importlib.util.find_spec("pandas") is not None
    with serving(tmp_path / "root", is_forked=False) as server:
        server.query("SELECT 1 AS one")
        mapped = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "pyarrow" in mapped
    assert "pandas" not in mapped


def test_a_load_through_a_server_does_without_the_engine(cities: Server, table: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    code = (
        "from lance_flight_client.cli.__main__ import run; status = run();"
        "print([m for m in ('lance', 'datafusion', 'numpy', 'lance_flight.engine') if m in sys.modules], status)"
    )
    said = printed(code, "ingest", str(tmp_path / "a.csv"), "--table", table, "--uri", cities.uri)
    assert said.splitlines()[-1] == "[] 0"


def test_sql_loads_neither_the_engine_nor_datasets(cities: Server) -> None:
    unasked = (
        "lance",
        "datafusion",
        "numpy",
        "pyarrow._dataset",
        "pandas",
        "polars",
        "prompt_toolkit",
        "wcwidth",
        "importlib.metadata",
    )
    code = (
        "from lance_flight_client.cli.__main__ import run; status = run();"
        f"print([m for m in {unasked} if m in sys.modules], status)"
    )
    assert printed(code, "sql", "SELECT 1 AS a", "--uri", cities.uri) == "a\n1\n[] 0"
