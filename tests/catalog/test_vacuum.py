"""Vacuum: what nobody needs goes, what anybody may need stays, wherever it stops."""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance_flight.catalog.commits import commit
from lance_flight.catalog.maintenance import vacuum as vacuuming
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import (
    TRANSACTION_FLOOR_HOURS,
    SweepTotals,
    VacuumReport,
    VacuumRules,
    vacuum,
)
from lance_flight.catalog.publication import publish
from lance_flight.catalog.storage import leases
from lance_flight.catalog.storage.leases import expiring_snapshots
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Corrupt, InvalidInput, NotFound, Refused

from tests.catalog.aging import ALL_THAT_MAY_GO, age, file_names, table_files, versions
from tests.catalog.small_table import SCHEMA, SPEC, Written, ids, opened, rows, written
from tests.faults.failpoints import left_behind, watched
from tests.selection import IS_FULL
from tests.stock import manifest, stored_tables

pytestmark = pytest.mark.slow  # a vacuum that is stopped at every step

HISTORIES = 40 if IS_FULL else 2


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A namespace of five snapshots after the first, with two partitions."""
    made = tmp_path_factory.mktemp("template") / "t"
    PartitionedNamespace.create(Store(str(made)), SCHEMA, SPEC)
    for number in range(1, 6):
        opened(made).append([rows((number, "a"), (number + 10, "b"))], evaluate)
    return made


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "t"))


def clean(place: Path, rules: VacuumRules = ALL_THAT_MAY_GO) -> VacuumReport:
    """Vacuum, with nothing left out."""
    report = vacuum(opened(place), rules)
    assert report.skipped == ()
    return report


def ids_at(place: Path, version: int) -> list[int]:
    """What a snapshot shows."""
    found = []
    for tables in opened(place).snapshot(version).tables:
        for table in tables.tables():
            dataset = partitions.open_at(Store(str(place / table.location)), table.pin)
            found += dataset.to_table()["id"].to_pylist()
    return sorted(found)


def test_old_snapshots_go_with_everything_that_only_they_need(place: Path) -> None:
    compact(opened(place))
    age(place, hours=200)
    before, size = len(file_names(place)), sum((place / name).stat().st_size for name in file_names(place))
    report = clean(place, VacuumRules())
    assert report.snapshots == 1
    assert ids(place) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
    assert [len(table.dataset.versions()) for table in stored_tables(place)] == [1, 1]
    assert len([name for name in table_files(place) if "/data/" in name]) == 2
    left = sum((place / name).stat().st_size for name in file_names(place))
    assert (report.total.files, report.total.bytes) == (before - len(file_names(place)), size - left)
    with pytest.raises(NotFound):
        opened(place).snapshot(3)


@pytest.mark.parametrize(
    ("rules", "opened_snapshots", "left"),
    [
        # The one that stays: what the ten that go have pinned is older than any transaction.
        pytest.param(VacuumRules(), 1, 1, id="by retention"),
        pytest.param(
            VacuumRules(retain_hours=1, transaction_hours=240, force=True), 11, 2, id="what they pin may be young"
        ),
    ],
)
def test_expired_snapshots_are_opened_where_what_they_pin_may_be_young(
    place: Path, monkeypatch: pytest.MonkeyPatch, rules: VacuumRules, opened_snapshots: int, left: int
) -> None:
    age(place, hours=200)
    seen, unseen = [], vacuuming._unseen_pins
    monkeypatch.setattr(
        vacuuming, "_unseen_pins", lambda dataset, *rest: [seen.append(dataset.version), unseen(dataset, *rest)][1]
    )
    assert clean(place, rules).snapshots == 1
    assert len(seen) == opened_snapshots
    # The version without rows that a table begins with is of no snapshot.
    assert [len(table.dataset.versions()) for table in stored_tables(place)] == [left, left]


def test_snapshots_within_the_retention_stay(place: Path) -> None:
    age(place, hours=100)
    newest = opened(place).snapshot().version
    # Nobody ever read the versions without rows that tables begin with.
    assert {(each.kind, each.amount.versions) for each in clean(place, VacuumRules()).removed} == {("versions", 1)}
    assert ids_at(place, newest - 1) == [1, 2, 3, 4, 11, 12, 13, 14]


def test_a_snapshot_counts_from_the_moment_when_it_was_replaced(place: Path) -> None:
    age(place, hours=200)
    newest = opened(place).snapshot().version
    opened(place).append([rows((6, "a"))], evaluate)
    clean(place, VacuumRules())
    assert versions(place) == [newest, newest + 1]
    assert ids_at(place, newest) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


def test_what_was_the_newest_snapshot_a_moment_ago_stays_whatever_is_forced(place: Path) -> None:
    before = versions(place)
    assert not clean(place).removed
    assert versions(place) == before


REFUSED = {
    "less than the floor": (VacuumRules(retain_hours=167), Refused),
    "nothing at all": (VacuumRules(retain_hours=0), Refused),
    "negative": (VacuumRules(retain_hours=-1, force=True), InvalidInput),
    "no number": (VacuumRules(retain_hours=float("nan"), force=True), InvalidInput),
    "less than a transaction may take": (VacuumRules(transaction_hours=1.9), Refused),
    "negative transactions": (VacuumRules(transaction_hours=-1), InvalidInput),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rules_that_may_not_be_are_refused(place: Path, case: str) -> None:
    rules, error = REFUSED[case]
    before = file_names(place)
    with pytest.raises(error, match="hours"):
        vacuum(opened(place), rules)
    assert file_names(place) == before


def test_a_dry_run_says_what_would_go_and_changes_nothing(place: Path) -> None:
    written(place, (7, "a"), (8, "new")).stage()
    written(place, (9, "b"), (10, "newer"))
    compact(opened(place))
    age(place, hours=200)
    before = file_names(place)
    planned = vacuum(opened(place), VacuumRules(dry_run=True))
    assert file_names(place) == before
    done = clean(place, VacuumRules())
    assert planned.dry_run
    assert sorted(map(str, planned.removed)) == sorted(map(str, done.removed))
    assert file_names(place) == before - {name for name in before if not (place / name).exists()}


def test_tagged_snapshots_stay_with_all_they_pin(place: Path) -> None:
    tagged = opened(place).snapshot().version - 2
    manifest(place).tags.create("keep", tagged)
    shown = ids_at(place, tagged)
    compact(opened(place))
    age(place, hours=200)
    clean(place)
    assert versions(place) == [tagged, opened(place).snapshot().version]
    assert ids_at(place, tagged) == shown == [1, 2, 3, 11, 12, 13]


def test_snapshots_of_branches_stay_with_the_one_that_they_begin_at(place: Path) -> None:
    forked = opened(place).snapshot().version - 1
    lance.dataset(f"{place}/__manifest", version=forked).create_branch("side")
    shown = ids_at(place, forked)
    compact(opened(place))
    age(place, hours=200)
    clean(place)
    assert versions(place) == [forked, opened(place).snapshot().version]
    assert ids_at(place, forked) == shown
    assert manifest(place).checkout_version(("side", None)).count_rows() > 0


def branch_files(place: Path) -> list[str]:
    return [name for name in table_files(place) if "/tree/" in name]


def test_what_was_written_on_a_branch_goes_once_the_branch_is_dropped(place: Path) -> None:
    opened(place).create_branch("side")
    opened(place).on_branch("side").append([rows((6, "a"))], evaluate)
    (table,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    table.dataset.create_branch("mine")
    age(place, hours=200)
    opened(place).on_branch("side").append([rows((7, "a"))], evaluate)
    age(place, hours=200)
    clean(place)
    assert len({name.split("/tree/")[1].split("/")[0] for name in branch_files(place)}) == 2
    ours = [name for name in branch_files(place) if "/tree/mine/" not in name and name.endswith(".manifest")]
    assert len(ours) == 1, "its old versions go like those of any other"
    assert [row["id"] for each in opened(place).on_branch("side").rows() for row in each.to_pylist()].count(6) == 1
    opened(place).drop_branch("side")
    before = file_names(place)
    planned = vacuum(opened(place), VacuumRules(retain_hours=0, force=True, dry_run=True))
    assert file_names(place) == before
    assert clean(place).total.files == planned.total.files
    assert {name.split("/tree/")[1].split("/")[0] for name in branch_files(place)} == {"mine"}, "it is not ours"
    assert ids(place) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


def test_a_vacuum_says_that_a_branch_was_dropped_meanwhile(place: Path) -> None:
    opened(place).create_branch("side")
    opened(place).on_branch("side").append([rows((6, "a"))], evaluate)

    def drop(point: str, _: int) -> None:
        if point == "expiry_announced":
            opened(place).drop_branch("side")

    with watched(drop), pytest.raises(NotFound, match="branch 'side' was dropped by another writer"):
        clean(place)
    clean(place)
    assert ids(place) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


def test_what_was_published_stays_when_its_branch_is_dropped(place: Path) -> None:
    opened(place).create_branch("side")
    opened(place).on_branch("side").append([rows((6, "a"))], evaluate)
    publish(opened(place), "side")
    opened(place).drop_branch("side")
    age(place, hours=200)
    clean(place)
    assert branch_files(place)
    assert ids(place) == [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15]


def test_a_branch_that_is_just_being_written_stays(place: Path) -> None:
    opened(place).create_branch("side")
    age(place, hours=200)
    branch = opened(place).on_branch("side")
    transaction = branch.begin()
    branch.write(transaction, [rows((6, "a"))], evaluate)
    branch.commits.stage(transaction)
    clean(place)
    branch.commits.commit(transaction)
    assert 6 in [row["id"] for each in branch.rows() for row in each.to_pylist()]


def test_a_vacuum_goes_on_after_one_that_had_removed_files_of_snapshots_and_not_yet_their_versions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance removes files first: an object store that fails then leaves snapshots of which nothing can be read."""
    age(place, hours=200)
    needed = {file.path for each in manifest(place).get_fragments() for file in each.metadata.files}
    removed = []

    def fails(*_: object, **__: object) -> None:
        for file in (place / "__manifest" / "data").iterdir():
            if file.name not in needed:
                file.unlink()
                removed.append(file.name)
        raise OSError("the store failed a request")

    with monkeypatch.context() as patched:
        patched.setattr(vacuuming.Sweep, "run", fails)
        with pytest.raises(OSError, match="the store failed"):
            clean(place)
    assert removed
    report = clean(place)
    assert report.snapshots == 1
    assert versions(place) == [manifest(place).version]
    assert ids(place) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
    opened(place).append([rows((6, "a"))], evaluate)
    assert 6 in ids(place)


