"""REWRITE PARTITIONS: rows under older specs move to the current one, whatever happens meanwhile."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from lance_flight.catalog.maintenance import rewriting
from lance_flight.catalog.maintenance.rewriting import RewritingRules, rewrite
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.retries import RetryPolicy
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.sql.functions import evaluate
from lance_flight.errors import SerializationFailure
from lance_flight.faults import VARIABLE

from tests.service.server_process import COMMAND, Server, started
from tests.stock import stored_rows, stored_tables

ROWS = 60


def evolved(server: Server, table: str) -> list[tuple[Any, ...]]:
    """A table with rows under three specs, the last of them by country alone; all its rows."""
    server.run(f"CREATE TABLE {table} (id BIGINT, day DATE, country VARCHAR) PARTITIONED BY (day)")
    for start, fields in ((0, "month(day), country"), (20, "country"), (40, None)):
        values = ", ".join(
            f"({n}, '2025-{1 + n % 3:02}-{1 + n % 5:02}', {('NULL', chr(39) + 'US' + chr(39), chr(39) + 'DE' + chr(39))[n % 3]})"
            for n in range(start, start + 20)
        )
        server.run(f"INSERT INTO {table} VALUES {values}")
        if fields:
            server.run(f"ALTER TABLE {table} SET PARTITIONED BY ({fields})")
    return everything(server, table)


def everything(server: Server, table: str) -> list[tuple[Any, ...]]:
    return server.rows(f"SELECT * FROM {table} ORDER BY id")


def specs(server: Server, table: str) -> set[int]:
    """The specs that tables lie under, as stock Lance sees them."""
    return {stored.spec_id for stored in stored_tables(server.root / table)}


def namespace_of(server: Server, table: str) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(server.root / table)))


def test_all_rows_end_under_the_current_spec(server: Server, table: str) -> None:
    before = evolved(server, table)
    version = server.value(f"SELECT max(version) FROM {table}$snapshots")
    assert len(before) == ROWS
    ((snapshot, tables_before, tables_after, rows),) = server.rows(f"ALTER TABLE {table} REWRITE PARTITIONS")
    assert (rows, tables_after) == (40, 3)
    assert tables_before > tables_after
    assert server.value(f"SELECT max(version) FROM {table}$snapshots") == snapshot
    assert everything(server, table) == before
    assert specs(server, table) == {3}
    assert len(stored_tables(server.root / table)) == 3
    assert sorted(stored_rows(server.root / table)["id"].to_pylist()) == list(range(ROWS))
    assert server.rows(f'SELECT * FROM "{table}@{version}" ORDER BY id') == before
    assert server.rows(f"ALTER TABLE {table} REWRITE PARTITIONS") == []


def test_a_condition_chooses_whole_tables(server: Server, table: str) -> None:
    before = evolved(server, table)
    server.rows(f"ALTER TABLE {table} REWRITE PARTITIONS WHERE day = '2025-01-01'")
    assert everything(server, table) == before
    left = stored_tables(server.root / table)
    days = {str(stored.values["day"]) for stored in left if stored.spec_id == 1}
    assert days
    assert "2025-01-01" not in days
    assert {stored.values["day_month"] for stored in left if stored.spec_id == 2} == {2, 3}
    assert "nope" in server.refuses(f"ALTER TABLE {table} REWRITE PARTITIONS WHERE nope = 1")
    assert everything(server, table) == before


def test_one_commit_moves_no_more_than_the_rules_say(server: Server, table: str) -> None:
    before = evolved(server, table)
    namespace = namespace_of(server, table)
    report = rewrite(namespace, evaluate, rules=RewritingRules(tables=4, rows=6))
    assert sum(commit.rows for commit in report.commits) == 40
    assert all(
        commit.tables_before <= 4 and (commit.rows <= 6 or commit.tables_before == 1) for commit in report.commits
    )
    assert len(report.commits) > 4
    assert everything(server, table) == before
    assert specs(server, table) == {3}


def test_rows_that_come_meanwhile_are_moved_or_stay(server: Server, table: str) -> None:
    evolved(server, table)
    namespace = namespace_of(server, table)
    others = iter([f"INSERT INTO {table} VALUES (100, '2025-01-01', 'US')", f"DELETE FROM {table} WHERE id < 10"])

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        for statement in others:
            server.run(statement)
            break
        return [found for tables in snapshot.tables for found in tables.tables()]

    rewrite(namespace, evaluate, choose, RewritingRules(tables=5))
    assert [row[0] for row in everything(server, table)] == [*range(10, ROWS), 100]
    assert specs(server, table) == {3}


def test_it_gives_up_where_others_never_stop_and_keeps_what_it_has_done(
    server: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "MOVE_ROWS", RetryPolicy(rewriting.UNRESERVED_ATTEMPTS + 1, first_pause=0))
    before = evolved(server, table)
    namespace = namespace_of(server, table)

    numbers = iter(range(ROWS))

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        server.run(f"UPDATE {table} SET id = id WHERE id = {next(numbers)}")
        return [found for tables in snapshot.tables for found in tables.tables()]

    with pytest.raises(SerializationFailure):
        rewrite(namespace, evaluate, choose)
    assert everything(server, table) == before


@pytest.mark.parametrize("point", ["data_written", "table_staged", "manifest_written", "committed"])
def test_a_run_that_dies_leaves_every_row_once_and_the_next_one_goes_on(server: Server, table: str, point: str) -> None:
    before = evolved(server, table)
    with started(server.root, environment=os.environ | {VARIABLE: point}) as dying:
        dying.refuses(f"ALTER TABLE {table} REWRITE PARTITIONS")
        assert dying.process.wait(60) != 0
    assert everything(server, table) == before
    server.rows(f"ALTER TABLE {table} REWRITE PARTITIONS")
    assert everything(server, table) == before
    assert specs(server, table) == {3}
    server.rows(f"VACUUM {table} RETAIN 0 HOURS FORCE")
    assert everything(server, table) == before


def test_the_command_does_all_tables_of_a_root(server: Server, table: str) -> None:
    before = evolved(server, table)
    done = subprocess.run(
        [COMMAND, "rewrite", str(server.root), table, "--tables-per-commit", "4"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert f"{table}: 40 rows of " in done.stdout
    assert everything(server, table) == before
    assert specs(server, table) == {3}
