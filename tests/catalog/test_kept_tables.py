"""Tables kept as they were committed: the same dataset again, unless something else lies in its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.storage import table_cache
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_cache import TableCache
from lance_flight.errors import NotFound, OutsideRoot


@pytest.fixture
def committed(tmp_path: Path) -> tuple[TableCache, Store, lance.LanceDataset]:
    """A table that was just committed, kept."""
    (tmp_path / "root").mkdir()
    store = Store(str(tmp_path / "root")).child("t")
    dataset = write(store, 1)
    kept = TableCache()
    kept.keep(store, dataset)
    return kept, store, dataset


def write(store: Store, value: int) -> lance.LanceDataset:
    return lance.write_dataset(pa.table({"x": [value]}), store.uri, mode="overwrite", enable_v2_manifest_paths=True)


def test_a_version_that_lies_as_it_was_committed_is_not_opened_again(
    committed: tuple[TableCache, Store, lance.LanceDataset],
) -> None:
    kept, store, dataset = committed
    assert kept.open(store, 1) is dataset


def test_the_next_version_takes_the_place_of_the_one_before(
    committed: tuple[TableCache, Store, lance.LanceDataset],
) -> None:
    kept, store, dataset = committed
    newer = write(store, 2)
    kept.keep(store, newer)
    assert kept.open(store, 2) is newer
    assert kept.open(store, 1) is not dataset


def test_a_table_that_was_made_again_is_read(committed: tuple[TableCache, Store, lance.LanceDataset]) -> None:
    kept, store, dataset = committed
    shutil.rmtree(store.uri)
    with pytest.raises(NotFound):
        kept.open(store, 1)
    write(store, 3)
    found = kept.open(store, 1)
    assert found is not dataset
    assert int(found.version) == 1


def test_a_table_with_many_files_is_left_out(
    committed: tuple[TableCache, Store, lance.LanceDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, store, _ = committed
    monkeypatch.setattr(table_cache, "MOST_MANIFEST_BYTES", 1)
    newer = write(store, 2)
    kept.keep(store, newer)
    assert kept.open(store, 2) is not newer


def replaced_by_link(path: Path) -> None:
    elsewhere = path.parent.parent.parent / f"elsewhere-{path.name}"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


LINKS = [
    pytest.param(lambda table: table, id="the table"),
    pytest.param(lambda table: table / "_versions", id="its versions"),
    pytest.param(lambda table: table / "data", id="its files"),
    pytest.param(lambda table: table / "_transactions", id="its transactions"),
]


@pytest.mark.parametrize("where", LINKS)
def test_a_link_in_its_place_is_not_followed(
    committed: tuple[TableCache, Store, lance.LanceDataset], where: Callable[[Path], Path]
) -> None:
    kept, store, _ = committed
    replaced_by_link(where(Path(store.uri)))
    with pytest.raises(OutsideRoot):
        kept.open(store, 1)


def test_the_oldest_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "MOST_TABLES", 2)
    kept, root = TableCache(), Store(str(tmp_path))
    tables = [(root.child(f"t{number}"), write(root.child(f"t{number}"), number)) for number in range(3)]
    for store, dataset in tables:
        kept.keep(store, dataset)
    assert [kept.open(store, 1) is dataset for store, dataset in tables] == [False, True, True]
