"""ALTER TABLE … RENAME TO: the table has its new name at once, and nobody takes it, or another one, for the old one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog import plain_table, table
from lance_flight.catalog.commits import transaction, writer
from lance_flight.catalog.maintenance.vacuum import vacuum
from lance_flight.catalog.manifests import manifest as manifests
from lance_flight.catalog.manifests import version_log
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.roots.listings import DirectoryManifest, Listed
from lance_flight.catalog.storage.durability import committing
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import LocationGuard
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import Scope, StatementContext
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.ingest import TableProperties, create
from lance_flight.errors import (
    AlreadyExists,
    Conflict,
    LanceFlightError,
    NotFound,
    OutcomeUnknown,
    SerializationFailure,
    SqlError,
    Unsupported,
)

from tests.engine.database import open_engine
from tests.engine.directory_namespace import lay_out, listed

LAYOUTS = pytest.mark.parametrize("layout", ["", "id"], ids=["plain", "partitioned"])


def put(engine: Engine, name: str, layout: str, *ids: int, schema: str = "public") -> None:
    data = pa.table({"id": list(ids)})
    create(engine.root, TableName(schema, name), data.schema, TableProperties.by(layout), [data])


def ids(engine: Engine, name: str) -> list[int]:
    return engine.query(f"SELECT id FROM {name} ORDER BY id")["id"].to_pylist()


def tables(engine: Engine) -> list[str]:
    return [str(name) for name in engine.root.tables()]


@LAYOUTS
def test_a_table_has_its_new_name_and_no_other(tmp_path: Path, engine: Engine, layout: str) -> None:
    put(engine, "a", layout, 1, 2)
    assert engine.update("ALTER TABLE a RENAME TO b") == 0
    assert tables(engine) == ["public.b"]
    assert ids(engine, "b") == [1, 2]
    assert [path.name for path in tmp_path.iterdir() if path.name[0] == "b"] == ["b" if layout else "b.lance"]
    assert engine.update("INSERT INTO b VALUES (3)") == 1
    assert ids(engine, "b@2" if not layout else "b") == ([1, 2, 3])
    with pytest.raises(NotFound, match="no table 'a'"):
        engine.query("SELECT id FROM a")
    put(engine, "a", layout, 9)
    assert (ids(engine, "a"), ids(engine, "b")) == ([9], [1, 2, 3])


@LAYOUTS
def test_it_stays_in_its_schema(tmp_path: Path, engine: Engine, layout: str) -> None:
    (tmp_path / "s").mkdir()
    put(engine, "a", layout, 1, schema="s")
    engine.update("ALTER TABLE s.a RENAME TO b")
    assert tables(engine) == ["s.b"]
    with pytest.raises(SqlError, match=r"expected the end of the statement, got '\.'"):
        engine.update("ALTER TABLE s.b RENAME TO public.b")


@LAYOUTS
def test_two_tables_that_change_names_are_told_apart(engine: Engine, layout: str) -> None:
    put(engine, "a", layout, 1, 2)
    put(engine, "b", layout, 3, 4)
    other = open_engine(engine.root.store.uri)
    assert (ids(other, "a"), ids(other, "b")) == ([1, 2], [3, 4])
    planned = other.plan("SELECT id FROM a")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        engine.update(f"ALTER TABLE {old} RENAME TO {new}")
    for each in (engine, other):
        assert (ids(each, "a"), ids(each, "b")) == ([3, 4], [1, 2])
    assert planned is not None
    with pytest.raises(Conflict, match="'a' was dropped and made again"):
        other.run(planned.tasks[0]).read_all()


@LAYOUTS
def test_a_transaction_does_not_go_on_with_another_table(engine: Engine, layout: str) -> None:
    put(engine, "a", layout, 1, 2)
    put(engine, "b", layout, 3, 4)
    transaction = SqlTransaction(engine.root, explicit=True)
    query = "SELECT id FROM a"

    def begun() -> QuerySession:
        return engine.sessions.begin(StatementContext(root=engine.root, target_partitions=2, transaction=transaction))

    def read() -> list[int]:
        return begun().frame(query).to_arrow_table()["id"].to_pylist()

    assert sorted(read()) == [1, 2]
    engine.update("ALTER TABLE a RENAME TO c")
    engine.update("ALTER TABLE b RENAME TO a")
    with pytest.raises(LanceFlightError, match="dropped or replaced"):
        read_all(begun, query)


def read_all(session: Callable[[], Any], query: str) -> list[Any]:
    opened = session()
    frame = opened.frame(query)
    return list(opened.batches(frame, frame.schema()))


@LAYOUTS
def test_a_reader_in_flight_is_told_that_its_table_went_away(engine: Engine, layout: str) -> None:
    put(engine, "a", layout, *range(300))
    begun = engine.run(Task(sql="SELECT id FROM a"))
    engine.update("ALTER TABLE a RENAME TO b")
    with pytest.raises(Conflict, match="'a' was dropped or replaced while it was read"):
        begun.read_all()


def test_a_plain_table_with_a_branch_stays_since_lance_knows_its_place(tmp_path: Path, engine: Engine) -> None:
    put(engine, "forked", "", 1)
    lance.dataset(str(tmp_path / "forked.lance")).create_branch("b", 1)
    with pytest.raises(Unsupported, match="absolute place"):
        engine.update("ALTER TABLE forked RENAME TO c")
    assert tables(engine) == ["public.forked"]


def test_nothing_is_renamed_on_a_branch_or_inside_a_transaction(engine: Engine) -> None:
    put(engine, "a", "id", 1)
    with pytest.raises(Unsupported, match="on the main branch only"):
        engine.update("ALTER TABLE a RENAME TO b", scope=Scope(Session(branch="x")))
    transaction = engine.clients.begin(Session())
    with pytest.raises(Unsupported, match="not altered inside a transaction"):
        engine.update("ALTER TABLE a RENAME TO b", scope=Scope(Session(), transaction))
    assert tables(engine) == ["public.a"]


def test_a_root_that_is_the_table_keeps_its_name(engine: Engine, tmp_path: Path) -> None:
    put(engine, "a", "id", 1)
    alone = open_engine(tmp_path / "a", target_partitions=1)
    with pytest.raises(Unsupported, match="'a' is the root itself"):
        alone.update("ALTER TABLE a RENAME TO b")


def renaming(engine: Engine, at: str) -> Callable[[str], None]:
    """Renames the table `a` the first time that a writer comes to a point."""
    left = [at]

    def reached(point: str) -> None:
        if point in left:
            left.remove(point)
            engine.update("ALTER TABLE a RENAME TO b")

    return reached


WRITERS = [
    pytest.param("id", manifests, "manifest_written", "INSERT INTO a VALUES (9)", id="partitioned"),
    pytest.param("", writer, "rows_received", "INSERT INTO a VALUES (9)", id="plain, before its rows are written"),
    pytest.param("", table, "data_written", "INSERT INTO a VALUES (9)", id="plain, after they are"),
    pytest.param("", writer, "rows_received", "UPDATE a SET id = 2", id="plain, changed, before"),
    pytest.param("", table, "data_written", "UPDATE a SET id = 2", id="plain, changed, after"),
    pytest.param("", transaction, "rows_removed", "DELETE FROM a WHERE id = 1 OR id = 2", id="plain, deleted"),
]


@pytest.mark.parametrize(("layout", "module", "point", "sql"), WRITERS)
def test_a_writer_is_not_told_that_rows_are_stored_which_nobody_finds(  # noqa: PLR0917
    engine: Engine, monkeypatch: pytest.MonkeyPatch, layout: str, module: Any, point: str, sql: str
) -> None:
    put(engine, "a", layout, 1)
    monkeypatch.setattr(module, "failpoint", renaming(engine, point))
    with pytest.raises((SerializationFailure, NotFound), match=r"'a|no table"):
        engine.update(sql)
    assert ids(engine, "b") == [1]
    assert tables(engine) == ["public.b"]
    assert engine.root.schemas() == ["public"]


def test_a_library_writer_is_told_that_its_table_has_gone(tmp_path: Path, engine: Engine) -> None:
    put(engine, "a", "id", 1)
    namespace = PartitionedNamespace.open(Store(str(tmp_path / "a")))
    transaction = namespace.begin()
    engine.update("ALTER TABLE a RENAME TO b")
    namespace.write(transaction, [pa.table({"id": [9]})], evaluate)
    with pytest.raises(SerializationFailure), namespace.changing(transaction):
        namespace.commits.commit(transaction)
    assert ids(engine, "b") == [1]


def test_a_vacuum_does_not_go_on_in_another_table(tmp_path: Path, engine: Engine) -> None:
    put(engine, "a", "id", 1)
    put(engine, "b", "id", 2, 3)
    old = (tmp_path / "b").stat().st_mtime - 1_000_000
    for file in (tmp_path / "b").rglob("*"):
        os.utime(file, (old, old))

    def exchange(done: int, _: int) -> None:
        if done == 1:
            engine.update("ALTER TABLE a RENAME TO c")
            engine.update("ALTER TABLE b RENAME TO a")

    with pytest.raises(Conflict, match="'a' was dropped or renamed"):
        vacuum(PartitionedNamespace.open(Store(str(tmp_path / "a"))), progress=exchange)
    assert (ids(engine, "a"), ids(engine, "c")) == ([2, 3], [1])


def test_a_commit_takes_nothing_away_from_a_table_that_has_the_name_by_now(tmp_path: Path, engine: Engine) -> None:
    put(engine, "a", "", 1)
    put(engine, "b", "", 2)
    standing = LocationGuard.of(Store(str(tmp_path / "a.lance")), 1)
    engine.update("ALTER TABLE a RENAME TO c")
    engine.update("ALTER TABLE b RENAME TO a")
    with pytest.raises(OutcomeUnknown, match="a commit to 'a' was made, and the table was dropped or renamed"):
        standing.check("a", 1, "none of ours")
    assert ids(engine, "a") == [2]


def exchanging(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`committing` that puts table b in the place of a right before its first commit."""

    @contextmanager
    def exchange(*arguments: Any) -> Iterator[None]:
        monkeypatch.undo()
        engine.update("ALTER TABLE a RENAME TO c")
        engine.update("ALTER TABLE b RENAME TO a")
        with committing(*arguments):
            yield

    return exchange


