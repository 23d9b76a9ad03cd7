"""Writes that several processes share: every piece of work that is handed in counts once, and all of it at one moment."""

from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa
import pytest
from lance_flight.catalog.bulk import shared_writes
from lance_flight.catalog.bulk.shared_writes import Replaces, SharedIngest, SharedWrite, WrittenFiles
from lance_flight.catalog.commits.once import CommitToken
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.publication import publish
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.statements.alter_columns import AlterColumns
from lance_flight.engine.statements.parsing import parse
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyCommitted, DataError, InvalidInput, LimitExceeded, NotFound, SerializationFailure

from tests.catalog.aging import age
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.engine.database import Database
from tests.stock import stored_tables

T = TypeVar("T")
Pair = tuple[int, str | None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    opened(tmp_path / "t").append([rows((1, "a"), (2, "b"))], evaluate)
    return tmp_path / "t"


def begin(place: Path) -> SharedWrite:
    return SharedWrite.begin(opened(place))


def sent(value: T) -> T:
    """A value as it arrives in another process."""
    return cast("T", pickle.loads(pickle.dumps(value)))  # noqa: S301 - our own


def task(write: SharedWrite, *pairs: Pair) -> WrittenFiles:
    """What a task hands in, as it comes out of another process."""
    return sent(sent(write).write([rows(*pairs)], evaluate))


def commit(
    write: SharedWrite,
    *tasks: WrittenFiles,
    replaces: Replaces = Replaces.NOTHING,
    read: Collection[str] = (),
    once: CommitToken | None = None,
) -> int:
    return write.commit([part for parts in tasks for part in parts], evaluate, replaces=replaces, read=read, once=once)


def table_of(place: Path, value: str) -> str:
    """The object id of a partition's table."""
    (found,) = (table.row["object_id"] for table in stored_tables(place) if table.values["p"] == value)
    return str(found)


def sql(place: Path, statement: str) -> None:
    Engine(Root(Store(str(place.parent))), target_partitions=2).update(statement)


def held(place: Path) -> list[tuple[int, str | None]]:
    """All rows, as Lance reads them."""
    found = [row for table in stored_tables(place) for row in table.dataset.to_table().to_pylist()]
    return sorted((row["id"], row["p"]) for row in found)


def data_files(place: Path) -> set[Path]:
    return set(place.glob("*_v1*/data/*.lance"))


def test_the_work_of_all_tasks_is_one_commit(place: Path) -> None:
    write = begin(place)
    tasks = [task(write, (3, "a"), (4, "new")), task(write, (5, "new"), (6, None)), task(write, (7, "a"))]
    before = opened(place).snapshot()
    assert ids(place) == [1, 2]
    assert commit(write, *tasks) == before.version + 1
    assert held(place) == [(1, "a"), (2, "b"), (3, "a"), (4, "new"), (5, "new"), (6, None), (7, "a")]
    assert opened(place).snapshot().table_count == 4


def test_nothing_to_write_commits_nothing(place: Path) -> None:
    write = begin(place)
    assert commit(write, task(write), task(write)) == write.version


def test_work_that_was_done_twice_and_handed_in_once_counts_once(place: Path) -> None:
    write = begin(place)
    task(write, (3, "a"), (4, "new"))
    commit(write, task(write, (3, "a"), (4, "new")))
    assert ids(place) == [1, 2, 3, 4]
    vacuum(opened(place), VacuumRules(transaction_hours=0, retain_hours=0, force=True))
    assert ids(place) == [1, 2, 3, 4]
    assert len(data_files(place)) == 4


def test_a_write_whose_files_were_vacuumed_is_not_committed(place: Path) -> None:
    """Its tasks took more than a day; the transaction that commits what they wrote has just begun."""
    write = replace(begin(place), began=time.time() - 25 * 3600)
    done = task(write, (3, "a"), (4, "new"))
    age(place, hours=25)
    vacuum(opened(place), VacuumRules())
    with pytest.raises(SerializationFailure, match="was vacuumed before its commit"):
        commit(write, done)
    assert ids(place) == [1, 2]


def test_a_long_write_whose_files_are_there_is_committed(place: Path) -> None:
    write = replace(begin(place), began=time.time() - 25 * 3600)
    commit(write, task(write, (3, "a"), (4, "new")))
    assert ids(place) == [1, 2, 3, 4]


def test_a_task_that_fails_takes_its_own_files_away_alone(place: Path) -> None:
    def breaking() -> Iterator[pa.Table]:
        yield rows((4, "a"), (5, "new"))
        raise DataError("no more")

    write = begin(place)
    done = task(write, (3, "new"))
    files = data_files(place)
    with pytest.raises(DataError):
        write.write(breaking(), evaluate)
    assert data_files(place) == files
    commit(write, done)
    assert ids(place) == [1, 2, 3]


def test_a_part_that_fails_counts_nothing_in_a_shared_ingest(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest = SharedIngest.begin(opened(place), None)
    monkeypatch.setattr(shared_writes, "MOST_UPDATES", 2)

    def failing() -> Iterator[pa.Table]:
        yield rows((5, "a"))
        raise DataError("no more")

    for _ in range(3):
        with pytest.raises(DataError, match="no more"):
            ingest.write("first", failing(), evaluate, lambda: None)
    for part in ("first", "second"):
        ingest.write(part, [rows((6, "a"))], evaluate, lambda: None)
    before = data_files(place)
    with pytest.raises(LimitExceeded, match="more than 2 files"):
        ingest.write("third", [rows((7, "b"))], evaluate, lambda: None)
    assert (data_files(place), len(ingest.updates(["first", "second"]))) == (before, 2)
    with pytest.raises(InvalidInput, match="'third' of the shared ingest was not stored"):
        ingest.updates(["third"])


def test_of_a_discarded_write_nothing_is_left(place: Path) -> None:
    files = data_files(place)
    write = begin(place)
    task(write, (9, "lost"))
    write.discard(task(write, (3, "a"), (4, "new")))
    assert data_files(place) == files
    assert ids(place) == [1, 2]


def test_rows_that_are_added_go_on_top_of_what_others_did(place: Path) -> None:
    write = begin(place)
    done = task(write, (3, "a"), (4, "new"))
    sql(place, "INSERT INTO t VALUES (10, 'a'), (11, 'new')")
    sql(place, "DELETE FROM t WHERE id = 1")
    commit(write, done)
    assert ids(place) == [2, 3, 4, 10, 11]
    assert opened(place).snapshot().table_count == 3


def test_two_writes_at_once_both_count(place: Path) -> None:
    first, second = begin(place), begin(place)
    mine, theirs = task(first, (3, "a"), (4, "new")), task(second, (5, "a"), (6, "new"))
    commit(second, theirs)
    commit(first, mine)
    assert ids(place) == [1, 2, 3, 4, 5, 6]
    assert opened(place).snapshot().table_count == 3


@pytest.mark.parametrize(
    ("replaces", "then"),
    [
        pytest.param(Replaces.NOTHING, [(1, "a"), (2, "b"), (3, "a"), (4, "new"), (5, "a")], id="nothing"),
        pytest.param(Replaces.PARTITIONS, [(2, "b"), (3, "a"), (4, "new"), (5, "a")], id="partitions"),
        pytest.param(Replaces.TABLE, [(3, "a"), (4, "new"), (5, "a")], id="table"),
    ],
)
def test_new_rows_take_the_place_of(place: Path, replaces: Replaces, then: list[Pair]) -> None:
    write = begin(place)
    commit(write, task(write, (3, "a"), (4, "new")), task(write, (5, "a")), replaces=replaces)
    assert held(place) == then


def test_new_rows_take_the_place_of_the_tables_that_were_read(place: Path) -> None:
    write = begin(place)
    commit(write, task(write, (3, "b"), (4, "new")), replaces=Replaces.READ, read=[table_of(place, "a")])
    assert held(place) == [(2, "b"), (3, "b"), (4, "new")]


def test_rows_of_an_older_spec_are_replaced_as_well(place: Path) -> None:
    sql(place, "INSERT INTO t VALUES (7, 'x')")
    sql(place, "ALTER TABLE t SET PARTITIONED BY (id)")
    write = begin(place)
    commit(write, task(write, (7, "moved")), replaces=Replaces.PARTITIONS)
    assert held(place) == [(1, "a"), (2, "b"), (7, "moved")]


def test_the_whole_table_is_replaced_by_nothing(place: Path) -> None:
    write = begin(place)
    commit(write, task(write), replaces=Replaces.TABLE)
    assert held(place) == []


@pytest.mark.parametrize(
    ("replaces", "meanwhile", "refused"),
    [
        pytest.param(Replaces.PARTITIONS, "INSERT INTO t VALUES (9, 'a')", True, id="rows in its partition"),
        pytest.param(Replaces.PARTITIONS, "INSERT INTO t VALUES (9, 'new')", True, id="its new partition"),
        pytest.param(Replaces.PARTITIONS, "INSERT INTO t VALUES (9, 'b')", False, id="rows in another partition"),
        pytest.param(Replaces.TABLE, "INSERT INTO t VALUES (9, 'b')", True, id="rows anywhere in its table"),
        pytest.param(Replaces.TABLE, "INSERT INTO t VALUES (9, 'other')", True, id="a new partition of its table"),
        pytest.param(Replaces.READ, "INSERT INTO t VALUES (9, 'a')", True, id="rows in the table that was read"),
        pytest.param(Replaces.READ, "DELETE FROM t WHERE p = 'a'", True, id="fewer rows in the table that was read"),
        pytest.param(Replaces.READ, "INSERT INTO t VALUES (9, 'b')", False, id="rows in a table that was not read"),
        pytest.param(Replaces.NOTHING_OF_READ, "INSERT INTO t VALUES (9, 'a')", True, id="rows to compare with"),
        pytest.param(
            Replaces.NOTHING_OF_READ, "INSERT INTO t VALUES (9, 'b')", False, id="rows to compare with none of"
        ),
        pytest.param(Replaces.NOTHING, "ALTER TABLE t ALTER COLUMN id DROP NOT NULL", True, id="another schema"),
        pytest.param(Replaces.NOTHING, "ALTER TABLE t ADD COLUMN n INTEGER", False, id="another column"),
        pytest.param(Replaces.READ, "ALTER TABLE t ADD COLUMN n INTEGER", True, id="another column of what was read"),
        pytest.param(Replaces.NOTHING, "ALTER TABLE t SET PARTITIONED BY (id)", False, id="another spec"),
    ],
)
def test_others_who_were_first(place: Path, replaces: Replaces, meanwhile: str, *, refused: bool) -> None:
    write, read = begin(place), [table_of(place, "a")]
    done = task(write, (3, "a"), (4, "new"))
    sql(place, meanwhile)
    before, files = held(place), data_files(place)
    if not refused:
        commit(write, done, replaces=replaces, read=read)
        assert {(3, "a"), (4, "new")} < set(held(place))
        return
    with pytest.raises(SerializationFailure):
        commit(write, done, replaces=replaces, read=read)
    assert held(place) == before
    assert len(files - data_files(place)) == 2


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_table_that_was_dropped_meanwhile(place: Path, *, is_made_again: bool) -> None:
    write = begin(place)
    done = task(write, (3, "a"), (4, "new"))
    sql(place, "DROP TABLE t")
    if is_made_again:
        sql(place, "CREATE TABLE t (id BIGINT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
        sql(place, "INSERT INTO t VALUES (7, 'a'), (8, 'new')")
        assert opened(place).snapshot().version >= write.version
    with pytest.raises((NotFound, SerializationFailure)):
        task(write, (5, "late"))
    with pytest.raises((NotFound, SerializationFailure)):
        commit(write, done)
    if is_made_again:
        assert held(place) == [(7, "a"), (8, "new")]
    else:
        assert not place.exists()


def test_a_write_can_rest_on_what_was_read_earlier(place: Path) -> None:
    read = opened(place).snapshot().version
    sql(place, "INSERT INTO t VALUES (9, 'a')")
    write = SharedWrite.begin(opened(place), read)
    with pytest.raises(SerializationFailure):
        commit(write, task(write, (3, "a")), replaces=Replaces.PARTITIONS)
    commit(write, task(write, (3, "b")), replaces=Replaces.PARTITIONS)
    assert held(place) == [(1, "a"), (3, "b"), (9, "a")]


def test_a_write_that_runs_again_with_its_id_does_nothing(place: Path) -> None:
    write = begin(place)
    commit(write, task(write, (3, "a"), (4, "new")), once=CommitToken.now("monday", 2))
    files = data_files(place)
    again = begin(place)
    with pytest.raises(AlreadyCommitted):
        commit(again, task(again, (3, "a"), (4, "new")), once=CommitToken.now("monday", 2))
    assert ids(place) == [1, 2, 3, 4]
    assert data_files(place) == files


def test_a_write_on_a_branch_stays_there(place: Path) -> None:
    opened(place).create_branch("trial")
    write = SharedWrite.begin(opened(place).on_branch("trial"))
    commit(write, task(write, (3, "a"), (4, "new")), task(write, (5, "a")))
    assert ids(place) == [1, 2]
    publish(opened(place), "trial")
    assert ids(place) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("meanwhile", "held"),
    [
        (("ADD COLUMN more INT",), [(1, None), (3, None)]),
        (("ADD COLUMN more INT DEFAULT 7",), [(1, 7), (3, 7)]),
        (("ADD COLUMN more INT NOT NULL DEFAULT 7",), [(1, 7), (3, 7)]),
        (("ADD COLUMN more INT NOT NULL DEFAULT 7", "ALTER COLUMN more DROP DEFAULT"), None),
        (("ADD COLUMN more INT DEFAULT 7", "ALTER COLUMN more DROP DEFAULT"), [(1, 7), (3, None)]),
        (("ADD COLUMN more INT DEFAULT 7", "ALTER COLUMN more SET DEFAULT 8"), [(1, 7), (3, 8)]),
        (("ADD COLUMN more INT", "DROP COLUMN more", "ADD COLUMN other VARCHAR"), [(1, None), (3, None)]),
        (("ADD COLUMN more INT", "ALTER COLUMN more FIRST"), [(None, 1), (None, 3)]),
        (("ALTER COLUMN id TYPE BIGINT",), None),
        (("ADD COLUMN q VARCHAR AS (p)", "DROP COLUMN id", "ADD COLUMN id INT"), None),
        (("RENAME COLUMN p TO q", "RENAME COLUMN q TO p"), [(1,), (3,)]),
    ],
)
@pytest.mark.parametrize(("spec", "p"), [("", "a"), ("PARTITIONED BY (p)", "a"), ("PARTITIONED BY (p)", "b")])
def test_rows_are_added_beside_new_columns(
    tmp_path: Path, spec: str, p: str, meanwhile: Sequence[str], held: list[tuple[object, ...]] | None
) -> None:
    database = Database(tmp_path)
    database.run(f"CREATE TABLE t (id INT NOT NULL, p VARCHAR) {spec}")
    database.run("INSERT INTO t VALUES (1, 'a')")
    table = database.engine.root.table(TableName("public", "t"))
    write = SharedWrite.begin(table)
    new = pa.table({"id": pa.array([3], pa.int32()), "p": [p]}, schema=table.snapshot().schema.plain)
    parts = sent(sent(write).write([new], evaluate))
    for change in meanwhile:
        database.run(f"ALTER TABLE t {change}")
    if held is None:
        with pytest.raises(SerializationFailure):
            commit(write, parts)
        return
    commit(write, parts)
    assert database.rows("SELECT * EXCEPT (p) FROM t ORDER BY id") == held
    database.run("INSERT INTO t (id, p) VALUES (9, 'c')")
    assert database.rows("SELECT id FROM t ORDER BY id") == [(1,), (3,), (9,)]


def begin_evolved(place: Path, change: str = "ADD COLUMN more VARCHAR") -> SharedWrite:
    """A write of rows with the columns after a change, which is committed with them."""
    table, root = opened(place), Root(Store(str(place.parent)))
    statement = cast("AlterColumns", parse(f"ALTER TABLE t {change}"))
    snapshot = table.snapshot()
    evolution = statement.column_changes(root, TableName("public", "t")).plan(table, snapshot)
    assert evolution is not None
    return SharedWrite.of(table, evolution.on(table.store, snapshot).shown_on(snapshot), evolution)


def evolved_task(write: SharedWrite, *found: Mapping[str, object]) -> WrittenFiles:
    return sent(sent(write).write([pa.Table.from_pylist(list(found))], evaluate))


def stored(place: Path) -> dict[object, Mapping[str, object]]:
    """All rows by their ids, as Lance reads them."""
    found = [row for table in stored_tables(place) for row in table.dataset.to_table().to_pylist()]
    return {row["id"]: row for row in found}


NEW_ROWS = ({"id": 3, "p": "a", "more": "x"}, {"id": 4, "p": "c", "more": None})


@pytest.mark.parametrize(
    "meanwhile", ["", "INSERT INTO t VALUES (9, 'a')", "INSERT INTO t VALUES (9, 'c')", "ALTER TABLE t COMPACT"]
)
def test_columns_are_committed_with_the_rows_that_have_them(place: Path, meanwhile: str) -> None:
    write = begin_evolved(place)
    parts = evolved_task(write, *NEW_ROWS)
    if meanwhile:
        engine = Engine(Root(Store(str(place.parent))), target_partitions=2)
        (engine.query if "COMPACT" in meanwhile else engine.update)(meanwhile)
    before = opened(place).snapshot()
    assert before.schema.plain.names == ["id", "p"]
    token = CommitToken.now("once", 2)
    assert commit(write, parts, once=token) == before.version + 1
    assert opened(place).snapshot().schema.plain.names == ["id", "p", "more"]
    others = {9: None} if meanwhile.startswith("INSERT") else {}
    assert {number: row["more"] for number, row in stored(place).items()} == {
        1: None,
        2: None,
        3: "x",
        4: None,
    } | others
    with pytest.raises(AlreadyCommitted):
        commit(begin(place), task(begin(place), (5, "a")), once=token)
    sql(place, "UPDATE t SET more = 'z' WHERE more IS NULL")
    assert {row["more"] for row in stored(place).values()} == {"x", "z"}


@pytest.mark.parametrize(
    "meanwhile", ["ALTER TABLE t ADD COLUMN other INT", "ALTER TABLE t ADD COLUMN more VARCHAR", "DROP TABLE t"]
)
def test_columns_that_others_have_changed_refuse_the_rows_of_new_ones(place: Path, meanwhile: str) -> None:
    write = begin_evolved(place)
    parts = evolved_task(write, *NEW_ROWS)
    sql(place, meanwhile)
    with pytest.raises((SerializationFailure, NotFound)):
        commit(write, parts)
    assert not place.exists() or set(stored(place)) == {1, 2}


def test_rows_replaced_under_new_columns_must_be_as_they_were(place: Path) -> None:
    first, second = begin_evolved(place), begin_evolved(place)
    read = [table_of(place, "a")]
    sql(place, "INSERT INTO t VALUES (9, 'b')")
    commit(first, evolved_task(first, NEW_ROWS[0]), replaces=Replaces.READ, read=read)
    assert set(stored(place)) == {2, 3, 9}
    with pytest.raises(SerializationFailure):
        commit(second, evolved_task(second, NEW_ROWS[0]), replaces=Replaces.READ, read=read)
    assert {number: row["more"] for number, row in stored(place).items()} == {2: None, 3: "x", 9: None}


def test_columns_are_committed_with_no_rows_as_well(place: Path) -> None:
    before = opened(place).snapshot().version
    assert commit(begin_evolved(place)) == before + 1
    assert opened(place).snapshot().schema.plain.names == ["id", "p", "more"]
    assert {number: row["more"] for number, row in stored(place).items()} == {1: None, 2: None}


def test_columns_of_rows_that_are_discarded_stay_as_they_are(place: Path) -> None:
    write, before = (
        begin_evolved(place, "ADD COLUMN more VARCHAR, ALTER COLUMN id TYPE BIGINT"),
        opened(place).snapshot(),
    )
    write.discard(evolved_task(write, *NEW_ROWS))
    assert (opened(place).snapshot().version, held(place)) == (before.version, [(1, "a"), (2, "b")])
    sql(place, "INSERT INTO t VALUES (3, 'a')")
    assert held(place) == [(1, "a"), (2, "b"), (3, "a")]
    assert all(table.dataset.schema.names == ["id", "p"] for table in stored_tables(place))


def test_columns_that_were_staged_long_ago_and_vacuumed_are_not_committed(place: Path) -> None:
    """Its tasks took more than a day: the versions that were staged for it are gone."""
    write = replace(begin_evolved(place), began=time.time() - 25 * 3600)
    parts = evolved_task(write, NEW_ROWS[0])
    age(place, hours=25)
    vacuum(opened(place), VacuumRules())
    with pytest.raises(SerializationFailure, match="was vacuumed before its commit"):
        commit(write, parts)
    assert held(place) == [(1, "a"), (2, "b")]


def test_columns_of_which_vacuum_has_removed_the_staged_versions_are_not_committed(place: Path) -> None:
    """Rows of a new partition need none of these versions, and are written after they are gone."""
    sql(place, "ALTER TABLE t ADD COLUMN n INT")
    sql(place, "UPDATE t SET n = 1")
    write = replace(begin_evolved(place, "ALTER COLUMN n TYPE BIGINT"), began=time.time() - 25 * 3600)
    age(place, hours=25)
    vacuum(opened(place), VacuumRules())
    parts = evolved_task(write, {"id": 3, "p": "new", "n": 1 << 40})
    with pytest.raises(SerializationFailure, match="vacuumed before their commit"):
        commit(write, parts)
    assert held(place) == [(1, "a"), (2, "b")]
