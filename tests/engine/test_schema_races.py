"""Changes of columns and partitionings beside other writers, and commits of theirs that are not answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.errors import AlreadyExists, Conflict, DataError, LanceFlightError, NotFound, SerializationFailure
from lance_flight.model.schema import NamespaceSchema

from tests.catalog.interrupted_commits import interrupted
from tests.engine.database import Database, filled, open_engine
from tests.stock import manifest, stored_tables

pytestmark = pytest.mark.slow  # every change beside every writer

T = TableName("public", "t")
HELD = [(1, "a"), (2, "b"), (3, "a")]
CHANGES = {
    "add": "ADD COLUMN more INT",
    "add with values": "ADD COLUMN more INT DEFAULT 1",
    "drop": "DROP COLUMN n",
    "rename": "RENAME COLUMN n TO m",
    "widen": "ALTER COLUMN n TYPE BIGINT",
    "not null": "ALTER COLUMN id SET NOT NULL",
}
EACH = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
ADDED = {"add": None, "add with values": 1}
"""The changes beside which rows that only come in are stored, and what they have in the new column."""
LOST = pytest.mark.parametrize("change", [change for name, change in CHANGES.items() if name not in ADDED])
EACH_ADDED = pytest.mark.parametrize(("change", "value"), [(CHANGES[name], value) for name, value in ADDED.items()])


@pytest.fixture
def database(tmp_path: Path, engine: Engine) -> Database:
    """The engine, as clients ask it."""
    database = Database(tmp_path)
    database.engine = engine
    return database


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a table of two partitions, with three rows."""
    return filled(
        tmp_path_factory.mktemp("held"),
        "CREATE TABLE t (id BIGINT, p VARCHAR, n INT) PARTITIONED BY (p)",
        f"INSERT INTO t (id, p) VALUES {', '.join(map(str, HELD))}",
    )


def place(engine: Engine) -> Path:
    return Path(engine.root.store.uri) / "t"


def rows(engine: Engine) -> list[tuple[int, str]]:
    """The rows, as a query and stock Lance find them alike."""
    found = engine.query("SELECT id, p FROM t").to_pylist()
    stored = [row for table in stored_tables(place(engine)) for row in table.dataset.to_table(["id", "p"]).to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, stored))
    return sorted((row["id"], row["p"]) for row in found)


def columns(engine: Engine) -> list[str]:
    """The columns, as the namespace and each of its tables have them."""
    names: list[str] = engine.schema_of(T).names
    assert all(table.dataset.schema.names == names for table in stored_tables(place(engine)))
    return names


def another(engine: Engine) -> Engine:
    """A writer in a process of its own, as far as memory goes."""
    return open_engine(engine.root.store.uri)


MORE = pa.table({"id": [7, 8], "p": ["a", "c"]})
WRITES: dict[str, Callable[[Database], int]] = {
    "insert": lambda client: client.run("INSERT INTO t (id, p) VALUES (7, 'a'), (8, 'c')"),
    "update": lambda client: client.run("UPDATE t SET p = 'c'"),
    "ingest": lambda client: client.ingest("t", MORE, "append"),
}


@pytest.mark.parametrize("write", ["insert", "ingest"])
@EACH_ADDED
def test_a_transaction_that_began_before_gets_the_columns_that_are_added(
    engine: Engine, database: Database, change: str, value: int | None, write: str
) -> None:
    with database.client(autocommit=False) as client:
        WRITES[write](client)
        another(engine).update(f"ALTER TABLE t {change}")
        client.commit()
    check_added(engine, value)


def check_added(engine: Engine, value: int | None) -> None:
    """Two rows came in beside a new column, in which they have a value."""
    assert rows(engine) == [*HELD, (7, "a"), (8, "c")]
    assert columns(engine) == ["id", "p", "n", "more"]
    stored = [row for table in stored_tables(place(engine)) for row in table.dataset.to_table().to_pylist()]
    assert {row["id"]: row["more"] for row in stored} == dict.fromkeys((1, 2, 3, 7, 8), value)
    engine.update("UPDATE t SET n = 5 WHERE more IS NULL OR more = 1")
    assert engine.query("SELECT count(*) AS n FROM t WHERE n = 5").to_pylist() == [{"n": 5}]


