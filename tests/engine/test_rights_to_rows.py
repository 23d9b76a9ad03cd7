"""Statements that would tell of rows, or move them, by principals who may define tables and not read them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.policy_file import Policies
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.statements.kinds import Alteration
from lance_flight.engine.statements.parsing import STATEMENTS, parse
from lance_flight.errors import Refused

from tests.engine.database import open_engine
from tests.engine.principals import told, transaction
from tests.engine.statement_needs import NEEDS

pytestmark = pytest.mark.slow  # every statement for every privilege

SECRET = "zyxsecret"  # noqa: S105
"""A value of rows, and of a partition, that none of the principals may read."""
COUNT = "40961"
"""How many rows have it."""

OWN = "ALL ON mine"
POLICIES = Policies.parse(f"""
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.definer]
members = ["definer"]
grants = ["DDL ON *", "{OWN}"]

[roles.writer]
members = ["writer"]
grants = ["DDL, INSERT, UPDATE, DELETE ON *", "{OWN}"]

[roles.operator]
members = ["operator"]
grants = ["DDL, INSERT, UPDATE, DELETE, ADMIN ON *", "{OWN}"]

[roles.tenant]
members = ["tenant"]
grants = ["SELECT, WRITE ON vault WHERE p = 'ours'", "SELECT, WRITE ON evolved WHERE p = 'ours'",
    "SELECT, WRITE ON undecided WHERE p = 'ours'", "DDL, ADMIN ON *", "INSERT, UPDATE, DELETE ON spare", "{OWN}"]