@pytest.mark.parametrize("later", [0, 2], ids=["as many versions", "more versions"])
@LAYOUTS
def test_a_commit_puts_nothing_into_a_table_that_takes_the_name_meanwhile(
    engine: Engine, layout: str, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(engine, "a", layout, 1)
    put(engine, "b", layout, 2)
    for number in range(later):
        engine.update(f"INSERT INTO b VALUES ({10 + number})")
    before = ids(engine, "b")
    module = manifests if layout else partitions

    monkeypatch.setattr(module, "committing", exchanging(engine, monkeypatch))
    with pytest.raises(SerializationFailure, match="was dropped"):
        engine.root.table(TableName("public", "a")).append([pa.table({"id": [3]})], evaluate)
    assert (ids(engine, "a"), ids(engine, "c")) == (before, [1])
    engine.update("INSERT INTO a VALUES (4)")
    assert ids(engine, "a") == sorted([*before, 4])


IN_PLACE = {
    "a tag": lambda a: a.create_tag("new"),
    "a tag of another snapshot": lambda a: a.replace_tag("old"),
    "a tag less": lambda a: a.drop_tag("old"),
    "metadata": lambda a: a.log.update_metadata(a.snapshot(), {"k": "v"}),
    "a rollback": lambda a: a.rollback(a.snapshot().version - 1),
}
FORKS = {
    "a branch": lambda a: a.create_branch("new"),
    "a column of the manifest": lambda a: a.log.add_columns(a.snapshot(), [pa.field("k", pa.int64())]),
}


@pytest.mark.parametrize(
    ("layout", "change"),
    [*(("id", change) for change in IN_PLACE | FORKS), *(("", change) for change in IN_PLACE)],
)
def test_what_lance_changes_in_place_never_meets_another_table(
    tmp_path: Path, engine: Engine, layout: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        put(engine, name, layout, *range(2 if name == "a" else 3))
        engine.update(f"INSERT INTO {name} VALUES (7)")
        engine.root.table(TableName("public", name)).create_tag("old")
    changed = engine.root.table(TableName("public", "a"))
    changed.snapshot()

    def state(name: str) -> Any:
        table = lance.dataset(str(tmp_path / (f"{name}/__manifest" if layout else f"{name}.lance")))
        return ids(engine, name), table.version, table.metadata, table.tags.list(), table.branches.list()

    before = state("b")

    for module in (version_log, manifests, plain_table):
        if hasattr(module, "committing"):
            monkeypatch.setattr(module, "committing", exchanging(engine, monkeypatch))
    with pytest.raises((SerializationFailure, NotFound)):
        (IN_PLACE | FORKS)[change](changed)
    assert state("a") == before


def test_a_rename_waits_for_what_is_changed_in_place(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(engine, "a", "id", 1)
    is_waiting, real = Event(), fcntl.flock

    def flock(handle: int, operation: int) -> None:
        try:
            real(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            is_waiting.set()
            real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    rename = Thread(target=engine.update, args=["ALTER TABLE a RENAME TO b"])
    table = engine.root.table(TableName("public", "a"))
    with table.log.changing_references(table.snapshot()) as main:
        rename.start()
        assert is_waiting.wait(60)
        main.tags.create("x", 1)
    rename.join()
    assert list(lance.dataset(str(tmp_path / "b" / "__manifest")).tags.list()) == ["x"]


def test_a_listed_table_changes_its_row_and_keeps_its_directory(tmp_path: Path, engine: Engine) -> None:
    lay_out(tmp_path, {"a": "a.lance", "ns$t": "12_ns$t"})
    engine.update("ALTER TABLE a RENAME TO b")
    engine.update("ALTER TABLE ns.t RENAME TO u")
    assert listed(tmp_path) == {"b": "a.lance", "ns$u": "12_ns$t"}
    assert tables(engine) == ["ns.u", "public.b"], "what lies in a.lance is no second table"
    assert (ids(engine, "b"), ids(engine, "ns.u")) == ([0], [1])
    with pytest.raises(AlreadyExists):
        engine.update("ALTER TABLE b RENAME TO b")
    with pytest.raises(NotFound):
        ids(engine, "a")


def test_what_else_a_row_says_stays(tmp_path: Path, engine: Engine) -> None:
    lay_out(tmp_path, {"a": "a.lance"})
    stored = lance.dataset(str(tmp_path / "__manifest"))
    stored.add_columns(pa.schema([pa.field("somebody_elses", pa.utf8())]))
    stored.update({"somebody_elses": "'x'", "metadata": "'{\"k\": 1}'"})
    engine.update("ALTER TABLE a RENAME TO b")
    (row,) = lance.dataset(str(tmp_path / "__manifest")).to_table().to_pylist()
    assert row == {
        "object_id": "b",
        "object_type": "table",
        "location": "a.lance",
        "metadata": json.dumps({"k": 1}),
        "somebody_elses": "x",
    }


RIVALS = {
    "the new name": lambda rival: rival.make_visible(rival.listing(), [Listed("n", "elsewhere")], ""),
    "the old name": lambda rival: rival.forget(Listed("a", "a.lance")),
    "another new name for the old one": lambda rival: rival.rename(Listed("a", "a.lance"), ("m",)),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_of_two_who_are_after_one_name_the_second_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    lay_out(tmp_path, {"a": "a.lance", "other": "other.lance"})
    mine, theirs = DirectoryManifest(Store(str(tmp_path))), DirectoryManifest(Store(str(tmp_path)))
    opened = mine._writable()
    RIVALS[rival](theirs)
    before = listed(tmp_path)
    monkeypatch.setattr(mine, "_writable", lambda: opened)
    with pytest.raises(Conflict):
        mine.rename(Listed("a", "a.lance"), ("n",))
    assert listed(tmp_path) == before


def test_a_name_that_is_listed_is_taken_and_one_that_is_not_is_not_there(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a": "a.lance", "n": None})
    before = listed(tmp_path)
    manifest = DirectoryManifest(Store(str(tmp_path)))
    with pytest.raises(AlreadyExists, match="'n' is in the __manifest"):
        manifest.rename(Listed("a", "a.lance"), ("n",))
    with pytest.raises(NotFound, match="no table 'm'"):
        manifest.rename(Listed("m", "m.lance"), ("k",))
    assert listed(tmp_path) == before


def test_a_plain_table_takes_rows_after_it_was_renamed(engine: Engine) -> None:
    put(engine, "a", "", 1)
    engine.update("ALTER TABLE a RENAME TO b")
    data = pa.table({"id": [2]})
    target = TableName("public", "b")
    assert engine.ingest(target, data.to_reader(), create_missing=False, existing=IfExists.APPEND) == 1
    assert ids(engine, "b") == [1, 2]