@pytest.mark.parametrize(
    ("change", "write"),
    [
        pytest.param(change, write, id=f"{name}-{kind}")
        for name, change in CHANGES.items()
        for kind, write in WRITES.items()
        if name not in ADDED or kind == "update"
    ],
)
def test_a_transaction_that_began_before_fails_and_shows_nothing(
    engine: Engine, database: Database, change: str, write: Callable[[Database], int]
) -> None:
    with database.client(autocommit=False) as client:
        write(client)
        another(engine).update(f"ALTER TABLE t {change}")
        after = columns(engine)
        with pytest.raises(SerializationFailure, match="changed in its schema"):
            client.commit()
        assert (rows(engine), columns(engine)) == (HELD, after)
        write(client)
        client.commit()
    assert rows(engine) in ([*HELD, (7, "a"), (8, "c")], [(number, "c") for number, _ in HELD])


@pytest.mark.parametrize("change", [*CHANGES.values(), "SET PARTITIONED BY (n)"])
def test_nothing_is_altered_inside_a_transaction(engine: Engine, database: Database, change: str) -> None:
    with database.client(autocommit=False) as client:
        client.run("INSERT INTO t (id, p) VALUES (7, 'a')")
        assert "inside a transaction; commit first" in client.refuses(f"ALTER TABLE t {change}")
        client.commit()
    assert rows(engine) == [*HELD, (7, "a")]


@EACH
def test_a_branch_keeps_the_columns_that_it_began_with_and_gets_those_of_main_when_it_is_published(
    engine: Engine, database: Database, change: str
) -> None:
    database.run("ALTER TABLE t CREATE BRANCH b")
    database.run(f"ALTER TABLE t {change}")
    database.run("INSERT INTO \"t@b\" VALUES (4, 'a', 3), (5, 'new', 4)")
    then = [*HELD, (4, "a"), (5, "new")]
    assert database.rows('SELECT id, p FROM "t@b" ORDER BY id') == then
    before = database.query("SELECT * FROM t").schema
    database.run("ALTER TABLE t PUBLISH BRANCH b")
    assert rows(engine) == then
    assert database.query("SELECT * FROM t").schema.equals(before)
    assert database.query('SELECT * FROM "t@b"').schema.names == ["id", "p", "n"]


def test_a_branch_that_began_under_an_older_spec_is_published_under_it(engine: Engine, database: Database) -> None:
    database.run("ALTER TABLE t CREATE BRANCH b")
    database.run("ALTER TABLE t SET PARTITIONED BY (n)")
    database.run("INSERT INTO \"t@b\" VALUES (4, 'a', 3)")
    database.run("ALTER TABLE t PUBLISH BRANCH b")
    assert rows(engine) == [*HELD, (4, "a")]
    assert {each.spec_id for each in stored_tables(place(engine))} == {1}


ROUNDS = 4


def test_changes_from_two_writers_at_once_are_both_there_or_refused(engine: Engine) -> None:
    """Nothing that was acknowledged is lost: neither a column nor a row."""
    writers = engine, another(engine)

    def change(number: int) -> tuple[list[str], list[int]]:
        added, stored = [], []
        for round_ in range(ROUNDS):
            name, row = f"c{number}_{round_}", 100 * (number + 1) + round_
            for sql, done in (
                (f"ALTER TABLE t ADD COLUMN {name} INT DEFAULT {row}", partial(added.append, name)),
                (f"INSERT INTO t (id, p) VALUES ({row}, 'a')", partial(stored.append, row)),
            ):
                with suppress(Conflict):  # of which SerializationFailure is one
                    writers[number].update(sql)
                    done()
        return added, stored

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(change, range(2)))
    added = [name for names, _ in outcomes for name in names]
    stored = [row for _, numbers in outcomes for row in numbers]
    assert added
    for writer in writers:
        assert set(columns(writer)) == {"id", "p", "n", *added}
        assert rows(writer) == sorted([*HELD, *((row, "a") for row in stored)])
        for name in added:
            assert writer.query(f"SELECT id FROM t WHERE {name} IS NULL").num_rows == 0
    for table in stored_tables(place(engine)):
        found = [field.metadata[b"lance_flight:field_id"] for field in table.dataset.schema]
        assert len(found) == len(set(found)) == 3 + len(added)


