"""Temporary tables: their owner needs no grant, nobody gains one by them, and each statement knows one meaning of a name."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TEMPORARY, TableName
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.session_registry import Session, SessionRegistry
from lance_flight.errors import AlreadyExists, LanceFlightError, NotFound, Refused, Unsupported

from tests.engine.database import Database, filled, open_engine

POLICIES = Policies.parse("""
[roles.tenant]
members = ["a"]
grants = ["SELECT, WRITE ON events WHERE tenant = CURRENT_USER"]
""")
A, NOBODY = (POLICIES.access(name) for name in ("a", "nobody"))


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(
        tmp_path_factory.mktemp("events"),
        "CREATE TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)",
        "INSERT INTO events VALUES ('a', 1), ('other', 777)",
    )


class Client:
    """Somebody with a session, and maybe a transaction."""

    def __init__(self, engine: Engine, access: Access, session: Session | None = None) -> None:
        self.engine, self.session = engine, session or Session(principal=access.principal)
        self.access = access
        self.transaction: bytes | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.session, self.transaction, access=self.access).with_own_tables()

    def run(self, sql: str) -> int:
        return self.engine.update(sql, scope=self.scope)

    def plan(self, sql: str, scope: Scope | None = None) -> list[bytes]:
        planned = self.engine.plan(sql, scope=scope or self.scope)
        assert planned is not None
        return [task.to_bytes() for task in planned.tasks]

    def redeem(self, tasks: list[bytes]) -> list[tuple[Any, ...]]:
        read = [
            self.engine.run(Task.from_bytes(task), access=self.access, session=self.session).read_all()
            for task in tasks
        ]
        return sorted(tuple(row.values()) for row in pa.concat_tables(read).to_pylist())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.redeem(self.plan(sql))


def places(root: Path) -> list[Path]:
    return list(root.glob(f"{PRIVATE}/*/{TEMPORARY}"))


@pytest.mark.parametrize("access", [A, NOBODY], ids=["with a grant on a part", "without a grant"])
def test_who_made_one_needs_no_grant(engine: Engine, access: Access) -> None:
    client = Client(engine, access)
    for statement in [
        "CREATE TEMPORARY TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)",
        "INSERT INTO events VALUES ('mine', 1), ('yours', 2), ('theirs', 3)",
        "UPDATE events SET n = 20 WHERE n = 2",
        "DELETE FROM events WHERE n = 3",
        "MERGE INTO events AS t USING (SELECT 'new' AS tenant, 9 AS n) AS s ON t.n = s.n WHEN NOT MATCHED THEN INSERT *",
        "ALTER TABLE events ADD COLUMN note VARCHAR",
        "ALTER TABLE events CREATE TAG done",
    ]:
        client.run(statement)
    assert client.rows("SELECT tenant, n FROM events") == [("mine", 1), ("new", 9), ("yours", 20)]
    assert client.rows("SELECT count(*) FROM events$snapshots")[0][0] > 1
    assert client.rows("SELECT n FROM events WHERE tenant = 'mine' AND n IN (SELECT n FROM events)") == [(1,)]
    client.rows("ALTER TABLE events COMPACT")
    client.run("ALTER TABLE events RENAME TO others")
    assert client.rows("SELECT count(*) FROM others") == [(3,)]
    client.run("DROP TABLE others")
    assert engine.query("SELECT n FROM events").num_rows == 2


def test_one_gives_nothing_of_the_table_that_it_hides(engine: Engine) -> None:
    client = Client(engine, A)
    client.run("CREATE TEMPORARY TABLE events AS SELECT * FROM events")
    assert client.rows("SELECT * FROM events") == [("a", 1)]
    client.run("DROP TABLE events")
    assert client.rows("SELECT * FROM events") == [("a", 1)]
    with pytest.raises(Refused):
        client.run("DROP TABLE events")
    with pytest.raises(Refused):
        client.run("CREATE TABLE lasting (n BIGINT)")


OF_THE_WHOLE = [
    "SELECT * FROM events",
    "SELECT * FROM events$partitions",
    "SELECT * FROM table_changes('events', {first}, {last})",
    "DESCRIBE NAMESPACE events",
]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a transaction"])
@pytest.mark.parametrize("sql", OF_THE_WHOLE)
def test_what_was_begun_with_one_never_goes_on_with_the_table_that_it_hid(
    engine: Engine, sql: str, *, inside: bool
) -> None:
    client = Client(engine, A)
    client.run("CREATE TEMPORARY TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)")
    client.run("INSERT INTO events VALUES ('mine', 5)")
    versions = sorted(version for (version,) in client.rows("SELECT version FROM events$snapshots"))
    sql = sql.format(first=versions[0], last=versions[-1])
    if inside:
        client.transaction = engine.clients.begin(client.session)
    scope, tasks = client.scope, client.plan(sql)
    client.run("DROP TABLE events")
    client.rows("SELECT n FROM events")
    with pytest.raises(NotFound):
        client.redeem(tasks)
    with pytest.raises(NotFound):
        client.plan(sql, scope)


def test_what_was_begun_before_one_goes_on_with_the_lasting_table(engine: Engine) -> None:
    client = Client(engine, A)
    scope, tasks = client.scope, client.plan("SELECT n FROM events")
    client.run("CREATE TEMPORARY TABLE events AS SELECT 5 AS n")
    assert client.redeem(tasks) == [(1,)]
    assert client.redeem(client.plan("SELECT n FROM events", scope)) == [(1,)]


def test_a_name_that_is_wrong_by_a_letter_is_told_from_it(engine: Engine) -> None:
    client = Client(engine, NOBODY)
    client.run("CREATE TEMPORARY TABLE passing (n BIGINT)")
    with pytest.raises(NotFound, match="passing"):
        client.rows("SELECT * FROM passng")


def test_a_ticket_that_reads_one_is_its_sessions_alone(engine: Engine) -> None:
    client, other = Client(engine, A), Client(engine, A)
    client.run("CREATE TEMPORARY TABLE mine AS SELECT 5 AS n")
    other.run("CREATE TEMPORARY TABLE mine AS SELECT 6 AS n")
    tasks, without = client.plan("SELECT n FROM mine"), client.plan("SELECT n FROM events")
    with pytest.raises(NotFound, match="temporary one of another session"):
        other.redeem(tasks)
    assert (client.redeem(tasks), other.redeem(without)) == ([(5,)], [(1,)])
    engine.clients.close(client.session, is_own=True)
    with pytest.raises(NotFound, match="of one that has ended"):
        client.redeem(tasks)


def test_a_transaction_reads_one_and_does_not_take_its_making_back(engine: Engine) -> None:
    client = Client(engine, A)
    client.transaction = engine.clients.begin(client.session)
    client.run("INSERT INTO events VALUES ('a', 2)")
    client.run("CREATE TEMPORARY TABLE seen PARTITIONED BY (n) AS SELECT n FROM events")
    engine.ingest(
        TableName(PUBLIC, "sent"),
        pa.table({"n": [7]}).to_reader(),
        create_missing=True,
        existing=IfExists.FAIL,
        scope=client.scope,
        temporary=True,
    )
    client.run("INSERT INTO events SELECT 'a', n FROM sent")
    assert client.rows("SELECT n FROM events") == [(1,), (2,), (7,)]
    with pytest.raises(Unsupported, match="cannot change 'seen' as well"):
        client.run("INSERT INTO seen VALUES (3)")
    engine.clients.end(client.transaction, commit=False)
    client.transaction = None
    assert client.rows("SELECT n FROM events") == [(1,)]
    assert client.rows("SELECT n FROM seen UNION ALL SELECT n FROM sent") == [(1,), (2,), (7,)]


def test_the_rows_of_one_are_changed_by_a_transaction_as_those_of_others(engine: Engine) -> None:
    client = Client(engine, NOBODY)
    client.run("CREATE TEMPORARY TABLE t (n BIGINT) PARTITIONED BY (n)")
    for commit, then in [(False, []), (True, [(1,)])]:
        client.transaction = engine.clients.begin(client.session)
        client.run("INSERT INTO t VALUES (1)")
        assert client.rows("SELECT n FROM t") == [(1,)]
        engine.clients.end(client.transaction, commit=commit)
        client.transaction = None
        assert client.rows("SELECT n FROM t") == then


@pytest.mark.parametrize("partitioned_by", ["", "PARTITIONED BY (n)"], ids=["plain", "partitioned"])
def test_a_session_on_a_branch_makes_and_changes_one(engine: Engine, partitioned_by: str) -> None:
    engine.update("ALTER TABLE events CREATE BRANCH audit")
    client = Client(engine, A)
    client.session.branch = "audit"
    client.run("INSERT INTO events VALUES ('a', 2)")
    client.run(f"CREATE TEMPORARY TABLE t {partitioned_by} AS SELECT n FROM events")
    client.run("INSERT INTO t VALUES (3)")
    client.run("UPDATE t SET n = n + 10 WHERE n = 1")
    assert client.rows("SELECT n FROM t") == [(2,), (3,), (11,)]
    client.run("DROP TABLE t")


NOT_OFFERED = {
    "attached": "ALTER TABLE events ATTACH TABLE 'mine' PARTITION (tenant = 'a')",
    "attached to": "ALTER TABLE parts ATTACH TABLE 'plain' PARTITION (n = 1)",
    "detached from": "ALTER TABLE parts DETACH PARTITION (n = 1) TO gained",
    "of another schema": "CREATE TEMPORARY TABLE other.t (n BIGINT)",
}


@pytest.mark.parametrize("sql", NOT_OFFERED.values(), ids=NOT_OFFERED.keys())
def test_what_is_not_offered_for_one_is_refused(engine: Engine, sql: str) -> None:
    client = Client(engine, Access("owner"))
    engine.update("CREATE TABLE plain AS SELECT 1 AS n")
    client.run("CREATE TEMPORARY TABLE mine AS SELECT 1 AS n")
    client.run("CREATE TEMPORARY TABLE parts PARTITIONED BY (n) AS SELECT 1 AS n")
    with pytest.raises(Unsupported, match="temporary"):
        client.run(sql)
    assert engine.query("SELECT * FROM plain").num_rows == 1


def test_who_has_no_session_of_his_own_makes_none(engine: Engine) -> None:
    for scope in [Scope(), Scope(Session())]:
        with pytest.raises(Unsupported, match="needs a session"):
            engine.update("CREATE TEMPORARY TABLE t (n BIGINT)", scope=scope)


def test_a_root_that_is_a_table_has_no_others(engine: Engine, tmp_path: Path) -> None:
    client = Client(open_engine(tmp_path / "events", target_partitions=1), A)
    with pytest.raises(Unsupported, match="holds no other table"):
        client.run("CREATE TEMPORARY TABLE t (n BIGINT)")


class Clock:
    """A time that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def ends_by_closing(clients: SessionRegistry, _clock: Clock, session: Session) -> None:
    clients.close(session, is_own=True)


