"""Commits that take place and are not answered: each counts once, and nothing that it needs is taken away again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError
from lance_flight.catalog.commits.commit import Commits
from lance_flight.catalog.manifests import version_log
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import OutcomeUnknown

from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.catalog.turns import together
from tests.stock import manifest, stored_tables

NOISES = pytest.mark.parametrize(
    "noise",
    [
        pytest.param(OSError("operation timed out"), id="I/O error"),
        pytest.param(OSError("Too many concurrent writers"), id="I/O error that speaks of others"),
        pytest.param(CommitConflictError("Commit conflict for version 9"), id="conflict"),
        pytest.param(RuntimeError("task 17 panicked"), id="panic"),
        pytest.param(KeyboardInterrupt(), id="interrupt"),
    ],
)
WRITES = pytest.mark.parametrize(
    ("statement", "then"),
    [
        pytest.param("INSERT INTO t VALUES (4, 'a'), (5, 'b')", [1, 2, 3, 4, 5], id="into old partitions"),
        pytest.param("INSERT INTO t VALUES (4, 'new'), (5, NULL)", [1, 2, 3, 4, 5], id="into new partitions"),
        pytest.param("UPDATE t SET id = id + 10", [11, 12, 13], id="update"),
        pytest.param("DELETE FROM t WHERE p = 'a'", [2], id="delete"),
        pytest.param("INSERT OVERWRITE t VALUES (7, 'a'), (8, 'new')", [2, 7, 8], id="overwrite"),
        pytest.param("TRUNCATE TABLE t", [], id="truncate"),
    ],
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    opened(tmp_path / "t").append([rows((1, "a"), (2, "b"), (3, "a"))], evaluate)
    return tmp_path / "t"


def engine(place: Path) -> Engine:
    return Engine(Root(Store(str(place.parent))), target_partitions=2)


@contextmanager
def commits_of_the_manifest(
    monkeypatch: pytest.MonkeyPatch, instead: Callable[[Callable[[], LanceDataset]], LanceDataset]
) -> Iterator[list[None]]:
    """Let `instead` have the way to commit to a `__manifest`, once; the list says whether it was asked."""
    commit, asked = LanceDataset.commit, list[None]()

    def committing(base: Any, *args: Any, **keywords: Any) -> LanceDataset:
        if asked or isinstance(base, str) or not base.uri.endswith("__manifest"):
            return commit(base, *args, **keywords)
        asked.append(None)
        return instead(lambda: commit(base, *args, **keywords))

    with monkeypatch.context() as patched:
        patched.setattr(LanceDataset, "commit", committing)
        yield asked
    assert asked, "no commit came by"


def unanswered(noise: BaseException) -> Callable[[Callable[[], LanceDataset]], LanceDataset]:
    """Commit, and raise."""

    def committing(commit: Callable[[], LanceDataset]) -> LanceDataset:
        commit()
        raise noise

    return committing


def versions(place: Path) -> int:
    return int(manifest(place).version)


def whole(place: Path) -> list[int]:
    """The ids of all rows, every pinned version of every table read to its end."""
    for table in stored_tables(place):
        assert table.dataset.to_table().num_rows == table.dataset.count_rows()
    return ids(place)


@NOISES
@WRITES
def test_a_commit_whose_answer_is_lost_counts_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, noise: BaseException, statement: str, then: list[int]
) -> None:
    before = versions(place)
    with commits_of_the_manifest(monkeypatch, unanswered(noise)):
        engine(place).update(statement)
    assert whole(place) == then
    assert versions(place) == before + 1


@NOISES
def test_it_is_found_behind_the_commits_of_others(
    place: Path, monkeypatch: pytest.MonkeyPatch, noise: BaseException
) -> None:
    before = versions(place)

    def overtaken(commit: Callable[[], LanceDataset]) -> LanceDataset:
        commit()
        for number in (10, 11, 12):
            opened(place).append([rows((number, "a"), (100 + number, f"new {number}"))], evaluate)
        raise noise

    with commits_of_the_manifest(monkeypatch, overtaken):
        engine(place).update("UPDATE t SET id = id + 20")
    assert whole(place) == [10, 11, 12, 21, 22, 23, 110, 111, 112]
    assert versions(place) == before + 4


@NOISES
def test_each_transaction_of_a_shared_commit_counts_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, noise: BaseException
) -> None:
    namespace, before = opened(place), versions(place)
    together(monkeypatch, namespace, 4)
    with commits_of_the_manifest(monkeypatch, unanswered(noise)), ThreadPoolExecutor(4) as pool:
        written = pool.map(lambda n: namespace.append([rows((n, "a"), (n + 100, "new"))], evaluate), range(10, 14))
        assert list(written) == [2, 2, 2, 2]
    assert whole(place) == [1, 2, 3, 10, 11, 12, 13, 110, 111, 112, 113]
    assert versions(place) == before + 1


def test_a_commit_that_failed_before_it_took_place_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, directories = versions(place), set(place.iterdir())

    def refused(commit: Callable[[], LanceDataset]) -> LanceDataset:
        raise RuntimeError("task 17 panicked")

    with commits_of_the_manifest(monkeypatch, refused), pytest.raises(RuntimeError, match="panicked"):
        engine(place).update("INSERT INTO t VALUES (4, 'a'), (5, 'new')")
    assert (whole(place), versions(place)) == ([1, 2, 3], before)
    assert set(place.iterdir()) == directories


@pytest.mark.parametrize("takes_place", [True, False], ids=["that took place", "that did not"])
@pytest.mark.parametrize("number", [1, 3], ids=["alone", "shared"])
def test_a_commit_that_nobody_can_tell_about_is_neither_tried_again_nor_taken_back(
    place: Path, monkeypatch: pytest.MonkeyPatch, *, takes_place: bool, number: int
) -> None:
    namespace, before = opened(place), versions(place)
    together(monkeypatch, namespace, number)

    def silent(commit: Callable[[], LanceDataset]) -> LanceDataset:
        if takes_place:
            commit()
        raise OSError("connection reset")

    def unreadable(*_: Any) -> int | None:
        raise OSError("connection refused")

    def outcome(n: int) -> type[BaseException] | None:
        try:
            namespace.append([rows((n, "a"), (n + 100, "new"))], evaluate)
        except OutcomeUnknown as exc:
            return type(exc)
        return None

    with monkeypatch.context() as patched, ThreadPoolExecutor(number) as pool:
        patched.setattr(version_log, "find_commit", unreadable)
        with commits_of_the_manifest(monkeypatch, silent):
            assert list(pool.map(outcome, range(10, 10 + number))) == [OutcomeUnknown] * number
    mine = [*range(10, 10 + number), *range(110, 110 + number)]
    assert whole(place) == ([1, 2, 3, *mine] if takes_place else [1, 2, 3])
    assert versions(place) == before + takes_place


def test_no_staging_is_left_running_when_another_one_of_the_same_commit_fails(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, both, given_up = iter(["fails", "goes on"]), threading.Barrier(2, timeout=60), threading.Event()
    stage, ended = partitions.stage, []

    def staging(store: Store, *args: Any, **options: Any) -> Any:
        call = next(calls)
        both.wait()
        if call == "fails":
            raise OSError("no space left on device")
        given_up.wait(0.5)
        ended.append(stage(store, *args, **options))
        return ended[-1]

    monkeypatch.setattr(partitions, "stage", staging)
    namespace = opened(place)
    transaction = namespace.begin()
    namespace.write(transaction, [rows((4, "a"), (5, "b"))], evaluate)
    with pytest.raises(OSError, match="no space left"):
        Commits(namespace.log).commit(transaction)
    assert ended, "it is not to be disturbed by what happens next"
    given_up.set()
