"""What a server remembers of its clients: sessions, open transactions, and which of them have gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.session_registry import LEFT_SECONDS, Isolation, SessionRegistry
from lance_flight.errors import Conflict, InvalidInput, LimitExceeded, NotFound, Refused

from tests.engine.database import open_engine
from tests.stock import stored_rows

IDLE = 100.0
BY_THE_CLOCK = Limits(session_idle_timeout=IDLE)


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Served:
    """An engine whose clients live by a clock of ours, with a table `t` of two partitions."""

    place: Path
    clock: Clock = field(default_factory=Clock)
    limits: Limits = BY_THE_CLOCK

    def __post_init__(self) -> None:
        self.engine = open_engine(self.place)
        self.clients = self.engine.clients = SessionRegistry(self.engine.root, self.limits, now=self.clock)
        self.engine.update("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        self.engine.update("INSERT INTO t VALUES (1, 'a'), (2, 'b')")

    def begin(self, client: str) -> Scope:
        """Begin a transaction; where its statements belong."""
        session = self.clients.session(client)
        return Scope(session, self.clients.begin(session))

    def ids(self) -> list[int]:
        """The rows that are stored."""
        return sorted(stored_rows(self.place / "t")["id"].to_pylist())


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


def transaction(scope: Scope) -> bytes:
    assert scope.transaction is not None
    return scope.transaction


def test_an_idle_transaction_is_rolled_back_when_another_one_begins(served: Served) -> None:
    gone = served.begin("gone")
    served.engine.update("DELETE FROM t", scope=gone)
    served.engine.update("INSERT INTO t VALUES (3, 'new')", scope=gone)
    made = set((served.place / "t").iterdir())
    served.clock.now += IDLE + 1
    served.begin("other")
    with pytest.raises(NotFound, match="was idle for too long"):
        served.engine.update("DELETE FROM t", scope=gone)
    with pytest.raises(NotFound, match="was idle for too long"):
        served.clients.end(transaction(gone), commit=True)
    assert served.ids() == [1, 2]
    assert len(made - set((served.place / "t").iterdir())) == 1, "the table of its new partition is deleted"


def test_a_table_of_an_idle_transaction_goes_with_it(served: Served) -> None:
    gone = served.begin("gone")
    served.engine.update("CREATE TABLE made AS SELECT 1 AS id", scope=gone)
    private = served.place / ".lance-flight"
    assert len(list(private.iterdir())) == 1
    served.clock.now += IDLE + 1
    served.begin("other")
    assert list(private.iterdir()) == []


USES = [
    pytest.param(lambda served, scope: served.engine.update("DELETE FROM t WHERE id = 9", scope=scope), id="statement"),
    pytest.param(lambda served, scope: served.engine.plan("SELECT * FROM t", scope=scope), id="query"),
    pytest.param(lambda served, scope: served.engine.describe("SELECT * FROM t", scope), id="preparing"),
    pytest.param(lambda served, scope: served.clients.find_transaction(scope.session), id="what joins it"),
]


@pytest.mark.parametrize("use", USES)
def test_a_transaction_in_use_is_not_idle(served: Served, use: Callable[[Served, Scope], object]) -> None:
    used = served.begin("client")
    served.engine.update("DELETE FROM t WHERE id = 1", scope=used)
    for _ in range(3):
        served.clock.now += IDLE - 1
        use(served, used)
        served.begin("other")
    served.clients.end(transaction(used), commit=True)
    assert served.ids() == [2]


def test_a_transaction_that_ends_while_idle_ones_are_ended_is_in_nobodys_way(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = served.begin("first"), served.begin("second")
    served.clock.now += IDLE + 1
    sql = served.clients._open[transaction(first)].sql
    monkeypatch.setattr(sql, "rollback", lambda: served.clients.end(transaction(second), commit=False))
    served.begin("third")
    assert len(served.clients._open) == 1


def test_what_comes_without_an_id_joins_the_one_transaction_of_its_session(served: Served) -> None:
    session = served.clients.session("client")
    assert served.clients.find_transaction(session) is None
    first = served.clients.begin(session)
    joined = served.clients.find_transaction(session)
    assert joined is not None
    assert joined.id == first
    second = served.clients.begin(session)
    with pytest.raises(InvalidInput, match="2 transactions are open in this session"):
        served.clients.find_transaction(session)
    served.clients.end(first, commit=False)
    joined = served.clients.find_transaction(session)
    assert joined is not None
    assert joined.id == second
    assert served.clients.find_transaction(served.clients.session("other")) is None


def test_a_session_is_forgotten_when_there_are_too_many_but_not_with_a_transaction_open(
    tmp_path: Path,
) -> None:
    served = Served(tmp_path, limits=Limits(sessions=3, sessions_per_principal=3))
    for name in ("open", "oldest", "used"):
        served.clients.session(name).isolation = Isolation.SERIALIZABLE
    served.clients.begin(served.clients.session("open"))
    served.clients.session("oldest")
    served.clients.session("used")
    for name in ("one", "two"):
        served.clients.session(name)
        served.clients.session("used")
    known = {name: served.clients.session(name).isolation for name in ("open", "used", "oldest")}
    assert known == {
        "open": Isolation.SERIALIZABLE,
        "used": Isolation.SERIALIZABLE,
        "oldest": Isolation.SNAPSHOT,
    }


def test_an_idle_session_is_forgotten_and_its_transactions_with_it(served: Served) -> None:
    served.clients.session("gone").isolation = Isolation.SERIALIZABLE
    gone = served.begin("gone")
    served.clients.session("used").isolation = Isolation.SERIALIZABLE
    for _ in range(2):
        served.clock.now += IDLE - 1
        assert served.clients.session("used").is_serializable
    assert not served.clients.session("gone").is_serializable
    with pytest.raises(NotFound, match="was idle for too long"):
        served.clients.transaction(transaction(gone))


def test_a_session_stays_as_long_as_a_transaction_of_it_is_used(served: Served) -> None:
    mine = served.begin("mine")
    served.clock.now += 1
    served.clients.transaction(transaction(mine))
    served.clock.now += IDLE - 0.5
    assert [session.open_transactions for session in served.clients.list_sessions()] == [1]
    served.clock.now += 1
    assert served.clients.list_sessions() == []
    with pytest.raises(NotFound, match="was idle for too long"):
        served.clients.transaction(transaction(mine))


def offered(clients: SessionRegistry, key: str, *, is_own: bool = False) -> str:
    """A cookie that finds the session of a key."""
    clients.offer(key, f"cookie of {key}", is_own=is_own)
    return f"cookie of {key}"


def test_a_cookie_of_an_idle_session_finds_nothing(served: Served) -> None:
    cookie = offered(served.clients, "client")
    for _ in range(3):
        served.clock.now += IDLE - 1
        served.clients.session_of(cookie)
    served.clock.now += IDLE + 1
    assert not served.clients.knows(cookie)
    with pytest.raises(Conflict, match="has just ended"):
        served.clients.session_of(cookie)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_cookie_has_the_settings_of_a_connection_and_its_transactions_if_they_are_its_own(
    served: Served, *, is_own: bool
) -> None:
    begun = served.begin("connection")
    served.clients.session("connection").branch = "audit"
    session = served.clients.session_of(offered(served.clients, "connection", is_own=is_own))
    assert session.branch == "audit"
    assert list(session.open) == ([begun.transaction] if is_own else [])
    assert list(served.clients.session("connection").open) == [begun.transaction]


def test_a_cookie_has_all_of_a_session_that_its_client_has_begun(served: Served) -> None:
    served.clients.renew("connection")
    session = served.clients.session("connection")
    assert served.clients.session_of(offered(served.clients, "connection")) is session
    served.clients.renew("connection")
    assert served.clients.session_of("cookie of connection") is session
    assert served.clients.session("connection") is not session


def test_a_closed_session_is_found_by_nothing_and_its_transactions_are_rolled_back(served: Served) -> None:
    served.clients.renew("connection")
    cookies = [offered(served.clients, "connection")]
    session = served.clients.session_of(cookies[0])
    served.clients.offer("connection", "another", is_own=False)
    begun = served.begin("connection")
    served.engine.update("DELETE FROM t", scope=begun)
    other = served.begin("other")
    served.clients.close(session, is_own=True)
    assert [served.clients.knows(cookie) for cookie in (*cookies, "another")] == [False, False]
    assert served.clients.session("connection") is not session
    with pytest.raises(NotFound, match="it was ended"):
        served.clients.end(transaction(begun), commit=True)
    served.clients.end(transaction(other), commit=True)
    assert served.ids() == [1, 2]


def test_closing_leaves_transactions_alone_that_may_be_those_of_another_client(served: Served) -> None:
    begun = served.begin("connection")
    served.clients.close(served.clients.session("connection"), is_own=False)
    served.engine.update("DELETE FROM t WHERE id = 1", scope=begun)
    served.clients.end(transaction(begun), commit=True)
    assert served.ids() == [2]


def test_cookies_that_never_come_back_are_forgotten_when_there_are_too_many(
    tmp_path: Path,
) -> None:
    served = Served(tmp_path, limits=Limits(sessions=3, sessions_per_principal=3))
    for number in range(5):
        served.clients.offer("client", str(number), is_own=False)
    assert [served.clients.knows(str(number)) for number in range(5)] == [False, False, True, True, True]


def test_a_principal_has_so_many_sessions(tmp_path: Path) -> None:
    served = Served(tmp_path, limits=Limits(sessions_per_principal=2))
    for principal in ("alice", "bob"):
        for name in ("first", "second", "third"):
            served.clients.session(f"{principal} {name}", principal).branch = "b"
    found = {key: served.clients.session(f"bob {key}", "bob").branch for key in ("third", "second", "first")}
    assert found == {"third": "b", "second": "b", "first": None}
    assert len(served.clients.list_sessions()) == 4


def test_sessions_with_open_transactions_are_not_forgotten_for_new_ones(tmp_path: Path) -> None:
    served = Served(tmp_path, limits=Limits(sessions_per_principal=2))
    for name in ("first", "second"):
        served.clients.begin(served.clients.session(name, "alice"))
    with pytest.raises(LimitExceeded, match=r"'alice' has 2 sessions with open transactions, of 2 \(sessions_per_p"):
        served.clients.session("third", "alice")
    with pytest.raises(LimitExceeded, match=r"'alice' has 2 open transactions, of 2 \(sessions_per_principal\)"):
        served.clients.begin(served.clients.session("first", "alice"))
    assert served.clients.session("third", "bob").principal == "bob"


def test_a_session_that_was_left_with_a_transaction_makes_room_for_its_principal(served: Served) -> None:
    served.clients.limits = Limits(sessions_per_principal=2)
    left = served.begin("left")
    served.engine.update("INSERT INTO t VALUES (3, 'a')", scope=left)
    served.clock.now += LEFT_SECONDS + 1
    kept = served.begin("kept")
    served.begin("new")
    assert served.clients.count() == (2, 2)
    with pytest.raises(NotFound, match="has made room for others"):
        served.clients.end(transaction(left), commit=True)
    served.clients.end(transaction(kept), commit=True)
    assert served.ids() == [1, 2]


def test_whoever_has_most_sessions_makes_room_for_others(served: Served) -> None:
    """Nobody with few sessions is refused, or loses one, because somebody has many."""
    served.clients.limits = Limits(sessions=6, sessions_per_principal=4)
    clients = served.clients
    begun = [clients.begin(clients.session(f"many {n}", "mallory", holder="mallory")) for n in range(4)]
    for name in ("alice", "bob", "carol", "dora"):
        clients.begin(clients.session(name, name))
        clients.offer(name, f"cookie of {name}", is_own=True, principal=name)
    found = {each.principal for each in clients.list_sessions()}
    assert (found, clients.count()) == ({"mallory", "alice", "bob", "carol", "dora"}, (6, 6))
    assert [clients.find(f"many {n}") is None for n in range(4)] == [True, True, False, False]
    with pytest.raises(NotFound, match="has made room for others"):
        clients.end(begun[0], commit=True)
    for n in range(9):
        clients.offer(f"many {3}", f"flood {n}", is_own=True, principal="mallory")
    assert all(clients.knows(f"cookie of {name}") for name in ("alice", "bob", "carol", "dora"))


def test_everything_open_is_rolled_back_but_what_runs(served: Served) -> None:
    idle, busy = served.begin("idle"), served.begin("busy")
    for scope in (idle, busy):
        served.engine.update("INSERT INTO t VALUES (3, 'a')", scope=scope)
    running = served.clients.transaction(transaction(busy))
    with running.statement():
        assert served.clients.roll_back_open() == 1
        assert running.failure is None
    with pytest.raises(Conflict, match="the server was stopped"):
        served.clients.end(transaction(idle), commit=True)
    assert served.clients.roll_back_open() == 1
    assert served.clients.roll_back_open() == 0
    assert served.ids() == [1, 2]


FOREIGN: dict[str, Callable[[Served, Scope], object]] = {
    "a statement": lambda served, foreign: served.engine.update("DELETE FROM t", scope=foreign),
    "a query": lambda served, foreign: served.engine.plan("SELECT * FROM t", scope=foreign),
    "preparing": lambda served, foreign: served.engine.describe("SELECT * FROM t", foreign),
    "ending it": lambda served, foreign: served.clients.own(foreign.principal, transaction(foreign)),
}


@pytest.mark.parametrize("use", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_transaction_is_its_principals_alone(served: Served, use: Callable[[Served, Scope], object]) -> None:
    mine = served.clients.session("client", "alice")
    begun = served.clients.begin(mine)
    with pytest.raises(Refused, match="the transaction belongs to another principal"):
        use(served, Scope(served.clients.session("client", "bob"), begun))
    use(served, Scope(served.clients.session("from elsewhere", "alice"), begun))


def test_a_cookie_is_its_principals_alone(served: Served) -> None:
    served.clients.offer("client", "cookie", is_own=True, principal="alice")
    for _ in range(2):
        with pytest.raises(Refused, match="the session of this cookie belongs to another principal"):
            served.clients.session_of("cookie", "bob")
        assert served.clients.session_of("cookie", "alice").principal == "alice"


def test_two_principals_never_share_a_session(served: Served) -> None:
    served.clients.session("client", "alice").branch = "audit"
    assert served.clients.session("client", "bob").branch is None
    assert served.clients.find_transaction(served.clients.session("client", "bob")) is None


def test_a_transaction_that_sql_began_takes_nothing_but_its_end_once_a_statement_is_torn(served: Served) -> None:
    session = served.clients.session("c", "ann")
    served.clients.begin_sql(session, serializable=False, is_read_only=False)
    scope = Scope(session, session.sql_transaction, is_identified=True)
    served.engine.update("INSERT INTO t VALUES (3, 'a')", scope=scope)
    with served.clients.transaction(scope.transaction or b"").statement() as begun:
        begun.torn = Conflict("a half")
    for sql in ("INSERT INTO t VALUES (4, 'a')", "SET isolation = 'serializable'", "COMMIT"):
        with pytest.raises(Conflict, match="can only be rolled back: a half"):
            served.engine.update(sql, scope=scope)
    served.engine.update("ROLLBACK", scope=Scope(session, is_identified=True))
    assert served.ids() == [1, 2]
    assert served.clients.count()[1] == 0
