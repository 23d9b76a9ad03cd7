"""Rows that were only written anew are no change, whatever else a snapshot did."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import pytest
from lance_flight.catalog.commits.transaction import Removal, Transaction
from lance_flight.catalog.commits.writer import edit_of
from lance_flight.catalog.history import steps_of
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Unsupported

from tests.catalog.pinned_layouts import lay_out, repin, table_of
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.stock import manifest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two partitions; the first one in several files, one of its rows twice."""
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    for pairs in ([(1, "a"), (2, "b")], [(1, "a")], [(3, "a")]):
        opened(tmp_path / "t").append([rows(*pairs)], evaluate)
    return tmp_path / "t"


def newest(place: Path) -> int:
    return int(manifest(place).version)


def compact(namespace: PartitionedNamespace, transaction: Transaction, value: str, without: Sequence[int] = ()) -> None:
    """Write the rows of a partition anew as a part of a transaction; all but some ids."""
    (tables,) = transaction.snapshot.tables
    table = tables.table(tables.values["partition_field_p"].to_pylist().index(value))
    store = namespace.store.child(table.location)
    dataset = partitions.open_at(store, table.pin)
    kept = [row for row in dataset.to_table().to_pylist() if row["id"] not in without]
    edit = edit_of(namespace.store, transaction.snapshot, table, Removal.everything(dataset))
    edit.fragments += partitions.write_files(store, dataset.version, rows(*((row["id"], row["p"]) for row in kept)))
    transaction.add([edit], "compact 1 partitions")


def told(place: Path, first: int, last: int) -> list[tuple[str, int, int]]:
    """What is told of a range: what happened, in which snapshot, to which id."""
    namespace = opened(place)
    schema, ids_of = SCHEMA.plain, SCHEMA.ids
    return sorted(
        (moved.change, step.snapshot, number)
        for step in steps_of(namespace, first, last)
        for moved in step.moved_rows(schema, ids_of)
        for batch in moved.read(schema, ids_of)
        for number in batch.column("id").to_pylist()
    )


def test_a_compaction_is_no_change(place: Path) -> None:
    before = newest(place)
    namespace = opened(place)
    transaction = namespace.begin()
    compact(namespace, transaction, "a")
    namespace.commits.commit(transaction)
    assert ids(place) == [1, 1, 2, 3]
    assert told(place, before, newest(place)) == []


def test_what_shares_a_snapshot_with_a_compaction_is_told(place: Path) -> None:
    before = newest(place)
    namespace = opened(place)
    transaction = namespace.begin()
    compact(namespace, transaction, "a")
    namespace.write(transaction, [rows((4, "b"), (5, "new"))], evaluate)
    after = namespace.commits.commit(transaction)
    assert told(place, before, after) == [("insert", after, 4), ("insert", after, 5)]


def test_equal_rows_cancel_out_as_often_as_they_went_and_came(place: Path) -> None:
    before = newest(place)
    namespace = opened(place)
    transaction = namespace.begin()
    compact(namespace, transaction, "a", without=[3])
    namespace.write(transaction, [rows((1, "a"), (9, "a"))], evaluate)
    after = namespace.commits.commit(transaction)
    assert ids(place) == [1, 1, 1, 2, 9]
    assert told(place, before, after) == [("delete", after, 3), ("insert", after, 1), ("insert", after, 9)]


def test_a_compaction_among_snapshots_that_have_expired_is_no_change(place: Path) -> None:
    before = newest(place)
    namespace = opened(place)
    namespace.create_tag("kept")
    transaction = namespace.begin()
    compact(namespace, transaction, "a")
    namespace.commits.commit(transaction)
    namespace.append([rows((7, "a"))], evaluate)
    after = newest(place)
    manifest(place).cleanup_old_versions(dt.timedelta(0), error_if_tagged_old_versions=False)
    assert [version for version, _ in namespace.log.history()] == [before, after]
    assert told(place, before, after) == [("insert", after, 7)]


def test_the_first_pin_of_a_table_is_no_change_and_one_that_is_lost_cannot_be_told(tmp_path: Path) -> None:
    lay_out(tmp_path / "t")
    table = "v1$k7m2n9p4q8r5s3t6$dataset"
    repin(tmp_path / "t", table)
    before = newest(tmp_path / "t")
    namespace = opened(tmp_path / "t")
    namespace.append([table_of("FR", [21])], evaluate)
    after = newest(tmp_path / "t")
    schema, ids_of = namespace.snapshot().schema.plain, namespace.snapshot().schema.ids
    found = [moved for step in steps_of(namespace, before, after) for moved in step.moved_rows(schema, ids_of)]
    assert [batch.to_pylist() for moved in found for batch in moved.read(schema, ids_of)] == [
        [{"id": 21, "country": "FR"}]
    ]
    repin(tmp_path / "t", table)
    with pytest.raises(Unsupported, match=r"v1\$k7m2n9p4q8r5s3t6\$dataset.*no fixed version"):
        list(steps_of(namespace, after, newest(tmp_path / "t")))
