"""Commits to plain tables beside other writers, Lance's own among them: nothing is lost, doubled, or put into another table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.bulk.shared_writes import Replaces, SharedWrite
from lance_flight.catalog.commits import commit
from lance_flight.catalog.commits.once import CommitToken, named_commits
from lance_flight.catalog.manifests import version_log
from lance_flight.catalog.manifests.manifest_rows import NOTES
from lance_flight.catalog.plain_table import PlainTable, write_plain
from lance_flight.catalog.storage.retries import RetryPolicy
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.indices import indices_of
from lance_flight.catalog.tables.partitions import open_table
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyCommitted, Conflict, Corrupt, NotFound, SerializationFailure

from tests.faults.failpoints import watched

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "word": ["a", "b"]})
MORE = pa.table({"id": pa.array([3], pa.int32()), "word": ["c"]})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lance.write_dataset(ROWS, str(tmp_path / "t.lance"))
    return tmp_path / "t.lance"


def opened(place: Path) -> PlainTable:
    return PlainTable(Store(str(place)))


def ids(place: Path) -> list[int | None]:
    return sorted(lance.dataset(str(place)).to_table()["id"].to_pylist())


def by_lance(place: Path, change: Callable[[lance.LanceDataset], object]) -> None:
    change(lance.dataset(str(place)))


OTHERS = [
    pytest.param(lambda d: lance.write_dataset(MORE, d, mode="append"), [1, 2, 3, 3], id="rows come"),
    pytest.param(lambda d: d.delete("id = 1"), [2, 3], id="rows go"),
    pytest.param(lambda d: d.create_scalar_index("id", "BTREE"), [1, 2, 3], id="an index"),
    pytest.param(lambda d: d.update_metadata({"k": "v"}), [1, 2, 3], id="metadata"),
    pytest.param(lambda d: d.add_columns({"twice": "id * 2"}), [1, 2, 3], id="a computed column"),
]


@pytest.mark.parametrize(("other", "left"), OTHERS)
def test_an_append_goes_on_top_of_what_others_did(
    place: Path, other: Callable[[lance.LanceDataset], object], left: list[int]
) -> None:
    table = opened(place)
    transaction = table.begin()
    table.write(transaction, [MORE], evaluate)
    by_lance(place, other)
    table.commits.commit(transaction)
    assert ids(place) == left
    assert table.snapshot().version == lance.dataset(str(place)).version == 3


COLUMN_CHANGES = [
    pytest.param(lambda d: d.alter_columns({"path": "id", "data_type": pa.int64()}), id="another type"),
    pytest.param(lambda d: d.add_columns({"twice": "id * 2"}), id="a computed column"),
]


@pytest.mark.parametrize("change", [COLUMN_CHANGES[0], pytest.param(lambda d: d.drop_columns(["word"]), id="one less")])
def test_rows_for_columns_that_have_changed_are_refused(
    place: Path, change: Callable[[lance.LanceDataset], object]
) -> None:
    table = opened(place)
    transaction = table.begin()
    table.write(transaction, [MORE], evaluate)
    by_lance(place, change)
    with pytest.raises(SerializationFailure, match="changed in its schema"), table.changing(transaction):
        table.commits.commit(transaction)
    found = lance.dataset(str(place))
    assert (found.version, found.to_table().num_rows) == (2, 2)


@pytest.mark.parametrize("change", COLUMN_CHANGES)
def test_columns_that_change_while_rows_are_committed_refuse_them(
    place: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[lance.LanceDataset], object]
) -> None:
    table = opened(place)
    transaction = table.begin()
    table.write(transaction, [MORE], evaluate)
    # What was the newest version a moment ago is what Lance is told to commit on top of.
    known = table.snapshot()
    by_lance(place, change)
    monkeypatch.setattr(table.log, "snapshot", lambda *_: known)
    monkeypatch.setattr(version_log, "COMMIT", RetryPolicy(2))
    with pytest.raises(Conflict), table.changing(transaction):
        table.commits.commit(transaction)
    found = lance.dataset(str(place))
    assert (found.version, found.to_table().num_rows) == (2, 2), "no row has NULL for a value that was given"


@pytest.mark.parametrize("reader", ["a change", "an append"])
def test_a_table_that_was_made_again_takes_no_rows_of_the_one_before(place: Path, reader: str) -> None:
    table = opened(place)
    transaction = table.begin()
    table.write(transaction, [MORE], evaluate)
    if reader == "a change":
        transaction.parts["v1$dataset"].rewrites = True
    rmtree(place)
    lance.write_dataset(ROWS.slice(1), str(place))
    with pytest.raises(SerializationFailure, match=r"dropped or replaced|changed by another writer"):
        table.commits.commit(transaction)
    assert ids(place) == [2]
    assert lance.dataset(str(place)).version == 1


def test_a_snapshot_of_a_table_that_was_made_again_is_not_read(place: Path) -> None:
    table = opened(place)
    (before,) = table.snapshot().all_tables()
    rmtree(place)
    lance.write_dataset(ROWS.slice(1), str(place))
    (after,) = opened(place).snapshot().all_tables()
    assert before.pin != after.pin
    with pytest.raises(NotFound):
        open_table(table.store, before)


def test_a_version_that_goes_away_between_opening_and_reading_is_broken(place: Path) -> None:
    log = PlainTable(Store(str(place))).log
    opened = log.open()
    rmtree(place)
    with pytest.raises(Corrupt, match=f"table '{place.name}' has a version that cannot be read") as refused:
        log.parse(opened)
    assert str(place.parent) not in str(refused.value)


def test_a_commit_id_is_committed_once_by_however_many(place: Path) -> None:
    table = opened(place)
    writes = [SharedWrite.begin(table) for _ in range(2)]
    parts = [write.write([MORE], evaluate) for write in writes]
    writes[0].commit(parts[0], evaluate, once=CommitToken.now("load 1", 1))
    with pytest.raises(AlreadyCommitted, match="load 1"):
        writes[1].commit(parts[1], evaluate, once=CommitToken.now("load 1", 1))
    assert ids(place) == [1, 2, 3]
    by_lance(place, lambda dataset: lance.write_dataset(MORE, dataset, mode="append"))
    assert [token.id for token in named_commits(opened(place).snapshot())] == ["load 1"]


def test_of_two_commits_with_an_id_that_meet_one_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = opened(place), opened(place)
    transactions = []
    for table in (first, second):
        transaction = table.begin()
        transaction.once = CommitToken.now("load 1", 1)
        table.write(transaction, [MORE], evaluate)
        transactions.append(transaction)
    known = second.snapshot()
    first.commits.commit(transactions[0])
    monkeypatch.setattr(second.log, "snapshot", lambda *_: known)
    monkeypatch.setattr(version_log, "COMMIT", RetryPolicy(2))
    with pytest.raises(Conflict):
        second.commits.commit(transactions[1])
    assert ids(place) == [1, 2, 3]


def test_an_id_is_known_after_its_writer_died_right_after_the_commit(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(place)
    transaction = table.begin()
    transaction.once = CommitToken.now("load 1", 1)
    table.write(transaction, [MORE], evaluate)
    monkeypatch.setattr(table.log, "follow", lambda _: None)
    table.commits.commit(transaction)
    again = opened(place)
    assert [token.id for token in named_commits(again.snapshot())] == ["load 1"]
    again.append([MORE], evaluate)
    assert [token.id for token in named_commits(again.snapshot())] == ["load 1"]


LOST = [
    pytest.param("the connection was reset", True, id="after the commit"),
    pytest.param("the connection was reset", False, id="before it"),
    pytest.param("Retryable commit conflict for version 1", True, id="a conflict with itself"),
]


@pytest.mark.parametrize("failed", ["plain_committed", "all_staged"])
def test_a_group_that_fails_once_its_rows_are_visible_does_not_commit_them_again(place: Path, failed: str) -> None:
    """What is staged on a plain table is visible, and then nothing is left to be tried by each member alone."""
    table = opened(place)
    members = []
    for _ in range(2):
        transaction = table.begin()
        table.write(transaction, [MORE], evaluate)
        members.append(commit._Member(transaction))

    def fail(point: str, number: int) -> None:
        if (point, number) == (failed, 1):
            raise OSError("a full disk")

    with watched(fail):
        table.commits._commit(members)
    assert ids(place) == [1, 2, 3, 3]
    assert [member.version for member in members] == [table.snapshot().version] * 2


@pytest.mark.parametrize(("answer", "is_committed"), LOST)
def test_an_answer_that_is_lost_is_looked_for_in_the_table(
    place: Path, monkeypatch: pytest.MonkeyPatch, answer: str, *, is_committed: bool
) -> None:
    table, commit_to = opened(place), lance.LanceDataset.commit

    def lost(*arguments: object, **options: object) -> object:
        if is_committed:
            commit_to(*arguments, **options)
        raise OSError(answer)

    monkeypatch.setattr(lance.LanceDataset, "commit", lost)
    if is_committed:
        assert table.append([MORE], evaluate) == 1
    else:
        with pytest.raises(OSError, match="reset"):
            table.append([MORE], evaluate)
    assert ids(place) == [1, 2, *[3] * is_committed]


@pytest.mark.parametrize("replaces", [Replaces.TABLE, Replaces.PARTITIONS])
def test_several_processes_replace_all_rows(place: Path, replaces: Replaces) -> None:
    write = SharedWrite.begin(opened(place))
    parts = [part for rows in (MORE, ROWS.slice(1)) for part in write.write([rows], evaluate)]
    write.commit(parts, evaluate, replaces=replaces)
    assert ids(place) == [2, 3]


def test_a_write_that_is_given_up_leaves_no_file(place: Path) -> None:
    before = {path for path in place.rglob("*") if path.is_file()}
    write = SharedWrite.begin(opened(place))
    write.discard(write.write([MORE], evaluate))
    assert {path for path in place.rglob("*") if path.is_file()} == before


FOREIGN = [
    pytest.param({"data_storage_version": "2.0"}, id="2.0"),
    pytest.param({"data_storage_version": "2.1"}, id="2.1"),
    pytest.param({"data_storage_version": "legacy"}, id="the first format"),
    pytest.param({"enable_stable_row_ids": True}, id="stable row ids"),
    pytest.param({"enable_v2_manifest_paths": False}, id="old names of versions"),
]


@pytest.mark.parametrize("options", FOREIGN)
def test_tables_of_every_kind_take_rows(tmp_path: Path, options: dict[str, object]) -> None:
    place = tmp_path / "t.lance"
    lance.write_dataset(ROWS, str(place), **options)
    stored = str(lance.dataset(str(place)).data_storage_version)
    assert opened(place).append([MORE], evaluate) == 1
    assert ids(place) == [1, 2, 3]
    assert str(lance.dataset(str(place)).data_storage_version) == stored


def test_of_two_that_make_a_table_at_once_one_is_refused(tmp_path: Path) -> None:
    place, schema = Store(str(tmp_path / "t")), pa.schema([("id", pa.int64())])

    def rows_beside_another() -> Iterator[pa.Table]:
        yield pa.table({"id": [1]})
        assert write_plain(place, schema, [pa.table({"id": [2]})]) == 1

    with pytest.raises(Conflict, match="another writer"):
        write_plain(place, schema, rows_beside_another())
    assert place.open().to_table()["id"].to_pylist() == [2]


@pytest.mark.parametrize("noted", ["[]", '{"lance_flight:indices": 3}'])
def test_notes_of_another_form_count_as_absent(place: Path, noted: str) -> None:
    by_lance(place, lambda d: d.create_scalar_index("id", "BTREE"))
    by_lance(place, lambda d: d.update_metadata({NOTES: noted}))
    assert [definition.name for definition in indices_of(opened(place).snapshot())] == ["id_idx"]


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("noted", ["{", "[" * 99_999, '{"lance_flight:indices": [3]}'])
def test_notes_that_cannot_be_read_are_an_error(place: Path, noted: str, *, has_index: bool) -> None:
    if has_index:
        by_lance(place, lambda d: d.create_scalar_index("id", "BTREE"))
    by_lance(place, lambda d: d.update_metadata({NOTES: noted}))
    with pytest.raises(Corrupt, match=r"cannot be read|the note lance_flight:indices"):
        indices_of(opened(place).snapshot())