def ends_by_idling(clients: SessionRegistry, clock: Clock, _session: Session) -> None:
    clock.now += 10
    clients.session("another")


def ends_by_too_many(clients: SessionRegistry, _clock: Clock, _session: Session) -> None:
    clients.session("another")
    clients.session("a third")


def ends_with_the_server(clients: SessionRegistry, _clock: Clock, _session: Session) -> None:
    clients.roll_back_open()


@pytest.mark.parametrize("end", [ends_by_closing, ends_by_idling, ends_by_too_many, ends_with_the_server])
def test_their_files_are_gone_when_the_session_has_ended(engine: Engine, tmp_path: Path, end: Any) -> None:
    clock = Clock()
    engine.clients = SessionRegistry(engine.root, Limits(session_idle_timeout=5, sessions=2), now=clock)
    session = engine.clients.session("a client")
    engine.clients.offer("a client", "cookie", is_own=True)
    Client(engine, A, session).run("CREATE TEMPORARY TABLE t AS SELECT 1 AS n")
    assert len(places(tmp_path)) == 1
    end(engine.clients, clock, session)
    assert places(tmp_path) == []


def test_what_streams_when_the_session_is_forgotten_comes_to_its_end(engine: Engine, tmp_path: Path) -> None:
    client = Client(engine, A)
    client.run("CREATE TEMPORARY TABLE t AS SELECT value AS n FROM generate_series(1, 200000)")
    (task,) = client.plan("SELECT n FROM t")
    reader = engine.run(Task.from_bytes(task), access=A, session=client.session)
    client.session.temporary.forget()
    assert len(places(tmp_path)) == 1
    assert sum(batch.num_rows for batch in reader) == 200_000
    del reader
    gc.collect()
    assert places(tmp_path) == []


