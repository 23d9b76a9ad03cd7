"""What is restored from a backup is what the root was: read by us and by stock Lance, verified, written and vacuumed."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from lance_flight.catalog.backup.backup_format import backup_at
from lance_flight.catalog.backup.restoring import check_backup, restore
from lance_flight.catalog.backup.saving import BackupRules, backup
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import InvalidInput, LanceFlightError, NotFound, Unsupported

from tests.backup.roots import NAMES, content, engine_of, make, run
from tests.stock import stored_rows

T = TableName("public", "t")


def saved(root: Path, target: Path, rules: BackupRules | None = None) -> None:
    """Back up a root."""
    backup(Root(Store(str(root))), Store(str(target)), rules or BackupRules())


def restored(target: Path, root: Path, only: TableName | None = None) -> Path:
    """Restore the newest backup of a target."""
    restore(backup_at(Store(str(target))), Store(str(root)), only)
    return root


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_a_root_comes_back_at_another_place(tmp_path: Path, name: str) -> None:
    root = make(tmp_path / "old" / "root", name)
    before = content(root)
    saved(root, tmp_path / "target")
    root.rename(tmp_path / "gone")
    new = restored(tmp_path / "target", tmp_path / "new" / "root")
    assert content(new) == before
    assert check_backup(backup_at(Store(str(tmp_path / "target")))).is_sound
    for table in map(Root(Store(str(new))).table, Root(Store(str(new))).tables()):
        assert verify(table, evaluate, table.snapshot()).is_sound
    assert [path.name for path in new.rglob("*") if "restore" in path.name or path.suffix == ".draft"] == []
    assert list(new.parent.iterdir()) == [new]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "nothing"])
def test_a_restored_root_is_written_compacted_and_vacuumed(tmp_path: Path, name: str) -> None:
    saved(make(tmp_path / "old" / "root", name), tmp_path / "target")
    (tmp_path / "old").rename(tmp_path / "gone")
    new = restored(tmp_path / "target", tmp_path / "root")
    root = Root(Store(str(new)))
    before = content(new)
    for each in root.tables():
        engine_of(new).update(
            f'INSERT INTO "{each.db_schema}"."{each.name}" SELECT * FROM "{each.db_schema}"."{each.name}"'
        )
        table = root.table(each)
        if table.is_partitioned:
            compact(table)
        vacuum(table, VacuumRules(retain_hours=0, transaction_hours=0, force=True))
    doubled = {str(each): sorted(before[str(each)] * 2) for each in root.tables()}
    after = content(new)
    assert {name: after[name] for name in doubled} == doubled


@pytest.mark.parametrize(
    "name",
    ["partitions", "several spec versions", "deleted and changed rows", "a published branch, and one that is not"],
)
def test_stock_lance_reads_the_same_rows(tmp_path: Path, name: str) -> None:
    root = make(tmp_path / "old", name)
    before = sorted(map(repr, stored_rows(root / "t").to_pylist()))
    saved(root, tmp_path / "target")
    root.rename(tmp_path / "gone")
    new = restored(tmp_path / "target", tmp_path / "new")
    assert sorted(map(repr, stored_rows(new / "t").to_pylist())) == before


def test_an_older_snapshot_and_a_tagged_one_are_saved_by_name(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "deleted and changed rows")
    table = Root(Store(str(root))).table(T)
    old = next(version for version, operation in sorted(table.log.operations().items()) if "append" in operation)
    table.create_tag("first", old)
    expected = engine_of(root).query(f'SELECT * FROM "t@{old}"').num_rows
    for number, at in enumerate([old, "first"]):
        target = tmp_path / f"target-{number}"
        saved(root, target, BackupRules(table=T, at=at))
        new = restored(target, tmp_path / f"new-{number}")
        found = Root(Store(str(new))).table(T)
        assert (found.snapshot().version, [tag.name for tag in found.tags]) == (old, ["first"])
        assert engine_of(new).query("SELECT * FROM t").num_rows == expected == 4
        run(new, "INSERT INTO t VALUES (100, 'a', 1)")
        assert engine_of(new).query(f'SELECT * FROM "t@{old}"').num_rows == expected


def test_one_table_is_restored_of_many(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "schemas")
    saved(root, tmp_path / "target")
    new = restored(tmp_path / "target", tmp_path / "new", TableName("s", "t"))
    assert content(new) == {"schemas": ["public", "s"], "s.t": content(root)["s.t"]}


def test_one_table_is_saved_of_many(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "schemas")
    saved(root, tmp_path / "target", BackupRules(table=TableName("s", "pl")))
    new = restored(tmp_path / "target", tmp_path / "new")
    assert content(new) == {"schemas": ["public", "s"], "s.pl": content(root)["s.pl"]}


def test_what_is_not_kept_is_said(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "a tag, and one of an older snapshot")
    run(root, "ALTER TABLE t CREATE BRANCH wip")
    saved(root, tmp_path / "target")
    said = backup_at(Store(str(tmp_path / "target"))).manifest.not_kept
    assert [line for line in said if "other snapshots" in line and "tags" not in line]
    assert {"public.t: branches wip", "public.t: tags of other snapshots, before"} <= set(said)


def test_secrets_and_leases_are_not_in_a_backup(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "plain tables and views")
    (root / ".lance-flight" / "ticket.key").write_bytes(b"k" * 32)
    saved(root, tmp_path / "target")
    below = [path.name for path in (tmp_path / "target").glob("*/files/.lance-flight/*")]
    assert below
    assert all(name.startswith("view-") for name in below)


def shallow_clone(root: Path) -> BackupRules:
    """Put a table into a root that has its files in another one's directory."""
    import lance

    lance.dataset(f"{root}/pl.lance").shallow_clone(f"{root}/clone.lance", 1)
    return BackupRules()


