"""Two writers and a reader in any order, with transactions that are committed, given up or simply forgotten."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.errors import SerializationFailure

from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # a long property

Rows = Counter[tuple[int, str]]

WRITERS = st.integers(0, 1)
STARTED = st.tuples(WRITERS, st.sampled_from([True, True, False]))
"""A writer, and whether it begins a transaction where it is in none."""

PLACES = st.sampled_from(["a", "b", "c"])


def rows_of(engine: Engine, at: str = "t") -> Rows:
    """What a query finds."""
    return Counter((row["id"], row["p"]) for row in engine.query(f'SELECT id, p FROM "{at}"').to_pylist())


class Writer:
    """One process that writes, and its open transaction: what it saw when it began, and what it sees now."""

    def __init__(self, root: str) -> None:
        self.engine = Engine(Root(Store(root)), target_partitions=1)
        self.session = Session()
        self.open: bytes | None = None
        self.base: Rows | None = None
        self.view: Rows = Counter()
        self.adds_only = True

    def run(self, sql: str) -> None:
        """Run a statement, in the transaction if there is one."""
        self.engine.update(sql, scope=Scope(self.session, self.open))


class Namespace(RuleBasedStateMachine):
    """The model: the committed rows, the rows of every snapshot that there was, and each writer's own view."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = count(1)
        self.committed: Rows = Counter()
        self.snapshots: dict[int, Rows] = {}

    @initialize()
    def make(self) -> None:
        self.place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.writers = [Writer(self.place.name) for _ in range(2)]
        self.reader = Engine(Root(Store(self.place.name)), target_partitions=1)
        self.reader.update("CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR) PARTITIONED BY (p)")

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()

    @rule(writer=STARTED, place=PLACES, rows=st.integers(1, 3))
    def insert(self, writer: tuple[int, bool], place: str, rows: int) -> None:
        new = [(next(self.ids), place) for _ in range(rows)]
        self.change(writer, f"INSERT INTO t VALUES {', '.join(map(str, new))}", Counter(), Counter(new))

    @rule(writer=STARTED, place=PLACES)
    def delete(self, writer: tuple[int, bool], place: str) -> None:
        gone = Counter({row: n for row, n in self.seen(writer).items() if row[1] == place})
        self.change(writer, f"DELETE FROM t WHERE p = '{place}'", gone, Counter())

    @rule(writer=STARTED, place=PLACES, other=PLACES)
    def move(self, writer: tuple[int, bool], place: str, other: str) -> None:
        gone = Counter({row: n for row, n in self.seen(writer).items() if row[1] == place})
        come = Counter({(number, other): n for (number, _), n in gone.items()})
        self.change(writer, f"UPDATE t SET p = '{other}' WHERE p = '{place}'", gone, come)

    @rule(writer=STARTED, place=PLACES)
    def overwrite(self, writer: tuple[int, bool], place: str) -> None:
        gone = Counter({row: n for row, n in self.seen(writer).items() if row[1] == place})
        new = (next(self.ids), place)
        self.change(writer, f"INSERT OVERWRITE t VALUES {new}", gone, Counter([new]))

    @rule(writer=STARTED)
    def truncate(self, writer: tuple[int, bool]) -> None:
        self.change(writer, "TRUNCATE t", self.seen(writer), Counter())

    def seen(self, writer: tuple[int, bool]) -> Rows:
        """What a writer sees before its next statement."""
        mine = self.writers[writer[0]]
        return Counter(self.committed if mine.open is None or mine.base is None else mine.view)

    def change(self, writer: tuple[int, bool], sql: str, gone: Rows, come: Rows) -> None:
        """Run a statement that takes rows away and brings others; `writer` says whether it begins a transaction."""
        number, begins = writer
        mine = self.writers[number]
        after = self.seen(writer) - gone + come
        if begins and mine.open is None:
            mine.open, mine.base, mine.adds_only = mine.engine.clients.begin(mine.session), None, True
        if mine.open is not None and mine.base is None:
            mine.base = Counter(self.committed)
        mine.run(sql)
        if mine.open is None:
            self.committed = after
        else:
            mine.view = after
            mine.adds_only &= sql.startswith("INSERT INTO")
            plan = mine.engine.plan("SELECT id, p FROM t", scope=Scope(mine.session, mine.open))
            assert plan is not None
            found = mine.engine.run(plan.tasks[0]).read_all().to_pylist()
            assert Counter((row["id"], row["p"]) for row in found) == after, "a transaction sees its own changes"

    @precondition(lambda self: any(writer.open for writer in self.writers))
    @rule(writer=WRITERS, ends=st.sampled_from(["rollback", "crash"]))
    def give_up(self, writer: int, ends: str) -> None:
        self.end(writer, ends)

    @precondition(lambda self: any(writer.open for writer in self.writers))
    @rule(writer=WRITERS)
    def commit(self, writer: int) -> None:
        self.end(writer, "commit")

    @precondition(lambda self: all(writer.open for writer in self.writers))
    @rule(writer=WRITERS)
    def commit_both(self, writer: int) -> None:
        self.end(writer, "commit")
        self.end(1 - writer, "commit")

    def end(self, writer: int, ends: str) -> None:
        """End a transaction: this writer's, or the other's where this one has none."""
        if self.writers[writer].open is None:
            writer = 1 - writer
        mine = self.writers[writer]
        transaction, mine.open = mine.open, None
        assert transaction is not None
        if ends == "crash":
            # The process is gone with everything that it had staged.
            self.writers[writer] = Writer(self.place.name)
            return
        base = self.committed if mine.base is None else mine.base
        view = base if mine.base is None else mine.view
        try:
            mine.engine.clients.end(transaction, commit=ends == "commit")
        except SerializationFailure:
            assert not mine.adds_only, "additions always go through"
            return
        if ends == "commit":
            self.committed = self.committed - (base - view) + (view - base)

    @invariant()
    def everybody_sees_what_is_committed(self) -> None:
        if not hasattr(self, "reader"):
            return
        assert rows_of(self.reader) == self.committed
        (newest,) = self.reader.query("SELECT max(version) AS v FROM t$snapshots").to_pylist()
        assert self.snapshots.setdefault(newest["v"], Counter(self.committed)) == self.committed

    @rule(choice=st.randoms(use_true_random=False))
    def look_back(self, choice: object) -> None:
        if self.snapshots:
            version = choice.choice(sorted(self.snapshots))  # type: ignore[attr-defined]
            assert rows_of(self.reader, f"t@{version}") == self.snapshots[version], "old snapshots do not change"


TestNamespace = pytest.mark.filterwarnings("ignore::ResourceWarning")(Namespace.TestCase)
TestNamespace.settings = settings(
    max_examples=200 if IS_FULL else 8,
    stateful_step_count=30 if IS_FULL else 15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