# Over a lasting table of the same name

ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
MODES = {
    "append": ("append", [(1,), (1,), (2,), (2,)]),
    "create_append": ("create_append", [(1,), (1,), (2,), (2,)]),
    "replace": ("replace", [(1,), (2,)]),
}


@pytest.mark.parametrize(("mode", "then"), MODES.values(), ids=MODES.keys())
def test_every_mode_of_an_ingest_means_the_temporary_table(
    database: Database, table: str, mode: str, then: list[tuple[int]]
) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 9 AS id, 'z' AS p")
    with database.client() as mine:
        if mode == "append":
            with pytest.raises(NotFound):
                mine.ingest(table, ROWS, mode, temporary=True)
            mine.ingest(table, ROWS, temporary=True)
        else:
            mine.ingest(table, ROWS, mode, temporary=True)
        mine.ingest(table, ROWS, mode, temporary=True)
        assert sorted(mine.rows(f"SELECT id FROM {table}")) == then
        with pytest.raises(AlreadyExists):
            mine.ingest(table, ROWS, temporary=True)
    assert database.rows(f"SELECT id FROM {table}") == [(9,)]


DEFINITIONS = {"plain": "", "partitioned": "PARTITIONED BY (p)"}


@pytest.mark.parametrize("partitioned_by", DEFINITIONS.values(), ids=DEFINITIONS.keys())
def test_statements_make_change_and_drop_one_that_hides_a_lasting_table(
    database: Database, table: str, partitioned_by: str
) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 9 AS id, 'z' AS p")
    with database.client() as mine:
        mine.run(f"CREATE TEMPORARY TABLE {table} (id BIGINT, p VARCHAR) {partitioned_by}")
        mine.run(f"CREATE TEMP TABLE IF NOT EXISTS {table} (id BIGINT)")
        assert mine.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')") == 3
        mine.run(f"UPDATE public.{table} SET id = 20 WHERE id = 2")
        mine.run(f"DELETE FROM {table} WHERE id = 3")
        assert sorted(mine.rows(f"SELECT id, p FROM {table}")) == [(1, "a"), (20, "b")]
        assert database.rows(f"SELECT id FROM {table}") == [(9,)]
        assert "is there already" in mine.refuses(f"CREATE TABLE {table} (id BIGINT)")
        mine.run(f"ALTER TABLE {table} RENAME TO {table}_renamed")
        assert sorted(mine.rows(f"SELECT id FROM {table}")) == [(9,)]
        assert sorted(mine.rows(f"SELECT id FROM {table}_renamed")) == [(1,), (20,)]
        mine.run(f"DROP TABLE {table}_renamed")
        assert "no table" in mine.refuses(f"SELECT id FROM {table}_renamed")
    assert database.rows(f"SELECT id FROM {table}") == [(9,)]


def test_one_is_made_from_a_query_over_the_lasting_table_that_it_hides(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 9 AS id")
    with database.client() as mine:
        mine.run(f"CREATE TEMPORARY TABLE {table} PARTITIONED BY (id) AS SELECT id + 1 AS id FROM {table}")
        assert sorted(mine.rows(f"SELECT id FROM {table}")) == [(10,)]
        assert sorted(mine.rows(f"SELECT count(*) FROM {table}$partitions")) == [(1,)]
        with pytest.raises(LanceFlightError, match="temporary one of this session"):
            mine.ingest(table, ROWS, "replace")
    assert database.rows(f"SELECT id FROM {table}") == [(9,)]
