"""Rolling a namespace back: one commit, equal to the old snapshot, whoever else is writing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.catalog.commits.transaction import Transaction
from lance_flight.catalog.commits.writer import all_removed
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import NotFound, SerializationFailure, Unsupported
from lance_flight.model.spec import PartitionField, PartitionSpec
from lance_flight.model.transforms import Truncate

from tests.catalog.interrupted_commits import interrupted
from tests.catalog.pinned_layouts import lay_out, repin, table_of
from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows, written
from tests.engine.evolving import add_spec
from tests.stock import manifest, manifest_rows, stored_tables

NESTED = PartitionSpec(
    id=1,
    fields=(
        PartitionField(field_id="first", source_ids=(1,), rule=Truncate(width=1), result_type=pa.utf8()),
        *SPEC.fields,
    ),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A namespace in two levels, with rows 1 and 2 in the partitions `a` and `b`."""
    PartitionedNamespace.create(Store(str(tmp_path / "t")), SCHEMA, NESTED)
    opened(tmp_path / "t").append([rows((1, "a"), (2, "b"))], evaluate)
    return tmp_path / "t"


def newest(place: Path) -> int:
    return int(manifest(place).version)


def test_a_rollback_is_one_commit_whose_rows_are_those_of_the_old_snapshot(place: Path) -> None:
    old, before = newest(place), manifest_rows(place)
    opened(place).append([rows((3, "a"), (4, "c"))], evaluate)
    opened(place).append([rows((5, "c"), (6, "ax"))], evaluate)
    last = newest(place)
    assert opened(place).rollback(old) == newest(place) == last + 1
    assert manifest_rows(place) == before
    assert ids(place) == [1, 2]
    assert opened(place).log.operations()[last + 1] == f"rollback to {old}"


def test_a_rollback_to_what_is_there_commits_nothing(place: Path) -> None:
    last = newest(place)
    assert opened(place).rollback(last) == last == newest(place)


def test_memory_and_disk_agree_after_a_rollback(place: Path) -> None:
    namespace = opened(place)
    old = newest(place)
    namespace.append([rows((3, "a"), (4, "c"), (5, "d"))], evaluate)
    namespace.rollback(old)
    in_memory = sorted(namespace.snapshot().rows.to_pylist(), key=lambda row: str(row["object_id"]))
    assert in_memory == manifest_rows(place)
    namespace.append([rows((6, "a"), (7, "c"))], evaluate)
    assert ids(place) == [1, 2, 6, 7]


def test_rows_of_objects_that_are_none_of_ours_stay(tmp_path: Path) -> None:
    lay_out(tmp_path / "t")
    opened(tmp_path / "t").append([table_of("US", [3])], evaluate)
    old = newest(tmp_path / "t")
    other = pa.Table.from_pylist(
        [{"object_id": "elsewhere", "object_type": "namespace"}], schema=manifest(tmp_path / "t").schema
    )
    manifest(tmp_path / "t").insert(other, mode="append")
    opened(tmp_path / "t").append([table_of("FR", [4])], evaluate)
    opened(tmp_path / "t").rollback(old)
    assert ids(tmp_path / "t") == [1, 2, 3, 11]
    assert "elsewhere" in [row["object_id"] for row in manifest_rows(tmp_path / "t")]


def test_an_append_that_was_written_before_goes_on_top_of_the_old_pins(place: Path) -> None:
    old = newest(place)
    opened(place).append([rows((3, "a"))], evaluate)
    pending = written(place, (4, "a"), (5, "new"))
    opened(place).rollback(old)
    pending.commit()
    assert ids(place) == [1, 2, 4, 5]


def test_an_append_to_a_partition_that_is_gone_fails_and_shows_nothing(place: Path) -> None:
    old = newest(place)
    opened(place).append([rows((3, "c"))], evaluate)
    pending = written(place, (4, "c"), (5, "a"))
    opened(place).rollback(old)
    with pytest.raises(SerializationFailure, match="dropped by another writer"):
        pending.commit()
    assert ids(place) == [1, 2]


