"""Row policies: what a tenant sees, writes and is told is what it would be if the other tenants were not there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED, Access
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.translation.substrait import statement_of
from lance_flight.errors import InvalidInput, LanceFlightError, NotFound, Refused

from tests.engine.database import Database, open_engine
from tests.engine.principals import query, told, transaction
from tests.service.server_process import files
from tests.stock import stored_rows, stored_tables

pytestmark = pytest.mark.slow  # every statement for every tenant

POLICIES = Policies.parse("""
[roles.tenant]
members = ["a", "group:tenants"]
grants = [
    "SELECT, WRITE ON events WHERE tenant = CURRENT_USER",
    "SELECT ON plain",
    "SELECT ON bucketed WHERE tenant = CURRENT_USER",
    "READ, WRITE ON unpartitioned WHERE tenant = CURRENT_USER",
]

[roles.reader]
members = ["a"]
grants = ["SELECT ON reference.*"]

[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]
""")
A, B, OWNER, NOBODY = (POLICIES.access(name) for name in ("a", "b", "owner", "nobody"))
SECRET = re.compile(r"secret|zeta|777|hidden")
"""What stands in rows, names and partition values of others alone."""

SETUP = [
    (
        "CREATE TABLE events (tenant VARCHAR, day DATE, n BIGINT, note VARCHAR) PARTITIONED BY (tenant, month(day))"
        " WITH (stable_row_ids = true)"
    ),
    "INSERT INTO events VALUES ('a', '2026-01-01', 1, 'mine'), ('a', '2026-02-01', 2, NULL), ('a', '2026-02-02', 3, 'x')",
    "CREATE TABLE plain (n BIGINT)",
    "INSERT INTO plain VALUES (1)",
    "CREATE TABLE bucketed (tenant VARCHAR, n BIGINT) PARTITIONED BY (bucket(4, tenant))",
    "INSERT INTO bucketed VALUES ('a', 1)",
    "CREATE TABLE unpartitioned (tenant VARCHAR, n BIGINT)",
    "INSERT INTO unpartitioned VALUES ('a', 1)",
    "ALTER TABLE events CREATE TAG first",
]
OTHERS = [
    (
        "INSERT INTO events VALUES ('zeta', '2026-01-01', 777, 'secret'), ('zeta', '2027-03-01', 777, 'secret'),"
        " (NULL, '2026-02-01', 777, 'secret')"
    ),
    "INSERT INTO unpartitioned VALUES ('zeta', 777)",
    "CREATE TABLE hidden_events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)",
]
LATER = ["INSERT INTO events VALUES ('a', '2026-03-01', 4, 'late')", "DELETE FROM events WHERE n = 1 AND tenant = 'a'"]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A root that all tenants share, and one of tenant a alone, with the same history of it."""
    place = tmp_path_factory.mktemp("policies")
    shared, alone = place / "shared", place / "alone"
    for root, statements in ((shared, [*SETUP, *OTHERS, *LATER]), (alone, [*SETUP, "SET", *LATER])):
        made = open_engine(root)
        for sql in statements:
            if sql != "SET":
                made.update(sql)
    return shared, alone


@pytest.fixture(scope="module")
def untouched(templates: tuple[Path, Path]) -> tuple[Engine, Engine]:
    """Both roots for what changes neither of them."""
    return open_engine(templates[0]), open_engine(templates[1])


@pytest.fixture
def shared(templates: tuple[Path, Path], tmp_path: Path) -> Engine:
    return open_engine(Path(shutil.copytree(templates[0], tmp_path / "shared")))


@pytest.fixture
def alone(templates: tuple[Path, Path], tmp_path: Path) -> Engine:
    return open_engine(Path(shutil.copytree(templates[1], tmp_path / "alone")))