def stage(place: Path) -> None:
    written(place, (7, "a"), (8, "new")).stage()


def write(place: Path) -> None:
    written(place, (7, "a"), (8, "new"))


def stage_often(place: Path) -> None:
    for number in range(3):
        written(place, (70 + number, "a"), (80, f"new {number}")).stage()


DEAD: dict[str, Callable[[Path], None]] = {
    "died with files written": write,
    "died with versions staged": stage,
    "died one after another": stage_often,
}


@pytest.mark.parametrize("case", DEAD)
def test_what_dead_transactions_left_is_taken_away(place: Path, case: str) -> None:
    age(place, hours=200)
    clean(place)
    before = {name for name in table_files(place) if "/data/" in name}
    directories = set(place.iterdir())
    DEAD[case](place)
    assert len([name for name in table_files(place) if "/data/" in name]) >= len(before) + 2
    clean(place)
    assert len([name for name in table_files(place) if "/data/" in name]) >= len(before) + 2, "it may be in progress"
    age(place, hours=25)
    clean(place)
    assert {name for name in table_files(place) if "/data/" in name} == before
    assert set(place.iterdir()) == directories
    after = file_names(place)
    assert not clean(place).removed
    assert file_names(place) == after, "nothing is put on top again and again"
    opened(place).append([rows((9, "a"))], evaluate)
    assert ids(place) == [1, 2, 3, 4, 5, 9, 11, 12, 13, 14, 15]


