"""Servers that are stopped for longer than their leases are good for, while others compact and vacuum: right rows, or a clear error."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.catalog.commits import commit
from lance_flight.catalog.maintenance import vacuum as vacuuming
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import Expiry, VacuumRules, expire, vacuum
from lance_flight.catalog.storage.leases import Leases, expiring_snapshots, leased_snapshots
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import SerializationFailure
from lance_flight.flight import wire
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.catalog.aging import age, versions
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows, written
from tests.faults.failpoints import left_behind
from tests.service.server_process import Server, serving
from tests.stock import stored_rows

PARTITIONS, ROWS_OF_EACH, WIDTH = 24, 4000, 500
TOTAL = PARTITIONS * ROWS_OF_EACH
LARGE = (
    f"CREATE TABLE t PARTITIONED BY (p) AS SELECT value AS id, value % {PARTITIONS} AS p, repeat('x', {WIDTH}) AS word"
    f" FROM generate_series(1, {TOTAL})"
)
EVERYTHING = VacuumRules(retain_hours=0, transaction_hours=24, force=True)
READS = {
    "the newest snapshot": "SELECT id, word FROM {table}",
    "an old snapshot": 'SELECT id, word FROM "{table}@{old}"',
    "an index-less filter": "SELECT id, word FROM {table} WHERE id > 0",
}


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """Stop a server process, and let it go on."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of a large table, which is written to once more after its first snapshot."""
    with serving(tmp_path_factory.mktemp("stopped") / "root") as running:
        running.run(LARGE)
        running.run(f"INSERT INTO t SELECT {TOTAL} + value, value - 1, 'new' FROM generate_series(1, {PARTITIONS})")
        yield running


def overtake(place: Path) -> None:
    """Everything that can happen to a table while a server is stopped for hours."""
    compact(opened(place))
    age(place / "__manifest", hours=3)
    age(place / ".lance-flight", hours=3)
    vacuum(opened(place), EVERYTHING)


@pytest.mark.parametrize("read", READS)
def test_a_reader_that_lost_its_lease_reads_right_rows_or_is_told(
    server: Server, read: str, say: Callable[[str], None]
) -> None:
    table = server.copy("t", f"t{list(READS).index(read)}")
    place = server.root / table
    old = opened(place).snapshot().version - 1
    expected = TOTAL if "old" in read else TOTAL + PARTITIONS
    command = encode_command(wire.StatementQuery(query=READS[read].format(table=table, old=old)))
    with flight.connect(server.uri) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        stream = client.do_get(info.endpoints[0].ticket)
        found = stream.read_chunk().data["id"].to_pylist()
        with stopped(server):
            overtake(place)
        told = None
        try:
            while True:
                found += stream.read_chunk().data["id"].to_pylist()
        except StopIteration:
            assert sorted(found) == list(range(1, expected + 1)), "no row is missing, and none there twice"
        except flight.FlightError as error:
            told = str(error)
    say(f"stopped in the middle of {read}: {told or 'all rows read'}")
    if told is not None:
        assert f"[40001] [conflict] a snapshot of table '{table}' was vacuumed while it was read" in told
        assert len(set(found)) == len(found) < expected
    assert server.value(f"SELECT count(*) FROM {table}") == TOTAL + PARTITIONS, "it answers on"
    assert stored_rows(place).num_rows == TOTAL + PARTITIONS


def test_a_ticket_of_before_is_refused_clearly(server: Server) -> None:
    server.run(
        "CREATE TABLE ticket PARTITIONED BY (p) AS SELECT value AS id, value % 4 AS p FROM generate_series(1, 40)"
    )
    version = opened(server.root / "ticket").snapshot().version
    command = encode_command(wire.StatementQuery(query="SELECT id FROM ticket"))
    info = server.client.get_flight_info(flight.FlightDescriptor.for_command(command))
    with stopped(server):
        opened(server.root / "ticket").append([pa.table({"id": [41], "p": [1]})], evaluate)
        overtake(server.root / "ticket")
    gone = rf"\[conflict\] version {version} of table 'ticket', which this statement was planned for, is not there any longer"
    with pytest.raises(flight.FlightError, match=gone):
        server.client.do_get(info.endpoints[0].ticket).read_all()
    assert server.value("SELECT count(*) FROM ticket") == 41