@EACH
def test_a_statement_that_began_before_runs_again(engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    before_its_commit(monkeypatch, lambda: another(engine).update(f"ALTER TABLE t {change}"))
    engine.update("INSERT INTO t (id, p) VALUES (7, 'a'), (8, 'c')")
    assert rows(engine) == [*HELD, (7, "a"), (8, "c")]
    columns(engine)


@pytest.mark.parametrize("change", ["DROP COLUMN n", "RENAME COLUMN n TO m"])
def test_a_statement_that_names_what_is_gone_by_then_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before_its_commit(monkeypatch, lambda: another(engine).update(f"ALTER TABLE t {change}"))
    with pytest.raises(NotFound, match="no column 'n'"):
        engine.update("INSERT INTO t (id, p, n) VALUES (7, 'a', 1), (8, 'c', 1)")
    assert rows(engine) == HELD


def before_its_commit(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let something happen right before the next commit of a statement."""
    commit = SqlTransaction.commit

    def late(transaction: SqlTransaction, cancellation: Cancellation | None = None) -> None:
        monkeypatch.setattr(SqlTransaction, "commit", commit)
        other()
        commit(transaction, cancellation)

    monkeypatch.setattr(SqlTransaction, "commit", late)


def ingest_beside(engine: Engine, change: str) -> None:
    """Ingest two rows, with a change of columns between them."""
    schema = pa.schema({"id": pa.int64(), "p": pa.utf8(), "n": pa.int32()})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"id": 7, "p": "a"}], schema=schema)
        another(engine).update(f"ALTER TABLE t {change}")
        yield pa.RecordBatch.from_pylist([{"id": 8, "p": "c"}], schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    engine.ingest(T, reader, create_missing=False, existing=IfExists.APPEND)


def data_files(engine: Engine) -> set[Path]:
    return {path for path in place(engine).glob("*/data/*") if path.parent.parent.name != "__manifest"}


def referred_files(engine: Engine) -> set[Path]:
    return {
        Path(table.dataset.uri) / "data" / file.path
        for table in stored_tables(place(engine))
        for fragment in table.dataset.get_fragments()
        for file in fragment.metadata.files
    }


@LOST
def test_an_ingest_that_began_before_fails_and_leaves_nothing(engine: Engine, change: str) -> None:
    before = data_files(engine)
    with pytest.raises(SerializationFailure, match="changed in its schema"):
        ingest_beside(engine, change)
    assert rows(engine) == HELD
    columns(engine)
    assert data_files(engine) - before <= referred_files(engine)


@EACH_ADDED
def test_an_ingest_that_began_before_gets_the_columns_that_are_added(
    engine: Engine, change: str, value: int | None
) -> None:
    before = data_files(engine)
    ingest_beside(engine, change)
    assert data_files(engine) - before <= referred_files(engine)
    check_added(engine, value)


OTHERS = {
    "an append": ("INSERT INTO t (id, p) VALUES (9, 'a')", [*HELD, (9, "a")]),
    "a new partition": ("INSERT INTO t (id, p) VALUES (9, 'z')", [*HELD, (9, "z")]),
    "a deletion": ("DELETE FROM t WHERE id = 1", HELD[1:]),
    "an update": ("UPDATE t SET p = 'b' WHERE id = 1", [(1, "b"), *HELD[1:]]),
    "a truncation": ("TRUNCATE t", []),
    "another column": ("ALTER TABLE t ADD COLUMN other INT DEFAULT 3", HELD),
    "another spec": ("ALTER TABLE t SET PARTITIONED BY (bucket(2, id))", HELD),
}


@EACH
@pytest.mark.parametrize(("other", "then"), OTHERS.values(), ids=OTHERS)
def test_what_others_commit_first_is_changed_as_well(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str, other: str, then: list[tuple[int, str]]
) -> None:
    interrupted(monkeypatch, lambda: another(engine).update(other))
    engine.update(f"ALTER TABLE t {change}")
    assert rows(engine) == then
    assert ("other" in columns(engine)) == ("ADD COLUMN" in other)
    assert change.rsplit(maxsplit=1)[-1] == "NULL" or ("more" in columns(engine)) == ("more" in change)
    engine.update("INSERT INTO t (id, p) VALUES (20, 'a'), (21, 'y')")
    assert rows(engine) == sorted([*then, (20, "a"), (21, "y")])


AT_ODDS = [
    pytest.param("ADD COLUMN more INT", "ADD COLUMN more BIGINT", AlreadyExists, id="the same name"),
    pytest.param("RENAME COLUMN n TO m", "DROP COLUMN n", NotFound, id="what is gone"),
    pytest.param("ALTER COLUMN n TYPE BIGINT", "RENAME COLUMN n TO m", NotFound, id="what is called otherwise"),
]


@pytest.mark.parametrize(("change", "other", "error"), AT_ODDS)
def test_of_two_changes_that_cannot_both_be_the_second_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str, other: str, error: type[LanceFlightError]
) -> None:
    interrupted(monkeypatch, lambda: another(engine).update(f"ALTER TABLE t {other}"))
    with pytest.raises(error):
        engine.update(f"ALTER TABLE t {change}")
    assert rows(engine) == HELD
    columns(engine)


def test_a_null_that_comes_meanwhile_keeps_a_column_from_being_not_null(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, lambda: another(engine).update("INSERT INTO t (p) VALUES ('a')"))
    with pytest.raises(DataError, match="NULL in 1 rows"):
        engine.update("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
    assert engine.schema_of(T).field("id").nullable


@EACH
def test_a_change_whose_answer_was_lost_happens_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = engine.schema_of(T)
    interrupted(monkeypatch, lambda: another(engine).update("INSERT INTO t (id, p) VALUES (9, 'z')"), after=True)
    engine.update(f"ALTER TABLE t {change}")
    assert not engine.schema_of(T).equals(before)
    columns(engine)
    assert rows(engine) == [*HELD, (9, "z")]


@pytest.mark.parametrize("change", [*CHANGES.values(), "SET PARTITIONED BY (bucket(2, id))"])
@pytest.mark.parametrize(
    "later",
    ["INSERT INTO t (id, p) VALUES (9, 'a')", "ALTER TABLE t ADD COLUMN last INT", "DELETE FROM t WHERE id = 9"],
    ids=["insert", "change", "nothing"],
)
def test_the_next_writer_puts_into_metadata_what_the_commit_has_said(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, change: str, later: str
) -> None:
    def forget(self: Manifest, snapshot: Snapshot) -> None:
        pass

    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "follow", forget)
        engine.update(f"ALTER TABLE t {change}")
    committed = manifest(place(engine)).version
    says, then = metadata(engine), another(engine).schema_of(T)
    snapshot = another(engine).root.read(T, lambda table: table.snapshot())  # type: ignore[union-attr]
    assert snapshot.pending
    assert another(engine).query(f'SELECT * FROM "t@{committed}"').schema.names == then.names
    another(engine).update(later)
    assert metadata(engine) != says
    assert snapshot.pending.items() <= dict(manifest(place(engine)).metadata).items() or "last" in later
    assert [name for name in columns(another(engine)) if name != "last"] == then.names


def metadata(engine: Engine) -> dict[str, str]:
    return dict(manifest(place(engine)).metadata)


def test_a_not_null_that_comes_back_takes_the_rows_of_the_first_one(engine: Engine, database: Database) -> None:
    """The column is written anew twice, and has another number of Lance's then."""
    engine.update("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
    with database.client(autocommit=False) as client:
        client.run("INSERT INTO t (id, p) VALUES (7, 'a')")
        engine.update("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
        engine.update("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
        client.commit()
    assert rows(engine) == [*HELD, (7, "a")]


def test_rows_keep_their_columns_in_a_schema_with_other_numbers(engine: Engine, database: Database) -> None:
    """Two columns that are written anew twice, in another order: Lance gives their numbers the other way round."""
    engine.update("ALTER TABLE t ADD COLUMN m INT DEFAULT 1")
    first = manifest(place(engine)).version
    engine.update("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    engine.update("ALTER TABLE t ALTER COLUMN m TYPE BIGINT")
    with database.client(autocommit=False) as client:
        client.run("INSERT INTO t (id, p, n, m) VALUES (7, 'a', 70, 700)")
        for change in (f"ROLLBACK TO {first}", "ALTER COLUMN m TYPE BIGINT", "ALTER COLUMN n TYPE BIGINT"):
            engine.update(f"ALTER TABLE t {change}")
        client.commit()
    assert rows(engine) == [*HELD, (7, "a")]
    assert engine.query("SELECT n, m FROM t WHERE id = 7").to_pylist() == [{"n": 70, "m": 700}]


def test_no_two_schemas_have_one_number(engine: Engine) -> None:
    seen: list[NamespaceSchema] = []
    back = f"ROLLBACK TO {manifest(place(engine)).version}"
    there_and_back = ("RENAME COLUMN n TO m", "RENAME COLUMN m TO n")
    for change in ("ADD COLUMN m INT", "DROP COLUMN m", "ALTER COLUMN n TYPE BIGINT", back, *there_and_back):
        engine.update(f"ALTER TABLE t {change}")
        seen.append(engine.root.read(T, lambda table: table.snapshot()).schema)  # type: ignore[union-attr]
    assert [schema.version for schema in seen] == [1, 2, 3, 4, 5, 6]
    assert [schema.next_field_id for schema in seen] == [4] * 6