def test_what_was_written_for_versions_that_never_came_is_taken_away(place: Path) -> None:
    """A transaction without its version, of the newest base, of an older one and of one that is no more; a version without its name."""
    age(place, hours=200)
    opened(place).append([rows((6, "a"))], evaluate)
    clean(place, VacuumRules())
    before = table_files(place)
    (versions_of_a,) = (path for path in place.glob("*dataset/_versions") if len(list(path.iterdir())) > 1)
    transactions, newest = versions_of_a.parent / "_transactions", min(versions_of_a.glob("*.manifest"))
    last = max(transactions.iterdir(), key=lambda path: int(path.name.partition("-")[0]))
    base = int(last.name.partition("-")[0])
    for number in (base + 1, base, base - 1, 1):
        shutil.copy(last, transactions / f"{number}-{uuid.uuid4()}.txn")
    shutil.copy(newest, f"{newest}#{base}-{uuid.uuid4()}.txn")
    left = table_files(place)
    clean(place)
    assert left - before <= table_files(place), "they may be in progress"
    age(place, hours=25)
    report = vacuum(opened(place), VacuumRules(dry_run=True, retain_hours=1000, transaction_hours=24))
    assert sum(each.amount.files for each in report.removed) == len(left - before)
    clean(place)
    assert not (left - before) & table_files(place)
    assert ids(place) == [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15]
    assert len(lance.dataset(versions_of_a.parent).get_transactions()) >= 1
    assert not clean(place).removed


