"""Many writers at once, in one server and in four: every row counts once, and every partition value has one table.

A bank moves money between partitions meanwhile, and nobody ever sees any of it missing or there twice.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.small_table import SCHEMA, SPEC, ids, rows
from tests.catalog.turns import together
from tests.selection import IS_FULL
from tests.service.bank import (
    check_that_no_reader_finds_a_wrong_total,
    in_a_changed_branch,
    in_a_transaction,
    in_one_statement,
)
from tests.service.server_process import Server, serving
from tests.stock import manifest, manifest_rows, stored_rows, stored_tables

WRITERS = 16
COMMITS = 100 if IS_FULL else 4
SHARED = ("a", "b", None)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Four server processes over one root."""
    root = tmp_path_factory.mktemp("writers") / "root"
    with ExitStack() as running:
        yield [running.enter_context(serving(root)) for _ in range(4)]


@pytest.fixture(params=[1, 4], ids=["one server", "four servers"])
def servers(request: pytest.FixtureRequest, processes: list[Server]) -> list[Server]:
    """Those of them that clients talk to."""
    return processes[: request.param]


def places(writer: int, commit: int) -> list[str | None]:
    """Where the rows of one commit go: partitions of everybody, of everybody's same commit, and of nobody else."""
    return [*SHARED, f"commit {commit}", f"commit {commit // 2}, half {writer % 2}", f"{writer}-{commit}"]


def append(uri: str, table: str, writer: int, together: threading.Barrier) -> tuple[list[int], int]:
    """The ids that were acknowledged to one writer, and how many of its commits were refused."""
    acknowledged, refused = list[int](), 0
    with closing(dbapi.connect(uri, autocommit=True)) as connection, connection.cursor() as cursor:
        for commit in range(COMMITS):
            new = places(writer, commit)
            numbers = [(writer * COMMITS + commit) * len(new) + n for n in range(len(new))]
            data = pa.table({"id": numbers, "place": pa.array(new, pa.utf8())})
            together.wait()
            try:
                cursor.adbc_ingest(table, data, mode="append")
            except Error as exc:
                if "[conflict]" not in str(exc):
                    raise
                refused += 1
            else:
                acknowledged += numbers
    return acknowledged, refused


def test_every_acknowledged_row_is_there_once_and_every_value_has_one_table(
    servers: list[Server], table: str, say: Callable[[str], None]
) -> None:
    servers[0].run(f"CREATE TABLE {table} (id BIGINT, place VARCHAR) PARTITIONED BY (place)")
    place = servers[0].root / table
    before = int(manifest(place).version)
    together = threading.Barrier(WRITERS, timeout=300)
    uris = islice(cycle(server.uri for server in servers), WRITERS)
    with ThreadPoolExecutor(WRITERS) as pool:
        results = list(pool.map(lambda writer, uri: append(uri, table, writer, together), range(WRITERS), uris))
    acknowledged = sorted(number for numbers, _ in results for number in numbers)
    refused = sum(refused for _, refused in results)
    commits = int(manifest(place).version) - before
    say(
        f"{WRITERS} writers × {COMMITS} commits, {len(servers)} servers: {len(acknowledged)} rows acknowledged in"
        f" {WRITERS * COMMITS - refused} transactions and {commits} versions of the manifest, {refused} refused"
    )
    assert sorted(stored_rows(place)["id"].to_pylist()) == acknowledged
    for server in servers:
        assert server.query(f"SELECT id FROM {table} ORDER BY id")["id"].to_pylist() == acknowledged
    check_one_table_for_each_value(place)
    assert commits <= WRITERS * COMMITS - refused


def check_one_table_for_each_value(place: Path) -> None:
    """Rows lie in the table of their value alone; every table has its namespace, every row of the manifest its own id."""
    tables = stored_tables(place)
    values = [found.values["place"] for found in tables]
    assert len(values) == len(set(values))
    for found in tables:
        assert set(found.dataset.to_table()["place"].to_pylist()) == {found.values["place"]}
    listed = manifest_rows(place)
    known = Counter(row["object_id"] for row in listed)
    assert max(known.values()) == 1
    assert known.keys() == {
        "v1",
        *(f.object_id for f in tables),
        *(f.object_id.removesuffix("$dataset") for f in tables),
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("move", [in_one_statement, in_a_transaction, in_a_changed_branch])
def test_no_reader_ever_finds_a_wrong_total(
    servers: list[Server], table: str, move: Callable[[str, str, int, int, int], None], say: Callable[[str], None]
) -> None:
    check_that_no_reader_finds_a_wrong_total(servers, table, move, say)


def test_transactions_that_wait_together_share_one_version_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    before = int(manifest(tmp_path / "t").version)
    together(monkeypatch, namespace, WRITERS)

    def write(number: int) -> int:
        return namespace.append([rows((number, "shared"), (100 + number, f"new {number // 2}"))], evaluate)

    with ThreadPoolExecutor(WRITERS) as pool:
        assert list(pool.map(write, range(WRITERS))) == [2] * WRITERS
    assert ids(tmp_path / "t") == [*range(WRITERS), *range(100, 100 + WRITERS)]
    assert int(manifest(tmp_path / "t").version) == before + 1
    assert len(stored_tables(tmp_path / "t")) == 1 + WRITERS // 2