READS = [
    "SELECT * FROM events",
    "SELECT count(*) FROM events",
    "SELECT min(n), max(n), min(tenant), max(tenant), count(DISTINCT tenant) FROM events",
    "SELECT tenant, count(*) FROM events GROUP BY tenant",
    "SELECT * FROM events WHERE tenant = 'zeta'",
    "SELECT * FROM events WHERE tenant = 'zeta' OR note = 'secret' OR TRUE",
    "SELECT * FROM events WHERE tenant IS NULL",
    "SELECT * FROM events WHERE n BETWEEN 0 AND 1000",
    "SELECT * FROM lance.public.events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.n > e.n)",
    "SELECT a.n, b.n FROM events a JOIN events b ON a.tenant = b.tenant",
    "SELECT a.n, b.n FROM events a FULL JOIN events b ON a.n = b.n + 1",
    "SELECT * FROM events UNION ALL SELECT * FROM events",
    "SELECT n / (n - 777) FROM events",
    "PIVOT events ON note USING count(*) GROUP BY n",
    "UNPIVOT events ON COLUMNS(* EXCLUDE (day, n))",
    "SELECT CAST(note AS VARCHAR) FROM events ORDER BY n LIMIT 2",
    "SELECT * FROM events@first",
    "SELECT object_id IS NULL, tenant, rows FROM events$partitions",
    "SELECT rows, deleted_rows FROM events$files",
    "SELECT name FROM events$tags",
    "SELECT n, _partition IS NULL, _rowid, _row_created_at_version, _row_last_updated_at_version FROM events$lineage",
    "SHOW TABLES",
    "SHOW PARTITIONS events WHERE rows > 100",
    "DESCRIBE events",
    "SUMMARIZE events",
    "SELECT table_name FROM information_schema.tables",
    "SELECT DISTINCT table_name FROM information_schema.columns",
    "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_name IN ('hidden_events', 'events')",
    "SHOW COLUMNS FROM hidden_events",
    "SHOW CREATE TABLE hidden_events",
    "SUMMARIZE hidden_events",
    "SELECT * FROM plain",
    "SELECT * FROM evnts",
    "SELECT * FROM hidden_events",
    "SELECT * FROM hidden_event",
    'SELECT * FROM "hidden_events@first"',
    "SELECT * FROM hidden_events$partitions",
    "DESCRIBE hidden_events",
    "SELECT nope FROM events",
    "SELECT CAST(note AS BIGINT) FROM events WHERE note = 'secret'",
    "SELECT * FROM table_changes('hidden_events', 1, 2)",
]


@pytest.mark.parametrize("sql", READS)
def test_what_is_read_is_what_there_would_be_without_the_others(untouched: tuple[Engine, Engine], sql: str) -> None:
    shared, alone = untouched
    if sql == "SHOW TABLES":
        assert "hidden" not in told(shared, sql, A)
    else:
        assert told(shared, sql, A) == told(alone, sql)