def in_progress(place: Path, how: str) -> Written:
    transaction = written(place, (7, "a"), (8, "new"))
    if how == "staged":
        transaction.stage()
    return transaction


@pytest.mark.parametrize("is_forced", [True, False], ids=["forced", "not forced, and its files are not looked for"])
@pytest.mark.parametrize("how", ["written", "staged"])
def test_a_transaction_in_progress_commits_after_a_vacuum(place: Path, how: str, is_forced: bool) -> None:  # noqa: FBT001
    age(place, hours=200)
    transaction = in_progress(place, how)
    if is_forced:
        clean(place)
    else:
        age(place, hours=commit.OLD_SECONDS / 3600)
        clean(place, VacuumRules(transaction_hours=TRANSACTION_FLOOR_HOURS))
    transaction.commit()
    assert ids(place) == [1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 14, 15]


def test_a_transaction_whose_version_was_overtaken_commits_after_a_vacuum(place: Path) -> None:
    transaction = in_progress(place, "staged")
    opened(place).append([rows((6, "a"))], evaluate)
    for path in (place / "__manifest").rglob("*"):
        os.utime(path, (0, 0))
    clean(place)
    transaction.commit()
    assert ids(place) == [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15]


def test_directories_that_are_none_of_ours_stay(place: Path) -> None:
    strange = ["notes", "0123abcd_other", "v1$abc$dataset", "backup_v1$abc$dataset"]
    for name in strange:
        (place / name).mkdir()
        (place / name / "file").write_text("mine")
    age(place, hours=200)
    clean(place)
    assert set(strange) <= {path.name for path in place.iterdir()}


