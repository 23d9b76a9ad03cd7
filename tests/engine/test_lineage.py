"""Rows that keep their ids: what UPDATE, MERGE, maintenance and evolution do to lineage, against a model of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.writes.ingest import IngestOptions
from lance_flight.errors import DataError, Unsupported

from tests.catalog.aging import age
from tests.engine.database import open_engine
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # a long property

T = TableName("public", "t")
COLUMNS = "id BIGINT NOT NULL, p VARCHAR, v BIGINT"
LINEAGE = ["_partition", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
LAYOUTS = pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])


@dataclass(frozen=True, slots=True)
class Row:
    """A row as `t$lineage` shows it."""

    p: str | None
    v: int | None
    partition: str | None
    row_id: int
    created: int
    updated: int

    @property
    def name(self) -> tuple[str | None, int]:
        """What no other row is ever called."""
        return self.partition, self.row_id


def made(place: Path | str, layout: str = "PARTITIONED BY (p)") -> Engine:
    engine = open_engine(place)
    engine.update(f"CREATE TABLE t ({COLUMNS}) {layout} WITH (stable_row_ids = true)")
    return engine


def lineage(engine: Engine, name: str = "t") -> dict[int, Row]:
    """The rows by their `id`."""
    found = engine.query(f'SELECT id, p, v, {", ".join(LINEAGE)} FROM "{name}$lineage"').to_pylist()
    rows = {row.pop("id"): Row(*row.values()) for row in found}
    assert len({row.name for row in rows.values()}) == len(found), "no two rows have one name"
    return rows


# What is done to rows, each with the rows it changes: `id`s that keep their place, and those that go elsewhere.


@dataclass(frozen=True, slots=True)
class Change:
    """A statement and what it means for the rows that were there before it."""

    sql: str
    changed: frozenset[int] = frozenset()
    renamed: frozenset[int] = frozenset()


PARTS = ("a", "b", "c")


@st.composite
def changes(draw: st.DrawFn, rows: dict[int, Row], free: int) -> Change:
    """Something to do to a table with these rows; `free` is an id that none has."""
    some = frozenset(draw(st.sets(st.sampled_from(sorted(rows)), max_size=4))) if rows else frozenset()
    listed = ", ".join(map(str, sorted(some))) or "-1"
    part = draw(st.sampled_from(PARTS))
    match draw(st.sampled_from(["insert", "update", "move", "merge", "delete", "overwrite", "compact", "evolve"])):
        case "insert":
            values = ", ".join(f"({free + n}, '{draw(st.sampled_from(PARTS))}', {n})" for n in range(3))
            return Change(f"INSERT INTO t (id, p, v) VALUES {values}")
        case "update":
            return Change(f"UPDATE t SET v = v + 1 WHERE id IN ({listed})", changed=some)
        case "move":
            moved = frozenset(number for number in some if rows[number].p != part)
            return Change(f"UPDATE t SET p = '{part}' WHERE id IN ({listed})", changed=some - moved, renamed=moved)
        case "merge":
            source = ", ".join(f"({number}, 5)" for number in [*sorted(some), free])
            return Change(
                f"MERGE INTO t USING (VALUES {source}) AS s(id, v) ON t.id = s.id"
                " WHEN MATCHED AND t.v > 1000 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
                f" WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, '{part}', s.v)",
                changed=some,
            )
        case "delete":
            return Change(f"DELETE FROM t WHERE id IN ({listed})", renamed=some)
        case "overwrite":
            gone = frozenset(number for number, row in rows.items() if row.p == part)
            return Change(f"INSERT OVERWRITE t (id, p, v) VALUES ({free}, '{part}', 0)", renamed=gone)
        case "compact":
            return Change("ALTER TABLE t COMPACT")
        case _:
            return Change(f"ALTER TABLE t ADD COLUMN c{free} BIGINT{draw(st.sampled_from(['', ' DEFAULT 7']))}")


def run(engine: Engine, sql: str) -> None:
    if sql.endswith("COMPACT"):
        engine.query(sql)
    else:
        engine.update(sql)


@settings(max_examples=settings.default.max_examples // 6)
@given(data=st.data())
def test_rows_keep_their_names_for_as_long_as_they_stay_where_they_are(data: st.DataObject) -> None:
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        engine = made(place)
        engine.update("INSERT INTO t VALUES " + ", ".join(f"({n}, '{PARTS[n % 3]}', {n})" for n in range(1, 13)))
        before, free = lineage(engine), 13
        used = {row.name for row in before.values()}
        for _ in range(data.draw(st.integers(1, 8))):
            change = data.draw(changes(before, free))
            if before and not change.sql.startswith(("ALTER", "INSERT OVERWRITE")) and data.draw(st.booleans()):
                engine.update(
                    f"CREATE INDEX IF NOT EXISTS ON t ({data.draw(st.sampled_from(['id', 'v']))}) WITH (min_rows = 1)"
                )
            version = engine.root.read(T, lambda table: table.snapshot().version)  # type: ignore[union-attr]
            run(engine, change.sql)
            after, free = lineage(engine), free + 3
            for number, row in after.items():
                was = before.get(number)
                if was is None or number in change.renamed:
                    assert row.name not in used, (change, "a name is never used again")
                    assert row.created == row.updated
                elif number in change.changed:
                    assert (row.name, row.created) == (was.name, was.created), change
                    assert row.updated > was.updated
                elif "DEFAULT" in change.sql:
                    # Every file has a new column: to Lance its rows are changed, and to nobody who asks for changes.
                    before[number] = was = replace(was, updated=row.updated)
                    assert row == was, change
                else:
                    assert row == was, change
            used |= {row.name for row in after.values()}
            assert changed(engine, version) == {
                ("delete", *row.name, row.updated) for n, row in before.items() if after.get(n) != row
            } | {("insert", *row.name, row.updated) for n, row in after.items() if before.get(n) != row}
            found = engine.query("SELECT id, v FROM t WHERE v >= 0").to_pylist()
            assert {row["id"]: row["v"] for row in found} == {number: row.v for number, row in after.items()}
            for number in list(after)[:: max(len(after) // 2, 1)]:
                assert engine.query(f"SELECT v FROM t WHERE id = {number}")["v"].to_pylist() == [after[number].v]
            before = after


def changed(engine: Engine, since: int) -> set[tuple[str, str, int, int]]:
    newest = engine.root.read(T, lambda table: table.snapshot().version)  # type: ignore[union-attr]
    sql = f"SELECT _change, _partition, _rowid, _row_last_updated_at_version FROM table_changes('t', {since}, {newest})"
    return {tuple(row.values()) for row in engine.query(sql).to_pylist()}


@LAYOUTS
def test_a_changed_row_is_told_of_under_one_id(tmp_path: Path, layout: str) -> None:
    engine = made(tmp_path, layout)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)")
    before = lineage(engine)
    since = version_of(engine)
    engine.update("UPDATE t SET v = 20 WHERE id = 2")
    engine.update("DELETE FROM t WHERE id = 3")
    after = lineage(engine)
    assert {number: row.row_id for number, row in after.items()} == {n: before[n].row_id for n in (1, 2)}
    assert after[1] == before[1]
    assert (after[2].created, after[2].updated > before[2].updated) == (before[2].created, True)
    sql = f"SELECT _change, _rowid, id, v FROM table_changes('t', {since}, {version_of(engine)}) ORDER BY id, _change"
    assert [tuple(row.values()) for row in engine.query(sql).to_pylist()] == [
        ("delete", before[2].row_id, 2, 2),
        ("insert", before[2].row_id, 2, 20),
        ("delete", before[3].row_id, 3, 3),
    ]


def version_of(engine: Engine) -> int:
    return int(
        engine.root.read(
            T, lambda table: table.snapshot().version if hasattr(table, "snapshot") else table.open().version
        )
    )


@LAYOUTS
def test_what_stock_lance_sees_is_what_t_lineage_shows(tmp_path: Path, layout: str) -> None:
    engine = made(tmp_path, layout)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)")
    engine.update("UPDATE t SET v = v + 1 WHERE id <> 2")
    if layout:
        stored = {table.object_id: table.dataset for table in stored_tables(tmp_path / "t")}
    else:
        stored = {None: lance.dataset(str(tmp_path / "t.lance"))}
    assert all(dataset.has_stable_row_ids for dataset in stored.values())
    rows = {
        row["id"]: (object_id, *(row[name] for name in LINEAGE[1:]))
        for object_id, dataset in stored.items()
        for row in dataset.to_table(columns=["id", *LINEAGE[1:]]).to_pylist()
    }
    assert {n: (r.partition, r.row_id, r.created, r.updated) for n, r in lineage(engine).items()} == rows


def test_a_transaction_that_changes_a_row_twice_and_adds_others_keeps_its_id(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2)")
    before = lineage(engine)
    session = engine.clients.session("client")
    scope = Scope(session, engine.clients.begin(session))
    for sql in (
        "UPDATE t SET v = 10 WHERE id = 1",
        "INSERT INTO t VALUES (3, 'a', 3), (4, 'z', 4)",
        "UPDATE t SET v = v + 1 WHERE id IN (1, 3, 4)",
    ):
        engine.update(sql, scope=scope)
    assert scope.transaction is not None
    engine.clients.end(scope.transaction, commit=True)
    after = lineage(engine)
    assert (after[1].name, after[1].created, after[1].v) == (before[1].name, before[1].created, 11)
    assert after[2] == before[2]
    assert (after[3].v, after[4].v) == (4, 5)


def test_lineage_is_of_a_version_like_the_rows(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    first, before = version_of(engine), lineage(engine)
    engine.update("UPDATE t SET v = 10 WHERE id = 1")
    engine.query("ALTER TABLE t COMPACT")
    assert lineage(engine, f"t@{first}") == before
    engine.update(f"ALTER TABLE t ROLLBACK TO {first}")
    assert lineage(engine) == before
    engine.update("INSERT INTO t VALUES (3, 'a', 3)")
    assert lineage(engine)[3].row_id > max(row.row_id for row in before.values())


def test_a_branch_has_lineage_of_its_own_until_it_is_published(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 3)")
    before = lineage(engine)
    engine.update("ALTER TABLE t CREATE BRANCH side")
    engine.update('UPDATE "t@side" SET v = 10 WHERE id = 1')
    assert lineage(engine) == before
    engine.update("ALTER TABLE t PUBLISH BRANCH side")
    after = lineage(engine)
    assert (after[1].name, after[1].created, after[1].v) == (before[1].name, before[1].created, 10)
    assert {n: (row.name, row.created) for n, row in after.items()} == {
        n: (row.name, row.created) for n, row in before.items()
    }


def test_rows_are_found_by_their_ids_and_partitions_are_pruned(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'b', 3), (4, NULL, 4)")
    rows = lineage(engine)
    for number, row in rows.items():
        sql = f"""SELECT id FROM "t$lineage" WHERE _rowid = {row.row_id} AND _partition = '{row.partition}'"""
        assert engine.query(sql)["id"].to_pylist() == [number]
    sql = """EXPLAIN SELECT id FROM "t$lineage" WHERE p = 'b' AND _rowid >= 0"""
    assert "partitions: 1 / 3" in str(engine.query(sql).to_pylist())
    found = engine.query("""SELECT t.id FROM t JOIN "t$lineage" l ON l.id = t.id AND l.p = t.p ORDER BY 1""")
    assert found["id"].to_pylist() == [1, 2, 3]
    assert engine.query('SELECT count(*) AS n FROM "t$lineage"')["n"].to_pylist() == [4]


def test_a_merge_that_changes_a_row_twice_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1)")
    before = lineage(engine)
    with pytest.raises(DataError, match="finds several rows of its source for one row of 't'"):
        engine.update(
            "MERGE INTO t USING (VALUES (1, 5), (1, 6)) AS s(id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
        )
    assert lineage(engine) == before


def test_tables_of_other_writers_have_no_lineage(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1)")
    engine.update("CREATE TABLE other (id BIGINT NOT NULL, p VARCHAR, v BIGINT)")
    engine.update("INSERT INTO other VALUES (2, 'b', 2)")
    engine.update("ALTER TABLE t ATTACH TABLE other PARTITION (p = 'b')")
    engine.update("UPDATE t SET v = v + 1")
    found = engine.query(f'SELECT id, v, {", ".join(LINEAGE[1:])} FROM "t$lineage" ORDER BY id').to_pylist()
    assert [row["v"] for row in found] == [2, 3]
    assert found[0]["_rowid"] == 0
    assert [found[1][name] for name in LINEAGE[1:]] == [None] * 3


@pytest.mark.parametrize("option", [{}, {"stable_row_ids": "false"}, {"stable_row_ids": "true"}])
@pytest.mark.parametrize("by", [{}, {"partition_by": "p"}], ids=["plain", "partitioned"])
def test_an_ingest_makes_tables_either_way(tmp_path: Path, option: dict[str, str], by: dict[str, str]) -> None:
    engine = open_engine(tmp_path)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"], "v": pa.array([1, 2], pa.int64())})
    options = IngestOptions.of(by | option)
    engine.ingest(T, rows.to_reader(), create_missing=True, existing=IfExists.FAIL, options=options)
    if option.get("stable_row_ids") == "true":
        assert set(lineage(engine)) == {1, 2}
    else:
        with pytest.raises(Unsupported, match="was made without stable_row_ids"):
            lineage(engine)


def test_a_row_that_came_back_is_another_one_even_where_snapshots_between_have_expired(tmp_path: Path) -> None:
    engine = made(tmp_path)
    engine.update("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 2), (3, 'a', 3)")
    before = lineage(engine)
    engine.update("ALTER TABLE t CREATE TAG first")
    engine.update("DELETE FROM t WHERE id = 1")
    engine.update("INSERT INTO t VALUES (1, 'a', 1)")
    engine.query("ALTER TABLE t COMPACT")
    age(tmp_path / "t", hours=1)
    engine.query("VACUUM t RETAIN 0 HOURS FORCE")
    assert len(engine.query("SELECT 1 FROM t$snapshots")) == 2
    newest = version_of(engine)
    found = engine.query(f"SELECT _change, id, _rowid FROM table_changes('t', 'first', {newest}) ORDER BY _change")
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("delete", 1, before[1].row_id),
        ("insert", 1, lineage(engine)[1].row_id),
    ]