def test_rows_changed_on_a_version_that_is_rolled_back_are_a_conflict(place: Path) -> None:
    old = newest(place)
    opened(place).append([rows((3, "a"))], evaluate)
    namespace = opened(place)
    transaction = emptying(namespace, "a")
    opened(place).rollback(old)
    with pytest.raises(SerializationFailure, match="changed by another writer"):
        namespace.commits.commit(transaction)
    assert ids(place) == [1, 2]


def emptying(namespace: PartitionedNamespace, value: str) -> Transaction:
    """A transaction that takes all rows out of one partition."""
    transaction = namespace.begin()
    (tables,) = transaction.snapshot.tables
    table = tables.table(tables.values["partition_field_p"].to_pylist().index(value))
    transaction.add(all_removed(namespace.store, transaction.snapshot, [table]), "delete")
    return transaction


def test_what_others_commit_first_is_rolled_back_as_well(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, before = newest(place), manifest_rows(place)
    opened(place).append([rows((3, "a"))], evaluate)
    interrupted(monkeypatch, lambda: opened(place).append([rows((4, "a"), (5, "new"))], evaluate))
    opened(place).rollback(old)
    assert manifest_rows(place) == before


def test_a_partition_that_is_created_at_the_same_moment_keeps_its_parents(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, before = newest(place), manifest_rows(place)
    opened(place).append([rows((3, "c"), (4, "ca"))], evaluate)
    # In a fragment of its own the row of the spec is all that both of them touch.
    base = opened(place).snapshot()
    opened(place).log.commit(base, base.row("v1"), "move")
    interrupted(monkeypatch, lambda: opened(place).append([rows((5, "cx"))], evaluate))
    opened(place).rollback(old)
    assert manifest_rows(place) == before


def test_a_rollback_whose_answer_was_lost_happens_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = newest(place)
    opened(place).append([rows((3, "a"))], evaluate)
    last = newest(place)
    interrupted(monkeypatch, lambda: opened(place).append([rows((4, "b"))], evaluate), after=True)
    assert opened(place).rollback(old) == last + 1
    assert newest(place) == last + 2
    assert ids(place) == [1, 2, 4]


def test_specs_that_are_newer_than_the_snapshot_stay(place: Path) -> None:
    old, before = newest(place), manifest_rows(place)
    add_spec(place, PartitionSpec(id=2, fields=SPEC.fields))
    opened(place).append([rows((3, "a"), (4, "c"))], evaluate)
    opened(place).rollback(old)
    assert [row for row in manifest_rows(place) if row["object_id"] != "v2"] == before
    assert [spec.id for spec in opened(place).snapshot().specs] == [1, 2]
    opened(place).append([rows((5, "a"))], evaluate)
    assert ids(place) == [1, 2, 5]
    assert sorted(table.spec_id for table in stored_tables(place)) == [1, 1, 2]


def test_a_snapshot_whose_specs_were_others_is_refused_and_both_are_named(place: Path) -> None:
    old = newest(place)
    other = PartitionSpec(id=1, fields=NESTED.fields[::-1])
    manifest(place).update_metadata({other.key: other.to_text()})
    last = newest(place)
    with pytest.raises(Unsupported, match=f"snapshot {old} cannot be brought back: its partition specs were"):
        opened(place).rollback(old)
    assert newest(place) == last


def test_a_snapshot_whose_tables_had_no_fixed_version_is_refused(tmp_path: Path) -> None:
    lay_out(tmp_path / "t")
    repin(tmp_path / "t", "v1$k7m2n9p4q8r5s3t6$dataset")
    old = newest(tmp_path / "t")
    opened(tmp_path / "t").append([table_of("US", [5])], evaluate)
    with pytest.raises(Unsupported, match=r"v1\$k7m2n9p4q8r5s3t6\$dataset.*no fixed version"):
        opened(tmp_path / "t").rollback(old)
    assert 5 in ids(tmp_path / "t")


def test_what_is_not_there_cannot_be_brought_back(place: Path) -> None:
    for at in (999, 1, "nope"):
        with pytest.raises(NotFound):
            opened(place).rollback(at)
