"""Batches of streams: each is committed once, in one entry for each stream, and nobody's memory makes room for another's."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.catalog.commits import once
from lance_flight.catalog.commits.commit import _Member, _still_good
from lance_flight.catalog.commits.once import (
    LONGEST,
    CommitToken,
    Once,
    StreamBatch,
    last_batch,
    last_batches,
    named_commits,
)
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import AlreadyCommitted, AlreadyExists, InvalidInput

from tests.catalog.named_commits import BETWEEN
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.catalog.small_table_changes import sql


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    return tmp_path / "t"


def batch(stream: str, number: int, query: str | None = "q") -> StreamBatch:
    return StreamBatch.now(stream, number, query=query, rows=1)


def append(namespace: PartitionedNamespace, once: Once, *numbers: int) -> int:
    """Append rows as one who does not know whether he did before."""
    transaction = namespace.begin()
    transaction.once = once
    with namespace.changing(transaction):
        if numbers:
            namespace.write(transaction, [rows(*((number, "a") for number in numbers))], evaluate)
        return namespace.commits.commit(transaction)


@pytest.mark.parametrize("again", [pytest.param(5, id="the last one"), pytest.param(3, id="one before it")])
def test_a_batch_is_committed_once(place: Path, again: int) -> None:
    for number in (3, 5):
        append(opened(place), batch("s", number), number)
    files = set(place.rglob("*.lance"))
    with pytest.raises(
        AlreadyCommitted, match=rf"batch {again} of stream 's' was committed; the last one is 5, of \S+$"
    ):
        append(opened(place), batch("s", again), again)
    assert ids(place) == [3, 5]
    assert set(place.rglob("*.lance")) == files
    append(opened(place), batch("other", again), 9)
    assert ids(place) == [3, 5, 9]


@pytest.mark.parametrize("number", [0, 5, 6])
def test_a_stream_with_the_name_of_another_is_refused_whatever_its_batch(place: Path, number: int) -> None:
    append(opened(place), batch("s", 5, "first"), 5)
    with pytest.raises(AlreadyExists, match=r"stream 's' is that of query first.*batch 5.*query second.*another name"):
        append(opened(place), batch("s", number, "second"), number)
    assert ids(place) == [5]


def test_a_query_that_nobody_knows_is_told_by_the_name_alone(place: Path) -> None:
    append(opened(place), batch("s", 5, None), 5)
    append(opened(place), batch("s", 6, "q"), 6)
    with pytest.raises(AlreadyCommitted):
        append(opened(place), batch("s", 6, None), 7)
    assert ids(place) == [5, 6]


@BETWEEN
def test_it_is_known_after(place: Path, between: str) -> None:
    append(opened(place), batch("s", 0), 0)
    begun = opened(place).snapshot().version
    append(opened(place), batch("s", 1), 1)
    sql(place, between.format(begun=begun))
    with pytest.raises(AlreadyCommitted):
        append(opened(place), batch("s", 1), 1)


def test_streams_and_commit_ids_make_no_room_for_each_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "KEPT", 3)
    monkeypatch.setattr(once, "KEPT_STREAMS", 2)
    append(opened(place), CommitToken.now("job", 0))
    for number in range(5):
        append(opened(place), batch("s", number))
    assert [commit.id for commit in named_commits(opened(place).snapshot())] == ["job"]
    for number in range(5):
        append(opened(place), CommitToken.now(f"job {number}", 0))
    assert [(each.stream, each.batch) for each in last_batches(opened(place).snapshot())] == [("s", 4)]
    for stream in ("t", "s", "u"):
        append(opened(place), batch(stream, 9))
    snapshot = opened(place).snapshot()
    assert [each.stream for each in last_batches(snapshot)] == ["s", "u"]
    assert last_batch(snapshot, "t") is None


def test_one_that_is_refused_takes_no_other_of_its_group_along(place: Path) -> None:
    append(opened(place), batch("s", 5, "first"), 5)
    namespace = opened(place)
    members = [_Member(namespace.begin()) for _ in range(3)]
    members[0].transaction.once = batch("s", 6, "second")
    members[1].transaction.once = batch("s", 4, "first")
    assert _still_good(members, namespace.snapshot(), namespace.store) == members[2:]
    assert [type(member.error) for member in members] == [AlreadyExists, AlreadyCommitted, type(None)]


@pytest.mark.parametrize("stream", ["", "x" * (LONGEST + 1)])
def test_a_name_that_cannot_be_remembered_is_refused(stream: str) -> None:
    with pytest.raises(InvalidInput, match=f"{len(stream)} characters; expected 1 to {LONGEST}"):
        batch(stream, 0)
