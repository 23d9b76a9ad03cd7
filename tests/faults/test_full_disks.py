"""Disks that are full at any step of any write: all of it is there or nothing, and the same engine goes on."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from adbc_driver_flightsql.dbapi import Error
from lance_flight.catalog.storage.staging_area import last_full
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import LanceFlightError
from lance_flight.flight.status import flight_error

from tests.catalog.aging import age
from tests.engine.database import Database
from tests.faults.aftermath import check, read, version_of
from tests.faults.conftest import Before
from tests.faults.disks import REMOUNT, Disk, files_up_to
from tests.faults.failpoints import watched
from tests.faults.writes import SOME_STOPS, START, STOPS, TIMES, WRITES, Stop, Write
from tests.flight.statements import statement
from tests.selection import IS_FULL
from tests.service import commands
from tests.service.forked import constants
from tests.service.server_process import serving, serving_uri

UNANSWERED = {"committed", "evolved"}
"""Where the write is done: that something fails behind it is the engine's own affair."""
NOTHING_STAGED = {"rows_received", "file_written", "data_written", "rows_removed"}
CLEANED = {"ingest", "insert", "update", "move", "delete", "merge", "overwrite"}
"""Single statements: what one in a transaction has written waits for the roll-back."""


def failure(work: Callable[[], object]) -> str:
    """Do something, and return the error that a client would read; nothing where it is done."""
    try:
        work()
    except (LanceFlightError, OSError) as error:
        return str(flight_error(error))
    except Error as error:
        return str(error)
    return ""


def finds_no_room(write: Write, asked: Database) -> bool:
    """Run a write; tell whether it finds no room, which is the only error that it may meet."""
    said = failure(lambda: write.run(asked, "t"))
    assert not said or "[storage_full] no space is left for the root: " in said
    return bool(said)


def data_files(place: Path) -> set[Path]:
    """The data files of a table's partitions, those of the manifest not among them."""
    return {path for path in place.glob("*/data/*") if "__manifest" not in path.parts}


def private_places(root: Path) -> set[str]:
    """What lies in the private place of a root."""
    place = root / ".lance-flight"
    return {path.name for path in place.iterdir()} if place.exists() else set()


@pytest.mark.sample(8)
@pytest.mark.parametrize("stop", STOPS if IS_FULL else SOME_STOPS, ids=str)
@pytest.mark.parametrize("time", TIMES)
def test_a_write_that_finds_the_disk_full_leaves_nothing_to_be_seen(
    tmp_path: Path, before: Before, stop: Stop, time: str
) -> None:
    asked = before(stop.write, tmp_path / "root")
    place, version = asked.root / "t", version_of(asked, "t")
    files, came_by, number = data_files(place), list[str](), TIMES[time](stop)

    def fail(point: str, passed: int) -> None:
        if (point, passed) == (stop.point, number):
            came_by.append(point)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with watched(fail):
        is_refused = finds_no_room(stop.write, asked)
    assert came_by == [stop.point]
    is_answered = stop.point not in UNANSWERED
    assert is_refused is is_answered
    if stop.point in NOTHING_STAGED and stop.write.name in CLEANED:
        assert data_files(place) - files == set(), "what was written is deleted again"
    check(asked, stop.write, "t", stop.then if is_answered else stop.write.then, version, is_done=stop.is_done)
    assert private_places(asked.root) == set(), "what was made in a private place is gone"


LIMITS = (0, 64, 300, 400, 500, 600, 700, 900, 1200, 1600, 2000, 3000, 5000) if IS_FULL else (0, 600, 2000, 5000)
CHANGES = [w for w in WRITES if w.visible_at == "committed" and w.name not in {"beaten", "rollback", "vacuum"}]


