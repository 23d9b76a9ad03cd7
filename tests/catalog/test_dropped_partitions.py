"""A partition that is dropped while others commit to it in the same process, or on a branch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.catalog.commits.commit import _Member
from lance_flight.catalog.commits.transaction import Transaction
from lance_flight.catalog.commits.writer import drop_rows
from lance_flight.catalog.publication import publish
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import SerializationFailure

from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows, written
from tests.stock import manifest, manifest_rows


@pytest.fixture
def place(tmp_path: Path) -> Path:
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, SPEC)
    opened(tmp_path / "t").append([rows((1, "b"))], evaluate)
    return tmp_path / "t"


def dropping(namespace: PartitionedNamespace, value: str) -> Transaction:
    """A transaction that drops a partition, before its commit."""
    transaction = namespace.begin()
    values = pa.table({"partition_field_p": [value]})
    transaction.add(drop_rows(namespace.store, transaction.snapshot, values, evaluate), "drop")
    return transaction


def commit_together(namespace: PartitionedNamespace, *transactions: Transaction) -> list[bool]:
    """Whether each of some transactions that have one turn together went through."""
    members = [_Member(transaction) for transaction in transactions]
    namespace.commits._commit(members)
    assert all(member.error is None or isinstance(member.error, SerializationFailure) for member in members)
    return [member.error is None for member in members]


ORDERS = pytest.mark.parametrize("first", ["append", "drop"])


@ORDERS
def test_rows_for_a_partition_that_was_made_and_dropped_meanwhile_are_not_lost(place: Path, first: str) -> None:
    late = written(place, (2, "a"))
    opened(place).append([rows((3, "a"))], evaluate)
    drop = dropping(late.namespace, "a")
    if first == "append":
        assert commit_together(late.namespace, late.transaction, drop) == [True, False]
        assert ids(place) == [1, 2, 3]
    else:
        appended, gone = reversed(commit_together(late.namespace, drop, late.transaction))
        assert appended
        assert ids(place) == ([1, 2] if gone else [1, 2, 3])


@ORDERS
def test_rows_for_a_table_that_goes_at_the_same_moment_are_refused_or_keep_it(place: Path, first: str) -> None:
    late = written(place, (2, "b"))
    drop = dropping(late.namespace, "b")
    order = [late.transaction, drop] if first == "append" else [drop, late.transaction]
    outcome = dict(zip(order, commit_together(late.namespace, *order), strict=True))
    assert sorted(outcome.values()) == [False, True]
    if outcome[late.transaction]:
        assert ids(place) == [1, 2]
    else:
        assert [row["object_id"] for row in manifest_rows(place)] == ["v1"]


def test_a_partition_that_is_made_in_a_namespace_that_goes_has_its_namespaces(place: Path) -> None:
    namespace = opened(place)
    late, gone = written(place, (2, "b"), (3, "c")), dropping(namespace, "b")
    namespace.commits.commit(gone)
    with (
        pytest.raises(SerializationFailure, match="was dropped by another writer"),
        late.namespace.changing(late.transaction),
    ):
        late.commit()
    assert [row["object_id"] for row in manifest_rows(place)] == ["v1"]
    opened(place).append([rows((2, "b"))], evaluate)
    assert len(manifest_rows(place)) == 3
    assert ids(place) == [2]


def test_a_dropped_partition_goes_from_main_when_its_branch_is_published(place: Path) -> None:
    main = opened(place)
    main.append([rows((2, "a"))], evaluate)
    main.create_branch("w")
    branch = main.on_branch("w")
    branch.commits.commit(dropping(branch, "b"))
    assert ids(place) == [1, 2]
    assert branch.snapshot().table_count == 1
    before = manifest(place).version
    publish(main, "w")
    assert ids(place) == [2]
    assert len(manifest_rows(place)) == 3
    assert main.snapshot(before).table_count == 2
