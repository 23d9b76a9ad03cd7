"""An object store that answers with errors, late, by half or not at all: what is acknowledged is stored once, the rest whole or not at all."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from adbc_driver_manager import Error
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.storage import store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.errors import LanceFlightError, OutcomeUnknown
from lance_flight.flight.status import flight_error

from tests.object_store.bucket import Bucket
from tests.object_store.s3_server import Fault, Rule, S3Server
from tests.selection import IS_FULL
from tests.service.server_process import Server

BEFORE = {(1, "a"), (2, "b"), (3, "c")}


def stored(bucket: Bucket) -> list[tuple[int, str]]:
    """All rows, as stock Lance reads the pinned versions."""
    options = bucket.options
    place = f"{bucket.store.uri}/t"
    found = []
    for row in lance.dataset(f"{place}/__manifest", storage_options=options).to_table().to_pylist():
        if row["object_type"] == "table":
            uri = f"{place}/{row['location']}"
            table = lance.dataset(uri, version=row["read_version"], storage_options=options).to_table()
            found += [(each["id"], each["p"]) for each in table.to_pylist()]
    return sorted(found)


@pytest.fixture(scope="module")
def template(s3: S3Server) -> Bucket:
    """A bucket with a table `t` without rows."""
    made = Bucket.made(s3)
    made.database.run("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    return made


@pytest.fixture(scope="module")
def filled(template: Bucket) -> Bucket:
    """The same with a row in each of three partitions."""
    made = template.copy()
    made.database.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return made


@pytest.fixture(scope="module")
def small_files(template: Bucket) -> Bucket:
    """The same with four files in each of two partitions."""
    made = template.copy()
    for number in range(4):
        made.database.run(f"INSERT INTO t VALUES ({number}, 'a'), ({10 + number}, 'b')")
    return made


# Requests of a write: a method and a pattern of paths.
REQUESTS = {
    "a version of __manifest": ("PUT", r"/__manifest/_versions/"),
    "files of __manifest": ("PUT", r"/__manifest/(data|_deletions|_transactions|_indices)/"),
    "a version of a partition table": ("PUT", r"dataset/_versions/"),
    "files of a partition table": ("PUT", r"dataset/(data|_deletions|_transactions)/"),
    "reads of versions": ("GET|HEAD", r"_versions/"),
    "reads of data": ("GET|HEAD", r"/(data|_deletions|_transactions|_indices)/"),
    "lists": ("GET", r"\?.*(list-type|prefix)="),
    "leases and private files": ("PUT|GET|HEAD", r"\.lance-flight/"),
    "deletions": ("DELETE|POST", r".*"),
}
STATEMENTS: dict[str, tuple[str, set[tuple[int, str]]]] = {
    "insert": ("INSERT INTO t VALUES (4, 'a'), (5, 'new')", BEFORE | {(4, "a"), (5, "new")}),
    "update": ("UPDATE t SET id = id + 10 WHERE p <> 'c'", {(11, "a"), (12, "b"), (3, "c")}),
    "delete": ("DELETE FROM t WHERE id < 3", {(3, "c")}),
    "overwrite": ("INSERT OVERWRITE t VALUES (9, 'a')", {(9, "a"), (2, "b"), (3, "c")}),
}
ALIKE = {Fault.INTERNAL, Fault.DELAY}
"""Faults that others stand for: one not carried out like SLOW_DOWN and answered like LATE_ERROR, and an answer that is whole."""
FAULTS = pytest.mark.parametrize(
    "fault", [fault for fault in Fault if IS_FULL or fault not in ALIKE], ids=lambda fault: fault.name
)


@pytest.mark.sample(12)
@pytest.mark.parametrize("write", STATEMENTS)
@pytest.mark.parametrize("asked", REQUESTS)
@FAULTS
def test_a_write_that_meets_a_fault_is_whole_or_not_there(filled: Bucket, write: str, asked: str, fault: Fault) -> None:
    """One request of each kind fails, or every one for a while: a client that is told of success finds its rows once."""
    sql, then = STATEMENTS[write]
    method, path = REQUESTS[asked]
    bucket = filled.copy()
    engine = bucket.database.engine
    bucket.faults.set(Rule(fault=fault, method=method, path=path, times=2))
    outcome: BaseException | None = None
    try:
        engine.update(sql)
    except (LanceFlightError, OSError) as exc:
        outcome = exc
    bucket.faults.set()
    found = stored(bucket)
    assert len(found) == len(set(found)), "no row is there twice"
    if outcome is None:
        assert set(found) == then
    else:
        assert "[internal]" not in str(flight_error(outcome)), repr(outcome)
        assert set(found) in ([BEFORE, then] if isinstance(outcome, OutcomeUnknown) else [BEFORE])
    fresh = bucket.database
    fresh.run("INSERT INTO t VALUES (100, 'a'), (101, 'new'), (102, 'z')")
    expected = sorted([*found, (100, "a"), (101, "new"), (102, "z")])
    assert stored(bucket) == expected
    assert sorted(fresh.rows("SELECT id, p FROM t")) == expected


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("place", ["dataset", "__manifest"])
def test_a_conditional_put_that_breaks_is_sent_again(filled: Bucket, place: str, fault: Fault) -> None:
    """Lance does not send it again, since it cannot know whether it arrived; the version that it makes can be made only once."""
    bucket = filled.copy()
    sql, then = STATEMENTS["insert"]
    bucket.faults.set(Rule(fault=fault, method="PUT", path=f"{place}/_versions/", times=3))
    bucket.database.run(sql)
    assert bucket.faults.injected[fault] > 0
    bucket.faults.set()
    assert stored(bucket) == sorted(then)


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LATE_ERROR], ids=lambda fault: fault.name)
def test_a_version_whose_answer_is_lost_is_known_by_its_transaction(filled: Bucket, fault: Fault) -> None:
    """It is neither written twice nor taken for another writer's."""
    bucket = filled.copy()
    with bucket.failing(Rule(fault=fault, method="PUT", path="dataset/_versions/")), bucket.recorded() as sent:
        bucket.database.run("INSERT INTO t VALUES (4, 'a')")
    again = ["PUT"] if fault is Fault.LATE_ERROR else []
    asked = [each.method for each in sent if "dataset/_versions/" in each.key]
    assert [method for method in asked if method != "HEAD"] == ["GET", "PUT", *again, "GET"]
    assert sum("dataset/_transactions/" in each.key for each in sent) == 1
    assert stored(bucket) == sorted({*BEFORE, (4, "a")})


