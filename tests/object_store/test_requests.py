"""How many requests of which kind each statement sends to an object store: exact numbers, and what other processes do in between is seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from types import ModuleType

import pytest
from lance_flight.catalog.commits import commit as commits
from lance_flight.catalog.manifests import manifest
from lance_flight.catalog.roots import table_resolver
from lance_flight.catalog.storage import formats, retries
from lance_flight.catalog.storage.filesystems import StoreRequest, store_requests
from lance_flight.catalog.storage.lance_columns import OpenFile
from lance_flight.catalog.tables import partitions
from lance_flight.errors import NotFound, SerializationFailure

from tests.object_store.bucket import Bucket, BucketDatabase
from tests.object_store.s3_server import Fault, Rule, S3Server
from tests.object_store.statements import Statements

PARTITIONS = TABLES = 3
LOOK = {"LIST __manifest/_versions": 1}
"""One request says which version is the newest, and that the table is the same one still."""


def commit(partitions: int) -> Mapping[str, int]:
    """What it takes to add rows to some partitions: three files for each."""
    names = [*("__manifest/" + name for name in ("data", "_transactions", "_versions"))]
    own = {f"PUT {name}": 1 for name in names} | {"LIST __manifest/_versions": 2, "HEAD __manifest/_versions": 1}
    each = ("PUT table/data", "PUT table/_transactions", "PUT table/_versions")
    return own | dict.fromkeys(each, partitions)


# What a table that is not there takes: both of its directories, and the root's list of tables.
ABSENT = {"LIST __manifest": 2, "LIST directory": 1}
LISTED = {"LIST __manifest": 1, "LIST directory": 1, "LIST private": 1}
CASES: Mapping[str, tuple[Callable[[Statements], object], Mapping[str, int]]] = {
    "SELECT of one partition": (Statements.select, LOOK),
    "SELECT of a plain table": (partial(Statements.select, query="SELECT id FROM u"), {"LIST table/_versions": 1}),
    "append to a plain table": (
        Statements.append_plain,
        {f"PUT table/{name}": 1 for name in ("data", "_transactions", "_versions")}
        | {"LIST table/_versions": 2, "GET table/_versions": 1, "HEAD table/_versions": 1},
    ),
    "SHOW TABLES of both kinds": (partial(Statements.select, query="SHOW TABLES"), LISTED),
    "append to one partition": (partial(Statements.append, count=1), commit(1)),
    "append to three partitions": (partial(Statements.append, count=3), commit(3)),
    # Where its file lies is asked for, once, of a version that was written here.
    "append to one partition, and SELECT of it": (
        Statements.append_and_select,
        {**commit(1), "LIST __manifest/_versions": 3, "HEAD table/_versions": 1, "GET table/data": 1},
    ),
    "UPDATE of one row": (Statements.update, {**commit(1), "HEAD table/_versions": 1, "GET table/data": 1, **ABSENT}),
    "SHOW TABLES": (Statements.show_tables, LISTED),
    "tables with columns": (Statements.columns, LISTED),
    "tables with columns, by a new engine": (
        Statements.columns_of_a_new_server,
        {**LISTED, "LIST __manifest/_versions": TABLES, "HEAD private": 1},
    ),
}


@pytest.fixture(scope="module")
def statements(s3: S3Server) -> Statements:
    return Statements.made(Bucket.made(s3), PARTITIONS, TABLES)


@pytest.fixture
def slow_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked again because this machine was slow."""
    monkeypatch.setattr(retries, "REMEMBERED_SECONDS", 600.0)
    for module in (retries, table_resolver):
        monkeypatch.setattr(module, "LISTED_SECONDS", 600.0)
    monkeypatch.setattr(table_resolver, "_SHAPE_SECONDS", 600.0)
    monkeypatch.setattr(formats, "CHECK_SECONDS", 600.0)


@pytest.mark.sample(40)
@pytest.mark.usefixtures("slow_clocks")
@pytest.mark.parametrize("case", CASES)
def test_a_statement_sends_few_requests(statements: Statements, case: str) -> None:
    run, expected = CASES[case]
    assert statements.sent(run) == expected


def test_what_is_asked_for_is_counted_by_its_kind(s3: S3Server) -> None:
    store = Bucket.made(s3).store
    before = store_requests.counts
    store.write("a", b"x")
    assert store.files() == ["a"]
    assert store.read("a") == b"x"
    with pytest.raises(FileNotFoundError):
        store.read("b")
    store.remove_files(["a"])
    counts = {
        kind: (after.requests - before[kind].requests, after.errors) for kind, after in store_requests.counts.items()
    }
    assert counts == {
        StoreRequest.LIST: (1, before[StoreRequest.LIST].errors),
        StoreRequest.READ: (2, before[StoreRequest.READ].errors),
        StoreRequest.WRITE: (1, before[StoreRequest.WRITE].errors),
        StoreRequest.DELETE: (1, before[StoreRequest.DELETE].errors),
    }


def test_what_lance_reads_and_writes_is_counted(statements: Statements) -> None:
    before = store_requests.of_lance
    statements.append_and_select()
    after = store_requests.of_lance
    assert after.reads > before.reads
    assert after.read_bytes > before.read_bytes
    assert after.writes > before.writes
    assert after.written_bytes > before.written_bytes


def test_a_request_that_fails_is_counted_as_an_error(s3: S3Server) -> None:
    bucket, before = Bucket.made(s3), store_requests.counts[StoreRequest.LIST]
    with bucket.failing(Rule(fault=Fault.SLOW_DOWN, times=1_000)), pytest.raises(OSError, match=r"SlowDown|503"):
        bucket.store.directories()
    after = store_requests.counts[StoreRequest.LIST]
    assert (after.requests, after.errors) == (before.requests + 1, before.errors + 1)
    assert after.seconds > before.seconds


