"""Writes to a table that is dropped, made again, or pinned otherwise while their files are written."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.errors import Conflict, SerializationFailure

from tests.catalog.small_table import SCHEMA, SPEC, Written, ids, opened, rows, written
from tests.stock import manifest, stored_tables


def fails(late: Written) -> None:
    """The commit is refused, and the writer gives up."""
    with pytest.raises(SerializationFailure, match=r"dropped|changed"), late.namespace.changing(late.transaction):
        late.commit()


def test_a_table_that_is_gone_does_not_come_back(place: Path) -> None:
    late = written(place, (2, "a"), (3, "new"))
    shutil.rmtree(place)
    fails(late)
    assert not place.exists(), "its name is free"


def test_a_table_that_was_dropped_before_the_files_were_written_leaves_its_name_free(place: Path) -> None:
    namespace = opened(place)
    transaction = namespace.begin()
    shutil.rmtree(place)
    namespace.write(transaction, [rows((3, "new"))], evaluate)
    fails(Written(namespace, transaction))
    assert not place.exists()


def test_a_table_that_was_made_again_gets_none_of_the_old_rows(place: Path) -> None:
    late = written(place, (2, "a"), (3, "new"))
    shutil.rmtree(place)
    PartitionedNamespace.create(Store(str(place)), SCHEMA, SPEC)
    before = {path for path in place.rglob("*") if "__manifest" not in path.parts}
    fails(late)
    assert {path for path in place.rglob("*") if "__manifest" not in path.parts} == before
    opened(place).append([rows((4, "a"))], evaluate)
    assert ids(place) == [4]


def test_floating_rows_are_pinned_before_anything_is_staged_on_their_tables(place: Path) -> None:
    floating = {"object_id": [row["object_id"] for row in manifest(place).to_table().to_pylist()]}
    assert len(floating["object_id"]) == 3
    manifest(place).update({"read_version": "CAST(NULL AS BIGINT UNSIGNED)"})
    late = written(place, (2, "a"))
    late.stage()
    assert ids(place) == [1]
    late.commit()
    assert ids(place) == [1, 2]


def test_a_row_that_loses_its_pin_meanwhile_is_a_conflict(place: Path) -> None:
    late = written(place, (2, "a"))
    manifest(place).update({"read_version": "CAST(NULL AS BIGINT UNSIGNED)"}, where="object_type = 'table'")
    with pytest.raises(Conflict, match="lost its pin"):
        late.commit()
    (table,) = stored_tables(place)
    assert table.dataset.to_table()["id"].to_pylist() == [1]


def test_files_that_cannot_be_removed_hide_neither_the_error_nor_the_other_files(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, real = written(place, (2, "new"), (3, "newer"), (4, "a")), Store.remove

    def once(self: Store) -> None:
        monkeypatch.undo()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = set(place.iterdir())
    monkeypatch.setattr(Store, "remove", once)
    with pytest.raises(Conflict, match="too late"), late.namespace.changing(late.transaction):
        raise Conflict("too late")
    assert Store.remove is real
    (gone,) = before - set(place.iterdir())
    assert gone.name.endswith("$dataset")
    assert ids(place) == [1]