def test_writes_that_were_stopped_in_the_middle_are_whole(server: Server) -> None:
    """An ingest and a transaction, whose server sleeps while another process compacts and vacuums what they write to."""
    server.run("CREATE TABLE w PARTITIONED BY (p) AS SELECT value AS id, value % 4 AS p FROM generate_series(0, 39)")
    place = server.root / "w"
    ingest = wire.StatementIngest(
        table="w", table_definition_options=wire.TableDefinitionOptions(if_not_exist=2, if_exists=2)
    )
    schema = pa.schema({"id": pa.int64(), "p": pa.int64()})
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO w VALUES (100, 0), (101, 9)")
        writer, _ = server.client.do_put(flight.FlightDescriptor.for_command(encode_command(ingest)), schema)
        writer.write_batch(pa.record_batch({"id": [200, 201], "p": [1, 7]}, schema=schema))
        with stopped(server):
            opened(place).append([pa.table({"id": [300, 301], "p": [0, 9]})], evaluate)
            overtake(place)
        writer.write_batch(pa.record_batch({"id": [202], "p": [2]}, schema=schema))
        writer.close()
        connection.commit()
    expected = [*range(40), 100, 101, 200, 201, 202, 300, 301]
    assert sorted(stored_rows(place)["id"].to_pylist()) == expected
    assert sorted(server.rows("SELECT id FROM w")) == [(number,) for number in expected]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table of two partitions and five snapshots."""
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    for number in range(1, 5):
        opened(tmp_path / "t").append([rows((number, "a"), (10 + number, "b"))], evaluate)
    return tmp_path / "t"


def store(place: Path) -> Store:
    return Store(str(place))


@pytest.mark.parametrize("point", ["expiry_announced", "tables_trimmed", "snapshots_removed"])
def test_a_lease_that_is_renewed_too_late_brings_nothing_back_that_is_half_removed(
    tmp_path: Path, place: Path, point: str
) -> None:
    """Its process wakes up while a vacuum that died has taken half of its snapshot."""
    old = opened(place).snapshot().version - 1
    sleeper = Leases()
    hold = sleeper.hold_all(store(place), [(None, old)])
    compact(opened(place))
    age(place / "__manifest", hours=3)
    age(place / ".lance-flight", hours=3)
    with left_behind(place, tmp_path) as left:
        vacuum(opened(place), VacuumRules(retain_hours=0, force=True))
    shutil.rmtree(place)
    left[point, 1].rename(place)
    sleeper.publish_all()
    assert hold
    vacuum(opened(place), VacuumRules(retain_hours=0, force=True))
    assert old not in versions(place), "what is half removed is not shown again"
    assert expiring_snapshots(store(place)) == set()
    assert ids(place) == [1, 2, 3, 4, 11, 12, 13, 14]


def test_a_vacuum_leaves_the_announcement_of_one_that_began_beside_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else readers would begin to read what the other one is about to remove."""
    age(place, hours=3)
    now = (place / "__manifest").stat().st_mtime
    others: list[Expiry] = []
    with ExitStack() as beside:

        def meanwhile(namespace: Store, moment: float) -> set[tuple[str | None, int]]:
            monkeypatch.setattr(vacuuming, "leased_snapshots", leased_snapshots)
            others.append(
                beside.enter_context(expire(namespace, namespace.child("__manifest"), retain=0, now=now, announce=True))
            )
            return leased_snapshots(namespace, moment)

        monkeypatch.setattr(vacuuming, "leased_snapshots", meanwhile)
        with expire(store(place), store(place).child("__manifest"), retain=1e9, now=now, announce=True) as mine:
            assert not mine.expired
        (other,) = others
        assert other.expired
        assert expiring_snapshots(store(place)) == other.expired.keys()
    assert expiring_snapshots(store(place)) == set()


def test_leases_of_processes_that_died_do_not_gather(place: Path) -> None:
    dead, living = Leases(), Leases()
    holds = dead.hold_all(store(place), [(None, 1)])
    age(place / ".lance-flight", hours=25)
    holds += living.hold_all(store(place), [(None, 2)])
    vacuum(opened(place), VacuumRules())
    assert leased_snapshots(store(place), now=0) == {(None, 2)}


@pytest.mark.parametrize("how", ["written", "staged"])
def test_a_transaction_whose_files_were_vacuumed_is_not_committed(
    place: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was stopped for a day; nothing else tells that the rows are gone."""
    transaction = written(place, (7, "a"), (8, "new"))
    if how == "staged":
        transaction.stage()
    age(place, hours=25)
    vacuum(opened(place), VacuumRules())
    monkeypatch.setattr(commit, "OLD_SECONDS", 0.0)
    with pytest.raises(SerializationFailure, match="was vacuumed before its commit"):
        transaction.commit()
    assert ids(place) == [1, 2, 3, 4, 11, 12, 13, 14]


@pytest.mark.parametrize("how", ["written", "staged"])
def test_an_old_transaction_whose_files_are_there_is_committed(
    place: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = written(place, (7, "a"), (8, "new"))
    if how == "staged":
        transaction.stage()
    monkeypatch.setattr(commit, "OLD_SECONDS", 0.0)
    transaction.commit()
    assert ids(place) == [1, 2, 3, 4, 7, 8, 11, 12, 13, 14]
