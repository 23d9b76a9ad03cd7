"""Appends of few rows: where their files lie, what they go on top of, and what they leave in `__manifest`."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance_flight.catalog.manifests.manifest_rows import FREE_ROWS, Rewrite, _choose_folded
from lance_flight.catalog.manifests.snapshot import Version
from lance_flight.catalog.storage.lance_columns import Layout
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import OFFSET_BITS
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.catalog.tables import partitions
from lance_flight.engine.translation.evaluation import evaluate

from tests.catalog.small_table import SCHEMA, SPEC, ids, opened, rows
from tests.stock import stored_tables

PATHS = ["a b", "a%20b", "a%2Fb", "a#b", "a?b", "a%", "a+b", "a:b", "ü", "a\\b", "a[b]", "a{b}", "a*b", "~"]


@pytest.mark.slow  # every character in the name of a root
@pytest.mark.parametrize("name", PATHS)
def test_rows_lie_below_a_root_of_any_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name / "t"
    PartitionedNamespace.create(Store(str(place)), SCHEMA, SPEC)
    for number in range(3):
        opened(place).append([rows((number, "a"), (10 + number, "b"))], evaluate)
    assert ids(place) == [0, 1, 2, 10, 11, 12]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(list(place.glob("*/data/*.lance"))) == 3 * 2 + len(list(place.glob("__manifest/data/*.lance")))


def test_no_file_is_left_half_made(place: Path) -> None:
    for number in range(3):
        opened(place).append([rows((10 + number, "a"))], evaluate)
    suffixes = {path.name.rpartition(".")[2] for path in place.rglob("*") if path.is_file()}
    assert suffixes <= {"lance", "manifest", "txn", "json", "idx"}


def test_a_staged_version_is_found_beside_newer_ones_whose_first_was_vacuumed(place: Path) -> None:
    """That no file of the next version is there says nothing of those after it."""
    (table,) = stored_tables(place)
    store, base = Store(str(place / table.row["location"])), Version(table.row["read_version"])
    for number in (666, 667):
        lance.write_dataset(rows((number, "a")), store.uri, mode="append")
    first = min(Path(store.uri, "_versions").glob("*.manifest"), key=lambda path: -int(path.stem))
    following = Path(store.uri, "_versions", f"{(1 << 64) - 1 - base.version - 1:020}.manifest")
    assert following != first
    following.unlink()
    fragments = partitions.write_files(store, base.version, rows((2, "a")))
    pin = partitions.stage(store, base, LanceOperation.Append(fragments))
    assert sorted(partitions.open_at(store, pin).to_table()["id"].to_pylist()) == [1, 2]


def test_tables_of_equal_columns_and_other_numbers_have_layouts_of_their_own(tmp_path: Path) -> None:
    schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
    plain = lance.write_dataset(schema.empty_table(), str(tmp_path / "plain"))
    moved = lance.write_dataset(pa.schema({"y": pa.int64()}).empty_table(), str(tmp_path / "moved"))
    moved.add_columns(pa.schema({"x": pa.int64()}))
    turned = moved.schema
    layout = Layout.of_new(turned, "2.2")
    evolved = lance.write_dataset(schema.empty_table(), str(tmp_path / "evolved"))
    evolved.drop_columns(["x"])
    evolved.add_columns(pa.schema({"x": pa.int64()}))
    found = [layout.for_table(dataset) for dataset in (moved, evolved, plain, moved, evolved, plain)]
    assert [each and each.fields for each in found] == [(0, 1), (1, 2), None] * 2


def folded(sizes: list[int], changed: int) -> list[int]:
    """The sizes of the fragments that are written again."""
    fragments = np.repeat(np.arange(len(sizes)), sizes)
    return sorted(sizes[number] for number in _choose_folded(fragments, changed))


@pytest.mark.parametrize(
    ("sizes", "changed", "expected"),
    [
        pytest.param([FREE_ROWS], 1, [FREE_ROWS], id="few rows are written again"),
        pytest.param([FREE_ROWS + 1], 1, [], id="many are not"),
        pytest.param([10 * FREE_ROWS, 3, 5], 1, [3, 5], id="few beside many are"),
        pytest.param([FREE_ROWS, FREE_ROWS + 1], 1, [FREE_ROWS, FREE_ROWS + 1], id="as many as are written anyway"),
        pytest.param([10 * FREE_ROWS, FREE_ROWS], 1, [FREE_ROWS], id="not ten times as many"),
    ],
)
def test_fragments_of_a_manifest_are_folded_by_their_size(sizes: list[int], changed: int, expected: list[int]) -> None:
    assert folded(sizes, changed) == expected


def test_the_number_of_fragments_stays_logarithmic() -> None:
    sizes, changed = [50 * FREE_ROWS], 60
    for _ in range(2000):
        gone = folded(sizes, changed)
        for size in gone:
            sizes.remove(size)
        sizes.append(sum(gone) + changed)
    assert len(sizes) <= 8


def test_a_small_manifest_is_one_fragment_without_deleted_rows(place: Path) -> None:
    namespace = opened(place)
    for number in range(4):
        namespace.append([rows((10 + number, "a"), (20 + number, f"new {number}"))], evaluate)
    (fragment,) = namespace.log.open().get_fragments()
    assert fragment.metadata.deletion_file is None
    snapshot = namespace.snapshot()
    assert snapshot.addresses is not None
    assert snapshot.addresses.tolist() == [
        (fragment.fragment_id << OFFSET_BITS) + n for n in range(snapshot.rows.num_rows)
    ]
    assert Rewrite.of(snapshot, snapshot.rows.slice(0, 1)).gone == {}


def test_a_manifest_with_another_column_has_it_in_its_next_file(place: Path) -> None:
    namespace = opened(place)
    for number in range(2):
        namespace.append([rows((10 + number, "a"))], evaluate)
    namespace.log.add_columns(namespace.snapshot(), [pa.field("extra", pa.int64())])
    added = namespace.log.open().lance_schema.field("extra")
    for number in range(2):
        namespace.append([rows((20 + number, "a"))], evaluate)
        (fragment,) = namespace.log.open().get_fragments()
        (file,) = fragment.metadata.files
        assert added is not None
        assert added.id() in file.fields
        assert len(file.fields) == len(file.column_indices)
    assert ids(place) == [1, 10, 11, 20, 21]
    assert namespace.log.open().to_table()["extra"].null_count == namespace.snapshot().rows.num_rows
