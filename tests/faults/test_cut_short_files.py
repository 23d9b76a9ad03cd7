"""Files whose last write failed without an error: nothing refers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.catalog.commits.transaction import Removal
from lance_flight.catalog.storage.lance_columns import Layout, OpenFile
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import write_version
from lance_flight.catalog.tables.partitions import write_files

from tests.faults.disks import files_up_to

ROWS = 200_000
SPREAD = (0.0, 0.01, 0.2, 0.5, 0.9)
DELETIONS = pytest.mark.parametrize(
    "gone",
    [
        pytest.param([7], id="one row"),
        pytest.param(range(0, 5000, 3), id="a list"),
        pytest.param(range(0, ROWS, 2), id="bits"),
        pytest.param([*range(0, 65536, 2), 70_000, *range(140_000, 199_999)], id="bits and a list"),
    ],
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    place = tmp_path_factory.mktemp("table") / "t"
    return lance.write_dataset(pa.table({"id": range(ROWS)}), str(place))


def limits(size: int) -> Iterator[int]:
    """Lengths at which a file of this size can end early."""
    yield from sorted({int(size * part) for part in SPREAD} | {1, 5, 8, 12})


def remove(dataset: lance.LanceDataset, gone: Sequence[int]) -> int:
    """Take rows out of the only fragment; how long the deletion file is."""
    removal = Removal.of(dataset, [(0, list(gone))])
    (fragment,) = removal.updated
    return Path(dataset.uri, fragment.deletion_file.path(0)).stat().st_size


@DELETIONS
def test_a_deletion_file_that_ends_early_is_an_error(dataset: lance.LanceDataset, gone: Sequence[int]) -> None:
    size = remove(dataset, gone)
    for limit in limits(size):
        with files_up_to(limit), pytest.raises(OSError, match=r"No space left|File too large"):
            remove(dataset, gone)
    with files_up_to(2 * size):
        # Lance writes a list in any order, which compresses to another length each time.
        assert remove(dataset, gone) > size // 2


def test_deletion_files_of_a_branch_are_looked_at(tmp_path: Path) -> None:
    main = lance.write_dataset(pa.table({"id": range(10)}), str(tmp_path / "t"))
    branch = main.create_branch("side")
    Removal.of(branch, [(0, [1])])
    with files_up_to(100), pytest.raises(OSError, match=r"No space left|File too large"):
        Removal.of(branch, [(0, [2])])


def at_once(store: Store, rows: pa.Table) -> int:
    (fragment,) = write_files(store, 1, rows)
    return int(fragment.files[0].file_size_bytes)


def as_they_come(store: Store, rows: pa.Table) -> int:
    opened = OpenFile(store, Layout.of(rows.schema), cache_bytes=1 << 20)
    opened.write(rows)
    return int(opened.close().files[0].file_size_bytes)


def when_whole(store: Store, rows: pa.Table) -> int:
    opened = OpenFile(store, Layout.of(rows.schema), cache_bytes=1 << 20, is_small=True)
    opened.write(rows)
    return int(opened.close().files[0].file_size_bytes)


@pytest.mark.parametrize("write", [at_once, as_they_come, when_whole])
@pytest.mark.parametrize("number", [1, 20, 5000])
def test_a_data_file_that_ends_early_is_an_error(
    dataset: lance.LanceDataset, write: Callable[[Store, pa.Table], int], number: int
) -> None:
    rows, store = pa.table({"id": range(number)}), Store(dataset.uri)
    size = write(store, rows)
    for limit in (*limits(size), size - 6, size - 1):
        with files_up_to(limit), pytest.raises(OSError, match=r"No space left|File too large"):
            write(store, rows)
    with files_up_to(size):
        assert write(store, rows) == size


def test_a_version_that_ends_early_is_an_error_and_leaves_nothing(dataset: lance.LanceDataset) -> None:
    store, version = Store(dataset.uri), int(dataset.version)
    fragments = write_files(store, version, pa.table({"id": [-7]}))
    before = sorted(Path(dataset.uri).rglob("*"))
    for limit in (1, 100, 200):
        with files_up_to(limit), pytest.raises(OSError, match=r"No space left|File too large"):
            write_version(store, version, lance.LanceOperation.Append(fragments))
        assert sorted(Path(dataset.uri).rglob("*")) == before
    assert write_version(store, version, lance.LanceOperation.Append(fragments))
    assert dataset.checkout_version(version + 1).count_rows("id = -7") == 1
