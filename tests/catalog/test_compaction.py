"""Compaction: fewer files, the same rows, one commit, and whoever writes meanwhile wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lance.optimize import Compaction
from lance_flight.catalog.bulk.pieces import PieceWork
from lance_flight.catalog.commits import commit
from lance_flight.catalog.maintenance import compaction
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import InvalidInput, SerializationFailure

from tests.catalog.aging import age, table_files
from tests.catalog.small_table import ids, opened, rows
from tests.catalog.small_table_changes import delete
from tests.faults.failpoints import left_behind
from tests.stock import stored_tables

ALL = [1, 2, 3, 11, 12, 13, 100]


@pytest.fixture
def place(small_files: Path) -> Path:
    return small_files


def data_files(place: Path) -> dict[str, int]:
    """How many files each partition is read from."""
    return {table.values["p"]: len(table.dataset.get_fragments()) for table in stored_tables(place)}


def test_small_files_become_one_and_the_rows_stay_the_same(place: Path) -> None:
    before = opened(place).snapshot().version
    report = compact(opened(place))
    assert data_files(place) == {"a": 1, "b": 1, "c": 1}
    assert ids(place) == ALL
    assert report.versions == (before + 1,), "all pins move in one commit"
    assert opened(place).log.operations()[before + 1] == "compact 2 partitions: 6 files into 2"
    assert [(t.files_before, t.files_after, t.is_lost) for t in report.tables] == [(3, 1, False)] * 2
    assert report.table_count == 3


def test_what_is_compacted_already_is_left_alone(place: Path) -> None:
    compact(opened(place))
    before = table_files(place), opened(place).snapshot().version
    assert compact(opened(place)).tables == ()
    assert (table_files(place), opened(place).snapshot().version) == before


def test_readers_of_the_snapshot_before_see_what_they_saw(place: Path) -> None:
    (tables,) = opened(place).snapshot().tables
    compact(opened(place))
    for table in tables.tables():
        assert Store(str(place / table.location)).open(table.pin.columns.read_version).count_rows() in (1, 3)


def test_deleted_rows_leave_the_files(place: Path) -> None:
    compact(opened(place))
    delete(place, 2, 100)
    report = compact(opened(place))
    assert [t.deleted_rows for t in report.tables] == [1]
    assert all(f.num_deletions == 0 for t in stored_tables(place) for f in t.dataset.get_fragments())
    assert ids(place) == [1, 3, 11, 12, 13]
    assert "c" in data_files(place), "a partition without rows stays"


RULES = {
    "many files count": (CompactionRules(files=2), {"a": 1, "b": 1, "c": 1}),
    "few files do not": (CompactionRules(files=3), {"a": 3, "b": 3, "c": 1}),
    "files of the target size stay": (CompactionRules(target_rows=1), {"a": 3, "b": 3, "c": 1}),
    "each table in a commit of its own": (CompactionRules(tables_per_commit=1), {"a": 1, "b": 1, "c": 1}),
}


@pytest.mark.parametrize("case", RULES)
def test_the_rules_decide_which_tables_count(place: Path, case: str) -> None:
    rules, expected = RULES[case]
    report = compact(opened(place), rules)
    assert data_files(place) == expected
    assert ids(place) == ALL
    assert len(report.versions) == len(report.tables) / min(rules.tables_per_commit, 2)


@pytest.mark.parametrize(
    "rules", [CompactionRules(target_rows=0), CompactionRules(deleted=-1), CompactionRules(tables_per_commit=0)]
)
def test_rules_that_cannot_be_are_refused(place: Path, rules: CompactionRules) -> None:
    with pytest.raises(InvalidInput, match="expected"):
        compact(opened(place), rules)


def test_progress_is_told_table_by_table(place: Path) -> None:
    told: list[tuple[int, int]] = []
    compact(
        opened(place),
        CompactionRules(tables_per_commit=2),
        PieceWork(progress=lambda done, of: told.append((done, of))),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_append_before_the_commit_wins_and_the_other_tables_are_compacted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = compaction._commit
    before = table_files(place)

    def late(namespace: PartitionedNamespace, *others: Any) -> Any:
        opened(place).append([rows((4, "a"))], evaluate)
        return commit(namespace, *others)

    monkeypatch.setattr(compaction, "_commit", late)
    report = compact(opened(place))
    assert data_files(place) == {"a": 4, "b": 1, "c": 1}
    assert ids(place) == sorted([*ALL, 4])
    assert sorted(t.is_lost for t in report.tables) == [False, True]
    new = [name for name in table_files(place) - before if "/data/" in name]
    assert len(new) == 2, "the file of the append and that of the compacted table: what was lost is gone"


@pytest.mark.parametrize("moment", ["before the commit", "during it"])
def test_a_table_whose_new_files_were_vacuumed_stays_as_it_was(
    place: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The other tables of its commit took longer than a day, and nothing else tells that the files are gone."""
    changed, name = (compaction, "_commit") if moment == "before the commit" else (compaction, "has_data")
    original = getattr(changed, name)

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(changed, name, original)
        answer = None if moment == "before the commit" else original(*arguments)
        (location,) = [table.row["location"] for table in stored_tables(place) if table.values["p"] == "a"]
        age(place / location, hours=25)
        vacuum(opened(place), VacuumRules())
        return original(*arguments) if answer is None else answer

    monkeypatch.setattr(commit, "OLD_SECONDS", 0.0)
    monkeypatch.setattr(changed, name, overtaken)
    report = compact(opened(place))
    assert data_files(place) == {"a": 3, "b": 1, "c": 1}
    assert ids(place) == ALL
    assert sorted(t.is_lost for t in report.tables) == [False, True]