@pytest.mark.parametrize(
    ("faults", "chance"),
    [([Fault.SLOW_DOWN, Fault.RESET], 0.05), ([Fault.DELAY], 0.05)]
    + [([fault], 0.2) for fault in (Fault.SLOW_DOWN, Fault.RESET, Fault.DELAY) if IS_FULL],
)
def test_statements_succeed_while_the_store_answers_at_all(
    filled: Bucket, faults: Sequence[Fault], chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is late that comes after Lance has given the request up: here a tenth of a second, else 30 s."""
    monkeypatch.setattr(store, "LANCE_RETRIES", {**store.LANCE_RETRIES, "timeout": "100ms"})
    bucket = filled.copy()
    database = bucket.database
    bucket.faults.set(*(Rule(fault=fault, times=1_000_000, chance=chance) for fault in faults))
    for number in range(4):
        database.run(f"INSERT INTO t VALUES ({100 + number}, 'a'), ({200 + number}, 'n{number}')")
        database.run("UPDATE t SET id = id + 0 WHERE p = 'b'")
        assert database.value("SELECT count(*) FROM t WHERE p = 'a' AND id >= 100") == number + 1
        assert database.rows("SHOW TABLES")
    assert all(bucket.faults.injected[fault] for fault in faults)
    bucket.faults.set()
    assert len(stored(bucket)) == len(BEFORE) + 8


FIRST_VERSION = 2**64 - 2
"""What Lance calls the file of a table's first version; that of the second is one less."""


@FAULTS
@pytest.mark.parametrize("version", [1, 2])
def test_a_new_table_that_meets_a_fault_has_its_rows_once(
    template: Bucket, monkeypatch: pytest.MonkeyPatch, version: int, fault: Fault
) -> None:
    """Its first version is empty, its second one has its rows. The fault lasts longer than anybody tries."""
    monkeypatch.setattr(store, "LANCE_RETRIES", {"client_max_retries": "2"})
    bucket = template.copy()
    engine = bucket.database.engine
    path = rf"dataset/_versions/{FIRST_VERSION + 1 - version}\.manifest"
    bucket.faults.set(Rule(fault=fault, method="PUT", path=path, times=30))
    outcome: BaseException | None = None
    try:
        engine.update("INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    except (LanceFlightError, OSError) as exc:
        outcome = exc
    assert bucket.faults.injected[fault] > 0
    bucket.faults.set()
    assert outcome is None or "[internal]" not in str(flight_error(outcome)), repr(outcome)
    assert stored(bucket) == ([(1, "a"), (2, "a")] if outcome is None else [])
    bucket.database.run("INSERT INTO t VALUES (3, 'a')")
    assert stored(bucket) == [*([(1, "a"), (2, "a")] if outcome is None else []), (3, "a")]


ROUNDS = 3 if IS_FULL else 1


@FAULTS
@pytest.mark.parametrize("what", ["compact", "vacuum"])
def test_maintenance_that_meets_faults_loses_nothing(small_files: Bucket, what: str, fault: Fault) -> None:
    bucket = small_files.copy()
    before = stored(bucket)
    bucket.faults.set(Rule(fault=fault, times=10_000, chance=0.1), seed=len(fault.name))
    outcomes = Counter[str]()
    for _ in range(ROUNDS):
        try:
            namespace = PartitionedNamespace.open(bucket.store.child("t"))
            if what == "compact":
                compact(namespace)
            else:
                vacuum(namespace, VacuumRules(retain_hours=0, force=True), now=time.time() + 3600)
        except (LanceFlightError, OSError) as exc:
            outcomes[type(exc).__name__] += 1
        else:
            outcomes["done"] += 1
    bucket.faults.set()
    assert stored(bucket) == before
    bucket.database.run("INSERT INTO t VALUES (100, 'a')")
    assert stored(bucket) == sorted([*before, (100, "a")])


WRITERS = 4
CHANGES = 40 if IS_FULL else 4
MIXED = [Rule(fault=fault, times=1_000_000, chance=0.004) for fault in Fault]
AGAIN = ("[conflict]", "[serialization_failure]", "[outcome_unknown]", "[unavailable]")


@pytest.mark.parametrize("seed", range(8 if IS_FULL else 1))
def test_writers_of_a_server_whose_store_fails_now_and_then_lose_nothing(
    template: Bucket, tmp_path: Path, seed: int, say: Callable[[str], None]
) -> None:
    """Each writer knows which of its rows were acknowledged, which not, and of which nobody said."""
    bucket = template.copy()
    with bucket.serving(tmp_path) as server:
        bucket.faults.set(*MIXED, seed=seed)

        def write(number: int) -> tuple[set[int], set[int], Counter[str]]:
            chance, acknowledged, unknown, codes = random.Random(seed * 100 + number), set(), set(), Counter[str]()  # noqa: S311
            with another(server) as client:
                for change in range(CHANGES):
                    new = {10_000 * (number + 1) + 10 * change + n for n in range(3)}
                    values = ", ".join(f"({row}, 'p{chance.randint(0, 3)}')" for row in new)
                    try:
                        client.run(f"INSERT INTO t VALUES {values}")
                    except Error as error:
                        code = next((code for code in AGAIN if code in str(error)), str(error))
                        codes[code] += 1
                        unknown |= new if code == "[outcome_unknown]" else set()
                    else:
                        acknowledged |= new
            return acknowledged, unknown, codes

        with ThreadPoolExecutor(WRITERS) as pool:
            written = list(pool.map(write, range(WRITERS)))
        injected, requests = sum(bucket.faults.injected.values()), bucket.faults.requests
        bucket.faults.set()
        found = [row for row, _ in stored(bucket)]
        assert sorted(row for (row,) in server.rows("SELECT id FROM t")) == found
    acknowledged = set().union(*(rows for rows, _, _ in written))
    unknown = set().union(*(rows for _, rows, _ in written))
    assert len(found) == len(set(found))
    assert acknowledged <= set(found) <= acknowledged | unknown
    assert all(
        len(unknown & set(range(10 * n, 10 * n + 3)) & set(found)) in {0, 3} for n in {row // 10 for row in unknown}
    )
    codes = sum((codes for _, _, codes in written), Counter[str]())
    assert codes.keys() <= set(AGAIN)
    say(
        f"S3 with {injected} faults in {requests} requests, seed {seed}: {len(acknowledged)} rows acknowledged and there, 0 twice;"
        f" refused: {dict(codes)}"
    )


@contextmanager
def another(server: Server) -> Iterator[Server]:
    """A client of its own."""
    client = replace(server)
    try:
        yield client
    finally:
        client.close()
