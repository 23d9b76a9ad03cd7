"""A server that maintains its root by itself: beside writers, killed at every step, with another one over the same root, and stopped meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.faults import MAINTENANCE_POINTS, VARIABLE

from tests.catalog.aging import age
from tests.engine.database import Database
from tests.engine.waiting import PATIENCE, until
from tests.selection import IS_FULL
from tests.service.forked import forked
from tests.service.operated import operated
from tests.service.server_process import SERVE, Server, serving, started

ON = ("--maintenance", "on", "--maintenance-share", "1")
APPENDS = 200 if IS_FULL else 60
WRITERS, ROUNDS = 4, 25 if IS_FULL else 10
EXIT_BY_KILL = -signal.SIGKILL
WORK = "SELECT table_name, kind, outcome, result FROM system.maintenance ORDER BY began"


def one(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "p": ["ab"[number % 2]]})


SmallFiles = Callable[..., Database]


@pytest.fixture(scope="module")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> SmallFiles:
    """Puts tables of many small files into a root, each partitioned by a field or plain."""

    @cache
    def made(partition_by: str | None, appends: int) -> Path:
        database = Database(tmp_path_factory.mktemp("small"))
        for number in range(appends):
            database.ingest("t", one(number), "append" if number else "create", partition_by=partition_by)
        return database.root

    def put(root: Path, tables: dict[str, str | None], appends: int = 20) -> Database:
        for name, partition_by in tables.items():
            end = "" if partition_by else ".lance"
            shutil.copytree(made(partition_by, appends) / f"t{end}", root / f"{name}{end}")
        return Database(root)

    return put


def data_files(server: Server, table: str) -> int:
    return int(server.value(f"SELECT count(*) FROM {table}$files"))


def done(server: Server, kind: str, table: str = "t") -> list[str]:
    """What was done to a table, and has ended well."""
    return [result for name, what, outcome, result in server.rows(WORK) if (name, what, outcome) == (table, kind, "ok")]


def is_right(server: Server, table: str, rows: int) -> None:
    assert server.rows(f"SELECT count(*), sum(id) FROM {table}") == [(rows, sum(range(rows)))]
    assert server.value(f"SELECT count(*) FROM {table} WHERE p = 'a'") == (rows + 1) // 2
    assert server.value(f"SELECT id FROM {table} WHERE id = {rows - 1}") == rows - 1


def test_small_appends_are_compacted_while_they_come_and_every_query_is_right(tmp_path: Path) -> None:
    with serving(tmp_path / "root", *ON) as server:
        for table, partition_by in (("plain", None), ("partitioned", "p")):
            server.ingest(table, one(0), partition_by=partition_by)
            for number in range(1, APPENDS):
                server.ingest(table, one(number), "append")
                if number % 20 == 0:
                    is_right(server, table, number + 1)
            until(lambda table=table: data_files(server, table) <= 2 * 9)
            is_right(server, table, APPENDS)
            assert done(server, "compact", table)
        assert {outcome for _, _, outcome, _ in server.rows(WORK)} == {"ok"}


def test_writers_of_all_kinds_never_fail_beside_it(tmp_path: Path) -> None:
    with serving(tmp_path / "root", *ON) as server:
        server.run("CREATE TABLE t (id BIGINT, p VARCHAR, n BIGINT) PARTITIONED BY (p) WITH (compact_files = 1)")

        def write(writer: int) -> None:
            with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
                for number in range(ROUNDS):
                    key = writer * ROUNDS + number
                    cursor.execute(f"INSERT INTO t VALUES ({key}, '{'ab'[key % 2]}', 0)")
                    cursor.execute(f"UPDATE t SET n = n + 1 WHERE id = {key}")
                    if number % 5 == 4:
                        cursor.execute(f"DELETE FROM t WHERE id = {key}")

        def transact() -> None:
            with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
                for _ in range(ROUNDS):
                    cursor.execute("INSERT INTO t VALUES (-1, 'c', 0)")
                    cursor.execute("UPDATE t SET n = n + 1 WHERE p = 'c'")
                    connection.commit()

        with ThreadPoolExecutor(WRITERS + 1) as pool:
            for writing in [*[pool.submit(write, writer) for writer in range(WRITERS)], pool.submit(transact)]:
                writing.result()
        kept = [key for key in range(WRITERS * ROUNDS) if key % ROUNDS % 5 != 4]
        assert server.rows("SELECT id, n FROM t WHERE id >= 0 ORDER BY id") == [(key, 1) for key in kept]
        assert server.rows("SELECT count(*), sum(n) FROM t WHERE p = 'c'") == [(ROUNDS, ROUNDS * (ROUNDS + 1) // 2)]
        until(lambda: done(server, "compact"))


def test_a_table_that_an_open_transaction_has_read_is_not_rewritten_before_its_end(
    tmp_path: Path, small_files: SmallFiles
) -> None:
    root = tmp_path / "root"
    small_files(root, {"t": "p", "other": "p"}).run("ALTER TABLE t SET (maintenance = off)")
    with (
        serving(root, *ON) as server,
        dbapi.connect(server.uri) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("UPDATE t SET id = id + 100 WHERE id = 0")
        server.run("ALTER TABLE t SET (maintenance = on)")
        # Whatever is due is done in turn: by the second time the first table would have had its own.
        for times in (1, 2):
            until(lambda times=times: len(done(server, "compact", "other")) >= times)
            for number in range(20, 40):
                server.ingest("other", one(number), "append")
        assert server.value("SELECT count(*) FROM system.maintenance WHERE table_name = 't'") == 0
        connection.commit()
        until(lambda: done(server, "compact"))
        assert server.value("SELECT sum(id) FROM t") == sum(range(20)) + 100


def serve_until_killed(root: Path, point: str) -> None:
    """Run a server that maintains until it is killed at a point, which may be before it is ready."""
    command = [*SERVE[1:], str(root), "--port", "0", *ON]
    with forked(command, environment=os.environ | {VARIABLE: point}) as server:
        assert server.wait(PATIENCE) == EXIT_BY_KILL


POINTS = [*MAINTENANCE_POINTS, "data_written", "table_staged", "all_staged", "manifest_written", "committed"]
VACUUM_POINTS = ["expiry_announced", "tables_trimmed", "snapshots_removed"]


@pytest.mark.parametrize("point", POINTS if IS_FULL else [POINTS[0], "committed"])
def test_a_server_that_is_killed_loses_nothing_and_the_next_one_goes_on(
    tmp_path: Path, small_files: SmallFiles, point: str
) -> None:
    root = tmp_path / "root"
    small_files(root, {"t": "p", "q": None})
    serve_until_killed(root, point)
    with serving(root, *ON) as server:
        for table in ("t", "q"):
            until(lambda table=table: data_files(server, table) <= 2)
            is_right(server, table, 20)


@pytest.mark.parametrize("point", VACUUM_POINTS if IS_FULL else ["tables_trimmed"])
def test_a_vacuum_that_is_killed_is_done_by_the_next_server(
    tmp_path: Path, small_files: SmallFiles, point: str
) -> None:
    root = tmp_path / "root"
    small_files(root, {"t": "p"}, appends=5).run("ALTER TABLE t SET (retain = '2h')")
    age(root / "t", hours=3)
    serve_until_killed(root, point)
    with serving(root, *ON) as server:
        is_right(server, "t", 5)
        server.ingest("t", one(5), "append")
        is_right(server, "t", 6)


def test_of_two_servers_over_a_root_one_works_and_the_other_goes_on_after_it(
    tmp_path: Path, small_files: SmallFiles
) -> None:
    root = tmp_path / "root"
    small_files(root, {"t": "p"})
    with started(root, *ON) as first:
        until(lambda: done(first, "compact"))
        with serving(root, *ON) as second:
            for number in range(20, 60):
                second.ingest("t", one(number), "append")
            until(lambda: len(done(first, "compact")) > 1)
            assert second.rows(WORK) == []
            first.process.kill()
            for number in range(60, 100):
                second.ingest("t", one(number), "append")
            until(lambda: done(second, "compact"))
            is_right(second, "t", 100)


def test_a_server_that_is_stopped_while_it_works_ends_at_once_and_leaves_no_work(
    tmp_path: Path, small_files: SmallFiles
) -> None:
    root = tmp_path / "root"
    small_files(root, {f"t{number}": "p" for number in range(9)})

    def is_all_done(server: Server) -> bool:
        return all(data_files(server, f"t{number}") == 2 for number in range(9))

    for _ in range(3):
        with serving(root, *ON) as server:
            # A server that is asked late may have done all before it is stopped.
            until(lambda: server.rows(WORK) or is_all_done(server))
    with serving(root) as server:
        for number in range(9):
            is_right(server, f"t{number}", 20)


def test_what_is_done_is_logged_and_counted_and_a_table_that_is_broken_is_left(
    tmp_path: Path, small_files: SmallFiles
) -> None:
    root = tmp_path / "root"
    small_files(root, {"a_broken": "p", "t": "p"})
    for path in (root / "a_broken" / "__manifest" / "_versions").iterdir():
        path.write_bytes(b"broken")
    with operated(root, *ON) as operating:
        until(lambda: done(operating.server, "compact"))
        _, page = operating.page("/metrics")
        assert 'lance_flight_maintenance_total{kind="compact",outcome="ok"} 1.0' in page
        assert 'lance_flight_maintenance_seconds_total{kind="compact"}' in page
        is_right(operating.server, "t", 20)
    (line,) = [line for line in operating.log().splitlines() if "kind=compact" in line and "table=public.t " in line]
    for said in ("INFO lance_flight.maintenance: ended", "table=public.t", "outcome=ok", "20 files into 2"):
        assert said in line
