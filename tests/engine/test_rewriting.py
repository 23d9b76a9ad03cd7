"""REWRITE PARTITIONS: rows under older specs move to the current one, whatever happens meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from lance_flight.catalog.maintenance import rewriting
from lance_flight.catalog.maintenance.rewriting import RewritingRules, rewrite
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.storage.retries import RetryPolicy
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import SerializationFailure
from lance_flight_client.cli import main

from tests.engine.database import Database
from tests.stock import stored_rows, stored_tables

ROWS = 60


def evolved(database: Database, table: str) -> list[tuple[Any, ...]]:
    """A table with rows under three specs, the last of them by country alone; all its rows."""
    database.run(f"CREATE TABLE {table} (id BIGINT, day DATE, country VARCHAR) PARTITIONED BY (day)")
    for start, fields in ((0, "month(day), country"), (20, "country"), (40, None)):
        values = ", ".join(
            f"({n}, '2025-{1 + n % 3:02}-{1 + n % 5:02}', {('NULL', chr(39) + 'US' + chr(39), chr(39) + 'DE' + chr(39))[n % 3]})"
            for n in range(start, start + 20)
        )
        database.run(f"INSERT INTO {table} VALUES {values}")
        if fields:
            database.run(f"ALTER TABLE {table} SET PARTITIONED BY ({fields})")
    return everything(database, table)


def everything(database: Database, table: str) -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT * FROM {table} ORDER BY id")


def specs(database: Database, table: str) -> set[int]:
    """The specs that tables lie under, as stock Lance sees them."""
    return {stored.spec_id for stored in stored_tables(database.root / table)}


def namespace_of(database: Database, table: str) -> PartitionedNamespace:
    return PartitionedNamespace.open(Store(str(database.root / table)))


def test_all_rows_end_under_the_current_spec(database: Database, table: str) -> None:
    before = evolved(database, table)
    version = database.value(f"SELECT max(version) FROM {table}$snapshots")
    assert len(before) == ROWS
    ((snapshot, tables_before, tables_after, rows),) = database.rows(f"ALTER TABLE {table} REWRITE PARTITIONS")
    assert (rows, tables_after) == (40, 3)
    assert tables_before > tables_after
    assert database.value(f"SELECT max(version) FROM {table}$snapshots") == snapshot
    assert everything(database, table) == before
    assert specs(database, table) == {3}
    assert len(stored_tables(database.root / table)) == 3
    assert sorted(stored_rows(database.root / table)["id"].to_pylist()) == list(range(ROWS))
    assert database.rows(f'SELECT * FROM "{table}@{version}" ORDER BY id') == before
    assert database.rows(f"ALTER TABLE {table} REWRITE PARTITIONS") == []


def test_a_condition_chooses_whole_tables(database: Database, table: str) -> None:
    before = evolved(database, table)
    database.rows(f"ALTER TABLE {table} REWRITE PARTITIONS WHERE day = '2025-01-01'")
    assert everything(database, table) == before
    left = stored_tables(database.root / table)
    days = {str(stored.values["day"]) for stored in left if stored.spec_id == 1}
    assert days
    assert "2025-01-01" not in days
    assert {stored.values["day_month"] for stored in left if stored.spec_id == 2} == {2, 3}
    assert "nope" in database.refuses(f"ALTER TABLE {table} REWRITE PARTITIONS WHERE nope = 1")
    assert everything(database, table) == before


def test_one_commit_moves_no_more_than_the_rules_say(database: Database, table: str) -> None:
    before = evolved(database, table)
    namespace = namespace_of(database, table)
    report = rewrite(namespace, evaluate, rules=RewritingRules(tables=4, rows=6))
    assert sum(commit.rows for commit in report.commits) == 40
    assert all(
        commit.tables_before <= 4 and (commit.rows <= 6 or commit.tables_before == 1) for commit in report.commits
    )
    assert len(report.commits) > 4
    assert everything(database, table) == before
    assert specs(database, table) == {3}


def test_rows_that_come_meanwhile_are_moved_or_stay(database: Database, table: str) -> None:
    evolved(database, table)
    namespace = namespace_of(database, table)
    others = iter([f"INSERT INTO {table} VALUES (100, '2025-01-01', 'US')", f"DELETE FROM {table} WHERE id < 10"])

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        for statement in others:
            database.run(statement)
            break
        return [found for tables in snapshot.tables for found in tables.tables()]

    rewrite(namespace, evaluate, choose, RewritingRules(tables=5))
    assert [row[0] for row in everything(database, table)] == [*range(10, ROWS), 100]
    assert specs(database, table) == {3}


def test_it_gives_up_where_others_never_stop_and_keeps_what_it_has_done(
    database: Database, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "MOVE_ROWS", RetryPolicy(rewriting.UNRESERVED_ATTEMPTS + 1, first_pause=0))
    before = evolved(database, table)
    namespace = namespace_of(database, table)

    numbers = iter(range(ROWS))

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        database.run(f"UPDATE {table} SET id = id WHERE id = {next(numbers)}")
        return [found for tables in snapshot.tables for found in tables.tables()]

    with pytest.raises(SerializationFailure):
        rewrite(namespace, evaluate, choose)
    assert everything(database, table) == before


def test_the_command_does_all_tables_of_a_root(
    database: Database, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = evolved(database, table)
    assert main(["rewrite", str(database.root), table, "--tables-per-commit", "4"]) == 0
    assert f"{table}: 40 rows of " in capsys.readouterr().out
    assert everything(database, table) == before
    assert specs(database, table) == {3}