@pytest.mark.parametrize("step", [(OpenFile, "close"), (partitions, "stage")], ids=lambda step: step[1])
def test_partitions_are_written_and_staged_side_by_side(
    s3: S3Server, step: tuple[type | ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread for each of sixteen, which wait for answers: four of them, as on a disk, would take four times as long."""
    database = Bucket.made(s3).database
    database.run("CREATE TABLE t (p BIGINT) PARTITIONED BY (p)")
    database.run("INSERT INTO t SELECT * FROM generate_series(1, 16)")
    together, real, first = threading.Barrier(16, timeout=20), getattr(*step), iter(range(16))

    def meet(*arguments: object, **named: object) -> object:
        if next(first, None) is not None:  # the rows of `__manifest` come after those of all partitions
            together.wait()
        return real(*arguments, **named)

    monkeypatch.setattr(*step, meet)
    database.run("INSERT INTO t SELECT * FROM generate_series(1, 16)")


SEEN = "SELECT id, p FROM {table} ORDER BY id"
MAKE = ("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)", "CREATE TABLE u (id BIGINT, p VARCHAR)")
FILL = ("INSERT INTO {table} VALUES (1, 'a'), (2, 'b')", "INSERT INTO {table} VALUES (3, 'a')")
SAME = "UPDATE {table} SET id = id WHERE id = 1"
# What another process does → the rows that are there then (None: no table).
MEANWHILE: Mapping[str, tuple[Sequence[str], Sequence[tuple[int, str]] | None]] = {
    "commit": (["INSERT INTO {table} VALUES (4, 'b')"], [(1, "a"), (2, "b"), (3, "a"), (4, "b")]),
    "update": (["UPDATE {table} SET id = 30 WHERE id = 3"], [(1, "a"), (2, "b"), (30, "a")]),
    "drop": (["DROP TABLE {table}"], None),
    "another one": (
        ["DROP TABLE {table}", *MAKE, *(each.replace("(", "(5", 1) for each in FILL), SAME],
        [(2, "b"), (51, "a"), (53, "a")],
    ),
}


@pytest.fixture(scope="module")
def template(s3: S3Server) -> Bucket:
    """A partitioned table `t` and a plain one `u`, of some commits."""
    made = Bucket.made(s3)
    for sql in (*MAKE, *(each.format(table=table) for table in "tu" for each in FILL)):
        made.database.run(sql)
    return made


def known(bucket: Bucket, table: str) -> BucketDatabase:
    """An engine that has read and written a table, so that it remembers what there is to remember."""
    database = bucket.database
    database.rows(SEEN.format(table=table))
    database.run(SAME.format(table=table))
    database.rows("SHOW TABLES")
    return database


def in_another_process(bucket: Bucket, table: str, change: str) -> Callable[[], None]:
    """Prepare what another process does to a table: in a copy, whose changes are then those of the bucket."""
    before, copied = bucket.copy(), bucket.copy()
    for sql in MEANWHILE[change][0]:
        if not sql.startswith("CREATE") or f"TABLE {table} " in sql:
            copied.database.run(sql.format(table=table))
    return lambda: bucket.take_changes(before, copied)


@pytest.mark.parametrize("table", ["t", "u"])
@pytest.mark.parametrize("change", MEANWHILE)
def test_the_next_statement_sees_what_another_process_did(template: Bucket, change: str, table: str) -> None:
    bucket = template.copy()
    database, rows = known(bucket, table), MEANWHILE[change][1]
    in_another_process(bucket, table, change)()
    if rows is None:
        assert "[not_found]" in database.refuses(SEEN.format(table=table))
        assert "[not_found]" in database.refuses(f"INSERT INTO {table} VALUES (9, 'a')")
        assert (table,) not in database.rows("SELECT table_name FROM information_schema.tables")
        return
    assert database.rows(SEEN.format(table=table)) == rows
    database.run(f"INSERT INTO {table} VALUES (99, 'a')")
    for each in (database, bucket.database):
        assert each.rows(SEEN.format(table=table)) == [*rows, (99, "a")]


CHECKED, WRITTEN = (commits, "check_files"), (manifest, "failpoint")
"""Steps of a commit: nothing is staged, and all but the commit itself is done."""
# At the second step another process would find what is staged on the partition that it updates.
MET = [*product(MEANWHILE, "tu", [CHECKED]), *product([each for each in MEANWHILE if each != "update"], "t", [WRITTEN])]


@pytest.mark.parametrize(("change", "table", "step"), MET, ids=lambda each: each if isinstance(each, str) else each[1])
def test_a_commit_meets_what_another_process_did_since_it_began(
    template: Bucket, change: str, table: str, step: tuple[ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was looked up once at the beginning is the same one when rows become visible in it, or they do not."""
    bucket = template.copy()
    database, rows = known(bucket, table), MEANWHILE[change][1]
    change_it = in_another_process(bucket, table, change)
    reached, real = [], getattr(*step)

    def reach(*arguments: object) -> None:
        real(*arguments)
        if not reached:
            reached.append(True)
            change_it()

    monkeypatch.setattr(*step, reach)
    try:
        database.run(f"INSERT INTO {table} VALUES (99, 'a')")
    except (SerializationFailure, NotFound):
        assert change in {"drop", "another one"}
    else:
        assert rows is not None
        rows = [*rows, (99, "a")]
    assert reached
    for each in (database, bucket.database):
        if rows is None:
            assert "[not_found]" in each.refuses(SEEN.format(table=table))
        else:
            assert each.rows(SEEN.format(table=table)) == rows
