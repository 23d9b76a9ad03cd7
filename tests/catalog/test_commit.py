"""What a commit promises, whoever else is writing: see the invariants in server/docs/life-of-a-commit.md."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from lance_flight.catalog.commits.commit import _Member
from lance_flight.catalog.commits.transaction import CommitGuard
from lance_flight.catalog.commits.writer import rows_removed
from lance_flight.catalog.manifests.manifest import Manifest
from lance_flight.catalog.storage.filesystems import CommitEvent, commit_counts
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Conflict, SerializationFailure

from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows, written
from tests.stock import stored_tables

pytestmark = pytest.mark.slow  # processes that write and are killed

# One writer of the race below: appends rows of its own to partitions that everybody writes, and to new ones.
WRITER = """
import sys
import pyarrow as pa
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.commits.writer import rows_removed
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.translation.evaluation import evaluate
place, first, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
namespace = PartitionedNamespace.open(Store(place))
for commit in range(commits):
    ids = [first + commit * 3 + n for n in range(3)]
    namespace.append([pa.table({"id": ids, "p": ["shared", f"new {commit}", None]}, schema=namespace.snapshot().schema.plain)], evaluate)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    return tmp_path / "t"


def test_rows_that_are_written_and_not_committed_are_visible_to_nobody(place: Path) -> None:
    opened(place).append([rows((1, "a"))], evaluate)
    written(place, (2, "a"), (3, "b"))
    assert ids(place) == [1]


def test_an_abort_takes_its_files_away(place: Path) -> None:
    opened(place).append([rows((1, "a"))], evaluate)
    before = {path for path in place.rglob("*") if "__manifest" not in path.parts}
    transaction = written(place, (2, "a"), (3, "b"))
    assert {path for path in place.rglob("*") if "__manifest" not in path.parts} > before
    transaction.abort()
    assert {path for path in place.rglob("*") if "__manifest" not in path.parts} == before


def test_a_version_that_a_dead_writer_staged_never_becomes_visible(place: Path) -> None:
    opened(place).append([rows((1, "a"))], evaluate)
    (table,) = stored_tables(place)
    lance.write_dataset(rows((666, "a")), table.dataset.uri, mode="append")
    opened(place).append([rows((2, "a"))], evaluate)
    assert ids(place) == [1, 2]


def test_the_manifest_refuses_the_second_of_two_commits_from_one_snapshot_that_change_one_row(place: Path) -> None:
    opened(place).append([rows((1, "a"))], evaluate)
    manifest = opened(place).log
    base = manifest.snapshot()
    changed = base.tables[0].rows
    manifest.commit(base, changed, "first")
    with pytest.raises(Conflict):
        manifest.commit(base, changed, "second")


def test_creators_of_different_partitions_conflict_on_the_row_of_their_spec(place: Path) -> None:
    manifest = opened(place).log
    base = manifest.snapshot()
    first, second = written(place, (1, "a")), written(place, (2, "b"))
    manifest.commit(base, first.rows(), "first")
    with pytest.raises(Conflict):
        manifest.commit(base, second.rows(), "second")


def test_writers_in_several_processes_lose_nothing_and_make_one_table_for_each_value(place: Path) -> None:
    writers, commits = 3, 6
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(place), str(1000 * number), str(commits)])
        for number in range(1, writers + 1)
    ]
    assert [process.wait(120) for process in processes] == [0] * writers
    expected = [1000 * number + n for number in range(1, writers + 1) for n in range(3 * commits)]
    assert ids(place) == expected
    values = [table.values["p"] for table in stored_tables(place)]
    assert len(values) == len(set(values)) == commits + 2


def test_the_history_says_what_each_commit_did(place: Path) -> None:
    namespace = opened(place)
    namespace.append([rows((1, "a"), (2, None))], evaluate)
    operations = namespace.log.operations()
    assert operations[namespace.snapshot().version] == "append 2 rows into 2 partitions"


def test_rows_that_a_transaction_took_out_of_its_own_new_partition_do_not_come_back(place: Path) -> None:
    mine = written(place, (1, "new"), (2, "new"))
    mine.stage()
    namespace, snapshot = mine.namespace, mine.transaction.snapshot
    (table,) = snapshot.tables[0].tables()
    (file,) = partitions.open_at(namespace.store.child(table.location), table.pin).get_fragments()
    gone = {table: np.array([file.fragment_id << 32], np.uint64)}
    mine.transaction.add(rows_removed(namespace.store, snapshot, gone), "delete")
    mine.stage()
    opened(place).append([rows((3, "new"))], evaluate)
    with pytest.raises(SerializationFailure, match="made by another writer"):
        mine.commit()
    assert ids(place) == [3]


def counted() -> Counter[CommitEvent]:
    """What this process has counted of commits."""
    return Counter({event: commit_counts[event] for event in CommitEvent})


def test_commits_are_counted_and_what_met_another_writer(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, visible, met = counted(), Manifest.make_visible, iter([True, True])

    def second(*arguments: Any, **named: Any) -> int | None:
        if next(met, False):
            raise Conflict("another writer was first")
        return visible(*arguments, **named)

    monkeypatch.setattr(Manifest, "make_visible", second)
    written(place, (1, "a")).commit()
    assert counted() - before == {CommitEvent.COMMITTED: 1, CommitEvent.TRANSACTION: 1, CommitEvent.RETRY: 2}


def test_transactions_that_fail_on_others_are_counted(place: Path) -> None:
    first, second = (opened(place).begin(serializable=True) for _ in range(2))
    for number, (transaction, value) in enumerate([(first, "apple"), (second, "pear")]):
        transaction.read([])
        opened(place).write(transaction, [rows((number, value))], evaluate)
    opened(place).commits.commit(first)
    before = counted()
    with pytest.raises(SerializationFailure):
        opened(place).commits.commit(second)
    assert counted() - before == {CommitEvent.CONFLICT: 1}


def test_a_partition_that_is_made_beside_old_ones_conflicts_with_a_reader_in_the_same_commit(place: Path) -> None:
    namespace = opened(place)
    namespace.append([rows((1, "old"))], evaluate)
    making, reading = namespace.begin(), namespace.begin(serializable=True)
    namespace.write(making, [rows((2, "old"), (3, "new"))], evaluate)
    reading.read([])
    namespace.write(reading, [rows((4, "other"))], evaluate)
    members = [_Member(making), _Member(reading)]
    namespace.commits._commit(members)
    assert members[0].error is None
    assert "partitions were created" in str(members[1].error)
    assert ids(place) == [1, 2, 3]


def test_a_commit_that_met_another_writer_can_be_ended_before_it_is_tried_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    visible, met = Manifest.make_visible, iter([True])

    def second(*arguments: Any) -> int | None:
        events.append("commit")
        return None if next(met, False) else visible(*arguments)

    monkeypatch.setattr(Manifest, "make_visible", second)
    mine = written(place, (1, "a"))
    mine.transaction.guard = CommitGuard(
        begin_commit=lambda: events.append("begin"), end_commit=lambda: events.append("end")
    )
    mine.commit()
    assert events == ["end", "begin", "commit"] * 2
