"""Servers and vacuums whose clocks are wrong by an hour: no reader loses its snapshot, no writer its rows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.storage import leases
from lance_flight.catalog.storage.leases import Leases, leased_snapshots
from lance_flight.catalog.storage.store import Store
from lance_flight.flight import wire
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.catalog.aging import age
from tests.catalog.small_table import opened
from tests.engine.database import Database
from tests.faults.clocks import skewed
from tests.faults.writes import transaction
from tests.service.server_process import COMMAND, Server, serving
from tests.stock import manifest, stored_rows, stored_tables

SKEWS = (-1.0, 1.0)
ROWS = pa.table({"id": range(40), "p": [f"p{n % 4}" for n in range(40)]})


def test_the_clock_of_a_process_is_set_and_that_of_files_is_not(tmp_path: Path) -> None:
    """What these tests rest on."""
    script = f"import time, pathlib; p = pathlib.Path({str(tmp_path / 'f')!r}); p.write_text(''); print(time.time(), p.stat().st_mtime)"
    for hours in SKEWS:
        ran = subprocess.run(["python3", "-c", script], env=skewed(hours), check=True, capture_output=True, text=True)
        clock, written = map(float, ran.stdout.split())
        assert abs(clock - written - hours * 3600) < 60


@pytest.fixture(scope="module", params=SKEWS, ids=lambda hours: f"{hours:+.0f}h")
def hours(request: pytest.FixtureRequest) -> float:
    found: float = request.param
    return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, hours: float) -> Iterator[list[Server]]:
    """Two servers over one root, whose clocks differ, and two equal tables."""
    with ExitStack() as running:
        root = tmp_path_factory.mktemp("clocks") / "root"
        right = running.enter_context(serving(root))
        right.ingest("t", ROWS, partition_by="p")
        right.copy("t", "u")
        wrong = running.enter_context(serving(root, environment=skewed(hours), is_forked=False))
        yield [right, wrong]


def test_servers_with_different_clocks_serve_one_root(pair: list[Server], say: Callable[[str], None]) -> None:
    """Writes, transactions, time travel, temporary tables and maintenance, at both at once."""
    root = pair[0].root

    def work(number: int) -> int:
        server, written = pair[number % 2], 0
        with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
            for round_ in range(5):
                row = 1000 * (number + 1) + round_
                cursor.execute(f"INSERT INTO t VALUES ({row}, 'p{round_ % 4}')")
                cursor.execute(f"INSERT INTO t VALUES ({row + 500}, 'new {number}')")
                connection.commit()
                written += 2
            cursor.execute("CREATE TEMPORARY TABLE mine AS SELECT id FROM t")
            cursor.execute("SELECT count(*) FROM mine")
            assert cursor.fetchone()[0] >= written + 40  # type: ignore[index]
        return written

    with ThreadPoolExecutor(4) as pool:
        written = sum(pool.map(work, range(4)))
    for server in pair:
        server.rows("ALTER TABLE t COMPACT")
        assert server.value("SELECT count(*) FROM t") == 40 + written
        server.rows("VACUUM t")
        assert server.value("SELECT count(*) FROM t") == 40 + written
    assert stored_rows(root / "t").num_rows == 40 + written
    values = [tuple(table.values.values()) for table in stored_tables(root / "t")]
    assert len(values) == len(set(values)), "one table for each partition value"
    say(f"two servers whose clocks differ by an hour: {written} rows by 4 writers, all there")


def test_a_ticket_of_another_server_is_redeemed_or_refused_clearly(pair: list[Server], hours: float) -> None:
    command = encode_command(wire.StatementQuery(query="SELECT id FROM u"))
    refusals = []
    for made, redeemed in (pair, pair[::-1]):
        info = made.client.get_flight_info(flight.FlightDescriptor.for_command(command))
        try:
            assert len(redeemed.client.do_get(info.endpoints[0].ticket).read_all()) == 40
        except (flight.FlightError, pa.ArrowInvalid) as error:
            refusals.append(str(error))
    # The server that is ahead takes the ticket of the other one for an hour old.
    assert len(refusals) == 1, hours
    assert "[ticket_expired]" in refusals[0]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A table in a root of its own."""
    made = Database(tmp_path / "root")
    made.ingest("t", ROWS, partition_by="p")
    return made


def vacuum_by_another_clock(database: Database, hours: float, *options: str) -> None:
    """Run the command in a process whose clock is wrong."""
    command = [COMMAND, "vacuum", str(database.root), "t", *options, "--force"]
    ran = subprocess.run(command, check=False, env=skewed(hours), capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_a_vacuum_with_a_wrong_clock_spares_what_is_being_read(database: Database, hours: float) -> None:
    """The lease is new, by the clock that the times of files are of."""
    database.ingest("t", ROWS, "append")
    place = database.root / "t"
    old = opened(place).snapshot().version
    mine = Leases()
    hold = mine.hold_all(Store(str(place)), [(None, old)])
    database.rows("ALTER TABLE t COMPACT")
    age(place / "__manifest", hours=3)
    vacuum_by_another_clock(database, hours, "--retain", "0")
    assert database.value(f'SELECT count(*) FROM "t@{old}"') == 80
    del hold
    assert stored_rows(place).num_rows == 80


def test_without_a_lease_it_is_taken_away(database: Database, hours: float) -> None:
    place = database.root / "t"
    old = manifest(place).version
    database.ingest("t", ROWS, "append")
    age(place, hours=3)
    vacuum_by_another_clock(database, hours, "--retain", "0")
    assert old not in [version["version"] for version in manifest(place).versions()]
    assert stored_rows(place).num_rows == 80


def test_a_writer_whose_files_are_an_hour_old_by_another_clock_commits(database: Database, hours: float) -> None:
    """A vacuum beside a transaction takes nothing that it has written."""
    with transaction(database) as mine:
        mine.run("INSERT INTO t VALUES (100, 'p0'), (101, 'new')")
        vacuum_by_another_clock(database, hours, "--transactions", "0.5")
        mine.end(commit=True)
    assert database.value("SELECT count(*) FROM t") == 42
    assert stored_rows(database.root / "t").num_rows == 42


def test_a_snapshot_that_another_clock_dates_to_the_future_is_leased_before_it_is_read(database: Database) -> None:
    store, mine = Store(str(database.root / "t")), Leases()
    hold = mine.hold(store, (None, 3), datetime.now(UTC) + timedelta(hours=1), is_newest=False)
    assert leased_snapshots(store, datetime.now(UTC).timestamp()) == {hold.snapshot}


def test_a_vacuum_takes_the_clock_of_the_files(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    place = database.root / "t"
    before = {path for path in place.rglob("*") if "leases" not in path.parts}
    wrong = leases.time.time() + 3 * 24 * 3600
    monkeypatch.setattr("lance_flight.catalog.storage.leases.time.time", lambda: wrong)
    vacuum(opened(place), VacuumRules(transaction_hours=48))
    assert before <= set(place.rglob("*"))
