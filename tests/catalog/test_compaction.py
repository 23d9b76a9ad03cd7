"""Compaction: fewer files, the same rows, one commit, and whoever writes meanwhile wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lance.optimize import Compaction
from lance_flight.catalog.maintenance import compaction
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.sql.functions import evaluate
from lance_flight.errors import InvalidInput

from tests.catalog.aging import table_files
from tests.catalog.killed_commits import killed
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.catalog.small_table_changes import delete
from tests.stock import stored_tables

COMPACT = """
import sys
from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.storage.store import Store
compact(PartitionedNamespace.open(Store(sys.argv[1])))
"""
ALL = [1, 2, 3, 11, 12, 13, 100]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two partitions of three files each, and one of one."""
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    namespace = opened(tmp_path / "t")
    for number in (1, 2, 3):
        namespace.append([rows((number, "a"), (number + 10, "b"))], evaluate)
    namespace.append([rows((100, "c"))], evaluate)
    return tmp_path / "t"


def data_files(place: Path) -> dict[str, int]:
    """How many files each partition is read from."""
    return {table.values["p"]: len(table.dataset.get_fragments()) for table in stored_tables(place)}


def test_small_files_become_one_and_the_rows_stay_the_same(place: Path) -> None:
    before = opened(place).snapshot().version
    report = compact(opened(place))
    assert data_files(place) == {"a": 1, "b": 1, "c": 1}
    assert ids(place) == ALL
    assert report.versions == (before + 1,), "all pins move in one commit"
    assert opened(place).manifest.operations()[before + 1] == "compact 2 partitions: 6 files into 2"
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
    compact(opened(place), CompactionRules(tables_per_commit=2), lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_append_before_the_commit_wins_and_the_other_tables_are_compacted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = compaction._commit
    before = table_files(place)

    def late(namespace: PartitionedNamespace, rewritten: Any) -> Any:
        opened(place).append([rows((4, "a"))], evaluate)
        return commit(namespace, rewritten)

    monkeypatch.setattr(compaction, "_commit", late)
    report = compact(opened(place))
    assert data_files(place) == {"a": 4, "b": 1, "c": 1}
    assert ids(place) == sorted([*ALL, 4])
    assert sorted(t.is_lost for t in report.tables) == [False, True]
    new = [name for name in table_files(place) - before if "/data/" in name]
    assert len(new) == 2, "the file of the append and that of the compacted table: what was lost is gone"


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


@pytest.mark.parametrize("point", ["data_written", "table_staged:2", "all_staged", "manifest_written", "committed"])
def test_a_compaction_that_is_killed_changes_no_row_and_the_next_one_finishes(place: Path, point: str) -> None:
    assert killed(COMPACT, [str(place)], point)
    assert ids(place) == ALL
    compact(opened(place))
    assert data_files(place) == {"a": 1, "b": 1, "c": 1}
    assert ids(place) == ALL