def test_an_append_during_the_commit_wins_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, left = Manifest.commit, [1]

    def contended(self: Manifest, base: Snapshot, *args: Any, **more: Any) -> Snapshot:
        if left[0] > 0:
            left[0] -= 1
            opened(place).append([rows((4, "a"))], evaluate)
        return commit(self, base, *args, **more)

    monkeypatch.setattr(Manifest, "commit", contended)
    report = compact(opened(place))
    assert left == [0]
    assert data_files(place) == {"a": 4, "b": 1, "c": 1}
    assert ids(place) == sorted([*ALL, 4])
    assert [t.object_id for t in report.tables if t.is_lost] == [
        t.object_id for t in stored_tables(place) if t.values["p"] == "a"
    ]


def test_an_append_that_was_written_before_goes_on_top_of_the_compacted_files(place: Path) -> None:
    namespace = opened(place)
    transaction = namespace.begin()
    namespace.write(transaction, [rows((4, "a"))], evaluate)
    namespace.commits.stage(transaction)
    compact(opened(place))
    namespace.commits.commit(transaction)
    assert ids(place) == sorted([*ALL, 4])
    assert data_files(place) == {"a": 2, "b": 1, "c": 1}


def test_a_compaction_that_fails_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = table_files(place)
    seen: list[object] = []

    class Failing:
        @staticmethod
        def plan(dataset: object, options: object) -> object:
            seen.append(dataset)
            if len(seen) == 2:
                raise OSError("the disk is full")
            return Compaction.plan(dataset, options)

    monkeypatch.setattr(compaction, "Compaction", Failing)
    with pytest.raises(OSError, match="full"):
        compact(opened(place))
    assert table_files(place) == before


def test_one_that_began_before_the_disk_failed_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SerializationFailure("the disk has failed since the transaction began")

    before = table_files(place)
    monkeypatch.setattr(commit, "check_kept", refuse)
    with pytest.raises(SerializationFailure, match="disk has failed"):
        compact(opened(place))
    assert table_files(place) == before
    assert ids(place) == ALL


@pytest.mark.slow  # a compaction that is stopped at every step
def test_a_compaction_that_is_killed_changes_no_row_and_the_next_one_finishes(place: Path, tmp_path: Path) -> None:
    with left_behind(place, tmp_path) as left:
        compact(opened(place))
    assert {point for point, _ in left} >= {
        "data_written",
        "table_staged",
        "all_staged",
        "manifest_written",
        "committed",
    }
    for stopped in left.values():
        assert ids(stopped) == ALL
        compact(opened(stopped))
        assert data_files(stopped) == {"a": 1, "b": 1, "c": 1}
        assert ids(stopped) == ALL


def add_a_column(place: Path) -> None:
    Engine(Root(Store(str(place.parent))), target_partitions=1).update("ALTER TABLE t ADD COLUMN n BIGINT")


