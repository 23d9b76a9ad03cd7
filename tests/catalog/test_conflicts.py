"""Two transactions on one table: which pairs both go through, and which cost the second one its commit."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from lance_flight.catalog.maintenance import compaction
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.scope import Scope
from lance_flight.engine.runtime.client_sessions import Isolation, Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.errors import SerializationFailure

from tests.catalog.conflict_pairs import (
    IDS,
    OPERATIONS,
    PAIRS,
    PLACES,
    Operation,
    Pair,
    Rows,
    add_column,
    compact,
    drop,
    drop_column,
    pairs,
    set_partitioned_by,
    truncate,
)
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # every pair of operations

# What each operation does to rows, in partition `p`, with a new id `mine`: the oracle.


ALONE = (drop, compact, add_column, drop_column, set_partitioned_by)
"""What is no part of a transaction: it only ever comes first."""


FAILING = [param for param in PAIRS if param.values[0].outcome != "."]
if os.environ.get("LANCE_FLIGHT_TESTS") != "full":
    FAILING = random.Random(7).sample(FAILING, len(FAILING) // 6)  # noqa: S311 - a sample of cases, no secret
ISOLATIONS = pytest.mark.parametrize("isolation", Isolation, ids=lambda isolation: isolation.value)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a table `t` of two partitions, each with two rows in two files."""
    place = tmp_path_factory.mktemp("template") / "root"
    place.mkdir()
    engine = Engine(Root(Store(str(place))), target_partitions=1)
    engine.update("CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR, n INT) PARTITIONED BY (p)")
    engine.update("INSERT INTO t (id, p) VALUES (1, 'a'), (3, 'b')")
    engine.update("INSERT INTO t (id, p) VALUES (2, 'a'), (4, 'b')")
    return place


@dataclass(frozen=True)
class Table:
    """A copy of the template, and two writers to it."""

    place: Path
    engine: Engine

    def rows(self) -> Rows:
        """What is stored, where every value has one table."""
        tables = stored_tables(self.place / "t")
        values = [table.values["p"] for table in tables]
        assert len(values) == len(set(values))
        return sorted((row["id"], row["p"]) for table in tables for row in table.dataset.to_table().to_pylist())

    def begin(self, isolation: Isolation) -> Scope:
        """Begin a transaction."""
        session = Session(isolation=isolation)
        return Scope(session, self.engine.clients.begin(session))

    def run(self, pair: Pair, *, first: bool, scope: Scope | None = None) -> None:
        """Run one of two operations."""
        operation = pair.first if first else pair.second
        p = PLACES[pair.place][0 if first else 1]
        statement = OPERATIONS[operation].format(p=p, id=IDS[p], mine=10 if first else 20)
        if operation is compact:
            self.engine.query(statement)
        else:
            self.engine.update(statement, scope=scope or Scope())


@pytest.fixture
def table(tmp_path: Path, template: Path) -> Table:
    place = tmp_path / "root"
    shutil.copytree(template, place)
    return Table(place, Engine(Root(Store(str(place))), target_partitions=1))


@ISOLATIONS
@pytest.mark.parametrize("pair", PAIRS)
def test_the_second_of_two_transactions_commits_or_fails(table: Table, pair: Pair, isolation: Isolation) -> None:
    scope = table.begin(isolation)
    assert scope.transaction is not None
    table.run(pair, first=False, scope=scope)
    table.run(pair, first=True)
    if pair.fails(isolation):
        with pytest.raises(SerializationFailure):
            table.engine.clients.end(scope.transaction, commit=True)
        assert table.rows() == pair.alone
    else:
        table.engine.clients.end(scope.transaction, commit=True)
        assert table.rows() in (pair.in_turn, pair.reversed)


@ISOLATIONS
@pytest.mark.parametrize("pair", FAILING)
def test_a_statement_of_its_own_runs_again_where_a_transaction_fails(
    table: Table, pair: Pair, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_second_run(table, pair, isolation, monkeypatch)


def check_second_run(table: Table, pair: Pair, isolation: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one commits while the second one does; both are there afterwards, whether or not the second ran again."""
    commit, commits = SqlTransaction.commit, 0

    def after_the_first(transaction: SqlTransaction) -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            monkeypatch.setattr(SqlTransaction, "commit", commit)
            table.run(pair, first=True)
            monkeypatch.setattr(SqlTransaction, "commit", after_the_first)
        commit(transaction)

    monkeypatch.setattr(SqlTransaction, "commit", after_the_first)
    table.run(pair, first=False, scope=Scope(Session(isolation=isolation)))
    assert commits == 1 + pair.fails(isolation)
    assert table.rows() == pair.in_turn or (not pair.fails(isolation) and table.rows() == pair.reversed)


EVERYWHERE = (truncate, compact, add_column, drop_column)
DROPS = [
    pytest.param(
        Pair(
            first,
            drop,
            place,
            "x" if first in EVERYWHERE or (place == "same" and first is not set_partitioned_by) else ".",
        ),
        id=f"{place}: {first.__name__}",
    )
    for place in ("same", "other")
    for first in OPERATIONS
]


@ISOLATIONS
@pytest.mark.parametrize("pair", DROPS)
def test_a_drop_of_a_partition_runs_again_where_its_rows_were_changed(
    table: Table, pair: Pair, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_second_run(table, pair, isolation, monkeypatch)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o is not compact], ids=lambda o: o.__name__)
def test_a_compaction_gives_up_what_others_have_changed(
    table: Table, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(operation, compact, "same", ".")

    def at(point: str) -> None:
        if point == "data_written":
            monkeypatch.undo()
            table.run(pair, first=True)

    monkeypatch.setattr(compaction, "failpoint", at)
    namespace = table.engine.root.table(TableName("public", "t"))
    assert isinstance(namespace, PartitionedNamespace)
    report = compaction.compact(namespace)
    lost = [found.is_lost for found in report.tables]
    changed = {truncate: 2, add_column: 2, drop_column: 2, set_partitioned_by: 0}.get(operation, 1)
    assert sorted(lost) == [False] * (2 - changed) + [True] * changed
    assert table.rows() == pair.alone


@pytest.mark.parametrize("place", PLACES)
def test_the_table_of_outcomes_is_whole(place: str) -> None:
    found = [(pair.first, pair.second) for pair in pairs() if pair.place == place]
    seconds = [operation for operation in OPERATIONS if operation not in ALONE]
    assert found == [(first, second) for first in OPERATIONS for second in seconds]
