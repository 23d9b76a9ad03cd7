"""Two transactions on one table: which pairs both go through, and which cost the second one its commit."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from lance_flight.catalog.maintenance import compaction
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.session_registry import Isolation, Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.errors import SerializationFailure

from tests.catalog.conflict_pairs import (
    OPERATIONS,
    OUTCOMES,
    PLACES,
    SECONDS,
    Operation,
    Pair,
    Rows,
    add_column,
    compact,
    drop,
    drop_column,
    name_of,
    pair_of,
    set_partitioned_by,
    truncate,
)
from tests.engine.database import Database
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every pair of operations

FIRST = pytest.mark.parametrize("first", OPERATIONS, ids=name_of)
SECOND = pytest.mark.parametrize("second", SECONDS, ids=name_of)
PLACE = pytest.mark.parametrize("place", PLACES)
ISOLATION = pytest.mark.parametrize("isolation", Isolation, ids=lambda isolation: isolation.value)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a table `t` of two partitions, each with two rows in two files."""
    made = Database(tmp_path_factory.mktemp("conflicts"))
    made.run("CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR, n INT) PARTITIONED BY (p)")
    made.run("INSERT INTO t (id, p) VALUES (1, 'a'), (3, 'b')")
    made.run("INSERT INTO t (id, p) VALUES (2, 'a'), (4, 'b')")
    return made.root


@dataclass(frozen=True)
class Table:
    """A copy of the table, and two writers to it."""

    database: Database

    def rows(self) -> Rows:
        """What is stored, where every value has one table."""
        tables = stored_tables(self.database.root / "t")
        values = [table.values["p"] for table in tables]
        assert len(values) == len(set(values))
        return sorted((row["id"], row["p"]) for table in tables for row in table.dataset.to_table().to_pylist())

    def run(self, pair: Pair, *, first: bool, scope: Scope | None = None) -> None:
        """Run one of two operations."""
        statement = pair.statement("t", first=first)
        if "COMPACT" in statement:
            self.database.engine.query(statement)
        else:
            self.database.engine.update(statement, scope=scope or Scope())


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Table:
    return Table(Database(Path(shutil.copytree(template, tmp_path / "root"))))


@FIRST
@SECOND
@PLACE
@ISOLATION
def test_the_second_of_two_transactions_commits_or_fails(
    table: Table, first: Operation, second: Operation, place: str, isolation: Isolation
) -> None:
    pair, session, clients = pair_of(first, second, place), Session(isolation=isolation), table.database.engine.clients
    mine = clients.begin(session)
    table.run(pair, first=False, scope=Scope(session, mine))
    table.run(pair, first=True)
    if pair.fails(isolation):
        with pytest.raises(SerializationFailure):
            clients.end(mine, commit=True)
        assert table.rows() == pair.alone
    else:
        clients.end(mine, commit=True)
        assert table.rows() in (pair.in_turn, pair.reversed)


@FIRST
@SECOND
@PLACE
@ISOLATION
def test_a_statement_of_its_own_runs_again_where_a_transaction_fails(
    table: Table, first: Operation, second: Operation, place: str, isolation: Isolation
) -> None:
    check_second_run(table, pair_of(first, second, place), isolation)


def check_second_run(table: Table, pair: Pair, isolation: Isolation) -> None:
    """The first one commits while the second one does; both are there afterwards, whether or not the second ran again."""
    commit, commits = SqlTransaction.commit, 0

    def after_the_first(transaction: SqlTransaction, cancellation: Cancellation | None = None) -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            with pytest.MonkeyPatch.context() as unpatched:
                unpatched.setattr(SqlTransaction, "commit", commit)
                table.run(pair, first=True)
        commit(transaction, cancellation)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqlTransaction, "commit", after_the_first)
        table.run(pair, first=False, scope=Scope(Session(isolation=isolation)))
    assert commits == 1 + pair.fails(isolation)
    assert table.rows() == pair.in_turn or (not pair.fails(isolation) and table.rows() == pair.reversed)


EVERYWHERE = (truncate, compact, add_column, drop_column)


@FIRST
@pytest.mark.parametrize("place", ["same", "other"])
@ISOLATION
def test_a_drop_of_a_partition_runs_again_where_its_rows_were_changed(
    table: Table, first: Operation, place: str, isolation: Isolation
) -> None:
    is_changed = first in EVERYWHERE or (place == "same" and first is not set_partitioned_by)
    check_second_run(table, Pair(first, drop, place, "x" if is_changed else "."), isolation)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o is not compact], ids=name_of)
def test_a_compaction_gives_up_what_others_have_changed(
    table: Table, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(operation, compact, "same", ".")

    def at(point: str) -> None:
        if point == "data_written":
            monkeypatch.undo()
            table.run(pair, first=True)

    monkeypatch.setattr(compaction, "failpoint", at)
    namespace = table.database.engine.root.table(TableName("public", "t"))
    assert isinstance(namespace, PartitionedNamespace)
    report = compaction.compact(namespace)
    lost = [found.is_lost for found in report.tables]
    changed = {truncate: 2, add_column: 2, drop_column: 2, set_partitioned_by: 0}.get(operation, 1)
    assert sorted(lost) == [False] * (2 - changed) + [True] * changed
    assert table.rows() == pair.alone


@PLACE
def test_the_table_of_outcomes_is_whole(place: str) -> None:
    header, *rows = OUTCOMES[place].strip().splitlines()
    assert header.split() == [name_of(second) for second in SECONDS]
    assert [row.split()[0] for row in rows] == [name_of(first) for first in OPERATIONS]