REFUSED = {
    "a shallow clone of another table": (shallow_clone, Unsupported, "clone.lance"),
    "a snapshot of no table": (lambda _: BackupRules(at=1), InvalidInput, "--table"),
    "a table that is not there": (lambda _: BackupRules(table=T), NotFound, "'t'"),
    "a table to leave out that is not there": (lambda _: BackupRules(exclude=(T,)), NotFound, "'t'"),
    "a snapshot that is not there": (lambda _: BackupRules(table=TableName("public", "pl"), at=99), NotFound, "99"),
    "a tag that is not there": (lambda _: BackupRules(table=TableName("public", "pl"), at="x"), NotFound, "'x'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_saved_is_refused_by_name(tmp_path: Path, name: str) -> None:
    root = make(tmp_path / "old", "plain tables and views")
    rules, error, says = REFUSED[name]
    with pytest.raises(LanceFlightError, match=says) as raised:
        saved(root, tmp_path / "target", rules(root))
    assert type(raised.value) is error
    assert not list((tmp_path).glob("target/*/backup.jsonl"))


def test_a_table_that_cannot_be_saved_is_left_out(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "plain tables and views")
    shallow_clone(root)
    saved(root, tmp_path / "target", BackupRules(exclude=(TableName("public", "clone"),)))
    new = restored(tmp_path / "target", tmp_path / "new")
    assert content(new).keys() == {"schemas", "public.pl", "public.v"}


@pytest.mark.parametrize("place", ["root/target", "root", "."])
def test_a_target_and_a_root_lie_apart(tmp_path: Path, place: str) -> None:
    root = make(tmp_path / "root", "partitions")
    with pytest.raises(InvalidInput, match="apart"):
        saved(root, (tmp_path / place).resolve())


@pytest.mark.parametrize("what", ["a directory that is not empty", "a file", "a link"])
def test_a_place_that_is_taken_is_not_restored_over(tmp_path: Path, what: str) -> None:
    saved(make(tmp_path / "old", "partitions"), tmp_path / "target")
    new = tmp_path / "new"
    if what == "a file":
        new.write_text("mine")
    elif what == "a link":
        new.symlink_to(tmp_path / "old")
    else:
        new.mkdir()
        (new / "mine").write_text("mine")
    with pytest.raises(LanceFlightError, match="not empty"):
        restored(tmp_path / "target", new)
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_directory_that_is_called_like_an_unfinished_restore_is_left_alone(tmp_path: Path) -> None:
    saved(make(tmp_path / "old", "partitions"), tmp_path / "target")
    mine = tmp_path / ".new.restoring" / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(LanceFlightError, match="no unfinished restore"):
        restored(tmp_path / "target", tmp_path / "new")
    assert (mine.read_text(), (tmp_path / "new").exists()) == ("mine", False)


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "partitions")
    saved(root, tmp_path / "target")
    (tmp_path / "new").mkdir()
    assert content(restored(tmp_path / "target", tmp_path / "new")) == content(root)


def test_indices_are_read_where_they_are_restored(tmp_path: Path) -> None:
    root = make(tmp_path / "old", "indices")
    saved(root, tmp_path / "target")
    root.rename(tmp_path / "gone")
    new = restored(tmp_path / "target", tmp_path / "new")
    for table in Root(Store(str(new))).tables():
        assert engine_of(new).query(f"SELECT id FROM {table} WHERE id = 3")["id"].to_pylist() == [3]
    indexed = {path.parent.name for path in (new / "pl.lance" / "_indices").glob("*/*")}
    assert (
        {str(each.uuid) for found in lance.dataset(f"{new}/pl.lance").describe_indices() for each in found.segments}
        == indexed
        != set()
    )
