"""Tables kept as scans have opened them: not read again, unless something else lies in their place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.storage import table_versions
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import TableCache
from lance_flight.errors import NotFound, OutsideRoot


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


@pytest.fixture
def table(tmp_path: Path) -> Store:
    (tmp_path / "root").mkdir()
    store = Store(str(tmp_path / "root")).child("t")
    write(store, 1)
    return store


def test_scans_of_a_version_share_what_one_of_them_has_opened(table: Store, opened: list[str]) -> None:
    tables = TableCache()
    assert tables.open(table, 1) is tables.open(table, 1)
    write(table, 2)
    assert [tables.open(table, version).to_table()["x"].to_pylist() for version in (2, 1)] == [[2], [1]]
    assert opened == ["t", "t"]


def test_a_scan_reads_a_table_that_was_made_again(table: Store, opened: list[str]) -> None:
    tables = TableCache()
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
    tables = TableCache()
    tables.open(table, 1)
    replaced_by_link(where(Path(table.uri)))
    with pytest.raises(OutsideRoot):
        tables.open(table, 1)


def test_a_table_with_many_files_is_not_kept(table: Store, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_versions, "MOST_MANIFEST_BYTES", 1)
    tables = TableCache()
    assert tables.open(table, 1) is not tables.open(table, 1)
    assert opened == ["t", "t"]