@pytest.mark.sample(6)
@pytest.mark.parametrize("write", CHANGES, ids=lambda write: write.name)
@pytest.mark.parametrize("limit", LIMITS)
def test_an_engine_whose_files_cannot_grow_stores_all_or_nothing_and_goes_on_when_they_can(
    tmp_path: Path, before: Before, write: Write, limit: int
) -> None:
    asked = before(write, tmp_path / "root")
    version = version_of(asked, "t")
    with files_up_to(limit):
        is_refused = finds_no_room(write, asked)
    assert is_refused or limit > 0
    assert not is_refused or limit < LIMITS[-1]
    check(asked, write, "t", write.before if is_refused else write.then, version, is_done=not is_refused)


def test_a_spill_that_finds_the_disk_full_says_where(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    groups = "SELECT value % 400000 AS n, count(*), min(repeat('x', 100)) FROM range(800000) GROUP BY 1"
    counted = f"SELECT count(*) FROM ({groups})"
    with serving(
        tmp_path / "root", "--spill-directory", str(tmp_path / "spill"), "--memory-limit", str(24 << 20)
    ) as server:
        limit = partial(resource.prlimit, server.process.pid, resource.RLIMIT_FSIZE)
        soft, hard = limit()
        try:
            limit((10_000, hard))
            assert "[storage_full] no space is left for spill_directory: File too large" in server.refuses(counted)
        finally:
            limit((soft, hard))
        assert server.value(counted) == 400_000


# Small devices

STORED = [write for write in WRITES if write.name not in {"beaten", "behind_the_dead"}]
"""What another writer does is refused by the same device."""
INGEST = next(write for write in WRITES if write.name == "ingest")
MOST = 400
"""Files or pages that no write here takes."""


@pytest.fixture
def root(device: Disk) -> Path:
    """A place on the device where no root is."""
    return device.place / "root"


ROOM = {"files": (0, 1, 2, 4, 7, 11, 16, MOST), "pages": (0, 1, 3, 6, 10, 15, MOST)}
ROOMS = [{unit: number} for unit, numbers in ROOM.items() for number in ((*range(40), MOST) if IS_FULL else numbers)]


@pytest.mark.sample(8)
@pytest.mark.parametrize("write", STORED, ids=lambda write: write.name)
@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_write_is_whole_or_not_there_however_little_room_there_is(
    device: Disk, root: Path, before: Before, write: Write, room: dict[str, int]
) -> None:
    asked = before(write, root)
    if write.forgets:
        age(root / "t", hours=3)
    version, private = version_of(asked, "t"), private_places(root)
    with device.with_room(**room):
        is_refused = finds_no_room(write, asked)
    assert not is_refused or MOST not in room.values()
    check(asked, write, "t", write.before if is_refused else write.then, version, is_done=not is_refused)
    assert private_places(root) == private, "what was made in a private place is gone"


@pytest.mark.parametrize("unit", ROOM)
def test_a_write_that_is_tried_again_and_again_does_not_use_up_what_is_left(
    device: Disk, root: Path, before: Before, unit: str
) -> None:
    asked, used = before(INGEST, root), list[int]()
    for _ in range(6):
        with device.with_room(**{unit: 3}):
            assert "[storage_full]" in failure(lambda: asked.run("INSERT INTO t SELECT id + 100, p, n FROM t"))
        used.append(device.used)
    assert used[-1] <= used[0], "each attempt takes its files away"
    assert read(asked, "t") == sorted(START)


def test_room_is_made_on_a_device_that_is_entirely_full(device: Disk, root: Path) -> None:
    """Whoever finds no room drops a table, or vacuums one, and goes on; here by way of a server."""
    with serving(root) as server:
        for table in ("kept", "dropped"):
            INGEST.set_up(server, table)
        before = device.used
        with device.with_room(files=0, pages=0):
            assert "[storage_full]" in server.refuses("INSERT INTO kept VALUES (100, 'a', 1)")
            assert read(server, "kept") == sorted(START)
            server.run("DROP TABLE dropped")
            assert device.used < before
            assert server.run("INSERT INTO kept VALUES (100, 'a', 1)") == 1
        assert read(server, "kept") == sorted([*START, (100, "a", 1)])


ROOM_MAKERS = (
    "TRUNCATE TABLE t",
    "DELETE FROM t WHERE p = 'a'",
    "ALTER TABLE t DROP PARTITION (p = 'a')",
    "DROP TABLE t",
)
RESERVE = Path(".lance-flight", "reserve")


def reserve(root: Path) -> set[int]:
    """The sizes of the files of the reserve."""
    return {path.stat().st_size for path in (root / RESERVE).iterdir()}


@pytest.mark.parametrize("sql", [*ROOM_MAKERS, "VACUUM t"])
def test_statements_that_free_room_run_on_a_device_that_is_entirely_full(device: Disk, root: Path, sql: str) -> None:
    """Vacuum frees what was replaced long ago, and no other statement may use the reserve."""
    with serving(root) as server:
        INGEST.set_up(server, "t")
        server.run("UPDATE t SET n = 1 WHERE p = 'b'")
        age(root / "t", hours=24 * 30)
        files, before = data_files(root / "t"), device.used
        with device.with_room(files=0, pages=0):
            assert "[storage_full]" in server.refuses("INSERT INTO t VALUES (100, 'a', 1)")
            server.run(sql)
            if sql.startswith(("VACUUM", "DROP TABLE")):
                assert device.used < before
        if sql == "VACUUM t":
            assert data_files(root / "t") < files
            assert read(server, "t") == sorted((number, p, int(p == "b")) for number, p, _ in START)
        elif sql == "DROP TABLE t":
            assert server.rows("SHOW TABLES") == []
        else:
            left = set() if sql.startswith("TRUNCATE") else {"b", None}
            assert {p for _, p, _ in read(server, "t")} == left
            server.run("DELETE FROM t WHERE id = 1")
        assert reserve(root) == {32 << 10}, "it is there again"
        assert len(list((root / RESERVE).iterdir())) == 32


@pytest.mark.parametrize("last", ["VACUUM t", "DROP TABLE t"])
def test_statements_that_free_room_later_leave_some_for_those_that_free_it_at_once(
    device: Disk, root: Path, last: str
) -> None:
    with serving(root) as server:
        server.run("CREATE TABLE t (id BIGINT, p BIGINT) PARTITIONED BY (p)")
        server.run("INSERT INTO t SELECT value, value % 40 FROM range(4000)")
        server.run("DELETE FROM t WHERE id = 0")
        age(root / "t", hours=24 * 30)
        with device.with_room(files=0, pages=0):
            number = 1
            while not (said := failure(partial(server.run, f"DELETE FROM t WHERE id % 100 = {number}"))):
                number += 1
            assert "[storage_full]" in said
            files = set((root / "t").rglob("*"))
            server.run(last)
            assert not files <= set((root / "t").rglob("*"))
        if last == "VACUUM t":
            assert server.value("SELECT count(*) FROM t") == 4000 - 40 * (number - 1) - 1


@pytest.mark.parametrize(
    ("made", "dropped", "shown"),
    [
        ("CREATE INDEX numbers ON t (n)", "DROP INDEX numbers ON t", "SHOW INDEXES FROM t"),
        ("ALTER TABLE t CREATE BRANCH dev", "ALTER TABLE t DROP BRANCH dev", "SELECT name FROM t$branches"),
        ("ALTER TABLE t CREATE TAG old", "ALTER TABLE t DROP TAG old", "SELECT name FROM t$tags"),
        ("CREATE VIEW v AS SELECT 1 AS x", "DROP VIEW v", "SHOW VIEWS"),
        (
            "CREATE SCHEMA s",
            "DROP SCHEMA s",
            "SELECT schema_name FROM information_schema.schemata WHERE schema_name = 's'",
        ),
    ],
)
def test_definitions_are_dropped_on_a_device_that_is_entirely_full(
    device: Disk, root: Path, made: str, dropped: str, shown: str
) -> None:
    with serving(root) as server:
        INGEST.set_up(server, "t")
        none = server.rows(shown)
        server.run(made)
        assert server.rows(shown) != none
        with device.with_room(files=0, pages=0):
            assert "[storage_full]" in server.refuses("INSERT INTO t VALUES (100, 'a', 1)")
            server.run(dropped)
        assert server.rows(shown) == none
        server.run("VACUUM t")
        assert len(list((root / RESERVE).iterdir())) == 32, "it is there again once there is room"


def test_a_truncated_table_is_vacuumed_on_the_device_that_is_still_full(device: Disk, root: Path) -> None:
    """A query of another server is at work with the old rows: its lease found no room."""
    often = constants({"catalog.storage.leases.INTERVAL": 1, "catalog.maintenance.vacuum.RENEWED_SECONDS": 1.5})
    with serving(root, environment=often) as server, serving(root, environment=often) as other:
        INGEST.set_up(server, "t")
        with device.with_room(files=0, pages=0):
            began = time.time()
            info = other.client.get_flight_info(statement("SELECT id FROM t"))
            while last_full(Store(str(root))) < began:
                time.sleep(0.05)
            server.run("TRUNCATE TABLE t")
            age(root / "t", hours=24 * 30)
            files = data_files(root / "t")
            server.run("VACUUM t RETAIN 0 HOURS FORCE")
            (ticket,) = [endpoint.ticket for endpoint in info.endpoints]
            rows = other.client.do_get(ticket).read_all().column("id").to_pylist()
            assert sorted(rows) == sorted(number for number, _, _ in START)
            assert data_files(root / "t") == files
        assert read(server, "t") == []


READ_ONLY = 1
"""The flag of mount for a device that is only read."""


def test_a_device_that_is_only_read_is_named_and_still_read(device: Disk, root: Path) -> None:
    asked = Database(root)
    asked.run("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    asked.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    changes = (
        *("INSERT INTO t VALUES (3, 'a')", "UPDATE t SET id = 5", "DELETE FROM t WHERE id = 1", "TRUNCATE TABLE t"),
        *("CREATE TABLE other (id INT)", "CREATE TABLE other AS SELECT * FROM t", "ALTER TABLE t ADD COLUMN q INT"),
        *("DROP TABLE t", "VACUUM t RETAIN 0 HOURS FORCE", "CREATE INDEX i ON t (id) USING btree", "CREATE SCHEMA s"),
        *("ALTER TABLE t CREATE BRANCH b", "ALTER TABLE t RENAME TO u", "CREATE VIEW v AS SELECT * FROM t"),
    )
    assert device.mount(flags=REMOUNT | READ_ONLY)
    try:
        told = {sql: failure(partial(asked.run, sql)) for sql in changes}
        assert sorted(asked.rows("SELECT id FROM t")) == [(1,), (2,)]
    finally:
        assert device.mount(flags=REMOUNT)
    wanted = "[58030] [storage_denied] the root may not be read or written: Read-only file system; "
    assert {sql: text for sql, text in told.items() if not text.startswith(wanted)} == {}
    asked.run("INSERT INTO t VALUES (3, 'a')")
    assert sorted(asked.rows("SELECT id FROM t")) == [(1,), (2,), (3,)]


def test_a_root_that_is_only_read_is_served_with_a_key_of_ones_own(
    device: Disk, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asked = Database(root)
    asked.run("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    asked.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    outside = tmp_path_factory.mktemp("outside")
    (key := outside / "key").write_bytes(bytes(32))
    key.chmod(0o600)
    assert device.mount(flags=REMOUNT | READ_ONLY)
    with serving_uri(str(root), outside / "ready", "--ticket-key-file", str(key)) as server:
        assert sorted(server.rows("SELECT id, p FROM t")) == [(1, "a"), (2, "b")]
        assert "[storage_denied]" in server.refuses("INSERT INTO t VALUES (3, 'a')")
    without = commands.run("serve", str(root), "--port", "0")
    assert without.returncode == 1
    assert "Read-only file system; expected ticket_key_file, a file of 32 bytes" in without.stderr.decode()