def test_the_oracle_can_fail(untouched: tuple[Engine, Engine]) -> None:
    shared, alone = untouched
    differing = (sql for sql in READS if told(shared, sql) != told(alone, sql))
    assert len(list(islice(differing, len(READS) // 2 + 1))) > len(READS) / 2


@pytest.mark.parametrize(
    "sql", ["EXPLAIN SELECT * FROM events", "EXPLAIN ANALYZE SELECT count(*) FROM events WHERE n > 0"]
)
def test_explain_counts_the_partitions_of_the_tenant_alone(shared: Engine, sql: str) -> None:
    said = told(shared, sql, A)
    assert "/ 3" in said or "of 3" in said
    assert not SECRET.search(said)


def test_changes_are_those_of_the_tenant(shared: Engine, alone: Engine) -> None:
    newest = {of: of.root.table(TableName(PUBLIC, "events")).snapshot().version for of in (shared, alone)}

    def changes(of: Engine, access: Access) -> list[str]:
        sql = f"SELECT _change, tenant, n, note FROM table_changes('events', 'first', {newest[of]})"
        return sorted(map(repr, query(of, sql, access).to_pylist()))

    assert changes(shared, A) == changes(alone, UNLIMITED) != changes(shared, UNLIMITED)


def test_other_tenants_tables_are_not_opened(shared: Engine, tmp_path: Path) -> None:
    before = told(shared, "SELECT * FROM events", A)
    for table in stored_tables(tmp_path / "shared" / "events"):
        if table.values["tenant"] != "a":
            shutil.rmtree(table.dataset.uri)
    for sql in READS[:12]:
        told(shared, sql, A)
    assert told(shared, "SELECT * FROM events", A) == before
    assert told(shared, "DELETE FROM events WHERE n = 2", A) == "1"
    assert "secret" not in before
    with pytest.raises(LanceFlightError):
        query(shared, "SELECT * FROM events")


WRITES = [
    pytest.param("INSERT INTO events VALUES ('a', '2026-05-01', 9, 'new')", id="insert"),
    pytest.param("INSERT OVERWRITE events VALUES ('a', '2026-02-01', 9, 'new')", id="overwrite"),
    pytest.param("UPDATE events SET note = 'changed'", id="update"),
    pytest.param("UPDATE events SET day = '2027-03-01'", id="update that moves"),
    pytest.param("DELETE FROM events", id="delete"),
    pytest.param("DELETE FROM events WHERE note = 'secret' OR n = 2", id="delete by a condition"),
    pytest.param(
        "MERGE INTO events t USING (VALUES (1, 777)) AS s (k, v) ON t.n = s.v WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT (tenant, day, n, note) VALUES ('a', '2026-05-01', 5, 'merged')",
        id="merge",
    ),
    "MERGE INTO events t USING (VALUES (1)) AS s (k) ON FALSE WHEN NOT MATCHED BY SOURCE THEN DELETE",
]


@pytest.mark.parametrize("sql", WRITES)
def test_what_is_written_is_written_beside_the_others(shared: Engine, alone: Engine, sql: str, tmp_path: Path) -> None:
    assert told(shared, sql, A) == told(alone, sql)
    mine = [row for row in stored_rows(tmp_path / "shared" / "events").to_pylist() if row["tenant"] == "a"]
    theirs = [row for row in stored_rows(tmp_path / "shared" / "events").to_pylist() if row["tenant"] != "a"]
    assert sorted(map(repr, mine)) == sorted(map(repr, stored_rows(tmp_path / "alone" / "events").to_pylist()))
    assert sorted(row["note"] for row in theirs) == ["secret"] * 3


REFUSED = [
    "INSERT INTO events VALUES ('zeta', '2026-05-01', 9, 'new')",
    "INSERT INTO events VALUES ('a', '2026-05-01', 9, 'new'), ('zeta', '2026-05-01', 9, 'new')",
    "INSERT INTO events VALUES (NULL, '2026-05-01', 9, 'new')",
    "INSERT INTO events (day, n) VALUES ('2026-05-01', 9)",
    "INSERT INTO events SELECT 'zeta', day, n, note FROM events",
    "INSERT OVERWRITE events VALUES ('zeta', '2026-01-01', 9, 'new')",
    "UPDATE events SET tenant = 'zeta'",
    "UPDATE events SET tenant = NULL WHERE n = 2",
    "MERGE INTO events t USING (VALUES (1)) AS s (k) ON FALSE WHEN NOT MATCHED THEN INSERT (tenant, n) VALUES ('zeta', 1)",
    "TRUNCATE events",
    "DROP TABLE events",
    "CREATE TABLE other (n BIGINT)",
    "CREATE TABLE hidden_events (n BIGINT)",
    "CREATE TABLE other AS SELECT * FROM events",
    "ALTER TABLE events ADD COLUMN c BIGINT",
    "ALTER TABLE events RENAME TO mine",
    "ALTER TABLE events DROP PARTITION (tenant = 'a')",
    "ALTER TABLE events DETACH PARTITION (tenant = 'a', day_month = 1)",
    "ALTER TABLE events ATTACH TABLE 'plain' PARTITION (tenant = 'a', day_month = 1)",
    "ALTER TABLE events ROLLBACK TO 2",
    "ALTER TABLE events CREATE TAG mine",
    "ALTER TABLE events CREATE BRANCH mine",
    "ALTER TABLE events COMPACT",
    "ALTER TABLE events REWRITE PARTITIONS",
    "VACUUM events",
    "VERIFY TABLE events",
    "REPAIR TABLE events DRY RUN",
    "MIGRATE TABLE events DRY RUN",
    "DESCRIBE NAMESPACE events",
    "SELECT * FROM events$snapshots",
    "SELECT * FROM events$specs",
    "SELECT * FROM bucketed",
    "SELECT count(*) FROM bucketed",
    "SELECT * FROM unpartitioned",
    "SELECT * FROM unpartitioned$tags",
    "INSERT INTO unpartitioned VALUES ('a', 2)",
    "DELETE FROM unpartitioned",
    "INSERT INTO plain VALUES (2)",
    "INSERT INTO bucketed VALUES ('a', 2)",
    "DELETE FROM plain",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_granted_is_refused_and_changes_nothing(untouched: tuple[Engine, Engine], sql: str) -> None:
    shared, _ = untouched
    before = files(Path(shared.root.store.uri))
    said = told(shared, sql, A)
    assert said.startswith("Refused: "), said
    assert not SECRET.search(said.replace(sql, "").replace("hidden_events", ""))
    assert files(Path(shared.root.store.uri)) == before


@pytest.mark.parametrize("sql", [*READS[:3], "INSERT INTO events VALUES ('b', NULL, 1, NULL)", "DROP TABLE events"])
def test_who_has_no_role_sees_no_table(shared: Engine, sql: str) -> None:
    for access in (B, NOBODY):
        assert told(shared, sql, access).startswith(("NotFound", "Refused"))
    assert query(shared, "SHOW TABLES", NOBODY).num_rows == 0
    assert list(shared.tables(NOBODY)) == []


def test_the_owner_may_do_everything(shared: Engine) -> None:
    assert told(shared, "SELECT * FROM events", OWNER) == told(shared, "SELECT * FROM events")
    assert told(shared, "ALTER TABLE events COMPACT", OWNER).startswith("[")
    assert told(shared, "DROP TABLE events", OWNER) == "0"


def test_a_group_has_the_roles_of_its_name_and_no_principal_is_called_so(shared: Engine) -> None:
    member = POLICIES.access("zeta", ["tenants"])
    assert {row["tenant"] for row in query(shared, "SELECT tenant FROM events", member).to_pylist()} == {"zeta"}
    with pytest.raises(NotFound):
        query(shared, "SELECT tenant FROM events", POLICIES.access("group:tenants"))


@pytest.mark.parametrize(
    ("rows", "accepted"),
    [({"tenant": ["a"], "n": [9]}, True), ({"tenant": ["a", "zeta"], "n": [9, 9]}, False), ({"n": [9]}, False)],
)
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_an_ingest_stores_rows_of_the_tenant_alone(
    shared: Engine, rows: dict[str, list[object]], kind: pa.DataType, *, accepted: bool
) -> None:
    table = pa.table(
        {name: pa.array(values, kind if name == "tenant" else pa.int64()) for name, values in rows.items()}
    )

    def ingest() -> int:
        name, reader = TableName(PUBLIC, "events"), table.to_reader(max_chunksize=1)
        return shared.ingest(name, reader, create_missing=False, existing=IfExists.APPEND, scope=Scope(access=A))

    if accepted:
        assert ingest() == 1
    else:
        with pytest.raises(Refused):
            ingest()
    assert query(shared, "SELECT * FROM events WHERE n = 9").num_rows == (1 if accepted else 0)


@pytest.mark.parametrize("existing", [IfExists.REPLACE, IfExists.FAIL])
def test_an_ingest_makes_no_table(shared: Engine, existing: IfExists) -> None:
    for name in ("events", "other", "hidden_events"):
        reader = pa.table({"tenant": ["a"]}).to_reader()
        with pytest.raises(LanceFlightError):
            shared.ingest(
                TableName(PUBLIC, name), reader, create_missing=True, existing=existing, scope=Scope(access=A)
            )
    assert {name.name for name in shared.tables()} >= {"events", "hidden_events"}
    assert not shared.root.has(TableName(PUBLIC, "other"))


def test_a_ticket_gives_whoever_redeems_it_what_he_may_see(shared: Engine) -> None:
    plan = shared.plan("SELECT * FROM events")
    assert plan is not None
    (task,) = plan.tasks
    assert {row["tenant"] for row in shared.run(task, access=A).read_all().to_pylist()} == {"a"}
    with pytest.raises(NotFound):
        shared.run(task, access=NOBODY)


def test_a_transaction_sees_and_changes_the_rows_of_the_tenant(shared: Engine) -> None:
    with transaction(shared, A) as run:
        assert run("UPDATE events SET note = 'changed'") == "3"
        assert "secret" not in run("SELECT * FROM events")
        assert run("SELECT count(*) AS n FROM events") == "[\"{'n': 3}\"]"
        assert run("INSERT INTO events VALUES ('zeta', NULL, 1, NULL)").startswith("Refused")
        assert run("SELECT * FROM hidden_events").startswith("NotFound")
        assert run("DROP TABLE events").startswith("Refused")


def test_a_branch_is_governed_by_its_table(shared: Engine) -> None:
    shared.update("ALTER TABLE events CREATE BRANCH work")
    shared.update("ALTER TABLE hidden_events CREATE BRANCH work")
    assert told(shared, 'SELECT * FROM "events@work"', A) == told(shared, "SELECT * FROM events", A)
    assert told(shared, 'SELECT * FROM "hidden_events@work"', A).startswith("NotFound")
    session = shared.clients.session("a")
    session.branch = "work"
    scope = Scope(session, access=A)
    assert shared.update("UPDATE events SET note = 'there'", scope=scope) == 3
    plan = shared.plan("SELECT note FROM events", scope=scope)
    assert plan is not None
    assert shared.run(plan.tasks[0], access=A).read_all()["note"].to_pylist() == ["there"] * 3


def test_partitions_that_a_newer_spec_does_not_tell_apart_are_refused(shared: Engine) -> None:
    shared.update("ALTER TABLE events SET PARTITIONED BY (month(day))")
    assert told(shared, "SELECT count(*) AS n FROM events", A) == "[\"{'n': 3}\"]"
    assert told(shared, "INSERT OVERWRITE events VALUES ('a', '2026-01-01', 1, NULL)", A).startswith("Refused")
    shared.update("INSERT INTO events VALUES ('zeta', '2026-01-01', 777, 'secret')")
    said = told(shared, "SELECT count(*) AS n FROM events", A)
    assert "partition spec v2 of table 'events' does not decide" in said
    assert not SECRET.search(said)


WRONG_FILES = [
    ("roles = 3", "roles"),
    ("[users]", "users"),
    ('roles.r = { members = ["a"] }', "members and grants"),
    ('roles.r = { members = "a", grants = [] }', "a list of texts"),
    ('roles.r = { members = ["a"], grants = ["SELECT"] }', "expected ON"),
    ('roles.r = { members = ["a"], grants = ["READS ON t"] }', "a privilege"),
    ('roles.r = { members = ["a"], grants = ["SELECT ON t WHERE"] }', "WHERE"),
    ('roles.r = { members = ["a"], grants = ["SELECT ON t WHERE a"] }', "a comparison"),
    ('roles.r = { members = ["a"], grants = ["SELECT ON t WHERE a = b"] }', "a literal"),
    ('roles.r = { members = ["a"], grants = ["SELECT ON t WHERE a = 1 OR"] }', "a column"),
    ('roles.r = { members = ["a"], grants = ["SELECT ON t WHERE a = 1) OR (TRUE"] }', "end of the statement"),
    ('roles.r = { members = ["a"], grants = ["DDL ON t WHERE a = 1"] }', "whole tables"),
    ('roles.r = { members = ["a"], grants = ["ALL ON * WHERE a = 1"] }', "whole tables"),
    ("roles = [", "TOML"),
]


@pytest.mark.parametrize(("text", "why"), WRONG_FILES)
def test_a_wrong_file_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(why)):
        Policies.parse(text)


CONDITIONS = [
    ("tenant = 'a'", ["a"]),
    ("tenant <> 'a'", ["b", "c"]),
    ("NOT tenant = 'a'", ["b", "c"]),
    ("NOT (tenant = 'a' OR tenant = 'b')", ["c"]),
    ("tenant IN ('a', 'c') AND n >= 3", ["c"]),
    ("tenant NOT IN ('a')", ["b", "c"]),
    ("tenant IS NULL", [None]),
    ("tenant IS NOT NULL AND n < 3", ["a", "b"]),
    ("n > -1 AND n <= 2", ["a", "b"]),
    ("(tenant = 'a' OR tenant IS NULL) AND n != 4", ["a"]),
]


@pytest.mark.parametrize(("condition", "tenants"), CONDITIONS)
def test_a_condition_says_what_it_says_in_sql(tmp_path: Path, condition: str, tenants: list[str | None]) -> None:
    made = open_engine(tmp_path / "root")
    made.update("CREATE TABLE t (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant, n)")
    made.update("INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3), (NULL, 4)")
    grant = f"SELECT ON t WHERE {condition}"
    access = Policies.parse(f'roles.r = {{ members = ["*"], grants = ["{grant}"] }}').access("x")
    assert query(made, "SELECT tenant FROM t ORDER BY n", access)["tenant"].to_pylist() == tenants
    assert query(made, f"SELECT tenant FROM t WHERE {condition} ORDER BY n")["tenant"].to_pylist() == tenants


def test_a_plan_sees_the_rows_of_the_tenant(shared: Engine, alone: Engine) -> None:
    client = SessionContext()
    client.register_record_batches("events", [[query(shared, "SELECT * FROM events").to_batches()[0].slice(0, 0)]])
    plan = statement_of(Serde.serialize_bytes("SELECT n, note FROM events WHERE n > 0", client))
    assert told(shared, plan, A) == told(alone, plan, A)
    assert not SECRET.search(told(shared, plan, A))
    assert SECRET.search(told(shared, plan, OWNER))
    with pytest.raises(NotFound):
        query(shared, plan, NOBODY)


TENANTS = Policies.parse("""
[roles.tenants]
members = ["a", "b"]
grants = ["SELECT, WRITE ON events WHERE tenant = CURRENT_USER", "SELECT ON recent", "SELECT ON money"]

[roles.definer]
members = ["definer"]
grants = ["DDL ON *"]
""")


@pytest.fixture
def tenants(tmp_path: Path) -> Callable[..., Database]:
    """A table of two tenants and one that is hidden from them, asked by somebody of `TENANTS`, or without a name by the owner."""
    owner = Database(tmp_path)
    owner.run("CREATE TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)")
    owner.run("INSERT INTO events VALUES ('a', 1), ('a', 2), ('b', 777), (NULL, 888)")
    owner.run("CREATE TABLE ledger (n BIGINT)")

    def asking(name: str | None = None) -> Database:
        database = Database(tmp_path, UNLIMITED if name is None else TENANTS.access(name))
        database.engine = owner.engine
        return database

    return asking


def test_hidden_columns_find_no_hidden_rows(tenants: Callable[..., Database]) -> None:
    owned = dict(tenants().rows("SELECT n, _rowid FROM events"))
    partitions = dict(tenants().rows("SELECT n, _partition FROM events"))
    a = tenants("a")
    assert dict(a.rows("SELECT n, _rowid FROM events")) == {n: owned[n] for n in (1, 2)}
    assert a.rows(f"SELECT n FROM events WHERE _partition = '{partitions[777]}'") == []
    assert a.value("SELECT count(DISTINCT _partition) FROM events") == 1
    dropped = owned[777].replace(partitions[777], "v1$0000000000000000$dataset")
    for sql in ("SELECT n FROM events WHERE _rowid = '{}'", "DELETE FROM events WHERE _rowid = '{}'"):
        # just as of a partition that is not there
        hidden, absent = (a.refuses(sql.format(name)) for name in (owned[777], dropped))
        assert hidden.replace(owned[777], "") == absent.replace(dropped, "")
    assert tenants().value("SELECT count(*) FROM events") == 4


def test_a_view_shows_what_its_reader_may_see_of_the_tables(tenants: Callable[..., Database]) -> None:
    owner, a = tenants(), tenants("a")
    for view, table in {"recent": "events", "money": "ledger", "secret": "events"}.items():
        owner.run(f"CREATE VIEW {view} AS SELECT n FROM {table}")
    assert owner.value("SELECT count(*) FROM recent") == 4
    assert sorted(a.rows("SELECT n FROM recent")) == [(1,), (2,)]
    assert tenants("b").value("SELECT sum(n) FROM recent") == 777
    assert "[not_found]" in a.refuses("SELECT n FROM money")
    assert "[not_found]" in a.refuses("SELECT n FROM secret")
    assert a.rows("SHOW VIEWS") == [("public", "money"), ("public", "recent")]
    assert "[refused]" in a.refuses("CREATE OR REPLACE VIEW recent AS SELECT 1 AS n")
    assert "[refused]" in a.refuses("DROP VIEW recent")
    assert "[refused]" in tenants("definer").refuses("CREATE VIEW mine AS SELECT n FROM events")
    assert sorted(a.rows("SELECT n FROM recent")) == [(1,), (2,)]
