"""Staging versions onto partition tables (decision 13): dead ones, foreign ones, and ones in flight never show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance_flight.catalog import partitions, transaction
from lance_flight.catalog.manifest import Manifest
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.store import Store
from lance_flight.engine.functions import evaluate
from lance_flight.errors import Conflict, DataError
from lance_flight.model.pins import Version

from tests.catalog.test_commit import SCHEMA, SPEC, ids, opened, rows, written
from tests.stock import manifest, stored_tables


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    opened(tmp_path / "t").append([rows((1, "a"))], evaluate)
    return tmp_path / "t"


def table_files(place: Path) -> set[Path]:
    """What lies in the directories of the partition tables."""
    return {path for path in place.rglob("*") if "__manifest" not in path.parts}


def the_table(place: Path, value: str = "a") -> tuple[Store, int]:
    """Where the table of a partition lies, and its pinned version."""
    (found,) = [table for table in stored_tables(place) if table.values["p"] == value]
    return Store(str(place / found.row["location"])), found.row["read_version"]


def stage_and_die(place: Path, *pairs: tuple[int, str]) -> None:
    """What a writer leaves that staged its rows and never came to its commit."""
    dead = written(place, *pairs)
    dead._rows(opened(place).snapshot())


@pytest.mark.parametrize("times", [1, 3])
def test_versions_that_were_staged_and_never_committed_stay_invisible(place: Path, times: int) -> None:
    for attempt in range(times):
        stage_and_die(place, (660 + attempt, "a"))
    store, pinned = the_table(place)
    assert store.open().version == pinned + 1 + 2 * (times - 1), "each later stage restores the pin first"
    assert ids(place) == [1]
    opened(place).append([rows((2, "a"))], evaluate)
    opened(place).append([rows((3, "a"))], evaluate)
    assert ids(place) == [1, 2, 3]


def test_a_staged_version_has_exactly_the_rows_of_its_base_and_its_own(place: Path) -> None:
    store, pinned = the_table(place)
    fragments = partitions.write_files(store, rows((2, "a")))
    first = partitions.stage_append(store, Version(pinned), fragments)
    second = partitions.stage_append(store, Version(pinned), partitions.write_files(store, rows((3, "a"))))
    found = [sorted(partitions.open_at(store, pin).to_table()["id"].to_pylist()) for pin in (first, second)]
    assert found == [[1, 2], [1, 3]]


@pytest.mark.parametrize("moments", [1, 2, 5])
def test_rows_that_somebody_appends_at_the_very_moment_do_not_slip_in(
    place: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    """Lance rebases an append onto whatever is newest: the result must be base + 1, or it is left alone."""
    store, pinned = the_table(place)
    commit, left = LanceDataset.commit, [moments]

    def intruding(*args: Any, **keywords: Any) -> LanceDataset:
        if left[0] > 0:
            left[0] -= 1
            lance.write_dataset(rows((666, "a")), store.uri, mode="append")
        return commit(*args, **keywords)

    fragments = partitions.write_files(store, rows((2, "a")))
    monkeypatch.setattr(partitions.LanceDataset, "commit", intruding)
    pin = partitions.stage_append(store, Version(pinned), fragments)
    assert left == [0]
    assert sorted(partitions.open_at(store, pin).to_table()["id"].to_pylist()) == [1, 2]


def test_staging_gives_up_where_others_never_stop(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, pinned = the_table(place)
    commit = LanceDataset.commit

    def intruding(*args: Any, **keywords: Any) -> LanceDataset:
        lance.write_dataset(rows((666, "a")), store.uri, mode="append")
        return commit(*args, **keywords)

    fragments = partitions.write_files(store, rows((2, "a")))
    monkeypatch.setattr(partitions.LanceDataset, "commit", intruding)
    monkeypatch.setattr(partitions, "STAGING_ATTEMPTS", 3)
    with pytest.raises(Conflict, match="3 attempts"):
        partitions.stage_append(store, Version(pinned), fragments)
    assert ids(place) == [1]


def test_transactions_that_overlap_in_every_way_lose_nothing(place: Path) -> None:
    opened(place).append([rows((2, "b"))], evaluate)
    begun = [
        written(place, (10, "a"), (11, "b")),
        written(place, (20, "b"), (21, "c")),
        written(place, (30, "c"), (31, "a")),
        written(place, (40, "a")),
    ]
    for waiting in begun[1:]:
        waiting._rows(opened(place).snapshot())
    for each in reversed(begun):
        each.commit("overlapping")
    assert ids(place) == [1, 2, 10, 11, 20, 21, 30, 31, 40]
    assert sorted(table.values["p"] for table in stored_tables(place)) == ["a", "b", "c"]


def test_commits_to_different_tables_do_not_conflict(place: Path) -> None:
    namespace = opened(place)
    namespace.append([rows((2, "b"))], evaluate)
    base = namespace.manifest.snapshot()
    changes = [written(place, (10, "a"))._rows(base), written(place, (11, "b"))._rows(base)]
    for changed in changes:
        namespace.manifest.commit(base, changed, "disjoint")
    assert ids(place) == [1, 2, 10, 11]


def test_data_files_are_written_once_however_often_a_commit_is_tried(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = written(place, (2, "a"), (3, "new"))
    files = {path for path in table_files(place) if path.suffix == ".lance"}
    commit, left = Manifest.commit, [3]

    def contended(self: Manifest, *args: Any) -> int:
        if left[0] > 0:
            left[0] -= 1
            raise Conflict("somebody was first")
        return commit(self, *args)

    monkeypatch.setattr(Manifest, "commit", contended)
    pending.commit("at last")
    assert {path for path in table_files(place) if path.suffix == ".lance"} == files
    assert ids(place) == [1, 2, 3]


def test_an_append_that_gives_up_leaves_nothing_and_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path for path in table_files(place) if path.suffix == ".lance"}
    version = manifest(place).version

    def refused(*_: Any) -> int:
        raise Conflict("somebody was first")

    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "commit", refused)
        patched.setattr(transaction, "COMMIT_ATTEMPTS", 2)
        with pytest.raises(Conflict, match=r"gave up after 2 attempts.*nothing was stored"):
            opened(place).append([rows((2, "a"), (3, "new"))], evaluate)
    assert {path for path in table_files(place) if path.suffix == ".lance"} == before
    assert manifest(place).version == version
    opened(place).append([rows((4, "a"), (5, "new"))], evaluate)
    assert ids(place) == [1, 4, 5]


def test_rows_that_cannot_be_stored_take_the_files_before_them_along(place: Path) -> None:
    before = table_files(place)
    bad = pa.table({"id": pa.array([7, None]), "p": ["a", "new"]})
    with pytest.raises(DataError, match="'id' is NOT NULL"):
        opened(place).append([rows((2, "a"), (3, "new")), bad], evaluate)
    assert table_files(place) == before
    assert ids(place) == [1]


def test_a_stream_that_fails_takes_the_files_before_it_along(place: Path) -> None:
    before = table_files(place)

    def stream() -> Any:
        yield rows((2, "a"), (3, "new"))
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        opened(place).append(stream(), evaluate)
    assert table_files(place) == before
    assert ids(place) == [1]


def test_an_append_of_no_rows_changes_nothing(place: Path) -> None:
    before, version = table_files(place), manifest(place).version
    assert opened(place).append([], evaluate) == 0
    assert opened(place).append([rows()], evaluate) == 0
    assert (table_files(place), manifest(place).version) == (before, version)


def test_a_partition_that_was_dropped_meanwhile_is_a_conflict(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = written(place, (2, "a"))
    manifest(place).delete("object_type = 'table'")
    monkeypatch.setattr(transaction, "COMMIT_ATTEMPTS", 2)
    with pytest.raises(Conflict):
        pending.commit("too late")
    assert ids_or_none(place) == []


def ids_or_none(place: Path) -> list[int]:
    return [number for table in stored_tables(place) for number in table.dataset.to_table()["id"].to_pylist()]


def test_a_reader_of_an_older_snapshot_is_not_disturbed(place: Path) -> None:
    old = opened(place).snapshot()
    for number in range(2, 6):
        stage_and_die(place, (600 + number, "a"))
        opened(place).append([rows((number, "a"))], evaluate)
    (table,) = old.tables[0].tables()
    store = Store(str(place / table.location))
    assert partitions.open_at(store, table.pin).to_table()["id"].to_pylist() == [1]
    assert ids(place) == [1, 2, 3, 4, 5]
