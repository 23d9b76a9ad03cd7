"""Files of the client's machine in the place of tables, at the prompt of `lance-flight sql` and on its command line."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.errors import LanceFlightError
from lance_flight_client.adbc import NOBODY
from lance_flight_client.cli import file_sending, main
from lance_flight_client.cli.connecting import ChosenServer
from lance_flight_client.cli.file_tables import file_tables
from lance_flight_client.cli.shell.prompt import run_input
from lance_flight_client.cli.shell.session import ShellSession
from lance_flight_client.errors import ServerError

from tests.documents import blocks
from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shop") / "root") as server:
        server.run("CREATE TABLE names (id BIGINT, name VARCHAR)")
        server.run("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
        yield server


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("id;sum\n1;1,5\n2;2,5\n")
    (tmp_path / "it's.json").write_text('[{"id": 2, "tags": ["a"]}, {"id": 7}]')
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "day=1" / "a.parquet")
    (tmp_path / "plain.txt").write_text("x y\n1 2\n")
    (tmp_path / "wrong.csv").write_text("n,s\n" + "1,a\n" * 400_000 + "x,b\n")
    return tmp_path


ANSWERS = {
    "a file": ("SELECT * FROM 'sales.csv'", "id  sum\n 1  1.5\n 2  2.5\n"),
    "columns by the name of the file": ("SELECT sales.id FROM 'sales.csv' WHERE sales.sum > 2", "id\n 2\n"),
    "a join with a table": (
        "SELECT n.name, s.sum FROM names n JOIN './sales.csv' AS s USING (id) ORDER BY s.sum", "name  sum\none   1.5\ntwo   2.5\n",
    ),
    "two files, one with a quote": (
        "SELECT sum, tags FROM 'sales.csv' JOIN 'it''s.json' j ON j.id = sales.id", "sum  tags\n2.5  ['a']\n",
    ),
    "a glob, with names of directories": ("SELECT day, id FROM 'day=*/*.parquet'", "day  id\n  1   1\n"),
    "a list": ("SELECT count(*) AS n FROM read_parquet(['day=1/a.parquet', 'day=1/a.parquet'])", "n\n2\n"),
    "options": (
        "SELECT * FROM read_csv('plain.txt', delim = ' ', header := false, skip => 1, types = {'f1': 'VARCHAR'})",
        "f0  f1\n 1  2\n",
    ),
    "errors left out": ("SELECT count(*) AS n FROM read_csv('wrong.csv', ignore_errors = true)", "     n\n400000\n"),
    "in WITH, twice": (
        "WITH q AS (FROM 'sales.csv') SELECT count(*) AS n FROM q, 'sales.csv' AS other", "n\n4\n",
    ),
    "within a subquery": ("SELECT id FROM names WHERE id IN (SELECT id FROM 'it''s.json')", "id\n 2\n"),
    "what a file has": ("DESCRIBE 'sales.csv'", "column_name  data_type  is_nullable"),
    "strings elsewhere": (
        "SELECT trim(BOTH 'x' FROM 'sales.csv') AS a, 'sales.csv' IS DISTINCT FROM 'sales.csv' AS b FROM names LIMIT 1 -- FROM 'a.csv'",
        "a          b\nsales.csv  false\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "shown"), ANSWERS.values(), ids=ANSWERS)
def test_a_statement_reads_files_of_the_machine_it_is_typed_on(
    shop: Server, files: Path, sql: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", sql, "--uri", shop.uri]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith(shown)


REFUSED = {
    "no file": ("SELECT * FROM 'none.csv'", r"\[not_found\] no files match 'none.csv'"),
    "no format": ("SELECT * FROM 'plain.txt'", "'plain.txt' says no format; expected a name that ends with .parquet"),
    "a wrong value": (
        "SELECT * FROM 'wrong.csv'",
        r"\[invalid_data\] /.*/wrong.csv: line 400,002, column 'n': 'x' is no BIGINT; write read_csv\(",
    ),
    "a view": ("CREATE OR REPLACE VIEW v AS SELECT * FROM 'sales.csv'", "a view cannot read 'sales.csv', a file of this"),
    "a change": ("DELETE FROM 'sales.csv' WHERE id = 1", "'sales.csv' is a file of this machine, which no statement"),
    "no option": ("SELECT * FROM read_csv('sales.csv', headers = true)", "without the option 'headers'; expected delim, sep"),
    "no option of Parquet": ("SELECT * FROM read_parquet('day=1', skip = 1)", "without the option 'skip'; expected none"),
    "a wrong option": ("SELECT * FROM read_csv('sales.csv', skip = 'x')", "the option 'skip' is 'x'; expected a number"),
    "an open call": ("SELECT * FROM read_csv('sales.csv'", r"expected \), got the end of the statement"),
    "no string": ("SELECT * FROM read_csv(name)", "expected a file, or a list of them, got 'name'"),
    "no column": ("SELECT nope FROM 'sales.csv'", "No field named nope"),
    "no table and no file": ("SELECT * FROM 'nope'", r"\[not_found\] no table 'nope'"),
    "COPY": ("COPY names FROM 'sales.csv'", "SELECT … FROM 'FILE' or .copy in lance-flight sql"),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "message"), REFUSED.values(), ids=REFUSED)
def test_a_statement_about_files_that_cannot_be_right_is_refused(
    shop: Server, files: Path, sql: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", sql, "--uri", shop.uri]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_server_reads_no_file_itself(shop: Server, files: Path) -> None:
    for relation in (f"'{files}/sales.csv'", f"read_csv('{files}/sales.csv')", f"read_parquet('{files}/day=1')"):
        with pytest.raises(dbapi.Error, match=r"files are read and written where the client is: .* FROM 'FILE'"):
            shop.run(f"SELECT * FROM {relation}")


def test_rows_of_a_file_are_stored(shop: Server, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "CREATE TABLE kept PARTITIONED BY (id) AS SELECT * FROM 'sales.csv'; INSERT INTO kept SELECT * FROM 'sales.csv';"
        " MERGE INTO kept USING 'it''s.json' AS j ON kept.id = j.id WHEN MATCHED THEN DELETE;"
        " BEGIN; INSERT INTO kept SELECT id, 9 FROM 'day=1'; COMMIT"
    )
    assert main(["sql", script, "--uri", shop.uri]) == 0, capsys.readouterr().err
    assert shop.rows("SELECT id, sum FROM kept ORDER BY sum") == [(1, 1.5), (1, 1.5), (1, 9.0)]
    assert shop.rows("SHOW TABLES LIKE 'file%'") == []


def test_the_statements_of_the_page_run(shop: Server, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "sales.csv").write_text("id,amount\n1,2\n1,3\n")
    (files / "sales.txt").write_text("id;zip\n1;00501\nx\n")
    pq.write_table(pa.table({"day": pa.array([20_000], pa.date32())}), files / "2025-01.parquet")
    (page,) = blocks("client/docs/shell.md", "sql")
    assert main(["sql", page, "--uri", shop.uri, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ['"one",5', '"id","zip"', '1,"00501"']
    shop.run("DROP TABLE sales")


@pytest.fixture
def session(shop: Server) -> Iterator[ShellSession]:
    session = ShellSession(ChosenServer(shop.uri, NOBODY), page=print, is_timed=False)
    yield session
    session.close()


def test_a_file_is_sent_once_until_it_changes(
    session: ShellSession, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = []
    monkeypatch.setattr(file_sending, "ingest", lambda *a, **o: sent.append(a[1]) or send(*a, **o))  # type: ignore[func-returns-value]
    run_input(
        session, "SELECT max(id) FROM 'sales.csv'; SELECT min(id) FROM 'sales.csv' s JOIN 'sales.csv' t USING (id);"
    )
    run_input(session, r"\copy (SELECT * FROM 'sales.csv' WHERE id IN (1, 2)) to out.parquet")
    assert sent == ["file 1 sales"]
    (files / "sales.csv").write_text("id;sum\n5;1\n")
    os.utime(files / "sales.csv", ns=(0, 1))
    capsys.readouterr()
    run_input(session, "SELECT id FROM 'sales.csv';")
    assert (sent, capsys.readouterr().out) == (["file 1 sales"] * 2, "id\n 5\n(1 row)\n")
    assert pq.read_table(files / "out.parquet")["id"].to_pylist() == [1, 2]


send = file_sending.ingest


def test_copy_names_the_place_of_a_wrong_value(session: ShellSession, files: Path) -> None:
    message = r"wrong.csv: line 400,002, column 'n': 'x' is no BIGINT; name the types in INSERT"
    with pytest.raises(LanceFlightError, match=message):
        run_input(session, r"\copy copied from wrong.csv")
    with pytest.raises(ServerError, match="no table 'copied'"):
        run_input(session, "SELECT * FROM copied;")


def test_an_error_has_a_caret_under_its_place(session: ShellSession, files: Path) -> None:
    with pytest.raises(
        ServerError, match=r"(?s)no table 'nope'\nLINE 1: SELECT \* FROM nope, \"file 1 sales\" AS \"sales\"\n {22}\^"
    ):
        run_input(session, "SELECT * FROM nope, 'sales.csv';")


def test_a_pipe_is_a_file(shop: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\n4\n")))
    assert main(["sql", "SELECT * FROM read_csv('-'); SELECT id + 1 AS n FROM read_csv('-')", "--uri", shop.uri]) == 0
    assert capsys.readouterr().out == "id\n 4\nn\n5\n"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a.csv', f('b.csv') FROM t WHERE x IN ('c.csv') AND y = 'd.csv' AND z IS NOT DISTINCT FROM 'e.csv'",
        "SELECT substring('a.csv' FROM 2), extract(YEAR FROM 'b.csv') FROM \"c.csv\", x ORDER BY 'd.csv', 'e.csv'",
        "INSERT INTO t VALUES ('a.csv', $$FROM 'b.csv'$$) /* FROM 'c.csv' */",
        "SELECT * FROM t AS \"FROM 'a.csv'\" GROUP BY 1, 'b.csv' LIMIT 3",
        "COPY t FROM 'a.csv'", "SHOW TABLES FROM 'a.csv'", 'SELECT * FROM t JOIN u USING ("a.csv")',
    ],
)  # fmt: skip
def test_strings_in_other_places_are_no_files(sql: str) -> None:
    assert file_tables(sql) == []


def test_a_script_is_as_long_as_its_server_takes(
    shop: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = ", ".join(f"({n}, 'a.csv')" for n in range(110_000))
    (tmp_path / "long.sql").write_text(f"CREATE TABLE long (n BIGINT, s VARCHAR); INSERT INTO long VALUES {rows};")
    assert main(["sql", "-f", str(tmp_path / "long.sql"), "--uri", shop.uri]) == 0, capsys.readouterr().err
    assert shop.rows("SELECT count(*), max(s) FROM long") == [(110_000, "a.csv")]


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(LanceFlightError, match="brackets within brackets"):
        file_tables(f"SELECT * FROM {'(' * 10_000}'a.csv'")
