"""Staging versions onto partition tables (decision 13): dead ones, foreign ones, and ones in flight never show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import FragmentMetadata, LanceDataset, LanceOperation
from lance_flight.catalog.commits import commit
from lance_flight.catalog.manifests import version_log
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.manifests.snapshot import Pin, Snapshot, Version
from lance_flight.catalog.storage.leases import LEASES
from lance_flight.catalog.storage.retries import RetryPolicy
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import PRIVATE
from lance_flight.catalog.tables import partitions
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Conflict, DataError, SerializationFailure

from tests.catalog.small_table import ids, opened, rows, written
from tests.stock import manifest, stored_tables


def table_files(place: Path) -> set[Path]:
    """What lies in the directories of the partition tables."""
    return {path for path in place.rglob("*") if "__manifest" not in path.parts}


def the_table(place: Path, value: str = "a") -> tuple[Store, int]:
    """Where the table of a partition lies, and its pinned version."""
    (found,) = [table for table in stored_tables(place) if table.values["p"] == value]
    return Store(str(place / found.row["location"])), found.row["read_version"]


def stage_append(store: Store, pinned: int, fragments: list[FragmentMetadata]) -> Pin:
    """Put data files on a version."""
    return partitions.stage(store, Version(pinned), LanceOperation.Append(fragments))


def stage_and_die(place: Path, *pairs: tuple[int, str]) -> None:
    """What a writer leaves that staged its rows and never came to its commit."""
    written(place, *pairs).stage()


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
    fragments = partitions.write_files(store, pinned, rows((2, "a")))
    first = stage_append(store, pinned, fragments)
    second = stage_append(store, pinned, partitions.write_files(store, pinned, rows((3, "a"))))
    found = [sorted(partitions.open_at(store, pin).to_table()["id"].to_pylist()) for pin in (first, second)]
    assert found == [[1, 2], [1, 3]]


def intruded(monkeypatch: pytest.MonkeyPatch, store: Store, moments: int) -> list[int]:
    """Let another writer append right before a version is written, so many times; what is left of them."""
    left = [moments]

    def intruding(real: Callable[..., Any]) -> Callable[..., Any]:
        def intrude(*args: Any, **keywords: Any) -> Any:
            if left[0] > 0:
                left[0] -= 1
                lance.write_dataset(rows((666, "a")), store.uri, mode="append")
            return real(*args, **keywords)

        return intrude

    monkeypatch.setattr(partitions.LanceDataset, "commit", intruding(LanceDataset.commit))
    monkeypatch.setattr(partitions, "write_version", intruding(partitions.write_version))
    return left


@pytest.mark.parametrize("moments", [1, 2, 5])
def test_rows_that_somebody_appends_at_the_very_moment_do_not_slip_in(
    place: Path, monkeypatch: pytest.MonkeyPatch, moments: int
) -> None:
    """Lance rebases an append onto whatever is newest: the result must be base + 1, or it is left alone."""
    store, pinned = the_table(place)
    left = intruded(monkeypatch, store, moments)
    fragments = partitions.write_files(store, pinned, rows((2, "a")))
    pin = stage_append(store, pinned, fragments)
    assert left == [0]
    assert sorted(partitions.open_at(store, pin).to_table()["id"].to_pylist()) == [1, 2]


def test_staging_gives_up_where_others_never_stop(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, pinned = the_table(place)
    intruded(monkeypatch, store, 1000)
    fragments = partitions.write_files(store, pinned, rows((2, "a")))
    monkeypatch.setattr(partitions, "STAGE", RetryPolicy(3))
    with pytest.raises(Conflict, match="3 attempts"):
        stage_append(store, pinned, fragments)
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
        waiting.stage()
    for each in reversed(begun):
        each.commit()
    assert ids(place) == [1, 2, 10, 11, 20, 21, 30, 31, 40]
    assert sorted(table.values["p"] for table in stored_tables(place)) == ["a", "b", "c"]


def test_commits_to_different_tables_that_meet_in_the_manifest_both_count(place: Path) -> None:
    namespace = opened(place)
    namespace.append([rows((2, "b"))], evaluate)
    base = namespace.log.snapshot()
    first, second = written(place, (10, "a")), written(place, (11, "b"))
    first.commit()
    with pytest.raises(Conflict):
        namespace.log.commit(base, second.rows(), "from the old snapshot")
    second.commit()
    assert ids(place) == [1, 2, 10, 11]


def test_data_files_are_written_once_however_often_a_commit_is_tried(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = written(place, (2, "a"), (3, "new"))
    files = {path for path in table_files(place) if path.suffix == ".lance"}
    manifest_commit, left = Manifest.commit, [3]

    def contended(self: Manifest, *args: Any, **more: Any) -> Snapshot:
        if left[0] > 0:
            left[0] -= 1
            raise Conflict("somebody was first")
        return manifest_commit(self, *args, **more)

    monkeypatch.setattr(Manifest, "commit", contended)
    pending.commit()
    assert {path for path in table_files(place) if path.suffix == ".lance"} == files
    assert ids(place) == [1, 2, 3]


def test_an_append_that_gives_up_is_visible_nowhere_and_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(place.iterdir())
    version = manifest(place).version

    def refused(*_: Any, **__: Any) -> Snapshot:
        raise Conflict("somebody was first")

    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "commit", refused)
        patched.setattr(version_log, "COMMIT", RetryPolicy(2))
        with pytest.raises(Conflict, match=r"gave up after 2 attempts.*nothing was stored"):
            opened(place).append([rows((2, "a"), (3, "new"))], evaluate)
    assert set(place.iterdir()) - {place / PRIVATE} == before, "the directory of the new partition is gone"
    left = {path.name for path in (place / PRIVATE).glob("*")}
    assert left <= {LEASES}, "a lease may have been renewed meanwhile"
    assert manifest(place).version == version
    store, pinned = the_table(place)
    assert store.open(pinned).to_table()["id"].to_pylist() == [1]
    assert store.open().to_table().num_rows == 2, "what was staged on a table that others know stays readable there"
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
    monkeypatch.setattr(version_log, "COMMIT", RetryPolicy(2))
    with pytest.raises(Conflict):
        pending.commit()
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


@pytest.mark.parametrize("error", [OSError("a full disk"), SerializationFailure("made by another writer")], ids=str)
def test_a_group_that_falls_apart_stages_its_new_tables_once_more(
    place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Rows of two transactions lie in the table of a new partition, and then each is staged without the other."""
    first, second = written(place, (2, "x")), written(place, (3, "x"), (4, "y"))
    (fails,) = [
        part.added.location
        for part in second.transaction.parts.values()
        if "y" in part.added.values.to_pylist()[0].values()
    ]
    create = partitions.create
    made: list[str] = []

    def creating(store: Store, *arguments: Any, **options: Any) -> Version:
        made.append(store.name)
        if store.name == fails and made.count(fails) == 1:
            raise error
        return create(store, *arguments, **options)

    monkeypatch.setattr(partitions, "create", creating)
    members = [commit._Member(each.transaction) for each in (first, second)]
    first.namespace.commits._commit(members)
    assert [member.error for member in members] == [None, None]
    assert sorted(Counter(made).values()) == [2, 2]
    assert ids(place) == [1, 2, 3, 4]


def test_a_table_that_is_made_where_one_was_begun_has_its_own_rows_alone(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "table"))
    for numbers in ([1, 2], [3]):
        data = pa.table({"id": numbers})
        pin = partitions.create(store, data.schema, partitions.write_files(store, None, data))
        assert partitions.open_at(store, pin).to_table() == data
