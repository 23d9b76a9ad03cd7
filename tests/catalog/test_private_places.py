"""Tables on their way in or out: whatever stops the process, one table has the name, and nothing else stays."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.staging_area import fill_reserve, private_place, settle_abandoned
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.engine.engine import Engine
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import LanceFlightError, NotFound

from tests.engine.directory_namespace import lay_out, listed
from tests.faults.failpoints import left_behind

pytestmark = pytest.mark.slow  # threads that look for a while

T = TableName("public", "t")
LAYOUTS = pytest.mark.parametrize("layout", ["", "id"], ids=["plain", "partitioned"])
OTHERS = pytest.mark.parametrize("other", ["", "id"], ids=["by plain", "by partitioned"])


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    root = tmp_path / "root"
    root.mkdir()
    return Engine(Root(Store(str(root))), target_partitions=2)


@pytest.fixture
def place(engine: Engine) -> Path:
    return Path(engine.root.store.uri)


Stop = Callable[[str, str, str], None]


def put(engine: Engine, number: int, layout: str = "", *, replace: bool = False) -> None:
    """The table `t` with one row."""
    rows = pa.table({"id": [number]})
    by = TableProperties.by(layout)
    ingest.create(engine.root, T, rows.schema, by, [rows], existing=IfExists.REPLACE if replace else IfExists.FAIL)


def ids(engine: Engine) -> list[int]:
    found: list[int] = engine.query("SELECT id FROM t")["id"].to_pylist()
    return found


@pytest.fixture
def stop(place: Path, tmp_path: Path) -> Stop:
    """Leaves the root as a process does that is killed at a point of an operation on `t`."""

    def stopped(action: str, layout: str, point: str) -> None:
        work = Path(shutil.copytree(place, tmp_path / "work"))
        engine = Engine(Root(Store(str(work))), target_partitions=2)
        with left_behind(work, tmp_path / "left") as left:
            if action == "drop":
                engine.root.drop(T)
            else:
                put(engine, 2, layout, replace=action == "replace")
        shutil.rmtree(place)
        left[point, 1].rename(place)

    return stopped


def private(place: Path) -> list[str]:
    return sorted(path.name for path in (place / PRIVATE).iterdir())


REPLACED = {"namespace_made": [1], "table_replaced": [1], "table_moved": [2]}
"""What is found where a replacement was stopped: before the old one leaves, before the new one comes, and before the old one is deleted."""


@LAYOUTS
@OTHERS
@pytest.mark.parametrize("point", REPLACED)
def test_a_replacement_that_was_stopped_leaves_one_whole_table(
    engine: Engine, stop: Stop, layout: str, other: str, point: str
) -> None:
    place = Path(engine.root.store.uri)
    put(engine, 1, layout)
    stop("replace", other, point)
    assert len(private(place)) == 1
    settle_abandoned(engine.root.store)
    assert private(place) == []
    assert ids(engine) == REPLACED[point]
    assert engine.root.tables() == [T]


@LAYOUTS
def test_a_table_that_took_the_name_meanwhile_keeps_it(engine: Engine, place: Path, stop: Stop, layout: str) -> None:
    put(engine, 1, layout)
    stop("replace", layout, "table_replaced")
    with pytest.raises(NotFound):
        ids(engine)
    put(engine, 3, layout)
    settle_abandoned(engine.root.store)
    assert (ids(engine), private(place)) == ([3], [])


@LAYOUTS
@pytest.mark.parametrize(("action", "point"), [("drop", "table_dropped"), ("create", "namespace_made")])
def test_what_a_stopped_drop_or_create_left_is_removed(
    engine: Engine, stop: Stop, layout: str, action: str, point: str
) -> None:
    place = Path(engine.root.store.uri)
    if action == "drop":
        put(engine, 1, layout)
    stop(action, layout, point)
    assert len(private(place)) == 1
    settle_abandoned(engine.root.store)
    assert private(place) == []
    assert engine.root.tables() == []


def test_the_place_of_a_living_operation_is_left_alone(engine: Engine) -> None:
    with private_place(engine.root.store) as mine:
        mine.new.write("file", b"x")
        settle_abandoned(engine.root.store)
        assert mine.new.read("file") == b"x"
    assert not mine.store.exists()


def test_a_place_that_nobody_ever_locked_is_left_alone_for_a_day(engine: Engine, place: Path) -> None:
    new, old = "0" * 16, "1" * 16
    # A root that is itself a table has there what its readers hold, and what a vacuum that died was removing.
    for name in (new, old, "expiring", "leases"):
        (place / PRIVATE / name).mkdir(parents=True)
    (place / PRIVATE / "ticket.key").write_text("key")
    yesterday = time.time() - 25 * 3600
    for name in (old, "expiring", "leases", "ticket.key"):
        os.utime(place / PRIVATE / name, (yesterday, yesterday))
    fill_reserve(engine.root.store)
    settle_abandoned(engine.root.store)
    assert private(place) == [new, "expiring", "leases", "reserve", "ticket.key"]


@pytest.mark.parametrize("rows", [1, 0])
def test_a_failed_build_leaves_nothing(engine: Engine, place: Path, rows: int) -> None:
    def build(new: Store) -> int:
        for number in range(rows):
            new.write(str(number), b"x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.root.create(T, build, partitioned=False)
    assert private(place) == []
    assert engine.root.tables() == []


# Directory namespaces


def test_a_listed_table_whose_directory_is_gone_can_be_dropped(engine: Engine, place: Path) -> None:
    lay_out(place, {"t": "12ab_t", "u": "34cd_u"}, make=False)
    with pytest.raises(NotFound, match="'t' is not there"):
        ids(engine)
    engine.update("DROP TABLE t")
    assert listed(place) == {"u": "34cd_u"}
    with pytest.raises(NotFound):
        engine.update("DROP TABLE t")
    assert engine.update("DROP TABLE IF EXISTS t") == 0


@pytest.mark.parametrize("location", ["../beside", "/nowhere", None])
def test_dropping_a_wrongly_listed_table_removes_its_row_alone(
    engine: Engine, place: Path, location: str | None
) -> None:
    beside = place.parent / "beside"
    lance.write_dataset(pa.table({"id": [1]}), str(beside))
    lay_out(place, {"t": location, "u": "34cd_u"})
    engine.update("DROP TABLE t")
    assert listed(place) == {"u": "34cd_u"}
    assert lance.dataset(str(beside)).count_rows() == 1


@pytest.mark.parametrize("location", ["12ab_t", "../beside", None])
@OTHERS
def test_a_listed_table_is_replaced(engine: Engine, place: Path, location: str | None, other: str) -> None:
    lay_out(place, {"t": location})
    put(engine, 2, other, replace=True)
    assert ids(engine) == [2]
    assert engine.root.kinds() == {T: bool(other)}
    kept = {"t": location} if location == "12ab_t" and not other else {}
    assert listed(place) == kept


def test_a_listed_table_comes_back_to_where_it_was(engine: Engine, place: Path, stop: Stop) -> None:
    lay_out(place, {"t": "some/where/t.lance"})
    stop("replace", "", "table_replaced")
    settle_abandoned(engine.root.store)
    assert (ids(engine), listed(place)) == ([0], {"t": "some/where/t.lance"})


# Readers


@LAYOUTS
@OTHERS
def test_readers_never_see_the_moment_between_two_tables(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, layout: str, other: str
) -> None:
    put(engine, 1, layout)
    looked = threading.Semaphore(0)
    move, find = Store.move_to, Root._find
    readers = ThreadPoolExecutor(3)
    running = []

    def looking(self: Root, name: TableName) -> object:
        found = find(self, name)
        if found is None:
            looked.release()
        return found

    def moving(self: Store, target: Store) -> None:
        move(self, target)
        if target.name == "old":
            for task in (described, there, planned):
                running.append(readers.submit(task))
                assert looked.acquire(timeout=60)

    def described() -> list[str]:
        found: list[str] = engine.query("DESCRIBE t")["column_name"].to_pylist()
        return found

    def there() -> bool:
        return engine.root.has(T)

    def planned() -> bool:
        return engine.plan("SELECT id FROM t") is not None

    monkeypatch.setattr(Store, "move_to", moving)
    monkeypatch.setattr(Root, "_find", looking)
    put(engine, 2, other, replace=True)
    assert [task.result() for task in running] == [["id"], True, True]
    readers.shutdown()


@LAYOUTS
def test_every_name_stays_while_its_table_is_replaced_many_times(engine: Engine, layout: str) -> None:
    put(engine, 0, layout)
    stopping = threading.Event()

    def look() -> list[str]:
        wrong = []
        while not stopping.is_set():
            for statement in ("SHOW TABLES", "DESCRIBE t", "SELECT id FROM t"):
                try:
                    plan = engine.plan(statement)
                    if "SELECT" not in statement:
                        assert engine.query(statement).num_rows == 1
                    assert plan is not None
                except LanceFlightError as exc:
                    wrong.append(f"{statement}: {exc}")
        return wrong

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(look) for _ in range(3)]
        for number in range(20):
            reader = pa.table({"id": [number]}).to_reader()
            ingest.ingest(engine.root, T, reader, create_missing=True, existing=IfExists.REPLACE)
        stopping.set()
        assert [task.result() for task in running] == [[], [], []]