MEANWHILE = {
    "rows are added": (lambda place: opened(place).append([rows((4, "a"))], evaluate), 2, 0),
    "rows are added twice": (lambda place: [opened(place).append([rows((n, "a"))], evaluate) for n in (4, 5)], 3, 0),
    "a row is deleted": (lambda place: delete(place, 2), 2, 1),
    "it is compacted": (lambda place: compact(opened(place)), 1, 2),
    "its columns change": (add_a_column, 3, 2),
}


@pytest.mark.parametrize("case", MEANWHILE)
def test_one_that_rebases_goes_on_top_of_rows_that_are_added_and_gives_up_what_is_changed(
    place: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    change, files, lost = MEANWHILE[case]

    def at(point: str) -> None:
        if point == "data_written":
            monkeypatch.undo()
            change(place)

    monkeypatch.setattr(compaction, "failpoint", at)
    report = compact(opened(place), rebase=True)
    assert sum(table.is_lost for table in report.tables) == lost
    assert data_files(place)["a"] == files
    added = {"rows are added": [4], "rows are added twice": [4, 5]}.get(case, [])
    gone = [2] if case == "a row is deleted" else []
    assert ids(place) == sorted({*ALL, *added} - {*gone})


def test_one_that_rebases_is_committed_beside_appends_that_are_always_first(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, left = Manifest.commit, [3]

    def contended(self: Manifest, base: Snapshot, *args: Any, **more: Any) -> Snapshot:
        if left[0] > 0:
            left[0] -= 1
            opened(place).append([rows((4 + left[0], "a"))], evaluate)
        return commit(self, base, *args, **more)

    monkeypatch.setattr(Manifest, "commit", contended)
    report = compact(opened(place), rebase=True)
    assert left == [0]
    assert not any(table.is_lost for table in report.tables)
    assert ids(place) == sorted([*ALL, 4, 5, 6])
    assert data_files(place) == {"a": 4, "b": 1, "c": 1}


def test_one_that_rebases_is_committed_at_once_where_rows_are_added_until_its_turn_has_come(place: Path) -> None:
    added: list[int] = []

    def add() -> None:
        added.append(4 + len(added))
        opened(place).append([rows((added[-1], "a"))], evaluate)

    report = compact(opened(place), work=PieceWork(check=add), rebase=True)
    assert added == [4]
    assert not any(table.is_lost for table in report.tables)
    assert ids(place) == sorted([*ALL, *added])


@pytest.mark.parametrize("kind", ["bare", "indexed"])
def test_one_that_rebases_keeps_row_ids_and_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    engine = Engine(Root(Store(str(tmp_path))), target_partitions=1)
    engine.update("CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p) WITH (stable_row_ids = true)")
    engine.update("INSERT INTO t VALUES (1, 'a')")
    if kind == "indexed":
        engine.update("CREATE INDEX i ON t (id) WITH (min_rows = 1)")
    engine.update("INSERT INTO t VALUES (2, 'a')")
    lineage = "SELECT id, _rowid, _row_created_at_version, _row_last_updated_at_version FROM t$lineage ORDER BY id"
    before = engine.query(lineage).to_pylist()

    def at(point: str) -> None:
        if point == "data_written":
            monkeypatch.undo()
            engine.update("INSERT INTO t VALUES (3, 'a')")

    monkeypatch.setattr(compaction, "failpoint", at)
    report = compact(opened(tmp_path / "t"), rebase=True)
    assert not any(table.is_lost for table in report.tables)
    assert engine.query(lineage).to_pylist()[:2] == before
    assert engine.query("SELECT id FROM t WHERE id >= 2 ORDER BY id")["id"].to_pylist() == [2, 3]
    assert [engine.query(f"SELECT count(*) AS n FROM t WHERE id = {n}")["n"][0].as_py() for n in (1, 2, 3)] == [1] * 3
    assert data_files(tmp_path / "t") == {"a": 2}


def test_among_names_the_tables_that_are_looked_at(place: Path) -> None:
    (chosen,) = (table.object_id for table in stored_tables(place) if table.values["p"] == "b")
    report = compact(opened(place), among=[chosen])
    assert [table.object_id for table in report.tables] == [chosen]
    assert data_files(place) == {"a": 3, "b": 1, "c": 1}
