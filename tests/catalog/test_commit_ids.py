"""Commits with an id: made once, whoever comes again with it, and found long after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lance_flight.catalog.commits import once
from lance_flight.catalog.commits.once import (
    COMMITS,
    KEPT,
    LONGEST,
    STREAMS,
    CommitToken,
    last_batches,
    named_commit,
    named_commits,
)
from lance_flight.catalog.manifests.version_log import Revision
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyCommitted, InvalidInput

from tests.catalog.named_commits import BETWEEN, append
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.catalog.small_table_changes import sql

RACER = """
import sys
from lance_flight.errors import AlreadyCommitted
from tests.catalog.named_commits import append
from tests.catalog.small_table import opened, rows
from pathlib import Path
for number in range(8):
    try:
        append(opened(Path(sys.argv[1])), f"batch {number}", (number, f"p{number % 3}"))
        print(number)
    except AlreadyCommitted:
        pass
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    return tmp_path / "t"


def test_an_id_is_committed_once(place: Path) -> None:
    append(opened(place), "monday", (1, "a"), (2, None))
    before = opened(place).snapshot().version
    with pytest.raises(AlreadyCommitted, match=r"commit_id 'monday' was committed at \S+ with 2 rows"):
        append(opened(place), "monday", (1, "a"), (2, "new"))
    append(opened(place), "tuesday", (3, "a"))
    assert ids(place) == [1, 2, 3]
    assert opened(place).snapshot().version == before + 1


def test_the_files_of_the_second_one_are_gone(place: Path) -> None:
    append(opened(place), "monday", (1, "a"))
    files = set(place.rglob("*.lance"))
    with pytest.raises(AlreadyCommitted):
        append(opened(place), "monday", (1, "a"), (2, "new"))
    assert set(place.rglob("*.lance")) == files


def test_a_commit_without_rows_is_remembered_as_well(place: Path) -> None:
    append(opened(place), "nothing")
    with pytest.raises(AlreadyCommitted, match="with 0 rows"):
        append(opened(place), "nothing", (1, "a"))
    assert opened(place).snapshot().table_count == 0


@BETWEEN
def test_it_is_known_after(place: Path, between: str) -> None:
    append(opened(place), "sunday", (0, "a"))
    begun = opened(place).snapshot().version
    append(opened(place), "monday", (1, "a"))
    sql(place, between.format(begun=begun))
    with pytest.raises(AlreadyCommitted):
        append(opened(place), "monday", (1, "a"))


def test_the_last_ids_are_known_and_the_ones_before_make_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT >= 100
    monkeypatch.setattr(once, "KEPT", 5)
    for number in range(7):
        append(opened(place), f"batch {number}")
    snapshot = opened(place).snapshot()
    assert [commit.id for commit in named_commits(snapshot)] == [f"batch {number}" for number in range(2, 7)]
    assert named_commit(snapshot, "batch 1") is None


def test_notes_that_say_no_time_count_as_absent(place: Path) -> None:
    notes = {COMMITS: [["monday", 1, "noon"]], STREAMS: [["s", 1, None, 1, "noon"]]}
    opened(place).evolve(lambda _: Revision(operation="note", notes=notes))
    snapshot = opened(place).snapshot()
    assert (named_commits(snapshot), last_batches(snapshot)) == ([], [])
    append(opened(place), "monday", (1, "a"))
    assert [commit.id for commit in named_commits(opened(place).snapshot())] == ["monday"]


def test_two_who_began_at_once_with_one_id_are_one_commit(place: Path) -> None:
    namespace = opened(place)
    first, second = namespace.begin(), namespace.begin()
    for number, transaction in enumerate((first, second), 1):
        transaction.once = CommitToken.now("monday", 1)
        namespace.write(transaction, [rows((number, "a"))], evaluate)
    namespace.commits.commit(first)
    with pytest.raises(AlreadyCommitted):
        namespace.commits.commit(second)
    assert ids(place) == [1]


@pytest.mark.slow  # processes that race
def test_processes_that_race_with_the_same_ids_commit_each_once(place: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(place)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        for _ in range(2)
    ]
    done = [int(line) for racer in racers for line in racer.communicate(timeout=100)[0].splitlines()]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert sorted(done) == ids(place) == list(range(8))


@pytest.mark.parametrize("commit_id", ["", "x" * (LONGEST + 1)])
def test_an_id_that_cannot_be_remembered_is_refused(commit_id: str) -> None:
    with pytest.raises(InvalidInput, match=f"{len(commit_id)} characters; expected 1 to {LONGEST}"):
        CommitToken.now(commit_id, 0)