def test_links_are_neither_followed_nor_removed_from_where_they_lead_to(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "data").mkdir(parents=True)
    (outside / "data" / "precious.lance").write_text("mine")
    linked, orphan = place / "0123abcd_v1$a$dataset", place / "4567abcd_v1$b$dataset"
    linked.symlink_to(outside)
    orphan.mkdir()
    (orphan / "data").symlink_to(outside / "data")
    (table,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    shutil.move(place / table.row["location"], tmp_path / "moved")
    (place / table.row["location"]).symlink_to(tmp_path / "moved")
    age(place, hours=200)
    age(tmp_path / "moved", hours=200)
    before = file_names(outside), file_names(tmp_path / "moved")
    report = vacuum(opened(place), ALL_THAT_MAY_GO)
    assert (file_names(outside), file_names(tmp_path / "moved")) == before
    assert linked.is_symlink()
    assert not orphan.exists()
    assert len(report.skipped) == 2
    assert ids(place) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("name", ["data", "_versions", "_deletions", "_transactions"])
def test_links_inside_a_table_are_not_followed(place: Path, tmp_path: Path, name: str) -> None:
    (table,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    opened(place).append([rows((6, "a"))], evaluate)
    inside, outside = place / table.row["location"] / name, tmp_path / "outside"
    inside.mkdir(exist_ok=True)
    shutil.move(inside, outside)
    inside.symlink_to(outside)
    (outside / f"{'1' * 24}0123456789abcdef.lance").write_text("mine")
    age(place, hours=200)
    age(outside, hours=200)
    before = file_names(outside)
    report = vacuum(opened(place), ALL_THAT_MAY_GO)
    assert file_names(outside) == before
    assert [each.name for each in report.skipped] == [table.row["location"]]
    assert "is a symbolic link" in report.skipped[0].why


def test_a_table_that_floats_is_left_alone(place: Path) -> None:
    (table,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    manifest(place).update({"read_version": "NULL"}, f"object_id = '{table.object_id}'")
    lance.write_dataset(rows((6, "a")), table.dataset.uri, mode="append")
    age(place, hours=200)
    report = vacuum(opened(place), ALL_THAT_MAY_GO)
    assert [each for each in report.skipped if "newest" in each.why]
    assert ids(place) == [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15]


def test_a_manifest_that_lost_its_pins_is_not_taken_for_one_without(place: Path) -> None:
    manifest(place).drop_columns(["partition_field_p", "read_version", "read_branch", "read_tag"])
    age(place, hours=200)
    before = file_names(place)
    with pytest.raises(Corrupt, match="repair"):
        vacuum(PartitionedNamespace(Store(str(place))), ALL_THAT_MAY_GO)
    assert file_names(place) == before


POINTS = ["expiry_announced", "tables_trimmed", "snapshots_removed"]


@pytest.mark.parametrize("point", POINTS)
def test_a_vacuum_that_is_killed_leaves_all_readable_and_the_next_one_finishes(
    place: Path, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "SETTLED", 0.0)
    stage(place)
    compact(opened(place))
    age(place, hours=100)
    with left_behind(place, tmp_path) as left:
        vacuum(opened(place), VacuumRules(retain_hours=0, force=True))
    place = left[point, 1]
    newest = opened(place).snapshot().version
    assert ids(place) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
    for version in [version for version in versions(place) if newest - 5 < version < newest]:
        with pytest.raises(NotFound, match="expired"):
            opened(place).hold(opened(place).snapshot(version), is_newest=False)
    clean(place, VacuumRules())
    assert versions(place) == [newest], "what was announced is over, however long snapshots are kept"
    assert len([name for name in table_files(place) if "/data/" in name]) == 2
    assert not expiring_snapshots(Store(str(place)))


def test_a_snapshot_of_which_a_vacuum_has_removed_a_part_is_not_there(place: Path) -> None:
    newest = opened(place).snapshot().version
    announced = place / ".lance-flight" / leases.EXPIRING / "0.json"
    announced.parent.mkdir(parents=True, exist_ok=True)
    for file in manifest(place).checkout_version(newest - 1).get_fragments()[0].metadata.files:
        (place / "__manifest" / "data" / file.path).unlink()
    with pytest.raises(Corrupt):
        opened(place).snapshot(newest - 1)
    announced.write_bytes(leases.to_bytes([(None, newest - 1)]))
    with pytest.raises(NotFound, match="has expired"):
        opened(place).snapshot(newest - 1)
    assert opened(place).snapshot().version == newest


def test_one_broken_table_does_not_keep_the_others_from_being_trimmed(place: Path) -> None:
    (broken,) = [table for table in stored_tables(place) if table.values["p"] == "a"]
    compact(opened(place))
    age(place, hours=200)
    (newest, *_) = sorted((place / broken.row["location"] / "_versions").glob("*.manifest"))
    newest.write_bytes(b"broken")
    report = vacuum(opened(place), ALL_THAT_MAY_GO)
    assert [each.name for each in report.skipped] == [broken.row["location"]]
    assert [each.name.split("_")[0] != broken.row["location"].split("_")[0] for each in report.removed] == [True, True]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_that_a_remaining_snapshot_pins_is_ever_removed(tmp_path: Path, seed: int) -> None:
    """Random histories: after each vacuum, every snapshot that is left shows what it showed when it was made."""
    chosen = random.Random(seed)  # noqa: S311 - a history, no secret
    place = tmp_path / "t"
    PartitionedNamespace.create(Store(str(place)), SCHEMA, SPEC)
    numbers = iter(range(10_000))
    shown: dict[int, list[int]] = {}
    tagged: set[int] = set()

    def pairs() -> list[tuple[int, str]]:
        return [(next(numbers), chosen.choice("abcd")) for _ in range(chosen.randint(1, 4))]

    for _ in range(25):
        match chosen.choice(["append"] * 5 + ["stage", "write", "compact", "tag", "age", "age", "vacuum", "vacuum"]):
            case "append":
                opened(place).append([rows(*pairs())], evaluate)
            case "stage":
                written(place, *pairs()).stage()
            case "write":
                written(place, *pairs())
            case "compact":
                compact(opened(place))
            case "tag" if versions(place)[-1] not in tagged:
                tagged.add(versions(place)[-1])
                manifest(place).tags.create(f"tag{len(tagged)}", versions(place)[-1])
            case "age":
                age(place, hours=chosen.choice([1, 20, 100]))
            case "vacuum":
                retain = chosen.choice([0.0, 50.0, 168.0])
                clean(place, VacuumRules(retain_hours=retain, force=True, dry_run=chosen.random() < 0.2))
        newest = opened(place).snapshot().version
        shown.setdefault(newest, ids_at(place, newest))
        left = [version for version in versions(place) if version in shown]
        assert tagged <= set(left)
        assert {version: ids_at(place, version) for version in left} == {version: shown[version] for version in left}


def test_amounts_add_up() -> None:
    assert SweepTotals(versions=1, files=2, bytes=3) + SweepTotals(files=1) == SweepTotals(versions=1, files=3, bytes=3)
    assert not SweepTotals()