""")
PRINCIPALS = {name: POLICIES.access(name) for name in ("definer", "writer", "operator", "tenant")}
OWNER = POLICIES.access("owner")

SETUP = [
    "CREATE TABLE vault (p VARCHAR, q VARCHAR, secret VARCHAR, at TIMESTAMP(0), word VARCHAR) PARTITIONED BY (p)",
    (
        f"INSERT INTO vault SELECT '{SECRET}', 'ours', '{SECRET}', CAST('9999-12-31' AS TIMESTAMP(0)),"
        f" CASE WHEN v > 0 THEN '{SECRET}' END FROM unnest(range(0, {COUNT})) AS t(v)"
    ),
    f"INSERT INTO vault SELECT NULL, q, secret, at, word FROM vault WHERE p = '{SECRET}'",
    "INSERT INTO vault VALUES ('ours', 'ours', 'ours', NULL, NULL)",
    "ALTER TABLE vault CREATE TAG tagged",
    f"UPDATE vault SET word = '{SECRET}x' WHERE p = '{SECRET}'",
    "CREATE TABLE evolved (p VARCHAR, q VARCHAR, secret VARCHAR) PARTITIONED BY (p, q)",
    f"INSERT INTO evolved VALUES ('{SECRET}', 'ours', '{SECRET}'), ('ours', 'x', 'mine')",
    "CREATE TABLE undecided (p VARCHAR, q VARCHAR, secret VARCHAR) PARTITIONED BY (q)",
    f"INSERT INTO undecided VALUES ('{SECRET}', 'ours', '{SECRET}'), ('ours', 'x', '7')",
    (
        "ALTER TABLE undecided SET PARTITIONED BY"
        " (p, expr('CAST(CASE WHEN starts_with(col0, ''0'') THEN NULL ELSE col0 END AS BIGINT)', secret) AS number)"
    ),
    f"CREATE TABLE plain AS SELECT CAST(NULL AS VARCHAR) AS p, '{SECRET}' AS secret",
    "CREATE TABLE spare (p VARCHAR, q VARCHAR, secret VARCHAR) PARTITIONED BY (p)",
    "CREATE TABLE mine (p VARCHAR, q VARCHAR, secret VARCHAR) PARTITIONED BY (p)",
    "INSERT INTO mine VALUES ('ours', 'ours', 'ours')",
]

BRANCHES = [
    "ALTER TABLE vault CREATE BRANCH work AS OF tagged",
    f"UPDATE \"vault@work\" SET word = '{SECRET}' WHERE p = '{SECRET}' AND word IS NULL",
    "ALTER TABLE mine CREATE BRANCH ours",
]


@dataclass(slots=True)
class Untouched:
    """A root that many statements are tried on; `engine` puts it back after one of them has changed it.

    It is put back in its place: Lance knows the files below a branch by their absolute place.
    """

    place: Path
    kept: Path
    _engine: Engine = field(init=False)
    _files: frozenset[tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._engine = open_engine(self.place)
        for sql in SETUP + BRANCHES:
            self._engine.update(sql)
        shutil.copytree(self.place, self.kept)
        self._files = _files(self.place)

    @property
    def engine(self) -> Engine:
        """The root as it was made."""
        if self.is_changed:
            # The engine before may write leases there yet.
            changed = self.place.rename(self.place.with_name(uuid4().hex))
            shutil.copytree(self.kept, self.place, dirs_exist_ok=True)
            shutil.rmtree(changed, ignore_errors=True)
            self._engine = open_engine(self.place)
        return self._engine

    @property
    def is_changed(self) -> bool:
        """Whether any file of a table came, went or was written since."""
        return _files(self.place) != self._files


def _files(place: Path) -> frozenset[tuple[str, int]]:
    """All files below a place, those of leases and locks aside."""
    return frozenset(
        (str(path), path.stat().st_mtime_ns)
        for path in place.rglob("*")
        if path.is_file() and ".lance-flight" not in path.parts
    )


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Untouched:
    place = tmp_path_factory.mktemp("untouched")
    return Untouched(place / "root", place / "kept")


@pytest.fixture
def root(untouched: Untouched) -> Engine:
    return untouched.engine


ATTACKS = [
    pytest.param("ALTER TABLE vault RENAME TO mine2", id="rename"),
    pytest.param("ALTER TABLE plain RENAME TO mine2", id="rename of a plain table"),
    pytest.param("ALTER TABLE vault DETACH PARTITION (p IS NULL) TO mine2", id="detach"),
    pytest.param("ALTER TABLE vault DETACH PARTITION (p IS NULL)", id="detach to the default name"),
    pytest.param("ALTER TABLE mine ATTACH TABLE 'plain' PARTITION (p IS NULL)", id="attach"),
    pytest.param("ALTER TABLE mine ATTACH TABLE 'plain.lance' PARTITION (p = 'ours2') TRUSTED", id="attach trusted"),
    pytest.param("ALTER TABLE mine ATTACH TABLE 'plain' PARTITION (p = 'wrong')", id="attach to a wrong value"),
    pytest.param("ALTER TABLE vault ADD COLUMN x BIGINT AS (CAST(secret AS BIGINT))", id="computed column"),
    pytest.param("ALTER TABLE vault ADD COLUMN x BIGINT AS (1 / (length(p) - 9))", id="computed column that divides"),
    pytest.param("ALTER TABLE vault ADD COLUMN x BIGINT NOT NULL AS (CAST(NULL AS BIGINT))", id="computed NULL"),
    pytest.param("ALTER TABLE vault ADD COLUMN x BIGINT NOT NULL", id="new column that counts"),
    pytest.param("ALTER TABLE vault ALTER COLUMN word SET NOT NULL", id="set not null"),
    pytest.param("ALTER TABLE vault ALTER COLUMN at TYPE TIMESTAMP(6)", id="wider type"),
    pytest.param("ALTER TABLE vault RENAME COLUMN p TO old", id="rename a policy's column"),
    pytest.param("ALTER TABLE vault DROP PARTITION (p IS NULL)", id="drop partition"),
    pytest.param("ALTER TABLE vault PUBLISH BRANCH work", id="publish"),
    pytest.param("CREATE INDEX ON vault (secret)", id="create index"),
    pytest.param("CREATE INDEX ON vault (secret) USING inverted", id="create text index"),
    pytest.param("REINDEX vault", id="reindex"),
    pytest.param("VERIFY TABLE vault", id="verify"),
    pytest.param("REPAIR TABLE vault DRY RUN", id="repair"),
    pytest.param("ALTER TABLE undecided REWRITE PARTITIONS", id="rewrite"),
    pytest.param("ALTER TABLE vault REWRITE PARTITIONS WHERE secret > 'a'", id="rewrite where"),
    pytest.param("TRUNCATE vault", id="truncate"),
    pytest.param("INSERT OVERWRITE vault SELECT 'x', 'x', 'x', NULL, secret FROM vault", id="overwrite from itself"),
    pytest.param("CREATE TABLE mine2 AS SELECT secret FROM vault", id="create table as"),
    pytest.param("CREATE TABLE mine2 PARTITIONED BY (s) AS SELECT secret AS s FROM vault", id="partitioned by values"),
    pytest.param("INSERT INTO mine SELECT p, q, secret FROM vault", id="insert"),
    pytest.param("INSERT INTO mine SELECT p, q, secret FROM vault@tagged", id="insert of a tag"),
    pytest.param('INSERT INTO mine SELECT p, q, secret FROM "vault@work"', id="insert of a branch"),
    pytest.param("UPDATE mine SET secret = (SELECT max(secret) FROM vault)", id="update from"),
    pytest.param("DELETE FROM mine WHERE secret IN (SELECT secret FROM vault)", id="delete where"),
    pytest.param("UPDATE vault SET q = CAST(CAST(secret AS BIGINT) AS VARCHAR)", id="update"),
    pytest.param("DELETE FROM vault WHERE CAST(secret AS BIGINT) > 0", id="delete"),
    "MERGE INTO mine m USING vault v ON m.q = v.q WHEN MATCHED THEN UPDATE SET secret = v.secret",
    "MERGE INTO vault m USING mine v ON m.q = v.q WHEN MATCHED AND CAST(m.secret AS BIGINT) > 1 THEN DELETE",
    pytest.param("EXPLAIN UPDATE vault SET q = 'x' WHERE secret > 'a'", id="explain update"),
    pytest.param("EXPLAIN DELETE FROM vault", id="explain delete"),
    pytest.param("EXPLAIN SELECT * FROM vault WHERE p > 'a'", id="explain"),
    pytest.param("EXPLAIN ANALYZE SELECT * FROM vault", id="explain analyze"),
    pytest.param("SHOW PARTITIONS vault", id="show partitions"),
    pytest.param('SHOW PARTITIONS "vault@work"', id="show partitions of a branch"),
    pytest.param("DESCRIBE NAMESPACE vault", id="describe namespace"),
    pytest.param("SELECT * FROM vault$snapshots", id="snapshots"),
    pytest.param("SELECT * FROM vault$files", id="files"),
    pytest.param("SELECT * FROM table_changes('vault', 1, 'tagged')", id="changes"),
    pytest.param("SELECT secret FROM vault", id="select"),
    pytest.param('SELECT secret FROM "vault@work"', id="select of a branch"),
]
ALLOWED = [
    pytest.param("ALTER TABLE vault ADD COLUMN x BIGINT", id="new column"),
    pytest.param("ALTER TABLE vault ADD COLUMN x BIGINT NOT NULL DEFAULT 7", id="new column with a default"),
    pytest.param("ALTER TABLE vault DROP COLUMN secret", id="drop column"),
    pytest.param("ALTER TABLE vault ALTER COLUMN word DROP NOT NULL", id="drop not null"),
    pytest.param("ALTER TABLE vault SET PARTITIONED BY (p, secret)", id="set partitioned by"),
    pytest.param("ALTER TABLE vault SET PARTITIONED BY (expr('CAST(col0 AS BIGINT)', secret) AS n)", id="expression"),
    pytest.param("ALTER TABLE vault CREATE TAG another", id="tag"),
    pytest.param("ALTER TABLE vault CREATE BRANCH another", id="branch"),
    pytest.param("ALTER TABLE vault DROP BRANCH work", id="drop branch"),
    pytest.param("ALTER TABLE vault ROLLBACK TO tagged", id="rollback"),
    pytest.param("ALTER TABLE mine RENAME COLUMN secret TO other", id="rename a column of one's own"),
    pytest.param("ALTER TABLE mine ALTER COLUMN secret SET NOT NULL", id="set not null of one's own"),
    pytest.param("ALTER TABLE mine PUBLISH BRANCH ours", id="publish a branch of one's own"),
    pytest.param("DESCRIBE vault", id="describe"),
    pytest.param("CREATE TABLE mine2 (n BIGINT)", id="create table"),
    pytest.param("DROP TABLE plain", id="drop table"),
    pytest.param("SHOW TABLES", id="show tables"),
]


def sees(of: Engine, access: Access) -> str:
    """All that a principal can read of all tables, by all ways."""
    names = [str(name) for name in of.root.kinds()]
    return "".join(told(of, f"SELECT * FROM {name}", access) for name in names)


def test_every_statement_about_a_table_and_every_alteration_has_its_rights() -> None:
    opened = (
        "Query SubstraitPlan Explain ShowListing ShowMetadata ShowColumns ShowCreateTable ShowCreateView ShowSettings"
    )
    opened += " Summarize Describe DescribeNamespace Insert Update Delete Merge CommitWrite"
    elsewhere = "CreateTable CreateSchema DropSchema SetOption Kill Begin EndTransaction"
    statements, others = {each.__name__ for each in STATEMENTS}, {*opened.split(), *elsewhere.split()}
    asking = {type(parse(sql)) for sql, needs in NEEDS.items() if needs}
    assert others < statements
    assert statements - others == {each.__name__ for each in asking} - others
    assert {statement for statement in STATEMENTS if issubclass(statement, Alteration)} < asking


@pytest.mark.parametrize("who", PRINCIPALS)
def test_no_principal_reads_the_rows_of_others_to_begin_with(root: Engine, who: str) -> None:
    assert SECRET not in sees(root, PRINCIPALS[who])
    assert SECRET in told(root, "SELECT * FROM vault WHERE p IS NULL LIMIT 1", OWNER)


@pytest.mark.parametrize("sql", ATTACKS)
def test_what_needs_rows_that_one_may_not_read_tells_nothing_of_them_and_is_for_the_owner(
    untouched: Untouched, sql: str
) -> None:
    for who, access in PRINCIPALS.items():
        root = untouched.engine
        said = told(root, sql, access)
        assert SECRET not in said, who
        assert COUNT not in said, who
        if said.startswith(("Refused", "NotFound")):
            assert not untouched.is_changed, who
        else:
            # A row policy lets its principal do this to the rows that it chooses.
            assert who == "tenant", said
            assert SECRET not in sees(root, access)
    assert not told(untouched.engine, sql, OWNER).startswith("Refused")


@pytest.mark.parametrize("who", ["definer", "tenant"])
@pytest.mark.parametrize("sql", ALLOWED)
def test_what_tells_nothing_of_rows_needs_no_right_to_read_them(root: Engine, sql: str, who: str) -> None:
    said = told(root, sql, PRINCIPALS[who])
    assert not said.startswith(("Refused", "NotFound")), said
    assert SECRET not in said
    assert SECRET not in sees(root, PRINCIPALS[who])


OVERWRITES = [
    pytest.param("INSERT OVERWRITE evolved VALUES ('ours', 'x', 'new')", "2", id="decided"),
    pytest.param("INSERT OVERWRITE undecided VALUES ('ours', 'x', '7')", "Refused", id="under an older spec"),
]


@pytest.mark.parametrize(("sql", "expected"), OVERWRITES)
def test_an_overwrite_reads_no_row_outside_of_the_policy(root: Engine, sql: str, expected: str) -> None:
    said = told(root, sql, PRINCIPALS["tenant"])
    assert said.startswith(expected), said
    assert SECRET not in said


IN_STEPS = [
    ["ALTER TABLE vault DROP COLUMN p", "ALTER TABLE vault ADD COLUMN p VARCHAR DEFAULT 'ours'"],
    ["ALTER TABLE evolved DROP COLUMN p", "ALTER TABLE evolved RENAME COLUMN q TO p"],
    ["ALTER TABLE vault SET PARTITIONED BY (q)", "ALTER TABLE vault REWRITE PARTITIONS"],
    pytest.param(["DROP TABLE mine", "ALTER TABLE plain RENAME TO mine"], id="in place of one's own"),
    pytest.param(["CREATE TABLE twin (p VARCHAR)", "ALTER TABLE vault RENAME TO twin"], id="over another one"),
    pytest.param(["ALTER TABLE vault CREATE TAG t1", "INSERT INTO mine SELECT p, q, secret FROM vault@t1"], id="tag"),
    ["ALTER TABLE vault ROLLBACK TO tagged", "ALTER TABLE vault PUBLISH BRANCH work"],
]


@pytest.mark.parametrize("who", ["definer", "operator", "tenant"])
@pytest.mark.parametrize("steps", IN_STEPS)
def test_no_way_leads_there_in_steps(root: Engine, steps: list[str], who: str) -> None:
    access = PRINCIPALS[who]
    for sql in steps:
        assert SECRET not in told(root, sql, access)
        assert SECRET not in sees(root, access)


TARGETS = [
    pytest.param("ALTER TABLE mine RENAME TO fresh", "INSERT on table 'fresh'", id="rename"),
    pytest.param("ALTER TABLE mine DETACH PARTITION (p = 'ours') TO fresh", "INSERT on table 'fresh'", id="detach"),
    pytest.param("ALTER TABLE mine DETACH PARTITION (p = 'ours')", "INSERT on table 'mine_ours'", id="default name"),
    pytest.param("CREATE TABLE fresh AS SELECT 1 AS n", "INSERT on table 'fresh'", id="create table as"),
]


@pytest.mark.parametrize(("sql", "says"), TARGETS)
def test_rows_come_where_one_may_insert(untouched: Untouched, sql: str, says: str) -> None:
    root = untouched.engine
    said = told(root, sql, PRINCIPALS["definer"])
    assert said.startswith("Refused"), said
    assert says in said
    assert not untouched.is_changed
    assert not told(root, sql, OWNER).startswith("Refused")


@pytest.mark.parametrize("existing", [IfExists.REPLACE, IfExists.APPEND, IfExists.FAIL])
def test_an_ingest_that_makes_a_table_stores_rows_that_one_may_insert(root: Engine, existing: IfExists) -> None:
    access = Policies.parse(
        'roles.r = { members = ["*"], grants = ["INSERT ON fresh WHERE p = \'ours\'", "DDL ON fresh"] }'
    ).access("x")
    rows = pa.table({"p": ["theirs"]}).to_reader()
    with pytest.raises(Refused):
        root.ingest(
            TableName(PUBLIC, "fresh"), rows, create_missing=True, existing=existing, scope=Scope(access=access)
        )
    assert not root.root.has(TableName(PUBLIC, "fresh"))


BRANCHED = [
    pytest.param("INSERT INTO \"vault@work\" (p, secret) VALUES ('ours', 'new')", "1", id="insert"),
    pytest.param("INSERT INTO \"vault@work\" (p, secret) VALUES ('other', 'new')", "Refused", id="insert outside"),
    pytest.param("INSERT OVERWRITE \"vault@work\" (p, secret) VALUES ('ours', 'new')", "2", id="overwrite"),
    pytest.param("UPDATE \"vault@work\" SET secret = 'new'", "1", id="update"),
    pytest.param("UPDATE \"vault@work\" SET p = 'other'", "Refused", id="update that leads outside"),
    pytest.param('DELETE FROM "vault@work"', "1", id="delete"),
    pytest.param('TRUNCATE "vault@work"', "Refused", id="truncate"),
    ("MERGE INTO \"vault@work\" v USING mine m ON v.p = m.p WHEN MATCHED THEN UPDATE SET secret = 'new'", "1"),
    pytest.param('DESCRIBE NAMESPACE "vault@work"', "Refused", id="describe namespace"),
]


@pytest.fixture(params=["autocommit", "transaction"])
def running(request: pytest.FixtureRequest, root: Engine) -> Iterator[Callable[[str], str]]:
    """A way to run a statement as the tenant, by itself or in a transaction that is committed."""
    if request.param == "autocommit":
        yield lambda sql: told(root, sql, PRINCIPALS["tenant"])
        return
    with transaction(root, PRINCIPALS["tenant"]) as run:
        yield run


@pytest.mark.parametrize(("sql", "expected"), BRANCHED)
def test_rights_on_a_table_are_rights_on_its_branches(
    root: Engine, running: Callable[[str], str], sql: str, expected: str
) -> None:
    theirs = f"SELECT count(*) FROM \"vault@work\" WHERE p = '{SECRET}'"
    before = told(root, theirs)
    assert running(sql).startswith(expected)
    assert told(root, theirs) == before


def test_an_ingest_into_a_branch_is_governed_by_its_table(root: Engine) -> None:
    def ingest(values: list[str]) -> int:
        reader, scope = pa.table({"p": values}).to_reader(), Scope(access=PRINCIPALS["tenant"])
        name = TableName(PUBLIC, "vault@work")
        return root.ingest(name, reader, create_missing=False, existing=IfExists.APPEND, scope=scope)

    assert ingest(["ours", "ours"]) == 2
    with pytest.raises(Refused):
        ingest(["ours", "other"])
    assert "3" in told(root, 'SELECT count(*) FROM "vault@work"', PRINCIPALS["tenant"])


def test_temporary_tables_of_ones_own_need_no_grant(root: Engine) -> None:
    session = root.clients.session("tenant")
    scope = Scope(session, access=PRINCIPALS["tenant"]).with_own_tables()
    root.update("CREATE TEMPORARY TABLE drafts (p VARCHAR, n BIGINT) PARTITIONED BY (p)", scope=scope)
    for sql in (
        "INSERT INTO drafts VALUES ('a', 1)",
        "ALTER TABLE drafts ADD COLUMN m BIGINT AS (n + 1)",
        "ALTER TABLE drafts RENAME TO finals",
        "TRUNCATE finals",
    ):
        root.update(sql, scope=Scope(session, access=PRINCIPALS["tenant"]).with_own_tables())
    definer = root.clients.session("definer")
    with pytest.raises(Refused):
        root.update(
            "CREATE TEMPORARY TABLE taken AS SELECT secret FROM vault",
            scope=Scope(definer, access=PRINCIPALS["definer"]).with_own_tables(),
        )
