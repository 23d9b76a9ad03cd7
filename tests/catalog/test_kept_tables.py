"""Tables kept as they were committed, or opened by scans: not read again, unless something else lies in their place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.storage import table_versions
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import OpenedTables, TableCache
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


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were opened from their files."""
    found: list[str] = []
    real = Store.open

    def noted(store: Store, *arguments: Any, **options: Any) -> lance.LanceDataset:
        found.append(store.name)
        return real(store, *arguments, **options)

    monkeypatch.setattr(Store, "open", noted)
    return found


def test_a_version_that_lies_as_it_was_committed_is_not_opened_again(
    committed: tuple[TableCache, Store, lance.LanceDataset], opened: list[str]
) -> None:
    kept, store, dataset = committed
    found = kept.open(store, 1)
    assert (opened, int(found.version), found.to_table()) == ([], 1, dataset.to_table())


def test_threads_do_not_lock_each_other_out_of_a_version(
    committed: tuple[TableCache, Store, lance.LanceDataset],
) -> None:
    kept, store, _ = committed

    def read(_: int) -> object:
        found = kept.open(store, 1)
        return found.read_transaction(1), found.get_version()["version"]

    with ThreadPoolExecutor(8) as pool:
        assert {version for _, version in pool.map(read, range(2000))} == {1}


@pytest.mark.parametrize("which", ["kept", "returned"])
def test_moving_a_dataset_moves_no_other(committed: tuple[TableCache, Store, lance.LanceDataset], which: str) -> None:
    kept, store, dataset = committed
    moved = dataset if which == "kept" else kept.open(store, 1)
    moved.update_metadata({"moved": "yes"})
    assert int(moved.version) == 2
    assert int(kept.open(store, 1).version) == 1
    assert kept.open(store, 1).metadata == {}


def test_the_next_version_takes_the_place_of_the_one_before(
    committed: tuple[TableCache, Store, lance.LanceDataset], opened: list[str]
) -> None:
    kept, store, _ = committed
    kept.keep(store, write(store, 2))
    assert int(kept.open(store, 2).version) == 2
    assert opened == []
    assert int(kept.open(store, 1).version) == 1
    assert opened == ["t"]


def test_a_table_that_was_made_again_is_read(
    committed: tuple[TableCache, Store, lance.LanceDataset], opened: list[str]
) -> None:
    kept, store, _ = committed
    shutil.rmtree(store.uri)
    with pytest.raises(NotFound):
        kept.open(store, 1)
    write(store, 3)
    assert kept.open(store, 1).to_table()["x"].to_pylist() == [3]
    assert opened == ["t", "t"]


def test_a_table_with_many_files_is_left_out(
    committed: tuple[TableCache, Store, lance.LanceDataset], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, store, _ = committed
    monkeypatch.setattr(table_versions, "MOST_MANIFEST_BYTES", 1)
    kept.keep(store, write(store, 2))
    kept.open(store, 2)
    assert opened == ["t"]


def replaced_by_link(path: Path) -> None:
    elsewhere = path.parent.parent.parent / f"elsewhere-{path.name}"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def version_file_of(table: Path) -> Path:
    return next((table / "_versions").glob("*.manifest"))


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


def test_the_oldest_is_let_go_of(tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_versions, "MOST_TABLES", 2)
    kept, root = TableCache(), Store(str(tmp_path))
    tables = [(root.child(f"t{number}"), write(root.child(f"t{number}"), number)) for number in range(3)]
    for store, dataset in tables:
        kept.keep(store, dataset)
    for store, _ in tables:
        kept.open(store, 1)
    assert opened == ["t0"]


@pytest.fixture
def table(tmp_path: Path) -> Store:
    (tmp_path / "root").mkdir()
    store = Store(str(tmp_path / "root")).child("t")
    write(store, 1)
    return store


def test_scans_of_a_version_share_what_one_of_them_has_opened(table: Store, opened: list[str]) -> None:
    tables = OpenedTables()
    assert tables.open(table, 1) is tables.open(table, 1)
    write(table, 2)
    assert [tables.open(table, version).to_table()["x"].to_pylist() for version in (2, 1)] == [[2], [1]]
    assert opened == ["t", "t"]


def test_a_scan_reads_a_table_that_was_made_again(table: Store, opened: list[str]) -> None:
    tables = OpenedTables()
    tables.open(table, 1)
    shutil.rmtree(table.uri)
    with pytest.raises(NotFound):
        tables.open(table, 1)
    write(table, 3)
    assert tables.open(table, 1).to_table()["x"].to_pylist() == [3]


@pytest.mark.parametrize("where", [*LINKS, pytest.param(version_file_of, id="the version")])
def test_a_scan_follows_no_link_that_took_the_place_of_what_it_had_opened(
    table: Store, where: Callable[[Path], Path]
) -> None:
    tables = OpenedTables()
    tables.open(table, 1)
    replaced_by_link(where(Path(table.uri)))
    with pytest.raises(OutsideRoot):
        tables.open(table, 1)
